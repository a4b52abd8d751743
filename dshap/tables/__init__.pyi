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
from dshap.tables.delta import DeltaSource
from dshap.tables.iceberg import IcebergSource
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
from dshap.tables.parquet import ParquetSource
from dshap.tables.sources import kind_of
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
    "DeltaSource",
    "IcebergSource",
    "ParquetSource",
    "SyntheticTable",
    "TextFiles",
]
