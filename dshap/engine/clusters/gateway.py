"""A cluster of a Dask Gateway, which starts it where its administrator has configured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dshap.core.addresses import masked
from dshap.core.errors import InputError
from dshap.core.late import distributed
from dshap.engine.clusters.installed import package_of


def gateway_client(
    workers: int = 1,
    address: str | None = None,
    auth: str | None = None,
    cluster: str | None = None,
    gateway: Mapping[str, Any] | None = None,
    minimum: int | None = None,
    maximum: int | None = None,
) -> distributed.Client:
    """Start a cluster with so many workers, or reach the one of a name, which then stays.

    With `maximum` the gateway lets their number follow the tasks that wait, from `minimum` (0) upward.
    The defaults of `address` and `auth` come from the configuration of dask-gateway.  `gateway`
    are the options that it offers; its connections are encrypted by itself.
    """
    gateway_class: Any = package_of("gateway").Gateway
    given = {"address": address, "auth": auth}
    try:
        reached = gateway_class(**{name: each for name, each in given.items() if each is not None})
        if cluster is None:
            started = reached.new_cluster(shutdown_on_close=True, **(gateway or {}))
            if maximum is None:
                started.scale(workers)
            else:
                started.adapt(minimum=minimum or 0, maximum=maximum)
        else:
            started = reached.connect(cluster, shutdown_on_close=False)
        client: distributed.Client = started.get_client()
        return client
    except Exception as error:
        place = masked(address or "of the configuration of dask-gateway")
        raise InputError(
            f"no cluster of the gateway {place}: {type(error).__name__}: {error}"
        ) from error
