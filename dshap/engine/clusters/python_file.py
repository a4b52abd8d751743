"""A cluster that a Python file of the user's starts."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dshap.core.errors import DshapError, InputError
from dshap.engine.clusters.worker import WorkerOptions


def client_of_file(
    worker: WorkerOptions,
    file: str,
    workers: int | None = None,
    memory_limit: str | int | None = None,
) -> Any:
    """The Dask client that `client(workers, memory_limit)` of the user's file gives."""
    place = f'[cluster] file = "{file}"'
    if not Path(file).is_file():
        raise InputError(f"{place}: there is no such file")
    try:
        # not "__main__", so that a file which also serves as a script runs no more than its
        # definitions
        names = runpy.run_path(file, run_name="dshap_cluster")
        make: Callable[..., Any] | None = names.get("client")
        if make is None:
            raise InputError(
                f"{place}: it must define client(workers, memory_limit), which returns a Dask "
                "client"
            )
        client = make(workers=workers, memory_limit=memory_limit or worker.process_memory)
    except DshapError:
        raise
    except Exception as error:
        raise InputError(f"{place} failed: {type(error).__name__}: {error}") from error
    if not hasattr(client, "nthreads"):
        raise InputError(
            f"{place}: client(workers, memory_limit) gave {type(client).__name__}, not a Dask "
            "client"
        )
    return client
