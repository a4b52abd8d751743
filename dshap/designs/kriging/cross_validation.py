"""Cross-validation: compare the choices of a kriging pilot by errors on held-out values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dshap.core.records import FloatArray
from dshap.designs.coalitions import stream
from dshap.designs.kriging.averaging import averaged_precisions
from dshap.designs.kriging.game_processes import GameProcesses
from dshap.designs.kriging.pairs import tell_apart
from dshap.designs.kriging.prior import correlations
from dshap.designs.kriging.sparse_terms import Screen, TermBase, fit_terms
from dshap.designs.kriging.tuning import (
    CONTRASTS,
    FOLDS,
    HELD_OUT_ORDER,
    MANY_PLAYERS,
    MOST_DOUBT,
    ROUGHNESS,
    TERM_ROUNDS,
    TRIED_GAMES,
    TRIED_GAMES_OF_MANY,
)


def tried(odd: FloatArray, d: int) -> FloatArray:
    """Some of the games (games, p) of d players, evenly spaced."""
    # evenly spaced, because the outputs of a row are neighbours: the first games are of few rows
    if d <= MANY_PLAYERS:
        most = TRIED_GAMES
    else:
        most = TRIED_GAMES_OF_MANY
    return odd[np.unique(np.linspace(0, len(odd) - 1, min(len(odd), most)).round().astype(int))]


@dataclass(frozen=True)
class Folds:
    """Five-fold cross-validation over the pairs z (p, d), without the pair (N, ∅).

    If the pairs that remain without a fold do not determine the attributions, the fold is left out:
    its errors are 0.
    """

    pairs: FloatArray
    """z (p, d): ±1 for the players of each pair."""
    seed: int
    """Seed of the folds."""

    def errors(self, precision: FloatArray, odd: FloatArray) -> FloatArray:
        """Prediction errors (games, p) of games odd (games, p) under one precision matrix P (p, p).

        The errors at a fold h are (P_hh)⁻¹(Py)_h.
        """
        out = np.zeros_like(odd)
        by_pair = odd @ precision
        for held in self._parts:
            out[:, held] = np.linalg.solve(precision[np.ix_(held, held)], by_pair[:, held].T).T
        return out

    def errors_of_mean(self, average: FloatArray, sizes: FloatArray, odd: FloatArray) -> FloatArray:
        """Prediction errors under the mean over weighted priors (K, 5)."""
        out = np.zeros_like(odd)
        for weight, precision in averaged_precisions(self.pairs, average, sizes):
            out += weight * self.errors(precision, odd)
        return out

    def errors_by_game(self, processes: GameProcesses, odd: FloatArray) -> FloatArray:
        """Prediction errors under each game's likelier process: its own or the shared one."""
        out = np.zeros_like(odd)
        shared = processes.shared.precision
        for held in self._parts:
            kept = np.setdiff1d(np.arange(len(self.pairs)), held)
            known = replace(processes, pairs=self.pairs[kept])
            for game, y in enumerate(odd):
                # the training pairs choose the process; the precision of all pairs then predicts
                # the held-out ones without another factorisation
                precision = shared
                relevance = known.relevance(y[kept])
                if relevance is not None:
                    of_all = correlations(self.pairs, relevance)
                    if known.is_likelier(
                        known.process(relevance, of_all[:, kept[:, None], kept]), y[kept]
                    ):
                        precision = processes.process(relevance, of_all).precision()
                out[game, held] = np.linalg.solve(
                    precision[np.ix_(held, held)], (precision @ y)[held]
                )
        return out

    @property
    def _parts(self) -> list[NDArray[np.intp]]:
        parts = _folds(len(self.pairs), self.seed)
        return [held for held in parts if tell_apart(np.delete(self.pairs, held, axis=0))]


def ratio(errors: FloatArray, others: FloatArray, odd: FloatArray) -> float:
    """Root mean square of `errors` over that of `others`: the geometric mean of the games' ratios.

    All arrays are (games, p).  Additive games do not count; the ratio is 1 if all are additive.
    """
    squares = [np.square(each).sum(axis=1) for each in (errors, others, odd)]
    # an error that is only rounding has no meaningful logarithm
    is_rough = np.minimum(squares[0], squares[1]) > ROUGHNESS * squares[2]
    logs = np.log(squares[0][is_rough] / squares[1][is_rough]) / 2
    if len(logs):
        return float(np.exp(logs.mean()))
    return 1.0


def geometric_mean(factors: Sequence[float] | FloatArray) -> float:
    """The geometric mean of factors; 1 if there are none."""
    if len(factors):
        return float(np.exp(np.log(factors).mean()))
    return 1.0


