"""Compare the rows of a table with the rows of a store by their keys, in bounded memory.

For the store and for the table, files have a hash of each row's key and a mark of its content; they
are joined on disk (`tables/keys/joining.py`).  The mark is a hash of the columns that the cube
stores, or the model's predictions if it stores none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import RowBlock
from dshap.core.errors import PredictError
from dshap.core.places import Place
from dshap.core.records import FloatArray
from dshap.core.types import Explained, RowReader
from dshap.cube import FinishedBlock, cube_paths, finished_blocks, row_key
from dshap.cube.datasets import key_text, key_words
from dshap.run.probes import differ
from dshap.tables import WideHashes, hash_columns, wide_hashes
from dshap.tables.keys.joining import HashedRows, joined_parts, leave_hashed
from dshap.tables.site import Site

SHOWN = 3
"""The most keys of each kind that a message names."""
JOINED_ROWS = 2_750_000
"""The number of rows, of both sides together, that are joined at a time; they take some 220 MB."""
PREDICTED_ROWS = 200_000
"""The most rows that are predicted for a message.  With more rows, contents are compared only if
the cube stores its rows."""
PREDICTED_OUTPUTS = 4
"""The number of outputs by which predictions of a row are compared."""

Marks = NDArray[np.uint64]
"""(n, w): hashes, or the bits of predictions, that identify the content of rows; w = 0 for none."""


@dataclass(frozen=True)
class RowsOfStore:
    """The rows of a table and the store whose rows they are compared with."""

    path: Place
    """A cube, or the store of a job."""
    reader: RowReader
    site: Site
    value: Explained | None = None
    """The value function whose predictions identify rows; None if there is no model yet, or a
    stochastic one."""

    def said(self, was: int | None, now: int | None) -> str:
        """Describe how the rows differ: `was` rows in the store, `now` rows in the table."""
        found = None
        if self.reader.key_names:
            found = self._difference()
        if found is not None:
            return found.said(was or 0)
        if not self.reader.key_names:
            told = " (with key= the message lists them)"
        else:
            told = ""
        if was == now:
            return f"{now:,} as before, with different values or in a different order{told}"
        return f"{was or 0:,} before, {now or 0:,} now{told}"

    def _difference(self) -> KeyDifference | None:
        """Compare the keys; None if the store has no finished block with these key columns."""
        for path in cube_paths(self.path):
            content = self._content_of(path)
            old = _left(self.site.folder("keys"), map(content.of_block, finished_blocks(path)))
            if not old.n_rows:
                continue
            folder = self.site.folder("keys")
            try:
                self.site.learn(_MarksPass(folder, content), self.reader)
            except PredictError:  # then the message compares keys alone
                content = Content("nothing")
                folder = self.site.folder("keys")
                self.site.learn(_MarksPass(folder, content), self.reader)
            new = HashedRows(folder, self.reader.n_rows)
            return _joined(old, new, content.kind, path, self.reader)
        return None

    def _content_of(self, path: Place) -> Content:
        """Choose how contents are compared: by stored columns, by predictions, or not at all."""
        first = next(finished_blocks(path), None)
        if first is not None and first.columns.keys() == set(self.reader.feature_names):
            return Content("columns")
        if self.value is not None and self.reader.n_rows <= PREDICTED_ROWS:
            return Content("predictions", self.value)
        return Content("nothing")


@dataclass(frozen=True)
class Content:
    """The contents by which two rows of one key are compared: columns, predictions, or nothing."""

    kind: str
    value: Explained | None = None

    def of_block(self, block: FinishedBlock) -> tuple[int, WideHashes, Marks]:
        """(first row, hashes of keys (n, 2), marks (n, w)) of a finished block of the store."""
        return self._of(block, lambda: block.prediction[:, :PREDICTED_OUTPUTS])

    def of_rows(self, block: RowBlock) -> tuple[int, WideHashes, Marks]:
        """(first row, hashes of keys (n, 2), marks (n, w)) of rows of the table."""
        return self._of(block, lambda: self._predicted(block))

    def _of(
        self, block: FinishedBlock | RowBlock, predicted: Callable[[], FloatArray]
    ) -> tuple[int, WideHashes, Marks]:
        hashes = wide_hashes(block.keys)
        marks = hashes[:, :0]
        if self.kind == "columns":
            # sorted, as the store and the table may have the columns in different orders
            marks = hash_columns(dict(sorted(block.columns.items())))[:, None]
        elif self.kind == "predictions":
            marks = np.ascontiguousarray(predicted(), np.float64).view(np.uint64)
        return block.start, hashes, marks

    def _predicted(self, block: RowBlock) -> FloatArray:
        """Predictions (n, w) after the link; NaN for rows that are skipped."""
        value = self.value
        assert value is not None, "predictions are those of a value function"
        predictions = value.model(block.good)
        linked = value.link(predictions[:, None], predictions)[:, 0, :PREDICTED_OUTPUTS]
        marks = np.full((len(block.x), linked.shape[1]), np.nan)
        marks[block.is_ok] = linked
        return marks


@dataclass(frozen=True)
class _MarksPass:
    """A pass that writes hashes of keys and marks of contents of a table into a folder."""

    folder: Path
    content: Content

    @property
    def wants(self) -> tuple[str, ...]:
        if self.content.kind == "columns":
            return ("keys", "columns")
        return ("keys",)

    def partial(self, block: RowBlock) -> tuple[()]:
        leave_hashed(self.folder, *self.content.of_rows(block))
        return ()

    def finish(self, total: tuple[()]) -> None: ...


def _left(folder: Path, blocks: Iterator[tuple[int, WideHashes, Marks]]) -> HashedRows:
    """Write hashes and marks of the blocks of a store into a folder."""
    n_rows = 0
    for start, hashes, marks in blocks:
        leave_hashed(folder, start, hashes, marks)
        n_rows += len(hashes)
    return HashedRows(folder, n_rows)


@dataclass(frozen=True)
class Some:
    """The number of rows of a kind, and the positions of the first of them."""

    count: int = 0
    positions: tuple[int, ...] = ()
    """Positions of the first `SHOWN`, in the table or in the store."""

    def with_rows(self, positions: NDArray[np.int64]) -> Some:
        """Add rows that were found at these positions."""
        first = sorted([*self.positions, *np.sort(positions)[:SHOWN].tolist()])
        return Some(self.count + len(positions), tuple(first[:SHOWN]))


@dataclass(frozen=True)
class KeyDifference:
    """The keys of a store compared with those of a table: new, gone, changed, moved."""

    n_before: int
    """The number of finished rows in the store."""
    n_now: int
    new: Some
    gone: Some
    changed: Some
    """Keys on both sides whose rows are known to differ."""
    n_moved: int
    content: str
    """The kind of `Content` that rows were compared by."""
    key_before: Callable[[int], str]
    key_now: Callable[[int], str]

    def said(self, n_store: int) -> str:
        """Describe the difference; `n_store` counts all rows of the store's run."""
        is_whole = self.n_before == n_store
        if is_whole:
            seen = ""
        else:
            seen = f"of {self.n_before:,} finished keys ({n_store:,} in all), "
        # new keys may belong to rows that are not finished
        new = self.new if is_whole else Some()
        if not (new.count or self.gone.count or self.changed.count):
            return self._same(seen, n_store)
        parts = [
            self._kind(new, "new", self.key_now),
            self._kind(self.changed, self._word_of_changed, self.key_now),
            self._kind(self.gone, "gone", self.key_before),
        ]
        told = ", ".join(part for part in parts if part)
        if is_whole:
            rows = ""
        else:
            rows = f"; {n_store:,} rows before, {self.n_now:,} now"
        return f"{seen}{told}{self._unknown()}{rows}"

    def _same(self, seen: str, n_store: int) -> str:
        """Describe the case that no key is known to be new, changed or gone."""
        if seen and n_store != self.n_now:
            return f"{seen}none is gone; {n_store:,} rows before, {self.n_now:,} now"
        if seen:
            who = f"{seen}all"
        else:
            who = f"the same {self.n_now:,} keys"
        if self.n_moved:
            return (
                f"{who} in a different order (the order is part of a run: sort the rows as they "
                "were)"
            )
        if self.content == "columns":
            return f"{who} in the same order, with the same values: the target differs, or rows that are not finished"
        return f"{who} in the same order, with different values in some rows{self._unknown()}"

    @property
    def _word_of_changed(self) -> str:
        """The word for changed rows.

        If the predictions of most keys differ, the model has changed rather than the rows.
        """
        if (
            self.content == "predictions"
            and 2 * self.changed.count > self.n_before - self.gone.count
        ):
            return "with different predictions"
        return "changed"

    def _kind(self, some: Some, word: str, key: Callable[[int], str]) -> str:
        if not some.count:
            return ""
        first = ", ".join(map(key, some.positions))
        return f"{some.count:,} {'key' if some.count == 1 else 'keys'} {word} ({_listed(first, some.count)})"

    def _unknown(self) -> str:
        """Describe what remains unknown about the keys on both sides; empty if nothing does."""
        if self.content == "columns" or self.n_before == self.gone.count:
            return ""
        if self.content == "predictions":
            return (
                " (changes that move no prediction are found only if keep_rows=True has stored "
                "the rows)"
            )
        return " (the changed values are listed only if keep_rows=True has stored the rows)"


