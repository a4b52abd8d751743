"""The Shapley kernel and the regression that it weights: least squares under the efficiency constraint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from dshap.designs.coalitions import spans
from dshap.errors import InputError
from dshap.types import Design, FloatArray

__all__ = ["ConstrainedSolution", "kernel_mass", "normal_matrix"]

RANK_TOLERANCE = 1e-12
"""Of the largest eigenvalue; a missing direction leaves about 1e-16, a regular design stays above 1e-6."""


def kernel_mass(d: int, size: int) -> float:
    """(d − 1)/(s(d − s)): the kernel weights of all coalitions of one size together; no binomial, so any d.

    One coalition of size 0 < s < d has the weight w(s) = (d − 1)/(C(d, s) s (d − s)).

    References
    ----------
    S. M. Lundberg and S.-I. Lee, "A unified approach to interpreting model predictions", NeurIPS 2017, theorem 2.
    """
    return (d - 1) / (size * (d - size))


def normal_matrix(design: Design) -> FloatArray:
    """A = ZᵀΩZ (d, d) of a design whose score is ΩZ, summed block by block.

    Masks are zeros and ones, so the diagonal of A is also ZᵀΩ1.
    """
    d = design.n_players
    matrix = np.zeros((d, d))
    for start, stop in spans(design.n_coalitions, d):
        block = design.block(start, stop)
        matrix += block.masks.T.astype(float) @ block.score
    return (matrix + matrix.T) / 2


@dataclass(frozen=True)
class ConstrainedSolution:
    """phi = P b + u Δ: the minimum of (φᵀAφ − 2bᵀφ) under Σφ = Δ, for any b (d,) and any Δ.

    With Q an orthonormal basis of the vectors that sum to zero, P = Q(QᵀAQ)⁻¹Qᵀ and u = 1/d − P A 1/d, which is
    φ = 1Δ/d + Q(QᵀAQ)⁻¹Qᵀ(b − A1Δ/d): the constraint holds to rounding and is never a large weight.
    """

    projector: FloatArray
    """P (d, d)."""
    share: FloatArray
    """u (d,), which sums to one."""

    @classmethod
    def of(cls, matrix: FloatArray) -> ConstrainedSolution:
        """The solution for A (d, d); InputError where QᵀAQ is singular."""
        d = len(matrix)
        if d == 1:
            return cls(np.zeros((1, 1)), np.ones(1))
        basis = scipy.linalg.helmert(d).T  # (d, d − 1)
        values, vectors = np.linalg.eigh(basis.T @ matrix @ basis)
        rank = int(np.sum(values > RANK_TOLERANCE * values[-1]))
        if rank < d - 1:
            raise InputError(
                f"the coalitions of this design determine {rank + 1} of {d} attributions: "
                "raise n_coalitions or give another seed"
            )
        half = basis @ vectors / np.sqrt(values)  # (d, d − 1)
        projector = half @ half.T
        return cls(projector, (1 - projector @ matrix.sum(axis=1)) / d)

    def solve(self, right: FloatArray, total: FloatArray) -> FloatArray:
        """phi (n, d, k) for right-hand sides b (n, d, k) and totals Δ (n, k)."""
        # one product an instance, so that no chunking of the instances changes a bit
        return self.projector @ right + self.share[:, None] * total[..., None, :]
