"""Sampling of coalitions in strata: all sizes equally likely (leverage) or by the Shapley kernel.

A *unit* is one item of a draw: a coalition, or a pair of a coalition and its complement.  A pair is
stored as its smaller half; of two halves of equal size, as the one without the last player.  A
stratum contains all units of one size.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from dshap.core.records import BoolArray, FloatArray
from dshap.designs.coalitions import SPAN_BYTES, first_distinct, masks_of_size, random_masks, stream
from dshap.designs.shapley_kernel import kernel_mass

PERMUTED_UNITS = 2**17
"""Strata of at most this many units are shuffled whole; larger ones reject repeated draws."""

SEQUENCE, ROUNDING, DRAWS, DEALING = range(4)
"""First coordinate of a random stream's position; the second is a size or a round."""
SLACK = 1e-9
"""Relative tolerance for rounding, where expected draws are compared with units.

1e-8 in shap's KernelExplainer.
"""
LEAST_BATCH = 64
"""The least number of draws made together."""


@dataclass(frozen=True)
class Stratum:
    """A stratum: all units of one size."""

    n_players: int
    """Number of players d."""
    size: int
    """Number of players of a unit, at most d/2 if units are pairs."""
    n_sizes: int
    """Number of coalition sizes in a unit: 2 for a pair (S, S̄) of different sizes, else 1."""
    is_halved: bool
    """Whether S and S̄ have one size, so that units are half of the coalitions of that size."""

    @property
    def n_units(self) -> int:
        return math.comb(self.n_players - self.is_halved, self.size)

    @property
    def mass(self) -> float:
        """Total Shapley kernel weight of the coalitions of all units."""
        return self.n_sizes * kernel_mass(self.n_players, self.size)

    def enumerate(self) -> BoolArray:
        """All units in a fixed order (n_units, d)."""
        if not self.is_halved:
            return masks_of_size(self.n_players, self.size)
        return np.pad(masks_of_size(self.n_players - 1, self.size), ((0, 0), (0, 1)))

    def sequence(self, counts: Sequence[int], seed: int) -> BoolArray:
        """The first counts[-1] distinct units of the stratum's random sequence.

        A larger count only appends.
        """
        rng = stream(seed, SEQUENCE, self.size)
        if self.n_units <= PERMUTED_UNITS:
            return self.enumerate()[
                np.argsort(rng.random(self.n_units), kind="stable")[: counts[-1]]
            ]
        # never up to n_units: to meet the last few units of a stratum takes very many draws
        drawn = self._draw_distinct(
            rng, max((count for count in counts if count < self.n_units), default=0)
        )
        if counts[-1] < self.n_units:
            return drawn
        # drawn ones first, as rounds with smaller counts have listed them already
        units = np.concatenate([drawn, self.enumerate()])
        return units[first_distinct(units)[0]]

    def _draw_distinct(self, rng: np.random.Generator, count: int) -> BoolArray:
        units = np.zeros((0, self.n_players), dtype=bool)
        while len(units) < count:
            units = np.concatenate(
                [units, random_units(rng, [self], np.zeros(count - len(units), dtype=int))]
            )
            units = units[first_distinct(units)[0]]
        return units


