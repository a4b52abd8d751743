"""One BLAS thread, beside what threadpoolctl itself finds."""

from __future__ import annotations

import sys
from types import ModuleType

import threadpoolctl

from dshap.core.threads import one_blas_thread, process_threads, thread_pools


def blas_threads() -> set[int]:
    """By a fresh look at the libraries of this process."""
    return {
        pool["num_threads"]
        for pool in threadpoolctl.threadpool_info()
        if pool["user_api"] == "blas"
    }


def test_one_blas_thread_inside_and_as_many_as_before_outside():
    for n in (2, 3):
        with threadpoolctl.threadpool_limits(n, user_api="blas"):
            with one_blas_thread():
                assert blas_threads() == {1}
            assert blas_threads() == {n}


def test_the_last_one_out_gives_the_threads_back():
    with threadpoolctl.threadpool_limits(3, user_api="blas"):
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)  # as two threads do, in any order
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {3}


def test_libraries_are_looked_for_again_where_a_module_came(monkeypatch):
    found = thread_pools()
    assert thread_pools() is found
    monkeypatch.setitem(sys.modules, "dshap_test_of_another_module", ModuleType("another"))
    again = thread_pools()
    assert again is not found and [pool["filepath"] for pool in again.info()] == [
        pool["filepath"] for pool in threadpoolctl.threadpool_info()
    ]


def test_threads_of_the_process_are_those_of_now():
    for n in (2, 3):
        with threadpoolctl.threadpool_limits(n, user_api="openmp"):
            pools = [
                pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "openmp"
            ]
            assert process_threads() == (n if pools else 1)
