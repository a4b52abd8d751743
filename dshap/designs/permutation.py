"""Permutation sampling: marginal contributions along random orders and their reversals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import EMPTY, FULL, N_ENDS, CoalitionBlock, DesignInfo, Groups
from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.core.rules import check_fields
from dshap.designs.coalitions import (
    BaseDesign,
    checked_span,
    first_distinct_bits,
    pack,
    stream,
    unpack,
)
from dshap.designs.jackknife import N_REPLICATES, checked_replicates

MAX_STEPS = 2**22
"""The most prefixes of all orders together; every process has the list in memory."""
LEAST_UNITS = 50
"""The fewest units (orders with their reversals) whose spread gives standard errors.

On seven kinds of games φ ± 2.09 std_error covered 89 to 99 % of the true values with 15 units, 93
to 96 % with 30 and 93 to 95 % with 50.
"""
UNMET = 3 / 2.09
"""Rule of three, in standard errors of an interval of ±2.09 of them.

An event that did not occur in P pairs has a probability below 3/P at 95 % confidence.
"""
AGREES = 1e-9
"""Range of a player's groups, relative to the widest of all players, that counts as rounding."""


@dataclass(frozen=True)
class PermutationDesign(BaseDesign):
    """Random orders of the players and their prefixes; the function `permutation` makes it.

    Examples
    --------
    >>> import dshap
    >>> design = dshap.designs.permutation(4, 6, seed=1)
    >>> type(design).__name__, design.n_players, design.n_permutations
    ('PermutationDesign', 4, 6)
    >>> design.orders.shape
    (3, 2, 4)
    """

    kind = "permutation"
    n_players: int
    """Number of players d."""
    n_permutations: int
    """Number of orders; reversed ones count."""
    antithetic: bool = True
    """Whether every order comes with its reversal."""
    seed: int = 0
    """Seed of the orders; all instances share them."""
    max_replicates: int = N_REPLICATES
    """The most jackknife groups; 0: no standard errors."""

    def __post_init__(self) -> None:
        check_fields(self, "n_players", "n_permutations", "seed", "antithetic")
        if self.antithetic and self.n_permutations % 2:
            raise InputError(
                f"n_permutations={self.n_permutations} with antithetic=True, where orders come in "
                "pairs: give an even "
                "number"
            )
        if self.n_permutations * self.n_players > MAX_STEPS:
            raise InputError(
                f"{self.n_permutations} orders of {self.n_players} players are "
                f"{self.n_permutations * self.n_players:,} steps, at most {MAX_STEPS:,}: lower "
                "n_permutations"
            )
        object.__setattr__(self, "max_replicates", checked_replicates(self.max_replicates))

    @property
    def n_units(self) -> int:
        """P: number of pairs of an order and its reversal, or of orders if not antithetic."""
        return self.n_permutations // (2 if self.antithetic else 1)

    @property
    def n_replicates(self) -> int:
        """Number of jackknife groups: at most one for each unit."""
        return min(self.max_replicates, self.n_units)

    @property
    def orders(self) -> NDArray[np.int64]:
        """(P, 2, d): the orders of each pair, (P, 1, d) if not antithetic."""
        orders = stream(self.seed).random((self.n_units, self.n_players)).argsort(axis=1)
        if self.antithetic:
            return np.stack([orders, orders[:, ::-1]], axis=1)
        return orders[:, None]

    @cached_property
    def info(self) -> DesignInfo:
        """Counts of the design: a prefix that several orders share is one coalition.

        The design is efficient: contributions along an order sum to v(N) − v(∅).
        """
        d = self.n_players
        return DesignInfo(
            n_players=d,
            n_coalitions=len(_steps(self).bits),
            n_replicates=self.n_replicates,
            group_columns=d,
            has_errors=self.max_replicates > 0,
            why_no_errors=self.why_no_errors,
            seed=self.seed,
            n_units=self.n_units,
        )

    @property
    def why_no_errors(self) -> str:
        """Why there are no standard errors, such as fewer than 50 units; empty if there are."""
        if not self.n_replicates or self.n_units >= LEAST_UNITS or self.n_players == 1:
            return ""
        least = LEAST_UNITS * self.n_permutations // self.n_units
        return f"n_permutations={self.n_permutations} is too few for standard errors: give {least} or more"

    def block(self, start: int, stop: int) -> CoalitionBlock:
        """Coalitions start..stop with their scores, the two ends included."""
        steps = _steps(self)
        d = self.n_players
        checked_span(len(steps.bits), start, stop)
        score = np.zeros((stop - start, d))
        inside = slice(*np.searchsorted(steps.coalition, [start, stop]))
        at = steps.coalition[inside] - start
        player = steps.player[inside]
        group = steps.group[inside]
        share = steps.sign[inside] / self.n_permutations
        np.add.at(score, (at, player), share)
        if not self.n_replicates:
            return CoalitionBlock(unpack(steps.bits[start:stop], d), score, Groups.none(d))
        entry, which = np.unique(at * self.n_replicates + group, return_inverse=True)
        of_group = np.zeros((len(entry), d))
        np.add.at(of_group, (which, player), share)
        groups = Groups(
            entry // self.n_replicates, (entry % self.n_replicates).astype(np.int16), of_group
        )
        return CoalitionBlock(unpack(steps.bits[start:stop], d), score, groups)

    def replicates(
        self, sums: FloatArray, groups: FloatArray, v_empty: FloatArray, v_full: FloatArray
    ) -> FloatArray:
        """Replicates (R, n, d, k): phi + √((R − 1)/R) (phi_(g) − phi).

        phi_(g) is the mean over the orders that are not in group g.
        """
        if self.why_no_errors:
            return np.full(groups.shape, np.nan)
        if self.n_replicates <= 1:  # one player: nothing is drawn
            return np.broadcast_to(sums, groups.shape).copy()
        return replicates_of_orders(sums, groups, self.n_units)


