"""Threads of the linear algebra in this process; the loaded libraries are found once."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import scipy
from threadpoolctl import ThreadpoolController

from dshap.core.cores import n_cores

_lock = Lock()
_depth = 0
_limited: list[tuple[Any, int]] = []
"""The libraries whose limit is changed, with the number of threads that each had."""


def thread_pools() -> ThreadpoolController:
    """The BLAS and OpenMP libraries loaded in this process.

    The search takes 3 to 6 ms, more than a small design or a step of a fit, so it is repeated only
    after further modules were imported: libraries are loaded by modules.  That of scipy is loaded
    here: a limit that is set before would not apply to it.
    """
    scipy.linalg.blas  # noqa: B018 (scipy imports it when it is first asked for)
    return _pools(len(sys.modules))


@functools.lru_cache(maxsize=1)
def _pools(n_modules: int) -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit this process to one BLAS thread, so that results do not depend on its cores.

    Many threads may be inside at once; the limits return when the last one leaves.  Entering takes
    some 0.01 ms: `ThreadpoolController.limit` also asks for versions, which takes ten times as long.
    """
    global _depth, _limited
    with _lock:
        if _depth == 0:
            pools = [(pool, pool.num_threads) for pool in thread_pools().lib_controllers]
            _limited = [(pool, number) for pool, number in pools if number != 1]
            for pool, _ in _limited:
                pool.set_num_threads(1)
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                for pool, number in _limited:
                    pool.set_num_threads(number)


def process_threads() -> int:
    """The number of OpenMP threads in this process: OMP_NUM_THREADS, or its cores.

    It is 1 if no OpenMP library is loaded.  OpenMP itself starts a thread for each core of the
    affinity, also if a quota leaves the process fewer.
    """
    found = max(
        (
            int(pool["num_threads"])
            for pool in thread_pools().info()
            if pool["user_api"] == "openmp"
        ),
        default=1,
    )
    if os.environ.get("OMP_NUM_THREADS"):
        return found
    return min(found, n_cores())
