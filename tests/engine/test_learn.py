"""Passes over the rows of a table: one, one after the other, many that share the table and what was
predicted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from dshap.core.blocks import RowBlock
from dshap.core.records import Moments, Record, Stacked
from dshap.engine import LoopExecutor
from dshap.engine.learn import Learning, Predictions, learn, on_a_worker, run_once, run_pass
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
        del self[name]


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
    assert found == pytest.approx(y.var()) and len(done) == 2
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
    assert calls == ([4, 4, 2] if is_kept else 2 * [4, 4, 2]) and len(done) == 2
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
