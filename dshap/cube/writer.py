"""Writing a cube from the workers: whole shards, then the receipt."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from dshap.cube.files import CreateOnlyFolder
from dshap.cube.layout import CONTAINER, CubeLayout
from dshap.errors import DshapError
from dshap.types import Attribution, FloatArray, RowBlock, Status

__all__ = ["CubeWriter", "block_digest", "receipts_of"]


def receipts_of(path: Path) -> CreateOnlyFolder:
    """The receipts of the cube at `path`, one for each finished block."""
    return CreateOnlyFolder(path / CONTAINER / "receipts")


def block_digest(phi: np.ndarray, prediction: np.ndarray, status: np.ndarray) -> str:
    """blake2b over the stored values of a block."""
    hasher = hashlib.blake2b(digest_size=16)
    for array in (phi, prediction, status):
        hasher.update(np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()


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
        phi = self._in_place(block, attribution.phi).astype(self.layout.dtype, copy=False)
        prediction = self._in_place(block, attribution.prediction)
        status = np.full(len(block.x), Status.SKIPPED, np.int8)
        status[block.is_ok] = attribution.status
        self._array("attribution")[start:stop] = phi
        self._array("prediction")[start:stop] = prediction
        for column, values in block.keys.items():
            as_stored = values.astype(np.int64) if values.dtype.kind == "M" else values
            self._array(self.layout.key_variables[column])[start:stop] = as_stored
        for column, values in block.columns.items():
            self._array(f"rows/{self.layout.row_variables[column]}")[start:stop] = values
        self._array("status")[start:stop] = status
        self._summarise(tile, attribution.phi)
        receipt = {
            "block": tile,
            "start": start,
            "stop": stop,
            "digest": block_digest(phi, prediction, status),
            "ok": int(block.is_ok.sum()),
            "fingerprint": self.fingerprint,
        }
        receipts_of(self.path).put_json(_block_name(tile), receipt)
        return receipt

    def write_base(self, base: FloatArray) -> None:
        self._array("base_value")[...] = base

    def mark_failed(self, tile: int, start: int, stop: int) -> None:
        """Say so in the status of a block that has no attribution."""
        if not receipts_of(self.path).has(_block_name(tile)):
            self._array("status")[start:stop] = np.full(stop - start, Status.FAILED, np.int8)

    def done(self) -> set[int]:
        """Blocks with a receipt: trusted, not read again."""
        return {int(name.removeprefix("block-")) for name in receipts_of(self.path).names()}

    def _summarise(self, tile: int, phi: FloatArray) -> None:
        sums = np.stack([phi.sum(axis=0), np.abs(phi).sum(axis=0), np.square(phi).sum(axis=0)])  # (3, d, k)
        self._array("blocks/attribution")[tile] = sums
        self._array("blocks/count")[tile] = len(phi)

    @staticmethod
    def _in_place(block: RowBlock, values: FloatArray) -> FloatArray:
        """Values (n, …) of the whole block from those of its good rows; NaN elsewhere."""
        if block.is_ok.all():
            return values
        out = np.full((len(block.x), *values.shape[1:]), np.nan)
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


def _block_name(tile: int) -> str:
    return f"block-{tile:08d}"
