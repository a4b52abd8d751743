"""Games of nine kinds, of any number of players, whose Shapley values are known by another way than
any design.

Sums of a_T [T ⊆ S] by φ_i = Σ_{T∋i} a_T/|T|; functions of a weighted sum of the players present
(votes, logistic models) by the distribution of that sum; airports by their costs in order; networks
by every coalition, or by 40,000 orders and their reversals above 20 players.  Every game has v(∅) =
0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from dshap import designs
from dshap.attributors.contraction import of_all_values
from dshap.core.capabilities import Pilot
from dshap.core.records import BoolArray, FloatArray
from dshap.core.types import Design

__all__ = ["KINDS", "Games", "estimated", "games_of", "settled"]

MAX_ENUMERATED = 20
N_STEPS = 800_000
"""Steps of all orders that a network's values are the mean over; 40,000 orders of 20 players."""
FAINT = 1e-15
"""Of the largest wave of a function: what is rounding."""
MAX_NODES = 160
"""Gauss–Legendre nodes; half of the players are exact."""


class Games(Protocol):
    """n games of d players."""

    def values(self, masks: BoolArray) -> FloatArray:
        """v (n, m) of coalitions (m, d)."""
        ...

    @property
    def shapley(self) -> FloatArray:
        """φ (n, d)"""
        ...


def settled(design: Design, values: Callable[[BoolArray], FloatArray]) -> Design:
    """The design with all its choices made from values (games, m) of the coalitions (m, d) that it
    asks for."""
    while isinstance(design, Pilot) and design.pilot_coalitions:
        design = design.tuned(design.tune(values(design.block(0, design.pilot_coalitions).masks)))
    return design


