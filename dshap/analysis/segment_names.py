"""The names of segments: a column, or a column with a number of bins."""

from __future__ import annotations

import re
from collections.abc import Collection

IN_BINS = re.compile(r"(.+):(\d+)")
"""A column and the number of its bins, such as "age:5"."""


def column_of_segment(segment: str, columns: Collection[str]) -> str:
    """The column of a segment: "age" of "age:5", unless a column has that very name.

    Examples
    --------
    >>> import dshap
    >>> dshap.report.column_of_segment("age:5", ["age", "income"])
    'age'
    """
    in_bins = IN_BINS.fullmatch(str(segment))
    if in_bins is None or segment in columns:
        return segment
    return in_bins[1]
