"""Kriging: the Shapley values of the likeliest game through the values of complete outer shells and random pairs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from threadpoolctl import threadpool_limits

from dshap.designs.coalitions import WholeViews, checked_integer, checked_span, pack, stream, unpack
from dshap.designs.jackknife import N_REPLICATES, checked_replicates
from dshap.designs.leverage import draw_by_leverage
from dshap.designs.strata import strata_of
from dshap.errors import InputError
from dshap.types import CoalitionBlock, FloatArray, Groups, Record

__all__ = ["MAX_KRIGED", "MAX_KRIGED_PLAYERS", "KrigingDesign", "kriging"]

MAX_KRIGED = 4_096
"""Coalitions: a matrix of half as many squared is factored in every process (seconds, and 130 MB there)."""
MAX_KRIGED_PLAYERS = 256
MAX_PAIRED_PLAYERS = 64
"""Of interactions: 2,016 pairs."""
LEAST_SIZE = 0.01
"""Of the attributions of a player over that of the largest ones."""
POWERS = (0.0, 0.5, 1.0)
"""Of that size, which a player's relevance may be."""
RELEVANT_ORDERS = (3, 5, 7, 9)
"""In which players differ; in higher ones, which are weak where that matters, all are alike."""
MAX_RELEVANT_PLAYERS = 64
"""Of more, all are alike: the sums over products of so many are slow."""
ROW_BLOCK = 128
"""Pairs whose correlations with all others are computed at once."""
DECAYS = tuple(float(f"{10.0**exponent:.3g}") for exponent in np.arange(-3.0, 0.25, 0.25))
"""What a pilot chooses from."""
SLACK = 6.63
"""A pilot takes the smallest decay whose deviance is within this of the least (χ² of one degree of freedom, 1 %): where
a few games leave it open, too small a decay costs a few per cent of error and too large a one a multiple."""
DEFAULT_DECAY = 0.03
"""Where no pilot is run.  Boosted trees and networks on four tables had 0.001 to 0.01; more gives larger errors."""
PILOT_ROWS = 16
PILOT_PAIRS = 512
"""Pairs that the likelihood is computed on, at most."""
NUGGET = 1e-10
"""Of the variance of a value, added to the diagonal: rounding."""
SHELL_WEIGHT = 1 / 4
"""What an error of a size whose coalitions are all there counts in the scale of a game, beside 1 of a drawn one."""
CONTRASTS = 4
"""Position of the random stream of the contrasts; coalitions have 0 to 3."""


