"""How coalitions are cut into tiles, rounds and groups."""

from __future__ import annotations

from dataclasses import replace

from dshap.attributors.tiling import Tiling

TILING = Tiling(
    data_rows=25,
    n_outputs=1,
    n_replicates=0,
    n_coalitions=64,
    pilot_coalitions=0,
    instance_tile=16,
    chunk_rows=16,
    micro_rows=16,
    coalition_tile=20,
    coalition_groups=2,
    join_tiles=1,
    row_span=10,
    cache_bytes=0,
    tol=None,
    stage_coalitions=(64,),
    stochastic=False,
    interactions=False,
    is_closed_form=False,
)


def test_tiles_begin_after_the_two_ends_and_where_a_round_or_a_pilot_ends():
    assert TILING.coalition_spans == [(2, 22), (22, 42), (42, 62), (62, 64)]
    grown = replace(TILING, stage_coalitions=(30, 64), pilot_coalitions=12)
    assert grown.coalition_spans == [(2, 12), (12, 30), (30, 50), (50, 64)]
    assert grown.round_tiles == [[0, 1], [2, 3]]
    assert replace(TILING, is_closed_form=True).coalition_spans == [(2, 2)]


def test_groups_are_as_even_as_possible():
    assert TILING.groups == [[0, 1], [2, 3]]
    assert replace(TILING, coalition_groups=3).groups == [[0], [1], [2, 3]]


def test_spans_of_the_data():
    assert TILING.data_spans == [(0, 10), (10, 20), (20, 25)]
