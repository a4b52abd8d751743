"""C-Shapley: contributions to the connected coalitions of each player's neighbourhood."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dshap.core.records import BoolArray
from dshap.core.rules import Choice
from dshap.designs.on_graphs.design import (
    OUTSIDE,
    CoalitionList,
    GraphDesign,
    ScoreTerms,
    TermList,
    checked_order,
    of_chains_too,
    two_ends,
)
from dshap.designs.on_graphs.graphs import Graph
from dshap.designs.on_graphs.myerson import BoundaryList, Sides, small_spans
from dshap.designs.on_graphs.subsets import (
    MAX_SUBSETS,
    Subsets,
    Words,
    connected_subsets,
    n_runs,
    set_player_pairs,
    sizes,
    to_words,
)


@dataclass(frozen=True)
class ConnectedDesign(GraphDesign):
    """Connected coalitions of neighbouring players; the function `connected` makes it.

    Examples
    --------
    >>> import dshap
    >>> design = dshap.designs.connected(dshap.designs.chain(5), order=1)
    >>> type(design).__name__, design.n_players, design.coefficients
    ('ConnectedDesign', 5, 'paper')
    >>> design.masks.shape, design.operator.shape
    ((17, 5), (17, 5))
    """

    kind = "connected"
    order: int | None
    """The most edges between a player and its neighbours; None: no limit."""
    coefficients: Literal["paper", "boundary"] = "paper"
    """Weights of the coalitions: "paper" or "boundary"; see `connected`."""
    outside: Literal["absent", "present"] = "absent"
    """State of the players beyond a neighbourhood: "absent" or "present"."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", checked_order(self.order))
        Choice(tuple(TERMS))("coefficients", self.coefficients)
        Choice(OUTSIDE)("outside", self.outside)
        super().__post_init__()

    @property
    def is_efficient(self) -> bool:
        """Whether this is the Myerson value of a connected graph, which is efficient."""
        return self.coefficients == "boundary" and bool(self.graph.neighbourhoods(self.order).all())

    @property
    def _is_plain(self) -> bool:
        """Whether scores depend only on the players in a coalition and their neighbours."""
        return self.coefficients == "boundary" and self.outside == "absent"

    def of_order(self, order: int | None) -> CoalitionList | None:
        """The connected coalitions; for "paper" also each of them without one of its players.

        None if there are too many.
        """
        near = self.graph.neighbourhoods(order)
        if self._is_plain:
            return BoundaryList.of(self.graph, near)
        found = connected_subsets(self.graph.neighbours, near)
        if found is None or sizes(found.common).sum() > MAX_SUBSETS:
            return None
        words, terms = TERMS[self.coefficients](found, self.graph, near)
        if self.outside == "present":
            words = words | to_words(~near)[terms.player]
        return TermList.of(self.n_players, words, terms)

    def n_on_chain(self, order: int | None) -> int:
        """The number of runs of consecutive players that lie within neighbourhoods.

        If scores depend on the neighbourhood, a run counts once for each of its players.
        """
        size = self.graph.neighbourhoods(order).sum(axis=1).tolist()
        if self._is_plain:
            return n_runs(len(size), max(size))
        return sum(n_runs(n, n) for n in size)

    def refusal(self, best: str) -> str:
        """See `GraphDesign.refusal`."""
        largest = self.graph.neighbourhoods(self.order).sum(axis=1).max()
        return (
            f"order {self.order}: the neighbourhoods, of up to {largest} players, have more than "
            f"{MAX_SUBSETS:,} connected coalitions, or pairs of a connected coalition and a "
            f"player: {best}"
        )


