"""Weights of drawn background rows by which their means are those of the whole background."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dshap.core.records import BoolArray, FloatArray

PAIRS_FOR_COLUMNS = 4
"""Pairs for each column from which on the columns take part, beside the predictions."""
RANK = 1e-9
"""Smallest eigenvalue of a correlation matrix, relative to the largest, that is not rounding."""


class Calibration(NamedTuple):
    """Weights of P pairs of orders for all of them, then without each of R jackknife groups.

    A pair p that walks from a background row b_p to a row x has contributions that sum to
    f(x) − f(b_p).  With weights w that sum to 1, and Σ_p w_p f(b_p) = E f, the weighted
    contributions sum to f(x) − E f, for every x.
    """

    weights: FloatArray
    """(k, 1 + R, P): weights of the pairs, 0 for those of the group that is left out."""
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
    """(columns,): NaN for a column with missing values, which takes no part."""
    mean_prediction: FloatArray
    """(k,): E f."""

    def calibration(self, kept: BoolArray) -> Calibration:
        """The weights of each set of `kept` pairs (1 + R, P); the first set is all pairs."""
        columns = self._columns
        parts = [
            [self._weights(output, each, columns) for each in kept]
            for output in range(self.prediction.shape[1])
        ]
        weights = np.array(parts)  # (k, 1 + R, P)
        reached = np.einsum("krp,pk->rk", weights, self.prediction)
        rest = reached - self.mean_prediction
        return Calibration(weights, rest)

    @property
    def _columns(self) -> FloatArray:
        """(P, c): the columns that take part, less their means, each with its own scale."""
        gaps = self.rows - self.mean_row
        if len(gaps) < PAIRS_FOR_COLUMNS * (1 + gaps.shape[1]):
            return gaps[:, :0]
        gaps = gaps[:, np.isfinite(gaps).all(axis=0)]
        scale = np.sqrt(np.square(gaps).mean(axis=0))
        return gaps[:, scale > 0] / scale[scale > 0]

    def _weights(self, output: int, kept: BoolArray, columns: FloatArray) -> FloatArray:
        """(P,): the weights for one output of the pairs where `kept` (P,) is True.

        Where the means of the pairs are more than a standard deviation from those to reach, in the
        metric of their covariance, the columns are left out; the prediction then goes as far as
        its own standard deviation.  So the sampling variance at most doubles.
        """
        gap = self.prediction[kept, output] - self.mean_prediction[output]
        out = np.zeros(len(kept))
        both = _nearest(np.column_stack([gap, columns[kept]]))
        out[kept] = _bounded(gap) if both is None else both
        return out


def _nearest(gaps: FloatArray) -> FloatArray | None:
    """Weights (n,) nearest to 1/n that sum to 1 and by which gaps (n, c) have the mean 0.

    None where that is impossible, or doubles the variance.
    """
    n = len(gaps)
    middle = gaps.mean(axis=0)
    centred = gaps - middle
    scale = np.sqrt(np.square(centred).mean(axis=0))
    scale[scale == 0] = 1.0
    value, vector = np.linalg.eigh((centred / scale).T @ (centred / scale) / n)
    is_free = value > RANK * value[-1]
    along = vector[:, is_free].T @ (middle / scale)
    is_reached = np.allclose(vector[:, is_free] @ along, middle / scale, rtol=0, atol=RANK**0.5)
    if not is_reached or along @ (along / value[is_free]) > 1.0:
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
