"""Myerson values: Shapley values of the game in which only connected players cooperate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.core.blocks import EMPTY, FULL, Groups
from dshap.core.records import BoolArray, FloatArray
from dshap.designs.on_graphs.design import GraphDesign, of_chains_too, two_ends
from dshap.designs.on_graphs.graphs import Graph
from dshap.designs.on_graphs.subsets import (
    GROWING_WORDS,
    MAX_SUBSETS,
    Words,
    connected_subsets,
    n_runs,
    sizes,
    to_masks,
    to_words,
)

PAIR_BYTES = 2**24
"""Bytes for pairs of a coalition and a player in memory at a time."""


@dataclass(frozen=True)
class MyersonDesign(GraphDesign):
    """All connected coalitions of a graph; the function `myerson` makes it.

    Examples
    --------
    >>> import dshap
    >>> design = dshap.designs.myerson(dshap.designs.chain(5))
    >>> type(design).__name__, design.n_players, design.is_efficient
    ('MyersonDesign', 5, True)
    >>> design.n_coalitions  # the 15 connected ones, and the empty one
    16
    """

    kind = "myerson"

    @property
    def order(self) -> None:
        """None: coalitions of any diameter."""

    @property
    def is_efficient(self) -> bool:
        """Whether the graph is connected; else attributions sum to Σ_C (v(C) − v(∅))."""
        return self.graph.is_connected

    def of_order(self, order: int | None) -> BoundaryList | None:
        """All connected coalitions within neighbourhoods of this order; None if too many."""
        return BoundaryList.of(self.graph, self.graph.neighbourhoods(order))

    def n_on_chain(self, order: int | None) -> int:
        """The number of runs within neighbourhoods of this order."""
        longest = self.n_players
        if order is not None:
            longest = min(2 * order + 1, longest)
        return n_runs(self.n_players, longest)

    def refusal(self, best: str) -> str:
        """See `GraphDesign.refusal`."""
        return (
            f"this graph of {self.n_players} players has more than {MAX_SUBSETS:,} connected "
            "coalitions: give "
            f'connected(graph, order, coefficients="boundary"), where {best}'
        )


@of_chains_too
def myerson(graph: Graph) -> MyersonDesign:
    """Compute Myerson values: Shapley values if only connected players can cooperate.

    The players are nodes of a graph.  In this game the worth of a coalition S is the sum of v(C) −
    v(∅) over the connected components C of S.  Let u = |U| and let b be the number of players that
    are not in U and have a neighbour in it.  With v − v(∅) in place of v,

        phi_i = Σ over connected U with i ∈ U of (u − 1)! b!/(u + b)! v(U)
              − Σ over connected U that i is a neighbour of, i ∉ U, of u! (b − 1)!/(u + b)! v(U).

    The values are exact.  A chain of d players has d(d + 1)/2 connected coalitions; a grid has
    exponentially many.  Attributions add up to v(N) − v(∅) if the graph is connected.  If not, the
    attributions of the players of each component C add up to v(C) − v(∅).

    Parameters
    ----------
    graph : as in `connected`

    Returns
    -------
    MyersonDesign

    Raises
    ------
    InputError
        An invalid graph, or more than 2²⁰ connected coalitions.

    References
    ----------
    R. B. Myerson, "Graphs and cooperation in games", Mathematics of Operations Research 2 (1977),
    225-229.

    Examples
    --------
    >>> import dshap
    >>> design = dshap.designs.myerson(dshap.designs.chain(3))
    >>> values = design.masks[:, 0] & design.masks[:, 2]  # a game of the ends of the chain
    >>> (values @ design.operator).round(3).tolist()  # they need the player between them
    [0.333, 0.333, 0.333]
    """
    return MyersonDesign(graph)


@dataclass(frozen=True)
class BoundaryList:
    """Connected coalitions whose scores depend on their players and the neighbours of these.

    With these scores an attribution is the Myerson value of a player in the graph of its
    neighbourhood.
    """

    words: Words
    common: Words
    """(m, ⌈d/64⌉): players whose neighbourhood contains the coalition."""
    sides: Sides
    of_empty: FloatArray
    """(d,): scores of the empty coalition."""

    @classmethod
    def of(cls, graph: Graph, neighbourhoods: BoolArray) -> BoundaryList | None:
        """Build the list of a graph with neighbourhoods (d, d); None if there are too many."""
        found = connected_subsets(graph.neighbours, neighbourhoods)
        if found is None:
            return None
        d = graph.n_nodes
        sides = Sides.of(graph, neighbourhoods)
        is_used = np.zeros(len(found.members), dtype=bool)
        of_empty = np.zeros(d)
        for start, stop in small_spans(len(is_used), d):
            score = sides.scores(found.members[start:stop], found.common[start:stop])
            is_used[start:stop] = score.any(axis=1)
            of_empty -= score.sum(axis=0)
        ends = two_ends(d)
        is_full = (found.members == ends[FULL]).all(axis=1)
        if is_full.any():
            of_full = found.common[is_full]
        else:
            of_full = ends[:1]
        proper = is_used & ~is_full
        words = np.concatenate([ends, found.members[proper]])
        return cls(
            words, np.concatenate([ends[:1], of_full, found.common[proper]]), sides, of_empty
        )

    @property
    def kept_bytes(self) -> int:
        """See `CoalitionList`; includes the scores that are computed together."""
        return GROWING_WORDS * self.words.nbytes + PAIR_BYTES

    def scored(self, start: int, stop: int) -> tuple[FloatArray, Groups]:
        """See `CoalitionList.scored`."""
        score = np.empty((stop - start, len(self.of_empty)))
        for first, last in small_spans(*score.shape):
            here = slice(start + first, start + last)
            score[first:last] = self.sides.scores(self.words[here], self.common[here])
        if start <= EMPTY < stop:
            score[EMPTY - start] = self.of_empty
        return score, Groups.none(score.shape[1])


@dataclass(frozen=True)
class Sides:
    """The neighbours of players, which determine the players beside a coalition."""

    adjacency: scipy.sparse.csr_array
    """(d, d): 1 for two players that are neighbours, else 0."""
    near: Words | None
    """(d, ⌈d/64⌉): the neighbourhood of each player; None: its whole component."""

    @classmethod
    def of(cls, graph: Graph, neighbourhoods: BoolArray) -> Sides:
        """Build this for a graph with neighbourhoods (d, d)."""
        is_whole = np.array_equal(neighbourhoods, graph.neighbourhoods(None))
        return cls(graph.adjacency, None if is_whole else to_words(neighbourhoods))

    def scores(self, words: Words, common: Words) -> FloatArray:
        """Scores (m, d) of connected coalitions of u players with b players beside them.

        The score is (u − 1)! b!/(u + b)! for players in the coalition, −u! (b − 1)!/(u + b)! for
        players beside it, and 0 for players that are not in `common`.  For each player, b counts
        only players of its neighbourhood.
        """
        d = self.adjacency.shape[0]
        masks = to_masks(words, d)
        beside = (
            (scipy.sparse.csr_array(masks, dtype=np.int32) @ self.adjacency).toarray() > 0
        ) & ~masks
        u = sizes(words)[:, None]
        b = beside.sum(axis=1)[:, None]
        if self.near is None:
            # `of` lists N even if it is not connected; no neighbourhood then contains it
            is_listed = np.asarray(common.any(axis=1))[:, None]
            return is_listed * (masks * _share(u, b) - beside * _share(b, u))
        row, player = np.nonzero((masks | beside) & to_masks(common, d))
        n = u[row, 0]
        b = sizes(to_words(beside)[row] & self.near[player])
        score = np.zeros(masks.shape)
        score[row, player] = np.where(masks[row, player], _share(n, b), -_share(b, n))
        return score


def _share(u: NDArray[np.int64], b: NDArray[np.int64]) -> FloatArray:
    """(u − 1)! b!/(u + b)!, and a finite number for u = 0, where it is not used."""
    share: FloatArray = 1 / (np.maximum(u, 1) * scipy.special.binom(u + b, b))
    return share


def small_spans(m: int, d: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive ranges of m coalitions of d players that need at most `PAIR_BYTES`."""
    step = max(1, PAIR_BYTES // (d * (64 + 2 * math.ceil(d / 8))))
    return ((start, min(start + step, m)) for start in range(0, m, step))
