"""Rows as a pass over a table is given them, and tables in any chunks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dshap.core.blocks import RowBlock


def block_of(x: np.ndarray, y: np.ndarray, start: int = 0) -> RowBlock:
    """Rows (n, columns) and their targets, from this position of the table on."""
    return RowBlock(start, x, np.ones(len(x), dtype=bool), target=y)


def chunks(n: int) -> st.SearchStrategy[Callable[[np.ndarray, np.ndarray], Any]]:
    """Functions that cut a table of n rows and its targets anywhere, as `fit` takes blocks: a list,
    or a function that gives them; chunks may be empty."""

    def cut(inner: list[int], is_list: bool) -> Callable[[np.ndarray, np.ndarray], Any]:
        edges = [0, *sorted(inner), n]

        def blocks(x: np.ndarray, y: np.ndarray) -> Any:
            parts = [(x[a:b], y[a:b]) for a, b in pairwise(edges)]
            return parts if is_list else lambda: iter(parts)

        return blocks

    return st.builds(cut, st.lists(st.integers(0, n), max_size=8), st.booleans())
