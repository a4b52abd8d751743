"""Tables to open by hand: readers, what they read, and their census (the public name of `dshap.tables`)."""

from __future__ import annotations

from dshap.tables import (
    SPAN_ROWS,
    SYNTHETIC_TABLES,
    ArraySource,
    Census,
    MissingValues,
    ParquetSource,
    SpanCensus,
    SyntheticTable,
    TableBlock,
    census_span,
    frame_of_arrow,
    from_pandas,
    merge_census,
    missing_values,
    open_source,
    repeated_keys,
    said_left_out,
    write_part,
)

__all__ = [
    "SPAN_ROWS",
    "SYNTHETIC_TABLES",
    "ArraySource",
    "Census",
    "MissingValues",
    "ParquetSource",
    "SpanCensus",
    "SyntheticTable",
    "TableBlock",
    "census_span",
    "frame_of_arrow",
    "from_pandas",
    "merge_census",
    "missing_values",
    "open_source",
    "repeated_keys",
    "said_left_out",
    "write_part",
]
