"""The list of a kriging design: pairs of complements, drawn in steps, of which a pilot may decide the later ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dshap.checks import Whole
from dshap.designs.coalitions import pack, unpack
from dshap.designs.game_prior import MAX_RELEVANT_PLAYERS
from dshap.designs.sampling import counts_by_leverage, draw_by_leverage, strata_of
from dshap.errors import InputError
from dshap.records import BoolArray, FloatArray

__all__ = ["MAX_KRIGED", "MAX_KRIGED_PLAYERS", "PairList", "checked_budgets", "odd_values"]

MAX_KRIGED = 4_096
"""Coalitions: a matrix of half as many squared is factored in every process (seconds, and 130 MB there)."""
MAX_KRIGED_PLAYERS = 1_024
LEAST_PAIRS = 3
"""A player, of more than 64: of fewer, half and more would be of size 1.  With two pairs for each of 500 players the
errors of airports, products and heavy tails are a third of those with size 1 whole."""
PILOT_SHARE = 4
"""The part of the coalitions that the others are chosen by is one in so many."""


def checked_budgets(d: int, asked: tuple[int, ...]) -> tuple[int, ...]:
    """Coalitions of d players after each round: even, at most 2^d, rising; InputError where they cannot be kriged."""
    if d > MAX_KRIGED_PLAYERS:
        raise InputError(
            f"kriging is for at most {MAX_KRIGED_PLAYERS} players, not {d}: use kernelshap({d}, n_coalitions)"
        )
    least = min(2 * d + 2, 1 << d)
    budgets = tuple(min(Whole(1)("n_coalitions", given), 1 << d) // 2 * 2 for given in asked)
    for given, budget in zip(asked, budgets, strict=True):
        if not least <= budget <= MAX_KRIGED:
            raise InputError(
                f"n_coalitions={given} for kriging {d} players: give {least} to {MAX_KRIGED} (there are 2^{d} in all); "
                "kernelshap takes more"
            )
    for now, grown in pairwise(budgets):
        if grown <= now:
            raise InputError(f"n_coalitions={grown} of a design that has {now} already: give at least {now + 2}")
    return budgets


@dataclass(frozen=True)
class PairList:
    """Pairs of complements: (N, ∅), outer sizes that are there whole, then a draw of the others by leverage."""

    n_players: int
    budgets: tuple[int, ...]
    """Coalitions after each round, the ends counted."""
    seed: int
    shells: int | None
    """Outer sizes that are taken whole, as far as they fit; None: a pilot chooses it."""
    later_shells: int | None
    """The pilot's choice: of the list after its first part; None: not made."""

    @property
    def n_pairs(self) -> int:
        """p, that of the ends counted."""
        return self.budgets[-1] // 2

    @property
    def is_whole(self) -> bool:
        """Every coalition is there."""
        return self.budgets[-1] >= 1 << self.n_players

    @property
    def is_open(self) -> bool:
        """The pilot is still to choose the rest of the list."""
        return self.shells is None and self.later_shells is None

    @property
    def first_pairs(self) -> int:
        """Pairs of the first round that a pilot may choose the others by, that of the ends apart."""
        n_pairs = self.budgets[0] // 2 - 1
        return min(n_pairs, max(n_pairs // PILOT_SHARE, 2 * self.n_players))

    @property
    def least_shells(self) -> int:
        """Sizes that are whole where no pilot says more: none where they would be half of the list and more."""
        is_thin = self.n_players > MAX_RELEVANT_PLAYERS and self.n_pairs < LEAST_PAIRS * self.n_players
        return 0 if is_thin else 1

    @property
    def choices(self) -> tuple[int, ...]:
        """Numbers of `later_shells` that make different lists."""
        if self.least_shells == 0:
            return (0,)
        lists = dict[tuple[int, ...], int]()  # the pairs of each size that a list ends with -> the choice
        strata = strata_of(self.n_players, paired=True)
        for shells, stratum in enumerate(strata, start=1):
            if shells > 1 and stratum.n_units > self.n_pairs:
                break
            counts = counts_by_leverage(strata, self._step_pairs, self.seed, self._step_shells(shells))
            lists.setdefault(counts[-1], shells)
        return tuple(lists.values()) or (1,)

    @property
    def pairs(self) -> FloatArray:
        """One coalition of each pair as z = ±1 (p, d), N first."""
        masks = unpack(_listed(self), self.n_players)
        masks[0] = True
        return np.where(masks, 1.0, -1.0)

    def masks(self, start: int, stop: int) -> BoolArray:
        """Coalitions start..stop (m, d): the first of each pair, ∅ before all others, then its complement."""
        pair, is_complement = np.divmod(np.arange(start, stop), 2)
        return unpack(_listed(self)[pair], self.n_players) ^ is_complement.astype(bool)[:, None]

    @property
    def _step_pairs(self) -> list[int]:
        """Pairs after each step that the list is drawn in, that of the ends apart."""
        pairs = [budget // 2 - 1 for budget in self.budgets]
        return pairs if self.shells is not None or self.first_pairs == pairs[0] else [self.first_pairs, *pairs]

    def _step_shells(self, later: int) -> list[int]:
        """Sizes taken whole in each step of the list, `later` where a pilot chooses."""
        if self.shells is not None:
            return [self.shells] * len(self._step_pairs)
        return [self.least_shells, *[later] * (len(self._step_pairs) - 1)]


@lru_cache(maxsize=8)
def _listed(pairs: PairList) -> NDArray[np.uint8]:
    """The first coalition of each pair, packed (p, ⌈d/8⌉); of an open list no more sizes are whole than need be."""
    d, units = pairs.n_players, np.zeros((0, pairs.n_players), dtype=bool)
    if d > 1:
        later = pairs.least_shells if pairs.later_shells is None else pairs.later_shells
        steps, shells = pairs._step_pairs, pairs._step_shells(later)
        units = draw_by_leverage(strata_of(d, paired=True), steps, pairs.seed, shells).units
    return pack(np.concatenate([np.zeros((1, d), dtype=bool), units]))


def odd_values(values: FloatArray) -> FloatArray:
    """y = (v(S) − v(S̄))/2 (games, p) of the pairs, from values (games, m) of their coalitions in order."""
    odd: FloatArray = (values[:, 1::2] - values[:, 0::2]) / 2  # of ∅, N and of S̄, S
    odd[:, 1:] *= -1
    return odd
