"""The linear solution: weights of the values in φ, and their error contrasts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dshap.core.blocks import CoalitionBlock, Groups
from dshap.core.records import BoolArray, FloatArray
from dshap.designs.kriging.standard_errors import beyond_usual, missed_weights


@dataclass(frozen=True)
class Solution:
    """Weights of the odd values y = (v(S) − v(S̄))/2 of the pairs, and their error contrasts.

    The pair (N, ∅) comes first.
    """

    weights: FloatArray
    """W (p, d), weights in φ."""
    contrasts: FloatArray
    """(p, R, c): weights of the odd values in contrasts, sums of leave-one-out errors with random
    signs.  The contrasts of an additive game are 0."""
    spread: FloatArray
    """(d,): each player's error relative to its contrast."""
    shared: int = 0
    """Number of leading contrast columns that estimate what φ misses: see `with_missed`."""

    def with_missed(self, pairs: FloatArray, precision: FloatArray, likely: FloatArray) -> Solution:
        """The solution with more contrast columns, which estimate what φ misses.

        Player i is in contrast i // shared, column i % shared.  `likely` are the weights (p, d) of
        the process that `precision` belongs to, without the mean over priors.
        """
        p, d = pairs.shape
        n_groups = self.contrasts.shape[1]
        missed = (
            precision @ (missed_weights(pairs) / np.diag(precision)[:, None])
            + likely
            - self.weights
        )
        shared = -(-d // n_groups)
        parts = np.pad(missed, ((0, 0), (0, n_groups * shared - d))).reshape(p, n_groups, shared)
        return Solution(
            self.weights, np.concatenate([parts, self.contrasts], axis=2), self.spread, shared
        )

    def moves(self, groups: FloatArray) -> FloatArray:
        """Moves of φ (R, n, d, k) from sums of contrasts (R, n, c, k).

        Their squares sum to the squared standard errors.
        """
        moved = np.asarray(groups[:, :, self.shared :] * self.spread[:, None])
        if self.shared:
            n_groups, n, _, k = groups.shape
            parts = (
                groups[:, :, : self.shared]
                .transpose(1, 0, 2, 3)
                .reshape(n, n_groups * self.shared, k)
            )
            moved = moved + beyond_usual(parts[:, : len(self.spread)], axis=1, n_groups=n_groups)
        return moved

    def block(self, masks: BoolArray, start: int) -> CoalitionBlock:
        """The coalitions of a list from `start` on, masks (m, d), with their scores.

        The score of a coalition is ± half the weight of its pair's odd value (v(S) − v(S̄))/2.
        """
        m = len(masks)
        pair, is_complement = np.divmod(np.arange(start, start + len(masks)), 2)
        sign = np.where(is_complement, -0.5, 0.5)
        # the empty coalition comes first, and is the complement of the pair (N, ∅)
        sign[pair == 0] *= -1
        each = sign[:, None, None] * self.contrasts[pair]  # (m, R, c)
        n_groups, c = each.shape[1:]
        group = np.tile(np.arange(n_groups, dtype=np.int16), m)
        groups = Groups(np.repeat(np.arange(m), n_groups), group, each.reshape(m * n_groups, c))
        return CoalitionBlock(masks, sign[:, None] * self.weights[pair], groups)
