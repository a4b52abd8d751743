"""Places of reasons: ties, unknown errors, what follows from what, and coverage beside the truth."""

from __future__ import annotations

import numpy as np
import pytest

import dshap
from dshap.analysis.reason_places import factor_of_pairs, reason_places
from dshap.core.code_groups import code_members
from dshap.cube.code_arrays import code_errors
from dshap.values import Marginal

ALL = np.ones((1, 4), dtype=bool)
NO_ROUNDING = np.zeros(1)


def one(values, error=None, takes_part=ALL, n_replicates=20):
    """The places of one row whose differences all have the same standard error."""
    values = np.array([values], float)
    n = values.shape[1]
    errors = None if error is None else np.full((1, n, n), error)
    found = reason_places(values, errors, n_replicates, NO_ROUNDING + 1e-12, takes_part[:, :n])
    return found.first[0].tolist(), found.last[0].tolist(), found.is_reason[0].tolist()


def test_exact_values_have_certain_places_but_for_ties():
    assert one([1.0, 3.0, -1.0, 2.0])[0] == [3, 1, 4, 2]
    first, last, is_reason = one([2.0, 3.0, 2.0, 0.0])
    assert (first, last) == ([2, 1, 2, 4], [3, 1, 3, 4])
    assert is_reason == [True, True, True, False]


def test_a_difference_of_rounding_is_a_tie():
    first, last, _ = one([2.0, 2.0 + 1e-13, 1.0, 0.5])
    assert (first, last) == ([1, 1, 3, 4], [2, 2, 3, 4])


def test_only_differences_of_enough_standard_errors_are_certain():
    factor = factor_of_pairs(4, 20)
    near = factor * 0.1 * 0.99
    first, last, is_reason = one([5.0, 5.0 - near, 1.0, near], error=0.1)
    assert (first, last) == ([1, 1, 3, 4], [2, 2, 3, 4])
    assert is_reason == [True, True, True, False]


def test_the_factor_is_that_of_all_pairs_of_codes_and_zero():
    assert factor_of_pairs(1, 20) == pytest.approx(1.7291, abs=1e-4)  # t of 19, one pair, one side
    assert factor_of_pairs(9, 20) == pytest.approx(3.5330, abs=1e-4)  # 0.05/45


def test_what_follows_from_two_certain_differences_is_certain():
    """a > b and b > c are certain, the error of a − c alone would not show it."""
    errors = np.full((1, 3, 3), 0.01)
    errors[:, 0, 2] = errors[:, 2, 0] = 10.0
    found = reason_places(np.array([[3.0, 2.0, 1.0]]), errors, 20, NO_ROUNDING, ALL[:, :3])
    assert found.first.tolist() == [[1, 2, 3]]
    assert found.is_certain.all()


def test_nothing_is_certain_where_errors_are_unknown():
    first, last, is_reason = one([5.0, 1.0, 0.5, 0.1], error=np.nan)
    assert (first, last) == ([1] * 4, [4] * 4)
    assert not any(is_reason)


def test_codes_that_take_no_part_have_no_place_and_leave_none_free():
    takes_part = np.array([[True, False, True, True]])
    first, last, is_reason = one([1.0, 9.0, 3.0, 2.0], takes_part=takes_part)
    assert (first, last) == ([3, 0, 1, 2], [3, 0, 1, 2])
    assert is_reason == [True, False, True, True]


def test_one_code_and_no_row():
    assert one([0.5]) == ([1], [1], [True])
    none = reason_places(np.zeros((0, 3)), None, 0, np.zeros(0), np.zeros((0, 3), bool))
    assert none.first.shape == (0, 3)