def strata_of(d: int, paired: bool) -> tuple[Stratum, ...]:
    """The strata of the proper coalitions of d players, from the outer sizes to the middle ones."""
    half = range(1, d // 2 + 1)
    if paired:
        return tuple(Stratum(d, s, 1 if 2 * s == d else 2, 2 * s == d) for s in half)
    return tuple(Stratum(d, size, 1, False) for s in half for size in dict.fromkeys((s, d - s)))


@dataclass(frozen=True)
class Sample:
    """Distinct units with the weights Ω of the regression."""

    units: BoolArray
    """Masks (units, d)."""
    mass: FloatArray
    """(units,): total weight of a unit's coalitions."""
    fraction: FloatArray
    """(units,): drawn part of the unit's stratum; 1 if complete, 0 for draws with replacement."""
    draws: NDArray[np.int64]
    """(rounds, units): how often each round drew the unit."""


def random_units(
    rng: np.random.Generator, strata: Sequence[Stratum], chosen: NDArray[np.int64]
) -> BoolArray:
    """One uniformly drawn unit (m, d) of each chosen stratum."""
    sizes = np.array([stratum.size for stratum in strata])[chosen]
    is_halved = np.array([stratum.is_halved for stratum in strata])[chosen]
    masks = random_masks(rng.random((len(chosen), strata[0].n_players)), sizes)
    # of two halves of equal size the one without the last player stands for the pair
    return masks ^ (is_halved & masks[:, -1])[:, None]


def draw_by_leverage(
    strata: Sequence[Stratum],
    budgets: Sequence[int],
    seed: int,
    shells: Sequence[int] | None = None,
) -> Sample:
    """Draw units without replacement, with every size equally likely.

    c coalitions of each size are drawn, or all of a size that has no more.  `budgets` are total
    numbers of units after each round; each list begins with that of the round before.  `shells` is,
    for each round, the number of outer strata listed whole, as far as they fit, before the rest of
    the budget goes to the others; if nothing is left for these, the weights are not those of a
    sample.

    A unit of stratum h is included with probability e_h/n_h, where Σ e_h is the budget and e_h =
    min(c·sizes/group, n_h), raised to the number that an earlier round already drew; its weight is
    the kernel's divided by that probability.  Counts are e_h rounded down or up at random, with the
    exact total and the mean e_h.

    References
    ----------
    C. Musco and R. T. Witter, "Provably accurate Shapley value estimation via leverage score
    sampling", ICLR 2025, arXiv:2410.01917.
    """
    counts, expected = _counts(strata, budgets, seed, shells)
    totals = np.array(counts, dtype=np.int64)  # (rounds + 1, strata)
    sequences = [stratum.sequence(totals[1:, h].tolist(), seed) for h, stratum in enumerate(strata)]
    mass = [
        stratum.mass / float(e) if e else 0.0 for stratum, e in zip(strata, expected, strict=True)
    ]
    parts = [
        (h, slice(*ends))
        for row in pairwise(totals)
        for h, ends in enumerate(zip(*row, strict=True))
    ]
    drawn = [count / stratum.n_units for stratum, count in zip(strata, counts[-1], strict=True)]
    lengths = [part.stop - part.start for _, part in parts]
    round_of = np.repeat(np.arange(len(parts)) // len(strata), lengths)
    return Sample(
        np.concatenate([sequences[h][part] for h, part in parts]),
        mass=np.repeat([mass[h] for h, _ in parts], lengths),
        fraction=np.repeat([drawn[h] for h, _ in parts], lengths),
        draws=(round_of == np.arange(len(budgets))[:, None]).astype(np.int64),
    )


def counts_by_leverage(
    strata: Sequence[Stratum],
    budgets: Sequence[int],
    seed: int,
    shells: Sequence[int] | None = None,
) -> list[tuple[int, ...]]:
    """Number of units of each stratum that `draw_by_leverage` has after each round."""
    return [tuple(row) for row in _counts(strata, budgets, seed, shells)[0][1:]]


def _counts(
    strata: Sequence[Stratum], budgets: Sequence[int], seed: int, shells: Sequence[int] | None
) -> tuple[list[list[int]], list[Fraction]]:
    """Units of each stratum before the first and after each round, and the last expectation."""
    # exact fractions: rounded down or up, the counts must add up to the budget, and floats may miss
    # it by one
    counts = [[0] * len(strata)]
    expected = [Fraction(0)] * len(strata)
    for turn, budget in enumerate(budgets):
        least = _with_whole_shells(strata, counts[-1], budget, shells[turn] if shells else 0)
        expected = _expected_counts(strata, least, budget)
        added = _round_at_random(
            [e - c for e, c in zip(expected, counts[-1], strict=True)], seed, turn
        )
        counts.append([c + a for c, a in zip(counts[-1], added, strict=True)])
    return counts, expected


def _with_whole_shells(
    strata: Sequence[Stratum], drawn: Sequence[int], budget: int, shells: int
) -> list[int]:
    """The drawn units of each stratum, with all units of the first `shells` strata that fit."""
    least = list(drawn)
    left = budget - sum(drawn)
    for h, stratum in enumerate(strata[:shells]):
        left -= stratum.n_units - drawn[h]
        if left < 0:
            break
        least[h] = stratum.n_units
    return least


def _expected_counts(
    strata: Sequence[Stratum], drawn: Sequence[int], budget: int
) -> list[Fraction]:
    """Expected counts e_h = n_sizes·t, between the drawn and all units, with the budget as sum."""
    limits = [
        (stratum.n_sizes, low, stratum.n_units) for stratum, low in zip(strata, drawn, strict=True)
    ]

    def counts(t: Fraction) -> list[Fraction]:
        return [min(max(rate * t, Fraction(low)), Fraction(high)) for rate, low, high in limits]

    def total(t: Fraction) -> Fraction:
        return sum(counts(t), Fraction(0))

    # the total is linear in t between bends, where a stratum reaches one of its bounds: the budget
    # is in the piece behind `left`
    bends = sorted(Fraction(bound, rate) for rate, *bounds in limits for bound in bounds)
    left = bends[bisect_right(bends, Fraction(budget), key=total) - 1]
    missing = budget - total(left)
    slope = sum(rate for rate, low, high in limits if low <= rate * left < high)
    if missing:
        return counts(left + missing / slope)
    return counts(left)


def _round_at_random(amounts: Sequence[Fraction], seed: int, turn: int) -> list[int]:
    """Amounts of integer sum rounded down or up, by systematic sampling.

    Their means and total are exact.
    """
    denominator = math.lcm(*(amount.denominator for amount in amounts))
    # one random offset for all: neighbouring edges are rounded together, which makes the total exact
    offset = Fraction(int(stream(seed, ROUNDING, turn).random() * denominator), denominator)
    edges = [math.floor(edge + offset) for edge in accumulate(amounts, initial=Fraction(0))]
    return [stop - start for start, stop in pairwise(edges)]


def draw_by_kernel(strata: Sequence[Stratum], budgets: Sequence[int], seed: int) -> Sample:
    """Draw units with replacement by the Shapley kernel, until the budget of distinct ones is met.

    Outer strata, which come first, are enumerated while the expected draws cover all their units
    (the rule of shap's KernelExplainer).  Draws are already in proportion to the kernel: a unit
    drawn n times of D has n/D of the kernel mass of the strata drawn from, and not its kernel
    weight again.  Enumerated units have their kernel weight.  `budgets` are total numbers of
    distinct units after each round.  If a later round enumerates a stratum, earlier draws from it
    are dropped from the counts; the others remain draws from the strata that are left.

    References
    ----------
    S. M. Lundberg and S.-I. Lee, "A unified approach to interpreting model predictions", NeurIPS
    2017; I. Covert and S.-I. Lee, "Improving KernelSHAP", AISTATS 2021 (paired draws).
    """
    stratum_of = {stratum.size: h for h, stratum in enumerate(strata)}
    # stratum by size of a unit
    lookup = np.array([stratum_of.get(size, -1) for size in range(strata[0].n_players)])
    units = np.zeros((0, strata[0].n_players), dtype=bool)
    draws = np.zeros(0, dtype=np.int64)
    drawn = []
    for turn, budget in enumerate(budgets):
        listed = np.bincount(lookup[units.sum(axis=1)], minlength=len(strata))
        n_enumerated = _n_enumerated(strata, listed.tolist(), budget)
        units = np.concatenate([units, *(stratum.enumerate() for stratum in strata[:n_enumerated])])
        units = units[first_distinct(units)[0]]
        draws = np.pad(draws, (0, len(units) - len(draws)))
        before = draws
        units, draws = _draw_until(
            budget, strata[n_enumerated:], units, draws, stream(seed, DRAWS, turn)
        )
        drawn.append(draws - np.pad(before, (0, len(draws) - len(before))))
    stratum = lookup[units.sum(axis=1)]
    is_listed = stratum < n_enumerated
    mass = _mass(strata, n_enumerated, stratum, draws)
    by_round = np.stack([np.pad(counts, (0, len(units) - len(counts))) for counts in drawn])
    return Sample(units, mass, is_listed.astype(float), by_round)


def _mass(
    strata: Sequence[Stratum],
    n_enumerated: int,
    stratum: NDArray[np.int64],
    draws: NDArray[np.int64],
) -> FloatArray:
    """Weight of each unit (units,): its kernel weight if enumerated, else its share of the draws.

    The shares are of the kernel mass of the strata drawn from.
    """
    per_unit = np.array(
        [s.mass / s.n_units if h < n_enumerated else 0.0 for h, s in enumerate(strata)]
    )
    draws = np.where(stratum < n_enumerated, 0, draws)
    # counts alone: times the kernel's weight they would count the kernel twice, an error that only
    # games with interactions of three players and more show
    per_draw = sum(s.mass for s in strata[n_enumerated:]) / max(1, int(draws.sum()))
    return np.asarray(per_unit[stratum] + draws * per_draw)


def _n_enumerated(strata: Sequence[Stratum], listed: Sequence[int], budget: int) -> int:
    """Number of outer strata whose expected draws cover all their units.

    Unless the budget is everything, at least one unit is left to draw.
    """
    if budget == sum(stratum.n_units for stratum in strata):
        return len(strata)
    draws = float(budget)
    mass = sum(stratum.mass for stratum in strata)
    room = budget - sum(listed)
    for h, (stratum, count) in enumerate(zip(strata, listed, strict=True)):
        missing = stratum.n_units - count
        if draws * stratum.mass / mass * (1 + SLACK) < stratum.n_units or missing >= room:
            return h
        draws = draws - stratum.n_units
        mass = mass - stratum.mass
        room = room - missing
    return len(strata)


def _draw_until(
    budget: int,
    strata: Sequence[Stratum],
    units: BoolArray,
    draws: NDArray[np.int64],
    rng: np.random.Generator,
) -> tuple[BoolArray, NDArray[np.int64]]:
    """Draw until there are as many distinct units as the budget; returns them and their counts."""
    edges = np.cumsum([stratum.mass for stratum in strata])
    batch = max(LEAST_BATCH, min(budget, SPAN_BYTES // (8 * units.shape[1])))
    while len(units) < budget:
        # without the last edge: a product that rounds up to it still belongs to the last stratum
        chosen = np.searchsorted(edges[:-1], rng.random(batch) * edges[-1], side="right")
        candidates = np.concatenate([units, random_units(rng, strata, chosen)])
        first, which = first_distinct(candidates)
        # stop at the draw that completes the budget
        if len(first) >= budget:
            end = first[budget - 1] + 1
        else:
            end = len(candidates)
        first = first[:budget]
        draws = np.pad(draws, (0, len(first) - len(units))) + np.bincount(
            which[len(units) : end], minlength=len(first)
        )
        units = candidates[first]
    return units, draws


SAMPLERS: Mapping[str, Callable[[Sequence[Stratum], Sequence[int], int], Sample]] = {
    "leverage": draw_by_leverage,
    "kernel": draw_by_kernel,
}
"""Sampling name -> function of strata, budgets in units (one a round) and a seed."""
