"""A task that takes longer than a worker lives ends the run, with the option to change."""

from __future__ import annotations

import time

import pytest
from distributed import as_completed

from dshap.core.errors import InputError
from dshap.engine import DaskExecutor
from dshap.engine.graph import Call, Reduction
from dshap.engine.lifetimes import Patience

pytestmark = pytest.mark.cluster


def test_tasks_that_end_in_time(client):
    futures = client.map(time.sleep, [0.3, 0.3, 0.3, 0.3], pure=False)
    patience = Patience(lifetime_s=1.0)
    assert set(patience.completed(as_completed(futures, loop=client.loop), lambda: True)) == set(
        futures
    )


def test_a_task_that_takes_longer_than_two_lives(client):
    future = client.submit(time.sleep, 3, pure=False)
    with pytest.raises(InputError, match=r"no task has ended for .* Give \[worker\] walltime more"):
        list(
            Patience(lifetime_s=0.2).completed(
                as_completed([future], loop=client.loop), lambda: True
            )
        )
    future.cancel()


def test_time_in_a_queue_does_not_count(client):
    future = client.submit(time.sleep, 1, pure=False)
    patience = Patience(lifetime_s=0.1)
    assert list(patience.completed(as_completed([future], loop=client.loop), lambda: False)) == [
        future
    ]


def test_a_run_whose_tasks_take_longer_than_its_workers_live(client):
    """The executor of a job with a walltime looks at them."""
    executor = DaskExecutor(client, lifetime_s=0.2)
    slow = Reduction("slow", (), Call(finish_late, ()))
    with pytest.raises(InputError, match="no task has ended for"):
        executor.run(None, [slow], lambda reduction, result: None)


def finish_late(context, total):
    time.sleep(3)
