"""The census: one pass over the rows before planning, which counts and digests them.

The pass finds the values that cannot be explained.  It digests the used columns in spans of fixed
size, so that the fingerprint of the data depends on the rows and their order alone, never on files,
row groups or blocks.  `missing_values` looks at few rows only, for a printed plan.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import RowBlock
from dshap.core.errors import InputError
from dshap.core.fixed_words import MissingRule
from dshap.core.records import JSON, FloatArray
from dshap.core.types import RowReader
from dshap.tables.columns import null_key_refusal
from dshap.tables.keys.hashes import hash_keys
from dshap.tables.keys.repeated import key_of_row, leave_hashes, repeated_keys
from dshap.tables.reader import BATCH_ROWS
from dshap.tables.site import Site

SHOWN_COLUMNS = 8
"""Largest number of columns that a message names."""
LOOKS = 4
"""Number of batches that are read before a plan, evenly spread: about 10 ms of work."""


@dataclass(frozen=True)
class Census:
    """Counts, ranges and a digest of the rows of a table, from one pass over them.

    A run takes the census before it plans: it finds values that cannot be explained, and columns
    that are the same in every row.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.sources import ArraySource, CensusPass
    >>> source = ArraySource(np.array([[1.0, 5.0], [2.0, np.nan], [3.0, 5.0]]), missing="skip")
    >>> counting = CensusPass(source.feature_names)
    >>> census = counting.finish(counting.partial(source.read(0, 3)))
    >>> census.n_rows, census.n_bad, dict(census.bad)
    (3, 1, {'x1': 1})
    >>> census.low, census.high
    ((1.0, 5.0), (3.0, 5.0))
    """

    n_rows: int
    n_bad: int
    """Rows with NaN or infinity in a feature, for any value of `missing`."""
    n_bad_targets: int
    """Rows whose target is NaN or infinite; they are explained, but not fitted on."""
    bad: Mapping[str, int]
    """feature -> number of values that are NaN or infinite; only features that have some."""
    null_keys: Mapping[str, int]
    """key column -> number of rows without a key; only columns that have some."""
    low: tuple[float, ...]
    """(columns,) smallest finite value; infinity if there is none."""
    high: tuple[float, ...]
    """(columns,) largest finite value; minus infinity if there is none."""
    fingerprint: str
    """blake2b over the fingerprints of the spans, in order.

    The fingerprint of a span is its bounds and the digest of its rows.
    """

    def constant_columns(self, reader: RowReader) -> tuple[str, ...]:
        """The features that have the same finite value in every row."""
        spans = zip(reader.feature_names, self.low, self.high, strict=True)
        return tuple(name for name, low, high in spans if low == high and name not in self.bad)

    def raise_on_bad(self, reader: RowReader, takes_nan: bool = True) -> None:
        """Raise if the rows cannot be explained under the `missing` policy of their reader.

        Raises
        ------
        InputError
            A row has no key; with "refuse", a row has NaN or infinity; with "skip", every row
            does.
        """
        if self.null_keys:
            raise InputError(null_key_refusal(self.null_keys))
        if reader.missing == "pass" or not self.n_bad:
            return
        found = f"{_rows(self.n_bad)} NaN or infinity: {_counts(self.bad)}"
        if self.n_bad == self.n_rows:
            raise InputError(
                f"{found}, and there is no other row to explain: fill these columns or take them "
                "out of features"
            )
        if reader.missing == "refuse":
            if takes_nan:
                passed = ', or "pass" where the model itself takes NaN'
            else:
                passed = ""
            raise InputError(f'{found}; set missing = "skip" to leave these rows out{passed}')


def _rows(count: int, one: str = "contains", several: str = "contain") -> str:
    if count == 1:
        return f"1 row {one}"
    return f"{count} rows {several}"


def _counts(counts: Mapping[str, int]) -> str:
    """Counts as text, the largest first: "temp 9, hum 3"."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {count}" for name, count in ordered[:SHOWN_COLUMNS])
    return shown + (
        f" and {len(ordered) - SHOWN_COLUMNS} more columns" if len(ordered) > SHOWN_COLUMNS else ""
    )