def replicates_of_orders(sums: FloatArray, groups: FloatArray, n_units: int) -> FloatArray:
    """Replicates (R, n, d, k) from sums (n, d, k) and group sums (R, n, d, k), units dealt in turn.

    They are phi + √((R − 1)/R) (phi_(g) − phi), with `_unmet` added to the first.
    """
    n_groups = len(groups)
    size = np.bincount(np.arange(n_units) % n_groups, minlength=n_groups) / n_units
    without = (sums - groups) / (1 - size[:, None, None, None])
    return replicates_without(sums, without)


def replicates_without(phi: FloatArray, without: FloatArray) -> FloatArray:
    """Replicates (R, n, d, k) from phi (n, d, k) and phi_(g) (R, n, d, k), without each group."""
    out: FloatArray = phi + np.sqrt(1 - 1 / len(without)) * (without - phi)
    if phi.shape[1] > 1:
        out[0] += _unmet(without)
    return out


def _unmet(without: FloatArray) -> FloatArray:
    """Standard error (n, d, k) of players whose groups agree, from phi_(g) (R, n, d, k).

    Such a player contributes the same in all orders, or is pivotal in orders that were not drawn:
    its error is `UNMET`/P times the widest range of any player's groups, each the mean of P/R
    pairs.  0 for the other players.
    """
    n_groups = len(without)
    spread = np.ptp(without, axis=0) * (n_groups - 1)  # range of the groups' means
    widest = spread.max(axis=1, keepdims=True)
    return np.where(spread <= AGREES * widest, UNMET / n_groups * widest, 0.0)


