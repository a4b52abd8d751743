"""Bins that are the same in every cube: each value lies in its own, and histograms add up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dshap.core.histograms import (
    CELLS,
    OTHERS,
    attribution_bins,
    bin_ends,
    category_bins,
    histogram_of,
    histogram_quantiles,
    number_bins,
    number_of_bins,
    value_bins,
)
from dshap.core.records import Record

EDGES = [0.0, -0.0, 5e-324, -1e-320, 1.0, 1.125, np.nextafter(1.125, 0), -1.0, 1.79e308, -1.79e308]


def test_a_bin_is_sign_exponent_and_eighth():
    codes = attribution_bins(np.array([1.0, 1.1249, 1.125, 2.0, -1.0]))
    assert codes[1] == codes[0]
    assert codes[2] == codes[0] + 1
    assert codes[3] == codes[0] + 8
    assert codes[4] == -1 - codes[0]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a busy machine too
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_every_value_lies_between_the_ends_of_its_bin_and_bins_rise(values):
    values = np.sort(np.array([*values, *EDGES]))
    codes = attribution_bins(values)
    lower, upper = bin_ends(codes)
    assert (lower <= values).all()
    assert (values <= upper).all()
    assert (np.diff(codes[values != 0]) >= 0).all()


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 10_000])
def test_numbers_lie_in_bins_of_about_equal_size(n):
    values = np.random.default_rng(n).permutation(np.arange(n) / 7.0)
    bins = number_bins(values)
    counts = np.bincount(value_bins(bins, values), minlength=number_of_bins(bins))
    assert number_of_bins(bins) == min(n, 64)
    assert counts.max() - counts.min() <= max(1, n // 640)
    assert value_bins(bins, np.array([np.nan, -np.inf, np.inf])).tolist() == [
        number_of_bins(bins),
        0,
        number_of_bins(bins) - 1,
    ]


@pytest.mark.parametrize(
    "edges",
    [
        [0.5],
        [-1.0, 0.0, 5e-324, 1.0],
        [0.0, 5e-324],
        [-1.7e308, 1.7e308],
        [-np.inf, 0.0, 3.0],
        [1e300, 1.1e300],
        np.sort(np.random.default_rng(0).normal(size=63)),
        np.exp(np.linspace(-30, 30, 63)),
        2_011 + np.arange(63) / 7e9,
    ],
)
def test_many_values_lie_where_a_search_puts_them(edges):
    """On an edge, beside it, far away, missing: `_places` is `np.searchsorted`, bit for bit."""
    edges = np.array(edges)
    rng = np.random.default_rng(1)
    finite = edges[np.isfinite(edges)]
    near = rng.choice(finite, 20_000) * rng.choice([1.0, 1.0 + 2e-16, 1.0 - 2e-16, 0.5], 20_000)
    values = np.concatenate([edges, near, rng.normal(size=9), [np.nan, np.inf, -np.inf, 1e308]])
    assert len(values) > CELLS
    found = value_bins(Record({"edges": edges}), values)
    is_there = ~np.isnan(values)
    expected = np.searchsorted(edges, values[is_there], side="right")
    np.testing.assert_array_equal(found[is_there], expected)
    assert (found[~is_there] == len(edges) + 1).all()


def test_a_number_of_half_the_rows_is_alone():
    values = np.concatenate([np.zeros(5_000), np.random.default_rng(0).exponential(size=5_000)])
    found = value_bins(number_bins(values), values)
    assert set(values[found == found[0]]) == {0.0}


def test_categories_are_alone_and_rare_ones_together():
    bins = category_bins(np.array(["b", "a", "b", None, "c"], object), n_bins=3)
    assert bins["categories"].tolist() == ["a", "b", OTHERS]
    assert value_bins(bins, np.array(["a", None, "c", "new", "b"], object)).tolist() == [
        0,
        3,
        2,
        2,
        1,
    ]


def test_histograms_of_any_parts_add_up_to_that_of_all():
    rng = np.random.default_rng(3)
    phi = rng.normal(size=5_000) * 10.0 ** rng.integers(-5, 5, 5_000)
    phi[::50] = np.nan
    bins = rng.integers(0, 7, 5_000)
    whole = histogram_of(phi, bins, 7)
    parts = [histogram_of(phi[part], bins[part], 7) for part in (slice(0, 9), slice(9, 5_000))]
    total = parts[0] + parts[1]
    np.testing.assert_array_equal(total["codes"], whole["codes"])
    np.testing.assert_array_equal(total["counts"], whole["counts"])
    np.testing.assert_allclose(total["sums"], whole["sums"], rtol=1e-12)
    good = ~np.isnan(phi)
    expected = [np.abs(phi[good & (bins == place)]).sum() for place in range(7)]
    np.testing.assert_allclose(whole["magnitudes"], expected, rtol=1e-12)
    expected = [np.square(phi[good & (bins == place)]).sum() for place in range(7)]
    np.testing.assert_allclose(total["squares"], expected, rtol=1e-12)


def test_a_histogram_of_one_bin_is_that_of_several_added_up():
    rng = np.random.default_rng(5)
    phi = np.concatenate([rng.normal(size=3_000) * 10.0 ** rng.integers(-9, 9, 3_000), EDGES[:4]])
    phi[::70] = np.nan
    bins = rng.integers(0, 3, len(phi))
    several = histogram_of(phi, bins, 3)
    one = histogram_of(phi, np.zeros(len(phi), np.int64), 1)
    np.testing.assert_array_equal(one["codes"], several["codes"])
    np.testing.assert_array_equal(one["counts"], several["counts"].sum(axis=1, keepdims=True))
    for name in ("sums", "magnitudes", "squares"):
        np.testing.assert_allclose(one[name], several[name].sum(keepdims=True), rtol=1e-12)


def test_quantiles_are_right_to_within_their_bin():
    phi = np.random.default_rng(4).normal(size=20_000)
    bins = (phi > 0).astype(int)
    found = histogram_quantiles(histogram_of(phi, bins, 3), [0.25, 0.5])
    expected = [np.quantile(phi[bins == place], [0.25, 0.5]) for place in (0, 1)]
    np.testing.assert_allclose(found[:2], expected, rtol=0.125)
    assert np.isnan(found[2]).all()


@pytest.mark.parametrize(("scale", "within"), [(1.0, 1e-6), (1e200, 0.125), (1e-200, 0.125)])
def test_quantiles_are_never_further_from_the_mean_than_any_can_be(scale, within):
    """All the same: exactly that.  A rare large one: within the bounds, and within an eighth."""
    phi = scale * np.concatenate([np.full(500, 1.6), np.full(990, 1.0), np.full(10, 9.0)])
    bins = np.repeat([0, 1], [500, 1_000])
    with np.errstate(over="ignore"):
        same, mixed = histogram_quantiles(histogram_of(phi, bins, 2), [0.005, 0.25, 0.5, 0.75])
    np.testing.assert_allclose(same, 1.6 * scale, rtol=within)
    np.testing.assert_allclose(mixed, 1.0 * scale, rtol=0.125)
