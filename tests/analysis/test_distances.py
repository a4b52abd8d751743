"""Distances of histograms are those of numpy and scipy, to within what bins can tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dshap.analysis.distances import population_stability, stability_counts, wasserstein
from dshap.core.histograms import attribution_bins, bin_ends, histogram_of
from dshap.core.records import Moments


def of_attributions(phi: np.ndarray) -> Moments:
    return histogram_of(phi, np.zeros(len(phi), np.int64), 1)


def test_psi_is_numpys_within_the_coarser_bins():
    """About ten bins of equally many old rows; the population stability index of numpy's counts."""
    rng = np.random.default_rng(0)
    old = rng.normal(size=20_000)
    new = 0.3 + rng.normal(size=15_000)
    counts = stability_counts(of_attributions(old), of_attributions(new))
    assert counts.sum(axis=0).tolist() == [20_000, 15_000]
    assert len(counts) == 10
    assert np.abs(counts[:, 0] / 2_000 - 1).max() < 0.25
    # the bins again, by the old rows below each
    ends = np.sort(old)[np.cumsum(counts[:, 0])[:-1]]
    edges = [-np.inf, *bin_ends(attribution_bins(ends))[0], np.inf]
    np.testing.assert_array_equal(counts[:, 0], np.histogram(old, edges)[0])
    np.testing.assert_array_equal(counts[:, 1], np.histogram(new, edges)[0])
    p, q = ((counts + 0.5) / (counts + 0.5).sum(axis=0)).T
    psi = population_stability(of_attributions(old), of_attributions(new))
    assert psi == pytest.approx(((q - p) * np.log(q / p)).sum(), rel=1e-12)
    # of one population: 9 (1/n + 1/m) on average, 200 times
    found = [
        population_stability(*map(of_attributions, rng.normal(size=(2, 1_000)))) for _ in range(200)
    ]
    assert np.mean(found) == pytest.approx(9 * 2e-3, rel=0.15)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (np.zeros(100), -np.ones(50)),  # all rows alike, and a move to the left of them
        (np.full(100, 5.0), np.r_[np.full(60, 5.0), np.zeros(40)]),
        (np.r_[np.zeros(50), np.ones(50)], np.r_[np.zeros(50), np.full(50, -1.0)]),
    ],
)
def test_rows_that_leave_a_place_of_many_are_seen(old, new):
    assert population_stability(of_attributions(old), of_attributions(new)) > 0.25


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10_000), st.floats(-3, 3), st.floats(0.1, 3))
def test_the_distance_is_scipys_within_half_a_bin(seed, shift, scale):
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    rng = np.random.default_rng(seed)
    old = rng.normal(size=rng.integers(1, 400))
    new = shift + scale * rng.normal(size=rng.integers(1, 400))
    distance, error = wasserstein(of_attributions(old), of_attributions(new))
    truth = stats.wasserstein_distance(old, new)
    assert abs(distance - truth) <= error + 1e-12
    assert error <= 0.125 * (np.abs(old).mean() + np.abs(new).mean()) / 2
    assert wasserstein(of_attributions(old), of_attributions(old))[0] == 0.0
    assert population_stability(of_attributions(old), of_attributions(old)) == 0.0


def test_a_shift_within_a_bin_is_seen_by_its_mean():
    old, new = (of_attributions(np.full(10, value)) for value in (5.0, 5.1))
    assert wasserstein(old, new)[0] == pytest.approx(0.1)
    assert population_stability(old, new) == 0.0


@pytest.mark.parametrize("edge", [0.5, -3.0, 2.0**-30])
def test_a_number_at_the_end_of_a_bin_does_not_drift_by_rounding(edge):
    """Its rows lie in two bins; a move beyond one of them, or by a tenth, is seen."""
    sides = 1.0 + 1e-4 * np.r_[-np.ones(30), np.ones(70)]
    old, new = of_attributions(edge * sides), of_attributions(edge * sides[::-1] * 0.9999)
    other = of_attributions(edge * np.full(100, 0.9999))
    assert len(old["codes"]) == 2
    assert len(other["codes"]) == 1
    for one, two in ((old, new), (old, other), (other, old)):
        assert population_stability(one, two) == 0.0
        assert wasserstein(one, two)[0] <= 3e-4 * abs(edge)
    for moved in (0.93, 0.7):
        assert population_stability(old, of_attributions(edge * sides * moved)) > 0.25
