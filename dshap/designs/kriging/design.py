"""The kriging design: its list, prior and solution behind the members of a design, and what its
pilot decides."""

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

__all__ = ["LEAST_SPARSE_PAIRS", "MIN_SPARSE_PLAYERS", "KrigingDesign"]

MAX_CONTRASTED_PLAYERS = 128
"""Of more, the errors of all players come from one contrast of the values: one for each would be
slow."""
MIN_SPARSE_PLAYERS = 6
LEAST_SPARSE_PAIRS = 2
LEAST_OWN_PAIRS = 6
"""Players, and pairs for each of them, from which on a pilot tries sparse terms; and, of many
players, processes of their own."""


@dataclass(frozen=True)
class KrigingDesign(BaseDesign):
    """The posterior mean of a Gaussian process of games; `dshap.designs.kriging` makes it, and says
    of which.

    The list: size 1 whole, then as many coalitions of every size, without replacement (leverage
    sampling).  After a quarter of it a pilot asks what the rest is worth: where interactions are
    weak enough, the next sizes are taken whole before the others get their shares.  With up to
    three pairs a player the pilot sees a list without size 1 first and asks what that is worth: the
    list is drawn anew with it, or goes on.

    Few coalitions: up to four a player (sixteen, of which the share falls) attributions are the
    mean over priors that say how large effects of single players are beside interactions, weighted
    by the likelihoods of the pilot's values (`dshap.designs.kriging.averaging`); not where held out
    coalitions are more than 1.1 times as far from it.  On products, airports, heavy tails and votes
    of 14 to 256 players the error is 0.2 to 0.9 of that by the likeliest prior, on boosted trees
    0.7 to 1.06.

    Games that differ: which columns matter differs from row to row.  Of up to 256 players (above 64
    with six pairs for each and more), where the games of the pilot expect 0.95 of the error or less
    by it (with a mean over priors: where it predicts held out coalitions better), each game that is
    likelier so has a process of its own, whose players are as relevant as the attributions are
    large that the shared process finds; a fifth of its variance is as in the shared one.  On
    airports, networks, logistic models, words and images the error is 0.2 to 0.9 of that with one
    process for all; where strong interactions are of players whose attributions cancel, it may be
    1.6 times as large.

    Sparse terms: where that predicts coalitions which the pilot holds out better (0.8 of the error
    or less, 0.64 beside processes of their own), each instance has coefficients of up to 200
    interactions of three players beside the process, found in its values by empirical Bayes.
    Boosted trees on many columns or words have few interactions: the error there is 0.005 to 0.5 of
    that without.

    With either, attributions are no more linear in the values, and an instance takes 1 to 10 ms
    with 256 coalitions, 40 to 280 ms with 2,048; `sparse=False` leaves both out.

    Notes
    -----
    Standard errors: with e_j how far the value of pair j is from what the others predict
    (leave-one-out), W_ji its weight in φ_i and w_ji the weight that it has where every coalition is
    there, std_error_i² = κ_i Σ_j (W_ji − w_ji)² e_j²: as large as the row's values are rough, in
    the sizes where they are, and 0 for what is all there.  κ_i is the ratio of the posterior
    variance to the same sum under the prior, to the power of 3/4 − 2d/pairs (0 at least): trust in
    the prior where there are many pairs, none where there are few.  The square of the error is the
    mean of that and of the posterior variance times the mean square of e_j over its own deviation;
    above 128 players, the latter alone.  The largest attributions may be drawn towards 0: from 24
    players on, of what φ_i misses if the e_j of n_s pairs of size s stand for all N_s, Σ_j w_ji
    (N_s − n_s)/n_s e_j (a difference estimate), the square beyond what is usual of the row's
    players, (median/0.6745)², is added.  Both are summed through n_replicates contrasts with random
    signs, linear in the values until the end: phi ± t_{R−1} std_error.  Where attributions are a
    mean over priors, the variance between these is added; above 128 players errors are those of the
    likeliest prior, which are larger.  Of a game's own process and with sparse terms W and e of the
    first are those that these leave, and the error is multiplied with what the pilot's held out
    coalitions say that the choice makes it too small by.  Measured coverage, of games of eight
    kinds: `python -m tests.benchmarks.widths`.

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
    """Coalitions after each round, the ends counted, even."""
    decay: float | None = None
    """Variance of an order of interactions over that of the odd order below; None: a pilot is to
    choose it."""
    seed: int = 0
    n_replicates: int = N_REPLICATES
    variation: float = DEFAULT_VARIATION
    """Variance of what a player's effect changes by with the size of the coalition, over that of
    interactions."""
    relevance: tuple[float, ...] | None = None
    """(d,): what a player in a coalition multiplies the variance of its coefficient with; a pilot's
    choice."""
    shells: int | None = None
    """Outer sizes that are taken whole, as far as they fit; None: a pilot chooses it."""
    later_shells: int | None = None
    """The pilot's choice: of the list after its first part."""
    sparse: bool | None = None
    """Each game has sparse interactions of three players beside the process; None: a pilot is to
    choose it."""
    by_game: bool = False
    """The pilot's choice: each game may have a process of its own, whose players are as relevant as
    its attributions are large."""
    own_decay: float | None = None
    """The pilot's: of these processes; None: as `decay`."""
    doubt: float = 1.0
    """The pilot's: what the standard errors of games that differ so are multiplied with."""
    average: tuple[tuple[float, ...], ...] | None = None
    """The pilot's, where there are few pairs: decay, variation, power, slope and weight of the
    priors averaged over."""
    sizes: tuple[float, ...] | None = None
    """(d,): of the attributions, whose powers are the relevances in these priors."""

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
        """Which pairs of complements are listed."""
        return PairList(self.n_players, self.budgets, self.seed, self.shells, self.later_shells)

    @property
    def info(self) -> DesignInfo:
        """What is known of the design before any value; a process keeps the matrices that it
        factors."""
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
        """Fewer than 4d coalitions, or fewer contrasts than replicates."""
        return too_few_for_errors(self.n_players, self.budgets[-1], self.n_replicates)

    def block(self, start: int, stop: int) -> CoalitionBlock:
        """Coalitions start..stop; the two ends have scores too.  Where games differ, or an open
        list does not tell the players apart, there are none: NaN."""
        checked_span(self.budgets[-1], start, stop)
        masks = self.pair_list.masks(start, stop)
        if self._games_differ or (self.pair_list.is_open and not determines(self.pair_list)):
            return CoalitionBlock(
                masks, np.full(masks.shape, np.nan), Groups.none(self.info.group_columns)
            )
        return _solution(self).block(masks, start)

    def finish(self, sums: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        """The sums (n, d, k): the two ends have their scores."""
        return sums

    def replicates(
        self, sums: FloatArray, groups: FloatArray, v_empty: FloatArray, v_full: FloatArray
    ) -> FloatArray:
        """phi + the moves of the `Solution` (R, n, d, k), by contrasts (R, n, c, k)."""
        if self.why_no_errors:
            return np.full((self.n_replicates, *sums.shape), np.nan)
        return np.asarray(sums + _solution(self).moves(groups))

    @property
    def operator(self) -> FloatArray:
        """See `BaseDesign.operator`; InputError where each game has its own terms or process."""
        if self._games_differ:
            raise InputError("this design is not linear in the values: give them to its of_values")
        return super().operator

    def with_players(self, n_players: int) -> KrigingDesign:
        """As many coalitions of another number of players, all there are where they are fewer; in
        one round."""
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
        """Name and parameters; those that a pilot estimates beside its choices, once there was
        one."""
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
        """One design a budget; what games have for themselves, which the pilot chose for the whole
        list, is the last one's."""
        linear = replace(self, sparse=False, by_game=False)
        return *(
            replace(linear, budgets=self.budgets[:n]) for n in range(1, len(self.budgets))
        ), self

    @property
    def pilot_coalitions(self) -> int:
        """Coalitions whose values `tune` wants to see: the first part of the list while the rest is
        open, then all of it while `decay` is; 0 where nothing is left to choose."""
        pairs = self.pair_list
        if pairs.is_open:
            return 2 * pairs.first_pairs + N_ENDS
        if self.decay is not None or pairs.is_whole:
            return 0
        return self.budgets[-1]

    def tune(self, values: FloatArray) -> Record:
        """From values (games, m) of the `pilot_coalitions` of some instances and outputs, what is
        open: `later_shells`, such that likely priors promise the least error, then decay, variation
        and relevance of the likeliest, and what games have for themselves."""
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
                # its share of many players is a fifth at most
                if self._is_few:
                    mean = design._mean
                else:
                    mean = None
                chosen |= for_games(_processes(design), odd, self.seed, self._terms, mean)
            return Record(chosen)

    def tuned(self, record: Record) -> KrigingDesign:
        """This design with these choices; no more sizes are whole than need be where the record
        does not say."""
        pairs = self.pair_list
        arrays = record.arrays
        if not arrays:
            if pairs.is_open:
                return replace(self, later_shells=pairs.least_shells)
            return self
        return replace(self, **found_fields(arrays))

    @property
    def held_coalitions(self) -> int:
        """All, where each game may have sparse terms or a process of its own; else 0."""
        asks = self.sparse is None and self.decay is None and self._may_differ
        if self._games_differ or asks:
            return self.budgets[-1]
        return 0

    def of_values(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """phi (n, d, k) and replicates (R, n, d, k) from the values (n, m, k) of all coalitions,
        each game with its own process and sparse terms."""
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
        """All games alike."""
        return replace(self, sparse=False, by_game=False)

    def interactions(self, start: int, stop: int) -> FloatArray:
        """Posterior mean of the Shapley interaction index, I_ij = Σ_{T ∋ i, j, |T| even} 4 c_T/(|T|
        − 1)."""
        checked_span(self.budgets[-1], start, stop)
        if self.decay is None:
            decay = DEFAULT_DECAY
        else:
            decay = self.decay
        return 0.5 * listed_interactions(self.pair_list, decay)[np.arange(start, stop) // 2]

    @property
    def game_seconds(self) -> float:
        """Of a process of its own: its kernel, which is a sum over products of players, and its
        factors."""
        if not self.held_coalitions or self.sparse is not None:
            return 0.0
        return own_seconds(self.n_players, self.pair_list.n_pairs)

    @property
    def _prior(self) -> Prior:
        """What is likely of the games."""
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
        """Over priors, which attributions are by its share."""
        if self.average is None or self.sizes is None or not self._averaged_share:
            return None
        return Mean(self._averaged_share, np.array(self.average), np.array(self.sizes))

    @property
    def _has_errors(self) -> bool:
        return self.n_replicates > 0 and not self.why_no_errors

    @property
    def _may_differ(self) -> bool:
        """There are triples to choose from, not too many players, and values enough to choose
        by."""
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
        """A part of the pairs tells attributions too."""
        return self.pair_list.n_pairs > LEAST_SPARSE_PAIRS * self.n_players

    @property
    def _terms(self) -> bool | None:
        """`sparse`, where there are not too many triples."""
        if self._is_few:
            return self.sparse
        return False

    @property
    def _is_few(self) -> bool:
        return self.n_players <= MANY_PLAYERS

    @property
    def _sees_missed(self) -> bool:
        """Errors know what φ misses: there are players enough to say what is usual."""
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
    """Of the leave-one-out error of each pair in each contrast (p, R)."""
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
    """What the games of a design have, or choose from."""
    return _processes_of(replace(design, sparse=None, by_game=False, doubt=1.0))


@lru_cache(maxsize=2)
def _processes_of(design: KrigingDesign) -> GameProcesses:
    return GameProcesses(design.pair_list.pairs, design._prior, design.own_decay)
