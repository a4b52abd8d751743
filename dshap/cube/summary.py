"""Sums over the rows of a block, and the global estimates from them, with errors.

The estimates are means, mean squares and mean magnitudes.  |φ̂| and φ̂² of a noisy φ̂ are biased
upward: the square by se², the magnitude by 0.8 se if φ = 0.  A mean over rows does not remove
this bias; it is subtracted here.  The se of this bias is that of the sampled coalitions alone, whose
errors differ between columns and also occur in columns without effect.  An error of few draws or
background rows is another thing: it shifts the attributions of all rows by about the same, is a part
of each column's own effect, and leaves mean |φ̂| nearly where it is.  It counts in the standard errors
of the estimates, and nothing is subtracted for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from dshap.core.blocks import Attribution, jackknife_errors
from dshap.core.records import FloatArray

STATISTICS = (
    "sum",
    "sum_of_magnitudes",
    "sum_of_squares",
    "sum_of_split_magnitudes",
    "sum_of_variances",
    "sum_of_squared_errors",
)
"""The statistics that are summed over the rows of a block.

The variances are those of the sampled coalitions; the squared errors are those of `std_error`, which
has the part of random draws as well.  Cubes of earlier versions lack the last.
"""

FAR = 9.0
"""Number of standard errors from which Φ is 1 to the last digit.

The normal density, at most 1e-18 there, adds nothing.
"""
MOST = 1e12
"""Ratio of signal to noise above which the weight w is set to its limit 2/3."""
DOUBT = 0.2
"""The uncertainty of the weight w of mean |φ̂| in the mean magnitude.

