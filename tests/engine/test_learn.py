"""Passes over the rows of a table: one, one after the other, many that share the table and what was
predicted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from dshap.core.blocks import RowBlock
from dshap.core.records import CHAIN, Moments, Record, Stacked
from dshap.engine import LoopExecutor
from dshap.engine.learn import (
    Learning,
    Predictions,
    learn,
    on_a_worker,
    run_once,
    run_pass,
    sums_of_share,
)
from dshap.tables import ArraySource

X = np.arange(20.0).reshape(10, 2)
SPANS = [(0, 4), (4, 8), (8, 10)]


class Kept(dict):
    """A store in memory; nothing is kept twice."""

    def has(self, name):
        return name in self

    def put(self, name, record):
        assert name not in self
        self[name] = record

    def get(self, name, kind):
        return self[name]

    def remove(self, name):
        self.pop(name, None)


@dataclass(frozen=True)
class Centre:
    """The mean first, then the mean square around it: a pass that another one follows."""

    mean: float | None = None
    wants = ("target",)

    def partial(self, block: RowBlock) -> Moments:
        y = block.targets
        sums = y.sum() if self.mean is None else np.square(y - self.mean).sum()
        return Moments({"sum": np.array(sums), "n": np.array(float(len(y)))})

    def finish(self, total: Moments):
        value = float(total["sum"] / total["n"])
        return Centre(value) if self.mean is None else value


@dataclass(frozen=True)
class Order:
    wants = ("predictions",)

    def partial(self, block: RowBlock) -> Stacked:
        return Stacked({"f": block.predictions, "position": block.positions})

    def finish(self, total: Stacked) -> Record:
        return Record(total.arrays)


def test_a_pass_and_the_one_that_follows():
    y, done = np.arange(10.0) ** 2, []
    table = ArraySource(X, target=y)
    found = run_pass(LoopExecutor(), Centre(), table, SPANS, lambda: done.append(1))
    assert found == pytest.approx(y.var())
    assert len(done) == 2
    assert run_once(LoopExecutor(), Centre(), table, SPANS) == Centre(y.mean())


def test_a_target_that_was_not_opened_is_an_error():
    with pytest.raises(ValueError, match="without a target"):
        run_pass(LoopExecutor(), Centre(), ArraySource(X), SPANS)


@pytest.mark.parametrize("is_kept", [True, False])
def test_predictions_are_made_once_where_they_are_kept(is_kept):
    """Rows stay in their order; kept spans are dropped when they are told to."""
    store, calls, done = Kept(), [], []

    def predict(rows):
        calls.append(len(rows))
        return rows.sum(axis=1, keepdims=True)

    predictions = Predictions(predict, store, "predictions-x", is_kept)
    learning = Learning([Order(), Order()], ["a", "b"], store, ArraySource(X), predictions)
    learn(LoopExecutor(), learning, SPANS, [0, 1], lambda: done.append(1))
    for name in "ab":
        np.testing.assert_array_equal(store[name]["f"][:, 0], X.sum(axis=1))
        np.testing.assert_array_equal(store[name]["position"], np.arange(10))
    assert calls == ([4, 4, 2] if is_kept else 2 * [4, 4, 2])
    assert len(done) == 2
    assert predictions.are_there(SPANS) is is_kept
    if is_kept:
        predictions.drop(SPANS)
    assert set(store) == {"a", "b"}


def test_only_what_is_asked_for_is_learnt():
    store = Kept()
    learning = Learning(
        [Order(), Order()], ["a", "b"], store, ArraySource(X), Predictions(len, store, "p", False)
    )
    learning = Learning(
        learning.passes,
        learning.names,
        store,
        learning.reader,
        Predictions(np.asarray, store, "p", False),
    )
    learn(LoopExecutor(), learning, SPANS, [1], lambda: None)
    assert set(store) == {"b"}


def test_a_call_where_the_files_are():
    assert on_a_worker(LoopExecutor(), lambda context: context + 1, 2) == 3


class Stopped(Exception):
    """The end of a run that was killed."""


@dataclass(frozen=True)
class Total:
    """Sums of numbers of many sizes, whose last bits tell in which order they were added."""

    read: list[int]
    last: float = np.inf
    wants = ()

    def partial(self, block: RowBlock) -> Moments:
        if len(self.read) >= self.last:
            raise Stopped
        self.read.append(block.start)
        return Moments({"sum": block.good.sum(axis=0)})

    def finish(self, total: Moments) -> Record:
        return Record(total.arrays)


def sized(n_rows: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n_rows, 3)) * 10.0 ** rng.integers(-9, 9, size=(n_rows, 1))


@pytest.mark.parametrize("n", [33, 34, 66, 67, 99, 132, 165, 200, 231, 297])
@pytest.mark.parametrize("kept", [CHAIN, 2 * CHAIN])
def test_stored_sums_leave_the_bits_and_no_file(n, kept):
    store, table = Kept(), ArraySource(sized(n))
    spans = [(i, i + 1) for i in range(n)]
    passes = [Total([]), Total([])]
    learn(LoopExecutor(), Learning(passes[:1], ["m-a"], store, table), spans, [0], list)
    learn(
        LoopExecutor(), Learning(passes, ["m-a", "m-b"], store, table, None, kept), spans, [1], list
    )
    assert store["m-a"]["sum"].tobytes() == store["m-b"]["sum"].tobytes()
    assert set(store) == {"m-a", "m-b"}


@pytest.mark.parametrize("n", [231, 300])
@pytest.mark.parametrize("kills", [[40], [70, 95], [33, 66, 98], [2, 1, 0]])
def test_a_killed_pass_goes_on_from_its_stored_sums(n, kills):
    """No span of a stored sum is read again; a few of them are there at a time."""
    store, table = Kept(), ArraySource(sized(n))
    spans = [(i, i + 1) for i in range(n)]
    whole = Total([])
    learn(LoopExecutor(), Learning([whole], ["m-a"], store, table), spans, [0], list)
    read = []
    for last in [*kills, np.inf]:
        one = Total([], last)
        learning = Learning([one], ["m-b"], store, table, None, CHAIN)
        stored = [name for name in store if name.startswith("sums-b-")]
        assert len(stored) <= 1 + (n // CHAIN).bit_length()
        if np.isfinite(last):
            with pytest.raises(Stopped):
                learn(LoopExecutor(), learning, spans, [0], list)
            n_whole = CHAIN * (len(one.read) // CHAIN)  # the rest was of no whole chain
            read += one.read[:n_whole]
        else:
            learn(LoopExecutor(), learning, spans, [0], list)
            read += one.read
    assert sorted(read) == list(range(n))
    assert store["m-b"]["sum"].tobytes() == store["m-a"]["sum"].tobytes()
    assert set(store) == {"m-a", "m-b"}


def test_sums_that_a_killed_run_left_beside_their_sum_are_removed():
    store, table = Kept(), ArraySource(sized(200))
    spans = [(i, i + 1) for i in range(200)]
    learning = Learning([Total([], 140)], ["m-a"], store, table, None, CHAIN)
    with pytest.raises(Stopped):
        learn(LoopExecutor(), learning, spans, [0], list)
    left = learning.sum_name(0, spans[:CHAIN])
    assert learning.sum_name(0, spans[: 4 * CHAIN]) in store
    assert left not in store
    for half in (spans[: 2 * CHAIN], spans[2 * CHAIN : 4 * CHAIN]):  # killed before it removed them
        store.put(learning.sum_name(0, half), Moments({"sum": np.zeros(3)}))
    ended = Learning([Total([])], ["m-a"], store, table, None, CHAIN)
    learn(LoopExecutor(), ended, spans, [0], list)
    assert set(store) == {"m-a"}
    assert len(ended.passes[0].read) == 200 - 4 * CHAIN


def test_sums_of_an_earlier_run_stay_until_the_pass_is_over():
    """A cluster that loses a worker asks for what it had computed anew, from the same files."""
    store, table = Kept(), ArraySource(sized(300))
    spans = [(i, i + 1) for i in range(300)]
    with pytest.raises(Stopped):
        learn(
            LoopExecutor(),
            Learning([Total([], 70)], ["m-a"], store, table, None, CHAIN),
            spans,
            [0],
            list,
        )
    (kept,) = [name for name in store if name.startswith("sums-")]

    class Twice(LoopExecutor):
        """An executor that computes every reduction again, as if its result had been lost."""

        def run(self, context, reductions, on_done, on_failed=None):
            for reduction in reductions:
                for done in (lambda *_: None, on_done):
                    assert kept in store
                    super().run(context, [reduction], done, on_failed)

    store.put = lambda name, record: store.update({name: record})  # as a folder does
    learning = Learning([Total([])], ["m-a"], store, table, None, CHAIN)
    learn(Twice(), learning, spans, [0], list)
    assert set(store) == {"m-a"}
    whole = Kept()
    learn(LoopExecutor(), Learning([Total([])], ["m-a"], whole, table), spans, [0], list)
    assert store["m-a"]["sum"].tobytes() == whole["m-a"]["sum"].tobytes()


@pytest.mark.parametrize("n", [20, 33, 67, 99, 231, 297])
@pytest.mark.parametrize("kept", [0, CHAIN, 2 * CHAIN])
@pytest.mark.parametrize("count", [1, 2, 3, 16])
def test_shares_leave_the_bits_of_one_process(n, kept, count):
    """In any order, whatever was learned before; no span is read twice, and the last adds them."""
    store, table = Kept(), ArraySource(sized(n))
    spans = [(i, i + 1) for i in range(n)]
    whole = [Total([]), Total([])]
    learn(LoopExecutor(), Learning(whole, ["m-a", "m-b"], store, table), spans, [0, 1], list)
    read = []
    for number in np.random.default_rng(n + count).permutation(count).tolist():
        passes = [Total(read), Total(read)]
        learning = Learning(passes, ["n-a", "n-b"], store, table, None, kept)

        def share(n_pieces, number=number):
            return range(number * n_pieces // count, (number + 1) * n_pieces // count)

        for _ in range(2):  # a share that is there is not learned again
            LoopExecutor().run(learning, sums_of_share(learning, spans, share), lambda *_: None)
    assert sorted(read) == sorted([*range(n)] * 2)
    learning = Learning([Total(read), Total(read)], ["n-a", "n-b"], store, table, None, kept)
    todo = [index for index, name in enumerate(learning.names) if not store.has(name)]
    learn(LoopExecutor(), learning, spans, todo, list)
    assert len(read) == 2 * n
    for name in ("a", "b"):
        assert store[f"n-{name}"]["sum"].tobytes() == store[f"m-{name}"]["sum"].tobytes()
    assert set(store) == {"m-a", "m-b", "n-a", "n-b"}


def test_a_share_that_is_missing_is_learned_by_who_adds():
    n = 231
    store, table = Kept(), ArraySource(sized(n))
    spans = [(i, i + 1) for i in range(n)]
    read = []
    learning = Learning([Total(read)], ["n-a"], store, table, None, CHAIN)
    sums = sums_of_share(learning, spans, lambda n_pieces: range(n_pieces // 2))
    LoopExecutor().run(learning, sums, lambda *_: None)
    n_first = len(read)
    assert 0 < n_first < n
    learn(LoopExecutor(), learning, spans, [0], list)
    assert sorted(read) == list(range(n))
    assert set(store) == {"n-a"}
