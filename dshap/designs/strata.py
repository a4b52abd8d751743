"""Strata of proper coalitions: what KernelSHAP draws from.

A *unit* is what is drawn: a coalition, or a pair of a coalition and its complement.  A pair is stored as its smaller
half; of two halves of equal size, as the one without the last player.  A stratum holds all units of one size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dshap.designs.coalitions import first_distinct, masks_of_size, random_masks, stream
from dshap.designs.shapley_kernel import kernel_mass
from dshap.records import BoolArray, FloatArray

__all__ = ["DEALING", "DRAWS", "ROUNDING", "Sample", "Stratum", "random_units", "strata_of"]

PERMUTED_UNITS = 2**17
"""A stratum of at most so many units is shuffled whole; from a larger one repeated draws are rejected."""

SEQUENCE, ROUNDING, DRAWS, DEALING = range(4)
"""First coordinate of the position of a random stream; the second is a size or a stage."""


@dataclass(frozen=True)
class Stratum:
    """All units of one size."""

    n_players: int
    size: int
    n_sizes: int
    """Sizes of coalition that the units cover: 2 for a pair (S, S̄) of different sizes, else 1."""
    is_halved: bool
    """True where S and S̄ have one size, so that units are half of the coalitions of that size."""

    @property
    def n_units(self) -> int:
        return math.comb(self.n_players - self.is_halved, self.size)

    @property
    def mass(self) -> float:
        """Shapley kernel weight of all coalitions in the units."""
        return self.n_sizes * kernel_mass(self.n_players, self.size)

    def enumerate(self) -> BoolArray:
        """All units in a fixed order: (n_units, d)."""
        if not self.is_halved:
            return masks_of_size(self.n_players, self.size)
        return np.pad(masks_of_size(self.n_players - 1, self.size), ((0, 0), (0, 1)))

    def sequence(self, counts: Sequence[int], seed: int) -> BoolArray:
        """The first counts[-1] distinct units of this stratum's random sequence; a larger count only appends."""
        rng = stream(seed, SEQUENCE, self.size)
        if self.n_units <= PERMUTED_UNITS:
            return self.enumerate()[np.argsort(rng.random(self.n_units), kind="stable")[: counts[-1]]]
        drawn = self._draw_distinct(rng, max((count for count in counts if count < self.n_units), default=0))
        if counts[-1] < self.n_units:
            return drawn
        units = np.concatenate([drawn, self.enumerate()])
        return units[first_distinct(units)[0]]

    def _draw_distinct(self, rng: np.random.Generator, count: int) -> BoolArray:
        units = np.zeros((0, self.n_players), dtype=bool)
        while len(units) < count:
            units = np.concatenate([units, random_units(rng, [self], np.zeros(count - len(units), dtype=int))])
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
    """(units, d)"""
    mass: FloatArray
    """(units,): weight of all coalitions of the unit together."""
    fraction: FloatArray
    """(units,): part of the unit's stratum that is drawn: 1 where all of it is there, 0 where draws are put back."""
    draws: NDArray[np.int64]
    """(stages, units): how often each stage drew the unit."""


def random_units(rng: np.random.Generator, strata: Sequence[Stratum], chosen: NDArray[np.int64]) -> BoolArray:
    """One uniform unit (m, d) of each of the chosen strata."""
    sizes = np.array([stratum.size for stratum in strata])[chosen]
    is_halved = np.array([stratum.is_halved for stratum in strata])[chosen]
    masks = random_masks(rng.random((len(chosen), strata[0].n_players)), sizes)
    return masks ^ (is_halved & masks[:, -1])[:, None]
