"""One BLAS thread, beside what threadpoolctl itself finds."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import pytest
import threadpoolctl

from dshap.core import threads
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
    assert again is not found
    assert [pool["filepath"] for pool in again.info()] == [
        pool["filepath"] for pool in threadpoolctl.threadpool_info()
    ]


def n_openmp_pools() -> int:
    return sum(pool["user_api"] == "openmp" for pool in threadpoolctl.threadpool_info())


@pytest.mark.parametrize(
    ("cores", "variable", "expected"),
    [(2, "", 2), (3, "", 3), (8, "", 3), (2, "3", 3)],  # OMP_NUM_THREADS comes first
)
def test_threads_are_no_more_than_cores_of_the_quota(monkeypatch, cores, variable, expected):
    monkeypatch.setattr(threads, "n_cores", lambda: cores)
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    with threadpoolctl.threadpool_limits(3, user_api="openmp"):
        assert process_threads() == (expected if n_openmp_pools() else 1)


def test_threads_of_the_process_are_those_of_now(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    for n in (2, 3):
        with threadpoolctl.threadpool_limits(n, user_api="openmp"):
            assert process_threads() == (n if n_openmp_pools() else 1)


def test_the_limit_holds_for_libraries_that_are_imported_late(tmp_path):
    """scipy has a BLAS of its own, which is loaded with its first use: here inside of the limit."""
    code = """
from threadpoolctl import threadpool_info
from dshap.core.threads import one_blas_thread
import scipy
with one_blas_thread():
    scipy.linalg.eigh([[1.0]])
    found = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
print(len(found), max(found))
"""
    environment = {name: text for name, text in os.environ.items() if "_NUM_THREADS" not in name}
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert ended.stdout.split() == ["2", "1"]