The true weight is 0.1 to 0.3 away from w if φ is not normal.
"""


Total = Callable[[FloatArray], FloatArray]
"""The function that adds up over rows."""


def _over_rows(values: FloatArray) -> FloatArray:
    """The sum over the rows, which are the first axis."""
    return np.asarray(values.sum(axis=0))


class Estimate(NamedTuple):
    """A mean over rows (d, k) and its standard error (d, k), NaN if there are no errors."""

    value: FloatArray
    std_error: FloatArray


def split_magnitude(phi: FloatArray, std_error: FloatArray) -> tuple[FloatArray, FloatArray]:
    """T = |φ̂| (2Φ(u) − 1) − 2 se φ(u), u = |φ̂|/se, and its derivative by φ̂ (shapes as `phi`).

    T is the mean of sign(a)·b if a and b are the estimates from two random halves of the
    coalitions, a = φ̂ + h, b = φ̂ − h, h ~ N(0, se²): their errors are independent, so that its
    expectation is φ·(2Φ(φ/(√2 se)) − 1), which is 0 if φ = 0 and |φ| if |φ| is a few se.
    T is |φ̂| if se = 0, and NaN if se is NaN.
    """
    size = np.abs(phi)
    ratio = np.divide(size, std_error, out=np.full_like(size, FAR), where=std_error != 0)
    ratio = np.minimum(ratio, FAR)
    density = np.zeros_like(size)
    inside = np.ones_like(size)
    is_near = ~(ratio >= FAR)  # true for NaN too
    density[is_near] = np.exp(-0.5 * np.square(ratio[is_near])) / np.sqrt(2 * np.pi)
    inside[is_near] = 2 * scipy.special.ndtr(ratio[is_near]) - 1
    split = size * inside - 2 * std_error * density
    slope = np.sign(phi) * (inside + 4 * ratio * density)
    return split, slope


def block_sums(attribution: Attribution) -> FloatArray:
    """Sums over rows (1 + R, statistics, d, k): of the estimate, and of each jackknife replicate.

    The split magnitudes of a replicate are linearised about the estimate; the variances are those
    of the estimate throughout.
    """
    phi = attribution.phi
    replicates = attribution.replicates
    errors = attribution.std_error
    if replicates is None or errors is None:
        return _exact_sums(phi)[None]
    noise = errors if attribution.of_coalitions is None else attribution.of_coalitions
    split, slope = split_magnitude(phi, noise)
    split_sum = split.sum(axis=0)
    given = [np.square(each).sum(axis=0) for each in (noise, errors)]
    sums = []
    for estimate in (phi, *replicates):
        change = np.einsum("ndk,ndk->dk", slope, estimate - phi)
        sums.append(_sums_of(estimate, [split_sum + change, *given]))
    return np.array(sums)


def _sums_of(phi: FloatArray, given: Sequence[FloatArray], total: Total = _over_rows) -> FloatArray:
    """Sums over rows (statistics, d, k) of attributions (n, d, k), whose last sums are given."""
    return np.array([total(phi), total(np.abs(phi)), total(np.square(phi)), *given])


def _exact_sums(phi: FloatArray, total: Total = _over_rows) -> FloatArray:
    """Sums over rows (statistics, d, k) of attributions (n, d, k) without errors."""
    magnitude_sum = total(np.abs(phi))
    nothing = np.zeros_like(magnitude_sum)
    square_sum = total(np.square(phi))
    return np.array([total(phi), magnitude_sum, square_sum, magnitude_sum, nothing, nothing])


def bounded_sums(
    phi: FloatArray,
    errors: FloatArray | None,
    n_replicates: int,
    total: Total = _over_rows,
    share: FloatArray | float = 1.0,
) -> FloatArray:
    """Sums as `block_sums` (1 + R, statistics, d, k), of rows whose replicates are not known.

    The sums of the estimate are those of `block_sums`.  Behind them, the first replicate deviates
    by an upper bound of the error of each sum, the others do not deviate.  For a row let δ (R,) be
    the deviations of its replicates, with |δ| = se.  By the triangle inequality the deviations of
    a sum over rows are at most Σ se long, those of a sum of f(φ) with slope f' at most Σ |f'| se,
    those of Σ φ² at most Σ (2 |φ| se + se²).  As bounds of all blocks are in one replicate with
    one sign, `estimates` adds them up, and its standard errors are upper bounds too.

    `total` adds up over rows, or over groups of them, which are then an axis in the place of rows.
    `share` (d, k) is that of the sampled coalitions in the variances: `share_of_coalitions`.
    """
    if errors is None:
        return _exact_sums(phi, total)[None]
    noise = errors * np.sqrt(share)
    split, slope = split_magnitude(phi, noise)
    given = [total(split), total(np.square(noise)), total(np.square(errors))]
    sums = _sums_of(phi, given, total)
    bounded = sums + _bounds(phi, errors, slope, total)
    return np.stack([sums, bounded, *[sums] * (n_replicates - 1)])


def _bounds(phi: FloatArray, errors: FloatArray, slope: FloatArray, total: Total) -> FloatArray:
    """Upper bounds (statistics, d, k) of the errors of the sums of `bounded_sums`."""
    error_sum = total(errors)
    return np.array(
        [
            error_sum,
            error_sum,
            total(2 * np.abs(phi) * errors + np.square(errors)),
            total(np.abs(slope) * errors),
            np.zeros_like(error_sum),
            np.zeros_like(error_sum),
        ]
    )


def named_means(means: FloatArray) -> dict[str, FloatArray]:
    """Statistic -> its means (1 + R, …), from means (1 + R, statistics, …)."""
    return {name: means[:, place] for place, name in enumerate(STATISTICS[: means.shape[1]])}


def share_of_coalitions(means: Mapping[str, FloatArray]) -> FloatArray:
    """(d, k): the share of the sampled coalitions in the variance of `std_error`, 0 to 1.

    The rest is that of random draws.  It is 1 if there is no error, and in cubes of versions
    that have not stored it.
    """
    variance = means["sum_of_variances"][0]
    squared = means.get("sum_of_squared_errors", means["sum_of_variances"])[0]
    return np.divide(variance, squared, out=np.ones_like(squared), where=squared > 0)


def estimates(means: Mapping[str, FloatArray]) -> dict[str, Estimate]:
    """`mean`, `mean_magnitude` and `mean_square` over rows, from means (1 + R, d, k) of statistics.

    Biases are subtracted, and no magnitude or square is below 0.  The mean square is mean φ̂² −
    mean se².  Its variance is the variance of the replicates' mean squares plus 2 (mean se²)²,
    the variance of φ̂² if φ = 0 and the errors of all rows move together.

    The mean magnitude is M = T + w (A − T), A = mean |φ̂|, T the mean of `split_magnitude`: A is
    too large, T too small or right.  With ρ = mean φ²/mean se², both estimated, w = (√ρ − τ)/(√(1 +
    ρ) − τ), τ = ρ/√(2 + ρ), which makes the expectation of M that of |φ| if φ is normal about 0:
    0 for a player without effect, 2/3 for a player with a large one.  Its variance is the variance
    of the replicates, to first order, plus (`DOUBT` (A − T))² for the uncertainty of w.

    Without standard errors the bias is unknown: plain means are returned, with NaN errors.
    """
    mean, magnitude, square, split = (means[name] for name in STATISTICS[:4])
    noise = means["sum_of_variances"][0]
    plain = {"mean": mean[0], "mean_magnitude": magnitude[0], "mean_square": square[0]}
    unbiased = {
        "mean": Estimate(mean[0], _jackknifed(mean)),
        "mean_magnitude": _mean_magnitude(magnitude, split, _signal(square, noise), noise),
        "mean_square": _mean_square(square, noise),
    }
    return {
        name: Estimate(np.where(np.isnan(noise), plain[name], each.value), each.std_error)
        for name, each in unbiased.items()
    }


def _jackknifed(means: FloatArray) -> FloatArray:
    """Standard errors (d, k) of a mean, from means (1 + R, d, k)."""
    return jackknife_errors(means[0], means[1:])


def _signal(square: FloatArray, noise: FloatArray) -> FloatArray:
    """Mean φ² (d, k): mean φ̂² (1 + R, d, k) without its bias mean se² (d, k)."""
    return np.maximum(square[0] - noise, 0.0)


def _mean_square(square: FloatArray, noise: FloatArray) -> Estimate:
    """The mean square of `estimates`, from mean φ̂² (1 + R, d, k) and mean se² (d, k)."""
    of_bias = np.sqrt(2) * noise
    return Estimate(_signal(square, noise), np.hypot(_jackknifed(square), of_bias))


def _mean_magnitude(
    plain: FloatArray, split: FloatArray, signal: FloatArray, noise: FloatArray
) -> Estimate:
    """The mean magnitude of `estimates`, from A and T (1 + R, d, k), mean φ² and mean se² (d, k)."""
    magnitude = _magnitudes(plain, split, signal, noise)
    doubt = DOUBT * (plain[0] - split[0])
    return Estimate(np.maximum(magnitude[0], 0.0), np.hypot(_jackknifed(magnitude), doubt))


def _magnitudes(
    plain: FloatArray, split: FloatArray, signal: FloatArray, noise: FloatArray
) -> FloatArray:
    """M (1 + R, d, k) of `estimates`, of the estimate and of each jackknife replicate."""
    return split + _share_of_plain(signal, noise) * (plain - split)


def magnitude_deviations(means: Mapping[str, FloatArray]) -> FloatArray:
    """(R + 1, d, k): the changes of the mean magnitudes of `estimates` by sampled coalitions.

    They are the deviations of the jackknife replicates, and the doubt about the bias: the squares
    add up to the square of the standard error.  Like it they are NaN if errors are not known.
    """
    plain, square, split = (means[name] for name in STATISTICS[1:4])
    noise = means["sum_of_variances"][0]
    magnitude = _magnitudes(plain, split, _signal(square, noise), noise)
    doubt = DOUBT * (plain[0] - split[0])
    return np.concatenate([magnitude[1:] - magnitude[0], doubt[None]])


def _share_of_plain(signal: FloatArray, noise: FloatArray) -> FloatArray:
    """The weight w of `estimates`, in a form without cancellation.

    If there is no noise it is 1: A = T there, and A has the exact replicates.
    """
    ratio = np.divide(signal, noise, out=np.zeros_like(signal), where=noise != 0)
    ratio = np.minimum(ratio, MOST)
    root = np.sqrt((1 + ratio) * (2 + ratio)) + ratio
    below = (np.sqrt(2 + ratio) + np.sqrt(ratio)) * (2 + 3 * ratio)
    share = 2 * np.sqrt(ratio) * root / below
    return np.asarray(np.where(noise == 0, 1.0, share))
