"""L-Shapley: the Shapley value of each player in the game of its graph neighbourhood."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.core.blocks import DesignInfo
from dshap.core.errors import InputError
from dshap.core.records import BoolArray, FloatArray
from dshap.core.rules import Choice, Whole, check_fields
from dshap.designs.coalitions import stream
from dshap.designs.jackknife import N_REPLICATES, checked_replicates
from dshap.designs.on_graphs.design import (
    OUTSIDE,
    GraphDesign,
    ScoreTerms,
    TermList,
    checked_order,
    of_chains_too,
)
from dshap.designs.on_graphs.graphs import Graph
from dshap.designs.on_graphs.subsets import (
    Words,
    has,
    set_player_pairs,
    sizes,
    subsets_of,
    to_words,
)
from dshap.designs.permutation import LEAST_UNITS, replicates_of_orders

MAX_TERMS = 2**21
"""The most subsets of all neighbourhoods, or steps of sampled orders.

Every process has them in memory.
"""
PLAIN_DIGITS = 50
"""Messages write the number of subsets in full up to this many players in a neighbourhood."""


@dataclass(frozen=True)
class LocalDesign(GraphDesign):
    """Coalitions within neighbourhoods of a graph; the function `local` makes it.

    Examples
    --------
    >>> import dshap
    >>> design = dshap.designs.local(dshap.designs.chain(6), order=1)
    >>> type(design).__name__, design.n_players, design.order
    ('LocalDesign', 6, 1)
    >>> design.neighbourhoods.astype(int)[0].tolist()  # the first player and its neighbour
    [1, 1, 0, 0, 0, 0]
    """

    kind = "local"
    order: int | None
    """The most edges between a player and its neighbours; None: no limit."""
    outside: Literal["absent", "present"] = "absent"
    """State of the players beyond a neighbourhood: "absent" or "present"."""
    n_permutations: int | None = None
    """Number of random orders for large neighbourhoods, even; None: all subsets are listed."""
    seed: int = 0
    """Seed of the orders; all instances share them."""
    n_replicates: int = N_REPLICATES
    """The most jackknife groups; 0: no standard errors."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", checked_order(self.order))
        Choice(OUTSIDE)("outside", self.outside)
        if self.n_permutations is not None:
            given = Whole(2, is_even=True)("n_permutations", self.n_permutations)
            object.__setattr__(self, "n_permutations", given)
        check_fields(self, "seed")
        object.__setattr__(self, "n_replicates", checked_replicates(self.n_replicates))
        super().__post_init__()

    @property
    def neighbourhoods(self) -> BoolArray:
        """Neighbourhoods (d, d): row i has the players of N_k(i)."""
        return self.graph.neighbourhoods(self.order)

    @property
    def is_sampled(self) -> BoolArray:
        """Whether orders are drawn (d,), because the player's neighbourhood is too large to list.

        A neighbourhood is listed if it has at most 2 n_permutations subsets: drawn orders would
        need as many values.
        """
        return self._are_drawn(self.neighbourhoods)

    @property
    def is_efficient(self) -> bool:
        """Whether every neighbourhood is the whole graph: these are Shapley values."""
        return bool(self.neighbourhoods.all())

    @property
    def n_units(self) -> int:
        """P: number of pairs of an order and its reversal."""
        return (self.n_permutations or 0) // 2

    @property
    def info(self) -> DesignInfo:
        """Counts of the design; includes replicates if orders are drawn."""
        info = super().info
        if not self.is_sampled.any():
            return info
        if not self.n_replicates:
            return replace(info, has_errors=False)
        n_replicates = min(self.n_replicates, self.n_units)
        return replace(
            info,
            n_replicates=n_replicates,
            why_no_errors=self.why_no_errors,
            seed=self.seed,
            n_units=self.n_units,
            drawn=tuple(self.is_sampled.tolist()),
        )

    @property
    def why_no_errors(self) -> str:
        """The reason if fewer than 50 pairs of orders are drawn; else an empty text."""
        if not self.n_replicates or self.n_units >= LEAST_UNITS or not self.is_sampled.any():
            return ""
        return f"n_permutations={self.n_permutations} is too few for standard errors: give {2 * LEAST_UNITS} or more"

    def of_order(self, order: int | None) -> TermList | None:
        """Subsets of the listed neighbourhoods, then prefixes of orders for all other players.

        None if there are too many subsets.
        """
        near = self.graph.neighbourhoods(order)
        is_sampled = self._are_drawn(near)
        is_present = self.outside == "present"
        self._refuse_steps(int(is_sampled.sum()))
        if _n_subsets(near[~is_sampled]) > MAX_TERMS:
            return None
        words, terms = _enumerated(near, ~is_sampled, is_present)
        if not is_sampled.any():
            return TermList.of(self.n_players, words, terms)
        more, drawn, unit = _drawn(
            near, np.flatnonzero(is_sampled), self.n_units, self.seed, is_present
        )
        n_groups = min(self.n_replicates, self.n_units)
        n_listed = len(terms.row)
        terms = ScoreTerms.joined([terms, drawn._replace(row=drawn.row + len(words))])
        groups = np.full(len(terms.row), -1, np.int16)
        if n_groups:
            groups[n_listed:] = unit % n_groups
        return TermList.of(self.n_players, np.concatenate([words, more]), terms, groups, n_groups)

    def replicates(
        self, sums: FloatArray, groups: FloatArray, v_empty: FloatArray, v_full: FloatArray
    ) -> FloatArray:
        """Replicates as in `permutation` for players with drawn orders; no error for all others."""
        drawn = np.flatnonzero(self.is_sampled)
        out = np.broadcast_to(sums, groups.shape).copy()
        if self.why_no_errors:
            out[:, :, drawn] = np.nan
        elif len(groups):
            out[:, :, drawn] = replicates_of_orders(
                sums[:, drawn], groups[:, :, drawn], self.n_units
            )
        return out

    def fits(self, order: int) -> bool:
        """Whether all neighbourhoods of this order can be listed, with no orders drawn."""
        return _n_subsets(self.graph.neighbourhoods(order)) <= MAX_TERMS

    def refusal(self, best: str) -> str:
        """See `GraphDesign.refusal`."""
        near = self.neighbourhoods
        largest = int(near.sum(axis=1).max())
        number = _n_subsets(near[~self.is_sampled])
        if largest <= PLAIN_DIGITS:
            said = f"{number:,}"
        else:
            said = f"2^{largest} and more"
        if self.n_permutations is None:
            other = "give n_permutations, to sample those that are too large"
        else:
            other = "lower n_permutations"
        return (
            f"order {self.order}: the neighbourhoods, of up to {largest} players, have {said} "
            "subsets, at most "
            f"{MAX_TERMS:,} allowed: {best}; or {other}"
        )

    def _are_drawn(self, near: BoolArray) -> BoolArray:
        """`is_sampled` (d,) for the neighbourhoods `near` (d, d)."""
        n = near.sum(axis=1)
        if self.n_permutations is None:
            return np.zeros(len(n), dtype=bool)
        return n > np.log2(2 * self.n_permutations)

    def _refuse_steps(self, n_players: int) -> None:
        """Raise InputError if drawn orders of `n_players` neighbourhoods have too many steps."""
        drawn = 2 * (self.n_permutations or 0) * n_players
        if drawn > MAX_TERMS:
            raise InputError(
                f"{self.n_permutations} orders of the neighbourhoods of {n_players} players are "
                f"{drawn:,} steps, at "
                f"most {MAX_TERMS:,}: lower n_permutations"
            )


