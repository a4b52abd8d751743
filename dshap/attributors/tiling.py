"""The tiles of a run on both axes, as an attributor needs them."""

from __future__ import annotations

import bisect
import itertools
from dataclasses import dataclass

from dshap.core.blocks import N_ENDS
from dshap.core.rows import spans


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """The cuts of rows, coalitions and data into tiles, and the computations on these."""

    data_rows: int
    """Number of rows of the data that are learned from."""
    n_outputs: int
    """Number of outputs after the link."""
    n_replicates: int
    """Number of jackknife groups; if there are none, of replicates for the noise of the model."""
    n_coalitions: int
    """Number of coalitions of the design, the two ends counted."""
    pilot_coalitions: int
    """Number of coalitions whose values the design asks for first."""
    instance_tile: int
    """Number of explained rows of one task."""
    chunk_rows: int
    """Number of rows of an inner chunk of the cube; an instance tile is one shard."""
    micro_rows: int
    """Number of rows whose values are in memory at a time."""
    coalition_tile: int
    """The most coalitions of a tile, which share one state."""
    coalition_groups: int
    """Number of tasks that share the coalitions of an instance tile."""
    join_tiles: int
    """Number of coalition tiles whose states are evaluated together as one."""
    row_span: int
    """Number of consecutive rows of the data that one task sums."""
    cache_bytes: int
    """Bytes of prepared states that a worker caches in memory."""
    tol: float | None
    """The error at which rounds end for a row; None: all coalitions are evaluated for every row."""
    stage_coalitions: tuple[int, ...]
    """The total number of coalitions after each round."""
    stochastic: bool
    """Whether the model is stochastic: every prediction is then made twice."""
    interactions: bool
    """Whether interactions of pairs of players are computed beside the attributions."""
    is_closed_form: bool
    """Whether a closed form computes the attributions, without a list of coalitions."""
    learns_range: bool = False
    """Whether the range of the rows' predictions is learned first, as a floor of errors."""
    draw_replicates: int = 0
    """Number of replicates for the error of the draws behind the values; 0: no such error."""
    kept_spans: int = 0
    """Number of spans whose sums for a coalition tile are stored while it is learned; 0: none."""

    @property
    def coalition_spans(self) -> list[tuple[int, int]]:
        """(start, stop) of the tiles of proper coalitions, without the empty and the full one.

        A closed form has one empty tile.
        """
        if self.is_closed_form:
            return [(N_ENDS, N_ENDS)]
        # a tile ends where a round or the pilot ends, which evaluate whole tiles
        edges = sorted({N_ENDS, *self.stage_coalitions, self.pilot_coalitions or N_ENDS})
        return [
            span for ends in itertools.pairwise(edges) for span in spans(*ends, self.coalition_tile)
        ]

    @property
    def round_tiles(self) -> list[list[int]]:
        """The indices of the coalition tiles that each round adds."""
        ends = [stop for _, stop in self.coalition_spans]
        cuts = [0, *(bisect.bisect_right(ends, stop) for stop in self.stage_coalitions)]
        return [list(range(a, b)) for a, b in itertools.pairwise(cuts)]

    @property
    def groups(self) -> list[list[int]]:
        """The indices of the coalition tiles in each group; groups are as even as possible."""
        n_tiles = len(self.coalition_spans)
        cuts = [n_tiles * g // self.coalition_groups for g in range(self.coalition_groups + 1)]
        return [list(range(a, b)) for a, b in itertools.pairwise(cuts)]

    @property
    def data_spans(self) -> list[tuple[int, int]]:
        return spans(0, self.data_rows, self.row_span)
