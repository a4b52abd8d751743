"""Sums of product games over all pairs of rows, block by block: witness, attributions, cells.

For rows x and z the game is a product, v(S) = Π_{j∈S} k_j(x_j, z_j) Π_{j∉S} c_j, whose Shapley
values Φ_j(x, z) `dshap.loops.product_games` integrates exactly.  They are summed over z for each
row, and over both in cells of rows, from which permutations are made.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dshap import loops
from dshap.attributors.nodes import node_count
from dshap.core.cores import n_cores
from dshap.core.records import FloatArray
from dshap.core.threads import one_blas_thread
from dshap.discrepancy.samples import ComparedRows
from dshap.kernels.product import distinct_values

TILE_ROWS = 128
"""Rows of a tile on both sides: its factors of 20 columns are 2.6 MB."""
NODE_TOLERANCE = 1e-12
"""The largest error of a mean of Φ over pairs by too few nodes; factors are at most 1."""
PROBES = 64
"""Rows on each side of the pairs that the number of nodes is chosen by."""
TILE_ADDITIVITY = 1e-12
"""The largest mean difference of attributions and product over the pairs of two cells in a tile,
beyond which all nodes are used there."""
ADDITIVITY = 1e-9
"""The largest difference of the attributions of a row and its witness, which is at most 2."""


@dataclass(frozen=True, eq=False)
class PairSums:
    """Sums over the pairs of N rows, in C cells of rows."""

    attributions: FloatArray
    """(N, d): Σ_z w_z Φ_j(x, z), the attributions of the witness at each row."""
    witness: FloatArray
    """(N,): Σ_z w_z k(x, z)."""
    cells: FloatArray
    """(d + 1, C, C): Σ Φ_j over the pairs of two cells, and last Σ k."""
    n_nodes: int
    """Number of quadrature nodes; a tile that needs more takes all."""

    @property
    def error(self) -> float:
        """The largest difference of a row's attributions and its witness."""
        return float(np.abs(self.attributions.sum(axis=1) - self.witness).max())


def pair_sums(rows: ComparedRows, cell_of: NDArray[np.intp], n_threads: int = 0) -> PairSums:
    """Sum witness and attributions over all pairs of rows.

    Parameters
    ----------
    rows : ComparedRows
    cell_of : (N,)
        The cell of each row, 0 to C − 1; the rows of a cell are of one sample.
    n_threads : int
        Threads; 0: one a core.  Numbers do not depend on it.

    Raises
    ------
    ArithmeticError
        The attributions of a row do not add up to its witness.

    Notes
    -----
    Each pair is met once: N²·d/2 exponentials and N²·d·q/2 steps of 8 operations with q nodes, 4
    where factors are near each other.  It needs 8·C²·d bytes, and 16·N·d for each thread.
    """
    # in the order of cells, a tile has rows of few cells, which are neighbours
    order = np.argsort(cell_of, kind="stable")
    tiles = _Tiles(rows, rows.x[order], rows.weights[order], cell_of[order], _nodes(rows))
    n_rows = len(order)
    d = len(rows.names)
    n_cells = int(cell_of.max()) + 1
    of_rows = np.zeros((n_rows, d + 1))
    of_cells = np.zeros((d + 1, n_cells, n_cells))
    starts = range(0, n_rows, TILE_ROWS)
    with one_blas_thread(), ThreadPoolExecutor(n_threads or n_cores()) as pool:
        # `map` yields the blocks in their order: sums do not depend on which thread ends first
        for start, (more, first, cells) in zip(
            starts, pool.map(tiles.sums_of_block, starts), strict=True
        ):
            of_rows[start:] += more
            of_cells[:, first : first + cells.shape[1], first:] += cells
    witnesses = np.empty_like(of_rows)
    witnesses[order] = of_rows
    _mirror(of_cells)
    sums = PairSums(witnesses[:, :d], witnesses[:, d], of_cells, len(tiles.nodes[0]))
    if sums.error > ADDITIVITY:
        raise ArithmeticError(f"attributions miss the witness by {sums.error:.3g}")
    return sums


def _mirror(upper: FloatArray) -> None:
    """Make sums of pairs of cells symmetric, in place, which contain each pair of rows once."""
    for plane in upper:
        plane += plane.T.copy()


def _nodes(rows: ComparedRows) -> tuple[FloatArray, FloatArray]:
    """As many nodes as are enough for pairs of rows spread over the table."""
    probes = rows.x[np.linspace(0, len(rows.x) - 1, PROBES).astype(int)]
    factors = rows.factors(probes, probes)
    base = np.broadcast_to(rows.base[:, None, None], (len(factors), 1, PROBES))
    mean = np.full((PROBES, 1), 1.0 / PROBES)
    return loops.even_nodes(
        node_count(loops.product_game_values, factors, base, mean, NODE_TOLERANCE).nodes
    )


@dataclass(frozen=True, eq=False)
class _Tiles:
    """Rows in the order of their cells, cut into tiles."""

    rows: ComparedRows
    x: FloatArray
    weights: FloatArray
    cell_of: NDArray[np.intp]
    nodes: tuple[FloatArray, FloatArray]

    def sums_of_block(self, start: int) -> tuple[FloatArray, int, FloatArray]:
        """Sums over the pairs of the rows of a tile with each other, and with all later rows.

        They are (N − start, d + 1) for each row, and (d + 1, cells, later cells) for cells, with
        the first cell between them.  A row and itself count half, as they are counted twice.
        """
        here = slice(start, start + TILE_ROWS)
        groups = self._groups(here)
        first, last = self.cell_of[here][[0, -1]].tolist()
        d = len(self.rows.names)
        x = self.x[here]
        distinct = distinct_values(x)
        of_rows = np.zeros((len(self.x) - start, d + 1))
        of_cells = np.zeros((d + 1, last - first + 1, int(self.cell_of[-1]) - first + 1))
        for other in range(start, len(self.x), TILE_ROWS):
            there = slice(other, other + TILE_ROWS)
            factors = self.rows.factors(x, self.x[there], distinct)  # (d, n, r)
            of_first, of_second, cells = self._tile(factors, groups, self._groups(there))
            at = int(self.cell_of[other]) - first
            if other == start:
                cells *= 0.5  # within the tile both orders of a pair were met
            else:
                of_rows[other - start : other - start + TILE_ROWS] += of_second
            of_rows[: len(x)] += of_first
            of_cells[:, :, at : at + cells.shape[2]] += cells
        return of_rows, first, of_cells

    def _tile(
        self, factors: FloatArray, first: loops.Groups, second: loops.Groups
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The sums of a tile; all nodes are used if the chosen ones are not enough."""
        base = self.rows.base
        found = loops.pair_game_sums(factors, base, self.nodes, first, second)
        n_exact = loops.exact_nodes(len(base))
        if len(self.nodes[0]) >= n_exact:
            return found
        of_groups = found[2]
        n_pairs = np.outer(np.diff(first[0]), np.diff(second[0]))
        # the attributions of a pair add up to v(N) − v(∅): a difference shows that nodes are too few
        missed = of_groups[:-1].sum(axis=0) - of_groups[-1] + base.prod() * n_pairs
        if np.abs(missed / n_pairs).max() <= TILE_ADDITIVITY:
            return found
        return loops.pair_game_sums(factors, base, loops.even_nodes(n_exact), first, second)

    def _groups(self, part: slice) -> loops.Groups:
        """The cells of consecutive rows."""
        cell_of = self.cell_of[part]
        firsts = np.flatnonzero(np.diff(cell_of, prepend=-1))
        return np.append(firsts, len(cell_of)), self.weights[part][firsts]
