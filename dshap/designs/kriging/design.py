"""The kriging design: its list of coalitions, prior and solution, and the choices of its pilot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from dshap.core.blocks import N_ENDS, CoalitionBlock, DesignInfo, Groups
from dshap.core.errors import InputError
from dshap.core.records import FloatArray, Record
from dshap.core.rules import Whole, checked
from dshap.core.threads import one_blas_thread
from dshap.designs.coalitions import BaseDesign, checked_span
from dshap.designs.jackknife import N_REPLICATES, checked_replicates
from dshap.designs.kriging.averaging import Mean, averaged_share, mixed_weights
from dshap.designs.kriging.pairs import (
    PairList,
    checked_budgets,
    determines,
    odd_values,
    too_few_for_errors,
)
from dshap.designs.kriging.pilot import (
    DEFAULT_DECAY,
    DEFAULT_VARIATION,
    NOTHING_FOUND,
    for_few,
    for_games,
    for_list,
    found_fields,
    likeliest,
)
from dshap.designs.kriging.posterior import (
    LEAST_USUAL,
    Process,
    Solution,
    error_contrasts,
    listed_interactions,
    random_signs,
    solution_bytes,
)
from dshap.designs.kriging.prior import MANY_PLAYERS, MAX_RELEVANT_PLAYERS, Prior
from dshap.designs.kriging.row_process import GameProcesses, own_seconds
from dshap.designs.kriging.sparse_terms import held_bytes

MAX_CONTRASTED_PLAYERS = 128
"""The most players that have one error contrast each.

With more, one contrast of the values gives the errors of all players: one for each would be slow.
"""
MIN_SPARSE_PLAYERS = 6
LEAST_SPARSE_PAIRS = 2
LEAST_OWN_PAIRS = 6
"""Limits from which a pilot tries what differs from game to game.

