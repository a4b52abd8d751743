"""Rows that a model fails for: they fail alone, and the others are as if these were not there."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dshap
from dshap import designs
from dshap.attributors.base import BaseAttributor
from dshap.attributors.failing import TRIED, RowsError, Spared, answers, bad_rows, sparing
from dshap.attributors.trees import TreeForm
from dshap.core.blocks import Status
from dshap.core.errors import FailedBlocksError, InputError, PredictError
from dshap.cube import cube_status, open_cube
from dshap.values import Marginal, Tokens, Trees

N, D, BAD = 70, 8, 67
"""Row 67 is beyond the 64 rows that a model is tried on."""


@pytest.fixture
def rows(rng):
    return rng.normal(size=(N, D))


def smooth(x):
    return np.sin(x[:, 0]) * x[:, 1] + x[:, 2] * x[:, 3] * x[:, 4] + x[:, 5]


class Failing:
    """A model that cannot answer for mixes of one row that lack its second column: it raises, or
    gives NaN."""

    def __init__(self, row, raises, predict=smooth):
        self.row, self.raises, self.predict = row, raises, predict

    def __call__(self, x):
        is_bad = (x[:, 0] == self.row[0]) & (x[:, 1] != self.row[1])
        if self.raises and is_bad.any():
            raise ValueError("no such mix")
        return np.where(is_bad, np.nan, self.predict(x))


def explained(model, rows, store, **options):
    """The cube of a run one row of which fails."""
    with pytest.raises(
        FailedBlocksError, match=rf"1 of {N} rows has no attribution .*; row {BAD}: "
    ):
        dshap.explain(Marginal(model, rows[:10]), rows, store=store, **options)
    return open_cube(store)


RUNS = {
    "kernelshap": {"design": designs.kernelshap(D, 80)},
    "interactions": {"design": "exact", "interactions": True},
    "kriging": {"design": designs.kriging(D, 80)},
    "rounds": {"design": designs.kernelshap(D, 80), "tol": 0.05, "max_coalitions": 160},
    "parts": {"design": designs.kernelshap(D, 80), "coalition_tile": 20, "coalition_groups": 3},
}


@pytest.mark.slow
@pytest.mark.parametrize("raises", [False, True], ids=["NaN", "raises"])
@pytest.mark.parametrize("name", RUNS)
def test_one_bad_row_fails_alone(rows, tmp_path, name, raises):
    """The bits of the others are those of a model without the fault, in tiles of any size."""
    options = RUNS[name]
    for tile in (N, 32):
        whole = dshap.explain(Marginal(smooth, rows[:10]), rows, instance_tile=tile, **options)
        cube = explained(
            Failing(rows[BAD], raises),
            rows,
            tmp_path / f"{tile}.zarr",
            instance_tile=tile,
            **options,
        )
        others = np.arange(N) != BAD
        assert_array_equal(cube.status, np.where(others, Status.OK, Status.FAILED))
        for variable in (
            "attribution",
            "prediction",
            *(["std_error"] if "std_error" in whole else []),
        ):
            # solves the games of a tile together: the last bit follows their number
            if name == "kriging":
                assert_allclose(cube[variable][others], whole[variable][others], rtol=0, atol=1e-14)
            else:
                assert_array_equal(cube[variable][others], whole[variable][others])
            assert np.isnan(cube[variable][BAD]).all()
        (told,) = cube_status(tmp_path / f"{tile}.zarr").failures
        why = (
            "predict function Failing failed: ValueError: no such mix"
            if raises
            else "gave NaN or infinity"
        )
        assert (told.rows, told.first) == (1, f"row {BAD}")
        assert why in told.reason


def test_parts_of_a_bad_row_are_tried_again(rows, tmp_path):
    """Sums with rows that failed are not kept for the same run again."""
    model = Failing(rows[BAD], True)
    store, options = tmp_path / "cube.zarr", RUNS["parts"] | {"instance_tile": N}
    explained(model, rows, store, **options)
    assert not list((store / "state").glob("partial-*"))
    model.row = np.full(D, np.inf)
    cube = dshap.explain(Marginal(model, rows[:10]), rows, store=store, **options)
    assert (cube.status == Status.OK).all()


def test_a_noisy_model(rows, tmp_path):
    noise = np.random.default_rng(0)
    model = Failing(rows[BAD], True, lambda x: smooth(x) + 1e-3 * noise.normal(size=len(x)))
    cube = explained(model, rows, tmp_path / "cube.zarr", stochastic=True, design="exact")
    assert np.count_nonzero(cube.status == Status.OK) == N - 1
    assert np.isfinite(cube.std_error).sum() == (N - 1) * D


@pytest.mark.slow
def test_a_row_of_a_pilot_does_not_decide(tmp_path):
    """Whether it raises or gives NaN: the design chooses by the other rows."""
    wide = np.random.default_rng(3).normal(size=(40, 12))
    notes = []
    for raises in (True, False):
        model, store = Failing(wide[39], raises, row_sum), tmp_path / f"{raises}.zarr"
        with pytest.raises(FailedBlocksError, match=r"1 of 40 rows has .*; row 39"):
            dshap.explain(
                Marginal(model, wide[:3]), wide, store=store, design=designs.kriging(12, 64)
            )
        notes.append(open_cube(store).attrs["pilot"])
    assert notes[0] == notes[1]
    assert "NaN" not in notes[0]


def row_sum(x):
    return np.cos(x.sum(axis=1))


class Own(BaseAttributor):
    """φ = x of a model that is the sum of its columns, but of one row, whose sum is wrong."""

    def __init__(self, rows, bad):
        super().__init__(lambda x: x.sum(axis=1), rows, feature_names=None)
        self.bad = bad

    def attribute(self, rows):
        phi = rows[:, :, None].copy()
        phi[rows[:, 0] == self.bad] *= 1.01
        return self.attribution(rows, phi, np.zeros(1))


def test_a_row_that_misses_its_prediction_fails_alone(rows, tmp_path):
    with pytest.raises(
        FailedBlocksError,
        match=rf"1 of {N} rows has .*; row 5: attributions miss the prediction by",
    ):
        dshap.explain(Own(rows, rows[5, 0]), rows, store=tmp_path / "cube.zarr")
    cube = open_cube(tmp_path / "cube.zarr")
    others = np.arange(N) != 5
    assert_array_equal(cube.attribution[others, :, 0], rows[others])


def test_texts(tmp_path):
    def predict(ids):
        if ((ids == 9) & (ids.shape[1] == 3)).any():
            raise ValueError("no such word")
        return ids.sum(axis=1) * 1.0

    texts = [[1, 2], [3, 9, 4], [5, 6, 7], [8, 9], [1]]
    with pytest.raises(FailedBlocksError, match=r"1 of 5 rows has .*; row 1: .*no such word"):
        dshap.explain(Tokens(predict, 10), texts, store=tmp_path / "cube.zarr")
    cube = open_cube(tmp_path / "cube.zarr")
    assert_array_equal(cube.status, [1, 3, 1, 1, 1])
    assert_array_equal(cube.attribution[2, :, 0], [5, 6, 7])


def test_a_closed_form_tells_rows_apart(rows, tmp_path, monkeypatch):
    """Of a library that fails for a row."""
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3).fit(rows, smooth(rows))
    whole = dshap.explain(Trees(model), rows)
    phi = TreeForm.phi

    def failing(form, state, given):
        if (given[:, 0] == rows[BAD, 0]).any():
            raise InputError("not this one")
        return phi(form, state, given)

    monkeypatch.setattr(TreeForm, "phi", failing)
    with pytest.raises(FailedBlocksError, match=rf"1 of {N} rows has .*; row {BAD}: not this one"):
        dshap.explain(Trees(model), rows, store=tmp_path / "cube.zarr")
    others = np.arange(N) != BAD
    assert_array_equal(
        open_cube(tmp_path / "cube.zarr").attribution[others], whole.attribution[others]
    )


def test_calls_are_bounded():
    """However many rows fail: two calls a row, and each row in 1 + log2 n of them."""
    n = 64
    for n_bad in (0, 1, 5, 60):
        calls = []

        def halves(x, n_bad=n_bad, calls=calls):
            calls.append(len(x))
            if (x[:, 0] < n_bad).any():
                raise ValueError("no")
            return x[:, 0]

        spared = Spared(np.arange(float(n))[:, None])
        values = spared(halves, slice(0, n), ())
        assert set(spared.failed) == set(range(n_bad))
        assert np.isnan(values).sum() == n_bad
        assert len(calls) <= 2 * n + TRIED
        assert sum(calls) <= 7 * n + n + TRIED
        calls.clear()
        spared(halves, slice(0, n), ())
        # rows that failed are asked for no more by themselves
        assert calls == ([n] if not n_bad else [n, n - n_bad])


def test_a_function_at_fault_is_not_tried_row_by_row():
    """Where each of `TRIED` rows fails alone, the call as such does."""
    calls = []

    def broken(x):
        calls.append(len(x))
        raise ValueError("the service is down")

    with pytest.raises(ValueError, match="down"):
        Spared(np.zeros((1_000, 1)))(broken, slice(0, 500), ())
    assert len(calls) == 1 + TRIED
    calls.clear()
    with pytest.raises(ValueError, match="down"):
        sparing(ValueError("the service is down"), broken, np.zeros((1_000, 1)))
    assert len(calls) == TRIED


def test_want_of_memory_is_no_row_s_fault():
    def hungry(x):
        raise MemoryError

    rows = np.zeros((3, 1))
    for call in (
        lambda: Spared(rows)(hungry, slice(0, 3), ()),
        lambda: sparing(MemoryError(), hungry, rows),
    ):
        with pytest.raises(MemoryError):
            call()


def test_answers_of_which_there_are_none_are_refused():
    def fails(x):
        raise ValueError("no")

    with pytest.raises(PredictError, match="no"):
        answers(fails, np.zeros((3, 1)), ())


def test_an_error_of_rows_travels():
    error = RowsError(bad_rows(np.array([[1.0], [np.nan]]), " for a coalition"))
    other = pickle.loads(pickle.dumps(error))
    assert other.reasons == error.reasons == {1: "the model gave NaN or infinity for a coalition"}
    assert str(other) == str(error)
