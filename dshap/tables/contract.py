"""The contract of a source: which columns and types may change, and one row a key."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.records import BoolArray
from dshap.tables.columns import key_array, key_dtype
from dshap.tables.key_hashes import hash_keys
from dshap.tables.parquet import ParquetFiles
from dshap.tables.repeated_keys import leave_hashes, repeated_keys

EXAMPLES = 3
"""The number of keys that a message shows."""
HASHED_ROWS = 1 << 18
"""The rows whose hashes lie in one file, sorted in 10 MiB: a billion rows make four thousand files."""


@dataclass(frozen=True)
class Contract:
    """The promises of a source from one run to the next."""

    columns: str = "freeze"
    """"freeze": no column comes or goes; "evolve": those that are not used may."""
    types: str = "freeze"
    """"freeze": no column changes its type; "evolve": it may."""
    keys: str = "unique"
    """"unique": each key stands in one row, and none is missing."""

    def check_schema(self, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        """Raise where columns or types are no longer those of the run before."""
        came = [name for name in now if name not in before]
        went = [name for name in before if name not in now]
        changed = [
            f"{name!r} from {before[name]} to {now[name]}"
            for name in now
            if name in before and before[name] != now[name]
        ]
        moved = [
            f"{word}: {', '.join(map(repr, names))}"
            for word, names in (("new", came), ("gone", went))
            if names
        ]
        if self.columns == "freeze" and moved:
            raise InputError(
                f"[source] contract: other columns than in the run before, {'; '.join(moved)}: mend "
                "the source, or take them once with --set source.contract.columns=evolve"
            )
        if self.types == "freeze" and changed:
            raise InputError(
                f"[source] contract: other types than in the run before, {', '.join(changed)}: mend "
                "the source, or take them once with --set source.contract.types=evolve"
            )


def check_keys(folder: Path, keys: Sequence[str]) -> None:
    """Raise where a key is missing, or stands in several of the rows that were spooled.

    The hashes of the keys lie in the folder meanwhile, 16 bytes a row.
    """
    files = ParquetFiles(folder)
    with tempfile.TemporaryDirectory(prefix=".keys-", dir=folder) as name:
        missing = _hash_all(files, keys, Path(name))
        missing.refuse(keys, files.count_rows())
        found = repeated_keys(Path(name), functools.partial(files.row, names=keys))
    if found.n_rows:
        examples = [
            f"{_shown(keys, files.row(each.position, keys))} in {each.n_rows:,} rows"
            for each in found.keys[:EXAMPLES]
        ]
        raise InputError(
            f"[source] key {', '.join(keys)}: {found.n_rows:,} of {files.count_rows():,} rows "
            f"repeat the key of another row, for example {'; '.join(examples)}: keep one row a "
            "key, or name the columns that tell the rows apart"
        )


@dataclass
class _Missing:
    """The rows without a key: their number, and the positions of a few."""

    n_rows: int = 0
    positions: list[int] = field(default_factory=list)

    def add(self, start: int, is_missing: BoolArray) -> None:
        """Count rows (n,), the first of which is at `start`."""
        positions = np.flatnonzero(is_missing)
        self.n_rows += len(positions)
        self.positions += (start + positions[: EXAMPLES - len(self.positions)]).tolist()

    def refuse(self, keys: Sequence[str], n_rows: int) -> None:
        """Raise an `InputError` if there are such rows."""
        if self.n_rows:
            raise InputError(
                f"[source] key {', '.join(keys)}: missing in {self.n_rows:,} of {n_rows:,} rows, "
                f"for example in row {', '.join(map(str, self.positions))}: leave these rows out, "
                "or name another key"
            )


def _hash_all(files: ParquetFiles, keys: Sequence[str], folder: Path) -> _Missing:
    """Write the hashes of all keys into a folder, and count the rows that have none."""
    missing = _Missing()
    held: list[NDArray[np.uint64]] = []
    start = 0
    n_held = 0
    for batch in files.all_batches(keys):
        columns, is_missing = _keys_of(batch, keys)
        missing.add(start + n_held, is_missing)
        held.append(hash_keys(columns))
        n_held += batch.num_rows
        if n_held >= HASHED_ROWS:
            leave_hashes(folder, start, np.concatenate(held))
            start += n_held
            n_held = 0
            held = []
    if held:
        leave_hashes(folder, start, np.concatenate(held))
    return missing


def _keys_of(
    batch: pa.RecordBatch, keys: Sequence[str]
) -> tuple[dict[str, NDArray[Any]], BoolArray]:
    """Key column -> keys (n,), and whether one of them is missing (n,)."""
    columns = {}
    is_missing = np.zeros(batch.num_rows, bool)
    for name in keys:
        kind = key_dtype(batch.schema.field(name).type)
        if kind is None:
            raise InputError(
                f"key {name!r} is {batch.schema.field(name).type}: a key is a whole number, "
                "text, a date or a time; cast it at the source"
            )
        columns[name], is_null = key_array(batch.column(name), name, kind)
        if is_null is not None:
            is_missing |= is_null
    return columns, is_missing


def _shown(keys: Sequence[str], values: Sequence[Any]) -> str:
    """The key of a row as a message shows it."""
    return ", ".join(f"{name} {value!r}" for name, value in zip(keys, values, strict=True))
