"""Means over random draws: how the draws are dealt to groups, each of which is left out once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.core.records import FloatArray

DEALING_SEED = 0x647261777E
"""The seed by which draws are dealt to groups.

Neighbouring rows of a background may be alike, so that groups are no runs or strides of them.
"""
MIN_DRAWS = 2
"""The fewest draws whose spread estimates the error of their mean."""
UPPER = 0.975
SKEWNESS_CORRECTION = 2.0
"""Moves are widened by 1 + SKEWNESS_CORRECTION/u for u draws, as few draws of skewed predictions
show little of their tail.

With 20 of 900 rows, φ ± 2.09 std_error covered 90.5 % of the true values of an exponential model,
92.8 % of a quadratic one and 94.9 % of rules without it; 92.9, 94.5 and 96.0 % with it.
"""


@dataclass(frozen=True, eq=False)
class Draws:
    """The independent draws that every value of a value function is a weighted mean over."""

    weights: FloatArray
    """(u,): the weight of each draw: an antithetic pair, or a row of a background."""
    called: str
    """The draws in words, such as "500 pairs of draws"."""
    advice: str
    """The option that makes the error smaller, such as "raise n_samples"."""
    population: int | None = None
    """The number of rows that the draws are from, without replacement; None: infinite."""

    @property
    def n_draws(self) -> int:
        """The number of draws that have a weight."""
        return int(np.count_nonzero(self.weights))

    @property
    def why_no_errors(self) -> str:
        """Why the draws give no standard error; empty if they do."""
        if self.n_draws >= MIN_DRAWS:
            return ""
        return f"a single draw ({self.called}) has no standard error: {self.advice}"


@dataclass(frozen=True, eq=False)
class GroupedDraws:
    """The draws behind a mean, dealt at random to g groups of nearly the same size.

    With m the mean over all draws and m_(j) the mean without group j, the moves scale_j·(m_(j) − m)
    have squares that sum to the variance of m: the delete-a-group jackknife.
    """

    group: NDArray[np.intp]
    """(u,): the group of each draw."""
    weights: FloatArray
    """(u,): the weight of each draw."""
    scale: FloatArray
    """(g,): the factor of each group, √(1 − W_j/W) for groups with the share W_j/W of the weight.

    It is multiplied with √(1 − u/N) for u draws from a population of N, and with
    1 + `SKEWNESS_CORRECTION`/u.  Fewer groups than `wanted` have fewer degrees of freedom: their
    scale is larger by t_{g−1}/t_{wanted−1}, so that the interval φ ± t_{wanted−1}·std_error has the
    right coverage. NaN for a single draw.
    """

    @classmethod
    def of(cls, draws: Draws, wanted: int) -> GroupedDraws:
        """Deal draws to `wanted` groups; to as many groups as there are draws if these are fewer."""
        weights = draws.weights
        n_groups = max(1, min(wanted, draws.n_draws))
        order = np.random.default_rng(DEALING_SEED).permutation(len(weights))
        order = order[np.argsort(weights[order] == 0, kind="stable")]  # weightless draws last
        group = np.empty(len(weights), np.intp)
        group[order] = np.arange(len(weights)) % n_groups
        if draws.n_draws < MIN_DRAWS or wanted < MIN_DRAWS:
            return cls(group, weights, np.full(n_groups, np.nan))
        share = np.bincount(group, weights, n_groups) / weights.sum()
        scale = np.sqrt(1.0 - share) * _fewer_degrees(n_groups, wanted)
        scale *= 1.0 + SKEWNESS_CORRECTION / draws.n_draws
        if draws.population is not None:
            scale *= np.sqrt(max(1.0 - draws.n_draws / draws.population, 0.0))
        return cls(group, weights, scale)

    @property
    def n_groups(self) -> int:
        return len(self.scale)

    @property
    def indicator(self) -> FloatArray:
        """(g, u): 1 if a draw is in a group."""
        return (self.group == np.arange(self.n_groups)[:, None]).astype(np.float64)

    def means(self, whole: FloatArray, parts: FloatArray) -> FloatArray:
        """The mean over all draws, then those without each group: (1 + g, …).

        They follow from the weighted sums over all draws, `whole` (…), and over each group, `parts`
        (g, …).
        """
        total = self.weights.sum()
        rest = total - np.bincount(self.group, self.weights, self.n_groups)
        out = np.empty((1 + self.n_groups, *whole.shape))
        out[0] = whole / total
        if self.n_groups < MIN_DRAWS:
            out[1:] = out[0]
            return out
        shape = (-1, *(1,) * whole.ndim)
        np.divide(whole - parts, rest.reshape(shape), out=out[1:])
        return out


def _fewer_degrees(n_groups: int, wanted: int) -> float:
    """The ratio of the quantiles of Student's t for this number of groups and the wanted one."""
    return float(
        scipy.special.stdtrit(n_groups - 1, UPPER) / scipy.special.stdtrit(wanted - 1, UPPER)
    )
