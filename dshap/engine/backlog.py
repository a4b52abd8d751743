"""Clusters that grow with the tasks that wait for them: how many tasks must wait."""

from __future__ import annotations

from typing import Any

from dshap.core.late import distributed

TASKS_AHEAD = 2
"""Number of tasks per thread that are submitted ahead of the running ones.

The window is bounded for runs of any size.
"""
GROWING_AHEAD = 10
"""Number of tasks per thread that are submitted ahead to a cluster that grows with its backlog.

Dask asks for as many threads as would do the waiting tasks in 5 s
(`distributed.adaptive.target-duration`): with tasks of a second, ten a thread ask for twice as many.
"""
LEAST_BACKLOG = 64
"""The smallest number of tasks that such a cluster sees: with tasks of a second it grows to 13
threads."""

IDLE_LOOKS = 60
"""How many seconds Dask waits before it ends a worker without tasks (`wait_count`, checks once a
second).

Its default of three seconds is shorter than the time between two stages of a run.
"""


def is_adaptive(client: distributed.Client) -> bool:
    """Whether the client's own cluster object scales by its backlog: `cluster.adapt` was called."""
    cluster: Any = client.cluster
    return getattr(cluster, "_adaptive", None) is not None


def window_of(n_threads: int, grows: bool) -> int:
    """The number of tasks that are submitted at once to a cluster with so many threads.

    Parameters
    ----------
    n_threads : threads of all workers now
    grows : whether the cluster grows with its backlog

    Examples
    --------
    >>> from dshap.engine.backlog import window_of
    >>> window_of(8, grows=False), window_of(0, grows=False), window_of(0, grows=True)
    (17, 3, 64)
    """
    if grows:
        return max(LEAST_BACKLOG, GROWING_AHEAD * n_threads + 1)
    return TASKS_AHEAD * max(1, n_threads) + 1
