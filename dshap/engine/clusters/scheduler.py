"""A scheduler that runs already, with workers that others have started."""

from __future__ import annotations

from typing import Literal

from dshap.core.addresses import masked
from dshap.core.errors import InputError
from dshap.core.late import distributed
from dshap.engine.certificates import Certificates
from dshap.engine.clients import connect, is_encrypted


def at_scheduler(
    address: str, certificates: str | None = None, security: Literal["tls", "none"] = "tls"
) -> distributed.Client:
    """Connect to the scheduler at an address, by the certificates of a folder if one is given.

    Without it the certificates for a tls:// address come from Dask's own configuration.  An
    address without encryption that leaves this machine wants `security` "none".
    """
    if security == "none" and is_encrypted(address):
        raise InputError(
            f'[cluster] security = "none", and {masked(address)!r} is encrypted: leave one of '
            "them out"
        )
    if certificates is None:
        return connect(address, is_open=security == "none")
    return connect(address, security=Certificates.of_folder(certificates).security())