def held_out(
    processes: GameProcesses, odd: FloatArray, seed: int, is_by_game: bool, may_have_terms: bool
) -> tuple[float, tuple[float, float]]:
    """Measure sparse terms and separate processes at held-out pairs of the games odd (games, p).

    Returns (gain, (doubt without sparse terms, doubt with sparse terms)):

    - gain: root mean square error at held-out pairs with sparse terms, divided by the error without
      them.  It is the median over games: a game that terms solve exactly is no evidence about the
      other games.
    - doubt: factor by which leave-one-out errors are too small because the same pairs have chosen a
      game's process and terms; errors at held-out pairs measure it.  It is the geometric mean over
      games, each limited to 1/`MOST_DOUBT` to `MOST_DOUBT`, and at least 1.

    Additive games do not count.  A value is 1 if no game or no term counts for it, or if the
    training pairs do not determine the attributions.
    """
    pairs = processes.pairs
    held = _folds(len(pairs), seed)[0]
    kept = np.setdiff1d(np.arange(len(pairs)), held)
    if not tell_apart(pairs[kept]):
        return 1.0, (1.0, 1.0)
    gains = list[float]()
    doubts: tuple[list[float], list[float]] = [], []
    shared = _Trial(processes.shared, held, kept, Screen(pairs[kept]))
    known = replace(processes, pairs=pairs[kept])
    for game in odd:
        plain = shared.errors(game, 0)
        if not plain.held > ROUGHNESS * _mean_square(game):
            continue
        found = None
        trial = shared
        if is_by_game:
            found = known.likelier(game[kept])
        if found is not None:
            trial = replace(shared, base=processes.base(processes.process(found.relevance)))
        without = trial.errors(game, 0)
        if may_have_terms:
            beside = trial.errors(game, TERM_ROUNDS)
            gains.append(float(np.sqrt(max(beside.held / without.held, ROUGHNESS))))
            doubts[1].append(beside.doubt(plain))
        if found is not None:
            doubts[0].append(without.doubt(plain))
    without_terms, with_terms = (max(geometric_mean(each), 1.0) for each in doubts)
    return float(np.median(gains or [1.0])), (without_terms, with_terms)


@dataclass(frozen=True)
class _Errors:
    """Mean squared errors of a game: at held-out pairs, and leave-one-out errors."""

    held: float
    """At held-out pairs."""
    left_out: tuple[float, float]
    """Leave-one-out errors on all pairs, and on the training pairs."""

    def doubt(self, plain: _Errors) -> float:
        """Factor by which leave-one-out errors fell more than held-out errors, from `plain` to now."""
        shrunk = [
            now / max(then, ROUGHNESS**2)
            for now, then in zip(self.left_out, plain.left_out, strict=True)
        ]
        ratio = self.held / plain.held / max(float(np.sqrt(shrunk[0] * shrunk[1])), ROUGHNESS)
        return float(np.sqrt(np.clip(ratio, MOST_DOUBT**-2, MOST_DOUBT**2)))


@dataclass(frozen=True)
class _Trial:
    """A process, and its predictions of the held-out pairs from the training pairs.

    P is the precision of all pairs, with rows and columns of held-out (h) and training (t) pairs.
    The held-out errors are (P_hh)⁻¹(Py)_h, and the precision of the training pairs alone is P_tt −
    P_th(P_hh)⁻¹P_ht.
    """

    base: TermBase
    held: NDArray[np.intp]
    """Positions of the held-out pairs."""
    kept: NDArray[np.intp]
    """Positions of the training pairs, which include the pair (N, ∅)."""
    screen: Screen
    """Products of three players at the training pairs."""

    @cached_property
    def inverse(self) -> FloatArray:
        """The inverse (P_hh)⁻¹ of the precision of the held-out pairs."""
        return np.asarray(np.linalg.inv(self.base.precision[np.ix_(self.held, self.held)]))

    @cached_property
    def of_kept(self) -> FloatArray:
        """P_tt − P_th(P_hh)⁻¹P_ht, the precision of the training pairs alone."""
        precision = self.base.precision
        across = precision[np.ix_(self.kept, self.held)]
        return precision[np.ix_(self.kept, self.kept)] - across @ self.inverse @ across.T

    def errors(self, game: FloatArray, rounds: int) -> _Errors:
        """Errors on a game (p,) with sparse terms, fitted to the training pairs and to all pairs.

        `rounds` = 0 fits no terms.
        """
        base = self.base
        y = game[self.kept]
        part = next(fit_terms(self.screen, self.of_kept, y[:, None], base.of_triple, rounds))
        whole = next(fit_terms(base.screen, base.precision, game[:, None], base.of_triple, rounds))
        rest = game - base.screen.pairs[:, part.triples].prod(axis=2) @ part.coefficients
        left_out = (
            _mean_square(whole.left_out(game, base.precision)),
            _mean_square(part.left_out(y, self.of_kept)),
        )
        held = self.inverse @ (base.precision @ rest)[self.held]
        return _Errors(_mean_square(held), left_out)


def _folds(n_pairs: int, seed: int) -> list[NDArray[np.intp]]:
    """Draw the positions of the pairs of each fold; the pair (N, ∅) is in no fold."""
    order = 1 + stream(seed, CONTRASTS, HELD_OUT_ORDER).permutation(n_pairs - 1)
    borders = len(order) * np.arange(FOLDS + 1) // FOLDS
    return [np.sort(order[start:stop]) for start, stop in pairwise(borders.tolist())]


def _mean_square(x: FloatArray) -> float:
    return float(np.square(x).mean())
