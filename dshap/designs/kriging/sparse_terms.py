"""Sparse interactions of three players, found per game by empirical Bayes.

The odd values of a game at pairs z (p, d) are y = Zβ + Xc + g.  Here Zβ is the trend, X are the
products χ_T of three players, c_T their coefficients with variances v_T, and g is a Gaussian
process, the *base*.  With the base's precision P (p, p), from which the trend is projected out, the
posterior of c has covariance M = (XᵀPX + V⁻¹)⁻¹ and mean c = MXᵀPy, in units of the game's scale.
The variances maximise the likelihood, by expectation–maximisation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.core.records import FloatArray
from dshap.designs.kriging.prior import Prior
from dshap.designs.kriging.process import Process
from dshap.designs.kriging.standard_errors import (
    beyond_usual,
    exact_weights,
    halfway,
    influence,
    missed_weights,
    scale_weights,
)
from dshap.designs.kriging.tuning import (
    LEAST_MISSED_PLAYERS,
    LEAST_SCALE,
    LEAST_VARIANCE,
    OVERSHOOT,
    ROUGHNESS,
    ROUND_TERMS,
    SCREENED_GAMES,
    TERM_ROUNDS,
    TERM_VALUES,
    VARIANCE_STEPS,
)


@dataclass(frozen=True)
class Screen:
    """All products of three players at pairs z (p, d)."""

    pairs: FloatArray
    """z (p, d): ±1 for the players of each pair."""

    @cached_property
    def triples(self) -> NDArray[np.intp]:
        """Players of each product (d(d−1)(d−2)/6, 3), in lexicographic order."""
        return np.array(list(combinations(range(self.pairs.shape[1]), 3)), dtype=np.intp)

    def gradients(self, weighted: FloatArray) -> FloatArray:
        """χ_Tᵀ weighted (triples, games) of all products, from weighted values (p, games)."""
        return np.concatenate(
            [
                self._products[:, start:].T @ (self.pairs[:, [i]] * weighted)
                for i, start in self._starts()
            ]
        )

    @cached_property
    def _products(self) -> FloatArray:
        """Products of two players (p, d(d−1)/2)."""
        first, second = np.triu_indices(self.pairs.shape[1], 1)
        return np.asarray(self.pairs[:, first] * self.pairs[:, second])

    def _starts(self) -> Iterator[tuple[int, int]]:
        """Yield each player i, and the position in `_products` of the first pair of later players."""
        d = self.pairs.shape[1]
        return ((i, (i + 1) * d - (i + 1) * (i + 2) // 2) for i in range(d - 2))


@dataclass(frozen=True)
class Fit:
    """The sparse terms fitted to a game."""

    triples: NDArray[np.intp]
    """Players of each term (t, 3)."""
    columns: FloatArray
    """X (p, t), the terms' products at the pairs."""
    weighted: FloatArray
    """PX (p, t)."""
    variances: FloatArray
    """V (t,), the prior variances of the coefficients."""
    covariance: FloatArray
    """M (t, t), the posterior covariance of the coefficients."""
    coefficients: FloatArray
    """c (t,), the posterior mean of the coefficients."""

    def effects(self, d: int) -> FloatArray:
        """φ (t, d) of each product χ_T: 2/3 for its players."""
        out = np.zeros((len(self.triples), d))
        out[np.arange(len(out))[:, None], self.triples] = 2 / 3
        return out

    def diagonal(self, precision: FloatArray) -> FloatArray:
        """Diagonal (p,) of P − PXMXᵀP, the precision with these terms."""
        return np.asarray(
            np.diag(precision) - (self.weighted @ self.covariance * self.weighted).sum(axis=1)
        )

    def left_out(self, odd: FloatArray, precision: FloatArray) -> FloatArray:
        """Leave-one-out errors (p,) of the game odd (p,), with these variances."""
        return np.asarray(
            precision @ (odd - self.columns @ self.coefficients) / self.diagonal(precision)
        )


@dataclass(frozen=True)
class TermBase:
    """The Gaussian-process part that sparse terms are added to."""

    screen: Screen
    process: Process
    precision: FloatArray
    """P (p, p), the precision of the process with its trend projected out."""
    weights: FloatArray
    """W (p, d), weights of the odd values without terms."""
    variance: FloatArray
    """(d,): posterior variance of phi, in units of scale."""
    of_triple: float
    """Prior variance of the coefficient of a product of three players."""

    @cached_property
    def missed(self) -> FloatArray:
        """Weights (p, d) of leave-one-out errors in the estimate of what phi misses."""
        return missed_weights(self.screen.pairs)

    @classmethod
    def of(cls, screen: Screen, process: Process, prior: Prior) -> TermBase:
        """Build the base of a process at the screen's pairs; `of_triple` comes from the prior."""
        of_triple = prior.variances[3] / comb(screen.pairs.shape[1], 3)
        return cls(screen, process, process.precision(), *process.posterior(), of_triple)

    def estimates(
        self, odd: FloatArray, signs: FloatArray, doubt: float, has_terms: bool
    ) -> tuple[FloatArray, ...]:
        """phi (games, d) and moves (R, games, d) of odd values (games, p).

        std_error² is the sum of squared moves.  φ = Wᵀ(y − Xc) + effectsᵀc has the same sum over
        players as Wᵀy.  Errors are computed as in `error_contrasts`, from signs (p, R), with the
        weights and leave-one-out errors after the fit of the terms; `doubt` multiplies them.
        """
        phi = odd @ self.weights
        moves = np.zeros((signs.shape[1], *odd.shape[:1], self.weights.shape[1]))
        # so that the squares of R moves sum to the squared error
        signs = signs / np.sqrt(max(len(moves), 1))
        fits = fit_terms(
            self.screen, self.precision, odd.T, self.of_triple, TERM_ROUNDS if has_terms else 0
        )
        for game, fit in enumerate(fits):
            # (t, d): φ of each term that the base does not find
            missed = fit.effects(phi.shape[1]) - fit.columns.T @ self.weights
            phi[game] += missed.T @ fit.coefficients
            if len(moves):
                left_out = doubt * fit.left_out(odd[game], self.precision)
                moves[:, game] = (signs * left_out[:, None]).T @ self._influence(fit, missed)
                if phi.shape[1] >= LEAST_MISSED_PLAYERS:
                    moves[:, game] += beyond_usual(
                        left_out @ self.missed, axis=0, n_groups=len(moves)
                    )
        return phi, moves

    def _influence(self, fit: Fit, missed: FloatArray) -> FloatArray:
        """Influence (p, d) of leave-one-out errors on φ, by the weights and variances of a fit."""
        pairs = self.screen.pairs
        diagonal = fit.diagonal(self.precision)
        excess = self.weights + fit.weighted @ fit.covariance @ missed - exact_weights(pairs)
        variance = self.variance + (missed * (fit.covariance @ missed)).sum(axis=0)
        moved = influence(excess, variance, diagonal)
        # after chosen terms the residuals are too smooth to estimate the scale of the process
        if len(fit.coefficients):
            return moved
        return halfway(moved, np.sqrt(scale_weights(pairs) * diagonal), variance)


