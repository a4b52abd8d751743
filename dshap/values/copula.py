"""Observational values of any model by a Gaussian copula with empirical margins."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Self

import numpy as np
import scipy

from dshap.core.errors import InputError
from dshap.core.records import BoolArray, Cost, FloatArray, State
from dshap.values.gaussian import Gaussian

MARGIN_SAMPLE = 20_000
"""Number of sampled rows that the margins are estimated from."""
POINTS = 4_096
"""The most distinct values of a margin; above, quantiles of the sample are used."""


class Copula(Gaussian):
    """Observational values of any model, if the columns are correlated but not normal.

    v_S(x) = E f(x_S, X_S̄) under a Gaussian copula: the normal scores Z_j = Φ⁻¹(F_j(X_j)) are assumed
    to be jointly Gaussian, where F_j is the distribution function (the margin) of column j.  The
    method is that of `Gaussian`, applied to the scores.  It preserves margins of any shape, such as
    skewed or bounded ones, or columns with few values.

    Parameters
    ----------
    predict, data, n_samples, ridge, seed, players, feature_names, output_names, link, buffer_rows,
        arrays, scale : see `Gaussian`; columns of times are allowed, as draws are values of the data

    Raises
    ------
    InputError, PredictError
        As for `Gaussian`.

    Notes
    -----
    Source: Aas, Jullum & Løland (Artificial Intelligence 298, 2021), the Gaussian copula approach
    with empirical margins.

    The margins are estimated from 20,000 rows of the data, and have at most 4,096 values each.  The
    score of a value is the score of the middle of its step of F_j; values between two steps are
    interpolated.  Draws are values of the sample, so that no draw is outside its range.  Means and
    correlations of the scores are computed from all rows.  `std_error` includes the error of the
    draws, as for `Gaussian`, but not the error of the estimated margins and correlations.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> X = np.exp(np.random.default_rng(0).normal(size=(900, 2)))  # log-normal columns
    >>> value = dshap.values.Copula(lambda x: x[:, 0] + x[:, 1], X, n_samples=200)
    >>> "std_error" in dshap.explain(value, X[:5])
    True
    """

    name = "copula"
    drawn = ("times",)
    margins: tuple[tuple[FloatArray, FloatArray, FloatArray], ...] | None = None
    """For each column: ascending values (p,), their scores (p,), and scores of step ends (p − 1,)."""

    @property
    def sample_size(self) -> int:
        """The number of sampled rows that the margins are estimated from; 0 once they are."""
        if self.margins is None:
            return MARGIN_SAMPLE
        return 0

    def choose(self, sample: FloatArray) -> State:
        """Estimate the margins from a sample.

        `value`, `score` and `end` (Σp,) contain the columns one after the other, `size` (columns,)
        has the length of each.
        """
        parts = [_margin(column) for column in sample.T]
        return State(
            {
                "value": np.concatenate([value for value, _, _ in parts]),
                "score": np.concatenate([score for _, score, _ in parts]),
                "end": np.concatenate([end for _, _, end in parts]),
                "size": np.array([len(value) for value, _, _ in parts]),
                # scores have the mean 0 already
                "shift": np.zeros(self.n_columns),
            }
        )

    def chosen(self, choice: State) -> Self:
        """A copy with these margins."""
        resolved = copy.copy(self)
        resolved.shift = choice["shift"]
        cuts = np.cumsum(choice["size"])[:-1]
        value, score, end = (np.split(choice[name], cuts) for name in ("value", "score", "end"))
        resolved.margins = tuple(zip(value, score, [each[:-1] for each in end], strict=True))
        return resolved

    @property
    def _margins(self) -> tuple[tuple[FloatArray, FloatArray, FloatArray], ...]:
        if self.margins is None:
            raise InputError(
                "margins are not chosen yet: value = value.chosen(value.choose(sample))"
            )
        return self.margins

    def _scores(self, rows: FloatArray) -> FloatArray:
        columns = [
            np.interp(rows[:, j], value, score) for j, (value, score, _) in enumerate(self._margins)
        ]
        return np.column_stack(columns)

    def _values(self, scores: FloatArray, wanted: BoolArray) -> FloatArray:
        out = np.empty(scores.shape)
        for j in np.flatnonzero(wanted.any(axis=0)):
            some = wanted[:, j]
            value, _, end = self._margins[j]
            out[some, ..., j] = value[np.searchsorted(end, scores[some, ..., j])]
        return out

    def cost(self, m: int, n: int = 1) -> Cost:
        """The cost of `Gaussian`, plus that of the scores."""
        cost = super().cost(m, n)
        drawn = self._drawn_rows(m, n)
        return replace(
            cost,
            task_bytes=cost.task_bytes + 8 * 3 * drawn * self.n_columns,
            moment_task_bytes=cost.moment_task_bytes + 2 * 8 * n * self.n_columns,
        )


def _margin(sample: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Distinct values (p,), scores of the middles of their steps of F, and scores of the ends."""
    if not len(sample):
        return np.zeros(1), np.zeros(1), np.zeros(1)
    value, count = np.unique(sample, return_counts=True)
    if len(value) > POINTS:
        value, count = np.unique(
            np.quantile(sample, (np.arange(POINTS) + 0.5) / POINTS, method="nearest"),
            return_counts=True,
        )
    share = np.cumsum(count) / count.sum()
    middle = share - 0.5 * count / count.sum()
    # as long as the other two, so that one `size` cuts all three; `chosen` drops the last one
    end = np.append(scipy.special.ndtri(share[:-1]), np.inf)
    return value, np.asarray(scipy.special.ndtri(middle)), end