Sparse terms and separate processes need `MIN_SPARSE_PLAYERS` players and more than
`LEAST_SPARSE_PAIRS` pairs a player.  Above 64 players there are only separate processes, which then
need `LEAST_OWN_PAIRS` pairs a player.
"""


@dataclass(frozen=True)
class KrigingDesign(BaseDesign):
    """The posterior mean of a Gaussian process on games; `dshap.designs.kriging` builds it.

    The list: size 1 whole, then equally many coalitions of every size, without replacement
    (leverage sampling).  After a quarter of the list a pilot predicts the error of each way to
    continue: where interactions are weak enough, the next sizes are taken whole before the others
    get their shares.  With up to three pairs a player the pilot first sees a list without size 1
    and predicts what adding it would gain: the list is drawn anew with size 1, or continues
    without.

    Few coalitions: up to sixteen coalitions a player, attributions are in part the mean over priors
    that differ in how large single players' effects are beside interactions, weighted by the
    likelihoods of the pilot's values (`dshap.designs.kriging.averaging`).  The part is 1 up to four
    coalitions a player and falls to 0 at sixteen.  The mean is not used where its root mean square
    error at held-out coalitions is more than 1.1 times that of the likeliest prior.  On products,
    airports, heavy tails and votes of 14 to 256 players the error is 0.2 to 0.9 of that with the
    likeliest prior, on boosted trees 0.7 to 1.06.

    Games that differ: which columns matter differs from row to row.  With up to 256 players (above
    64: with at least six pairs a player), a separate Gaussian process can be fitted to each game.
    Its relevances follow the attributions that the shared process finds; a fifth of its variance is
    that of the shared process.  Each game takes it if its values are likelier under it.  The pilot
    allows this if its games expect at most 0.95 of the error (with a mean over priors: if held-out
    coalitions are predicted better).  On airports, networks, logistic models, words and images the
    error is 0.2 to 0.9 of that with one process for all games; where players with strong
    interactions have attributions that cancel, it may be 1.6 times as large.

    Sparse terms: each game can have coefficients of up to 200 interactions of three players in
    addition to the process, found in its values by empirical Bayes.  The pilot allows them if they
    reduce the error at held-out coalitions to 0.8 or less (0.64 beside separate processes).
    Boosted trees on many columns or words have few interactions: the error there is 0.005 to 0.5 of
    that without.

    With separate processes or sparse terms, attributions are no longer linear in the values, and an
    instance takes 1 to 10 ms with 256 coalitions, 40 to 280 ms with 2,048; `sparse=False` leaves
    both out.

    Notes
    -----
    Standard errors: let e_j be the leave-one-out error of pair j, W_ji its weight in φ_i and w_ji
    the weight that it has when every coalition is listed.  Then std_error_i² = κ_i Σ_j (W_ji −
    w_ji)² e_j²: as large as the row's values are rough, in the sizes where they are, and 0 when
    every coalition is listed.  κ_i is the ratio of the posterior variance to the same sum under the
    prior, to the power of 3/4 − 2d/pairs (0 at least): the prior is trusted with many pairs and
    ignored with few.  The squared error is the mean of that and of the posterior variance times the
    mean square of e_j over its own deviation; above 128 players, the latter alone.

    The largest attributions may be shrunk towards 0.  From 24 players on, the errors therefore
    include a difference estimate of what φ_i misses, Σ_j w_ji (N_s − n_s)/n_s e_j, in which the e_j
    of the n_s listed pairs of size s stand for all N_s: the part of its square above the usual one
    of the row's players, (median/0.6745)², is added.  Both are summed through n_replicates
    contrasts with random signs, linear in the values until the end: phi ± t_{R−1} std_error.

    Where attributions are a mean over priors, the variance between the priors is added; above 128
    players errors are those of the likeliest prior, which are larger.  With separate processes and
    sparse terms, W and e are those of the process and its terms, and the error is multiplied by the
    factor by which, at the pilot's held-out coalitions, the choice makes it too small.  Measured
    coverage on games of eight kinds: `python -m tests.benchmarks.widths`.

    References
    ----------
    Difference estimates: C.-E. Särndal, B. Swensson and J. Wretman, Model Assisted Survey Sampling
    (1992), chapter 6; universal kriging: N. Cressie, Statistics for Spatial Data (1993), section
    3.4; Fourier coefficients of games and their Shapley values: R. O'Donnell, Analysis of Boolean
    Functions (2014), and M. Grabisch, Set Functions, Games and Capacities in Decision Making
    (2016), section 2.12; leave-one-out errors in sandwich variances: J. G. MacKinnon and H. White,
    Journal of Econometrics 29 (1985), HC3; C. Musco and R. T. Witter, ICLR 2025, for leverage
    sampling.
    """

    kind = "kriging"
    n_players: int
    budgets: tuple[int, ...]
    """Numbers of coalitions after each round, ∅ and N counted; each is even."""
    decay: float | None = None
    """Ratio of the variances of successive odd orders of interactions; None: a pilot chooses it."""
    seed: int = 0
    n_replicates: int = N_REPLICATES
    variation: float = DEFAULT_VARIATION
    """Variance of a player's effect over coalition sizes, relative to that of interactions."""
    relevance: tuple[float, ...] | None = None
    """(d,): factor of each player in the variance of its interactions; chosen by a pilot."""
    shells: int | None = None
    """Number of outer sizes taken whole, as far as they fit; None: a pilot chooses it."""
    later_shells: int | None = None
    """Number of outer sizes taken whole after the list's first part; chosen by a pilot."""
    sparse: bool | None = None
    """Whether games have sparse interactions of three players; None: a pilot chooses."""
    by_game: bool = False
    """Whether a separate process may be fitted to each game; chosen by a pilot.

    Its relevances are proportional to the size of the game's attributions.
    """
    own_decay: float | None = None
    """The decay of the separate processes, chosen by a pilot; None: as `decay`."""
    doubt: float = 1.0
    """Factor on the standard errors of games with separate processes or terms; set by a pilot."""
    average: tuple[tuple[float, ...], ...] | None = None
    """Rows (decay, variation, power, slope, weight) of the priors averaged over, set by a pilot."""
    sizes: tuple[float, ...] | None = None
    """(d,): sizes of the attributions; their powers are the relevances in the averaged priors."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_replicates", checked_replicates(self.n_replicates))
        checked(decay="pilot" if self.decay is None else self.decay, variation=self.variation)
        object.__setattr__(
            self, "budgets", checked_budgets(Whole(1)("n_players", self.n_players), self.budgets)
        )
        object.__setattr__(self, "seed", Whole(0)("seed", self.seed))
        if self.average is not None:  # lists, from a file
            object.__setattr__(self, "average", tuple(tuple(row) for row in self.average))
        pairs = self.pair_list
        if pairs.is_open and self.decay is not None:
            object.__setattr__(self, "shells", pairs.least_shells)
        elif pairs.is_open and len(pairs.choices) == 1:
            object.__setattr__(self, "later_shells", pairs.least_shells)

    @property
    def pair_list(self) -> PairList:
        """The list of pairs of complementary coalitions."""
        return PairList(self.n_players, self.budgets, self.seed, self.shells, self.later_shells)

    @property
    def info(self) -> DesignInfo:
        """Counts, error columns and bytes of the design, known before any value."""
        d = self.n_players
        n_pairs = self.pair_list.n_pairs
        if d <= MAX_CONTRASTED_PLAYERS:
            columns = d
        else:
            columns = 1
        columns += -(-d // self.n_replicates) if self._sees_missed else 0
        if self.n_replicates:
            entries = columns
        else:
            entries = 0
        solution = solution_bytes(d, n_pairs, self.n_replicates * entries)
        if self.held_coalitions:
            solution += held_bytes(d, n_pairs, self._is_few)
        return DesignInfo(
            n_players=d,
            n_coalitions=self.budgets[-1],
            n_replicates=self.n_replicates,
            group_columns=columns,
            why_no_errors=self.why_no_errors,
            seed=self.seed,
            kept_bytes=solution,
            coalition_bytes=9 * d + self.n_replicates * (26 + 24 * entries),
        )

    @property
    def why_no_errors(self) -> str:
        """Why there are no standard errors: too few coalitions; empty if there are."""
        return too_few_for_errors(self.n_players, self.budgets[-1], self.n_replicates)

    def block(self, start: int, stop: int) -> CoalitionBlock:
        """Coalitions start..stop with their scores, the two ends included.

        The scores are NaN where games differ, or where an open list does not determine the
        attributions.
        """
        checked_span(self.budgets[-1], start, stop)
        masks = self.pair_list.masks(start, stop)
        if self._games_differ or (self.pair_list.is_open and not determines(self.pair_list)):
            return CoalitionBlock(
                masks, np.full(masks.shape, np.nan), Groups.none(self.info.group_columns)
            )
        return _solution(self).block(masks, start)

    def finish(self, sums: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        """Return the sums (n, d, k) unchanged: the two ends already have scores."""
        return sums

    def replicates(
        self, sums: FloatArray, groups: FloatArray, v_empty: FloatArray, v_full: FloatArray
    ) -> FloatArray:
        """phi plus the moves of the `Solution` (R, n, d, k), from contrasts (R, n, c, k)."""
        if self.why_no_errors:
            return np.full((self.n_replicates, *sums.shape), np.nan)
        return np.asarray(sums + _solution(self).moves(groups))

    @property
    def operator(self) -> FloatArray:
        """The matrix of `BaseDesign.operator`.

        InputError where games have sparse terms or processes of their own.
        """
        if self._games_differ:
            raise InputError("this design is not linear in the values: give them to its of_values")
        return super().operator

    def with_players(self, n_players: int) -> KrigingDesign:
        """The design of another number of players, in one round, with no more coalitions."""
        budget = min(self.budgets[-1], 1 << n_players)
        return replace(
            self,
            n_players=n_players,
            budgets=(budget,),
            relevance=None,
            later_shells=None,
            **NOTHING_FOUND,
        )

    def fingerprint(self) -> dict[str, Any]:
        """Name and parameters; estimates that come with a pilot's choices only after a pilot."""
        lists: dict[str, Any] = {
            "budgets": list(self.budgets),
            "relevance": self.relevance and list(self.relevance),
            "average": self.average and [list(row) for row in self.average],
            "sizes": self.sizes and list(self.sizes),
        }
        later = ("relevance", "doubt", "own_decay") + (() if self.average else ("average", "sizes"))
        left_out = () if self.decay is not None else later
        return {
            name: value
            for name, value in (super().fingerprint() | lists).items()
            if name not in left_out
        }

    @property
    def rounds(self) -> tuple[Self, ...]:
        """One design a budget; only the last has separate processes and sparse terms.

        The pilot chose these for the whole list.
        """
        linear = replace(self, sparse=False, by_game=False)
        return *(
            replace(linear, budgets=self.budgets[:n]) for n in range(1, len(self.budgets))
        ), self

    @property
    def pilot_coalitions(self) -> int:
        """Number of coalitions whose values `tune` needs; 0 where nothing is left to choose.

        The first part of the list while the rest is open, then all of it while `decay` is None.
        """
        pairs = self.pair_list
        if pairs.is_open:
            return 2 * pairs.first_pairs + N_ENDS
        if self.decay is not None or pairs.is_whole:
            return 0
        return self.budgets[-1]

    def tune(self, values: FloatArray) -> Record:
        """Choose what is open from values (games, m) of the `pilot_coalitions`.

        A game is one output of one instance.  For an open list: `later_shells`, by the smallest
        expected error.  Then decay, variation and relevance by likelihood, the mean over priors,
        and whether games have separate processes and sparse terms.
        """
        odd = odd_values(values)
        pairs = self.pair_list
        with one_blas_thread():
            if pairs.is_open:
                return Record(for_list(pairs, odd, self._prior))
            chosen = likeliest(pairs.pairs, odd, self._prior, self.seed)
            design = self.tuned(Record(chosen))
            if self._averaged_share:
                if self._is_determined:
                    likely = design._prior
                else:
                    likely = None
                chosen |= for_few(pairs, odd, self._prior, self.average, likely, self.seed)
                design = self.tuned(Record(chosen))
            if self.held_coalitions:
                # with many players the mean over priors has a share of at most a fifth
                if self._is_few:
                    mean = design._mean
                else:
                    mean = None
                chosen |= for_games(_processes(design), odd, self.seed, self._terms, mean)
            return Record(chosen)

    def tuned(self, record: Record) -> KrigingDesign:
        """This design with the choices of a pilot's record.

        An empty record takes as few sizes whole as the list allows.
        """
        pairs = self.pair_list
        arrays = record.arrays
        if not arrays:
            if pairs.is_open:
                return replace(self, later_shells=pairs.least_shells)
            return self
        return replace(self, **found_fields(arrays))

    @property
    def held_coalitions(self) -> int:
        """All coalitions if games may have sparse terms or separate processes; else 0."""
        asks = self.sparse is None and self.decay is None and self._may_differ
        if self._games_differ or asks:
            return self.budgets[-1]
        return 0

    def of_values(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """phi (n, d, k) and replicates (R, n, d, k) from the values (n, m, k) of all coalitions.

        Each game has its own sparse terms and, where likelier, its own process.
        """
        n, _, k = values.shape
        odd = odd_values(values.swapaxes(1, 2).reshape(n * k, -1))
        processes = _processes(self)
        signs = _signs(self)[:, : self.n_replicates if self._has_errors else 0]
        with one_blas_thread():
            phi, moves = processes.estimates(
                odd, signs, self.doubt, self._has_terms, self._has_processes
            )
        shape = n, k, self.n_players
        if self._has_errors:
            replicates = phi + moves
        else:
            replicates = np.full((self.n_replicates, *phi.shape), np.nan)
        return phi.reshape(shape).swapaxes(1, 2), replicates.reshape(-1, *shape).swapaxes(2, 3)

    def linear(self) -> KrigingDesign:
        """The design with the same process for all games and no sparse terms."""
        return replace(self, sparse=False, by_game=False)

    def interactions(self, start: int, stop: int) -> FloatArray:
        """Scores (m, pairs of players) of coalitions start..stop in the Shapley interaction index.

        I_ij = Σ_{T ∋ i, j, |T| even} 4 c_T/(|T| − 1).
        """
        checked_span(self.budgets[-1], start, stop)
        if self.decay is None:
            decay = DEFAULT_DECAY
        else:
            decay = self.decay
        return 0.5 * listed_interactions(self.pair_list, decay)[np.arange(start, stop) // 2]

    @property
    def game_seconds(self) -> float:
        """Estimated seconds to fit one game's own process; 0 unless a pilot may choose it."""
        if not self.held_coalitions or self.sparse is not None:
            return 0.0
        return own_seconds(self.n_players, self.pair_list.n_pairs)

    @property
    def _prior(self) -> Prior:
        """The shared prior of the games: flat if every coalition is listed."""
        if self.pair_list.is_whole:
            return Prior.flat(self.n_players)
        is_alike = self.relevance is None or len(set(self.relevance)) == 1
        if is_alike:
            relevance = None
        else:
            relevance = np.array(self.relevance)
        return Prior.of(self.n_players, self.decay or DEFAULT_DECAY, self.variation, relevance)

    @property
    def _averaged_share(self) -> float:
        if self.pair_list.is_whole:
            return 0.0
        return averaged_share(self.n_players, self.pair_list.n_pairs)

    @property
    def _mean(self) -> Mean | None:
        """The mean over priors and its share of the attributions; None if it is not used."""
        if self.average is None or self.sizes is None or not self._averaged_share:
            return None
        return Mean(self._averaged_share, np.array(self.average), np.array(self.sizes))

    @property
    def _has_errors(self) -> bool:
        return self.n_replicates > 0 and not self.why_no_errors

    @property
    def _may_differ(self) -> bool:
        """Whether the numbers of players and values allow to treat games apart."""
        d = self.n_players
        n_pairs = self.pair_list.n_pairs
        if self._is_few:
            is_enough = self._is_determined
        else:
            is_enough = n_pairs >= LEAST_OWN_PAIRS * d
        return (
            MIN_SPARSE_PLAYERS <= d <= MAX_RELEVANT_PLAYERS
            and is_enough
            and not self.pair_list.is_whole
        )

    @property
    def _is_determined(self) -> bool:
        """Whether a part of the pairs, as in cross-validation, determines the attributions."""
        return self.pair_list.n_pairs > LEAST_SPARSE_PAIRS * self.n_players

    @property
    def _terms(self) -> bool | None:
        """`sparse` for up to 64 players; False above, where there are too many triples."""
        if self._is_few:
            return self.sparse
        return False

    @property
    def _is_few(self) -> bool:
        return self.n_players <= MANY_PLAYERS

    @property
    def _sees_missed(self) -> bool:
        """Whether errors include what φ misses: it takes enough players to know the usual size."""
        return self._has_errors and self.n_players >= LEAST_USUAL

    @property
    def _has_terms(self) -> bool:
        return self._terms is True and self._may_differ

    @property
    def _has_processes(self) -> bool:
        return self.by_game and self._may_differ

    @property
    def _games_differ(self) -> bool:
        return self._has_terms or self._has_processes


def _signs(design: KrigingDesign) -> FloatArray:
    """Random signs (p, R) of each pair's leave-one-out error in each contrast."""
    return random_signs(design.pair_list.n_pairs, design.n_replicates, design.seed)


@lru_cache(maxsize=16)
def _solution(design: KrigingDesign) -> Solution:
    """The solution of a design; the same bits on any number of cores."""
    pairs = design.pair_list.pairs
    n_groups = design.n_replicates
    c = design.info.group_columns
    with one_blas_thread():
        process = Process.at(pairs, design._prior)
        weights, variance = process.posterior()
        is_by_player = design.n_players <= MAX_CONTRASTED_PLAYERS
        if design._has_errors and is_by_player:
            n_differences = n_groups
        else:
            n_differences = 0
        mixed, differences = mixed_weights(pairs, weights, design._mean, n_differences, design.seed)
        if design.pair_list.is_whole or not design._has_errors:
            contrasts = np.zeros((len(pairs), n_groups if design._has_errors else 0, c))
            return Solution(mixed, contrasts, np.zeros(len(variance)))
        precision = process.precision()
        contrasts, spread = error_contrasts(
            pairs, precision, mixed, variance, _signs(design), is_by_player
        )
        if is_by_player:
            contrasts += differences / np.sqrt(n_groups)
        solution = Solution(mixed, contrasts, spread)
        if design._sees_missed:
            return solution.with_missed(pairs, precision, weights)
        return solution


def _processes(design: KrigingDesign) -> GameProcesses:
    """The shared and separate processes of a design, before a pilot's choice among them."""
    return _processes_of(replace(design, sparse=None, by_game=False, doubt=1.0))


@lru_cache(maxsize=2)
def _processes_of(design: KrigingDesign) -> GameProcesses:
    return GameProcesses(design.pair_list.pairs, design._prior, design.own_decay)
