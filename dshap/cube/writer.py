"""Writing a cube from the workers: whole shards, synced, then the receipt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import Attribution, RowBlock, Status
from dshap.core.errors import DshapError, InputError
from dshap.core.places import Place, place_of
from dshap.core.records import BoolArray, FloatArray
from dshap.cube.arrays import read_run
from dshap.cube.block_arrays import arrays_of_block, summary_of_block
from dshap.cube.carrying import (
    EXPLAINED,
    CarriedRows,
    block_sums_with_carried,
    no_attribution,
)
from dshap.cube.layout import CubeLayout
from dshap.cube.metadata import known_facts
from dshap.cube.opening import keep_opening
from dshap.cube.receipts import block_name, is_packed
from dshap.cube.reference_copy import failures_of, notes_of, receipts_of
from dshap.cube.shards import Shards, known_shards
from dshap.cube.stored_rows import whole_array
from dshap.cube.value_digests import block_digests
from dshap.storage.folder import Folder

MAX_REASONS = 8
MAX_REASON = 500
"""Limits of a receipt: the reasons it gives for failed rows, and the characters of each reason."""


class CubeWriter:
    """A writer of instance tiles of the cube at `path`; picklable, opens its arrays on the worker.

    Two writers of one block store the same bytes, and the second leaves the first receipt.  Rows
    that are `carried` are copied from an earlier cube; only the others are given to `write`.
    """

    def __init__(
        self,
        path: Place,
        layout: CubeLayout,
        fingerprint: str,
        carried: CarriedRows | None = None,
    ) -> None:
        self.path = place_of(path)
        self.layout = layout
        self.fingerprint = fingerprint
        self.carried = carried
        self._arrays: dict[str, Shards] = {}
        self._own_version: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_arrays": {}, "_own_version": None}

    def write(self, tile: int, block: RowBlock, attribution: Attribution) -> dict[str, Any]:
        """Store the rows of a tile and its summary, then its receipt; return the receipt.

        `attribution` contains the rows of `block` that are ok to explain, none of which
        `is_carried`; rows that were skipped or failed are stored as NaN.  The receipt is made once
        the files that it names are on disk, so that a power cut leaves no receipt without its data.
        A tile with failed rows is tried again by the same run; a tile without any stays as it is.
        """
        start, stop = self._aligned(tile, block)
        self._refuse_other_store()
        receipts = receipts_of(self.path)
        mark = block_name(tile)
        before = receipts.whole_one(mark)
        if before is not None and self._is_stored(before):
            # before its files change: until the next receipt the block counts as not written
            if "failed" in before:
                receipts.remove(mark)
            elif attribution.reasons:  # meanwhile another worker has explained all rows
                return before
        stored = arrays_of_block(self.layout, block, attribution)
        summary = summary_of_block(attribution.good)
        if self.carried is not None:
            stored, summary = self._with_carried(self.carried, tile, stored, summary)
        # last, so that rows whose status is ok have their values (`Folder.replace_all`)
        status = {"status": stored["status"]}
        rows = {name: values for name, values in stored.items() if name not in status}
        files = self._store(
            {**rows, **{name: value[None] for name, value in summary.items()}, **status}, tile
        )
        receipt = {
            "block": tile,
            "start": start,
            "stop": stop,
            "digests": block_digests({"base_value": attribution.base} | stored | summary),
            "files": files,
            "ok": int(summary["blocks/count"]),
            "fingerprint": self.fingerprint,
            **({"stated": dict(attribution.stated)} if attribution.stated else {}),
            **({"counted": dict(attribution.counted)} if attribution.counted else {}),
            **({"failed": failed_groups(block, attribution)} if attribution.reasons else {}),
        }
        self._put_receipt(mark, receipt)
        failures = failures_of(self.path)
        is_doubted = failures.has(mark)
        while is_doubted:
            # whoever marked the block as failed may have written its status over that of these rows,
            # before or after this receipt: the status that is read after it shows which
            self._store(status, tile)
            self._put_receipt(mark, receipt)
            failures.remove(mark)
            now = self._shards("status").read(start, stop)
            is_doubted = (
                failures.has(mark) or now is None or not np.array_equal(now, stored["status"])
            )
        return receipt

    def is_carried(self, tile: int) -> BoolArray:
        """(n,): True for the rows of a tile that are copied from an earlier cube."""
        start, stop = self._span(tile)
        if self.carried is None:
            return np.zeros(stop - start, dtype=bool)
        return np.array(self.carried.positions_of(start, stop) != EXPLAINED)

    def unexplained(self, n_rows: int, reason: str) -> Attribution:
        """Attributions of so many rows of this cube, all of which failed for one reason."""
        none = no_attribution(self.layout, self._common_base())
        reasons = dict.fromkeys(range(n_rows), reason)
        return none.placed(n_rows, np.zeros(0, np.intp), reasons)

    def _common_base(self) -> FloatArray:
        """(k,): the stored v(empty), where it is the same for all rows; else zeros."""
        if self.layout.is_base_by_row:
            return np.zeros(len(self.layout.outputs))
        return whole_array(self.path / "base_value")

    def _with_carried(
        self,
        carried: CarriedRows,
        tile: int,
        stored: dict[str, np.ndarray],
        summary: dict[str, np.ndarray],
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The stored values and the summary of a block, with its carried rows in them.

        The residual of a carried row is at most that of its block in the earlier cube, which knew
        the attributions before they were rounded to the cube's dtype.
        """
        positions = carried.positions_of(*self._span(tile))
        stored = carried.copy_into(stored, positions)
        is_carried = positions != EXPLAINED
        sums, gap = block_sums_with_carried(
            self.layout, stored, is_carried, self._common_base(), carried.share
        )
        missed = np.minimum(gap, carried.residual_of(positions))
        return stored, {
            "blocks/attribution": sums,
            "blocks/count": np.array(np.count_nonzero(stored["status"] == Status.OK)),
            "blocks/residual": np.maximum(summary["blocks/residual"], missed),
        }

    def _refuse_other_store(self) -> None:
        """Refuse to write if the store now belongs to a different run: workers may outlive a run.

        The document with the run is read again if it was written since.
        """
        version = Folder(self.path).version("zarr.json")
        if version == self._own_version and version is not None:
            return
        if (read_run(self.path) or {}).get("digest") != self.fingerprint:
            raise DshapError(
                f"{self.path} belongs to a different run by now: this run stops writing"
            )
        self._own_version = version

    def _put_receipt(self, name: str, receipt: dict[str, Any]) -> None:
        receipts = receipts_of(self.path)
        if not receipts.put(name, receipt) and not receipts.holds(name, receipt):
            # the old one is damaged, or names lost files, or belongs to an earlier run
            receipts.remove(name)
            receipts.put(name, receipt)

    def _store(self, stored: Mapping[str, NDArray[Any]], tile: int) -> dict[str, int]:
        """Write the shard of a tile of each array; return file -> bytes, once all are stored.

        A file of fill values only is not stored and has 0 bytes.
        """
        contents = {}
        for name, values in stored.items():
            shards = self._shards(name)
            contents[f"{name}/{shards.name(tile)}"] = shards.encoded(values)
        return keep_files(Folder(self.path), contents)

    def write_base(self, base: FloatArray) -> None:
        """Store v(empty), where it is the same for all rows.

        Raises
        ------
        InputError
            That of the cube whose rows are carried is another one.
        """
        if self.carried is not None and not np.array_equal(base, self.carried.base_value()):
            raise InputError(
                f"the base value is {base}, that of {self.carried.path} is "
                f"{self.carried.base_value()}: its rows cannot be carried, explain all rows"
            )
        self._store({"base_value": base}, 0)

    def write_note(self, name: str, content: dict[str, Any]) -> None:
        """Store a small record in place of an old one; `open_cube` shows it as an attribute."""
        notes = notes_of(self.path)
        if not notes.put(name, content) and not notes.holds(name, content):
            notes.remove(name)
            notes.put(name, content)
        if is_packed(self.path):
            keep_opening(self.path)

    def mark_failed(self, tile: int, start: int, stop: int, reason: str) -> None:
        """Mark a block without attributions as failed in `status`, and store the reason.

        Another process may explain the block meanwhile.  The reason is stored before the status is
        written, so that this process sees the receipt, or the other one sees the reason: the one
        removes the receipt and marks again, the other one stores its status and its receipt
        again, each until it finds its own file.
        """
        receipts = receipts_of(self.path)
        name = block_name(tile)
        failures = failures_of(self.path)
        receipt = receipts.whole_one(name)
        if receipt is not None and self._is_stored(receipt):
            return
        group = failed_group(reason, stop - start, start, f"rows {start} to {stop - 1}")
        status = np.full(stop - start, Status.FAILED, np.int8)
        is_marked = False
        while not is_marked:
            receipts.remove(name)
            failures.remove(name)
            failures.put(name, {"failed": [group]})
            self._store({"status": status}, tile)
            # until no other process has come in between
            is_marked = failures.has(name) and not receipts.has(name)

    def done(self, tiles: Iterable[int] | None = None) -> set[int]:
        """The finished blocks: they have a whole receipt of this run and no failed row.

        The files that the receipt names must be there; their values are trusted, not read again.
        Of `tiles` only these are looked at.
        """
        receipts = receipts_of(self.path)
        if tiles is None:
            names = [*receipts.names()]
        else:
            names = [*map(block_name, tiles)]
        # in a bucket one listing, instead of a request for each file
        sizes = Folder(self.path).sizes(len(names))
        return {
            receipt["block"]
            for _, receipt in receipts.whole_ones(names)
            if receipt and "failed" not in receipt and self._is_stored(receipt, sizes)
        }

    def endings(self) -> dict[int, dict[str, Any]]:
        """Block -> its record, of those that have ended: explained, or failed as a whole.

        The record has `block`, `start`, `stop`, and `failed` if rows have no attributions.
        """
        found = {}
        for _, failure in failures_of(self.path).whole():
            tile = failure["failed"][0]["position"] // self.layout.tile
            start, stop = self._span(tile)
            found[tile] = {"block": tile, "start": start, "stop": stop, **failure}
        names = [*receipts_of(self.path).names()]
        sizes = Folder(self.path).sizes(len(names))
        for _, receipt in receipts_of(self.path).whole_ones(names):
            if receipt and self._is_stored(receipt, sizes):
                found[receipt["block"]] = receipt
        return found

    def _is_stored(
        self, receipt: Mapping[str, Any], sizes: Callable[[str], int] | None = None
    ) -> bool:
        """Whether the receipt is of this run, and the files that it names are there.

        `sizes` returns the bytes of a file.
        """
        is_own = receipt["fingerprint"] == self.fingerprint
        is_span = (receipt["start"], receipt["stop"]) == self._span(receipt["block"])
        return is_own and is_span and not lost_files(self.path, receipt, sizes)

    def stated(self) -> dict[str, list[float] | float]:
        """The largest value of each number that closed forms stated, over the finished blocks."""
        return largest_stated(self._in_receipts("stated"))

    def counted(self) -> dict[str, int]:
        """The sum of each number in `Attribution.counted`, over the finished blocks."""
        return sums_counted(self._in_receipts("counted"))

    def _in_receipts(self, name: str) -> list[dict[str, Any]]:
        """Return this entry of the receipts of this run that have it."""
        blocks = (block for _, block in receipts_of(self.path).whole())
        return [
            block[name]
            for block in blocks
            if block["fingerprint"] == self.fingerprint and name in block
        ]

    def _aligned(self, tile: int, block: RowBlock) -> tuple[int, int]:
        """The (start, stop) of a block, which must be exactly one shard.

        Any other block would lose data without an error.
        """
        start, stop = self._span(tile)
        if (block.start, block.stop) != (start, stop):
            raise DshapError(
                f"block {tile} contains rows {block.start} to {block.stop}, its shard {start} to "
                f"{stop}"
            )
        return start, stop

    def _span(self, tile: int) -> tuple[int, int]:
        """The first row of a tile, and the row after its last."""
        return tile * self.layout.tile, min((tile + 1) * self.layout.tile, self.layout.n_rows)

    def _shards(self, name: str) -> Shards:
        """The files of an array, whose document is read once."""
        if not self._arrays and is_packed(self.path):
            raise DshapError(
                f"{self.path} is packed: dshap run, or dshap run --only learn, unpacks it first"
            )
        if name not in self._arrays:
            folder = Folder(self.path / name)
            self._arrays[name] = known_shards(folder, folder.get("zarr.json") or b"{}")
        return self._arrays[name]