def permutation(
    d: int,
    n_permutations: int,
    *,
    antithetic: bool = True,
    seed: int = 0,
    n_replicates: int = N_REPLICATES,
) -> PermutationDesign:
    """Estimate Shapley values by adding players one by one, in random orders.

    phi_i is the mean over orders of v(players up to i) − v(players before i).  It is unbiased for
    any number of orders.  One pair of an order and its reversal gives exact values for games whose
    interactions have at most two players.  Prefixes that several orders share are evaluated once.

    Parameters
    ----------
    d : int
        Number of players.
    n_permutations : int
        Number of orders; reversed ones count.  The design has at most (d − 1) n_permutations + 2
        coalitions.
    antithetic : bool
        Draw every order together with its reversal; n_permutations must then be even.
    seed : int
        Seed of the orders.  All instances share the orders of one seed.
    n_replicates : int
        The most jackknife groups for the standard errors, 2 to 100; 0: no standard errors.

    Returns
    -------
    PermutationDesign

    Raises
    ------
    InputError
        No order, an odd number of antithetic orders, or more than 2²² steps (orders × players).

    Notes
    -----
    Standard errors: with P pairs, std_error² = (R − 1)/R Σ_g (phi_(g) − phi)² over R groups of
    pairs.  For P ≤ R that is the standard deviation over the pairs, divided by √P.  Fewer than 50
    pairs give NaN.

    If a player contributes the same in every drawn pair while others do not, this error would be 0,
    although the player may contribute differently in orders that were not drawn.  By the rule of
    three its standard error is therefore 3/2.09/P times the widest range of contributions of any
    player (the range of the groups' means times the pairs of each group).

    References
    ----------
    J. Castro, D. Gómez and J. Tejada, "Polynomial calculation of the Shapley value based on
    sampling", Computers & Operations Research 36 (2009); R. Mitchell et al., "Sampling permutations
    for Shapley value estimation", JMLR 23 (2022), for antithetic ones.

    Examples
    --------
    >>> import dshap
    >>> design = dshap.designs.permutation(8, 20)
    >>> design.n_coalitions <= 7 * 20 + 2
    True
    >>> values = design.masks[:, 0] & design.masks[:, 1]  # a game of the first two players
    >>> (values @ design.operator).round(9).tolist()
    [0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    return PermutationDesign(d, n_permutations, antithetic, seed, n_replicates)


@dataclass(frozen=True)
class _Steps:
    """Every prefix of every order, ∅ and N too, sorted by the coalition that it is."""

    bits: NDArray[np.uint8]
    """(m, ⌈d/8⌉): distinct coalitions, packed."""
    coalition: NDArray[np.int64]
    """(e,): coalition of each prefix, rising."""
    player: NDArray[np.int64]
    """(e,): the player to whose contribution the step belongs."""
    sign: NDArray[np.int8]
    """(e,): 1 if that player is the last of the prefix, −1 if it is the next one."""
    group: NDArray[np.int16]
    """(e,): jackknife group of the step."""


@lru_cache(maxsize=4)
def _steps(design: PermutationDesign) -> _Steps:
    d = design.n_players
    orders = design.orders.reshape(-1, d)
    bits = [pack(np.array([[False] * d, [True] * d]))]
    # one order at a time: only packed bits of all prefixes are in memory, an eighth of their masks
    for order in orders:
        masks = np.empty((d - 1, d), dtype=bool)
        masks[:, order] = np.tri(d - 1, d, dtype=bool)
        bits.append(pack(masks))
    first, which = first_distinct_bits(np.concatenate(bits))
    prefix = np.empty((len(orders), d + 1), np.int64)  # coalition of each prefix of each order
    prefix[:, 0] = EMPTY
    prefix[:, -1] = FULL
    prefix[:, 1:-1] = which[N_ENDS:].reshape(len(orders), d - 1)
    unit = np.arange(len(orders)) // (2 if design.antithetic else 1)
    group = np.repeat(unit % max(design.n_replicates, 1), 2 * d)
    coalition = np.concatenate([prefix[:, 1:], prefix[:, :-1]], axis=1).ravel()
    player = np.concatenate([orders, orders], axis=1).ravel()
    sign = np.tile(np.repeat(np.array([1, -1], np.int8), d), len(orders))
    # sorted by coalition, so that `block` finds the steps of its coalitions by bisection
    order_of = np.argsort(coalition, kind="stable")
    packed = np.concatenate(bits)[first]
    return _Steps(
        packed,
        coalition[order_of],
        player[order_of],
        sign[order_of],
        group[order_of].astype(np.int16),
    )
