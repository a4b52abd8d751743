"""Gaussian priors on the odd part of a game, which pairs of complements show.

A game is v(S) = Σ_T c_T χ_T(S), where χ_T is the product of ±1 over the players of T.  The values
of a coalition S and its complement determine the odd part y(S) = (v(S) − v(S̄))/2.  Attributions
depend on the odd part alone: φ_i = Σ_{T∋i, |T| odd} 2 c_T/|T|.  A pair is a row of z (p, d), with
±1 for each player; the pair (N, ∅) is first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from dshap import loops
from dshap.core.records import FloatArray
from dshap.designs.kriging.tuning import (
    COMMON_PAIRS,
    COMMON_VARIANCE,
    CORRELATION_ROWS,
    LEAST_SIZE,
    MOST_COMMON_PAIRS,
    RELEVANT_ORDERS,
    SIZE_LENGTH,
)


def order_variances(d: int, first: int, decay: float | None) -> FloatArray:
    """Total variances (d + 1,) of the interaction orders first, first + 2, …, summing to 1.

    They are proportional to decay^((s − first)/2).  If decay is None, they are proportional to
    C(d, s), so that every coefficient has the same variance.  Order first − 2 has a variance too,
    which changes no result: it is a part of the trend.
    """
    sizes = np.arange(first, d + 1, 2)
    if decay is None:
        share = np.array([comb(d, int(s)) for s in sizes], float)
    else:
        share = decay ** ((sizes - first) / 2)
    total = share.sum() if len(sizes) else 1.0
    variances = np.zeros(d + 1)
    variances[sizes] = share / total
    if decay is None and len(sizes):
        variances[first - 2] = comb(d, first - 2) / total
    else:
        variances[first - 2] = 1.0
    return variances


def order_kernel(pairs: FloatArray, variances: FloatArray) -> FloatArray:
    """Covariances (p, p) of the values at pairs z (p, d), given the variances (d + 1,) by order."""
    d = pairs.shape[1]
    inner = pairs @ pairs.T
    return np.asarray((variances @ krawtchouk(d))[((d - inner) / 2).round().astype(np.intp)])


@dataclass(frozen=True)
class Prior:
    """A Gaussian prior of games: independent coefficients c_T, and effects that vary with size."""

    variances: FloatArray
    """(d + 1,): total variance of each order.

    Order 1 is a part of the trend: its variance changes no result.
    """
    variation: float
    """Variance of the effects that change with the coalition size, Σ_i z_i g_i(|S|)/√d.

    The correlation of g_i between sizes t = 2|S|/d − 1 and t' is exp(−||t| − |t'||/`SIZE_LENGTH`).
    With few pairs a term t h(|S|) is added, whose variance follows from `COMMON_VARIANCE`.  These
    effects describe games such as votes, for which independent coefficients are not enough.
    """
    relevance: FloatArray | None
    """r (d,): in `RELEVANT_ORDERS`, σ²_T is proportional to Π_{i∈T} r_i; None: all r_i are equal."""
    decay: float
    """Ratio of the variances of successive odd orders of interactions."""

    @classmethod
    def of(cls, d: int, decay: float, variation: float, relevance: FloatArray | None) -> Prior:
        """Build a prior whose odd orders s ≥ 3 have total variances ∝ decay^((s−3)/2), with sum 1.

        Order 1 has the variance 1.
        """
        return cls(order_variances(d, 3, decay), variation, relevance, decay)

    @classmethod
    def flat(cls, d: int) -> Prior:
        """Build the prior of equal variances for all c_T, under which the values are independent.

        It serves complete lists, whose values determine φ under any prior.
        """
        return cls(order_variances(d, 3, None), 0.0, None, 1.0)

    def of_mean_one(self) -> FloatArray:
        """The relevances (d,), scaled to the mean 1."""
        if self.relevance is None:
            return np.ones(len(self.variances) - 1)
        return np.asarray(self.relevance / self.relevance.mean())

    def covariances(self, pairs: FloatArray, known: FloatArray | None = None) -> Covariances:
        """Sum of the covariances of all parts of the prior at pairs z (p, d).

        `known` are the `correlations` of the pairs, if already computed.
        """
        alike = self.variances.copy()
        if self.relevance is not None:
            # these orders are added below, by relevance
            alike[_relevant_orders(pairs.shape[1])] = 0.0
        parts = _of_orders(pairs, alike)
        if self.variation:
            parts += _of_sizes(pairs, self.variation)
        if self.relevance is not None:
            parts += _of_relevance(pairs, self.variances, self.relevance, known)
        return parts


@dataclass(frozen=True)
class Covariances:
    """Covariances of the odd values at pairs and of the attributions, under a part of a prior."""

    values: FloatArray
    """(p, p): covariances of the odd values."""
    with_phi: FloatArray
    """(p, d): covariances of the odd values and φ."""
    phi: FloatArray
    """(d,): prior variance of φ."""

    def times(self, share: float) -> Covariances:
        """All covariances multiplied with `share`."""
        return Covariances(share * self.values, share * self.with_phi, share * self.phi)

    def __add__(self, other: Covariances) -> Covariances:
        return Covariances(
            self.values + other.values, self.with_phi + other.with_phi, self.phi + other.phi
        )


def _of_orders(pairs: FloatArray, variances: FloatArray) -> Covariances:
    """Covariances from coefficients whose variance depends on their order (d + 1,) alone."""
    d = pairs.shape[1]
    # cov(φ_i, y) = z_i Σ_s V_s (2/d) κ_{s−1}(number of minus signs among the other players)
    others = (variances[1:] * 2 / d) @ krawtchouk(d - 1)
    minus = (pairs < 0).sum(axis=1, keepdims=True) - (pairs < 0)
    sizes = np.arange(1, d + 1, 2)
    variance = np.full(d, (4 * variances[sizes] / (sizes * d)).sum())
    return Covariances(order_kernel(pairs, variances), pairs * others[minus], variance)


def _of_relevance(
    pairs: FloatArray, variances: FloatArray, relevance: FloatArray, known: FloatArray | None
) -> Covariances:
    """Covariances from the orders in which players differ in relevance.

    `known` are the `correlations` of the pairs, if already computed.
    """
    orders = _relevant_orders(len(relevance))
    if known is None:
        values = np.zeros((len(pairs), len(pairs)))
        for block, later, part in _correlated_blocks(pairs, relevance):
            values[block, later] = np.tensordot(variances[orders], part, 1)
            values[later, block] = values[block, later].T
    else:
        values = np.tensordot(variances[orders], known, 1)
    weights = np.zeros(max(orders))
    # weights of order s in cov(φ_i, y), at position s − 1
    weights[orders - 1] = variances[orders] * 2 / (orders * _elementary(relevance)[orders])
    of_phi = np.zeros_like(weights)
    of_phi[orders - 1] = weights[orders - 1] * 2 / orders
    variance = relevance * loops.others_sums(relevance[None], of_phi)[0]
    return Covariances(
        values, pairs * relevance * loops.others_sums(pairs * relevance, weights), variance
    )


def _relevant_orders(d: int) -> NDArray[np.int64]:
    """The `RELEVANT_ORDERS` up to d."""
    return np.array([s for s in RELEVANT_ORDERS if s <= d], dtype=np.int64)


def _of_sizes(pairs: FloatArray, variation: float) -> Covariances:
    """Covariances from the size effects Σ_i z_i g_i(|S|)/√d and, with few pairs, t h(|S|).

    Here t = 2|S|/d − 1.  In a game z_i g(|S|), player i has the attribution α = (2/d)(Σ_{0<s<d} g(s)
    + g(d)), and every other player has β = (2g(d) − α)/(d − 1).  In a game t h(|S|), every player
    has 2 h(d)/d.
    """
    p, d = pairs.shape
    size = (pairs > 0).sum(axis=1)
    t = (2 * np.arange(d + 1) - d) / d
    # (d + 1, d + 1)
    rho = variation * np.exp(-np.abs(np.abs(t)[:, None] - np.abs(t)) / SIZE_LENGTH)

    def effects(g: FloatArray) -> tuple[FloatArray, FloatArray]:
        alpha = 2 / d * (g[1:d].sum(axis=0) + g[d])
        return alpha, (2 * g[d] - alpha) / max(d - 1, 1)

    alpha, beta = effects(rho / d)  # (d + 1,): by coalition size
    with_phi = pairs * (alpha - beta)[size, None] + (pairs.sum(axis=1) * beta[size])[:, None]
    variance = effects(alpha)[0] + (d - 1) * effects(beta)[1]
    parts = Covariances(
        pairs @ pairs.T / d * rho[np.ix_(size, size)], with_phi, np.full(d, variance)
    )
    if d < p < MOST_COMMON_PAIRS * d:
        common = (
            COMMON_VARIANCE * min((p - d) ** 2 / (COMMON_PAIRS * d), 1.0) * t * t[:, None] * rho
        )
        with_phi = np.repeat(2 / d * common[size, d][:, None], d, axis=1)
        parts += Covariances(
            common[np.ix_(size, size)], with_phi, np.full(d, 4 / d**2 * common[d, d])
        )
    return parts


@lru_cache(maxsize=8)
def krawtchouk(d: int) -> FloatArray:
    """Normalized Krawtchouk polynomials κ_s(h) (d + 1, d + 1), with κ_s(0) = 1.

    κ_s(h) is the mean of χ_T(S) χ_T(S') over all T of size s, where S and S' differ in h players.
    The recursion (d − s) κ_{s+1} = (d − 2h) κ_s − s κ_{s−1} is stable only for s and h up to d/2.
    All other values follow from κ_s(d − h) = (−1)^s κ_s(h) and κ_{d−s}(h) = (−1)^h κ_s(h).
    """
    half = d // 2
    near = np.arange(half + 1)
    sign = (-1.0) ** np.arange(d + 1)
    out = np.zeros((d + 1, d + 1))
    out[0] = 1.0
    for s in range(half):
        before = s * out[s - 1, : half + 1] if s else 0.0
        out[s + 1, : half + 1] = ((d - 2 * near) * out[s, : half + 1] - before) / (d - s)
    far = slice(half + 1, d + 1)
    out[: half + 1, far] = sign[: half + 1, None] * out[: half + 1, d - np.arange(d + 1)[far]]
    out[far] = sign * out[d - np.arange(d + 1)[far]]
    # cached: a caller that wrote into it would change later results
    out.setflags(write=False)
    return out


def _elementary(numbers: FloatArray) -> FloatArray:
    """Elementary symmetric polynomials e_0, e_1, … of numbers (n,), up to the last relevant order."""
    out = np.zeros(min(len(numbers), RELEVANT_ORDERS[-1]) + 1)
    out[0] = 1.0
    for number in numbers:
        # numpy computes the right side first, so that no product contains a number twice
        out[1:] += number * out[:-1]
    return out


def correlations(pairs: FloatArray, relevance: FloatArray) -> FloatArray:
    """Correlations (orders, p, p) of the values at pairs z (p, d), for each relevant order."""
    out = np.empty((len(_relevant_orders(len(relevance))), len(pairs), len(pairs)))
    for block, later, part in _correlated_blocks(pairs, relevance):
        out[:, block, later] = part
        out[:, later, block] = part.transpose(0, 2, 1)
    return out


def _correlated_blocks(
    pairs: FloatArray, relevance: FloatArray
) -> Iterator[tuple[slice, slice, FloatArray]]:
    """Yield blocks of `correlations`: rows, columns from the first row on, values (orders, q, p)."""
    orders = _relevant_orders(len(relevance))
    totals = _elementary(relevance)[orders]
    for start in range(0, len(pairs), CORRELATION_ROWS):
        block = slice(start, start + CORRELATION_ROWS)
        later = slice(start, None)
        sums = loops.elementary_products(pairs[block] * relevance, pairs[later], orders)
        yield block, later, sums / totals[:, None, None]


def player_sizes(phi: FloatArray) -> FloatArray:
    """Relative attribution sizes (d,) from phi (games, d); the largest is 1.

    A size is the root mean square over games, after each game is scaled to the same norm.
    """
    squares = np.square(phi)
    norm = squares.sum(axis=1, keepdims=True)
    size = np.sqrt((squares / np.where(norm > 0, norm, 1.0)).mean(axis=0))
    largest = size.max()
    if largest > 0:
        return np.maximum(size / largest, LEAST_SIZE)
    return np.ones(len(size))