def estimated(design: Design, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """phi (games, d) and replicates (R, games, d) from values (games, m) of all coalitions of a
    settled design."""
    phi, replicates = of_all_values(design, values[:, :, None])
    return phi[..., 0], replicates[..., 0]


@dataclass(frozen=True)
class Dividends:
    """v(S) = Σ_T a_T [T ⊆ S]."""

    terms: BoolArray
    """(terms, d): the coalitions T."""
    weights: FloatArray
    """(terms, n)"""

    def values(self, masks: BoolArray) -> FloatArray:
        # no member of T is missing
        is_inside = (~masks).astype(np.float32) @ self.terms.T.astype(np.float32) == 0
        return (is_inside @ self.weights).T

    @cached_property
    def shapley(self) -> FloatArray:
        return self.weights.T @ (self.terms / self.terms.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class OfSums:
    """v(S) = g_r(Σ_{i∈S} a_ri) − g_r(0), with whole numbers a.

    φ_i = ∫₀¹ E[g(X_t + a_i) − g(X_t)] dt, X_t the sum of the other players, each there with
    probability t: its distribution by the product of the characteristic functions on a grid of
    whole numbers.
    """

    weights: np.ndarray
    """(n, d) of whole numbers."""
    g: Callable[[int, FloatArray], FloatArray]
    """(row, sums) -> values."""

    def values(self, masks: BoolArray) -> FloatArray:
        sums = self.weights @ masks.T
        return np.stack([self.g(r, own) - self.g(r, np.zeros(1)) for r, own in enumerate(sums)])

    @cached_property
    def shapley(self) -> FloatArray:
        return np.stack([self._of_row(r) for r in range(len(self.weights))])

    def _of_row(self, r: int) -> FloatArray:
        sizes, place, counts = np.unique(self.weights[r], return_inverse=True, return_counts=True)
        least, phi = (sizes * counts)[sizes < 0].sum(), np.zeros(len(sizes))
        n_half = 1 << math.ceil(math.log2(np.abs(sizes) @ counts + 2))
        g = self.g(r, np.arange(n_half) + least)
        # mirrored: no jump but those of g
        waves = np.fft.rfft(np.concatenate([g, g[::-1]])) / (2 * n_half)
        waves[1:-1] *= 2
        omega = np.pi * np.arange(n_half + 1) / n_half
        is_loud = np.abs(waves) > FAINT * np.abs(waves).max()
        waves, omega = waves[is_loud] * np.exp(-1j * omega[is_loud] * least), omega[is_loud]
        nodes, masses = np.polynomial.legendre.leggauss(min(int(counts.sum()) // 2 + 1, MAX_NODES))
        for t, mass in zip((nodes + 1) / 2, masses / 2, strict=True):
            heard = np.flatnonzero(np.abs(waves) * _most(sizes, counts, omega, t) > FAINT**2)
            for some in np.array_split(heard, len(heard) // 1_000 + 1):
                turns = np.exp(1j * np.outer(sizes, omega[some]))
                each = 1 - t + t * turns
                powers = each ** counts[:, None]
                before = np.cumprod(np.vstack([np.ones(len(some)), powers[:-1]]), axis=0)
                after = np.cumprod(np.vstack([np.ones(len(some)), powers[:0:-1]]), axis=0)[::-1]
                others = before * after * each ** (counts[:, None] - 1)
                phi += mass * (others * (turns - 1) @ waves[some]).real
        return phi[place]


def _most(sizes: np.ndarray, counts: np.ndarray, omega: FloatArray, t: float) -> FloatArray:
    """A bound on |Π (1 − t + t exp(iωa))| over all players but any one, at each frequency where it
    is not faint.

    No factor is above 1: a product of some of them bounds that of all.
    """
    logs, least, heard = np.zeros(len(omega)), np.zeros(len(omega)), np.arange(len(omega))
    for a, count in zip(sizes, counts, strict=True):
        own = np.log(np.maximum(1 - 2 * t * (1 - t) * (1 - np.cos(a * omega[heard])), 1e-300)) / 2
        logs[heard] += count * own
        least[heard] = np.minimum(least[heard], own)
        heard = heard[logs[heard] - least[heard] > 2 * math.log(FAINT)]
    return np.exp(logs - least)


@dataclass(frozen=True)
class Airports:
    """v(S) = the largest cost of a player in S."""

    costs: FloatArray
    """(n, d), positive."""

    def values(self, masks: BoolArray) -> FloatArray:
        return np.stack([np.where(masks, own, 0.0).max(axis=1) for own in self.costs])

    @cached_property
    def shapley(self) -> FloatArray:
        order, d = np.argsort(self.costs, axis=1), self.costs.shape[1]
        rising = np.take_along_axis(self.costs, order, axis=1)
        shares = np.cumsum(np.diff(rising, axis=1, prepend=0.0) / (d - np.arange(d)), axis=1)
        phi = np.empty_like(shares)
        np.put_along_axis(phi, order, shares, axis=1)
        return phi


@dataclass(frozen=True)
class Networks:
    """v(S) = V·tanh(Σ_{i∈S} x_i W_i + c) − V·tanh(c): a trained network, absent columns at 0."""

    inner: FloatArray
    """W (d, hidden)"""
    bias: FloatArray
    outer: FloatArray
    rows: FloatArray
    """(n, d)"""

    def values(self, masks: BoolArray) -> FloatArray:
        hidden = (
            np.tanh(masks @ (x[:, None] * self.inner) + self.bias) - np.tanh(self.bias)
            for x in self.rows
        )
        return np.stack([own @ self.outer for own in hidden])

    @cached_property
    def shapley(self) -> FloatArray:
        d = self.rows.shape[1]
        if d <= MAX_ENUMERATED:
            design = designs.exact(d)
            return np.asarray(self.values(design.masks) @ design.operator)
        return np.stack([self._by_orders(x) for x in self.rows])

    def _by_orders(self, x: FloatArray) -> FloatArray:
        d, rng, total, n = len(x), np.random.default_rng(1), np.zeros(len(x)), 0
        steps = x[:, None] * self.inner
        while n * d < N_STEPS:
            orders = rng.random((max(1, 20_000 // d), d)).argsort(axis=1)
            for own in (orders, orders[:, ::-1]):
                f = np.tanh(np.cumsum(steps[own], axis=1) + self.bias) @ self.outer
                gains = np.diff(f, axis=1, prepend=float(np.tanh(self.bias) @ self.outer))
                total += np.bincount(own.ravel(), gains.ravel(), minlength=d)
                n += len(own)
        return total / n


def _random_terms(rng: np.random.Generator, d: int, sizes: np.ndarray) -> BoolArray:
    return np.asarray(rng.random((len(sizes), d)).argsort(axis=1).argsort(axis=1) < sizes[:, None])


def _sizes(d: int, *counts: tuple[int, int]) -> np.ndarray:
    """Sizes, at most d, each so often."""
    return np.concatenate([np.full(count, min(size, d)) for size, count in counts])


def pairs(rng: np.random.Generator, d: int, n: int) -> Games:
    """Additive, with interactions of two players."""
    terms = np.concatenate([np.eye(d, dtype=bool), _random_terms(rng, d, _sizes(d, (2, 3 * d)))])
    return Dividends(terms, rng.normal(size=(len(terms), n)))


def order_three(rng: np.random.Generator, d: int, n: int) -> Games:
    """Interactions of up to three players."""
    terms = _random_terms(rng, d, _sizes(d, (1, d), (2, 2 * d), (3, 4 * d)))
    return Dividends(terms, rng.normal(size=(len(terms), n)))


def products(rng: np.random.Generator, d: int, n: int) -> Games:
    """Ten products over 15 players, and additive parts of a fifth of their size."""
    terms = np.concatenate([np.eye(d, dtype=bool), _random_terms(rng, d, _sizes(d, (15, 10)))])
    return Dividends(
        terms, rng.normal(size=(len(terms), n)) * np.r_[np.full(d, 0.2), np.ones(10)][:, None]
    )


def votes(rng: np.random.Generator, d: int, n: int) -> Games:
    """1 where the weights of 1 to 29 of the players present reach a quota of 40 to 70 % of all."""
    weights = rng.integers(1, 30, size=(n, d))
    quota = np.maximum((weights.sum(axis=1) * rng.uniform(0.4, 0.7, n)).astype(int), 1)
    return OfSums(weights, lambda r, sums: (sums >= quota[r]).astype(float))


def rare_votes(rng: np.random.Generator, d: int, n: int) -> Games:
    """1 where the weights of the players present, normal of sd 3 and rounded, reach a quota that
    few coalitions reach, and that all players of one game reach at least: the event is there among
    the predictions."""
    weights = np.round(3 * rng.normal(size=(n, d))).astype(int)
    quota = max(min(round(18 * math.sqrt(d / 20)), int(weights.sum(axis=1).max())), 1)
    return OfSums(weights, lambda r, sums: (sums >= quota).astype(float))


def airports(rng: np.random.Generator, d: int, n: int) -> Games:
    """Costs are exponential."""
    return Airports(rng.exponential(size=(n, d)))


def heavy_tails(rng: np.random.Generator, d: int, n: int) -> Games:
    """200 interactions of every size, their weights of t with 1.5 degrees of freedom."""
    return Dividends(
        _random_terms(rng, d, 1 + rng.integers(d, size=200)), rng.standard_t(1.5, size=(200, n))
    )


def networks(rng: np.random.Generator, d: int, n: int) -> Games:
    """16 hidden units, 400 steps of Adam on a sine, a product of three columns and a corner."""
    x = rng.normal(size=(2_000, d))
    ridge = rng.normal(size=d) / np.sqrt(d) * 2 * (rng.random(d) < min(1.0, 10 / d) + 0.2)
    y = np.sin(x @ ridge) + 0.5 * x[:, 0] * x[:, 1 % d] * x[:, 2 % d] + np.abs(x[:, min(3, d - 1)])
    parameters = [rng.normal(size=(d, 16)) / np.sqrt(d), np.zeros(16), rng.normal(size=16) / 4]
    first, second = (
        [np.zeros_like(own) for own in parameters],
        [np.zeros_like(own) for own in parameters],
    )
    for step in range(1, 400):
        chosen = rng.integers(2_000, size=128)
        inner, bias, outer = parameters
        hidden = np.tanh(x[chosen] @ inner + bias)
        error = (hidden @ outer + y.mean() - y[chosen]) / 128
        back = np.outer(error, outer) * (1 - hidden**2)
        for j, gradient in enumerate((x[chosen].T @ back, back.sum(axis=0), hidden.T @ error)):
            first[j] = 0.9 * first[j] + 0.1 * gradient
            second[j] = 0.999 * second[j] + 0.001 * gradient**2
            scale = np.sqrt(second[j] / (1 - 0.999**step)) + 1e-8
            parameters[j] = parameters[j] - 0.02 * first[j] / (1 - 0.9**step) / scale
    return Networks(*parameters, rng.normal(size=(n, d)))


def logistic_models(rng: np.random.Generator, d: int, n: int) -> Games:
    """Probabilities; coefficients times columns are normal, rounded to hundredths."""
    weights = np.round(300 * rng.normal(size=(n, d)) / np.sqrt(min(d, 9))).astype(int)
    offset = rng.normal(size=n)
    return OfSums(
        weights, lambda r, sums: 1 / (1 + np.exp(-np.clip(offset[r] + sums / 100, -500, 500)))
    )


KINDS: dict[str, Callable[[np.random.Generator, int, int], Games]] = {
    "additive and pairs": pairs,
    "order 3": order_three,
    "products over 15": products,
    "votes": votes,
    "airports": airports,
    "heavy tails": heavy_tails,
    "network": networks,
    "logistic model": logistic_models,
    "rare votes": rare_votes,
}


def games_of(kind: str, d: int, n: int, seed: int) -> Games:
    """n games of d players of this kind."""
    return KINDS[kind](np.random.default_rng([seed, d, list(KINDS).index(kind)]), d, n)