def _listed(first: str, count: int) -> str:
    if count <= SHOWN:
        return first
    return f"first {first}"


def _joined(
    old: HashedRows, new: HashedRows, content: str, path: Place, reader: RowReader
) -> KeyDifference:
    """Join the keys of both sides, part by part."""
    found = {kind: Some() for kind in ("new", "gone", "changed")}
    n_moved = 0
    for part in joined_parts(old, new, JOINED_ROWS):
        before, now = part.pairs
        keys = part.keys
        positions = {
            "new": part.new[-1][keys.first_old[keys.new] < 0],
            "gone": part.old[-1][keys.first_new[keys.old] < 0],
            "changed": now[-1][_differ(before[:-1], now[:-1], content)],
        }
        found = {kind: some.with_rows(positions[kind]) for kind, some in found.items()}
        n_moved += int(np.count_nonzero(before[-1] != now[-1]))
    return KeyDifference(
        n_before=old.n_rows,
        n_now=new.n_rows,
        **found,
        n_moved=n_moved,
        content=content,
        key_before=lambda position: key_words(row_key(path, position)),
        key_now=lambda position: key_words(_key_of(reader, position)),
    )


def _differ(before: Marks, now: Marks, content: str) -> NDArray[np.bool_]:
    """(n,): True if hashes (w, n) differ, or predictions by more than rounding."""
    if not before.size or before.shape != now.shape:
        return np.zeros(before.shape[1], dtype=bool)
    if content == "predictions":
        return differ(*(np.ascontiguousarray(each.view(np.float64).T) for each in (before, now)))
    return np.asarray((before != now).any(axis=0))


def _key_of(reader: RowReader, position: int) -> dict[str, str]:
    """Key column -> the key of one row of a table as text, in the form of `row_key`."""
    keys = reader.read(position, position + 1, keys=True).keys
    return {name: key_text(values[0]) for name, values in keys.items()}