def fit_terms(
    screen: Screen, precision: FloatArray, odd: FloatArray, variance: float, rounds: int
) -> Iterator[Fit]:
    """Fit sparse terms to each of the games odd (p, games); the base has this precision.

    `variance` is the initial variance of a coefficient.  With `rounds` = 0 all fits are empty.
    """
    for start in range(0, odd.shape[1], SCREENED_GAMES):
        batch = odd[:, start : start + SCREENED_GAMES]
        games = [_Game.of(y, u) for y, u in zip(batch.T, (precision @ batch).T, strict=True)]
        for _ in range(rounds):
            gradients = np.square(
                screen.gradients(np.stack([game.residual for game in games], axis=1))
            )
            for game, squares in zip(games, gradients.T, strict=True):
                if game.is_rough:
                    game.take_up(screen, precision, squares, variance)
        yield from (game.fit for game in games)


@dataclass
class _Game:
    """The state of a game while terms are fitted to it."""

    odd: FloatArray
    """Odd values y (p,)."""
    residual: FloatArray
    """P(y − Xc) (p,), at first Py."""
    squares: float
    """yᵀPy"""
    chosen: NDArray[np.intp]
    """(t,): positions of the terms among all products."""
    fit: Fit

    @classmethod
    def of(cls, odd: FloatArray, residual: FloatArray) -> _Game:
        chosen = np.zeros(0, dtype=np.intp)
        columns = np.zeros((len(odd), 0))
        none = np.zeros(0)
        fit = Fit(chosen.reshape(0, 3), columns, columns, none, none.reshape(0, 0), none)
        return cls(odd, residual, float(odd @ residual), chosen, fit)

    @property
    def is_rough(self) -> bool:
        """Whether the game is not additive, so that its residual may contain terms."""
        return self.squares > ROUGHNESS * float(self.odd @ self.odd)

    def take_up(
        self, screen: Screen, precision: FloatArray, gradients: FloatArray, variance: float
    ) -> None:
        """Add the products of the largest gradients (triples,), and estimate all variances again.

        If rounding errors make the terms explain more than the squares of the game, or less than
        nothing, the game is not changed.
        """
        n_free = len(self.odd) - screen.pairs.shape[1]
        n_taken = min(ROUND_TERMS, n_free // TERM_VALUES, len(gradients) - len(self.chosen))
        if n_taken < 1:
            return
        # below any square, so that no term is taken twice
        gradients[self.chosen] = -1.0
        taken = np.argpartition(-gradients, n_taken - 1)[:n_taken]
        chosen = screen.pairs[:, screen.triples[taken]].prod(axis=2)
        columns = np.hstack([self.fit.columns, chosen])
        weighted = np.hstack([self.fit.weighted, precision @ chosen])
        variances = np.concatenate([self.fit.variances, np.full(n_taken, variance)])
        gram = columns.T @ weighted
        b = weighted.T @ self.odd
        for step in range(VARIANCE_STEPS + 1):
            covariance = _inverse(gram, variances)
            c = covariance @ b
            left = self.squares - b @ c
            if not -OVERSHOOT * self.squares <= left <= self.squares:
                return
            if step < VARIANCE_STEPS:
                # expectation–maximisation: v_T becomes the posterior mean of c_T²
                scale = max(left, LEAST_SCALE * self.squares) / n_free
                variances = np.maximum(c**2 / scale + np.diag(covariance), LEAST_VARIANCE)
        self.chosen = np.concatenate([self.chosen, taken])
        triples = screen.triples[self.chosen]
        self.fit = Fit(triples, columns, weighted, variances, covariance, c)
        self.residual = precision @ (self.odd - columns @ c)


def _inverse(gram: FloatArray, variances: FloatArray) -> FloatArray:
    """(gram + diag(1/variances))⁻¹ (t, t); NaN if rounding has made the matrix indefinite."""
    # scaled by the roots of the variances, whose reciprocals would be huge for terms near 0
    root = np.sqrt(variances)
    inner = root[:, None] * gram * root
    inner[np.diag_indices_from(inner)] += 1.0
    factor, failed = scipy.linalg.lapack.dpotrf(inner, lower=1)
    if failed:
        return np.full(gram.shape, np.nan)
    inverse = np.tril(scipy.linalg.lapack.dpotri(factor, lower=1)[0])
    return np.asarray(root[:, None] * (inverse + np.tril(inverse, -1).T) * root)
