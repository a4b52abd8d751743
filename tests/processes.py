"""Processes that tests start, forked from one that has dshap imported: a second instead of six."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from typing import Any

import dask
from distributed.utils import get_mp_context

PRELOADED = [
    "distributed",
    "dshap.api",
    "dshap.jobs",
    "dshap.sinks",
    "dshap.designs",
    "dshap.models",
    "dshap.values",
    "dshap.loops",
    "dask.array",
]


@contextlib.contextmanager
def forked(function: Callable[..., Any], *given: Any) -> Iterator[BaseProcess]:
    """A process that calls a function, in a group of its own, which is ended with the block.

    The function is imported there by its name: it stands in a module without tests.
    """
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=_call_in_own_group, args=(function, *given))
    process.start()
    try:
        yield process
    finally:
        kill_group(process)


def fork_workers() -> None:
    """Let workers of clusters of this process be forks of one that has all of dshap imported."""
    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    get_mp_context()  # lists what distributed would import there
    multiprocessing.set_forkserver_preload(PRELOADED)


def kill_group(process: BaseProcess) -> None:
    """SIGKILL of a process and of all that it has started."""
    process.kill()
    assert process.pid is not None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.join()


def _call_in_own_group(function: Callable[..., Any], *given: Any) -> None:
    os.setsid()
    function(*given)
