"""The posterior of games, given the values of pairs: attributions, replicates and interactions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dshap.core.blocks import CoalitionBlock, Groups
from dshap.core.records import BoolArray, FloatArray
from dshap.core.threads import one_blas_thread
from dshap.designs.kriging import served
from dshap.designs.kriging.averaging import averaged_share, averaged_weights
from dshap.designs.kriging.findings import NOTHING_FOUND, Findings
from dshap.designs.kriging.game_processes import GameProcesses
from dshap.designs.kriging.interactions import listed_interactions
from dshap.designs.kriging.pairs import PairList, determines, odd_values
from dshap.designs.kriging.prior import Prior
from dshap.designs.kriging.process import Process
from dshap.designs.kriging.solution import Solution
from dshap.designs.kriging.standard_errors import error_contrasts, random_signs
from dshap.designs.kriging.tuning import (
    CUBE_SECONDS,
    DEFAULT_DECAY,
    FITTED_BYTES,
    LEAST_ERROR_COALITIONS,
    LEAST_MISSED_PLAYERS,
    MAX_CONTRASTED_PLAYERS,
    PRIOR_SIGNS,
    SOLUTION_MATRICES,
    SQUARE_SECONDS,
)


@dataclass(frozen=True)
class Posterior:
    """The posterior of the games, given the values of the listed pairs.

    Equal posteriors share their matrix factors, which functions below cache.
    """

    pair_list: PairList
    n_replicates: int
    """Number of error contrasts that the user asks for; 0: no standard errors."""
    decay: float | None
    """Ratio of the variances of successive odd orders of interactions; None: not yet chosen."""
    variation: float
    """Variance of a player's effect over coalition sizes; interactions have the variance 1."""
    sparse: bool | None
    """Whether games have sparse interactions of three players; None: not yet chosen."""
    findings: Findings = NOTHING_FOUND
    checks_games: bool = False
    """Whether games that differ from the pilot's are estimated separately (`served.py`)."""

    def after(self, found: Findings) -> Posterior:
        """The posterior with the findings of a pilot, which replace options of the same names."""
        chosen = {
            name: value
            for name, value in vars(found).items()
            if name in ("decay", "variation", "sparse") and value is not None
        }
        return replace(self, findings=found, **chosen)

    @property
    def why_no_errors(self) -> str:
        """The reason if there are too few coalitions for standard errors; else an empty text.

        Standard errors need 4d coalitions, and d + `n_replicates` pairs.
        """
        d = self.pair_list.n_players
        n = self.pair_list.budgets[-1]
        least = min(max(LEAST_ERROR_COALITIONS * d, 2 * (d + self.n_replicates)), 1 << d)
        if not self.n_replicates or n >= least:
            return ""
        return f"{n} coalitions of {d} players are too few for standard errors: give {least}"

    @property
    def n_contrasts(self) -> int:
        """Number of error contrasts with values: `n_replicates`, or 0 without standard errors."""
        return 0 if self.why_no_errors else self.n_replicates

    @property
    def group_columns(self) -> int:
        """Number of columns of each error contrast."""
        d = self.pair_list.n_players
        columns = d if d <= MAX_CONTRASTED_PLAYERS else 1
        return columns + (-(-d // self.n_replicates) if self._sees_missed else 0)

    @property
    def kept_bytes(self) -> int:
        """Bytes of the solution and its computation.

        If games may differ, these include the bytes to fit a game's process and, with few players,
        its sparse terms: products of two players, and columns.
        """
        d = self.pair_list.n_players
        p = self.pair_list.n_pairs
        n_entries = self.n_replicates * self.group_columns
        solution = SOLUTION_MATRICES * 8 * p**2 + 8 * p * (n_entries + 4 * d)
        if self.holds_values:
            solution += (SOLUTION_MATRICES + 2) * 8 * p**2
        if self.holds_values and self.pair_list.has_few_players:
            solution += p * (4 * d**2 + FITTED_BYTES)
        if self.is_checking:
            solution += served.kept_bytes(self.pair_list)
        return solution

    @property
    def holds_values(self) -> bool:
        """Whether `estimates` differs from the linear solution, or may differ after a pilot."""
        return self.may_differ or not self.is_linear

    @property
    def may_differ(self) -> bool:
        """Whether games have sparse terms or separate processes, or may have them after a pilot."""
        is_asked = self.sparse is None and self.decay is None and self.pair_list.may_differ
        return is_asked or self.games_differ

    @property
    def has_terms(self) -> bool:
        """Whether games have sparse terms."""
        pairs = self.pair_list
        return self.sparse is True and pairs.has_few_players and pairs.may_differ

    @property
    def is_checking(self) -> bool:
        """Whether games are compared with the pilot's games, now or after the pilot."""
        has_pilot = self.decay is None or self.findings.served is not None
        return self.checks_games and has_pilot and not self.pair_list.is_whole

    @property
    def is_linear(self) -> bool:
        """Whether attributions are linear in the values, with the same weights for all games."""
        return not (self.games_differ or self.is_checking)

    @property
    def games_differ(self) -> bool:
        """Whether games have sparse terms or separate processes."""
        return self.has_terms or (self.findings.by_game and self.pair_list.may_differ)

    @property
    def game_seconds(self) -> float:
        """Estimated seconds to fit one game's own process; 0 unless a pilot may choose it.

        The first term is the time for its kernel matrix, the second for its factors.
        """
        if not self.holds_values or self.sparse is not None:
            return 0.0
        p = self.pair_list.n_pairs
        return float(p) ** 2 * (SQUARE_SECONDS * self.pair_list.n_players + CUBE_SECONDS * p)

    @property
    def prior(self) -> Prior:
        """The shared prior of the games: flat if every coalition is listed."""
        pairs = self.pair_list
        if pairs.is_whole:
            return Prior.flat(pairs.n_players)
        relevance = None
        if len(set(self.findings.relevance or ())) > 1:
            relevance = np.array(self.findings.relevance)
        return Prior.of(pairs.n_players, self.decay or DEFAULT_DECAY, self.variation, relevance)

    @property
    def processes(self) -> GameProcesses:
        """The shared process of the games, and separate ones on demand."""
        found = self.findings
        # only fields that change a process, so that posteriors with different other fields share
        # the cached one
        kept = Findings(relevance=found.relevance, own_decay=found.own_decay)
        return _processes(replace(self, n_replicates=0, sparse=None, findings=kept))

    @property
    def averaged_share(self) -> float:
        """Share of the mean over priors in the attributions, if a pilot chooses one."""
        if self.pair_list.is_whole:
            return 0.0
        return averaged_share(self.pair_list.n_players, self.pair_list.n_pairs)

    @property
    def average(self) -> tuple[FloatArray, FloatArray] | None:
        """The averaged priors (K, 5) and attribution sizes (d,); None if no mean is used."""
        found = self.findings
        if found.average and found.sizes and self.averaged_share:
            return np.array(found.average), np.array(found.sizes)
        return None

    def block(self, start: int, stop: int) -> CoalitionBlock:
        """Coalitions start..stop with their scores; start 0 includes ∅ and N.

        The scores are NaN if games differ, because attributions are then not linear in the values.
        They are also NaN if the rest of the list is still to be chosen and its first part does not
        determine the attributions.
        """
        masks = self.pair_list.masks(start, stop)
        if not self.is_linear or (self.pair_list.is_open and not determines(self.pair_list)):
            return CoalitionBlock(
                masks, np.full(masks.shape, np.nan), Groups.none(self.group_columns)
            )
        return _solution(self).block(masks, start)

    def replicates(self, sums: FloatArray, groups: FloatArray) -> FloatArray:
        """phi (n, d, k) plus its moves (R, n, d, k), from contrasts (R, n, c, k)."""
        if self.why_no_errors:
            return np.full((self.n_replicates, *sums.shape), np.nan)
        return np.asarray(sums + _solution(self).moves(groups))

    def estimates(self, values: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """phi (n, d, k) and replicates (R, n, d, k) from the values (n, m, k) of all coalitions.

        Each game has its own sparse terms and, if likelier, its own process.  The third array (n,)
        is False for rows with a game that the pilot does not serve; such games are estimated
        separately.
        """
        n, m, k = values.shape
        odd = odd_values(values.swapaxes(1, 2).reshape(n * k, m))
        phi = np.zeros((n * k, self.pair_list.n_players))
        moves = np.zeros((self.n_contrasts, *phi.shape))
        with one_blas_thread():
            is_served = self._is_served(odd)
            phi[is_served], moves[:, is_served] = self._of_pilot(odd[is_served])
            others = odd[~is_served]
            if len(others):
                phi[~is_served], moves[:, ~is_served] = served.own_estimates(
                    self.pair_list,
                    others,
                    self.service.likeliest(others),
                    self._signs[:, : self.n_contrasts],
                    is_by_game=self.findings.by_game_gain is not None,
                )
        shape = n, k, self.pair_list.n_players
        if self.n_contrasts:
            replicates = phi + moves
        else:
            replicates = np.full((self.n_replicates, *phi.shape), np.nan)
        return (
            phi.reshape(shape).swapaxes(1, 2),
            replicates.reshape(len(replicates), *shape).swapaxes(2, 3),
            is_served.reshape(n, k).all(axis=1),
        )

    @property
    def service(self) -> served.Service:
        """The choices of the pilot, with which games are compared."""
        found = self.findings
        # as in `processes`: posteriors with different other fields share the cached service
        kept = Findings(decay=found.decay, variation=found.variation, relevance=found.relevance)
        return _service(replace(self, n_replicates=0, findings=kept))

    def _is_served(self, odd: FloatArray) -> BoolArray:
        """Whether the pilot serves each of the games odd (games, p)."""
        if not self.is_checking or self.findings.served is None or not len(odd):
            return np.ones(len(odd), dtype=bool)
        return self.service.is_served(odd, self.findings.served)

    def _of_pilot(self, odd: FloatArray) -> tuple[FloatArray, FloatArray]:
        """phi (games, d) and moves (R, games, d) of games odd (games, p), by the pilot's choices."""
        if not self.games_differ:
            solution = _solution(self)
            groups = np.tensordot(odd, solution.contrasts, 1).swapaxes(0, 1)[..., None]
            return odd @ solution.weights, solution.moves(groups)[..., 0]
        found = self.findings
        return self.processes.estimates(
            odd,
            self._signs[:, : self.n_contrasts],
            found.doubt or 1.0,
            self.has_terms,
            found.by_game and self.pair_list.may_differ,
        )

    def interactions(self, start: int, stop: int) -> FloatArray:
        """Scores (m, pairs of players) of coalitions start..stop in the Shapley interaction index.

        I_ij = Σ_{T ∋ i, j, |T| even} 4 c_T/(|T| − 1).
        """
        weights = listed_interactions(self.pair_list, self.decay or DEFAULT_DECAY)
        return 0.5 * weights[np.arange(start, stop) // 2]

    @property
    def _sees_missed(self) -> bool:
        """Whether errors include the estimate of what φ misses (`standard_errors.py`)."""
        # a median over players measures its usual size, which needs enough players
        return self.n_contrasts > 0 and self.pair_list.n_players >= LEAST_MISSED_PLAYERS

    @property
    def _signs(self) -> FloatArray:
        """Random signs (p, R) of each pair's leave-one-out error in each contrast."""
        pairs = self.pair_list
        return random_signs(pairs.n_pairs, self.n_replicates, pairs.seed)

    def _mixed(
        self, pairs: FloatArray, weights: FloatArray, n_groups: int
    ) -> tuple[FloatArray, FloatArray]:
        """Mix weights (p, d) of the odd values with the weights of the mean over priors.

        Also returns the differences between the priors (p, n_groups, d).
        """
        if self.average is None:
            return weights, np.zeros((len(pairs), n_groups, pairs.shape[1]))
        average, sizes = self.average
        signs = random_signs(len(average), n_groups, self.pair_list.seed, PRIOR_SIGNS)
        averaged, differences = averaged_weights(pairs, average, sizes, signs)
        share = self.averaged_share
        return (1 - share) * weights + share * averaged, share * differences


@lru_cache(maxsize=2)
def _processes(posterior: Posterior) -> GameProcesses:
    return GameProcesses(posterior.pair_list.pairs, posterior.prior, posterior.findings.own_decay)


@lru_cache(maxsize=2)
def _service(posterior: Posterior) -> served.Service:
    return served.Service(posterior.pair_list, posterior.prior, posterior.has_terms)


@lru_cache(maxsize=16)
def _solution(posterior: Posterior) -> Solution:
    """The linear solution of a posterior, with the same bits on any number of cores."""
    pairs = posterior.pair_list.pairs
    n_contrasts = posterior.n_contrasts
    with one_blas_thread():
        process = Process.at(pairs, posterior.prior)
        weights, variance = process.posterior()
        # with more players, errors come from one prior: differences between priors do not count
        is_by_player = posterior.pair_list.n_players <= MAX_CONTRASTED_PLAYERS
        mixed, differences = posterior._mixed(pairs, weights, n_contrasts if is_by_player else 0)
        if posterior.pair_list.is_whole or not n_contrasts:
            contrasts = np.zeros((len(pairs), n_contrasts, posterior.group_columns))
            return Solution(mixed, contrasts, np.zeros(len(variance)))
        precision = process.precision()
        contrasts, spread = error_contrasts(
            pairs, precision, mixed, variance, posterior._signs, is_by_player
        )
        if is_by_player:
            contrasts += differences / np.sqrt(n_contrasts)
        solution = Solution(mixed, contrasts, spread)
        if posterior._sees_missed:
            return solution.with_missed(pairs, precision, weights)
        return solution
