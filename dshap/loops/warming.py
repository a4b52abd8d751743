"""Compiling the loops before a task needs them."""

from __future__ import annotations

import numpy as np

from dshap.loops.exponents import add_exponents, fill_exponents
from dshap.loops.lattice import Lattice
from dshap.loops.ridge_path import moved_squares, ridge_path
from dshap.loops.subset_products import Coalitions, SubsetSums, table_values


def warm_up() -> None:
    """Compile (or load) the loops over real factors, so that no task waits for a compiler.

    All other loops compile when they are first used.
    """
    one = np.zeros((1, 1))
    add_exponents(one, one, np.zeros(1, dtype=np.int64), np.ones(1), one.copy(), one.copy())
    cube = np.zeros((1, 1, 1))
    fill_exponents(cube, cube, np.zeros(1, np.int64), np.ones(1), cube.copy(), cube.copy())
    factors = np.ones((6, 2, 1))
    for columns in (np.ones((1, 6), dtype=bool), np.eye(6, dtype=bool)):  # a grid, then a list
        coalitions = Coalitions.of(columns)
        m = len(columns)
        table_values(factors, coalitions, np.ones((m, 1, 2)), np.zeros(1), np.empty((1, m, 1)))
        SubsetSums(columns, 2, np.float64).add(factors)
    lattice = Lattice(columns, 2, 1, np.float64)
    lattice.fill(factors)
    lattice.product(0)
    path = ridge_path(np.ones(1), np.empty(0), one, np.ones(1))
    moved_squares(np.ones(1), np.empty(0), path.fits, 0)
