"""Weights of drawn background rows, with which their means equal the whole background's means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dshap.core.records import BoolArray, FloatArray

PAIRS_FOR_COLUMNS = 2
"""Pairs for each control variate from which on the columns are used, beside the predictions.

With 50 pairs of 20 columns of boosted trees the columns lowered the error from 16 to 11 %, with 84
from 13 to 8 %, with 164 from 10 to 5 %; the intervals covered 95 to 98 %.
"""
MOST_STRETCH = 3.0
"""The largest squared distance of the means, in the metric of the covariance of the drawn rows, that
the columns may move: it is the share by which uneven weights raise the sampling variance.  For c
variates and P pairs it is c/(P − c) on average; it is larger if rare rows were not drawn.
"""
RANK = 1e-9
"""Smallest eigenvalue of a correlation matrix, relative to the largest, that is not rounding."""


class Calibration(NamedTuple):
    """Weights of P pairs of orders for all of them, then without each of R jackknife groups.

    A pair p that walks from a background row b_p to a row x has contributions that sum to
    f(x) − f(b_p).  With weights w that sum to 1, and Σ_p w_p f(b_p) = E f, the weighted
    contributions sum to f(x) − E f, for every x.
    """

    weights: FloatArray
    """(k, 1 + R, P): weights of the pairs; pairs of the group that is left out have weight 0."""
    rest: FloatArray
    """(1 + R, k): Σ_p w_p f(b_p) − E f, which is 0 unless the weights were bounded."""


@dataclass(frozen=True)
class KnownMeans:
    """The drawn rows of the pairs, and the means over the whole background.

    The weights of each output are the nearest to equal ones by which the drawn rows have the mean
    prediction and the mean of each column of the whole background: the regression estimator, with
    f(b) and the columns as control variates (J.-C. Deville and C.-E. Särndal, "Calibration
    estimators in survey sampling", JASA 87 (1992)).  Its bias is of order columns/P.
    """

    rows: FloatArray
    """(P, columns)"""
    prediction: FloatArray
    """(P, k): f(b_p)."""
    mean_row: FloatArray
    """(columns,): NaN for a column with missing values, which is not used."""
    mean_prediction: FloatArray
    """(k,): E f."""

    def calibration(self, kept: BoolArray) -> Calibration:
        """The weights of each set of pairs, `kept` (1 + R, P); the first set is all pairs."""
        columns = self._columns
        gaps = self.prediction - self.mean_prediction
        weights = np.stack([_weights(gap, columns, kept) for gap in gaps.T])  # (k, 1 + R, P)
        return Calibration(weights, np.einsum("krp,pk->rk", weights, gaps))

    @property
    def _columns(self) -> FloatArray:
        """(P, c): the columns in use, less their means; none if there are few pairs."""
        gaps = self.rows - self.mean_row
        if len(gaps) < PAIRS_FOR_COLUMNS * (1 + gaps.shape[1]):
            return gaps[:, :0]
        return gaps[:, np.isfinite(gaps).all(axis=0)]


def _weights(gap: FloatArray, columns: FloatArray, kept: BoolArray) -> FloatArray:
    """Weights (1 + R, P) of one output, whose gap f(b_p) − E f is (P,), for each set of pairs.

    If the columns cannot be moved, they are left out of all sets; the prediction then goes as
    far as its own standard deviation.
    """
    both = np.column_stack([gap, columns])
    found = [_nearest(both[chosen]) for chosen in kept]
    # for all sets or for none: a set with other control variates would differ from the whole by
    # these, not by its missing group
    if any(each is None for each in found):
        found = [_bounded(gap[chosen]) for chosen in kept]
    out = np.zeros(kept.shape)
    for weights, chosen, each in zip(out, kept, found, strict=True):
        weights[chosen] = each
    return out


def _nearest(gaps: FloatArray) -> FloatArray | None:
    """Weights (n,) nearest to 1/n that sum to 1 and by which gaps (n, c) have the mean 0.

    None if that is impossible, or needs more than `MOST_STRETCH`.
    """
    n = len(gaps)
    middle = gaps.mean(axis=0)
    centred = gaps - middle
    scale = np.sqrt(np.square(centred).mean(axis=0))
    # a column that is constant in the drawn rows cannot be moved: `is_reached` finds out whether
    # it must be
    scale[scale == 0] = 1.0
    value, vector = np.linalg.eigh((centred / scale).T @ (centred / scale) / n)
    is_free = value > RANK * value[-1]
    along = vector[:, is_free].T @ (middle / scale)
    # the root, as eigenvalues are squares of lengths
    is_reached = np.allclose(vector[:, is_free] @ along, middle / scale, rtol=0, atol=RANK**0.5)
    if not is_reached or along @ (along / value[is_free]) > MOST_STRETCH:
        return None
    direction = vector[:, is_free] @ (along / value[is_free]) / scale
    return np.asarray((1.0 - centred @ direction) / n)


def _bounded(gap: FloatArray) -> FloatArray:
    """Weights (n,) by which gap (n,) has a mean as near to 0 as its standard deviation allows."""
    middle = gap.mean()
    centred = gap - middle
    squares = np.square(centred).sum()
    if not squares > 0:
        return np.full(len(gap), 1 / len(gap))
    deviation = np.sqrt(squares / len(gap))
    return np.asarray(1 / len(gap) - centred * np.clip(middle, -deviation, deviation) / squares)
