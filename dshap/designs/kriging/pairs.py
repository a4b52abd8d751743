"""The list of a kriging design: pairs of complements, drawn in steps; a pilot may choose the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.records import BoolArray, FloatArray
from dshap.core.rules import checked
from dshap.designs.coalitions import pack, stream, unpack
from dshap.designs.kriging.tuning import (
    CONTRASTS,
    DETERMINING_PAIRS,
    FIRST_PART,
    LEAST_FIRST_PAIRS,
    LEAST_OWN_PAIRS,
    LEAST_SPARSE_PAIRS,
    LIKELIHOOD_PAIRS,
    LIKELIHOOD_SHARE,
    MANY_PLAYERS,
    MAX_KRIGED,
    MAX_KRIGED_PLAYERS,
    MAX_RELEVANT_PLAYERS,
    MIN_SPARSE_PLAYERS,
    SAMPLED_PAIRS,
    THIN_PAIRS,
)
from dshap.designs.sampling import counts_by_leverage, draw_by_leverage, strata_of


def checked_budgets(d: int, asked: tuple[int, ...]) -> tuple[int, ...]:
    """Check the numbers of coalitions of d players after each round; make them even, at most 2^d.

    InputError if such a design is not possible, or if the numbers do not rise.
    """
    if d > MAX_KRIGED_PLAYERS:
        raise InputError(
            f"kriging is for at most {MAX_KRIGED_PLAYERS} players, not {d}: use kernelshap({d}, "
            "n_coalitions)"
        )
    least = min(2 * d + 2, 1 << d)
    # even numbers, because every coalition is listed with its complement
    budgets = tuple(min(*checked(n_coalitions=given), 1 << d) // 2 * 2 for given in asked)
    for given, budget in zip(asked, budgets, strict=True):
        if not least <= budget <= MAX_KRIGED:
            raise InputError(
                f"n_coalitions={given} for kriging {d} players: give {least} to {MAX_KRIGED} "
                f"(there are 2^{d} in all); "
                "kernelshap takes more"
            )
    for now, grown in pairwise(budgets):
        if grown <= now:
            raise InputError(
                f"n_coalitions={grown} of a design that has {now} already: give at least {now + 2}"
            )
    return budgets


@dataclass(frozen=True)
class PairList:
    """Pairs of complements: (N, ∅), then complete outer sizes, then a sample of the other sizes.

    A pair has two sizes, s and d − s; its outer size is the smaller one.  The sample is drawn by
    leverage: equally many pairs of each size.
    """

    n_players: int
    """Number of players d."""
    budgets: tuple[int, ...]
    """Numbers of coalitions after each round, including ∅ and N."""
    seed: int
    """Seed of the drawn pairs."""
    shells: int | None
    """Number of outer sizes that are listed completely, if they fit; None: a pilot chooses it."""
    later_shells: int | None
    """Number of outer sizes that are complete after the first part; None: not yet chosen."""

    @property
    def n_pairs(self) -> int:
        """Number of pairs p, including (N, ∅)."""
        return self.budgets[-1] // 2

    @property
    def is_whole(self) -> bool:
        """Whether every coalition is listed."""
        return self.budgets[-1] >= 1 << self.n_players

    @property
    def is_open(self) -> bool:
        """Whether a pilot must still choose the rest of the list."""
        return self.shells is None and self.later_shells is None

    @property
    def has_few_players(self) -> bool:
        """Whether there are few enough players for sparse terms and for all averaged priors."""
        return self.n_players <= MANY_PLAYERS

    @property
    def can_be_held_out(self) -> bool:
        """Whether there are enough pairs for cross-validation."""
        # the training pairs must determine the attributions without the held-out ones
        return self.n_pairs > LEAST_SPARSE_PAIRS * self.n_players

    @property
    def may_differ(self) -> bool:
        """Whether the numbers of players and pairs allow separate processes or terms for games."""
        if self.has_few_players:
            is_enough = self.can_be_held_out
        else:
            is_enough = self.n_pairs >= LEAST_OWN_PAIRS * self.n_players
        is_between = MIN_SPARSE_PLAYERS <= self.n_players <= MAX_RELEVANT_PLAYERS
        return is_between and is_enough and not self.is_whole

    @property
    def first_pairs(self) -> int:
        """Number of pairs, without (N, ∅), from whose values a pilot chooses the rest of the list."""
        n_pairs = self.budgets[0] // 2 - 1
        if self._is_thin and not self.is_scouted:
            return n_pairs
        most = n_pairs - self.is_scouted  # the next pilot sees the whole list
        return min(most, max(n_pairs // FIRST_PART, LEAST_FIRST_PAIRS * self.n_players))

    @property
    def least_shells(self) -> int:
        """Number of outer sizes that are listed completely unless a pilot chooses more.

        It is 1; with more than 64 players, it is 0 if size 1 would be a third of the list or more.
        """
        if self._is_thin and not self.has_few_players:
            return 0
        return 1

    @property
    def is_scouted(self) -> bool:
        """Whether a pilot first sees a list without size 1, and may choose a new list with it.

        With up to 64 players this needs a design of one round: with several rounds, games of votes
        would end with too large an error more often.
        """
        is_alone = len(self.budgets) == 1 or not self.has_few_players
        is_few = self._is_thin or self.is_at_border
        return is_few and is_alone and self.shells is None and self.budgets[0] < 1 << self.n_players

    @property
    def is_at_border(self) -> bool:
        """Whether a list without size 1 may be too short to determine the attributions."""
        return self.budgets[0] // 2 - 2 < DETERMINING_PAIRS * self.n_players

    @property
    def _is_thin(self) -> bool:
        """Whether size 1 would be a third of the first round or more, and can be left out."""
        first = self.budgets[0] // 2
        return (
            DETERMINING_PAIRS * self.n_players <= first - 2 and first < THIN_PAIRS * self.n_players
        )

    @property
    def choices(self) -> tuple[int, ...]:
        """The values of `later_shells` that make different lists."""
        if self.is_scouted:
            return (0, 1)
        if self.least_shells == 0:
            return (0,)
        # number of pairs of each size in the whole list -> the choice that leads to it
        lists = dict[tuple[int, ...], int]()
        strata = strata_of(self.n_players, paired=True)
        for shells, stratum in enumerate(strata, start=1):
            if shells > 1 and stratum.n_units > self.n_pairs:
                break
            steps = replace(self, later_shells=shells)._steps
            lists.setdefault(counts_by_leverage(strata, steps[0], self.seed, steps[1])[-1], shells)
        return tuple(lists.values()) or (1,)

    @property
    def pairs(self) -> FloatArray:
        """The first coalition of each pair as z = ±1 (p, d), N first."""
        masks = unpack(_listed(self), self.n_players)
        masks[0] = True
        return np.where(masks, 1.0, -1.0)

    def masks(self, start: int, stop: int) -> BoolArray:
        """Masks (m, d) of coalitions start..stop: the first of each pair, then its complement.

        The list starts with ∅, N.
        """
        pair, is_complement = np.divmod(np.arange(start, stop), 2)
        return unpack(_listed(self)[pair], self.n_players) ^ is_complement.astype(bool)[:, None]

    @property
    def _steps(self) -> tuple[list[int], list[int]]:
        """Number of pairs after each step of the draw, without (N, ∅), and of complete sizes.

        A list whose rest is still to be chosen has as few complete sizes as possible.
        """
        pairs = [budget // 2 - 1 for budget in self.budgets]
        if self.shells is not None:
            return pairs, [self.shells] * len(pairs)
        is_anew = self.is_scouted and bool(self.later_shells)
        if self.is_scouted:
            first = int(is_anew)
        else:
            first = self.least_shells
        if self.later_shells is None:
            later = first
        else:
            later = self.later_shells
        if not is_anew and self.first_pairs < pairs[0]:
            pairs = [self.first_pairs, *pairs]
        return pairs, [first, *[later] * (len(pairs) - 1)]


@lru_cache(maxsize=8)
def _listed(pairs: PairList) -> NDArray[np.uint8]:
    """The first coalition of each pair, packed (p, ⌈d/8⌉)."""
    d = pairs.n_players
    units = np.zeros((0, pairs.n_players), dtype=bool)
    if d > 1:  # a single player has only the pair (N, ∅)
        units = draw_by_leverage(
            strata_of(d, paired=True), pairs._steps[0], pairs.seed, pairs._steps[1]
        ).units
    return pack(np.concatenate([np.zeros((1, d), dtype=bool), units]))


@lru_cache(maxsize=8)
def determines(pair_list: PairList) -> bool:
    """Whether a list determines the attributions; assumed from 1.25 pairs a player on."""
    return not pair_list.is_at_border or tell_apart(pair_list.pairs)


def tell_apart(pairs: FloatArray) -> bool:
    """Whether no two additive games have the same values at pairs z (p, d)."""
    return bool(np.linalg.matrix_rank(pairs) == pairs.shape[1])


def likelihood_pairs(n_pairs: int, d: int, seed: int) -> NDArray[np.intp]:
    """Positions of the pairs from which the likelihood of a prior is computed; (N, ∅) is first."""
    return sampled_pairs(n_pairs, int(LIKELIHOOD_SHARE * d), seed)


def sampled_pairs(n_pairs: int, least: int, seed: int) -> NDArray[np.intp]:
    """Positions of `LIKELIHOOD_PAIRS` pairs, or of `least` if that is more; (N, ∅) is first."""
    most = max(LIKELIHOOD_PAIRS, least)
    if n_pairs <= most:
        return np.arange(n_pairs)
    rest = stream(seed, CONTRASTS, SAMPLED_PAIRS).permutation(n_pairs - 1)[: most - 1]
    return np.concatenate([[0], 1 + np.sort(rest)])


def odd_values(values: FloatArray) -> FloatArray:
    """Odd values y = (v(S) − v(S̄))/2 (games, p), from values (games, m) in the list's order."""
    odd: FloatArray = (values[:, 1::2] - values[:, 0::2]) / 2  # of ∅, N, then S, S̄
    # the list starts with ∅, N, but all other pairs start with S
    odd[:, 1:] *= -1
    return odd
