"""The table of the kinds of tables that are read once, into Parquet parts.

A kind is a class on `reading_once.RowsReadOnce`, and a line of `READ_ONCE` with its place.  The
parameters of its constructor are keys of [source] in a job file.
"""

from __future__ import annotations

from collections.abc import Mapping

READ_ONCE: Mapping[str, str] = {
    "sql": "dshap.warehouse.database_rows:DatabaseRows",
    "csv": "dshap.warehouse.csv_files:CsvFiles",
}
"""Kind that a job file can name -> "package.module:name" of its class."""