def share_of_wrong_rows(values, draw, n_rows=4_000, n_replicates=20):
    """The share of rows with a stated place that is wrong, and of places that are stated.

    Estimates have normal errors of the covariance of `draw`, which gives (rows, R, C) of unit sums.
    """
    n_codes = len(values)
    rng = np.random.default_rng(0)
    moved = draw(rng, n_rows, n_replicates)
    estimate = values + draw(rng, n_rows, 1)[:, 0] * np.sqrt(n_replicates)
    difference = moved[..., :, None] - moved[..., None, :]
    errors = np.sqrt(np.square(difference).sum(axis=1))
    own = np.arange(n_codes)
    errors[:, own, own] = np.sqrt(np.square(moved).sum(axis=1))
    takes_part = np.ones(estimate.shape, dtype=bool)
    found = reason_places(estimate, errors, n_replicates, np.zeros(n_rows), takes_part)
    true_place = 1 + (values[None, :] > values[:, None]).sum(axis=1)
    is_wrong = found.is_certain & (found.first != true_place)
    is_wrong |= found.is_reason & (values <= 0)
    return is_wrong.any(axis=1).mean(), found.is_certain.mean()


@pytest.mark.parametrize("gap", [0.001, 2.0, 7.0])
@pytest.mark.parametrize("is_common", [False, True], ids=["apart", "in common"])
def test_a_row_has_a_wrong_place_in_at_most_one_of_twenty(gap, is_common):
    """Values `gap` standard errors apart, from barely told apart to often told apart."""
    n_codes = 8

    def draw(rng, n_rows, n_groups):
        own = rng.normal(size=(n_rows, n_groups, n_codes))
        common = rng.normal(size=(n_rows, n_groups, 1)) * is_common
        return (own + 2 * common) / np.sqrt(20)

    wrong, stated = share_of_wrong_rows(gap * (np.arange(n_codes) - 2.0), draw)
    assert wrong <= 0.05
    if gap == 7.0:
        assert stated > 0.05  # the test would be empty where nothing is stated


@pytest.mark.slow
def test_places_of_sampled_coalitions_beside_exact_ones(in_this_process):
    """20 seeds of 256 coalitions of 12 columns: at least 95 % of the stated places are right."""
    rng = np.random.default_rng(0)
    d = 12
    x = rng.normal(size=(60, d))

    def predict(rows):
        z = rows[:, 0] - rows[:, 1] + rows[:, 2] * rows[:, 3] + np.abs(rows[:, 4])
        return 1 / (1 + np.exp(-z - 0.5 * rows[:, 5:].sum(axis=1) + rows[:, 6] * rows[:, 7]))

    groups = np.split(np.arange(d), [1, 3, 5, 6, 8])
    codes = {f"R{c}": [f"x{j}" for j in group] for c, group in enumerate(groups)}
    value = Marginal(predict, x[:10])
    rows = x[20:50]
    exact = dshap.explain(value, rows, design="exact", progress=False)["attribution"].values
    members = code_members(codes, [f"x{j}" for j in range(d)])
    truth = exact[..., 0] @ members
    place = 1 + (truth[:, None, :] > truth[:, :, None]).sum(axis=2)
    n_stated = n_right = n_certain_rows = 0
    for seed in range(20):
        design = dshap.designs.kernelshap(d, 256, seed=seed)
        cube = dshap.explain(value, rows, design=design, codes=codes, progress=False)
        errors = cube["reason_code_error"].values[..., 0]
        estimate = cube["attribution"].values[..., 0] @ members
        found = reason_places(estimate, errors, 20, np.zeros(len(rows)), np.ones(truth.shape, bool))
        n_stated += found.is_certain.sum()
        n_right += (found.is_certain & (found.first == place)).sum()
        n_certain_rows += found.is_certain.any(axis=1).sum()
    assert n_right >= 0.95 * n_stated
    assert n_stated > 1_000


def test_the_errors_of_a_cube_are_those_of_the_replicates(in_this_process, tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(20, 12))
    codes = {"a": ["x0", "x1"], "b": [f"x{j}" for j in range(2, 12)]}
    value = Marginal(lambda rows: rows[:, 0] * rows[:, 2] + np.sin(rows).sum(1), x[:5])
    design = dshap.designs.kernelshap(12, 240)
    cube = dshap.explain(value, x[10:14], design=design, codes=codes, progress=False)
    prepared = dshap.prepare(value, design=design, store=tmp_path / "p", progress=False)
    found = prepared.attributor().attribute(x[10:14])
    members = code_members(codes, [f"x{j}" for j in range(12)])
    wanted = code_errors(found.phi, found.replicates, members)
    np.testing.assert_allclose(cube["reason_code_error"].values, wanted, rtol=1e-6)
