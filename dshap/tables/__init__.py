"""Tables: one opener, readers for each kind of rows, the census, categories and backgrounds."""

from dshap.core.rows import SPAN_ROWS
from dshap.tables.arrays import ArraySource, from_pandas
from dshap.tables.categories import refuse_unknown_categories
from dshap.tables.census import (
    Census,
    CensusPass,
    MissingValues,
    check_targets,
    hash_columns,
    hash_keys,
    missing_values,
    take_census,
)
from dshap.tables.columns import said_left_out
from dshap.tables.inputs import Inputs, open_for, times_of_data
from dshap.tables.opener import kind_of, open_rows, open_source
from dshap.tables.parquet import ParquetSource
from dshap.tables.spool import write_part
from dshap.tables.synthetic import SYNTHETIC_TABLES, SyntheticTable
from dshap.tables.texts import TextFiles, TextSource

__all__ = [
    "SPAN_ROWS",
    "SYNTHETIC_TABLES",
    "ArraySource",
    "Census",
    "CensusPass",
    "Inputs",
    "MissingValues",
    "ParquetSource",
    "SyntheticTable",
    "TextFiles",
    "TextSource",
    "check_targets",
    "from_pandas",
    "kind_of",
    "hash_columns",
    "hash_keys",
    "missing_values",
    "open_for",
    "open_rows",
    "open_source",
    "refuse_unknown_categories",
    "said_left_out",
    "take_census",
    "times_of_data",
    "write_part",
]
