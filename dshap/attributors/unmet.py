"""A floor for errors of rows whose values never varied, as sampling may have missed a change."""

from __future__ import annotations

import numpy as np

from dshap.core.blocks import EMPTY, FULL, ROUNDING, jackknife_errors
from dshap.core.records import BoolArray, FloatArray
from dshap.core.types import Link

INSIDE = 1e-9
"""Shrinks the range of predictions a little towards the base value, to keep logarithms finite."""
RANGE_ROUNDING = 1e-14
"""The rounding error of means of numbers that cancel, as a share of the range of the values."""


def ranges_of(
    link: Link,
    least: FloatArray,
    largest: FloatArray,
    base: FloatArray,
    prediction: FloatArray,
    ends: FloatArray,
) -> FloatArray:
    """The widest range (n, k') that the values of each row may have, after the link.

    It is the range of f, from `least` to `largest` (k,), widened by the row's two ends. `base` (k,)
    is E f, `prediction` (n, k) is f(x), `ends` (n, 2, k') are v(empty) and v(N).
    """
    # (2, k)
    bounds = np.stack([base + (1 - INSIDE) * (bound - base) for bound in (least, largest)])
    linked = link(np.broadcast_to(bounds, (len(prediction), *bounds.shape)), prediction)
    return np.asarray(np.ptp(np.concatenate([ends, linked], axis=1), axis=1))


def with_floor(
    phi: FloatArray,
    replicates: FloatArray,
    ends: FloatArray,
    ranges: FloatArray,
    unmet: float,
    is_drawn: BoolArray | None = None,
) -> FloatArray:
    """Raise the standard errors of rows whose values never varied to `unmet` × `ranges` (n, k).

    Returns replicates (R, n, d, k). The floor applies to a row and output whose attributions phi
    (n, d, k) are all 0 and whose jackknife groups all agree. By the rule of three, with 95 %
    confidence a value that none of m sampled coalitions has occurs in at most a share of 3/m of
    all coalitions: `unmet`. The floors of all rows are in one group, so that they add up in the
    error of a mean: the rows share their coalitions. `is_drawn` (d,) marks the players that have a
    sampling error; None: all.
    """
    if not unmet or not len(replicates):
        return replicates
    # (n, k)
    rounding = ROUNDING * np.abs(ends[:, [EMPTY, FULL]]).sum(axis=1) + RANGE_ROUNDING * ranges
    is_still = np.abs(phi).max(axis=1) <= rounding
    rows = np.flatnonzero(is_still.any(axis=1))
    if not len(rows):
        return replicates
    errors = jackknife_errors(phi[rows], replicates[:, rows]).max(axis=1)
    floor = np.where(is_still[rows] & (errors <= rounding[rows]), unmet * ranges[rows], 0.0)
    out = replicates.copy()
    # to one replicate: std_error² is the sum of their squared deviations, so one is enough
    out[0, rows] += floor[:, None] if is_drawn is None else floor[:, None] * is_drawn[:, None]
    return out
