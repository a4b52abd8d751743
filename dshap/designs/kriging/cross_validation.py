"""What a pilot promises of values that it holds out: by which of its choices the others predict
them better."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dshap.core.records import FloatArray
from dshap.designs.coalitions import stream
from dshap.designs.kriging.averaging import averaged_precisions
from dshap.designs.kriging.pairs import tell_apart
from dshap.designs.kriging.posterior import CONTRASTS
from dshap.designs.kriging.prior import MANY_PLAYERS, correlations
from dshap.designs.kriging.row_process import GameProcesses
from dshap.designs.kriging.sparse_terms import ROUGHNESS, ROUNDS, Screen, TermBase, fitted

__all__ = ["Folds", "held_out", "ratio", "tried"]

MOST_DOUBT = 10.0
"""That a single game throws on the standard errors of all."""
HELD_SHARE = 5
TRIED_GAMES = 8
TRIED_OF_MANY = 3
"""Choices are tried with one pair in so many held out, on so many games, or so many of many
players."""


def tried(odd: FloatArray, d: int) -> FloatArray:
    """Some of the games (games, p) of d players."""
    if d <= MANY_PLAYERS:
        most = TRIED_GAMES
    else:
        most = TRIED_OF_MANY
    return odd[np.unique(np.linspace(0, len(odd) - 1, min(len(odd), most)).round().astype(int))]


@dataclass(frozen=True)
class Folds:
    """The pairs z (p, d) but that of the ends in five parts, and what is predicted of each from all
    others; nothing, an error of 0, of a part without which the players cannot be told apart."""

    pairs: FloatArray
    seed: int

    def errors(self, precision: FloatArray, odd: FloatArray) -> FloatArray:
        """How far games odd (games, p) are off, by the precision P (p, p) of all pairs:
        (P_hh)⁻¹(Py)_h of a part h."""
        out = np.zeros_like(odd)
        by_pair = odd @ precision
        for held in self._parts:
            out[:, held] = np.linalg.solve(precision[np.ix_(held, held)], by_pair[:, held].T).T
        return out

    def errors_of_mean(self, average: FloatArray, sizes: FloatArray, odd: FloatArray) -> FloatArray:
        """The same by the mean over weighted priors (K, 5), as `averaged_weights` has them."""
        out = np.zeros_like(odd)
        for weight, precision in averaged_precisions(self.pairs, average, sizes):
            out += weight * self.errors(precision, odd)
        return out

    def errors_of_own(self, processes: GameProcesses, odd: FloatArray) -> FloatArray:
        """The same by the process of each game's own, where it is likelier of the pairs that are
        not held out."""
        out = np.zeros_like(odd)
        shared = processes.shared.precision
        for held in self._parts:
            kept = np.setdiff1d(np.arange(len(self.pairs)), held)
            known = replace(processes, pairs=self.pairs[kept])
            for game, y in enumerate(odd):
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
        order = _order(len(self.pairs), self.seed)
        borders = len(order) * np.arange(HELD_SHARE + 1) // HELD_SHARE
        parts = [np.sort(order[start:stop]) for start, stop in pairwise(borders.tolist())]
        return [held for held in parts if tell_apart(np.delete(self.pairs, held, axis=0))]


def ratio(errors: FloatArray, others: FloatArray, odd: FloatArray) -> float:
    """Root mean square of errors (games, p) over that of others, the geometric mean of the games
    odd (games, p) that are not additive; 1 of none."""
    squares = [np.square(each).sum(axis=1) for each in (errors, others, odd)]
    is_rough = np.minimum(squares[0], squares[1]) > ROUGHNESS * squares[2]
    logs = np.log(squares[0][is_rough] / squares[1][is_rough]) / 2
    if len(logs):
        return float(np.exp(logs.mean()))
    return 1.0


def held_out(
    processes: GameProcesses, odd: FloatArray, seed: int, is_by_game: bool, may_have_terms: bool
) -> tuple[float, tuple[float, float]]:
    """(gain, (doubt without sparse terms, doubt with them)), from pairs of the games odd (games, p)
    that are held out.

    gain: root mean square errors there with sparse terms over those without, the median of the
    games: one that terms solve says nothing of the others.  doubt: how much less a game's own
    process and its terms leave of the leave-one-out errors of pairs that they were chosen on, all
    of them and those that were not held out, than of the errors at those held out; the geometric
    mean of the games, none of which counts less than 1/`MOST_DOUBT` or more than `MOST_DOUBT`, and
    at least 1.  Games that are additive do not count; 1 of none, of terms that there may not be,
    and where the pairs that are kept do not tell the players apart.
    """
    split = _Split.of(processes.pairs, seed)
    gains = list[float]()
    if not tell_apart(split.screen.pairs):
        return 1.0, (1.0, 1.0)
    doubts: tuple[list[float], list[float]] = [], []
    shared = _Trial.of(split, processes.shared)
    kept = replace(processes, pairs=split.screen.pairs)
    for game in odd:
        plain = shared.without_terms(game)
        if not plain.held > ROUGHNESS * _mean_square(game):
            continue
        if is_by_game:
            found = kept.likelier(game[split.kept])
        else:
            found = None
        trial = shared
        if found is not None:
            trial = _Trial.of(split, processes.base(processes.process(found.relevance)))
        without = trial.without_terms(game)
        if may_have_terms:
            beside = trial.with_terms(game)
            gains.append(float(np.sqrt(max(beside.held / without.held, ROUGHNESS))))
            doubts[1].append(beside.doubt(plain))
        if found is not None:
            doubts[0].append(without.doubt(plain))
    without_terms, with_terms = (
        max(float(np.exp(np.log(each or [1.0]).mean())), 1.0) for each in doubts
    )
    return float(np.median(gains or [1.0])), (without_terms, with_terms)


@dataclass(frozen=True)
class _Split:
    """Pairs z, some of them held out."""

    held: NDArray[np.intp]
    kept: NDArray[np.intp]
    """That of the ends among them."""
    screen: Screen
    """Of the kept pairs."""

    @classmethod
    def of(cls, pairs: FloatArray, seed: int) -> _Split:
        order = _order(len(pairs), seed)
        n_held = len(order) // HELD_SHARE
        kept = np.sort(np.r_[0, order[n_held:]])
        return cls(np.sort(order[:n_held]), kept, Screen(pairs[kept]))


@dataclass(frozen=True)
class _Errors:
    """Mean squares at the held pairs, and of leave-one-out errors of all pairs, and of the kept
    ones alone."""

    held: float
    left_out: tuple[float, float]

    def doubt(self, plain: _Errors) -> float:
        """How much more leave-one-out errors shrink than those at the held pairs, from those of
        `plain`."""
        shrunk = [
            now / max(then, ROUGHNESS**2)
            for now, then in zip(self.left_out, plain.left_out, strict=True)
        ]
        ratio = self.held / plain.held / max(float(np.sqrt(shrunk[0] * shrunk[1])), ROUGHNESS)
        return float(np.sqrt(np.clip(ratio, MOST_DOUBT**-2, MOST_DOUBT**2)))


@dataclass(frozen=True)
class _Trial:
    """A process, and what it predicts of the held pairs from the others.

    With P of all pairs it is off by (P_hh)⁻¹(Py)_h, and the precision of the others is P_tt −
    P_th(P_hh)⁻¹P_ht.
    """

    split: _Split
    base: TermBase
    inverse: FloatArray
    """(P_hh)⁻¹"""
    of_kept: FloatArray
    """P of the kept pairs alone."""

    @classmethod
    def of(cls, split: _Split, base: TermBase) -> _Trial:
        precision = base.precision
        held = split.held
        kept = split.kept
        inverse = np.linalg.inv(precision[np.ix_(held, held)])
        across = precision[np.ix_(kept, held)]
        return cls(
            split,
            base,
            np.asarray(inverse),
            precision[np.ix_(kept, kept)] - across @ inverse @ across.T,
        )

    def without_terms(self, game: FloatArray) -> _Errors:
        """Errors on a game (p,)."""
        errors = []
        for precision, y in ((self.base.precision, game), (self.of_kept, game[self.split.kept])):
            errors.append(_mean_square(precision @ y / np.diag(precision)))
        return _Errors(self._held(game), (errors[0], errors[1]))

    def with_terms(self, game: FloatArray) -> _Errors:
        """Errors on a game (p,) that has sparse terms, from the kept pairs and from all."""
        base = self.base
        y = game[self.split.kept]
        part = next(fitted(self.split.screen, self.of_kept, y[:, None], base.of_triple, ROUNDS))
        whole = next(fitted(base.screen, base.precision, game[:, None], base.of_triple, ROUNDS))
        rest = game - base.screen.pairs[:, part.triples].prod(axis=2) @ part.coefficients
        left_out = (
            _mean_square(whole.left_out(game, base.precision)),
            _mean_square(part.left_out(y, self.of_kept)),
        )
        return _Errors(self._held(rest), left_out)

    def _held(self, game: FloatArray) -> float:
        return _mean_square(self.inverse @ (self.base.precision @ game)[self.split.held])


def _order(n_pairs: int, seed: int) -> NDArray[np.intp]:
    """Of the pairs but that of the ends, in which they are held out."""
    return np.asarray(1 + stream(seed, CONTRASTS, 2).permutation(n_pairs - 1))


def _mean_square(x: FloatArray) -> float:
    return float(np.square(x).mean())
