"""Rows whose values have not varied: an error floor by the rule of three, in every sampled design,
with and without rounds."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dshap
from dshap import designs
from dshap.attributors.unmet import ranges_of, with_floor
from dshap.core.blocks import DesignInfo
from dshap.values import LogOdds, Marginal
from dshap.values.links import IDENTITY
from tests.benchmarks.games import OfSums

pytestmark = pytest.mark.usefixtures("in_this_process")

D, QUOTA = 20, 18
ROWS = np.round(np.random.default_rng(0).normal(scale=3, size=(40, D)))
BACKGROUND = np.zeros((1, D))
T_QUANTILE = 2.093


def rare(x):
    """1 where the columns add up to a quota that few coalitions of a row reach."""
    return (x.sum(axis=1) >= QUOTA).astype(float)


TRUTH = OfSums(ROWS.astype(int), lambda r, sums: (sums >= QUOTA).astype(float)).shapley


def numbers(cube):
    return cube.attribution.values[..., 0], cube.std_error.values[..., 0]


def test_rounds_go_on_for_rows_that_have_not_moved():
    """Two rows of three have the same value in the first coalitions: they stopped there with errors
    of 0, although half of them are worth something."""
    cube = dshap.explain(
        Marginal(rare, BACKGROUND), ROWS, design="kernelshap", tol=0.1, max_coalitions=800
    )
    phi, error = numbers(cube)
    is_still = (phi == 0).all(axis=1)
    assert 12 < is_still.sum() < 38
    assert (np.abs(TRUTH[is_still]) > 0).any(axis=1).sum() > 2
    assert (cube.n_coalitions.values[is_still] == 800).all()
    # the range of the model is 1: some rows reach the quota
    assert_allclose(error[is_still], 3 / 800)
    assert np.isinf(cube.relative_error.values[is_still]).all()
    assert (error > 0).all()
    assert np.mean(np.abs(phi - TRUTH) <= T_QUANTILE * error) > 0.93


DESIGNS = {
    "kernelshap": designs.kernelshap(D, 400),
    "kriging": designs.kriging(D, 400, sparse=False),
    "kriging, each row by itself": designs.kriging(D, 400, sparse=True),
    "permutation": designs.permutation(D, 100),
    "local, drawn": designs.local(designs.chain(D), None, n_permutations=100),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DESIGNS)
def test_every_sampled_design_has_the_floor(name):
    """3/m of m coalitions, 3/P of P pairs of orders; rows that moved have the errors that they
    had."""
    design = DESIGNS[name]
    cube = dshap.explain(Marginal(rare, BACKGROUND), ROWS, design=design)
    phi, error = numbers(cube)
    is_still = (phi == 0).all(axis=1)
    share = 3 / (400 if "k" in name[:1] else 50)
    assert is_still.any()
    assert not is_still.all()
    assert_allclose(error[is_still], share)
    assert (np.abs(TRUTH[is_still]) <= T_QUANTILE * error[is_still]).all()
    assert (error[~is_still].max(axis=1) > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("tol", [None, 0.1])
def test_the_floor_does_not_follow_from_tiles(tol):
    """The range is that of all rows: those of a block, of a task or of a span know no less of
    it."""
    explain = partial(
        dshap.explain,
        Marginal(rare, BACKGROUND),
        ROWS[:20],
        design="kernelshap",
        tol=tol,
        max_coalitions=400,
    )
    whole = explain()
    assert (whole.attribution.values == 0).all(axis=1).any()
    other = explain(instance_tile=5, micro_rows=2, row_span=3, coalition_tile=30)
    assert_allclose(other.std_error.values, whole.std_error.values, atol=1e-12)


def test_the_range_of_the_background_counts_too():
    """No row reaches the quota, one of the rows that stand for absent columns does, by a value of
    5."""

    def f(x):
        return 5.0 * (x.sum(axis=1) > 100.0)

    background = np.zeros((4, D))
    background[3] = 10.0
    cube = dshap.explain(
        Marginal(f, background), np.full((3, D), -9.0), design=designs.kernelshap(D, 400)
    )
    phi, error = numbers(cube)
    moved = (phi != 0).any(axis=1)
    # v(empty) is 5/4: nothing is still where the base value differs
    assert moved.all()
    assert (error > 0).all()
    flat = dshap.explain(
        Marginal(lambda x: f(x) * (x[:, 0] > 9.5), background), np.zeros((2, D)), max_coalitions=400
    )
    assert (flat.std_error.values > 0).any()


def test_a_model_that_is_constant_over_everything_has_no_error():
    """Nothing is known of it but one number: rounds end at once, and the errors are 0."""
    value = Marginal(lambda x: np.full(len(x), 7.0), BACKGROUND)
    cube = dshap.explain(value, ROWS[:5], design="kernelshap", tol=0.1, max_coalitions=800)
    assert (cube.n_coalitions == 200).all()
    assert (cube.std_error < 1e-20).all()
    assert (cube.relative_error == 0).all()


def test_an_output_that_is_constant_holds_no_other_up():
    """Rounds go on for a row while an output of it may still move."""
    value = Marginal(lambda x: np.column_stack([x[:, 0], np.ones(len(x))]), BACKGROUND)
    cube = dshap.explain(value, ROWS[1:5] + 1.5, design="kernelshap", tol=0.1, max_coalitions=800)
    assert (cube.n_coalitions == 200).all()
    assert cube.std_error.values.max() < 1e-9


def test_all_coalitions_leave_nothing_unmet():
    """A design that holds every coalition has no floor: 0 is the truth."""
    rows = np.ones((3, 8)) * [[1.0], [0.0], [9.0]]
    value = Marginal(lambda x: (x.sum(axis=1) > 70.0) * 1.0, np.zeros((1, 8)))
    for design in (designs.kernelshap(8, 256), designs.kriging(8, 256)):
        cube = dshap.explain(value, rows, design=design)
        assert (cube.std_error.values[:2] == 0).all()
    assert (
        dshap.explain(value, rows, design=designs.kernelshap(8, 100)).std_error.values[:2] > 0
    ).all()


def test_noise_that_never_showed():
    """The two answers of a noisy model agree everywhere: 3/m of its range, for exact designs
    too."""
    rows = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    value = Marginal(lambda x: (x.sum(axis=1) > 2.5) * 2.0, np.zeros((1, 3)))
    cube = dshap.explain(value, rows, design="exact", stochastic=True)
    assert_allclose(cube.std_error.values[0], 2.0 * 3 / 8)


def test_the_range_goes_through_the_link():
    """log-odds of a predicted class between the least and the largest probability, that of class 0
    for both rows; a probability of 0 among the rows is no reason for infinity."""
    link = LogOdds().bound(("a", "b"))
    prediction = np.array([[0.6, 0.4], [0.9, 0.1]])
    base = np.array([0.5, 0.5])
    ends = link(np.stack([np.broadcast_to(base, prediction.shape), prediction], axis=1), prediction)
    found = ranges_of(link, np.array([0.2, 0.1]), np.array([0.9, 0.8]), base, prediction, ends)
    assert_allclose(found, np.log(0.9 / 0.1) - np.log(0.2 / 0.8), rtol=1e-7)
    assert np.isfinite(ranges_of(link, np.zeros(2), np.ones(2), base, prediction, ends)).all()
    plain = ranges_of(
        IDENTITY, np.zeros(2), np.array([3.0, 1.0]), base, prediction, np.zeros((2, 2, 2))
    )
    assert_allclose(plain, [[3.0, 1.0], [3.0, 1.0]], rtol=1e-8)


def test_with_floor_by_hand():
    """Row 0 is still, row 1 has an attribution, row 2 an error, row 3 no errors at all (NaN); two
    outputs."""
    phi, replicates = np.zeros((4, 3, 2)), np.zeros((5, 4, 3, 2))
    phi[1, 0] = replicates[:, 1, 0] = 0.1
    replicates[2, 2, 1] = 0.2
    replicates[:, 3] = np.nan
    ranges = np.array([[2.0, 4.0]] * 4)
    out = with_floor(phi, replicates, np.zeros((4, 2, 2)), ranges, 0.01)
    errors = np.sqrt(np.square(out - phi).sum(axis=0))
    assert_allclose(errors[0], [[0.02, 0.04]] * 3)
    assert_array_equal(out[:, 1:], replicates[:, 1:])
    drawn = with_floor(
        phi, replicates, np.zeros((4, 2, 2)), ranges, 0.01, np.array([True, False, True])
    )
    assert_array_equal(drawn[0, 0, 1], [0.0, 0.0])
    assert with_floor(phi, replicates, np.zeros((4, 2, 2)), ranges, 0.0) is replicates


def test_rounding_is_no_movement():
    """Attributions of 1e-16 of a value of 3 are still."""
    phi = np.full((1, 2, 1), 3e-16)
    out = with_floor(
        phi, np.repeat(phi[None], 4, axis=0), np.full((1, 2, 1), 3.0), np.ones((1, 1)), 0.5
    )
    assert_allclose(np.sqrt(np.square(out - phi).sum(axis=0)), 0.5)


@pytest.mark.parametrize(
    ("given", "share"),
    [
        ({}, 3 / 100),
        ({"n_units": 25}, 3 / 25),
        ({"n_coalitions": 1 << 10}, 0.0),
        ({"n_replicates": 0}, 0.0),
        ({"why_no_errors": "too few"}, 0.0),
    ],
)
def test_the_share_that_no_coalition_met(given, share):
    fields = {"n_players": 10, "n_coalitions": 100, "n_replicates": 20, "group_columns": 10} | given
    assert DesignInfo(**fields).unmet == pytest.approx(share)