@dataclass(frozen=True)
class CensusPass:
    """The pass that counts and digests the rows of a table.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.sources import ArraySource, CensusPass
    >>> source = ArraySource(np.arange(6.0).reshape(3, 2))
    >>> counting = CensusPass(source.feature_names)
    >>> spans = counting.partial(source.read(0, 2)) + counting.partial(source.read(2, 3))
    >>> counting.finish(spans).n_rows
    3
    """

    feature_names: tuple[str, ...]
    keys: Path | None = None
    """The folder where the hashes of the keys are left for `repeated_keys`."""
    wants = ("keys", "target")

    def partial(self, block: RowBlock) -> tuple[Census]:
        """The census of one span, in a tuple."""
        if self.keys is not None:
            leave_hashes(self.keys, block.start, hash_keys(block.keys))
        numbers = _Numbers.of(block.x)
        census = Census(
            n_rows=len(block.x),
            n_bad=numbers.n_bad_rows,
            n_bad_targets=_bad_targets(block.target),
            bad={
                name: int(count)
                for name, count in zip(self.feature_names, numbers.n_bad, strict=True)
                if count
            },
            null_keys={
                name: int(np.count_nonzero(is_null)) for name, is_null in block.null_keys.items()
            },
            low=tuple(numbers.low.tolist()),
            high=tuple(numbers.high.tolist()),
            fingerprint=f"{block.start}:{block.stop}:{_hashed(_pieces(block))};",
        )
        return (census,)

    def finish(self, total: tuple[Census, ...]) -> Census:
        """The census of the table, from those of its spans in order."""
        return Census(
            n_rows=sum(span.n_rows for span in total),
            n_bad=sum(span.n_bad for span in total),
            n_bad_targets=sum(span.n_bad_targets for span in total),
            bad=_added(span.bad for span in total),
            null_keys=_added(span.null_keys for span in total),
            low=tuple(np.min([span.low for span in total], axis=0).tolist()),
            high=tuple(np.max([span.high for span in total], axis=0).tolist()),
            fingerprint=_hashed(span.fingerprint.encode() for span in total),
        )


@dataclass(frozen=True)
class _Numbers:
    """Counts and ranges of the numbers of a span."""

    n_bad_rows: int
    n_bad: NDArray[np.intp]
    """(columns,): the number of values that are NaN or infinite."""
    low: FloatArray
    high: FloatArray
    """(columns,): the smallest and the largest finite value."""

    @classmethod
    def of(cls, x: FloatArray) -> _Numbers:
        """Count rows (n, columns)."""
        is_finite = np.isfinite(x)
        if is_finite.all():  # reductions of chosen values take ten times as long
            low = x.min(axis=0, initial=np.inf)
            return cls(0, np.zeros(x.shape[1], np.intp), low, x.max(axis=0, initial=-np.inf))
        return cls(
            int(np.count_nonzero(~is_finite.all(axis=1))),
            len(x) - np.count_nonzero(is_finite, axis=0),
            x.min(axis=0, where=is_finite, initial=np.inf),
            x.max(axis=0, where=is_finite, initial=-np.inf),
        )


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return dict(sum(map(Counter, counts), Counter()))


def _bad_targets(target: FloatArray | None) -> int:
    if target is None:
        return 0
    return int(np.count_nonzero(~np.isfinite(target.reshape(len(target), -1)).all(axis=1)))


def _hashed(pieces: Iterable[bytes | memoryview]) -> str:
    """The blake2b digest of the pieces, one after the other."""
    hasher = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        hasher.update(piece)
    return hasher.hexdigest()


