"""Sums of the products of coalitions over all rows, by the shorter of two ways."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from dshap.loops.shared_rows import SharedRows, shared_row_bytes
from dshap.loops.shared_sums import is_dense, is_worth_expanding, shared_subset_sums, shared_sum_items
from dshap.loops.subset_products import SubsetSums, rows_last, sum_items
from dshap.loops.terms import ColumnTerms, Terms
from dshap.records import BoolArray, FloatArray

__all__ = ["subset_sum_bytes", "subset_sums"]

SUM_ROWS = 256
"""Rows whose factors are held at once."""


def subset_sums(terms: Terms, columns: BoolArray, rows: FloatArray, r: int, dtype: Any) -> NDArray[Any]:
    """Σ over rows (n, c) of Π_S factors (m, r), of coalitions whose columns are (m, c); factors are of this dtype."""
    if isinstance(terms, ColumnTerms) and is_dense(*columns.shape):
        shared = SharedRows.of(rows)
        if is_worth_expanding(shared, len(columns), r):
            return shared_subset_sums(terms.factor, shared, columns, r)
    sums = SubsetSums(columns, r, dtype)
    for start in range(0, len(rows), SUM_ROWS):
        sums.add(rows_last(terms.factors(rows[start : start + SUM_ROWS])))
    return sums.total()


def subset_sum_bytes(n: int, n_columns: int, m: int, r: int, itemsize: int) -> int:
    """What the sums over n rows hold, their result not counted."""
    plain = itemsize * (min(n, SUM_ROWS) * r * (n_columns + 3) + sum_items(n_columns, m, r))
    if itemsize != 8 or not is_dense(m, n_columns):
        return plain
    return max(plain, 8 * shared_sum_items(n_columns, 1, r)) + shared_row_bytes(n, n_columns)
