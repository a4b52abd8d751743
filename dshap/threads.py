"""Threads of the linear algebra of this process: the libraries that are loaded, found once."""

from __future__ import annotations

import functools
import sys
from contextlib import AbstractContextManager

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread", "thread_pools"]


def thread_pools() -> ThreadpoolController:
    """The BLAS and OpenMP libraries of this process.

    To look for them takes 3 to 6 ms, more than a small design or a step of a fit; libraries come with modules, so that
    the same are there until another module is imported.
    """
    return _pools(len(sys.modules))


@functools.lru_cache(maxsize=1)
def _pools(n_modules: int) -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[object]:
    """One BLAS thread, so that results do not depend on the cores of a machine."""
    return thread_pools().limit(limits=1, user_api="blas")
