"""A Dask cluster of processes on this machine.

A job file in workflows/ names it: [cluster] kind = "python", file = "../cluster/local.py".  By hand it holds a cluster
up and prints its address for [cluster] kind = "scheduler"; other processes can connect then, those of other users of
this machine too:

    python cluster/local.py --workers 2 --memory-limit 2GiB
"""

from __future__ import annotations

import argparse
import signal

from distributed import Client

from dshap.engine import local_client, shut_down


def client(
    workers: int | None = None, memory_limit: str | int | None = None, *, is_open: bool = False
) -> Client:
    """Worker processes of one thread each, one a core unless said otherwise."""
    return local_client(workers, memory_limit or "auto", is_open=is_open)


def main() -> None:
    parser = argparse.ArgumentParser(description="hold a local Dask cluster up until Ctrl-C")
    parser.add_argument("--workers", type=int, default=None, help="processes (default: one a core)")
    parser.add_argument("--memory-limit", default=None, help="of one worker, like 2GiB")
    options = parser.parse_args()
    started = client(options.workers, options.memory_limit, is_open=True)
    print(started.scheduler.address, flush=True)
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda *_: None)  # ends the pause
    signal.pause()
    shut_down(started)


if __name__ == "__main__":
    main()
