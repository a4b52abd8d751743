"""Tables: one opener, readers for each kind of rows, the census, categories and backgrounds."""

from typing import Any

from dshap.core.rows import SPAN_ROWS
from dshap.tables.arrays import ArraySource, from_pandas
from dshap.tables.categories import refuse_unknown_categories
from dshap.tables.census import (
    Census,
    CensusPass,
    MissingValues,
    check_targets,
    missing_values,
    take_census,
)
from dshap.tables.columns import said_left_out
from dshap.tables.inputs import Inputs, open_data, open_for, read_data
from dshap.tables.keys.hashes import (
    NumberedKeys,
    WideHashes,
    hash_columns,
    hash_keys,
    number_keys,
    wide_hashes,
)
from dshap.tables.memory_to_parts import write_part
from dshap.tables.opener import open_rows, open_source
from dshap.tables.parquet import ParquetSource as ParquetSource
from dshap.tables.sources import READERS, kind_of, reader_class
from dshap.tables.synthetic import SYNTHETIC_TABLES
from dshap.tables.synthetic import SyntheticTable as SyntheticTable
from dshap.tables.texts import TextFiles as TextFiles
from dshap.tables.texts import TextSource

__all__ = [
    "SPAN_ROWS",
    "SYNTHETIC_TABLES",
    "ArraySource",
    "Census",
    "CensusPass",
    "Inputs",
    "MissingValues",
    "NumberedKeys",
    "TextSource",
    "WideHashes",
    "check_targets",
    "from_pandas",
    "kind_of",
    "hash_columns",
    "hash_keys",
    "missing_values",
    "number_keys",
    "open_data",
    "open_for",
    "open_rows",
    "open_source",
    "refuse_unknown_categories",
    "said_left_out",
    "take_census",
    "read_data",
    "wide_hashes",
    "write_part",
    *(place.rpartition(":")[2] for place in READERS.values()),
]


def __getattr__(name: str) -> Any:
    """The class of a reader in the table of kinds, by its name."""
    for place in READERS.values():
        if place.endswith(f":{name}"):
            return reader_class(place)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
