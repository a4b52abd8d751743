"""Global means of noisy attributions: the upward bias of |φ̂| and φ̂² taken off, with intervals
that hold the truth."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm, t

import dshap
from dshap import designs
from dshap.analysis.rankings import rankings
from dshap.core.blocks import Attribution
from dshap.cube import feature_ranking
from dshap.cube.summary import (
    block_sums,
    estimates,
    named_means,
    share_of_coalitions,
    split_magnitude,
)
from dshap.report.attribution_lines import ranking_lines
from dshap.values import Marginal

R = 20


def attribution_of(phi, replicates=None):
    """Of one output; base and prediction are not looked at."""
    n = len(phi)
    ends = np.zeros((n, 1))
    return Attribution(phi[..., None], ends[0], ends, np.ones(n, np.int8), None if replicates is None
                       else replicates[..., None])  # fmt: skip


def means_of(phi, replicates=None):
    sums = block_sums(attribution_of(phi, replicates))[..., 0] / len(phi)
    return estimates(named_means(sums))


def noisy(truth, factors, rng):
    """φ̂ (n, d) and replicates (R, n, d) of truth (n, d), the errors sums of R groups, loads (n, d,
    factors) of each.

    With few factors the errors of all rows move together, as those of one design do.
    """
    loads = factors / np.sqrt(R * factors.shape[-1])
    parts = np.einsum("ndf,gf->gnd", loads, rng.normal(size=(R, factors.shape[-1])))
    phi = truth + parts.sum(axis=0)
    return phi, phi - np.sqrt(R / (R - 1)) * (parts - parts.mean(axis=0))


@pytest.mark.parametrize("phi", [0.0, 0.1, -0.7, 1.5, -6.0, 7.1, -7.3, 40.0])
def test_split_magnitude_is_the_mean_over_halves(phi):
    """(sign(a) b + sign(b) a)/2 of a, b = φ̂ ± h, h ~ N(0, se²), by 400,001 quantiles; the slope by
    differences."""
    error = 0.8
    h = error * norm.ppf((np.arange(400_001) + 0.5) / 400_001)
    a, b = phi + h, phi - h
    value, slope = split_magnitude(np.array([phi]), np.array([error]))
    assert_allclose(value, np.mean(np.sign(a) * b + np.sign(b) * a) / 2, atol=2e-5)
    near = [split_magnitude(np.array([phi + step]), np.array([error]))[0] for step in (1e-5, -1e-5)]
    assert_allclose(slope, (near[0] - near[1]) / 2e-5, atol=1e-6)


@pytest.mark.parametrize("phi", [0.0, 0.5, 2.0, 9.0])
def test_its_expectation(phi):
    """φ (2Φ(φ/(√2 se)) − 1): nothing where φ is 0, |φ| far from it."""
    drawn = phi + norm.ppf((np.arange(400_001) + 0.5) / 400_001)
    value, _ = split_magnitude(drawn, np.ones_like(drawn))
    assert_allclose(value.mean(), phi * (2 * norm.cdf(phi / np.sqrt(2)) - 1), atol=1e-4)


def test_without_noise_it_is_the_magnitude_and_unknown_noise_stays_unknown():
    phi = np.array([0.0, -3.0, 2.0, 1e-300])
    value, slope = split_magnitude(phi, np.zeros(4))
    assert value.tolist() == np.abs(phi).tolist()
    assert slope.tolist() == np.sign(phi).tolist()
    assert np.isnan(split_magnitude(phi, np.full(4, np.nan))[0]).all()


@pytest.mark.parametrize("ratio", [0.0, 1e-6, 0.3, 1.0, 40.0, 1e30])
def test_the_share_of_plain_magnitudes(ratio):
    """w = (√ρ − τ)/(√(1 + ρ) − τ), τ = ρ/√(2 + ρ), of A = 1 and T = 0; by 80 digits where
    differences cancel."""
    square = np.array([1.0 + ratio])  # of the estimates: the signal's and the noise's
    found = estimates(named_means(np.array([[[0.0], [1.0], square, [0.0], [1.0], [1.0]]])))
    with localcontext() as context:
        context.prec = 80
        rho = Decimal(square[0]) - 1
        low = rho / (2 + rho).sqrt()
        wanted = (rho.sqrt() - low) / ((1 + rho).sqrt() - low)
    assert_allclose(found["mean_magnitude"].value, [float(wanted)], rtol=1e-11)


def test_exact_attributions_have_plain_means(rng):
    phi = rng.normal(size=(50, 3))
    for found in (means_of(phi), means_of(phi, np.repeat(phi[None], R, axis=0))):
        assert_allclose(found["mean_magnitude"].value, np.abs(phi).mean(axis=0), rtol=1e-12)
        assert_allclose(found["mean_square"].value, np.square(phi).mean(axis=0), rtol=1e-12)
        assert all(own.std_error.max() == 0.0 for own in found.values())


def test_blocks_of_any_size_give_the_same(rng):
    phi, replicates = noisy(rng.normal(size=(60, 3)), rng.normal(size=(60, 3, 4)), rng)
    whole = block_sums(attribution_of(phi, replicates))
    parts = [
        block_sums(attribution_of(phi[cut], replicates[:, cut]))
        for cut in (slice(0, 7), slice(7, 60))
    ]
    assert_allclose(sum(parts), whole, rtol=1e-12)


@pytest.mark.parametrize("n_factors", [5, 60])
@pytest.mark.parametrize(("spread", "centre"), [(0.0, 0.0), (1.0, 0.0), (4.0, 0.0), (0.5, 5.0)])
def test_intervals_hold_the_truth(spread, centre, n_factors):
    """Nominal 95 %: at least 90 % of 800 (four players, 200 draws), where errors of rows have much
    or little in common.

    In units of the noise: null players, such as are worth little, more, and far from 0.  The four
    players of a draw are not independent; with half as many the standard deviation is 1.1 %.  Mean
    |φ̂| holds the 0 of null players never to half of the time; far from 0 the errors are those of
    the mean itself, not wider.
    """
    rng, quantile = np.random.default_rng([n_factors, int(spread * 2)]), t.ppf(0.975, R - 1)
    held, plain, errors = {"mean_magnitude": [], "mean_square": []}, [], []
    for _ in range(200):
        truth = centre + spread * rng.normal(size=(80, 4))
        phi, replicates = noisy(truth, rng.normal(size=(80, 4, n_factors)), rng)
        found = means_of(phi, replicates)
        for name, wanted in (("mean_magnitude", np.abs(truth)), ("mean_square", np.square(truth))):
            off = np.abs(found[name].value - wanted.mean(axis=0))
            held[name].append(off <= quantile * found[name].std_error)
        errors.append([found["mean_magnitude"].std_error, found["mean"].std_error])
        size = np.abs(np.array([phi, *replicates])).mean(axis=1)
        error = np.sqrt(np.square(size[1:] - size[0]).sum(axis=0))
        plain.append(np.abs(size[0] - np.abs(truth).mean(axis=0)) <= quantile * error)
    assert all(np.mean(own) >= 0.90 for own in held.values())
    assert not centre or np.ptp(np.mean(errors, axis=(0, 2))) < 0.02 * np.mean(errors)
    assert spread or centre or np.mean(plain) < 0.6


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0, 2.0, 5.0])
def test_no_bias_where_rows_are_spread_over_zero(spread):
    """200,000 rows, in units of the noise: off by less than 0.06, where mean |φ̂| is off by 0.8,
    0.5, 0.3, 0.2, 0.1."""
    rng = np.random.default_rng(5)
    truth = spread * rng.normal(size=(200_000, 1))
    parts = rng.normal(size=(R, 200_000, 1)) / np.sqrt(R)
    phi = truth + parts.sum(axis=0)
    found = means_of(phi, phi - np.sqrt(R / (R - 1)) * (parts - parts.mean(axis=0)))[
        "mean_magnitude"
    ]
    assert abs(found.value[0] - np.abs(truth).mean()) < 0.06


def test_too_few_coalitions_leave_plain_means_and_no_error(tmp_path, in_this_process):
    """Errors are NaN, and shown as a dash; nothing is known of the bias then."""
    x = np.random.default_rng(0).normal(size=(30, 8))
    store = tmp_path / "cube.zarr"
    with pytest.warns(RuntimeWarning, match="too few for standard errors"):
        cube = dshap.explain(
            Marginal(lambda x: x.prod(axis=1) + x[:, 0], x[:5]),
            x,
            design=designs.kernelshap(8, 20),
            store=store,
        )
    ranking = feature_ranking(store)
    assert_allclose(ranking.mean_magnitude, np.abs(cube.attribution).mean("instance"), rtol=1e-12)
    assert_allclose(
        ranking.root_mean_square, np.sqrt(np.square(cube.attribution).mean("instance")), rtol=1e-12
    )
    for name in ("mean", "mean_magnitude", "mean_square"):
        assert np.isnan(ranking[f"{name}_std_error"]).all()
    assert "± —" in ranking_lines(rankings({"a": store}))[3]


def test_the_share_of_coalitions_of_a_cube_without_it_is_1():
    """Of cubes of earlier versions, which have five statistics; where there is no error it is 1."""
    means = np.ones((3, 6, 2, 1))
    means[0, 4:, :, 0] = [[1.0, 0.0], [4.0, 0.0]]
    assert_allclose(share_of_coalitions(named_means(means)), [[0.25], [1.0]])
    assert_allclose(share_of_coalitions(named_means(means[:, :5])), 1.0)
    for name, found in estimates(named_means(means)).items():
        assert_allclose(estimates(named_means(means[:, :5]))[name], found)
