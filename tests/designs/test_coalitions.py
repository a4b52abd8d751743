"""Masks, their packing, and what every design says of itself."""

from itertools import pairwise
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dshap.designs import exact, kernelshap, kriging, permutation
from dshap.designs.coalitions import (
    coalition_spans,
    first_distinct,
    masks_of_size,
    pack,
    random_masks,
    stream,
    unpack,
)


@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_masks_of_size_are_all_of_them_once(d):
    for size in range(d + 1):
        masks = masks_of_size(d, size)
        assert masks.shape == (comb(d, size), d)
        assert (masks.sum(axis=1) == size).all()
        assert len(np.unique(masks, axis=0)) == len(masks)
        if 2 * size != d:  # row j of size d − s complements row j of size s
            assert (masks == ~masks_of_size(d, d - size)).all()


def test_masks_of_size_are_lexicographic():
    assert [np.flatnonzero(mask).tolist() for mask in masks_of_size(4, 2)] == [
        [0, 1],
        [0, 2],
        [0, 3],
        [1, 2],
        [1, 3],
        [2, 3],
    ]


@given(st.integers(1, 150), st.integers(0, 40), st.integers(0, 2**32))
def test_packing_round_trip(d, m, seed):
    masks = np.random.default_rng(seed).random((m, d)) < 0.5
    assert (unpack(pack(masks), d) == masks).all()


@given(st.sampled_from([1, 3, 64, 65, 130]), st.integers(0, 60), st.integers(0, 2**32))
def test_first_distinct_equals_a_plain_loop(d, m, seed):
    rng = np.random.default_rng(seed)
    masks = (rng.random((7, d)) < 0.5)[rng.integers(7, size=m)]  # few different rows, many repeats
    seen = {}
    for mask in masks:
        seen.setdefault(mask.tobytes(), len(seen))
    first, which = first_distinct(masks)
    assert [mask.tobytes() for mask in masks[first]] == list(seen)
    assert which.tolist() == [seen[mask.tobytes()] for mask in masks]


def test_random_masks_are_uniform():
    """Chi-square over the 20 coalitions of size 3 of 6, 20,000 draws: 19 degrees of freedom, 43.8
    is the 0.1 % point; the seed is fixed, so it cannot fail by chance."""
    masks = random_masks(stream(5, 0).random((20_000, 6)), np.full(20_000, 3))
    assert (masks.sum(axis=1) == 3).all()
    _, counts = np.unique(masks, axis=0, return_counts=True)
    assert len(counts) == 20
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8


def test_streams_depend_on_every_coordinate():
    draws = {stream(seed, a, b).random() for seed in (0, 1) for a in (0, 1) for b in (0, 1)}
    assert len(draws) == 8
    assert stream(3, 1, 2).random() == stream(3, 1, 2).random()


def test_spans_cover_without_gaps():
    parts = list(coalition_spans(3_000_000, 24))
    assert parts[0][0] == 0
    assert parts[-1][1] == 3_000_000
    assert all(stop == start for (_, stop), (start, _) in pairwise(parts))
    assert max(stop - start for start, stop in parts) * 24 * 8 <= 2**24


@pytest.mark.parametrize(
    "design",
    [exact(3), kernelshap(8, 60), kernelshap(5, 20, n_replicates=0), kriging(8, 60, decay=0.1), kriging(8, 60),
     kriging(130, 600, sparse=False), permutation(5, 30), permutation(5, 10)],
    ids=lambda design: f"{type(design).__name__} {design.n_players}",
)  # fmt: skip
def test_info_is_that_of_the_list(design):
    """Players, coalitions, groups, and bytes of the arrays of a block, at least; the members that
    name it too."""
    info, block = design.info, design.block(0, design.info.n_coalitions)
    assert block.masks.shape == block.score.shape == (info.n_coalitions, info.n_players)
    assert block.groups.score.shape[1] == info.group_columns
    assert len(block.groups.group) == 0 or np.ptp(block.groups.group) == info.n_replicates - 1
    nbytes = sum(array.nbytes for array in (block.masks, block.score, *block.groups))
    assert (
        0 <= info.kept_bytes == info.block_bytes(0) <= info.block_bytes(len(block.masks)) - nbytes
    )
    named = design.n_players, design.n_coalitions, design.why_no_errors
    assert named == (info.n_players, info.n_coalitions, info.why_no_errors)
    assert info.seed == 0
    if info.is_efficient:
        shape, ends = (3, info.n_players, 2), np.ones((2, 3, 2))
        groups = np.zeros((info.n_replicates, 3, info.group_columns, 2))
        replicates = design.replicates(np.zeros(shape), groups, *ends)
        assert replicates.shape == (info.n_replicates, *shape)
        assert np.isnan(replicates).any() == bool(info.why_no_errors)
