"""Strata, which units they hold and in which order; what the two samplers draw and how they weight
it."""

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dshap.designs import kernelshap
from dshap.designs.sampling import draw_by_kernel, draw_by_leverage, strata_of
from dshap.designs.shapley_kernel import kernel_mass, normal_matrix
from tests.designs.design_games import grown
from tests.lanes import every_pair


def kernel_weight(d, size):
    """The Shapley kernel of one coalition, written out."""
    return (d - 1) / (comb(d, size) * size * (d - size))


@pytest.mark.parametrize("d", range(2, 9))
@pytest.mark.parametrize("paired", [True, False])
def test_strata_hold_every_coalition_once(d, paired):
    units = np.concatenate([stratum.enumerate() for stratum in strata_of(d, paired)])
    masks = np.concatenate([units, ~units]) if paired else units
    assert len(np.unique(masks, axis=0)) == len(masks) == 2**d - 2
    mass = sum(stratum.mass for stratum in strata_of(d, paired))
    assert mass == pytest.approx(
        sum(comb(d, s) * kernel_weight(d, s) for s in range(1, d)), rel=1e-14
    )


@pytest.mark.parametrize("paired", [True, False])
def test_sequences_of_a_stratum_only_append(paired):
    for stratum in strata_of(9, paired):
        longest = stratum.sequence([stratum.n_units], seed=1)
        for count in (0, 1, stratum.n_units // 2):
            np.testing.assert_array_equal(stratum.sequence([count], seed=1), longest[:count])


def test_large_strata_reject_repeats_and_can_be_filled():
    """C(20, 9) = 167,960 is above the limit of shuffling; filling it keeps what was drawn first."""
    stratum = strata_of(20, True)[8]
    few, more = stratum.sequence([500], seed=2), stratum.sequence([500, 30_000], seed=2)
    full = stratum.sequence([500, 30_000, stratum.n_units], seed=2)
    np.testing.assert_array_equal(few, more[:500])
    np.testing.assert_array_equal(more, full[:30_000])
    assert len(np.unique(np.packbits(full, axis=1), axis=0)) == len(full) == stratum.n_units
    assert (full.sum(axis=1) == 9).all()


KINDS = [("leverage", True), ("leverage", False), ("kernel", True), ("kernel", False)]
every_kind = pytest.mark.parametrize(("sampling", "paired"), KINDS)


def weights(design):
    """Size and weight of every proper coalition."""
    block = design.block(2, design.n_coalitions)
    return block.masks.sum(axis=1), block.score.max(axis=1)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(
    ("d", "n", "counts", "expected"),
    [
        # 22 proper: sizes 1 and 4 are there whole (5 each), c = 6 for the two others; w(1) =
        # 4/(5·4), 4/(2·3·6)
        (5, 24, [5, 6, 6, 5], [1 / 5, 1 / 9, 1 / 9, 1 / 5]),
        # 36 proper: 6 + 6 and c = 8 for three sizes; w(1) = 5/(6·5), 5/(2·4·8), 5/(3·3·8)
        (6, 38, [6, 8, 8, 8, 6], [1 / 6, 5 / 64, 5 / 72, 5 / 64, 1 / 6]),
        # 5 proper for five sizes: c = 1; unpaired only, where every size has a stratum of its own
        (6, 7, [1, 1, 1, 1, 1], [1.0, 5 / 8, 5 / 9, 5 / 8, 1.0]),
    ],
)
def test_leverage_by_hand(d, n, counts, expected, paired):
    if paired and n < 2 * d:
        return
    sample = draw_by_leverage(strata_of(d, paired), [(n - 2) // (1 + paired)], seed=0)
    masks = np.concatenate([sample.units, ~sample.units]) if paired else sample.units
    weight = np.tile(sample.mass / (1 + paired), 1 + paired)
    sizes = masks.sum(axis=1)
    assert [(sizes == s).sum() for s in range(1, d)] == counts
    np.testing.assert_allclose(weight, np.array(expected)[sizes - 1], rtol=1e-14)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.integers(3, 40), st.booleans(), st.integers(0, 3), st.data())
def test_leverage_counts_and_weights(d, paired, seed, data):
    """Every size has c coalitions (rounded) or all; the weight is (d−1)/(s(d−s)·min(C(d,s), c))."""
    n = data.draw(st.integers(4 * d, min(2**d + 4 * d, 3000)) if d > 4 else st.just(2**d))
    design = kernelshap(d, n, paired=paired, seed=seed)
    sizes, weight = weights(design)
    c = _water_level(d, design.n_coalitions - 2)
    for s in range(1, d):
        count, expected = (sizes == s).sum(), min(c, comb(d, s))
        assert abs(count - expected) < (2 if paired and 2 * s == d else 1) + 1e-6
        assert count == comb(d, s) or comb(d, s) > c
        np.testing.assert_allclose(weight[sizes == s], kernel_mass(d, s) / expected, rtol=1e-9)


def _water_level(d, budget):
    """c with Σ_s min(c, C(d, s)) = budget, by bisection."""
    low, high = 0.0, float(budget)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (
            (middle, high)
            if sum(min(middle, comb(d, s)) for s in range(1, d)) < budget
            else (low, middle)
        )
    return high


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
def test_leverage_counts_round_without_bias(paired):
    """Mean count of each size over 400 seeds; a rounding has variance below 1/4 (1 in the paired
    middle size), so 4 standard errors are 0.1 (0.2)."""
    d, n = 9, 60
    counts = np.array(
        [
            np.bincount(weights(kernelshap(d, n, paired=paired, seed=s))[0], minlength=d)
            for s in range(400)
        ]
    )
    assert (counts.sum(axis=1) == n - 2).all()
    assert np.abs(counts.mean(axis=0)[1:] - (n - 2) / (d - 1)).max() < 0.1


@every_kind
def test_enumerated_sizes_weigh_exactly_the_kernel(sampling, paired):
    design = kernelshap(10, 400, sampling=sampling, paired=paired)
    sizes, weight = weights(design)
    full = [s for s in range(1, 10) if (sizes == s).sum() == comb(10, s)]
    assert {1, 2, 8, 9} <= set(full)
    assert 5 not in full
    for s in (1, 2, 8, 9):
        np.testing.assert_allclose(weight[sizes == s], kernel_weight(10, s), rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
@settings(max_examples=40, deadline=None)
@given(st.integers(4, 30), st.integers(0, 3), st.booleans(), st.data())
def test_kernel_weights_are_counts_over_expected_counts(paired, d, seed, is_grown, data):
    """Σ Ω is the mass of the whole kernel to rounding, and within the drawn sizes Ω is a whole
    number of one unit whatever the size: neither holds for draws that are weighted by the kernel
    again."""
    n = data.draw(st.integers(4 * d, min(2**d - 2, 2000)) if d > 4 else st.just(2**d - 4))
    design = kernelshap(d, n, sampling="kernel", paired=paired, seed=seed)
    if is_grown and 2 * n < 2**d:
        design = grown(design, 2 * n)
    sizes, weight = weights(design)
    np.testing.assert_allclose(
        weight.sum(), sum(kernel_mass(d, s) for s in range(1, d)), rtol=1e-12
    )
    kernel = np.array([0.0] + [kernel_weight(d, s) for s in range(1, d)])[sizes]
    drawn = weight[~np.isclose(weight, kernel, rtol=1e-12) | (np.abs(2 * sizes - d) <= 1)]
    counts = drawn / drawn.min()
    np.testing.assert_allclose(counts, np.round(counts), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampling", "paired", "n"), every_pair(["leverage", "kernel"], [True, False], [40, 130])
)
def test_mean_normal_matrix_is_that_of_all_coalitions(sampling, paired, n):
    """Ω is unbiased: the mean of A over 500 seeds is A of all 2^8 coalitions, to 4 standard errors
    of its 36 entries and 2 % for the rule that stops draws at the last new coalition (seeds are
    fixed)."""
    truth = normal_matrix(kernelshap(8, 256).blocks())
    drawn = (kernelshap(8, n, sampling=sampling, paired=paired, seed=s) for s in range(1000, 1500))
    sample = np.array([normal_matrix(design.blocks()) for design in drawn])
    noise = sample.std(axis=0) / np.sqrt(len(sample))
    assert (np.abs(sample.mean(axis=0) - truth) < 4 * noise + 0.02 * truth).all()


@pytest.mark.parametrize("draw", [draw_by_leverage, draw_by_kernel])
def test_binomials_that_no_float_holds(draw):
    """C(1100, 550) is above 1e308."""
    strata = strata_of(1100, True)
    sample = draw(strata, [1650], seed=0)
    assert len(np.unique(np.packbits(sample.units, axis=1), axis=0)) == 1650
    assert sample.mass.sum() == pytest.approx(sum(stratum.mass for stratum in strata), rel=1e-2)


def test_a_round_smaller_than_a_rounding_keeps_its_counts():
    """Growing by one unit at a time never takes a unit back, and weights follow what was drawn."""
    strata = strata_of(9, True)
    sample = draw_by_leverage(strata, list(range(8, 60)), seed=0)
    assert len(np.unique(sample.units, axis=0)) == 59
    once = draw_by_leverage(strata, [59], seed=0)
    assert sample.mass.sum() == pytest.approx(once.mass.sum(), rel=0.1)
