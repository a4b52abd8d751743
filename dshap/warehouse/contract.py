"""The contract of a source: which columns and types may change, and that each key has one row."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.late import pa
from dshap.core.records import BoolArray
from dshap.tables.columns import key_array, key_dtype
from dshap.tables.keys.aligned import are_rising
from dshap.tables.keys.hashes import hash_keys
from dshap.tables.keys.repeated import leave_hashes, repeated_keys
from dshap.tables.parquet import ParquetFiles
from dshap.warehouse.column_types import is_number_type, is_read_alike

EXAMPLES = 3
"""The number of keys that a message shows."""
HASHED_ROWS = 1 << 18
"""The rows whose hashes are in one file, sorted in 10 MiB: a billion rows make four thousand
files."""


@dataclass(frozen=True)
class SchemaChanges:
    """The changes of columns that a job does not use: a run goes on, and reports them once."""

    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    """Column -> its types, like "int64 to string"."""

    def to_dict(self) -> dict[str, Any]:
        """The changes as the record of a run has them; empty if there are none."""
        changes = {"new": list(self.new), "gone": list(self.gone), "types": dict(self.types)}
        return {name: found for name, found in changes.items() if found}

    def warning(self) -> str:
        """The line about the changes; empty if there are none."""
        parts = _in_words(self.new, self.gone)
        parts += [f"{name!r} from {types}" for name, types in self.types.items()]
        if not parts:
            return ""
        return (
            "warning: [source] contract: columns that the job does not use differ from the run "
            f"before, {'; '.join(parts)}: the run goes on"
        )


@dataclass(frozen=True)
class UsedColumns:
    """The columns of a source that a job uses."""

    named: Collection[str] = ()
    """Columns that the job names: features, key, target, the column of freshness."""
    takes_numbers: bool = False
    """Whether [source] features is left out, so that every column of numbers is a feature."""

    def has(self, name: str, *types: str) -> bool:
        """Whether the job uses a column of these types."""
        return name in self.named or (self.takes_numbers and any(map(is_number_type, types)))


@dataclass(frozen=True)
class Contract:
    """The rules for changes of a source from one run to the next, for columns that the job uses."""

    columns: str = "freeze"
    """"freeze": no used column goes, and none comes that would be a feature; "evolve": they may."""
    types: str = "freeze"
    """"freeze": no used column changes its type, but for a wider one; "evolve": it may."""
    keys: str = "unique"
    """"unique": each key is in one row, and none is missing."""

    def check_schema(
        self, before: Mapping[str, str], now: Mapping[str, str], used: UsedColumns
    ) -> SchemaChanges:
        """Compare columns and types with those of the run before.

        Returns
        -------
        SchemaChanges
            The changes of columns that are not used, where the contract freezes them.

        Raises
        ------
        InputError
            A used column is gone or has another type, or a new one would be a feature.
        """
        new = [name for name in now if name not in before]
        gone = [name for name in before if name not in now]
        types = {
            name: f"{before[name]} to {now[name]}"
            for name in now
            if name in before and not is_read_alike(before[name], now[name])
        }
        # the author of the job has named a new column on purpose: it is no surprise
        unasked = [n for n in new if n not in used.named and used.has(n, now[n])]
        missed = [n for n in gone if used.has(n, before[n])]
        changed = [n for n in types if used.has(n, before[n], now[n])]
        if self.columns == "freeze" and (unasked or missed):
            raise InputError(
                "[source] contract: other columns than in the run before, "
                f"{'; '.join(_in_words(unasked, missed))}: {self._remedy(unasked)}, or accept them "
                "once with --set source.contract.columns=evolve"
            )
        if self.types == "freeze" and changed:
            said = ", ".join(f"{name!r} from {types[name]}" for name in changed)
            raise InputError(
                f"[source] contract: other types than in the run before, {said}: correct "
                "the source, or accept them once with --set source.contract.types=evolve"
            )
        found = SchemaChanges()
        if self.columns == "freeze":
            came = tuple(name for name in new if name not in used.named)
            found = replace(found, new=came, gone=tuple(gone))
        if self.types == "freeze":
            found = replace(found, types=types)
        return found

    def _remedy(self, unasked: Sequence[str]) -> str:
        """The remedy for columns that came or went, in words."""
        if unasked:
            return (
                "columns of numbers are features, as [source] features is left out: name the "
                "features, correct the source"
            )
        return "correct the source"


def _in_words(new: Collection[str], gone: Collection[str]) -> list[str]:
    """The columns that came and went, as parts of a sentence."""
    named = (("new", new), ("gone", gone))
    return [f"{word}: {', '.join(map(repr, names))}" for word, names in named if names]


def check_keys(folder: Path, keys: Sequence[str]) -> None:
    """Raise an error if a key is missing, or is in several of the rows that were spooled.

    The hashes of the keys are in the folder meanwhile, 16 bytes for each row.  Keys in increasing
    order need no hashes.
    """
    files = ParquetFiles(folder)
    if are_rising(_keys_without_missing(files, keys)):
        return
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
            "key, or name the columns that identify a row"
        )


def _keys_without_missing(
    files: ParquetFiles, keys: Sequence[str]
) -> Iterator[Mapping[str, NDArray[Any]]]:
    """The key columns of all rows, batch by batch; none of a batch in which a key is missing."""
    for batch in files.all_batches(keys):
        columns, is_missing = _keys_of(batch, keys)
        if is_missing.any():
            columns = {}
        yield columns


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