@of_chains_too
def local(
    graph: Graph,
    order: int | None,
    *,
    outside: Literal["absent", "present"] = "absent",
    n_permutations: int | None = None,
    seed: int = 0,
    n_replicates: int = N_REPLICATES,
) -> LocalDesign:
    """Compute the Shapley value of each player in the game of its neighbourhood (L-Shapley).

    The players are nodes of a graph.  N_k(i) are the n players at most k = `order` edges from i, and
    phi_i = Σ over T ⊆ N_k(i) with i ∈ T of [v(T) − v(T ∖ i)] / (n C(n − 1, |T| − 1)).

    phi is exact if no interaction reaches beyond a neighbourhood.  It adds up to v(N) − v(∅) for
    every game only if every neighbourhood is the whole graph; phi are then the Shapley values.
    With no limit (`order=None`) a neighbourhood is a component of the graph, and phi are the Shapley
    values of each component's game, while the remaining components are absent (or present, see
    `outside`).  These equal the Shapley values of all players only if components do not interact.

    Coalitions that neighbourhoods share are evaluated once: a chain of d > 2k players has
    (d − 2k + 1) 4^k coalitions, the empty one counted.

    Parameters
    ----------
    graph : as in `connected`
    order : int or None
        k, for example 2; None: no limit, so that each component of the graph is a game.
    outside : {"absent", "present"}
        State of the players beyond a neighbourhood: absent, as in the paper, or present.
    n_permutations : int, optional
        Number of random orders, even, such as 200.  They replace the list of subsets for
        neighbourhoods of more than 2 n_permutations subsets.  An order has all players, each order
        comes with its reversal, and phi_i is the mean of v(players of N_k(i) up to i) − v(players
        of N_k(i) before i).  By default all subsets are listed.
    seed : int
        Seed of the orders, which all instances and players share.
    n_replicates : int
        The most jackknife groups for the standard errors, 2 to 100; 0: no standard errors.

    Returns
    -------
    LocalDesign

    Raises
    ------
    InputError
        An invalid graph, more than 2²¹ subsets of neighbourhoods, or more than 2²¹ steps of random
        orders: 2 n_permutations for each player whose orders are drawn.

    Notes
    -----
    Standard errors are computed as in `permutation`, for the players whose orders are drawn.  The
    attributions of all other players have no sampling error.

    References
    ----------
    J. Chen, L. Song, M. J. Wainwright and M. I. Jordan, "L-Shapley and C-Shapley: efficient model
    interpretation for structured data", ICLR 2019, definition 1 and section 4.3.1.

    Examples
    --------
    >>> import dshap
    >>> design = dshap.designs.local(dshap.designs.chain(6), order=1)
    >>> design.n_coalitions, 2**6
    (21, 64)
    >>> values = design.masks[:, 0] & design.masks[:, 1]  # a game of two neighbours
    >>> (values @ design.operator).round(9).tolist()
    [0.5, 0.5, 0.0, 0.0, 0.0, 0.0]
    """
    return LocalDesign(graph, order, outside, n_permutations, seed, n_replicates)


