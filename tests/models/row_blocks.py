"""Rows as a pass over a table is given them."""

from __future__ import annotations

import numpy as np

from dshap.core.blocks import RowBlock


def block_of(x: np.ndarray, y: np.ndarray, start: int = 0) -> RowBlock:
    """Rows (n, columns) and their targets, from this position of the table on."""
    return RowBlock(start, x, np.ones(len(x), dtype=bool), target=y)
