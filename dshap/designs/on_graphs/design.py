"""Designs whose coalitions follow a graph of the players: what they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, Self, TypeVar, overload

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from dshap.core.blocks import N_ENDS, CoalitionBlock, DesignInfo, Groups
from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.core.rules import checked
from dshap.designs.coalitions import BaseDesign, checked_span, first_distinct_bits
from dshap.designs.on_graphs.graphs import Graph, chain, graph_of
from dshap.designs.on_graphs.subsets import Words, to_masks, to_words

__all__ = [
    "OUTSIDE",
    "CoalitionList",
    "GraphDesign",
    "OfChains",
    "TermList",
    "Terms",
    "checked_order",
    "of_chains_too",
    "two_ends",
]

Given = ParamSpec("Given")
Made = TypeVar("Made", bound="GraphDesign", covariant=True)

OUTSIDE = ("absent", "present")
"""What players beyond a neighbourhood may be."""

MADE_OF = 8
"""Bytes that making a list of terms takes at most, over those of the list: 6 have been met."""


class CoalitionList(Protocol):
    """Different coalitions, the two ends first, with their scores."""

    @property
    def words(self) -> Words:
        """(m, ⌈d/64⌉)"""
        ...

    @property
    def kept_bytes(self) -> int:
        """What a process keeps, and needs at most to make the list."""
        ...

    def scored(self, start: int, stop: int) -> tuple[FloatArray, Groups]:
        """Scores (m, d) of coalitions start..stop, and what enters the jackknife groups."""
        ...


@dataclass(frozen=True)
class GraphDesign(BaseDesign):
    """Base of the designs of a graph: what is left to write is `of_order` and `refusal`, and
    `is_efficient` where it may be.  An `__post_init__` checks the options, then calls this one."""

    graph: Graph

    if TYPE_CHECKING:

        @property
        def order(self) -> int | None:
            """How far neighbours are; None: no limit."""
            ...

        def of_order(self, order: int | None) -> CoalitionList | None:
            """The list of coalitions for this order; None where it would be too long."""
            ...

        def refusal(self, best: str) -> str:
            """What is said where the list would be too long; `best` is what `_highest_order`
            says."""
            ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "graph", graph_of(self.graph))
        _ = self.listed  # too long a list is refused here

    def made(self) -> CoalitionList:
        """The list of coalitions, or an InputError that names the highest order that fits."""
        if self.is_too_long(self.order):
            listed = None
        else:
            listed = self.of_order(self.order)
        if listed is None:
            raise InputError(self.refusal(_highest_order(self.fits, self.order)))
        return listed

    def is_too_long(self, order: int | None) -> bool | None:
        """Whether the list for this order would be too long; None where only making it tells."""
        return None

    def fits(self, order: int) -> bool:
        """The list for this order is not too long."""
        told = self.is_too_long(order)
        if told is None:
            return self.of_order(order) is not None
        return not told

    @property
    def n_players(self) -> int:
        """Nodes of the graph."""
        return self.graph.n_nodes

    @property
    def is_efficient(self) -> bool:
        """Attributions add up to v(N) − v(∅), whatever the game."""
        return False

    @property
    def info(self) -> DesignInfo:
        """No player can be left out: its neighbours would be others."""
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
        """The coalitions, made once in a process."""
        return _listed(self)

    def block(self, start: int, stop: int) -> CoalitionBlock:
        """Coalitions start..stop; the two ends have scores too."""
        listed = self.listed
        checked_span(len(listed.words), start, stop)
        score, groups = listed.scored(start, stop)
        return CoalitionBlock(to_masks(listed.words[start:stop], self.n_players), score, groups)

    def finish(self, sums: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        """The sums (n, d, k): the two ends have their scores."""
        return sums

    def with_players(self, n_players: int) -> Self:
        """The same of a chain of another length; InputError of another graph."""
        if n_players != self.n_players and not self.graph.is_chain:
            raise InputError(
                f"the design is of a graph of {self.n_players} players, and there are {n_players}: "
                "make the graph anew"
            )
        if n_players != self.n_players:
            return replace(self, graph=chain(n_players))
        return self

    def fingerprint(self) -> dict[str, Any]:
        """The kind of design, its fields, and of the graph what `graph_of` makes it of."""
        return super().fingerprint() | {"graph": self.graph.fingerprint()}


@lru_cache(maxsize=8)
def _listed(design: GraphDesign) -> CoalitionList:
    return design.made()


@dataclass(frozen=True)
class OfChains:
    """A design that was given no graph: of texts, each of which has the chain of its own tokens."""

    make: Callable[..., GraphDesign]
    """graph, options -> design"""
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        self(1)  # options that are wrong are refused here

    def __call__(self, n_players: int) -> GraphDesign:
        """The design of the chain of so many players."""
        return self.make(chain(n_players), **self.options)

    def refused(self, n_players: int) -> InputError:
        """The error of so many players that are no tokens."""
        return InputError(
            f"design is {self!r}, of no graph, and only texts have one by themselves: give "
            "dshap.designs.chain"
            f"({n_players}), grid(height, width) or an adjacency as graph="
        )

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={given!r}" for name, given in self.options.items())
        return f"{self.make.__name__}({options})"


class Maker(Protocol[Given, Made]):
    """A function of a graph and of options, which takes options alone too."""

    @overload
    def __call__(self, *args: Given.args, **options: Given.kwargs) -> Made: ...
    @overload
    def __call__(self, **options: Any) -> OfChains: ...


def of_chains_too(make: Callable[Given, Made]) -> Maker[Given, Made]:
    """The function that makes a design of a graph; where it is given none, `OfChains`."""

    @wraps(make)
    def made(*args: Any, **options: Any) -> Any:
        if args or "graph" in options:
            return make(*args, **options)
        return OfChains(made, options)

    return made


def two_ends(d: int) -> Words:
    """(2, ⌈d/64⌉): nobody, and everybody."""
    return to_words(np.array([[False] * d, [True] * d]))


class Terms(NamedTuple):
    """What the values of coalitions are multiplied with."""

    row: NDArray[np.intp]
    """(e,): which coalition of a list."""
    player: NDArray[np.intp]
    """(e,)"""
    coefficient: FloatArray
    """(e,)"""

    @classmethod
    def joined(cls, parts: Sequence[Terms]) -> Terms:
        """One list after the other."""
        rows = [part.row for part in parts]
        players = [part.player for part in parts]
        return cls(
            np.concatenate(rows),
            np.concatenate(players),
            np.concatenate([part.coefficient for part in parts]),
        )


@dataclass(frozen=True)
class TermList:
    """Coalitions with sparse scores."""

    words: Words
    score: scipy.sparse.csr_array
    """(m, d)"""
    entries: NDArray[np.int64]
    """(e,): coalition · R + group, rising."""
    n_groups: int
    """R"""
    group_score: scipy.sparse.csr_array
    """(e, d)"""

    @classmethod
    def of(
        cls,
        d: int,
        words: Words,
        terms: Terms,
        groups: NDArray[np.int16] | None = None,
        n_groups: int = 0,
    ) -> TermList:
        """The sum of terms, of which `groups` (e,) says the group, −1 of none; equal coalitions
        become one, and those of no term are left out."""
        words = np.concatenate([two_ends(d), words])
        first, which = first_distinct_bits(words.view(np.uint8))
        at = which[N_ENDS + terms.row]
        is_used = np.isin(np.arange(len(first)), at) | (np.arange(len(first)) < N_ENDS)
        at = (np.cumsum(is_used) - 1)[at]
        words = words[first[is_used]]
        if groups is None:
            groups = np.full(len(at), -1, np.int16)
        else:
            groups = groups
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
    """The matrix with these entries, those of one place added."""
    return scipy.sparse.coo_array(
        (value, (row.astype(np.int32), column.astype(np.int32))), shape=shape
    ).tocsr()


def checked_order(order: int | None) -> int | None:
    """A whole number of at least 1, or None: no limit."""
    if order is None:
        return None
    return checked(order=order)[0]


def _highest_order(fits: Callable[[int], bool], asked: int | None) -> str:
    """What a refusal says of the orders below the one that was asked for, which does not fit, by
    bisection."""
    low = 0
    high = 1
    while (asked is None or high < asked) and fits(high):
        low = high
        high = 2 * high
    if asked is None:
        high = high
    else:
        high = min(high, asked)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
            high = high
        else:
            low = low
            high = middle
    if low:
        return f"the highest order that fits is {low}"
    return "no order fits: group columns into fewer players"
