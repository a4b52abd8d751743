"""Kriging: the Shapley values of the likeliest game through the values of sampled pairs of complements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from threadpoolctl import threadpool_limits

from dshap.checks import Whole, checked
from dshap.designs.coalitions import WholeViews, checked_span, pack, stream, unpack
from dshap.designs.game_process import (
    NUGGET,
    ROUGHNESS,
    Prior,
    Process,
    correlations,
    deviance,
    exact_weights,
    krawtchouk,
)
from dshap.designs.jackknife import N_REPLICATES, checked_replicates
from dshap.designs.leverage import counts_by_leverage, draw_by_leverage
from dshap.designs.sparse_terms import FITTED_BYTES, ROUNDS, Screen, fitted
from dshap.designs.strata import strata_of
from dshap.errors import InputError, shown
from dshap.types import N_ENDS, CoalitionBlock, FloatArray, Groups, Record

__all__ = ["MAX_KRIGED", "MAX_KRIGED_PLAYERS", "KrigingDesign", "kriging"]

MAX_KRIGED = 4_096
"""Coalitions: a matrix of half as many squared is factored in every process (seconds, and 130 MB there)."""
MAX_KRIGED_PLAYERS = 1_024
MAX_PAIRED_PLAYERS = 64
"""Of interactions: 2,016 pairs."""
LEAST_SIZE = 0.01
"""Of the attributions of a player over that of the largest ones."""
POWERS = (0.0, 0.5, 1.0)
"""Of that size, which a player's relevance may be."""
MAX_RELEVANT_PLAYERS = 64
"""Of more, all are alike: the sums over products of so many are slow."""
DECAYS = tuple(float(f"{10.0**exponent:.3g}") for exponent in np.arange(-3.0, 0.25, 0.5))
VARIATIONS = (0.0, 0.03, 0.3, 3.0)
"""What a pilot chooses from."""
SLACK = 6.63
"""A pilot takes the smallest decay whose deviance is within this of the least (χ² of one degree of freedom, 1 %): where
a few games leave it open, too small a decay costs a few per cent of error and too large a one a multiple."""
DEFAULT_DECAY, DEFAULT_VARIATION = 0.03, 0.0
"""Where no pilot is run.  Boosted trees and networks on four tables had decays of 0.001 to 0.01."""
SQUARES = 6
"""Matrices of pairs × pairs that a solution takes at a time."""
PILOT_PAIRS = 512
"""Pairs that the likelihood is computed on, or half as many again as there are players."""
LEAST_PAIRS = 3
"""A player, of more than 64: of fewer, half and more would be of size 1.  With two pairs for each of 500 players the
errors of airports, products and heavy tails are a third of those with size 1 whole."""
PILOT_SHARE = 4
"""The part of the coalitions that the others are chosen by is one in so many."""
GAIN = 0.8
"""More sizes are taken whole, and sparse terms are looked for, where the pilot promises this part of the root mean
square error, or less."""
MIN_SPARSE_PLAYERS, LEAST_SPARSE_PAIRS = 6, 2
"""Players, and pairs for each of them, from which on a pilot tries sparse terms."""
HELD_SHARE, SPARSE_GAMES = 5, 8
"""It holds out one pair in so many, of so many games."""
UNLIKELY = 0.05
"""Likelihood over the largest, of priors that do not count in that."""
MAX_CONTRASTED_PLAYERS = 128
"""Of more, the errors of all players come from one contrast of the values: one for each would be slow."""
SHELL_WEIGHT = 1 / 4
"""What an error of a size whose coalitions are all there counts in that one contrast, beside 1 of a drawn one."""
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
    variation: float = DEFAULT_VARIATION
    """Variance of what a player's effect changes by with the size of the coalition, over that of interactions."""
    relevance: tuple[float, ...] | None = None
    """(d,): what a player in a coalition multiplies the variance of its coefficient with; a pilot's choice."""
    shells: int | None = None
    """Outer sizes that are taken whole, as far as they fit; None: a pilot chooses it."""
    later_shells: int | None = None
    """The pilot's choice: of the list after its first part."""
    sparse: bool | None = None
    """Each game has sparse interactions of three players beside the process; None: a pilot is to choose it."""
    doubt: float = 1.0
    """The pilot's: what the standard errors of such games are multiplied with."""
    is_efficient: bool = True
    """The values of the two ends are met exactly."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_replicates", checked_replicates(self.n_replicates))
        d = Whole(1)("n_players", self.n_players)
        if d > MAX_KRIGED_PLAYERS:
            raise InputError(
                f"kriging is for at most {MAX_KRIGED_PLAYERS} players, not {d}: use kernelshap({d}, n_coalitions)"
            )
        if self.decay is not None and not 0.0 < self.decay <= 1.0:
            raise InputError(f'decay is {self.decay!r}: give a number above 0 and at most 1, or "pilot"')
        if not 0.0 <= self.variation < np.inf:
            raise InputError(f"variation is {self.variation!r}: give 0 or a positive number")
        least = min(2 * d + 2, 1 << d)
        budgets = tuple(min(Whole(1)("n_coalitions", budget), 1 << d) // 2 * 2 for budget in self.budgets)
        for given, budget in zip(self.budgets, budgets, strict=True):
            if not least <= budget <= MAX_KRIGED:
                raise InputError(
                    f"n_coalitions={given} for kriging {d} players: give {least} to {MAX_KRIGED} (there are 2^{d} in "
                    f"all); kernelshap takes more"
                )
        object.__setattr__(self, "seed", Whole(0)("seed", self.seed))
        for now, grown in pairwise(budgets):
            if grown <= now:
                raise InputError(f"n_coalitions={grown} of a design that has {now} already: give at least {now + 2}")
        object.__setattr__(self, "budgets", budgets)
        if self._is_open and self.decay is not None:
            object.__setattr__(self, "shells", self._least_shells)
        if self._is_open and len(self._choices) == 1:
            object.__setattr__(self, "later_shells", self._least_shells)

    @property
    def n_coalitions(self) -> int:
        """Distinct coalitions, the two ends counted."""
        return self.budgets[-1]

    @property
    def group_columns(self) -> int:
        """d; 1 where the error of every player is proportional to one contrast of the values."""
        return self.n_players if self.n_players <= MAX_CONTRASTED_PLAYERS else 1

    def block_bytes(self, m: int) -> int:
        """Of scores, each coalition in every group, and of the matrices that are factored in a process."""
        n_pairs, c = self.n_coalitions // 2, self.group_columns if self.n_replicates else 0
        solution = SQUARES * 8 * n_pairs**2 + 8 * n_pairs * (self.n_replicates * c + 4 * self.n_players)
        if self.held_coalitions:  # products of two players, and the largest of a game that is fitted
            solution += n_pairs * (4 * self.n_players**2 + FITTED_BYTES)
        return solution + m * (9 * self.n_players + self.n_replicates * (26 + 24 * c))

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
    def pilot_coalitions(self) -> int:
        """Coalitions whose values `tune` wants to see: the first part of the list while the rest is open, then all of
        it while `decay` is; 0 where nothing is left to choose."""
        if self._is_open:
            return 2 * self._first_pairs + N_ENDS
        return 0 if self.decay is not None or self._is_whole else self.n_coalitions

    @property
    def held_coalitions(self) -> int:
        """All, where each game may have terms of its own; else 0."""
        return self.n_coalitions if self._has_terms or self._asks_for_terms else 0

    def linear(self) -> KrigingDesign:
        """Without sparse terms."""
        return replace(self, sparse=False)

    def of_values(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """phi (n, d, k) and replicates (R, n, d, k) from the values (n, m, k) of all coalitions, each game with its own
        sparse terms."""
        n, _, k = values.shape
        phi, replicates = _with_terms(self, _odd(values.swapaxes(1, 2).reshape(n * k, -1)))
        shape = n, k, self.n_players
        return phi.reshape(shape).swapaxes(1, 2), replicates.reshape(-1, *shape).swapaxes(2, 3)

    def tune(self, values: FloatArray) -> Record:
        """From values (games, m) of the `pilot_coalitions` of some instances and outputs, what is open: `later_shells`,
        such that likely priors promise the least error, then decay, variation and relevance of the likeliest."""
        odd = _odd(values)
        with threadpool_limits(1, user_api="blas"):
            if self._is_open:
                return Record({"later_shells": np.array(_best_shells(self, odd))})
            chosen = _likeliest(self, odd)
            if self._asks_for_terms or self._has_terms:
                gain, doubt = _held_out(self.tuned(Record(chosen)), odd)
                is_sparse = self._has_terms or gain <= GAIN
                chosen |= {"sparse": np.array(is_sparse), "sparse_gain": np.array(gain), "doubt": np.array(doubt)}
            return Record(chosen)

    def tuned(self, record: Record) -> KrigingDesign:
        """This design with these choices; no more sizes are whole than need be where the record does not say."""
        if not record.arrays:
            return replace(self, later_shells=self._least_shells) if self._is_open else self
        is_list = "later_shells" in record.arrays
        design = replace(self, later_shells=int(record["later_shells"])) if is_list else self
        if "decay" not in record.arrays:
            return design
        return replace(
            design,
            decay=float(record["decay"]),
            variation=float(record["variation"]),
            relevance=tuple(record["relevance"].tolist()),
            sparse=bool(record["sparse"]) if "sparse" in record.arrays else False,
            doubt=float(record["doubt"]) if "doubt" in record.arrays else 1.0,
        )

    def block(self, start: int, stop: int) -> CoalitionBlock:
        """Coalitions start..stop; the two ends have scores too.  With sparse terms there are no scores: NaN."""
        checked_span(self, start, stop)
        pair, is_complement = np.divmod(np.arange(start, stop), 2)
        masks = unpack(_listed(self)[pair], self.n_players) ^ is_complement.astype(bool)[:, None]
        if self._has_terms:
            return CoalitionBlock(masks, np.full(masks.shape, np.nan), Groups.none(self.group_columns))
        sign = np.where(is_complement, -0.5, 0.5)
        sign[(pair == 0)] *= -1  # the empty coalition comes first, and is the complement of the pair (N, ∅)
        solution = _solution(self)
        score = sign[:, None] * solution.weights[pair]
        c = self.group_columns
        if not self.n_replicates or self.why_no_errors:
            return CoalitionBlock(masks, score, Groups.none(c))
        m, n_groups = stop - start, self.n_replicates
        each = sign[:, None, None] * solution.contrasts[pair]  # (m, R, c)
        group = np.tile(np.arange(n_groups, dtype=np.int16), m)
        return CoalitionBlock(masks, score, Groups(np.repeat(np.arange(m), n_groups), group, each.reshape(-1, c)))

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
        """phi + spread · contrast_g (R, n, d, k), contrasts (R, n, c, k)."""
        if self.why_no_errors:
            return np.full((self.n_replicates, *sums.shape), np.nan)
        out: FloatArray = sums + groups * _solution(self).spread[:, None]
        return out

    @property
    def stages(self) -> tuple[Self, ...]:
        """One design a budget; sparse terms, which the pilot chose for the whole list, are the last one's."""
        whole = len(self.budgets)
        return tuple(
            replace(self, budgets=self.budgets[:stage], sparse=self.sparse if stage == whole else False)
            for stage in range(1, whole + 1)
        )

    def grow(self, n_coalitions: int) -> KrigingDesign:
        """A design whose coalitions begin with these; weights are those of the new list."""
        return replace(self, budgets=(*self.budgets, n_coalitions))

    def with_players(self, n_players: int) -> KrigingDesign:
        """As many coalitions of another number of players, all there are where they are fewer; in one stage."""
        budget = min(self.n_coalitions, 1 << n_players)
        return replace(self, n_players=n_players, budgets=(budget,), relevance=None, later_shells=None, doubt=1.0)

    def fingerprint(self) -> dict[str, Any]:
        """Name and parameters."""
        return {
            "design": "kriging",
            "n_players": self.n_players,
            "budgets": list(self.budgets),
            "decay": self.decay,
            "seed": self.seed,
            "n_replicates": self.n_replicates,
            "variation": self.variation,
            "shells": self.shells,
            "later_shells": self.later_shells,
            "sparse": self.sparse,
        }

    @property
    def _is_whole(self) -> bool:
        return self.n_coalitions >= 1 << self.n_players

    @property
    def _may_be_sparse(self) -> bool:
        """There are triples to choose from, not too many, and values enough to choose by."""
        is_few = MIN_SPARSE_PLAYERS <= self.n_players <= MAX_RELEVANT_PLAYERS
        return is_few and not self._is_whole and self.n_coalitions // 2 > LEAST_SPARSE_PAIRS * self.n_players

    @property
    def _has_terms(self) -> bool:
        return self.sparse is True and self._may_be_sparse

    @property
    def _asks_for_terms(self) -> bool:
        return self.sparse is None and self.decay is None and self._may_be_sparse

    @property
    def _first_pairs(self) -> int:
        """Pairs of the first stage that a pilot may choose the others by."""
        n_pairs = self.budgets[0] // 2 - 1
        return min(n_pairs, max(n_pairs // PILOT_SHARE, 2 * self.n_players))

    @property
    def _stage_pairs(self) -> list[int]:
        """Pairs after each step that the list is drawn in, the ends apart."""
        pairs = [budget // 2 - 1 for budget in self.budgets]
        return pairs if self.shells is not None or self._first_pairs == pairs[0] else [self._first_pairs, *pairs]

    @property
    def _is_open(self) -> bool:
        """The pilot is still to choose the rest of the list."""
        return self.shells is None and self.later_shells is None

    @property
    def _least_shells(self) -> int:
        """Sizes that are whole where no pilot says more: none where they would be half of the list and more."""
        is_thin = self.n_players > MAX_RELEVANT_PLAYERS and self.n_coalitions // 2 < LEAST_PAIRS * self.n_players
        return 0 if is_thin else 1

    @property
    def _choices(self) -> dict[int, tuple[int, ...]]:
        """Numbers of `later_shells` that make different lists, and the pairs of each size that they end with."""
        if self._least_shells == 0:
            return {0: ()}
        out = dict[int, tuple[int, ...]]()
        strata = strata_of(self.n_players, paired=True)
        for shells, stratum in enumerate(strata, start=1):
            if shells > 1 and stratum.n_units > self.n_coalitions // 2:
                break
            counts = counts_by_leverage(strata, self._stage_pairs, self.seed, self._stage_shells(shells))
            if counts[-1] not in out.values():
                out[shells] = counts[-1]
        return out or {1: ()}

    def _stage_shells(self, later: int) -> list[int]:
        """Sizes taken whole in each step of the list, `later` where a pilot chooses."""
        if self.shells is not None:
            return [self.shells] * len(self._stage_pairs)
        return [self._least_shells, *[later] * (len(self._stage_pairs) - 1)]


def kriging(
    d: int,
    n_coalitions: int,
    *,
    decay: float | str = "pilot",
    variation: float = DEFAULT_VARIATION,
    shells: int | str = "pilot",
    sparse: bool | str = "pilot",
    seed: int = 0,
    n_replicates: int = N_REPLICATES,
) -> KrigingDesign:
    """The Shapley values of the likeliest game through the values of n_coalitions coalitions.

    A game is v(S) = Σ_T c_T χ_T(S) + Σ_i z_i g_i(|S|), χ_T the product of ±1 over the players of T, z_i = ±1 for player
    i: only the odd part counts, which is what pairs of complements show, and there φ_i = Σ_{T∋i, |T| odd} 2 c_T/|T|.
    Independent c_T ~ N(0, σ²_T), flat for |T| = 1 and of total variance decay^((s−3)/2) for the orders s = 3, 5, …,
    and effects g_i that change with the size of the coalition, of variance `variation`/d, make φ a Gaussian process;
    phi is its posterior mean given the values.  Within an order σ²_T goes with Π_{i∈T} r_i: players of larger
    attributions, of relevance r_i, have larger interactions.  It is linear in the values, meets all of them and the
    two ends, is exact for games with interactions of two players, and nearly so of three once sizes 1 and 2 and their
    complements are there.

    The list: size 1 whole (where there are three pairs a player, or 64 players and fewer), then as many coalitions of
    every size, without replacement (leverage sampling).  After a quarter of it a pilot asks what the rest is worth:
    where interactions are weak enough, the next sizes are taken whole before the others get their shares.

    Sparse terms: where that predicts coalitions which the pilot holds out better (0.8 of the error or less), each
    instance has coefficients of up to 200 interactions of three players of its own beside the process, found in its own
    values by empirical Bayes.  Boosted trees on many columns or words have few interactions: the error there is 0.005
    to 0.5 of that without.  Attributions are then no more linear in the values, and take 10 to 80 ms an instance.

    Parameters
    ----------
    d : int
        Number of players, at most 1,024.
    n_coalitions : int
        Distinct coalitions, the empty and the full one counted: 2d + 2 to 4,096.
    decay : float or "pilot"
        Above 0, at most 1, all players equally relevant.  "pilot": by restricted maximum likelihood
        from the values of up to 16 instances (the smallest that it does not contradict), variation too, relevance from
        their attributions.
    variation : float
        Of a given decay: variance of what the players' effects change by with the size, that of interactions being 1.
    shells : int or "pilot"
        Outer sizes that are taken whole, as far as they fit; "pilot" with a given decay: 1.
    sparse : bool or "pilot"
        Sparse terms of three players: for 6 to 64 players and more than 4 coalitions a player; "pilot" with a given
        decay: none.
    seed : int
    n_replicates : int
        Contrasts that standard errors come from, 2 to 100; 0: none.

    Returns
    -------
    KrigingDesign

    Raises
    ------
    InputError
        Too few or too many coalitions or players, a decay outside (0, 1], a negative variation, or sparse terms of too
        few coalitions, too few or too many players, or without a pilot.

    Notes
    -----
    Standard errors: with e_j how far the value of pair j is from what the others predict (leave-one-out), W_ji its
    weight in φ_i and w_ji the weight that it has where every coalition is there, std_error_i² = κ_i Σ_j (W_ji − w_ji)²
    e_j²: as large as the row's values are rough, in the sizes where they are, and 0 for what is all there.  κ_i is the
    ratio of the posterior variance to the same sum under the prior, to the power of 3/4 − 2d/pairs (0 at least): trust
    in the prior where there are many pairs, none where there are few.  The square of the error is the mean of that and
    of the posterior variance times the mean square of e_j over its own deviation; above 128 players, the latter alone.
    Both are summed through n_replicates contrasts with random signs, linear in the values until the end: phi ± t_{R−1}
    std_error.  With sparse terms W and e of the first are those that the terms of the instance leave, and the error is
    multiplied with what the pilot's held out coalitions say that the choice of terms makes it too small by.
    Measured coverage, of games like the prior and of votes, airports, products, heavy tails, networks and logistic
    models: `python -m tests.benchmarks.widths`.

    References
    ----------
    Universal kriging: N. Cressie, Statistics for Spatial Data (1993), section 3.4; Fourier coefficients of games and
    their Shapley values: R. O'Donnell, Analysis of Boolean Functions (2014), and M. Grabisch, Set Functions, Games and
    Capacities in Decision Making (2016), section 2.12; leave-one-out errors in sandwich variances: J. G. MacKinnon and
    H. White, Journal of Econometrics 29 (1985), HC3; C. Musco and R. T. Witter, ICLR 2025, for leverage sampling.
    """
    decay, variation = checked(decay=decay, variation=variation)
    given = None if isinstance(decay, str) else decay
    whole = None if isinstance(shells, str) and shells == "pilot" else Whole(0)("shells", shells)
    if not isinstance(sparse, bool | str) or sparse not in (True, False, "pilot"):
        raise InputError(f'sparse is {shown(sparse)}: give True, False or "pilot"')
    n_coalitions = Whole(1)("n_coalitions", n_coalitions)
    if sparse is True and not MIN_SPARSE_PLAYERS <= d <= MAX_RELEVANT_PLAYERS:
        raise InputError(f"sparse=True is for {MIN_SPARSE_PLAYERS} to {MAX_RELEVANT_PLAYERS} players, not {d}")
    if sparse is True and n_coalitions <= 2 * LEAST_SPARSE_PAIRS * d:
        raise InputError(
            f"sparse=True with n_coalitions={n_coalitions} for {d} players: give {2 * LEAST_SPARSE_PAIRS * d + 2}"
        )
    if sparse is True and given is not None:
        raise InputError('sparse=True wants a pilot, which measures its errors: leave decay at "pilot"')
    terms = None if sparse == "pilot" else bool(sparse)
    return KrigingDesign(d, (n_coalitions,), given, seed, n_replicates, variation, shells=whole, sparse=terms)


@dataclass(frozen=True)
class _Solution:
    """Weights of the odd values y = (v(S) − v(S̄))/2 of the pairs, (N, ∅) first."""

    weights: FloatArray
    """(p, d): phi = weightsᵀ y."""
    contrasts: FloatArray
    """(p, R, c): sums over random signs of leave-one-out errors; no additive game moves them."""
    spread: FloatArray
    """(d,): what a player's error is of its contrast."""


@lru_cache(maxsize=16)
def _solution(design: KrigingDesign) -> _Solution:
    """The solution of a design; the same bits on any number of cores."""
    pairs, d, n_groups = _pairs(design), design.n_players, design.n_replicates
    with threadpool_limits(1, user_api="blas"):
        process = Process.at(pairs, _prior(design))
        weights, variance = process.posterior()
        if design._is_whole or design.why_no_errors or not n_groups:
            return _Solution(weights, np.zeros((len(pairs), n_groups, design.group_columns)), np.zeros(d))
        signs = _signs(design)
        precision = process.precision()
        left_out = precision / np.diag(precision) / np.sqrt(n_groups)  # (p, p): column j gives the error of pair j
        by_scale = np.sqrt(_error_weights(pairs) * np.diag(precision))
        if design.group_columns == 1:
            return _Solution(weights, (left_out @ (signs * by_scale[:, None]))[:, :, None], np.sqrt(variance))
        influence = _influence(weights - exact_weights(pairs), variance, np.diag(precision))
        influence = _halfway(influence, by_scale, variance)
        contrasts = np.stack([left_out @ (sign[:, None] * influence) for sign in signs.T], axis=1)
    return _Solution(weights, contrasts, np.ones(d))


def _prior(design: KrigingDesign) -> Prior:
    """What is likely of the games of a design."""
    if design._is_whole:
        return Prior.flat(design.n_players)
    is_alike = design.relevance is None or len(set(design.relevance)) == 1
    relevance = None if is_alike else np.array(design.relevance)
    return Prior.of(design.n_players, design.decay or DEFAULT_DECAY, design.variation, relevance)


def _signs(design: KrigingDesign) -> FloatArray:
    """Of the leave-one-out error of each pair in each contrast (p, R)."""
    drawn = stream(design.seed, CONTRASTS).random((design.n_coalitions // 2, design.n_replicates))
    return np.where(drawn < 0.5, -1.0, 1.0)


@dataclass(frozen=True)
class _Base:
    """The process that games have sparse terms beside."""

    screen: Screen
    precision: FloatArray
    """P (p, p)"""
    weights: FloatArray
    """(p, d): phi = weightsᵀ y without terms."""
    variance: FloatArray
    """(d,): of phi, in units of scale."""
    of_triple: float
    """Variance of the coefficient of three players."""


def _base(design: KrigingDesign) -> _Base:
    return _base_of(replace(design, sparse=None, doubt=1.0))


@lru_cache(maxsize=2)
def _base_of(design: KrigingDesign) -> _Base:
    """The same bits on any number of cores."""
    pairs, prior, d = _pairs(design), _prior(design), design.n_players
    with threadpool_limits(1, user_api="blas"):
        process = Process.at(pairs, prior)
        return _Base(Screen(pairs), process.precision(), *process.posterior(), prior.variances[3] / comb(d, 3))


def _with_terms(design: KrigingDesign, odd: FloatArray) -> tuple[FloatArray, FloatArray]:
    """phi (games, d) and replicates (R, games, d) of games odd (games, p), each with its own terms.

    φ = weightsᵀ(y − Xc) + effectsᵀc, which adds up as the base does; errors as in `_solution`, with the weights and
    leave-one-out errors that the terms leave.
    """
    base, n_groups = _base(design), design.n_replicates
    phi, replicates = odd @ base.weights, np.zeros((n_groups, *odd.shape[:1], design.n_players))
    exact, signs = exact_weights(base.screen.pairs), _signs(design) / np.sqrt(max(n_groups, 1))
    with threadpool_limits(1, user_api="blas"):
        for i, fit in enumerate(
            fitted(base.screen, base.precision, odd.T, base.of_triple, ROUNDS if design._has_terms else 0)
        ):
            missed = fit.effects(design.n_players) - fit.columns.T @ base.weights  # (t, d): by the base, of each term
            phi[i] += missed.T @ fit.coefficients
            if not n_groups or design.why_no_errors:
                continue
            spread = fit.weighted @ fit.covariance  # (p, t)
            excess = base.weights + spread @ missed - exact
            diagonal = fit.diagonal(base.precision)
            variance = base.variance + (missed * (fit.covariance @ missed)).sum(axis=0)
            left_out = design.doubt * fit.left_out(odd[i], base.precision)
            influence = _influence(excess, variance, diagonal)
            if not len(fit.coefficients):  # what chosen terms leave is too smooth for the process' own scale
                influence = _halfway(influence, np.sqrt(_error_weights(base.screen.pairs) * diagonal), variance)
            replicates[:, i] = (signs * left_out[:, None]).T @ influence
    if design.why_no_errors:
        return phi, np.full(replicates.shape, np.nan)
    return phi, phi + replicates


def _held_out(design: KrigingDesign, odd: FloatArray) -> tuple[float, float]:
    """What sparse terms do for games odd (games, p) at pairs that were held out: root mean square errors over those
    without terms, and how much less terms leave of the leave-one-out errors of pairs that they were chosen on, all of
    them and those that were not held out (at least 1).  Geometric means over up to `SPARSE_GAMES` games that are not
    additive; 1, 1 of none.

    With P of all pairs, what the base predicts of some from the others is off by (P_hh)⁻¹(Py)_h, and the others' own
    precision is P_tt − P_th(P_hh)⁻¹P_ht.
    """
    base = _base(design)
    some = np.unique(np.linspace(0, len(odd) - 1, min(len(odd), SPARSE_GAMES)).round().astype(int))
    y, precision, pairs = odd[some].T, base.precision, base.screen.pairs
    order = 1 + stream(design.seed, CONTRASTS, 2).permutation(len(pairs) - 1)
    held, kept = np.sort(order[: len(order) // HELD_SHARE]), np.sort(np.r_[0, order[len(order) // HELD_SHARE :]])
    inverse = np.linalg.inv(precision[np.ix_(held, held)])
    across = precision[np.ix_(kept, held)]
    own = precision[np.ix_(kept, kept)] - across @ inverse @ across.T
    diagonal = np.diag(precision)
    gains, doubts = [], []
    of_kept = fitted(Screen(pairs[kept]), own, y[kept], base.of_triple, ROUNDS)
    of_all = fitted(base.screen, precision, y, base.of_triple, ROUNDS)
    for game, part, whole in zip(y.T, of_kept, of_all, strict=True):
        rest = game - pairs[:, part.triples].prod(axis=2) @ part.coefficients
        without, beside = (_mean_square(inverse @ (precision @ each)[held]) for each in (game, rest))
        if without > ROUGHNESS * _mean_square(game):
            plain = _mean_square(precision @ game / diagonal) * _mean_square(own @ game[kept] / np.diag(own))
            left_out = _mean_square(whole.left_out(game, precision)) * _mean_square(part.left_out(game[kept], own))
            gains.append(max(beside / without, ROUGHNESS))
            doubts.append(gains[-1] * np.sqrt(plain / max(left_out, ROUGHNESS**2 * plain)))
    if not gains:
        return 1.0, 1.0
    gain, doubt = (float(np.exp(np.log(each).mean() / 2)) for each in (gains, doubts))
    return gain, max(doubt, 1.0)


def _mean_square(x: FloatArray) -> float:
    return float(np.square(x).mean())


def _odd(values: FloatArray) -> FloatArray:
    """Odd values (games, p) of the pairs, from values (games, m)."""
    odd: FloatArray = (values[:, 1::2] - values[:, 0::2]) / 2  # of ∅, N and of S̄, S
    odd[:, 1:] *= -1
    return odd


def _influence(excess: FloatArray, variance: FloatArray, diagonal: FloatArray) -> FloatArray:
    """What the leave-one-out error of each pair moves each player's error by (p, d), from weights beyond exact ones and
    the diagonal (p,) of the precision.

    Under the prior Σ_j excess_ji²/P_jj stands for the posterior variance (d,), which is trusted where there are many
    pairs a player; where there are few, the roughness of the values decides alone.
    """
    trust = max(0.75 - 2 * excess.shape[1] / len(excess), 0.0)
    expected = np.square(excess).T @ (1 / diagonal)
    ratio = np.divide(variance, expected, out=np.zeros_like(variance), where=expected > 0)
    return np.asarray(excess * ratio ** (trust / 2))


def _halfway(influence: FloatArray, by_scale: FloatArray, variance: FloatArray) -> FloatArray:
    """Influence (p, d) whose squares are half those given, half the posterior variance (d,) times by_scale² (p,).

    The first knows which players have rough values; the second that pairs alike miss what is alike: errors on products
    of many players would be a quarter too small without.
    """
    return np.sqrt((np.square(influence) + np.square(by_scale)[:, None] * variance) / 2)


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


def _best_shells(design: KrigingDesign, odd: FloatArray) -> int:
    """How many outer sizes to take whole, from the values (games, p) of the first pairs.

    More where that promises `GAIN` of the error of φ, in the geometric mean over all priors of decay and variation,
    weighted by their likelihoods, that of the best relevances.
    """
    tried = _all_tried(_pairs(design)[: odd.shape[1]], odd, _prior(design))
    least = _least(tried)[0]
    if not np.isfinite(least):  # all games are additive: any list will do
        return design._least_shells
    weights = dict[tuple[float, float], float]()
    for dev, prior in (each for family in tried for each in family):
        kind = prior.decay, prior.variation
        weights[kind] = max(weights.get(kind, 0.0), float(np.exp((least - dev) / 2)))
    likely = {kind: weight for kind, weight in weights.items() if weight > UNLIKELY}
    lists = [(shells, _pairs(replace(design, later_shells=shells))) for shells in design._choices]
    log_error = np.zeros(len(lists))
    for (decay, variation), weight in likely.items():
        prior = Prior.of(design.n_players, decay, variation, None)
        error2 = [Process.at(pairs, prior).posterior()[1].sum() for _, pairs in lists]
        log_error += weight / sum(likely.values()) * np.log(np.maximum(error2, NUGGET)) / 2
    best = 0
    for i in range(1, len(lists)):
        if log_error[i] < log_error[best] + np.log(GAIN):
            best = i
    return lists[best][0]


def _likeliest(design: KrigingDesign, odd: FloatArray) -> dict[str, FloatArray]:
    """The `relevance` (d,), a power of the size of the attributions, the `variation`, and the smallest `decay` that
    the restricted likelihood, pooled over the games (games, p), does not contradict."""
    chosen = _sample(design)
    prior = _smallest_decay(_all_tried(_pairs(design)[chosen], odd[:, chosen], _prior(design)))
    d = design.n_players
    relevance = np.ones(d) if prior.relevance is None else prior.relevance / prior.relevance.mean()
    return {"decay": np.array(prior.decay), "variation": np.array(prior.variation), "relevance": relevance}


def _all_tried(pairs: FloatArray, odd: FloatArray, first: Prior) -> list[Family]:
    """Deviances of the games odd (games, p): all players alike, every variation; then, of none and of the likeliest
    variation, relevances that are powers of the size of the attributions, as the first prior estimates them."""
    d = pairs.shape[1]
    tried = _tried(pairs, odd, _families(d))
    variation = _least(tried)[1].variation
    size = _size(odd @ Process.at(pairs, first).posterior()[0])
    for power in POWERS[1:] if d <= MAX_RELEVANT_PLAYERS else ():
        known = correlations(pairs, pairs, size**power)
        tried += _tried(pairs, odd, [_family(d, each, size**power) for each in sorted({0.0, variation})], known)
    return tried


Family = list[tuple[float, Prior]]
"""(deviance, prior) of each decay, rising."""


def _family(d: int, variation: float, relevance: FloatArray | None) -> list[Prior]:
    return [Prior.of(d, decay, variation, relevance) for decay in DECAYS]


def _families(d: int) -> list[list[Prior]]:
    """All players alike, every variation and decay."""
    return [_family(d, variation, None) for variation in VARIATIONS]


def _tried(
    pairs: FloatArray, odd: FloatArray, families: list[list[Prior]], known: FloatArray | None = None
) -> list[Family]:
    """The deviances of the games odd (games, p) under each prior."""
    return [[(deviance(pairs, prior, odd.T, known), prior) for prior in family] for family in families]


def _least(tried: list[Family]) -> tuple[float, Prior]:
    """The least deviance of all."""
    return min((each for family in tried for each in family), key=lambda each: each[0])


def _smallest_decay(tried: list[Family]) -> Prior:
    """The prior of smallest decay, in the family of the likeliest, that is not contradicted; the default where all
    games are additive."""
    least, best = _least(tried)
    if not np.isfinite(least):
        return Prior.of(len(best.variances) - 1, DEFAULT_DECAY, DEFAULT_VARIATION, None)
    family = next(family for family in tried if any(prior is best for _, prior in family))
    return next(prior for dev, prior in family if dev <= least + SLACK)


def _sample(design: KrigingDesign) -> NDArray[np.intp]:
    """Pairs that the likelihood is computed on, the ends among them."""
    n_pairs, most = design.n_coalitions // 2, max(PILOT_PAIRS, 3 * design.n_players // 2)
    if n_pairs <= most:
        return np.arange(n_pairs)
    rest = stream(design.seed, CONTRASTS, 1).permutation(n_pairs - 1)[: most - 1]
    return np.concatenate([[0], 1 + np.sort(rest)])


@lru_cache(maxsize=4)
def _pair_weights(design: KrigingDesign) -> FloatArray:
    """Weights (p, pairs) of the even values (v(S) + v(S̄))/2; the constant is a flat trend, orders 2, 4, … vary."""
    z, d = _pairs(design), design.n_players
    decay = DEFAULT_DECAY if design.decay is None else design.decay
    sizes = np.arange(2, d + 1, 2)
    share = np.array([comb(d, int(s)) for s in sizes], float) if design._is_whole else decay ** ((sizes - 2) / 2)
    variances = np.zeros(d + 1)
    variances[sizes] = share / share.sum() if len(share) else share
    variances[0] = 1 / share.sum() if design._is_whole and len(share) else 1.0
    i, j = np.triu_indices(d, 1)
    with threadpool_limits(1, user_api="blas"):
        inner = z @ z.T
        kernel = (variances @ krawtchouk(d))[((d - inner) / 2).round().astype(np.intp)] + NUGGET * np.eye(len(z))
        # cov(I_ij, e) = z_i z_j Σ_s V_s 4s/(d(d − 1)) κ_{s−2}(minus signs among the others)
        by_size = 4 * sizes / max(d * (d - 1), 1) * variances[sizes]
        others = by_size @ krawtchouk(max(d - 2, 0))[sizes - 2]
        minus = (z < 0).sum(axis=1, keepdims=True) - (z[:, i] < 0) - (z[:, j] < 0).astype(int)
        factor = cholesky(kernel, lower=True)
        covariance = solve_triangular(factor, z[:, i] * z[:, j] * others[minus], lower=True)
        trend = solve_triangular(factor, np.ones(len(z)), lower=True)
        covariance -= trend[:, None] * (trend @ covariance / (trend @ trend))
        return np.asarray(solve_triangular(factor, covariance, lower=True, trans="T"))


@lru_cache(maxsize=8)
def _listed(design: KrigingDesign) -> NDArray[np.uint8]:
    """The first coalition of each pair, packed (p, ⌈d/8⌉): ∅, whole outer sizes, then a draw of the others."""
    d, units = design.n_players, np.zeros((0, design.n_players), dtype=bool)
    if d > 1:
        later = design._least_shells if design.later_shells is None else design.later_shells
        shells = design._stage_shells(later)
        units = draw_by_leverage(strata_of(d, paired=True), design._stage_pairs, design.seed, shells).units
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
