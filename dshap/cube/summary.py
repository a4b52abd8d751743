"""Sums over the rows of a block, and what they say of all rows: means, mean squares and mean
magnitudes, with errors.

|φ̂| and φ̂² of a noisy φ̂ are too large on the average: by se² the square, by 0.8 se the magnitude
where φ = 0.  No mean over rows takes this away; it is taken off here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from dshap.core.blocks import Attribution, jackknife_errors
from dshap.core.records import FloatArray

__all__ = ["STATISTICS", "Estimate", "block_sums", "estimates", "split_magnitude"]

STATISTICS = (
    "sum",
    "sum_of_magnitudes",
    "sum_of_squares",
    "sum_of_split_magnitudes",
    "sum_of_variances",
)
"""What is summed over the rows of a block."""

FAR = 9.0
"""Standard errors from which on Φ is 1 to the last digit, and the normal density, at most 1e-18,
adds nothing to it."""
MOST = 1e12
"""Ratio of signal to noise beyond which w is 2/3."""
DOUBT = 0.2
"""About the share of mean |φ̂| in the mean magnitude: its true value lies 0.1 to 0.3 off where φ is
not normal."""


class Estimate(NamedTuple):
    """A mean over rows (d, k) and its standard error (d, k); NaN where the attributions have
    none."""

    value: FloatArray
    std_error: FloatArray


def split_magnitude(phi: FloatArray, std_error: FloatArray) -> tuple[FloatArray, FloatArray]:
    """T = |φ̂| (2Φ(u) − 1) − 2 se φ(u), u = |φ̂|/se, and its derivative by φ̂; both of the shape of
    `phi`.

    T is the mean of sign(a)·b where a and b are the estimates from two random halves of the
    coalitions, a = φ̂ + h, b = φ̂ − h, h ~ N(0, se²): their errors are independent, so that its
    expectation is φ·(2Φ(φ/(√2 se)) − 1), which is 0 where φ = 0 and |φ| where |φ| is a few se.
    |φ̂| where se = 0, NaN where it is NaN.
    """
    size = np.abs(phi)
    ratio = np.minimum(
        np.divide(size, std_error, out=np.full_like(size, FAR), where=std_error != 0), FAR
    )
    density = np.zeros_like(size)
    inside = np.ones_like(size)
    is_near = ~(ratio >= FAR)  # or NaN
    density[is_near] = np.exp(-0.5 * np.square(ratio[is_near])) / np.sqrt(2 * np.pi)
    inside[is_near] = 2 * ndtr(ratio[is_near]) - 1
    return size * inside - 2 * std_error * density, np.sign(phi) * (inside + 4 * ratio * density)


def block_sums(attribution: Attribution) -> FloatArray:
    """(1 + R, statistics, d, k): sums over rows, of the estimate and with each jackknife group left
    out.

    The split magnitudes of a group are to first order in what it changes; the variances are those
    of the estimate.
    """
    phi = attribution.phi
    replicates = attribution.replicates
    errors = attribution.std_error
    if replicates is None or errors is None:
        magnitude = np.abs(phi).sum(axis=0)
        return np.array(
            [
                [
                    phi.sum(axis=0),
                    magnitude,
                    np.square(phi).sum(axis=0),
                    magnitude,
                    np.zeros_like(magnitude),
                ]
            ]
        )
    split, slope = split_magnitude(phi, errors)
    total = split.sum(axis=0)
    variance = np.square(errors).sum(axis=0)
    sums = [
        [
            each.sum(axis=0),
            np.abs(each).sum(axis=0),
            np.square(each).sum(axis=0),
            total + change,
            variance,
        ]
        for each in (phi, *replicates)
        for change in [np.einsum("ndk,ndk->dk", slope, each - phi)]
    ]
    return np.array(sums)


def estimates(means: Mapping[str, FloatArray]) -> dict[str, Estimate]:
    """`mean`, `mean_magnitude` and `mean_square` over rows, of the means (1 + R, d, k) of each of
    the statistics.

    With the biases taken off, and none below 0.  The mean square is mean φ̂² − mean se²; its
    variance is that of the groups' mean squares and 2 (mean se²)², what φ̂² has where φ = 0 and the
    errors of all rows move together.

    The mean magnitude is M = T + w (A − T), A = mean |φ̂|, T the mean of `split_magnitude`: A is
    too large, T too small or right.  With ρ = mean φ²/mean se², both estimated, w = (√ρ − τ)/(√(1 +
    ρ) − τ), τ = ρ/√(2 + ρ), which makes the expectation of M that of |φ| where φ is normal about 0:
    0 where a player is worth nothing, 2/3 where it is worth much.  Its variance is that of the
    groups, to first order, and (`DOUBT` (A − T))² for the doubt about w.

    Without standard errors nothing is known of the bias: plain means, and NaN errors.
    """
    mean, plain, square, split, variance = (means[name] for name in STATISTICS)
    noise = variance[0]
    signal = np.maximum(square[0] - noise, 0.0)
    magnitude = split + _share_of_plain(signal, noise) * (plain - split)
    doubt = DOUBT * (plain[0] - split[0])
    of_mean, of_magnitude, of_square = (
        jackknife_errors(each[0], each[1:]) for each in (mean, magnitude, square)
    )
    found = {
        "mean": Estimate(mean[0], of_mean),
        "mean_magnitude": Estimate(np.maximum(magnitude[0], 0.0), np.hypot(of_magnitude, doubt)),
        "mean_square": Estimate(signal, np.hypot(of_square, np.sqrt(2) * noise)),
    }
    raw = {"mean": mean[0], "mean_magnitude": plain[0], "mean_square": square[0]}
    return {
        name: Estimate(np.where(np.isnan(noise), raw[name], one.value), one.std_error)
        for name, one in found.items()
    }


def _share_of_plain(signal: FloatArray, noise: FloatArray) -> FloatArray:
    """w of `estimates`, without its differences; anything where there is no noise, because A = T
    there."""
    ratio = np.minimum(np.divide(signal, noise, out=np.zeros_like(signal), where=noise != 0), MOST)
    root = np.sqrt((1 + ratio) * (2 + ratio)) + ratio
    share: FloatArray = (
        2 * np.sqrt(ratio) * root / ((np.sqrt(2 + ratio) + np.sqrt(ratio)) * (2 + 3 * ratio))
    )
    return share
