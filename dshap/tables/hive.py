"""Columns that stand in the names of folders: table/year=2012/month=5/part.parquet (Hive's partitions)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from dshap.errors import InputError
from dshap.tables.table import repeats

__all__ = ["Partitions", "find_partitions"]

NULL = "__HIVE_DEFAULT_PARTITION__"
LARGEST = 2**31 - 1
"""Of int32."""


@dataclass(frozen=True)
class Partitions:
    """The columns in the names of a table's folders, and their value in each file."""

    fields: tuple[pa.Field, ...] = ()
    values: tuple[Mapping[str, Any], ...] = ()
    """Of each file: column -> its value, None for __HIVE_DEFAULT_PARTITION__."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def schema(self, inside: pa.Schema) -> pa.Schema:
        """The columns of a file and those of its folders."""
        return pa.schema([*inside, *self.fields])

    def nulls(self, index: int, n_rows: int) -> dict[str, int | None]:
        """column -> its nulls in a file of so many rows."""
        return {name: n_rows if self.values[index][name] is None else 0 for name in self.names}

    def batch(self, index: int, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Rows of a file with those of these columns that its folders hold."""
        for field in self.fields:
            if field.name in names:
                value = pa.scalar(self.values[index][field.name], field.type)
                batch = batch.append_column(field, pa.repeat(value, batch.num_rows))
        return batch


def find_partitions(root: str, files: Sequence[str], inside: pa.Schema) -> Partitions:
    """The partitions of files (paths below `root`), without those that are columns `inside` the files.

    A folder "key=value" counts from the first folder of the table on, whichever part of it `root` is.  As in pyarrow's
    datasets a column is int32 where all its values are such numbers, else text; %-escapes are resolved, and
    ``__HIVE_DEFAULT_PARTITION__`` is null.

    Raises
    ------
    InputError
        Files below other keys than the first one, or values that are no text.
    """
    base = _base(root)
    paths = [os.path.join(root, name) for name in files]
    parts = [_parts(path, base) for path in paths]
    _check_same_keys(paths, [tuple(key for key, _ in own) for own in parts])
    columns = {name: [own[j][1] for own in parts] for j, (name, _) in enumerate(parts[0]) if name not in inside.names}
    arrays = {name: _typed(values) for name, values in columns.items()}
    fields = tuple(pa.field(name, array.type) for name, array in arrays.items())
    of_files = zip(*(array.to_pylist() for array in arrays.values()), strict=True)
    return Partitions(fields, tuple(dict(zip(arrays, values, strict=True)) for values in of_files))


def _typed(values: Sequence[str | None]) -> pa.Array:
    """The values of one key: int32 where all are, else text; null where there is none."""
    known = [value for value in values if value is not None]
    if known and all(re.fullmatch(r"-?[0-9]+", own) and -LARGEST <= int(own) + 1 <= LARGEST + 1 for own in known):
        return pa.array([None if value is None else int(value) for value in values], pa.int32())
    return pa.array(values, pa.string() if known else pa.null())


def _base(root: str) -> str:
    """The folder of the table: above the partitions that `root` lies in."""
    while "=" in os.path.basename(root):
        root = os.path.dirname(root)
    return root


def _parts(path: str, base: str) -> list[tuple[str, str | None]]:
    """(key, value) of the folders of a path below `base`, from above."""
    folders = [part.partition("=") for part in os.path.relpath(path, base).split(os.sep)[:-1] if part.find("=") > 0]
    try:
        return [
            (unquote(key, errors="strict"), None if value == NULL else unquote(value, errors="strict"))
            for key, _, value in folders
        ]
    except UnicodeDecodeError:
        raise InputError(f"{path} lies below a %-escape that is no UTF-8: rename this folder") from None


def _check_same_keys(paths: Sequence[str], keys: Sequence[tuple[str, ...]]) -> None:
    for path, own in zip(paths, keys, strict=True):
        if own != keys[0]:
            raise InputError(
                f"{path} lies in {_said(own)}, and {paths[0]} in {_said(keys[0])}: give files below the same keys, "
                "in the same order"
            )
    if twice := repeats(keys[0]):
        raise InputError(f"{paths[0]} lies below the key {twice[0]!r} twice: rename one of these folders")


def _said(keys: Sequence[str]) -> str:
    return f"the partitions {', '.join(keys)}" if keys else "no partition"