def _n_subsets(near: BoolArray) -> int:
    """Number of subsets of all these neighbourhoods (m, d)."""
    # Python's integers, because 2^n overflows 64 bits from 63 players on
    return sum(1 << n for n in near.sum(axis=1).tolist())


def _enumerated(
    near: BoolArray, is_listed: BoolArray, is_present: bool
) -> tuple[Words, ScoreTerms]:
    """All subsets T of the neighbourhoods `near` (d, d) of listed players, each once, with scores.

    The score is 1/(n C(n − 1, |T| − 1)) for players in T, and −1/(n C(n − 1, |T|)) for all other
    players of the neighbourhood.  If the players beyond a neighbourhood are present, T are the
    absent players instead, and the scores have the opposite sign.
    """
    d = len(near)
    size = near.sum(axis=1)
    found = subsets_of(near & is_listed[:, None], most=MAX_TERMS)
    assert found is not None  # `of_order` has refused more subsets
    words = np.concatenate([to_words(np.zeros((1, d), dtype=bool)), found.members])
    row, player = set_player_pairs(np.concatenate([to_words(is_listed[None]), found.common]), d)
    n = size[player]
    is_in = has(words[row], player)
    weight = 1 / (n * scipy.special.binom(n - 1, sizes(words)[row] - is_in))
    if is_present:
        return to_words(np.ones((1, d), dtype=bool)) & ~words, ScoreTerms(
            row, player, np.where(is_in, -weight, weight)
        )
    return words, ScoreTerms(row, player, np.where(is_in, weight, -weight))


def _drawn(
    near: BoolArray, drawn: NDArray[np.intp], n_units: int, seed: int, is_present: bool
) -> tuple[Words, ScoreTerms, NDArray[np.intp]]:
    """Prefixes of drawn orders within the neighbourhoods of players, with scores ±1/orders.

    For each order and player, these are its neighbours before it, with the player and without it.
    The last array (e,) is the pair of orders that each prefix belongs to.
    """
    d = len(near)
    orders = stream(seed).random((n_units, len(near))).argsort(axis=1)
    places = orders.argsort(axis=1)  # (units, d)
    # each order, then its reversal, in which places count from the end
    places = np.stack([places, d - 1 - places], axis=1).reshape(-1, d)
    before = np.concatenate(
        [to_words(near[drawn] & (place < place[drawn, None])) for place in places]
    )
    player = np.tile(drawn, len(places))
    unit = np.repeat(np.arange(n_units), 2 * len(drawn))
    if is_present:
        before = before | to_words(~near)[player]
    words = np.concatenate([before | to_words(np.eye(d, dtype=bool))[player], before])
    coefficient = np.repeat([1.0, -1.0], len(before)) / len(places)
    return (
        words,
        ScoreTerms(np.arange(len(words)), np.tile(player, 2), coefficient),
        np.tile(unit, 2),
    )
