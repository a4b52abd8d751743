"""Clusters that scale with the tasks that wait: from zero, and up to their maximum."""

from __future__ import annotations

import time

import pytest
from distributed import Client

from dshap.engine import DaskExecutor, shut_down
from dshap.engine.backlog import LEAST_BACKLOG, is_adaptive, window_of
from dshap.engine.graph import Call, Reduction


@pytest.mark.parametrize("n_threads", [0, 1, 2, 6, 7, 64, 1000])
def test_the_window(n_threads):
    """It always keeps every thread busy; a growing cluster sees more, and asks for more threads."""
    fixed = window_of(n_threads, grows=False)
    growing = window_of(n_threads, grows=True)
    assert 2 * n_threads < fixed <= 2 * n_threads + 3
    assert growing >= LEAST_BACKLOG
    assert growing > 10 * n_threads >= n_threads


def wait_a_little(context, total):
    time.sleep(0.5)
    return 1


@pytest.mark.cluster
def test_a_cluster_that_scales_from_zero_starts_and_grows():
    """One task that waits brings the first worker, and the backlog the others, up to the maximum."""
    client = Client(
        n_workers=0,
        threads_per_worker=1,
        processes=False,
        dashboard_address=None,
        set_as_default=False,
    )
    try:
        assert not is_adaptive(client)
        client.cluster.adapt(minimum=0, maximum=3, interval="200ms")
        assert is_adaptive(client)
        executor = DaskExecutor(client, wait_s=30)
        seen = []
        reductions = [Reduction(str(number), (), Call(wait_a_little, ())) for number in range(40)]
        executor.run(None, reductions, lambda *_: seen.append(len(client.nthreads())))
        assert len(seen) == 40
        assert max(seen) == 3
    finally:
        shut_down(client)
