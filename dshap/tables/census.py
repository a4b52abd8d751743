"""The census: one pass over the rows, before anything is planned.

It counts, finds the values that cannot be explained, and digests the used columns in spans of fixed size, so that the
data's fingerprint depends on the rows and their order alone, never on files, row groups or blocks.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.blocks import RowBlock
from dshap.errors import InputError
from dshap.records import BoolArray, FloatArray
from dshap.tables.keys import repeated_keys, save_key_hashes
from dshap.tables.layout import null_key_refusal
from dshap.tables.opener import Site
from dshap.types import RowReader

__all__ = ["Census", "SpanCensus", "census_span", "check_targets", "merge_census", "take_census"]

SHOWN_COLUMNS = 8
"""Columns that a message names."""


@dataclass(frozen=True)
class _Counts:
    """What rows hold."""

    n_rows: int
    n_bad: int
    """Rows with NaN or infinity in a feature, whatever `missing` says."""
    n_bad_targets: int
    """Rows whose target is NaN or infinite: explained, but not fitted on."""
    bad: Mapping[str, int]
    """feature -> values that are NaN or infinite, where there are any."""
    null_keys: Mapping[str, int]
    """key column -> rows without a key, where there are any."""
    low: tuple[float, ...]
    """(columns,) smallest finite value, infinity where there is none."""
    high: tuple[float, ...]
    """(columns,) largest finite value, minus infinity where there is none."""


@dataclass(frozen=True)
class SpanCensus(_Counts):
    """What one span of rows holds."""

    start: int
    stop: int
    digest: str
    """blake2b of the features, the keys and the target; every NaN counts as one value."""


@dataclass(frozen=True)
class Census(_Counts):
    """What the whole table holds."""

    fingerprint: str
    """blake2b over the digests of the spans, in order."""

    def constant_columns(self, reader: RowReader) -> tuple[str, ...]:
        """The features that hold one finite value in every row."""
        spans = zip(reader.feature_names, self.low, self.high, strict=True)
        return tuple(name for name, low, high in spans if low == high and name not in self.bad)

    def raise_on_bad(self, reader: RowReader, takes_nan: bool = True) -> None:
        """Raise where the rows cannot be explained under the policy of their reader.

        Raises
        ------
        InputError
            A row without a key; with "refuse" a row that holds NaN or infinity; with "skip" no row without.
        """
        if self.null_keys:
            raise InputError(null_key_refusal(self.null_keys))
        if reader.missing == "pass" or not self.n_bad:
            return
        found = f"{_rows(self.n_bad)} NaN or infinity: {_counts(self.bad)}"
        if self.n_bad == self.n_rows:
            raise InputError(
                f"{found}, and there is no other row to explain: fill these columns or take them out of features"
            )
        if reader.missing == "refuse":
            passed = ', or "pass" for a black-box model that takes NaN' if takes_nan else ""
            raise InputError(f'{found}; set missing = "skip" to leave these rows out{passed}')


def _rows(count: int) -> str:
    return "1 row holds" if count == 1 else f"{count} rows hold"


def _counts(counts: Mapping[str, int]) -> str:
    """ "temp 9, hum 3", the largest first."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {count}" for name, count in ordered[:SHOWN_COLUMNS])
    return shown + (f" and {len(ordered) - SHOWN_COLUMNS} more columns" if len(ordered) > SHOWN_COLUMNS else "")


def census_span(reader: RowReader, start: int, stop: int, key_directory: str | Path | None = None) -> SpanCensus:
    """Count and digest the rows start..stop; reads them once.

    Parameters
    ----------
    reader : RowReader
        Its target is counted and digested where it says `has_target`.
    key_directory : path, optional
        Where the hashes of the keys are left for `repeated_keys`.
    """
    block = reader.read(start, stop, keys=bool(reader.key_names), target=reader.has_target)
    is_finite = np.isfinite(block.x)  # (n, columns)
    if key_directory is not None and block.keys:
        save_key_hashes(key_directory, start, block.keys)
    n_bad = np.count_nonzero(~is_finite, axis=0)  # (columns,)
    return SpanCensus(
        start=start,
        stop=stop,
        n_rows=len(block.x),
        n_bad=int(np.count_nonzero(~is_finite.all(axis=1))),
        n_bad_targets=_bad_targets(block.target),
        bad={name: int(count) for name, count in zip(reader.feature_names, n_bad, strict=True) if count},
        null_keys={name: int(np.count_nonzero(is_null)) for name, is_null in _null_keys(block).items()},
        low=tuple(np.min(block.x, axis=0, where=is_finite, initial=np.inf).tolist()),
        high=tuple(np.max(block.x, axis=0, where=is_finite, initial=-np.inf).tolist()),
        digest=_digest(block),
    )


