"""Sets of nodes as bits in 64-bit words, and lists of distinct sets.

Node i is bit i % 64 of word i // 64.  A set of d nodes is a row of ⌈d/64⌉ words, so that one numpy
operation acts on all sets of a list.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.core.records import BoolArray
from dshap.designs.coalitions import coalition_spans

Words = NDArray[np.uint64]
WORD = np.dtype("<u8")
MAX_SUBSETS = 2**20
"""The most sets in a list.

A list of this length needs a million model evaluations for every instance, and every process has
the list in memory.
"""
GROWN = 2**16
MASK_BYTES = 2**24
"""Limits of one step, which adds a node to smaller sets.

A step makes about `GROWN` sets, with at most `MASK_BYTES` bytes of masks.
"""
GROWING_WORDS = 7
"""The most words in memory for each word of a set, while a list is made; up to 6 were measured."""


def to_words(masks: BoolArray) -> Words:
    """Masks (m, d) as words (m, ⌈d/64⌉)."""
    bits = np.packbits(masks, axis=1, bitorder="little")
    padded = np.zeros((len(masks), 8 * math.ceil(masks.shape[1] / 64)), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return padded.view(WORD)


def to_masks(words: Words, d: int) -> BoolArray:
    """Masks (m, d) of the words (m, ⌈d/64⌉) that `to_words` made."""
    return np.unpackbits(words.view(np.uint8), axis=1, count=d, bitorder="little").view(bool)


def sizes(words: Words) -> NDArray[np.int64]:
    """Number of nodes of each set (m,)."""
    return np.bitwise_count(words).sum(axis=1, dtype=np.int64)


def has(words: Words, nodes: NDArray[np.intp]) -> BoolArray:
    """Whether set j contains node j of `nodes` (m,)."""
    at = words[np.arange(len(nodes)), nodes // 64] >> (nodes % 64).astype(np.uint64)
    return (at & np.uint64(1)).astype(bool)


def set_player_pairs(words: Words, d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(row, node) for every node of every set, sorted by row."""
    rows = []
    nodes = []
    for start, stop in coalition_spans(len(words), d):
        row, node = np.nonzero(to_masks(words[start:stop], d))
        rows.append(start + row)
        nodes.append(node)
    return np.concatenate(rows), np.concatenate(nodes)


def n_runs(d: int, longest: int) -> int:
    """Number of runs of at most `longest` consecutive nodes in a chain of d nodes."""
    return longest * (2 * d - longest + 1) // 2


class Subsets(NamedTuple):
    """Distinct non-empty sets, with the neighbourhoods that contain them."""

    members: Words
    """Members of each set (m, ⌈d/64⌉)."""
    common: Words
    """(m, ⌈d/64⌉): the players, at least one, whose neighbourhood contains all members."""


class _Growing(NamedTuple):
    """Sets of one size, with the nodes that may still be added to each set."""

    members: Words
    common: Words
    frontier: Words
    """Nodes that may be added to a set next; each makes a new set."""
    passed: Words
    """Nodes that cannot be added to a set any more: its members, and nodes tried before."""


def subsets_of(neighbourhoods: BoolArray, most: int = MAX_SUBSETS) -> Subsets | None:
    """All sets within a neighbourhood (d, d), row i of player i; None if more than `most`."""
    # row j: the players whose neighbourhood contains node j
    held = scipy.sparse.csr_array(neighbourhoods.T, dtype=np.int32)
    together = (held @ held.T).toarray() > 0
    return _listed(together, np.zeros_like(together), neighbourhoods.T, most, len(together))


def connected_subsets(
    adjacency: BoolArray,
    neighbourhoods: BoolArray,
    most: int = MAX_SUBSETS,
    max_size: int | None = None,
) -> Subsets | None:
    """All connected sets within a neighbourhood (d, d); None if more than `most`.

    `max_size` is the largest number of nodes in a set; None: no limit.
    """
    return _listed(adjacency, adjacency, neighbourhoods.T, most, max_size or len(adjacency))


def _listed(
    first: BoolArray, growth: BoolArray, held: BoolArray, most: int, max_size: int
) -> Subsets | None:
    """List every set once: begin with its smallest node, then add one node at a time.

    Row j of each matrix (d, d) is about node j.  `first`: the nodes that may be added to the set
    {j}.  `growth`: the nodes that may also be added after j was added.  `held`: the players whose
    neighbourhoods contain j.
    """
    single = to_words(np.eye(len(first), dtype=bool))
    # a set begins with its smallest node: only larger ones are added to it
    upto = to_words(np.tri(len(first), dtype=bool))
    rules = to_words(growth), to_words(held), single, upto
    start = _Growing(single, rules[1], to_words(first) & ~upto, upto)
    found = [_Growing(*(part[start.common.any(axis=1)] for part in start))]
    todo = [found[0]] if max_size > 1 else []
    count = len(found[0].members)
    while todo and count <= most:
        for part in _cut(todo.pop(), len(first)):
            grown = _grown(part, len(first), *rules)
            found.append(grown)
            count += len(grown.members)
            if len(grown.members) and sizes(grown.members[:1])[0] < max_size:
                todo.append(grown)
            if count > most:
                return None
    if count > most:
        return None
    return Subsets(*(np.concatenate([part[side] for part in found]) for side in (0, 1)))


def _cut(part: _Growing, d: int) -> list[_Growing]:
    """Cut `part` into parts that grow to about `GROWN` sets or `MASK_BYTES` bytes of masks each."""
    becomes = np.cumsum(np.maximum(sizes(part.frontier), GROWN * d // MASK_BYTES))
    at = np.flatnonzero(np.diff(becomes // GROWN)) + 1
    return [_Growing(*each) for each in zip(*(np.split(side, at) for side in part), strict=True)]


def _grown(
    part: _Growing, d: int, growth: Words, held: Words, single: Words, upto: Words
) -> _Growing:
    """Add each node of its frontier to each set, if a neighbourhood contains the new set."""
    row, node = np.nonzero(to_masks(part.frontier, d))
    common = part.common[row] & held[node]
    is_held = common.any(axis=1)
    row = row[is_held]
    node = node[is_held]
    # smaller nodes of the frontier are left to the sets that add these first: otherwise the same
    # set would be made once for each order of its nodes
    passed = part.passed[row] | (part.frontier[row] & upto[node])
    frontier = (part.frontier[row] & ~upto[node]) | (growth[node] & ~passed)
    return _Growing(part.members[row] | single[node], common[is_held], frontier, passed)
