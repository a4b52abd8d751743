"""Busy workers: a sleeping task on many workers of one thread, by dshap's executor and by Dask alone.

    python -m tests.benchmarks.busy [--workers 64] [--seconds 0.5] [--tasks 40] [--tiny]

The workers are threads of four processes.  Each executor has `--tasks` tasks for each worker, in
turns, twice: the second turn is the one to read, as the first waits for imports.  `busy` is the share
of all workers' time that is spent in tasks; `cost` are processor seconds of the client and its
scheduler, in milliseconds a task.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import time
from collections.abc import Callable
from typing import Any

from distributed import Client, LocalCluster, Worker, as_completed

from dshap.engine import DaskExecutor
from dshap.engine.graph import Call, Reduction

PROCESSES = 4


def host(address: str, count: int, first: int) -> None:
    """Workers of this process, until the scheduler ends."""

    async def run() -> None:
        names = range(first, first + count)
        workers = [Worker(address, nthreads=1, name=f"w{name}", memory_limit=0) for name in names]
        await asyncio.gather(*workers)
        await asyncio.gather(*(worker.finished() for worker in workers))

    asyncio.run(run())


def asleep(_context: Any, _total: Any, seconds: float) -> int:
    time.sleep(seconds)
    return 1


def alone(number: int, seconds: float) -> int:
    return asleep(None, number, seconds)


def by_dask(client: Client, n_tasks: int, seconds: float) -> None:
    tasks = client.map(alone, range(n_tasks), seconds=seconds, pure=False)
    for batch in as_completed(tasks).batches():
        for task in batch:
            task.release()


def by_dshap(executor: DaskExecutor, n_tasks: int, seconds: float) -> None:
    tasks = [Reduction(f"{number}", (), Call(asleep, (seconds,))) for number in range(n_tasks)]
    executor.run(None, iter(tasks), lambda *_: None, lambda *_: None)


def measured(run: Callable[[], None], label: str, n_tasks: int, busy_s: float) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    wall_s = time.perf_counter() - wall
    cost = (time.process_time() - cpu) / n_tasks * 1e3
    print(f"{label:<8} busy {busy_s / wall_s:.3f}, cost {cost:.2f} ms a task", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    n_workers, each, seconds = given.workers, given.tasks, given.seconds
    if given.tiny:
        n_workers, each, seconds = 4, 5, 0.02
    with LocalCluster(n_workers=0, dashboard_address=None) as cluster, Client(cluster) as client:
        starting = multiprocessing.get_context("spawn")
        share = n_workers // PROCESSES
        for number in range(PROCESSES):
            arguments = (cluster.scheduler_address, share, number * share)
            starting.Process(target=host, args=arguments, daemon=True).start()
        client.wait_for_workers(share * PROCESSES, timeout=300)
        executor = DaskExecutor(client)
        n_tasks = n_workers * each
        for _ in range(2):
            measured(lambda: by_dask(client, n_tasks, seconds), "Dask", n_tasks, each * seconds)
            measured(lambda: by_dshap(executor, n_tasks, seconds), "dshap", n_tasks, each * seconds)


if __name__ == "__main__":
    main()
