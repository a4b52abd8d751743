"""Worker processes of this machine."""

from __future__ import annotations

from dshap.core.late import distributed
from dshap.engine.clients import local_client
from dshap.engine.clusters.worker import WorkerOptions


def local_workers(
    worker: WorkerOptions,
    workers: int | None = None,
    memory_limit: str | int | None = None,
    threads: int | None = None,
    minimum: int | None = None,
    maximum: int | None = None,
) -> distributed.Client:
    """Start worker processes on this machine, one for each core if `workers` is left out.

    With `maximum` their number follows the tasks that wait, from `minimum` (0) upward.

    `memory_limit` and `threads` are those of one process; their defaults come from [worker].
    """
    return local_client(
        workers,
        memory_limit or worker.process_memory or "auto",
        threads or worker.threads,
        minimum=minimum or 0,
        maximum=maximum,
        environment=worker.environment,
    )
