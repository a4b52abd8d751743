"""Dask dataframes that are unchanged Parquet files, which tasks read in place."""

from __future__ import annotations

from typing import Any

LEAVES_OUT = ("filters", "_partitions", "_series")
"""Options of Dask's reading that leave out rows, or make a column of a table.  A selection of columns
is no such option: the reader of the files selects them."""


def plain_files_of(frame: Any) -> list[str] | None:
    """The files, in the order of its rows, of a Dask dataframe that is these files and nothing else.

    None for a frame that computes, filters or renames anything, and for files that Dask reads in
    another order or by another library.
    """
    try:
        read = frame.optimize(fuse=False).expr
        while type(read).__name__ == "Projection":  # columns in another order
            read = read.frame
        if type(read).__name__ != "ReadParquetFSSpec":
            return None
        asked = dict(zip(read._parameters, read.operands, strict=True))
        pieces = [part["piece"] for part in read._plan["parts"]]
        has_keys = bool(read._dataset_info["partition_keys"])
    except (AttributeError, KeyError, TypeError, ValueError):  # of another version of Dask
        return None
    is_part = has_keys or any(asked.get(name) for name in LEAVES_OUT)
    files = [str(file) for file, _, _ in pieces]
    # row groups of one file follow one another
    ordered = list(dict.fromkeys(files))
    runs = [file for place, file in enumerate(files) if place == 0 or files[place - 1] != file]
    if is_part or runs != ordered or "://" in "".join(ordered):
        return None
    return ordered
