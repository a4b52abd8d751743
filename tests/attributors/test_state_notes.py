"""Notes of a cube on its learned states."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dshap
from dshap.attributors.state_notes import fold_error, penalties
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.values import KernelObservational, forms

N = 32_000


@pytest.fixture(scope="module")
def table():
    x = np.random.default_rng(0).normal(size=(N, 3))
    x[:, 1] += 0.6 * x[:, 0]
    return x


@pytest.fixture(scope="module")
def value(table):
    y = table[:, 0] * table[:, 1] + np.sin(table[:, 2])
    model = KernelRidge(RBF(2.0), Nystrom(60), penalty=1e-6).fit(table[:4_000], y[:4_000])
    landmarks = Nystrom(landmarks=model.expansion_.landmarks)
    return KernelObservational(model, table, landmarks, 1e-4, rank_tolerance=1e-4, enough="all")


def test_the_error_of_folds_is_noted_in_the_cube(value, table):
    note = json.loads(dshap.explain(value, table[:50], coalition_tile=2).attrs["fold_error"])
    assert note["coalitions"] == note["folded"] == 6
    assert 0.0 < note["rms"] <= note["largest"] <= forms.FOLD_ERROR
    assert 1.0 < note["landmarks"] < 60.0


def test_the_noted_error_is_that_of_the_values(value, table):
    """The error on other rows, by the values with and without folds, is near the noted one."""
    checked = value.chosen(value.choose(table))
    masks = dshap.designs.exact(3).masks[2:]
    moments = value.moments(masks, table)
    folded, whole = checked.prepare(masks, moments), value.prepare(masks, moments)
    rows = table[20_000:]
    gap = value.evaluate(folded, rows) - value.evaluate(whole, rows)
    true = np.sqrt(np.mean(gap**2, axis=(0, 2))) / value.model(rows).std()
    note = fold_error({name: folded[name] for name in ("fold_error", "size")})
    assert note["largest"] == pytest.approx(true.max(), rel=0.5)
    assert note["rms"] == pytest.approx(np.sqrt(np.mean(true**2)), rel=0.5)
    assert note["landmarks"] == folded["size"].mean()


def test_refused_folds_are_counted():
    states = {"fold_error": np.array([3e-5, np.nan, 4e-5]), "size": np.array([10.0, 60.0, 20.0])}
    assert fold_error(states) == {
        "coalitions": 3,
        "folded": 2,
        "landmarks": 15.0,
        "largest": 4e-5,
        "rms": pytest.approx(np.sqrt(12.5) * 1e-5),
    }


def test_a_cube_notes_that_every_fold_was_refused(value, table, monkeypatch):
    monkeypatch.setattr(forms, "FOLD_ERROR", 1e-13)
    note = json.loads(dshap.explain(value, table[:50]).attrs["fold_error"])
    assert note == {"coalitions": 6, "folded": 0, "landmarks": 0.0, "largest": 0.0, "rms": 0.0}


def test_nothing_is_noted_where_no_fold_was_tried(value, table):
    few = KernelObservational(
        value.expansion, table[:2_000], value.embedding, 1e-4, rank_tolerance=1e-4
    )
    assert "fold_error" not in dshap.explain(few, table[:50]).attrs
    assert fold_error({"fold_error": np.zeros(4), "size": np.full(4, 60.0)}) == {}
    assert fold_error({"penalty": np.ones(4), "error": np.ones(4)}) == {}


def test_given_penalties_are_not_noted():
    states = {"players": np.ones(3), "penalty": np.ones(3), "error": np.full(3, np.nan)}
    assert penalties(states) == {}
    assert penalties({"players": np.ones(3), "fold_error": np.zeros(3)}) == {}