def _pieces(block: RowBlock) -> Iterator[bytes | memoryview]:
    """The bytes of features, target and keys, column by column in little-endian order.

    Features and target begin with their shapes.  All NaN values count as one.
    """
    if block.target is None:
        target = np.empty((len(block.x), 0))
    else:
        target = block.target.reshape(len(block.x), -1)
    for part, array in (("features", block.x), ("target", target)):
        yield f"{part}:{array.shape};".encode()
        yield from _columns(array)
    for values in block.keys.values():
        yield from _key_bytes(values)


def _columns(array: FloatArray) -> Iterator[memoryview]:
    """The bytes of each column of an array (n, columns); all NaN values are the same bytes."""
    columns = np.ascontiguousarray(array.T, "<f8")
    is_nan = np.isnan(columns)
    if is_nan.any():
        columns = np.where(is_nan, np.nan, columns)
    for column in columns:
        yield column.data


def _key_bytes(values: NDArray[Any]) -> tuple[bytes, ...]:
    """The bytes of a key column, distinct for each column: its kind, then integers, or text.

    Text comes as its lengths and its characters.
    """
    if values.dtype.kind == "T":
        text = "".join(values.tolist()).encode()
        return b"text:", np.strings.str_len(values).astype("<i8").tobytes(), text
    return f"{values.dtype.kind}:".encode(), values.astype("<i8").tobytes()


def take_census(
    reader: RowReader, site: Site, *, takes_nan: bool = True, has_unique_keys: bool = False
) -> Census:
    """Take the census in one pass over the rows; refuse bad values and repeated keys.

    Bad values are refused by the reader's `missing` policy.  With `takes_nan` False the message
    does not propose to pass NaN to the model.  Keys that are known to be unique are not looked at.

    Raises
    ------
    InputError
        States what is bad, how much of it, and what to do.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.run.session import open_session
    >>> from dshap.sources import ArraySource, take_census
    >>> source = ArraySource(np.array([[1.0, 5.0], [2.0, np.nan], [3.0, 5.0]]), missing="skip")
    >>> with open_session(None, None, False, {}) as (_, session):
    ...     census = take_census(source, session)
    >>> census.n_rows, census.n_bad, census.high
    (3, 1, (3.0, 5.0))
    """
    if reader.key_names and not has_unique_keys:
        keys = site.folder("keys")
    else:
        keys = None
    census: Census = site.learn(CensusPass(tuple(reader.feature_names), keys), reader)
    census.raise_on_bad(reader, takes_nan)
    if keys is not None:
        found = repeated_keys(keys, functools.partial(key_of_row, reader))
        if found.n_rows:
            raise InputError(
                f"{_rows(found.n_rows, 'repeats', 'repeat')} the key of an earlier row, for example "
                f"{_examples(reader, found.positions)}: give a key that names each row once, or none"
            )
    return census


def _examples(reader: RowReader, positions: Sequence[int]) -> str:
    shown = []
    for position in positions[:3]:
        keys = reader.read(position, position + 1, keys=True).keys
        shown.append(
            " ".join(f"{name}={values[0]}" for name, values in keys.items()) + f" (row {position})"
        )
    return ", ".join(shown)


def check_targets(census: Census, missing: MissingRule) -> None:
    """Refuse rows without a finite target, unless `missing` is not "refuse".

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.sources import ArraySource, CensusPass, check_targets
    >>> source = ArraySource(np.ones((2, 1)), target=np.array([1.0, np.nan]))
    >>> counting = CensusPass(source.feature_names)
    >>> census = counting.finish(counting.partial(source.read(0, 2, target=True)))
    >>> check_targets(census, missing="skip")
    >>> census.n_bad_targets
    1
    """
    if missing == "refuse" and census.n_bad_targets:
        raise InputError(
            f"{census.n_bad_targets} rows have no finite target: drop them, or fit with missing = "
            '"skip"'
        )


