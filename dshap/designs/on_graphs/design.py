"""The base of the designs whose coalitions depend on a graph of the players."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, overload

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.core.blocks import N_ENDS, CoalitionBlock, DesignInfo, Groups
from dshap.core.errors import InputError
from dshap.core.records import JSON, FloatArray
from dshap.core.rules import checked
from dshap.designs.coalitions import BaseDesign, checked_span, first_distinct_bits
from dshap.designs.on_graphs.graphs import Graph, chain, graph_of
from dshap.designs.on_graphs.subsets import MAX_SUBSETS, Words, to_masks, to_words

OUTSIDE = ("absent", "present")
"""States of the players beyond a neighbourhood, while its own players join one by one."""

MADE_OF = 8
"""The most bytes to make a list of terms, divided by the bytes of the list; up to 6 were measured."""


class CoalitionList(Protocol):
    """Distinct coalitions with their scores; ∅ and N come first."""

    @property
    def words(self) -> Words:
        """Members of the coalitions as bits (m, ⌈d/64⌉)."""
        ...

    @property
    def kept_bytes(self) -> int:
        """The most bytes that a process needs to make the list and to store it."""
        ...

    def scored(self, start: int, stop: int) -> tuple[FloatArray, Groups]:
        """Scores (m, d) of coalitions start..stop, and their entries in the jackknife groups."""
        ...


@dataclass(frozen=True)
class GraphDesign(BaseDesign):
    """Base of the designs on a graph, which add `order`, `of_order` and `refusal`.

    A design that may be efficient adds `is_efficient`.  A `__post_init__` of a design checks its
    options, then calls `super().__post_init__()`, which makes the list.
    """

    graph: Graph
    """The graph whose nodes are the players."""

    if TYPE_CHECKING:

        @property
        def order(self) -> int | None:
            """The most edges between neighbours; None: no limit."""
            ...

        def of_order(self, order: int | None) -> CoalitionList | None:
            """The list of coalitions for this order; None if it would be too long."""
            ...

        def refusal(self, best: str) -> str:
            """The message for a list that would be too long; `best` is from `_highest_order`."""
            ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "graph", graph_of(self.graph))
        _ = self.listed  # refuses a list that is too long

    def made(self) -> CoalitionList:
        """The list of coalitions, or an InputError that names the highest order that fits."""
        listed = None
        if self._told_length(self.order) <= MAX_SUBSETS:
            listed = self.of_order(self.order)
        if listed is None:
            raise InputError(self.refusal(_highest_order(self.fits, self.order)))
        return listed

    def n_on_chain(self, order: int | None) -> int:
        """The number of coalitions for this order on a chain; 0 if there is no formula for it."""
        return 0

    def fits(self, order: int) -> bool:
        """Whether the list for this order is short enough."""
        told = self._told_length(order)
        return told <= MAX_SUBSETS and (told > 0 or self.of_order(order) is not None)

    def _told_length(self, order: int | None) -> int:
        """The length of the list for this order, if a formula has it; else 0."""
        # so that a chain with too many coalitions is refused before its list is made
        if self.graph.is_chain:
            return self.n_on_chain(order)
        return 0

    @property
    def n_players(self) -> int:
        """The number of nodes of the graph."""
        return self.graph.n_nodes

    @property
    def is_efficient(self) -> bool:
        """Whether attributions add up to v(N) − v(∅) for every game."""
        return False

    @property
    def info(self) -> DesignInfo:
        """Counts of the design."""
        # `has_graph`: without one of its players, the graph would have different neighbourhoods
        d = self.n_players
        listed = self.listed
        return DesignInfo(
            n_players=d,
            n_coalitions=len(listed.words),
            n_replicates=0,
            group_columns=d,
            is_efficient=self.is_efficient,
            kept_bytes=listed.kept_bytes,
            has_graph=True,
        )

    @property
    def listed(self) -> CoalitionList:
        """The list of coalitions, made once in a process."""
        return _listed(self)

    def block(self, start: int, stop: int) -> CoalitionBlock:
        """Coalitions start..stop with their scores; start 0 includes ∅ and N."""
        listed = self.listed
        checked_span(len(listed.words), start, stop)
        score, groups = listed.scored(start, stop)
        return CoalitionBlock(to_masks(listed.words[start:stop], self.n_players), score, groups)

    def with_players(self, n_players: int) -> Self:
        """Return this design for a chain of a different length.

        InputError if the graph is not a chain.
        """
        if n_players != self.n_players and not self.graph.is_chain:
            raise InputError(
                f"the design has a graph of {self.n_players} players, and there are {n_players} "
                "players: make the graph for these players"
            )
        if n_players != self.n_players:
            return replace(self, graph=chain(n_players))
        return self

    def fingerprint(self) -> dict[str, JSON]:
        """The kind of design and its fields; the graph is written as `graph_of` reads it."""
        return super().fingerprint() | {"graph": self.graph.fingerprint()}


@lru_cache(maxsize=8)
def _listed(design: GraphDesign) -> CoalitionList:
    return design.made()


@dataclass(frozen=True)
class OfChains:
    """A design without a graph, for texts: each text gets the chain of its tokens."""

    make: Callable[..., GraphDesign]
    """Function of a graph and options that makes the design."""
    options: Mapping[str, Any]
    """Options of `make`, by name."""

    def __post_init__(self) -> None:
        self(1)  # refuses invalid options

    def __call__(self, n_players: int) -> GraphDesign:
        """The design for the chain of `n_players` players."""
        return self.make(chain(n_players), **self.options)

    def refused(self, n_players: int) -> InputError:
        """The error for a table of `n_players` players, whose columns are no chain of tokens."""
        return InputError(
            f"design is {self!r}, which needs a graph, and only texts have one by default: give "
            f"dshap.designs.chain({n_players}), grid(height, width) or an adjacency as graph="
        )

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={given!r}" for name, given in self.options.items())
        return f"{self.make.__name__}({options})"


class Maker[**Given, Made: GraphDesign](Protocol):
    """A function of a graph and options that also accepts options alone."""

    @overload
    def __call__(self, *args: Given.args, **options: Given.kwargs) -> Made: ...
    @overload
    def __call__(self, **options: Any) -> OfChains: ...


def of_chains_too[**Given, Made: GraphDesign](make: Callable[Given, Made]) -> Maker[Given, Made]:
    """Let a function that makes a design of a graph return `OfChains` when it gets no graph."""

    @wraps(make)
    def made(*args: Any, **options: Any) -> Any:
        if args or "graph" in options:
            return make(*args, **options)
        return OfChains(made, options)

    return made


def two_ends(d: int) -> Words:
    """The empty and the full coalition (2, ⌈d/64⌉)."""
    return to_words(np.array([[False] * d, [True] * d]))


class ScoreTerms(NamedTuple):
    """Sparse scores: entries (coalition, player, coefficient)."""

    row: NDArray[np.intp]
    """(e,): position of the coalition in its list."""
    player: NDArray[np.intp]
    """(e,): player of each entry."""
    coefficient: FloatArray
    """(e,): score of the entry."""

    @classmethod
    def joined(cls, parts: Sequence[ScoreTerms]) -> ScoreTerms:
        """Concatenate the entries of several lists."""
        rows = [part.row for part in parts]
        players = [part.player for part in parts]
        return cls(
            np.concatenate(rows),
            np.concatenate(players),
            np.concatenate([part.coefficient for part in parts]),
        )


@dataclass(frozen=True)
class TermList:
    """Distinct coalitions with sparse scores."""

    words: Words
    """(m, ⌈d/64⌉): members of the coalitions as bits."""
    score: scipy.sparse.csr_array
    """Scores (m, d)."""
    entries: NDArray[np.int64]
    """(e,): coalition · R + group of each entry in the jackknife groups, rising."""
    n_groups: int
    """R, the number of jackknife groups."""
    group_score: scipy.sparse.csr_array
    """Scores (e, d) of these entries."""

    @classmethod
    def of(
        cls,
        d: int,
        words: Words,
        terms: ScoreTerms,
        groups: NDArray[np.int16] | None = None,
        n_groups: int = 0,
    ) -> TermList:
        """Build the list from terms: merge equal coalitions, and drop coalitions without a term.

        `groups` (e,) are the jackknife groups of the terms; −1: no group.
        """
        words = np.concatenate([two_ends(d), words])
        first, which = first_distinct_bits(words.view(np.uint8))
        at = which[N_ENDS + terms.row]
        is_used = np.isin(np.arange(len(first)), at) | (np.arange(len(first)) < N_ENDS)
        at = (np.cumsum(is_used) - 1)[at]
        words = words[first[is_used]]
        if groups is None:
            groups = np.full(len(at), -1, np.int16)
        dealt = groups >= 0
        entries, entry = np.unique(
            at[dealt] * max(n_groups, 1) + groups[dealt], return_inverse=True
        )
        player = terms.player
        coefficient = terms.coefficient
        score = _summed(at, player, coefficient, (len(words), d))
        return cls(
            words,
            score,
            entries,
            n_groups,
            _summed(entry, player[dealt], coefficient[dealt], (len(entries), d)),
        )

    @property
    def kept_bytes(self) -> int:
        """See `CoalitionList`."""
        scores = sum(
            each.data.nbytes + each.indices.nbytes for each in (self.score, self.group_score)
        )
        return MADE_OF * (self.words.nbytes + self.entries.nbytes + scores)

    def scored(self, start: int, stop: int) -> tuple[FloatArray, Groups]:
        """See `CoalitionList`."""
        score: FloatArray = self.score[start:stop].toarray()
        if not self.n_groups:
            return score, Groups.none(score.shape[1])
        inside = slice(
            *np.searchsorted(self.entries, [start * self.n_groups, stop * self.n_groups])
        )
        coalition, group = np.divmod(self.entries[inside], self.n_groups)
        return score, Groups(
            coalition - start, group.astype(np.int16), self.group_score[inside].toarray()
        )


def _summed(
    row: NDArray[np.intp], column: NDArray[np.intp], value: FloatArray, shape: tuple[int, int]
) -> scipy.sparse.csr_array:
    """The sparse matrix with these entries; entries at the same position are added."""
    return scipy.sparse.coo_array(
        (value, (row.astype(np.int32), column.astype(np.int32))), shape=shape
    ).tocsr()


def checked_order(order: int | None) -> int | None:
    """`order` as a whole number of at least 1, or None: no limit."""
    if order is None:
        return None
    return checked(order=order)[0]


def _highest_order(fits: Callable[[int], bool], asked: int | None) -> str:
    """A hint for an error message: the highest order up to `asked` that fits, by bisection."""
    low = 0
    high = 1
    # double first, because `asked` may be None: then there is no upper end to bisect from
    while (asked is None or high < asked) and fits(high):
        low = high
        high = 2 * high
    if asked is not None:
        high = min(high, asked)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    if low:
        return f"the highest order that fits is {low}"
    return "no order fits: group columns into fewer players"
