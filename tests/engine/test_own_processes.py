"""Work that begins in this process, and goes on in several where that is worth their start."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from dshap.core.errors import InputError
from dshap.engine import DaskExecutor, LoopExecutor, own_processes
from dshap.engine.graph import Call, Reduction
from dshap.engine.own_processes import OwnProcesses


class Cluster:
    """The executor of a cluster that starts when it is asked, as `ClusterExecutor` is one."""

    set_limit = None

    def __init__(self, client, error=None):
        self._client = client
        self._error = error
        self.running = None
        self.taken = []

    def start(self):
        if self._error is not None:
            raise self._error
        self.running = DaskExecutor(self._client)

    def run(self, context, reductions, on_done, on_failed=None):
        self.running.run(context, self._noted(reductions), on_done, on_failed)

    def _noted(self, reductions):
        for each in reductions:
            self.taken.append(each.name)
            yield each


def plus(context, total, number):
    if number % 5 == 3:
        raise ValueError(f"no {number}")
    return context + number + (total or 0)


def part(context, number):
    return number / 7


SINGLE = [Reduction(f"{i}", (), Call(plus, (i,))) for i in range(12)]
SUMS = [
    Reduction(f"sum {i}", tuple(Call(part, (k,)) for k in range(150)), Call(plus, (i,)))
    for i in (0, 1, 2)
]
NESTED = [Reduction("all", tuple(SUMS), Call(plus, (4,)), chain=1)]


def ends(executor, context, reductions):
    found = {}

    def noted(reduction, end):
        assert any(reduction is each for each in reductions)
        found[reduction.name] = str(end) if isinstance(end, Exception) else end

    executor.run(context, iter(reductions), noted, noted)
    return found


@pytest.fixture
def at_once(monkeypatch):
    """Processes are worth their start after the first piece."""
    monkeypatch.setattr(own_processes, "LOOK_S", 0.0)
    monkeypatch.setattr(own_processes, "START_S", 0.0)


@pytest.mark.cluster
@pytest.mark.parametrize("reductions", [SINGLE, SUMS, NESTED, SINGLE + SUMS])
def test_the_rest_goes_to_the_processes_and_ends_are_the_same(client, at_once, reductions):
    expected = ends(LoopExecutor(), 10, reductions)
    said = []
    cluster = Cluster(client)
    executor = OwnProcesses(cluster, 2, said.append)
    assert ends(executor, 10, reductions) == expected
    assert cluster.taken
    assert said == ["this run takes longer: it continues in 2 processes of this machine"]
    assert ends(executor, 10, reductions) == expected
    assert cluster.taken[-len(reductions) :] == [each.name for each in reductions]
    assert len(said) == 1


def test_quick_work_stays_here():
    executor = OwnProcesses(Cluster(None, AssertionError("started")), 2, print)
    assert ends(executor, 10, SINGLE + SUMS) == ends(LoopExecutor(), 10, SINGLE + SUMS)
    assert isinstance(executor.running, LoopExecutor)


@pytest.mark.parametrize(
    ("spent", "n_done", "n_left", "is_long"),
    [
        (1.9, 1, 10**6, False),  # not looked at yet
        (100.0, 0, 10**6, False),  # nothing is done yet
        (2.5, 10, 79, False),  # 19.75 s are left: two processes save less than twice their start
        (2.5, 10, 81, True),
        (3600.0, 1, 0, False),
    ],
)
def test_processes_start_where_they_save_twice_their_start(
    monkeypatch, spent, n_done, n_left, is_long
):
    monkeypatch.setattr(own_processes, "LOOK_S", 2.0)
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(own_processes, "time", clock)
    now = [5.0]
    watched = own_processes.Watched(2)
    watched.begin()
    now[0] += spent
    assert watched.takes_long(n_done, n_left) == is_long
    alone = own_processes.Watched(1)
    alone.begin()
    now[0] += spent
    assert not alone.takes_long(n_done, n_left)


@pytest.mark.parametrize("error", [InputError("the worker processes ended as they started"), None])
def test_where_no_process_can_take_it_this_one_goes_on(client, at_once, error):
    """They do not start, or the work is not pickled."""
    said = []
    executor = OwnProcesses(Cluster(client, error), 2, said.append)
    lock = threading.Lock()

    class Locked(int):
        def __reduce__(self):
            return (threading.Lock, (lock,))

    context = 10 if error else Locked(10)
    assert ends(executor, context, SINGLE + SUMS) == ends(LoopExecutor(), 10, SINGLE + SUMS)
    assert said[1].startswith("the run continues in this process alone: ")
    assert ends(executor, context, SINGLE) == ends(LoopExecutor(), 10, SINGLE)


def test_an_error_ends_the_run(at_once):
    executor = OwnProcesses(Cluster(None, AssertionError("started")), 2, print)
    with pytest.raises(ValueError, match="no 3"):
        executor.run(10, iter([SINGLE[3]]), lambda *_: None)
