"""A scheduler that runs already, with workers that others have started."""

from __future__ import annotations

from distributed import Client

from dshap.engine.certificates import Certificates
from dshap.engine.clients import connect


def at_scheduler(address: str, certificates: str | None = None) -> Client:
    """Connect to the scheduler at an address, by the certificates of a folder where one is given.

    Without it Dask's own configuration says which certificates a tls:// address is asked by.
    """
    if certificates is None:
        return connect(address)
    return connect(address, security=Certificates.of_folder(certificates).security())
