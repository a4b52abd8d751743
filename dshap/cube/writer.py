"""Writing a cube from the workers: whole shards, then the receipt."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from dshap.blocks import Attribution, RowBlock, Status
from dshap.cube.arrays import read_run
from dshap.cube.created import notes_of, receipts_of
from dshap.cube.files import ReceiptFolder
from dshap.cube.layout import TEXT, CubeLayout
from dshap.cube.summary import block_sums
from dshap.errors import DshapError
from dshap.records import FloatArray
from dshap.vocabulary import Vocabulary

__all__ = ["SUMMARIES", "CubeWriter", "block_digests", "block_name"]

SUMMARIES = ("blocks/attribution", "blocks/count", "blocks/residual")
"""Arrays with one entry a block."""


def block_digests(stored: Mapping[str, np.ndarray]) -> dict[str, str]:
    """variable -> blake2b over its stored values of a block."""
    return {name: _digest(np.asarray(values)) for name, values in stored.items()}


def _digest(values: np.ndarray) -> str:
    is_text = values.dtype.kind == "T"
    content = "\0".join(values.ravel().tolist()).encode() if is_text else np.ascontiguousarray(values).tobytes()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


class CubeWriter:
    """Writes instance tiles of the cube at `path`; picklable, opens its arrays on the worker.

    Two writers of one block store the same bytes, and the second finds the receipt taken.
    """

    def __init__(self, path: Path, layout: CubeLayout, fingerprint: str) -> None:
        self.path, self.layout, self.fingerprint = Path(path), layout, fingerprint
        self._arrays: dict[str, zarr.Array[Any]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_arrays": {}}

    def write(self, tile: int, block: RowBlock, attribution: Attribution) -> dict[str, Any]:
        """Store the rows of a tile, skipped ones in place (NaN), then its summary, then its receipt.

        `attribution` holds the good rows of `block` only.
        """
        start, stop = self._aligned(tile, block)
        self._refuse_other_store()
        stored = self._arrays_of(block, attribution)
        for name, values in stored.items():
            self._store(name, tile, slice(start, stop), values)
        summary = self._summary(attribution)
        for name, value in summary.items():
            self._array(name)[tile] = value
        receipt = {
            "block": tile,
            "start": start,
            "stop": stop,
            "digests": block_digests({"base_value": attribution.base} | stored | summary),
            "ok": int(block.is_ok.sum()),
            "fingerprint": self.fingerprint,
            **({"stated": dict(attribution.stated)} if attribution.stated else {}),
        }
        self._put_receipt(block_name(tile), receipt)
        return receipt

    def _arrays_of(self, block: RowBlock, attribution: Attribution) -> dict[str, np.ndarray]:
        """variable -> values of the whole block as they are stored; the status comes last."""
        stored = {
            "attribution": self._in_place(block, attribution.phi).astype(self.layout.dtype, copy=False),
            "prediction": self._in_place(block, attribution.prediction),
        }
        errors = attribution.std_error
        if errors is not None:
            stored["std_error"] = self._in_place(block, errors).astype(self.layout.dtype, copy=False)
        if attribution.interaction is not None:
            stored["interaction"] = self._in_place(block, attribution.interaction).astype(self.layout.dtype, copy=False)
        if attribution.n_coalitions is not None and attribution.relative_error is not None:
            stored["n_coalitions"] = self._in_place(block, attribution.n_coalitions, fill=0)
            stored["relative_error"] = self._in_place(block, attribution.relative_error)
        if self.layout.is_base_by_row:
            stored["base_value"] = self._in_place(
                block, np.broadcast_to(attribution.base, attribution.prediction.shape)
            )
        if attribution.classes is not None:
            stored["explained_class"] = self._in_place(block, attribution.classes, fill=-1)
        for column, values in block.keys.items():
            as_stored = values.astype(np.int64) if values.dtype.kind == "M" else values
            stored[self.layout.key_variables[column]] = as_stored
        for column, values in block.columns.items():
            stored[f"rows/{self.layout.row_variables[column]}"] = _as_stored(values, self.layout.columns[column])
        if self.layout.vocabulary is not None:
            stored |= _of_texts(block.x, stored, self.layout.vocabulary)
        status = np.full(len(block.x), Status.SKIPPED, np.int8)
        status[block.is_ok] = attribution.status
        return stored | {"status": status}

    def _refuse_other_store(self) -> None:
        """A worker that outlives its run must not write into the store of the next one."""
        if (read_run(self.path) or {}).get("digest") != self.fingerprint:
            raise DshapError(f"{self.path} belongs to another run by now: this one stops writing")

    def _put_receipt(self, name: str, receipt: dict[str, Any]) -> None:
        receipts = receipts_of(self.path)
        if not receipts.put(name, receipt) and not self._is_of_this_run(receipts, name):
            receipts.remove(name)  # damaged, or of a run that was removed while a worker of it went on
            receipts.put(name, receipt)

    def _is_of_this_run(self, receipts: ReceiptFolder, name: str) -> bool:
        is_same: bool = receipts.is_whole(name) and receipts.get(name)["fingerprint"] == self.fingerprint
        return is_same

    def _store(self, name: str, tile: int, rows: slice, values: np.ndarray) -> None:
        """Write rows of one shard; Zarr looks into the one that is there, which is thrown away where it is damaged."""
        array = self._array(name)
        try:
            array[rows] = values
        except (ValueError, IndexError):
            key = array.metadata.encode_chunk_key((tile, *[0] * (array.ndim - 1)))
            (self.path / name / key).unlink(missing_ok=True)
            array[rows] = values

    def write_base(self, base: FloatArray) -> None:
        self._array("base_value")[...] = base

    def write_note(self, name: str, content: dict[str, Any]) -> None:
        """A small record that `open_cube` shows as the attribute `name`, in the place of an earlier one."""
        notes = notes_of(self.path)
        if not notes.put(name, content):
            notes.remove(name)
            notes.put(name, content)

    def mark_failed(self, tile: int, start: int, stop: int) -> None:
        """Say so in the status of a block that has no attribution."""
        if not receipts_of(self.path).is_whole(block_name(tile)):
            self._store("status", tile, slice(start, stop), np.full(stop - start, Status.FAILED, np.int8))

    def done(self) -> set[int]:
        """Blocks with a whole receipt of this run: their values are trusted, not read again."""
        receipts = (receipt for _, receipt in receipts_of(self.path).whole())
        return {int(receipt["block"]) for receipt in receipts if receipt["fingerprint"] == self.fingerprint}

    def stated(self) -> dict[str, list[float] | float]:
        """What closed forms stated of the finished blocks: the largest of each number."""
        blocks = (block for _, block in receipts_of(self.path).whole())
        found = [block["stated"] for block in blocks if block["fingerprint"] == self.fingerprint and "stated" in block]
        names = found[0] if found else {}
        return {name: np.max([block[name] for block in found], axis=0).tolist() for name in names}

    @staticmethod
    def _summary(attribution: Attribution) -> dict[str, np.ndarray]:
        phi = attribution.phi
        gap = np.abs(phi.sum(axis=1) + attribution.base - attribution.prediction)  # (n, k)
        residual = gap.max(axis=0, initial=0.0)
        return dict(zip(SUMMARIES, (block_sums(attribution), np.array(len(phi)), residual), strict=True))

    @staticmethod
    def _in_place(block: RowBlock, values: np.ndarray, fill: float = np.nan) -> np.ndarray:
        """Values (n, …) of the whole block from those of its good rows; `fill` elsewhere."""
        if block.is_ok.all():
            return values
        out = np.full((len(block.x), *values.shape[1:]), fill, values.dtype)
        out[block.is_ok] = values
        return out

    def _aligned(self, tile: int, block: RowBlock) -> tuple[int, int]:
        """Rows of the block, which must be exactly one shard: anything else loses data without an error."""
        start, stop = tile * self.layout.tile, min((tile + 1) * self.layout.tile, self.layout.n_rows)
        if (block.start, block.stop) != (start, stop):
            raise DshapError(f"block {tile} holds rows {block.start} to {block.stop}, its shard {start} to {stop}")
        return start, stop

    def _array(self, name: str) -> zarr.Array[Any]:
        if name not in self._arrays:
            self._arrays[name] = zarr.open_array(self.path / name, mode="r+")
        return self._arrays[name]


def _of_texts(ids: FloatArray, stored: Mapping[str, np.ndarray], vocabulary: Vocabulary) -> dict[str, np.ndarray]:
    """Length and tokens of texts whose ids (n, longest) are NaN beyond the end, and no attribution there."""
    inside = ~np.isnan(ids)
    of_features = {name: stored[name] for name in ("attribution", "std_error") if name in stored}
    cut = {
        name: np.where(inside[..., None], values, np.nan).astype(values.dtype) for name, values in of_features.items()
    }
    return {**cut, "length": inside.sum(axis=1).astype(np.int32), "token": vocabulary.shown(ids)}


def _as_stored(values: np.ndarray, dtype: str) -> np.ndarray:
    """A kept column in the type of its array; missing text is empty."""
    if dtype != TEXT:
        return values.astype(dtype, copy=False)
    return np.array([text or "" for text in values.tolist()], dtype=np.dtypes.StringDType())


def block_name(tile: int) -> str:
    return f"block-{tile:08d}"