def _null_keys(block: RowBlock) -> Mapping[str, BoolArray]:
    """Where keys are missing; readers of other parts do not mark it."""
    return getattr(block, "null_keys", {})


def _bad_targets(target: FloatArray | None) -> int:
    return 0 if target is None else int(np.count_nonzero(~np.isfinite(target.reshape(len(target), -1)).all(axis=1)))


def _digest(block: RowBlock) -> str:
    """blake2b of every column as little-endian values, one after the other, each part under its shape."""
    hasher = hashlib.blake2b(digest_size=16)
    target = np.empty((len(block.x), 0)) if block.target is None else block.target.reshape(len(block.x), -1)
    for part, array in (("features", block.x), ("target", target)):
        hasher.update(f"{part}:{array.shape};".encode())
        for column in array.T:
            hasher.update(np.where(np.isnan(column), np.nan, column).astype("<f8", copy=False).tobytes())
    for values in block.keys.values():
        for piece in _key_bytes(values):
            hasher.update(piece)
    return hasher.hexdigest()


def _key_bytes(values: NDArray[Any]) -> tuple[bytes, ...]:
    """One key column in a form that no other column has: its kind, then integers, or lengths and text."""
    if values.dtype.kind == "T":
        text = "".join(values.tolist()).encode()
        return b"text:", np.strings.str_len(values).astype("<i8").tobytes(), text
    return f"{values.dtype.kind}:".encode(), values.astype("<i8").tobytes()


def merge_census(spans: Iterable[SpanCensus]) -> Census:
    """The census of the table from those of its spans, in any order; they must follow one another from row 0."""
    ordered = sorted(spans, key=lambda span: span.start)
    _check_complete(ordered)
    hasher = hashlib.blake2b(digest_size=16)
    for span in ordered:
        hasher.update(f"{span.start}:{span.stop}:{span.digest};".encode())
    return Census(
        n_rows=ordered[-1].stop,
        n_bad=sum(span.n_bad for span in ordered),
        n_bad_targets=sum(span.n_bad_targets for span in ordered),
        bad=dict(sum((Counter(span.bad) for span in ordered), Counter())),
        null_keys=dict(sum((Counter(span.null_keys) for span in ordered), Counter())),
        low=tuple(np.min([span.low for span in ordered], axis=0).tolist()),
        high=tuple(np.max([span.high for span in ordered], axis=0).tolist()),
        fingerprint=hasher.hexdigest(),
    )


def _check_complete(ordered: Sequence[SpanCensus]) -> None:
    expected = 0
    for span in ordered:
        if span.start != expected:
            raise ValueError(f"spans must follow one another: expected one from row {expected}, got row {span.start}")
        expected = span.stop
    if not ordered:
        raise ValueError("a census of no spans: take at least one")


def take_census(reader: RowReader, site: Site, *, takes_nan: bool = True) -> Census:
    """One pass over the rows: counts, digests; refuses bad values by the reader's policy, and repeated keys.

    Where nothing `takes_nan`, the refusal does not propose to let it pass.

    Raises
    ------
    InputError
        What is bad, how much of it, and what to do.
    """
    keys = site.folder("keys") if reader.key_names else None
    spans = site.each_span(_span_census, reader.n_rows, reader, keys)
    census = merge_census(spans)
    census.raise_on_bad(reader, takes_nan)
    if keys is not None:
        n_repeated, positions = repeated_keys(keys, spans)
        if n_repeated:
            raise InputError(
                f"{n_repeated} rows repeat the key of an earlier row, for example {_examples(reader, positions)}: "
                "give a key that names each row once, or none"
            )
    return census


def _span_census(start: int, stop: int, reader: RowReader, keys: Path | None) -> SpanCensus:
    return census_span(reader, start, stop, keys)


def _examples(reader: RowReader, positions: Sequence[int]) -> str:
    shown = []
    for position in positions[:3]:
        keys = reader.read(position, position + 1, keys=True).keys
        shown.append(" ".join(f"{name}={values[0]}" for name, values in keys.items()) + f" (row {position})")
    return ", ".join(shown)


def check_targets(census: Census, missing: str) -> None:
    """Refuse rows that cannot be fitted on, unless they are to be skipped."""
    if missing == "refuse" and census.n_bad_targets:
        raise InputError(f'{census.n_bad_targets} rows have no finite target: drop them, or fit with missing = "skip"')
