"""Quick tasks in packs: as many as the client has time for, and each ends by itself."""

from __future__ import annotations

import pytest

from dshap.engine import DaskExecutor, LoopExecutor
from dshap.engine.graph import Call, Reduction
from dshap.engine.packs import GROWING_S, MOST, SHARE, TASK_COST_S, Ended, Outcome, PackSize, ended


@pytest.mark.parametrize("n_threads", [1, 2, 16, 64, 256, 4096])
@pytest.mark.parametrize("task_s", [1e-9, 1e-4, 0.01, 0.3, 2.0, 3600.0])
def test_the_client_has_time_for_all_packs(n_threads, task_s):
    """Packs end at most SHARE / TASK_COST_S times a second, where no bound forbids that."""
    size = PackSize(task_s).of(n_threads, 10**9)
    assert 1 <= size <= MOST
    needed = n_threads / task_s * TASK_COST_S / SHARE
    assert size == pytest.approx(min(MOST, max(1.0, needed)), rel=0.5)
    if size > 1:
        assert size * task_s <= n_threads * TASK_COST_S / SHARE * 1.001


def test_a_growing_cluster_sees_seconds_of_work():
    assert PackSize(0.1).of(1, 10**9) == 1
    assert PackSize(0.1).of(1, 10**9, grows=True) == round(GROWING_S / 0.1)


def test_no_thread_waits_for_long_packs_at_the_end():
    sizes = [PackSize(0.01).of(4, n_left) for n_left in range(200)]
    assert sizes == sorted(sizes)
    assert sizes[:16] == [1] * 16
    assert all(size * 8 <= n_left for n_left, size in enumerate(sizes) if size > 1)


def test_the_newest_packs_count_most():
    size = PackSize()
    assert size.of(1_000, 10**9) == 1
    for seconds in (8.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5):
        size.learn(Ended((Outcome(0, None),) * 2, seconds))
    assert size.task_s == pytest.approx(0.25, rel=0.1)


class Unsendable(Exception):
    """An error that no other process can read."""

    def __reduce__(self):
        raise TypeError("it holds a lock")


def raising(error):
    raise error


def test_a_task_that_fails_leaves_the_others_of_its_pack():
    pack = ended(
        [lambda: 1, lambda: raising(ValueError("two")), lambda: raising(Unsendable("three")), lambda: 4]
    )  # fmt: skip
    assert [outcome.result for outcome in pack.outcomes] == [1, None, None, 4]
    errors = [outcome.error for outcome in pack.outcomes]
    assert isinstance(errors[1], ValueError)
    assert str(errors[2]) == "Unsendable: three"


def halves(context, _, number):
    """Half of an even number; an error for an odd one."""
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2 + context


@pytest.mark.cluster
def test_every_reduction_ends_once_in_packs_too(client, monkeypatch):
    """As in the plain loop, whichever tasks of a pack fail."""
    monkeypatch.setattr(PackSize, "of", lambda *_: 7)
    reductions = [Reduction(str(i), (), Call(halves, (i,))) for i in range(40)]
    found = []
    for executor in (LoopExecutor(), DaskExecutor(client)):
        ends: dict[int, str] = {}

        def done(reduction, result, ends=ends):
            assert ends.setdefault(reduction.finish.args[0], f"{result}") == f"{result}"

        def failed(reduction, error, ends=ends):
            assert ends.setdefault(reduction.finish.args[0], f"{error}") == f"{error}"

        executor.run(10, iter(reductions), done, failed)
        found.append(ends)
    assert len(found[0]) == 40
    assert found[0] == found[1]