@dataclass(frozen=True)
class KrigingDesign(WholeViews):
    """The posterior mean of a Gaussian process of games; see `kriging`."""

    n_players: int
    budgets: tuple[int, ...]
    """Coalitions after each stage, the ends counted, even."""
    decay: float | None = None
    """Variance of an order of interactions over that of the odd order below; None: a pilot is to choose it."""
    seed: int = 0
    n_replicates: int = N_REPLICATES
    relevance: tuple[float, ...] | None = None
    """(d,): what a player in a coalition multiplies the variance of its coefficient with; a pilot's choice."""
    is_efficient: bool = True
    """The values of the two ends are met exactly."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_replicates", checked_replicates(self.n_replicates))
        d = checked_integer("n_players", self.n_players, 1)
        if d > MAX_KRIGED_PLAYERS:
            raise InputError(
                f"kriging is for at most {MAX_KRIGED_PLAYERS} players, not {d}: use kernelshap({d}, n_coalitions)"
            )
        if self.decay is not None and not 0.0 < self.decay <= 1.0:
            raise InputError(f'decay is {self.decay!r}: give a number above 0 and at most 1, or "pilot"')
        least = min(2 * d + 2, 1 << d)
        budgets = tuple(min(checked_integer("n_coalitions", budget, 1), 1 << d) // 2 * 2 for budget in self.budgets)
        for given, budget in zip(self.budgets, budgets, strict=True):
            if not least <= budget <= MAX_KRIGED:
                raise InputError(
                    f"n_coalitions={given} for kriging {d} players: give {least} to {MAX_KRIGED} (there are 2^{d} in "
                    f"all); kernelshap takes more"
                )
        object.__setattr__(self, "seed", checked_integer("seed", self.seed, 0))
        for now, grown in pairwise(budgets):
            if grown <= now:
                raise InputError(f"n_coalitions={grown} of a design that has {now} already: give at least {now + 2}")
        object.__setattr__(self, "budgets", budgets)

    @property
    def n_coalitions(self) -> int:
        """Distinct coalitions, the two ends counted."""
        return self.budgets[-1]

    @property
    def group_columns(self) -> int:
        """1: a contrast of the values is a number, which every player's error is proportional to."""
        return 1

    @property
    def why_no_errors(self) -> str:
        """Why standard errors are NaN: fewer than 4d coalitions, or fewer contrasts than replicates."""
        least = min(max(4 * self.n_players, 2 * (self.n_players + self.n_replicates)), 1 << self.n_players)
        if not self.n_replicates or self._is_whole or self.n_coalitions >= least:
            return ""
        return (
            f"{self.n_coalitions} coalitions of {self.n_players} players are too few for standard errors: give {least}"
        )

    @property
    def pilot_rows(self) -> int:
        """Rows whose values choose the decay; 0 where it is given, or where nothing is left open."""
        return 0 if self.decay is not None or self._is_whole else PILOT_ROWS

    def tune(self, values: FloatArray) -> Record:
        """From the values (games, m) of all coalitions of some instances and outputs: the `relevance` (d,), a power of
        the size of the attributions, and the smallest `decay` that the restricted likelihood, pooled over the games,
        does not contradict."""
        pairs, odd = _pairs(self), (values[:, 1::2] - values[:, 0::2]) / 2  # (games, pairs): of ∅, N and of S̄, S
        odd[:, 1:] *= -1
        weights, chosen = _solution(self).weights, np.arange(len(pairs))
        if len(pairs) > PILOT_PAIRS:
            rest = stream(self.seed, CONTRASTS, 1).permutation(len(pairs) - 1)[: PILOT_PAIRS - 1]
            chosen = np.concatenate([[0], 1 + np.sort(rest)])
        tried = {}
        with threadpool_limits(1, user_api="blas"):
            size = _size(odd @ weights)
            for power in POWERS if self.n_players <= MAX_RELEVANT_PLAYERS else POWERS[:1]:
                known = _correlations(pairs[chosen], pairs[chosen], size**power) if power else None
                for decay in DECAYS:
                    prior = _Prior(_variances(self.n_players, decay, False), size**power if power else None)
                    tried[power, decay] = _deviance(pairs[chosen], prior, odd[:, chosen].T, known)
        power, decay = min(tried, key=tried.__getitem__)
        most = tried[power, decay] + SLACK
        if np.isfinite(most):
            decay = min(own for own in DECAYS if tried[power, own] <= most)
        else:  # all games are additive
            power, decay = 0.0, DEFAULT_DECAY
        relevance = size**power
        return Record({"decay": np.array(decay), "relevance": relevance / relevance.mean()})

    def tuned(self, record: Record) -> KrigingDesign:
        """This design with that decay and these relevances."""
        return replace(self, decay=float(record["decay"]), relevance=tuple(record["relevance"].tolist()))

    def block(self, start: int, stop: int) -> CoalitionBlock:
        """Coalitions start..stop; the two ends have scores too."""
        checked_span(self, start, stop)
        pair, is_complement = np.divmod(np.arange(start, stop), 2)
        masks = unpack(_listed(self)[pair], self.n_players) ^ is_complement.astype(bool)[:, None]
        sign = np.where(is_complement, -0.5, 0.5)
        sign[(pair == 0)] *= -1  # the empty coalition comes first, and is the complement of the pair (N, ∅)
        solution = _solution(self)
        score = sign[:, None] * solution.weights[pair]
        if not self.n_replicates or self.why_no_errors:
            return CoalitionBlock(masks, score, Groups.none(1))
        m, n_groups = stop - start, self.n_replicates
        each = sign[:, None] * solution.contrasts[pair]  # (m, R)
        group = np.tile(np.arange(n_groups, dtype=np.int16), m)
        return CoalitionBlock(masks, score, Groups(np.repeat(np.arange(m), n_groups), group, each.reshape(-1, 1)))

    has_interactions = True

    def interactions(self, start: int, stop: int) -> FloatArray:
        """Posterior mean of the Shapley interaction index, I_ij = Σ_{T ∋ i, j, |T| even} 4 c_T/(|T| − 1)."""
        checked_span(self, start, stop)
        if self.n_players > MAX_PAIRED_PLAYERS:
            raise InputError(
                f"interactions are for at most {MAX_PAIRED_PLAYERS} players, not {self.n_players}: group columns"
            )
        return 0.5 * _pair_weights(self)[np.arange(start, stop) // 2]

    def finish(self, sums: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        """The sums (n, d, k): the two ends have their scores."""
        return sums

    def replicates(self, sums: FloatArray, groups: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        """phi + deviation · contrast_g (R, n, d, k), contrasts (R, n, 1, k)."""
        if self.why_no_errors:
            return np.full((self.n_replicates, *sums.shape), np.nan)
        out: FloatArray = sums + groups * _solution(self).deviation[:, None]
        return out

    @property
    def stages(self) -> tuple[Self, ...]:
        """One design a budget."""
        return tuple(replace(self, budgets=self.budgets[: stage + 1]) for stage in range(len(self.budgets)))

    def grow(self, n_coalitions: int) -> KrigingDesign:
        """A design whose coalitions begin with these; weights are those of the new list."""
        return replace(self, budgets=(*self.budgets, n_coalitions))

    def with_players(self, n_players: int) -> KrigingDesign:
        """As many coalitions of another number of players, all there are where they are fewer; in one stage."""
        budget = min(self.n_coalitions, 1 << n_players)
        return replace(self, n_players=n_players, budgets=(budget,), relevance=None)

    def fingerprint(self) -> dict[str, Any]:
        """Name and parameters."""
        return {
            "design": "kriging",
            "n_players": self.n_players,
            "budgets": list(self.budgets),
            "decay": self.decay,
            "seed": self.seed,
            "n_replicates": self.n_replicates,
        }

    @property
    def _is_whole(self) -> bool:
        return self.n_coalitions >= 1 << self.n_players


def kriging(
    d: int,
    n_coalitions: int,
    *,
    decay: float | str = "pilot",
    seed: int = 0,
    n_replicates: int = N_REPLICATES,
) -> KrigingDesign:
    """The Shapley values of the likeliest game through the values of n_coalitions coalitions.

    A game is v(S) = Σ_T c_T χ_T(S), χ_T the product of ±1 over the players of T, and φ_i = Σ_{T∋i, |T| odd} 2 c_T/|T|:
    only the odd part counts, which is what pairs of complements show.  Independent c_T ~ N(0, σ²_T), flat for |T| = 1
    and of total variance decay^((s−3)/2) for the orders s = 3, 5, …, make φ a Gaussian process; phi is its posterior
    mean given the values.  Within an order σ²_T goes with Π_{i∈T} r_i: players of larger attributions, of relevance
    r_i, have larger interactions.  It is linear in the values, meets all of them and the two ends, is exact for games
    with interactions of two players, and nearly so of three once sizes 1 and 2 and their complements are there.

    The list: outer sizes as long as all their coalitions fit, the rest spread evenly over the other sizes, at random.

    Parameters
    ----------
    d : int
        Number of players, at most 256.
    n_coalitions : int
        Distinct coalitions, the empty and the full one counted: 2d + 2 to 4,096.
    decay : float or "pilot"
        Above 0, at most 1, all players equally relevant.  "pilot": by restricted maximum likelihood from the values of
        up to 16 instances (the smallest that it does not contradict), relevance from their attributions.
    seed : int
    n_replicates : int
        Contrasts that standard errors come from, 2 to 100; 0: none.

    Returns
    -------
    KrigingDesign

    Raises
    ------
    InputError
        Too few or too many coalitions or players, or a decay outside (0, 1].

    Notes
    -----
    Standard errors: the posterior deviation of φ_i times the scale of the game, by leave-one-out: how far every value
    is from what the others predict, over the deviation of that, in the mean square (through n_replicates sums with
    random signs, linear in the values until the end): phi ± t_{R−1} std_error.  Values of sizes that are all there
    count a quarter: what phi misses are values of the other sizes, and these alone would promise too much.  That share
    was set on random games, and the errors are as good as the decay: on games whose interactions are weak, even or
    strong in their order, the decay pooled over them, 93 to 95 % of the intervals of a nominal 95 % hold the truth
    (`python -m tests.benchmarks.coverage`), on boosted trees and networks of eight columns 92 to 96 %.

    References
    ----------
    Universal kriging: N. Cressie, Statistics for Spatial Data (1993), section 3.4; Fourier coefficients of games and
    their Shapley values: R. O'Donnell, Analysis of Boolean Functions (2014), and M. Grabisch, Set Functions, Games and
    Capacities in Decision Making (2016), section 2.12.
    """
    if isinstance(decay, str) and decay != "pilot":
        raise InputError(f'decay is {decay!r}: give a number above 0 and at most 1, or "pilot"')
    return KrigingDesign(d, (n_coalitions,), None if isinstance(decay, str) else float(decay), seed, n_replicates)


@dataclass(frozen=True)
class _Prior:
    """Independent coefficients c_T of games."""

    variances: FloatArray
    """(d + 1,): total variance of each order; that of order 1 is a part of the trend, which changes no result."""
    relevance: FloatArray | None
    """(d,): σ²_T goes with the product over T, in `RELEVANT_ORDERS`; None: all players are alike."""

    @property
    def alike(self) -> FloatArray:
        """`variances` of the orders in which all players are alike, 0 for the others."""
        out = self.variances.copy()
        if self.relevance is not None:
            out[self.relevant[0]] = 0.0
        return out

    @property
    def relevant(self) -> tuple[NDArray[np.int64], FloatArray]:
        """The orders in which players differ, and σ²_T/Π_{i in T} r_i there."""
        assert self.relevance is not None
        orders = np.array([s for s in RELEVANT_ORDERS if s <= len(self.relevance)], dtype=np.int64)
        return orders, self.variances[orders] / _elementary(self.relevance[:, None], len(self.relevance))[orders, 0]

    def of_phi(self, pairs: FloatArray, weights: FloatArray) -> FloatArray:
        """r_i Σ_s weight_s Σ over |U| = s − 1 without i of Π_{j in U} r_j z_j, for pairs z (p, d): (p, d)."""
        assert self.relevance is not None
        others = 1.0 - np.eye(pairs.shape[1])  # (d, d)
        products = (column[:, None] * rest for column, rest in zip((pairs * self.relevance).T, others, strict=True))
        sums = _elementary(products, len(others))[self.relevant[0] - 1]
        out: FloatArray = self.relevance * np.tensordot(weights, sums, 1)
        return out


@dataclass(frozen=True)
class _Process:
    """The process at p pairs z (p, d) of ±1, whitened: values L⁻¹y, trend L⁻¹z."""

    factor: FloatArray
    """L (p, p), lower, LLᵀ = K of the orders from 3, with a part of the trend that changes no result."""
    trend: FloatArray
    """(p, d)"""
    gram: FloatArray
    """Cholesky factor (d, d), lower, of the trend's Gram."""
    covariance: FloatArray
    """L⁻¹ cov(y, φ) (p, d)."""
    prior: FloatArray
    """(d,): variance of φ_i."""

    @classmethod
    def at(cls, pairs: FloatArray, prior: _Prior, known: FloatArray | None = None) -> _Process:
        """With this prior; `known` are the `_correlations` of the pairs, where they are there already."""
        p, d = pairs.shape
        inner, alike = pairs @ pairs.T, prior.alike
        order_one, alike[1] = alike[1], 0.0
        kernel = (alike @ _krawtchouk(d))[((d - inner) / 2).round().astype(np.intp)]
        kernel += inner * (order_one / d) + NUGGET * np.eye(p)
        # cov(φ_i, y) = z_i Σ_s V_s (2/d) κ_{s−1}(minus signs among the others), where players are alike
        alike[1] = order_one
        others = (alike[1:] * 2 / d) @ _krawtchouk(d - 1)
        minus = (pairs < 0).sum(axis=1, keepdims=True) - (pairs < 0)
        covariance, sizes = pairs * others[minus], np.arange(1, d + 1, 2)
        variance = np.full(d, (4 * alike[sizes] / (sizes * d)).sum())
        if prior.relevance is not None:
            orders, weights = prior.relevant
            for start in range(0, p, ROW_BLOCK):
                block = slice(start, start + ROW_BLOCK)
                own = _correlations(pairs[block], pairs, prior.relevance) if known is None else known[:, block]
                kernel[block] += np.tensordot(prior.variances[orders], own, 1)
            covariance += pairs * prior.of_phi(pairs, weights * 2 / orders)
            variance += prior.of_phi(np.ones((1, d)), weights * 4 / orders**2)[0]
        factor = cholesky(kernel, lower=True)
        trend = solve_triangular(factor, pairs, lower=True)
        gram = cholesky(trend.T @ trend, lower=True)
        return cls(factor, trend, gram, solve_triangular(factor, covariance, lower=True), variance)

    @property
    def missing(self) -> FloatArray:
        """What the trend's weights lack to be unbiased (d, d): 2I − trendᵀ covariance."""
        return 2 * np.eye(self.trend.shape[1]) - self.trend.T @ self.covariance

    def residual(self, whitened: FloatArray) -> FloatArray:
        """Whitened values (p, games) without their trend."""
        rest: FloatArray = whitened - self.trend @ cho_solve((self.gram, True), self.trend.T @ whitened)
        return rest

    def left_out(self, signs: FloatArray, weights: FloatArray) -> FloatArray:
        """Weights (p, R) of Σ_j sign_j √weight_j e_j/s_j: e_j is how far the value of pair j is from what the others
        predict, s_j the deviation of that in units of scale.

        With P the precision of the values once the trend is taken off, e_j = (P y)_j/P_jj and s_j² = 1/P_jj.
        """
        whitened = self.residual(solve_triangular(self.factor, np.eye(len(self.factor)), lower=True))
        precision = whitened.T @ whitened
        each = np.sqrt(weights / np.diag(precision))
        left_out: FloatArray = precision @ (signs * each[:, None])
        return left_out


@dataclass(frozen=True)
class _Solution:
    """Weights of the odd values y = (v(S) − v(S̄))/2 of the pairs, (N, ∅) first."""

    weights: FloatArray
    """(p, d): phi = weightsᵀ y."""
    contrasts: FloatArray
    """(p, R): Σ over random signs of the leave-one-out errors, each over its own deviation; no additive game moves
    them, and the sum of their squares is the scale² of the game in the mean."""
    deviation: FloatArray
    """(d,): posterior standard deviation of phi in units of scale."""


@lru_cache(maxsize=16)
def _solution(design: KrigingDesign) -> _Solution:
    """The solution of a design; the same bits on any number of cores."""
    pairs, d = _pairs(design), design.n_players
    decay = DEFAULT_DECAY if design.decay is None else design.decay
    with threadpool_limits(1, user_api="blas"):
        is_alike = design.relevance is None or len(set(design.relevance)) == 1 or design._is_whole
        relevance = None if is_alike else np.array(design.relevance)
        process = _Process.at(pairs, _Prior(_variances(d, decay, design._is_whole), relevance))
        by_trend = cho_solve((process.gram, True), process.missing)
        weights = solve_triangular(process.factor, process.covariance + process.trend @ by_trend, lower=True, trans="T")
        total = np.zeros(len(pairs))
        total[0] = 2.0  # Σ_i φ_i = v(N) − v(∅), and of nothing else
        weights += ((total - weights.sum(axis=1)) / d)[:, None]
        explained = np.square(process.covariance).sum(axis=0) - (process.missing * by_trend).sum(axis=0)
        deviation = np.sqrt(np.maximum(process.prior - explained, 0.0))
        if design._is_whole or design.why_no_errors or not design.n_replicates:
            return _Solution(weights, np.zeros((len(pairs), design.n_replicates)), np.zeros(d))
        signs = np.where(stream(design.seed, CONTRASTS).random((len(pairs), design.n_replicates)) < 0.5, -1.0, 1.0)
        contrasts = process.left_out(signs, _error_weights(pairs)) / np.sqrt(design.n_replicates)
    return _Solution(weights, contrasts, deviation)


def _error_weights(pairs: FloatArray) -> FloatArray:
    """What the leave-one-out error of each pair (p,) counts in the scale of a game; they sum to 1, the ends count 0.

    What phi misses is coalitions of the sizes that were drawn from.  Sizes that are all there are further out: their
    errors are extrapolations, and too large on games of strong interactions, where those of drawn ones are too small.
    """
    d, inside = pairs.shape[1], (pairs > 0).sum(axis=1)
    size = np.minimum(inside, d - inside)
    n_pairs = np.array([comb(d, s) // (2 if 2 * s == d else 1) for s in range(d // 2 + 1)], dtype=float)
    is_whole = np.bincount(size, minlength=len(n_pairs)) == n_pairs
    weights = np.where(is_whole[size], SHELL_WEIGHT, 1.0)
    weights[0] = 0.0
    out: FloatArray = weights / weights.sum()
    return out


@lru_cache(maxsize=4)
def _pair_weights(design: KrigingDesign) -> FloatArray:
    """Weights (p, pairs) of the even values (v(S) + v(S̄))/2; the constant is a flat trend, orders 2, 4, … vary."""
    z, d = _pairs(design), design.n_players
    decay = DEFAULT_DECAY if design.decay is None else design.decay
    sizes = np.arange(2, d + 1, 2)
    own = np.array([comb(d, int(s)) for s in sizes], float) if design._is_whole else decay ** ((sizes - 2) / 2)
    variances = np.zeros(d + 1)
    variances[sizes] = own / own.sum() if len(own) else own
    variances[0] = 1 / own.sum() if design._is_whole and len(own) else 1.0
    i, j = np.triu_indices(d, 1)
    with threadpool_limits(1, user_api="blas"):
        inner = z @ z.T
        kernel = (variances @ _krawtchouk(d))[((d - inner) / 2).round().astype(np.intp)] + NUGGET * np.eye(len(z))
        # cov(I_ij, e) = z_i z_j Σ_s V_s 4s/(d(d − 1)) κ_{s−2}(minus signs among the others)
        by_size = 4 * sizes / max(d * (d - 1), 1) * variances[sizes]
        others = by_size @ _krawtchouk(max(d - 2, 0))[sizes - 2]
        minus = (z < 0).sum(axis=1, keepdims=True) - (z[:, i] < 0) - (z[:, j] < 0).astype(int)
        factor = cholesky(kernel, lower=True)
        covariance = solve_triangular(factor, z[:, i] * z[:, j] * others[minus], lower=True)
        trend = solve_triangular(factor, np.ones(len(z)), lower=True)
        covariance -= trend[:, None] * (trend @ covariance / (trend @ trend))
        return np.asarray(solve_triangular(factor, covariance, lower=True, trans="T"))


@lru_cache(maxsize=8)
def _listed(design: KrigingDesign) -> NDArray[np.uint8]:
    """The first coalition of each pair, packed (p, ⌈d/8⌉): ∅, whole outer sizes, then a draw of the others."""
    d, budgets = design.n_players, [budget // 2 - 1 for budget in design.budgets]
    units = np.zeros((0, d), dtype=bool)
    if d > 1:
        units = draw_by_leverage(strata_of(d, paired=True), budgets, design.seed, fills_shells=True).units
    return pack(np.concatenate([np.zeros((1, d), dtype=bool), units]))


def _pairs(design: KrigingDesign) -> FloatArray:
    """One coalition of each pair as ±1 (p, d), N first."""
    masks = unpack(_listed(design), design.n_players)
    masks[0] = True
    return np.where(masks, 1.0, -1.0)


def _size(phi: FloatArray) -> FloatArray:
    """(d,): root mean square over games of phi (games, d), each game scaled to the same, the largest of them 1."""
    squares = np.square(phi)
    norm = squares.sum(axis=1, keepdims=True)
    size = np.sqrt((squares / np.where(norm > 0, norm, 1.0)).mean(axis=0))
    largest = size.max()
    out: FloatArray = np.maximum(size / largest, LEAST_SIZE) if largest > 0 else np.ones(len(size))
    return out


def _elementary(numbers: Iterable[FloatArray], n: int) -> FloatArray:
    """e_0, e_1, … (orders, …) of n arrays of numbers: sums of the products of s of them, to the last relevant order."""
    out = np.zeros(0)
    for own in numbers:
        if not out.size:
            out = np.zeros((min(n, RELEVANT_ORDERS[-1]) + 1, *own.shape))
            out[0] = 1.0
        for s in range(len(out) - 1, 0, -1):
            out[s] += own * out[s - 1]
    return out


def _correlations(left: FloatArray, right: FloatArray, relevance: FloatArray) -> FloatArray:
    """Of the values at two pairs, by each of the relevant orders: (orders, q, p) from z (q, d) and (p, d)."""
    d = len(relevance)
    orders = [s for s in RELEVANT_ORDERS if s <= d]
    totals = _elementary(relevance[:, None], d)[orders]  # (orders, 1)
    products = (np.multiply.outer(own, other) for own, other in zip((left * relevance).T, right.T, strict=True))
    out: FloatArray = _elementary(products, d)[orders] / totals[:, :, None]
    return out


def _variances(d: int, decay: float, is_whole: bool) -> FloatArray:
    """Total variance (d + 1,) of each odd order, that of the orders from 3 together 1, and of order 1 too.

    Where every coalition is there the prior does not matter: every c_T has the same variance, and the kernel is 1.
    """
    sizes = np.arange(3, d + 1, 2)
    own = np.array([comb(d, int(s)) for s in sizes], dtype=float) if is_whole else decay ** ((sizes - 3) / 2)
    out = np.zeros(d + 1)
    out[sizes] = own / own.sum() if len(own) else own
    out[1] = float(d / own.sum()) if is_whole and len(own) else 1.0
    return out


def _krawtchouk(d: int) -> NDArray[np.float64]:
    """κ_s(h) (d + 1, d + 1): mean of χ_T over |T| = s at coalitions that differ in h players; κ_s(0) = 1.

    (d − s) κ_{s+1} = (d − 2h) κ_s − s κ_{s−1}.
    """
    h = np.arange(d + 1)
    out = np.zeros((d + 1, d + 1))
    out[0] = 1.0
    for s in range(d):
        out[s + 1] = ((d - 2 * h) * out[s] - s * out[s - 1]) / (d - s)
    return out


def _deviance(pairs: FloatArray, prior: _Prior, odd: FloatArray, known: FloatArray | None) -> float:
    """−2 × the restricted log-likelihood of games odd (p, games), each of its own scale; inf: all are additive."""
    p, d = pairs.shape
    process = _Process.at(pairs, prior, known)
    squares = np.square(process.residual(solve_triangular(process.factor, odd, lower=True))).sum(axis=0)
    is_rough = squares > 1e-16 * np.square(odd).sum(axis=0)
    if not is_rough.any():
        return np.inf
    volume = np.log(np.diag(process.factor)).sum() + np.log(np.diag(process.gram)).sum()
    return float((p - d) * np.log(squares[is_rough]).sum() + 2 * is_rough.sum() * volume)