@dataclass(frozen=True)
class MissingValues:
    """The missing values of a table, as far as files and a few rows show.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.sources import ArraySource, missing_values
    >>> x = np.array([[1.0, 5.0], [2.0, np.nan], [3.0, np.nan]])
    >>> found = missing_values(ArraySource(x, feature_names=["age", "income"], missing="skip"))
    >>> type(found).__name__, found.rows_seen, dict(found.seen)
    ('MissingValues', 3, {'income': 2})
    >>> "such rows are skipped" in str(found)
    True
    """

    n_rows: int
    nulls: Mapping[str, int]
    """column -> nulls in the whole table, by the statistics of its files; columns that have any."""
    uncounted: tuple[str, ...]
    """Columns whose nulls the files do not count."""
    seen: Mapping[str, int]
    """Other column -> values that are null, NaN or infinite in the rows that were looked at."""
    rows_seen: int
    missing: MissingRule
    """The `missing` policy of the reader: what happens to such rows."""

    def __str__(self) -> str:
        if self.rows_seen == self.n_rows:
            rows = "all rows"
        else:
            rows = f"{self.rows_seen:,} of {self.n_rows:,} rows looked at"
        nulls = _counted(self.nulls)
        seen = _counted(self.seen)
        said = [f"nulls: {nulls or 'none'}"]
        said += [f"not counted by the files: {', '.join(self.uncounted)}"] if self.uncounted else []
        said += [
            f"NaN or infinity{' in other columns' if nulls else ''}: {seen or 'none'} in {rows}"
        ]
        says = {
            "refuse": "a run refuses such rows",
            "skip": "such rows are skipped",
            "pass": "they go to the model",
        }
        if nulls or seen:
            said += [f'missing = "{self.missing}": {says[self.missing]}']
        return "; ".join(said)

    def to_dict(self) -> dict[str, JSON]:
        return {
            "nulls": dict(self.nulls),
            "nulls_not_counted": list(self.uncounted),
            "not_finite": dict(self.seen),
            "rows_looked_at": self.rows_seen,
        }


def missing_values(reader: RowReader) -> MissingValues:
    """Count nulls by the statistics of the files, and NaN in a few batches of rows.

    The statistics cover all rows but do not count NaN.  Small tables are looked at as a whole.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.sources import ArraySource, missing_values
    >>> x = np.array([[1.0, 5.0], [2.0, np.nan], [3.0, np.nan]])
    >>> found = missing_values(ArraySource(x, feature_names=["age", "income"], missing="skip"))
    >>> found.to_dict()["not_finite"]
    {'income': 2}
    """
    nulls = {name: count for name, count in reader.null_counts.items() if count}
    seen: Counter[str] = Counter()
    starts = range(0, reader.n_rows, max(BATCH_ROWS, -(-reader.n_rows // LOOKS)))
    spans = [(start, min(start + BATCH_ROWS, reader.n_rows)) for start in starts]
    for start, stop in spans:
        seen.update(_not_finite(reader, start, stop))
    others = {name: count for name, count in seen.items() if count and name not in nulls}
    uncounted = tuple(name for name, count in reader.null_counts.items() if count is None)
    rows_seen = sum(stop - start for start, stop in spans)
    return MissingValues(reader.n_rows, nulls, uncounted, others, rows_seen, reader.missing)


def _not_finite(reader: RowReader, start: int, stop: int) -> dict[str, int]:
    """column -> number of null, NaN or infinite values in these rows, of features and target."""
    block = reader.read(start, stop, target=reader.has_target)
    parts = [(reader.feature_names, block.x)]
    if block.target is not None:
        parts.append((reader.target_names, block.target.reshape(len(block.x), -1)))
    return {
        name: int(count)
        for names, values in parts
        for name, count in zip(names, np.count_nonzero(~np.isfinite(values), axis=0), strict=True)
    }


def _counted(counts: Mapping[str, int]) -> str:
    """Counts as text, the largest first: "age 861,412, hum 3"."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {count:,}" for name, count in ordered)
