"""The Shapley kernel, and least squares with its weights under the efficiency constraint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import scipy

from dshap.core.blocks import CoalitionBlock
from dshap.core.errors import InputError
from dshap.core.records import FloatArray

RANK_TOLERANCE = 1e-12
"""Eigenvalues below this part of the largest count as zero.

A missing direction leaves about 1e-16; a regular design stays above 1e-6.
"""
SMALL_PIVOT = 1e-6
"""Squared pivots above this part of the mean eigenvalue need no eigenvalue check.

A missing direction leaves a pivot of rounding size, far below.
"""


def kernel_mass(d: int, size: int) -> float:
    """(d − 1)/(s(d − s)): total kernel weight of all coalitions of one size s, 0 < s < d.

    One coalition of the size has the weight w(s) = (d − 1)/(C(d, s) s (d − s)).

    References
    ----------
    S. M. Lundberg and S.-I. Lee, "A unified approach to interpreting model predictions", NeurIPS
    2017, theorem 2.
    """
    return (d - 1) / (size * (d - size))


def normal_matrix(blocks: Iterable[CoalitionBlock]) -> FloatArray:
    """A = ZᵀΩZ (d, d) over all blocks of a list, whose masks are Z and whose scores are ΩZ."""
    matrix = reduce(add, (block.masks.T.astype(float) @ block.score for block in blocks))
    return np.asarray(matrix + matrix.T) / 2


def _determined(centred: FloatArray, level: float) -> FloatArray:
    """Cholesky factor of CAC + τ11ᵀ/d (d, d), C = I − 11ᵀ/d.

    InputError if CAC has more than one zero eigenvalue, or is too near to that to be factored.
    """
    d = len(centred)
    # LAPACK itself, as numpy raises if the factorisation fails: the message needs the rank
    factor, info = scipy.linalg.lapack.dpotrf(centred + level / d, lower=1)
    if info == 0 and np.diag(factor).min() ** 2 > SMALL_PIVOT * level:
        return np.asarray(factor)
    values = np.linalg.eigvalsh(centred)
    rank = int(np.sum(values > RANK_TOLERANCE * values[-1]))
    if rank < d - 1 or info:
        raise InputError(
            f"the coalitions of this design determine {min(rank + 1, d - 1)} of {d} attributions: "
            "raise n_coalitions or give another seed"
        )
    return np.asarray(factor)


@dataclass(frozen=True)
class ConstrainedSolution:
    """The constrained least-squares solution phi = P b + u Δ for a matrix A = ZᵀΩZ.

    It minimises φᵀAφ − 2bᵀφ under Σφ = Δ, for any b (d,) and any Δ.  With Q an orthonormal basis of
    the vectors that sum to zero, P = Q(QᵀAQ)⁻¹Qᵀ and u = 1/d − P A 1/d, so that φ = 1Δ/d +
    Q(QᵀAQ)⁻¹Qᵀ(b − A1Δ/d): the constraint is satisfied up to rounding and is never a large weight.
    """

    projector: FloatArray
    """P (d, d), the inverse of A on vectors that sum to zero."""
    share: FloatArray
    """u (d,), the share of Δ of each player; it sums to one."""
    offsets: FloatArray
    """ZᵀΩ1 (d,): the diagonal of A, as masks Z are zeros and ones."""

    @classmethod
    def of(cls, matrix: FloatArray) -> ConstrainedSolution:
        """Build the solution for A (d, d); InputError if QᵀAQ is singular.

        With C = I − 11ᵀ/d and τ > 0 the matrix M = CAC + τ11ᵀ/d has the eigenvalues of QᵀAQ and τ,
        so that P = M⁻¹ − 11ᵀ/(dτ): one Cholesky factorisation, and no basis.
        """
        d = len(matrix)
        offsets = np.diag(matrix).copy()
        if d == 1:
            return cls(np.zeros((1, 1)), np.ones(1), offsets)
        means = matrix.mean(axis=0)
        centred = matrix - means - means[:, None] + means.mean()
        # τ: the mean of the other eigenvalues, so that M is conditioned no worse than QᵀAQ
        level = np.trace(centred) / (d - 1)
        inverse = scipy.linalg.lapack.dpotri(_determined(centred, level), lower=1)[0]
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        projector = inverse - 1 / (d * level)
        return cls(projector, (1 - projector @ matrix.sum(axis=1)) / d, offsets)

    def solve(self, right: FloatArray, total: FloatArray) -> FloatArray:
        """phi (n, d, k) for right-hand sides b (n, d, k) and totals Δ (n, k)."""
        # one product an instance, so that results do not depend on how instances are chunked
        return self.projector @ right + self.share[:, None] * total[..., None, :]

    def finish(self, sums: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        """phi (n, d, k) from the sums ZᵀΩv (n, d, k) and the values of the ends (n, k).

        b = ZᵀΩ(v − v(∅)) and Δ = v(N) − v(∅).
        """
        right = sums - self.offsets[:, None] * np.asarray(v_empty)[..., None, :]
        return self.solve(right, np.subtract(v_full, v_empty))