@of_chains_too
def connected(
    graph: Graph,
    order: int | None,
    *,
    coefficients: Literal["paper", "boundary"] = "paper",
    outside: Literal["absent", "present"] = "absent",
) -> ConnectedDesign:
    """Attribute by contributions to connected coalitions near each player (C-Shapley).

    The players are nodes of a graph, such as the words of a text.  N_k(i) are the players at most
    k = `order` edges from i, and u = |U| is the number of players in U.

    "paper": phi_i = Σ over connected U ⊆ N_k(i) with i ∈ U of 2/((u + 2)(u + 1) u) [v(U) − v(U ∖
    i)].  These weights assume that every coalition has two neighbouring players.  They are wrong at
    the ends of a chain, on grids, and where a neighbourhood ends, even for additive games: at order
    1 on a chain a player gets 1/3 + 2/12 + 1/30 = 0.53 of its effect.

    "boundary": the Myerson value of i in the graph of its neighbourhood, with the weights of
    `myerson`.  It is exact for games whose terms have up to k + 1 consecutive players of a chain.
    With no limit of order it equals `myerson`.

    At a finite order attributions need not add up to v(N) − v(∅), with either choice.

    On a chain of d > 2k players "paper" has (2k + 1)(d − k) + k² (d − k − 1) coalitions, fewer than
    (k + 1)² d, and "boundary" has (2k + 1)(d − k); neither count includes the empty coalition.

    Parameters
    ----------
    graph : Graph or scipy sparse array (d, d)
        `chain(d)`, `grid(height, width)`, or an adjacency matrix; the players are its nodes, in the
        order of the columns.  If you leave it out, each text gets the chain of its tokens.
    order : int or None
        k, the most edges between a player and its neighbours, for example 2; None: no limit.
    coefficients : {"paper", "boundary"}
        Weights of the coalitions, see above.
    outside : {"absent", "present"}
        State of the players beyond a neighbourhood: absent, as in the paper, or present, so that
        neighbourhoods share fewer coalitions and the list is longer.

    Returns
    -------
    ConnectedDesign

    Raises
    ------
    InputError
        An invalid graph or option, or more than 2²⁰ coalitions.

    References
    ----------
    J. Chen, L. Song, M. J. Wainwright and M. I. Jordan, "L-Shapley and C-Shapley: efficient model
    interpretation for structured data", ICLR 2019, definition 2; R. B. Myerson, "Graphs and
    cooperation in games", Mathematics of Operations Research 2 (1977).

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> graph = dshap.designs.chain(6)
    >>> dshap.designs.connected(graph, order=1).n_coalitions, 2**6
    (21, 64)
    >>> design = dshap.designs.connected(graph, order=1, coefficients="boundary")
    >>> values = design.masks @ np.arange(1.0, 7.0)  # an additive game
    >>> (values @ design.operator).round(6).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    """
    return ConnectedDesign(graph, order, coefficients, outside)


def _of_paper(found: Subsets, graph: Graph, near: BoolArray) -> tuple[Words, ScoreTerms]:
    """Coalitions U and U ∖ i, for every player i of U whose neighbourhood contains U."""
    row, player = set_player_pairs(found.members & found.common, graph.n_nodes)
    u = sizes(found.members)[row]
    share = 2 / ((u + 2) * (u + 1) * u)
    whole = found.members[row]
    words = np.concatenate([whole, whole & ~to_words(np.eye(graph.n_nodes, dtype=bool))[player]])
    return words, ScoreTerms(
        np.arange(len(words)), np.tile(player, 2), np.concatenate([share, -share])
    )


def _of_boundary(found: Subsets, graph: Graph, near: BoolArray) -> tuple[Words, ScoreTerms]:
    """Coalitions U, for every player in U or next to U whose neighbourhood contains U.

    The empty coalition gets the score with which each player's scores sum to 0.
    """
    # with a sum of 0, a constant added to all values changes no attribution
    d = graph.n_nodes
    sides = Sides.of(graph, near)
    parts = []
    for start, stop in small_spans(len(found.members), d):
        score = sides.scores(found.members[start:stop], found.common[start:stop])
        row, player = np.nonzero(score)
        parts.append(ScoreTerms(start + row, player, score[row, player]))
    row, player, coefficient = ScoreTerms.joined(parts)
    rest = -np.bincount(player, coefficient, minlength=d)
    words = np.concatenate([found.members[row], two_ends(d)[:1].repeat(d, axis=0)])
    return words, ScoreTerms(
        np.arange(len(words)), np.append(player, np.arange(d)), np.append(coefficient, rest)
    )


TERMS: Mapping[str, Callable[[Subsets, Graph, BoolArray], tuple[Words, ScoreTerms]]] = {
    "paper": _of_paper,
    "boundary": _of_boundary,
}
"""Coefficients -> function that returns coalitions and terms, with players outside absent."""
