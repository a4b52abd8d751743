"""What a worker has beside its tasks: the context of each run, compiled loops, memory that is given back."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import operator
from typing import Any

from distributed import WorkerPlugin

from dshap.engine.graph import Call, one_blas_thread
from dshap.loops import warm_up

__all__ = ["ContextPlugin", "add_parts", "call_task"]

M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1
"""Parameters of mallopt(3)."""
KEPT_BYTES = 64 << 20
"""Freed memory that a worker keeps from task to task: to map and zero it anew takes some 10 ms."""

WORKER_LOG = logging.getLogger("distributed.worker")

_contexts: dict[str, Any] = {}


class ContextPlugin(WorkerPlugin):
    """Gives every worker, restarted and late ones too, the context of a run, and compiles the loops there."""

    def __init__(self, name: str, context: Any) -> None:
        self.name, self.context = name, context

    def setup(self, worker: Any) -> None:
        _keep_freed_memory()
        warm_up()
        WORKER_LOG.addFilter(_is_no_failed_block)
        _contexts[self.name] = self.context

    def teardown(self, worker: Any) -> None:
        _contexts.pop(self.name, None)
        if not _contexts:
            WORKER_LOG.removeFilter(_is_no_failed_block)


def _is_no_failed_block(record: logging.LogRecord) -> bool:
    """False for the traceback that Dask logs of each task of ours that fails: the run tells the reason once."""
    is_failure = isinstance(record.msg, str) and record.msg.startswith("Compute Failed")
    return not (is_failure and isinstance(record.args, tuple) and str(record.args[0]).startswith(call_task.__name__))


def _keep_freed_memory() -> None:
    """Let glibc reuse freed arrays of up to 32 MiB, and keep at most `KEPT_BYTES` at the end of its heap.

    Dask's nanny sets MALLOC_TRIM_THRESHOLD_, which also freezes the mmap threshold at 128 KiB: every temporary above it
    is then mapped and zeroed anew, and numpy kernels take twice as long (a fit six times).
    """
    with contextlib.suppress(OSError, AttributeError):  # no glibc, nothing to set
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 32 << 20)
        libc.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


class _Mallinfo(ctypes.Structure):
    """What mallinfo2(3) tells; `fordblks` are the free bytes of all arenas."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def _give_back() -> None:
    """Give freed memory back to the system where more than `KEPT_BYTES` lies between what is in use.

    glibc gives back the end of its heap alone: a worker would grow with the time that it works.
    """
    with contextlib.suppress(OSError, AttributeError):  # no glibc, or one before 2.33
        libc = ctypes.CDLL(None)
        libc.mallinfo2.restype = _Mallinfo
        if libc.mallinfo2().fordblks > KEPT_BYTES:
            libc.malloc_trim(0)


def call_task(run: str, call: Call, *inputs: Any) -> Any:
    with one_blas_thread():
        result = call.function(_contexts[run], *inputs, *call.args)
    _give_back()
    return result


def add_parts(*parts: Any) -> Any:
    total = functools.reduce(operator.add, parts)
    _give_back()
    return total