def largest_stated(blocks: Sequence[Mapping[str, Any]]) -> dict[str, list[float] | float]:
    """The largest value of each number that closed forms stated of these blocks."""
    names = next(iter(blocks), {})
    return {name: np.max([block[name] for block in blocks], axis=0).tolist() for name in names}


def sums_counted(blocks: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The sum of each number in `Attribution.counted` of these blocks."""
    names = next(iter(blocks), {})
    return {name: sum(block[name] for block in blocks) for name in names}


def failed_groups(block: RowBlock, attribution: Attribution) -> list[dict[str, Any]]:
    """Group the failed rows by reason, with their number and the first of them, for a receipt.

    Reasons that differ only in numbers are one; beyond `MAX_REASONS` all fall into the last one.
    """
    positions = block.positions[block.is_ok]
    groups: dict[str, dict[str, Any]] = {}
    for i, reason in sorted(attribution.reasons.items()):
        kind = re.sub(r"\d+", "#", reason)
        if kind not in groups and len(groups) == MAX_REASONS:
            kind = next(reversed(groups))
        row = int(positions[i])
        keys = ", ".join(
            f"{name} {values[row - block.start]}" for name, values in block.keys.items()
        )
        if keys:
            where = f"row {row} ({keys})"
        else:
            where = f"row {row}"
        group = groups.setdefault(kind, failed_group(reason, 0, row, where))
        group["rows"] += 1
    return list(groups.values())


def failed_group(reason: str, n_rows: int, position: int, where: str) -> dict[str, Any]:
    """The record of the rows of a block that failed for one reason."""
    return {"reason": reason[:MAX_REASON], "rows": n_rows, "position": position, "first": where}


def keep_files(folder: Folder, contents: Mapping[str, bytes | None]) -> dict[str, int]:
    """Put files into a folder; return file -> bytes, once all are stored.

    One without content, of fill values only, is not stored and has 0 bytes.
    """
    for file in [file for file, content in contents.items() if content is None]:
        folder.clear_way(file)
    kept = {file: content for file, content in contents.items() if content is not None}
    if kept:
        folder.replace_all(kept)
    return {file: len(content or b"") for file, content in contents.items()}


def has_every_receipt(path: Place) -> bool:
    """Whether each block of the cube at `path` has a receipt, as far as their names show."""
    n_blocks = known_facts(path / "blocks" / "count").shape[0]
    return sum(1 for _ in receipts_of(path).names()) == n_blocks


def lost_files(
    path: Place, receipt: Mapping[str, Any], sizes: Callable[[str], int] | None = None
) -> list[str]:
    """Files of a block that are missing or not as long as in its receipt.

    Receipts of earlier versions name no files.  `sizes` returns the bytes of a file of the cube, for
    callers that ask for many blocks (`Folder.sizes`).
    """
    files: Mapping[str, int] = receipt.get("files", {})
    size_of = sizes or Folder(path).size
    return [name for name, size in files.items() if size_of(name) != size]


def drop_lost_blocks(path: Place) -> list[str]:
    """Remove the receipts of blocks that lost files; return a line about each.

    These blocks are then computed again.
    """
    receipts = receipts_of(path)
    lines = []
    names = [*receipts.names()]
    sizes = Folder(path).sizes(len(names))
    for name, receipt in receipts.whole_ones(names):
        if receipt and (lost := lost_files(path, receipt, sizes)):
            receipts.remove(name)
            lines.append(f"block {receipt['block']} lost {', '.join(lost)}: it is computed again")
    return lines
