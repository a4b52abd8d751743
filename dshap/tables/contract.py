"""The contract of a source: which columns and types may change, and one row a key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dshap.core.errors import InputError
from dshap.tables.census import hash_keys
from dshap.tables.columns import key_array, key_dtype
from dshap.tables.parquet import ParquetFiles, read_batches

EXAMPLES = 3
"""The number of keys that a message shows."""
_BATCH_ROWS = 65_536


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
    """Raise where a key is missing, or stands in several of the rows that were spooled."""
    files = ParquetFiles(folder)
    hashes = []
    missing: list[int] = []
    n_missing = 0
    n_rows = 0
    for batch in _key_batches(files, keys):
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
        positions = np.flatnonzero(is_missing)
        n_missing += len(positions)
        missing += (n_rows + positions[: EXAMPLES - len(missing)]).tolist()
        hashes.append(hash_keys(columns))
        n_rows += batch.num_rows
    if n_missing:
        rows = ", ".join(map(str, missing))
        raise InputError(
            f"[source] key {', '.join(keys)}: missing in {n_missing:,} of {n_rows:,} rows, for "
            f"example in row {rows}: leave these rows out, or name another key"
        )
    if hashes:
        _refuse_repeats(files, keys, np.concatenate(hashes))


def _refuse_repeats(
    files: ParquetFiles, keys: Sequence[str], hashes: np.ndarray[tuple[int], np.dtype[np.uint64]]
) -> None:
    in_order = np.sort(hashes)
    repeated = in_order[1:] == in_order[:-1]
    n_repeats = int(np.count_nonzero(repeated))
    if not n_repeats:
        return
    first = np.unique(in_order[1:][repeated])[:EXAMPLES]
    examples = []
    for each in first:
        positions = np.flatnonzero(hashes == each)
        examples.append(f"{_key_at(files, keys, int(positions[0]))} in {len(positions)} rows")
    raise InputError(
        f"[source] key {', '.join(keys)}: {n_repeats:,} of {len(hashes):,} rows repeat the key of "
        f"another row, for example {'; '.join(examples)}: keep one row a key, or name "
        "the columns that tell the rows apart"
    )


def _key_batches(files: ParquetFiles, keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for path in files.paths:
        with pq.ParquetFile(path) as file:
            n_rows = file.metadata.num_rows
            if n_rows:
                yield from read_batches(file, 0, n_rows, list(keys), _BATCH_ROWS)


def _key_at(files: ParquetFiles, keys: Sequence[str], position: int) -> str:
    """The key of a row as a message shows it."""
    start = 0
    for batch in _key_batches(files, keys):
        if position < start + batch.num_rows:
            values = [batch.column(name)[position - start].as_py() for name in keys]
            return ", ".join(f"{name} {value!r}" for name, value in zip(keys, values, strict=True))
        start += batch.num_rows
    raise IndexError(position)
