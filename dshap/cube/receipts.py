"""The receipts of a cube's blocks: a file each while it grows, one for many blocks once it is packed."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any

from dshap.core.errors import DshapError
from dshap.core.places import Place
from dshap.cube.creation import CONTAINER
from dshap.cube.metadata import blocks_of_file
from dshap.storage.folder import Folder
from dshap.storage.sealed_files import ReceiptFolder

BLOCK = re.compile(r"block-(\d{8,})")
"""The names of marks of blocks, as `block_name` makes them."""
PACK = re.compile(r"blocks-(\d{8,})-(\d{8,})")
"""The names of packed receipts: of the first block, and of the last."""
PACKED = "packed"
PACKING = "packing"
"""The marks of a cube that is packed, and of one that has both forms: see `dshap.cube.packing`."""
PACKED_FILE = f"{PACKED}.json"
PACKING_FILE = f"{PACKING}.json"
RECENT_PACKS = 2
"""The packs whose receipts are in memory: a caller that asks for blocks in order reads each pack
once."""


def block_name(tile: int) -> str:
    """The name of the marks of a block, such as "block-00000012"."""
    return f"block-{tile:08d}"


def block_of(name: str) -> int | None:
    """The block of a mark with this name; None if it is of no block."""
    found = BLOCK.fullmatch(name)
    if found is None:
        return None
    return int(found[1])


def is_packed(path: Place) -> bool:
    """Whether the blocks of the cube at `path` are packed: see `dshap.cube.packing`.

    A cube that lost its mark is known by its packs and the document of an array.
    """
    names = Folder(path / CONTAINER).list()
    if PACKED_FILE in names:
        return True
    return "packs" in names and PACKING_FILE not in names and blocks_of_file(path) > 1


class BlockReceipts(ReceiptFolder):
    """The receipts of the finished blocks of a cube, packed or not.

    Once the cube is packed (its mark `PACKED` is there) a packed receipt is preferred to a file of
    its own: a process that explained the same block again has written the same values.

    Parameters
    ----------
    state : the folder `state` of the cube
    """

    def __init__(self, state: Place) -> None:
        super().__init__(state / "receipts")
        self.packs = ReceiptFolder(state / "packs")
        self._cube = state.parent
        self._content = lru_cache(RECENT_PACKS)(self._receipts_of_pack)

    @cached_property
    def _spans(self) -> list[tuple[int, int, str]]:
        """(first block, last block, name) of the packs, in order; none of a cube that is not packed."""
        if not is_packed(self._cube):
            return []
        found = ((PACK.fullmatch(name), name) for name in self.packs.names())
        return sorted((int(each[1]), int(each[2]), name) for each, name in found if each)

    def pack_of(self, name: str) -> str | None:
        """The pack that has the receipt of this name; None if it has a file of its own, or none."""
        block = block_of(name)
        if block is None:
            return None
        place = bisect_right(self._spans, block, key=lambda span: span[0]) - 1
        if place < 0 or block > self._spans[place][1]:
            return None
        return self._spans[place][2]

    def file_of(self, name: str) -> str:
        """The file in the folder `state` that has the receipt of this name."""
        pack = self.pack_of(name)
        if pack is None:
            return f"receipts/{self.file(name)}"
        return f"packs/{self.packs.file(pack)}"

    def names(self) -> Iterator[str]:
        packed = (
            block_name(block) for first, last, _ in self._spans for block in range(first, last + 1)
        )
        yield from packed
        yield from (name for name in self.single_names() if self.pack_of(name) is None)

    def single_names(self) -> Iterator[str]:
        """The names of the receipts that are separate files."""
        return super().names()

    def has(self, name: str) -> bool:
        return self.pack_of(name) is not None or super().has(name)

    def remove(self, name: str) -> None:
        if self.pack_of(name) is not None:
            raise DshapError(f"{self.folder.place(name)} is packed: it cannot be removed alone")
        super().remove(name)

    def whole_ones(self, names: Iterable[str]) -> Iterator[tuple[str, dict[str, Any] | None]]:
        if not self._spans:
            return super().whole_ones(names)
        return ((name, self.whole_one(name)) for name in names)

    def whole_one(self, name: str) -> dict[str, Any] | None:
        pack = self.pack_of(name)
        if pack is None:
            return super().whole_one(name)
        return self._content(pack).get(name)

    def _receipts_of_pack(self, pack: str) -> dict[str, dict[str, Any]]:
        return receipts_in(self.packs.whole_one(pack))

    def damage(self, name: str) -> str | None:
        pack = self.pack_of(name)
        if pack is None:
            return super().damage(name)
        return self.packs.damage(pack)

    def looked_at(self, name: str) -> tuple[dict[str, Any] | None, str | None]:
        pack = self.pack_of(name)
        if pack is None:
            return super().looked_at(name)
        found = self.whole_one(name)
        if found is None:
            return None, self.damage(name)
        return found, None

    def times(self) -> dict[str, float]:
        """Name -> time at which a receipt was written, in seconds since 1970."""
        at = self.packs.times()
        packed = {name: at[pack] for name in self.names() if (pack := self.pack_of(name)) in at}
        return super().times() | packed


def packed_receipts(receipts: Mapping[str, Mapping[str, Any]], files: Mapping[str, int]) -> Any:
    """The record of the receipts of a pack, whose values are in these files (name -> bytes)."""
    return {
        "files": dict(files),
        "receipts": {
            name: {key: value for key, value in receipt.items() if key != "files"}
            for name, receipt in receipts.items()
        },
    }


def receipts_in(pack: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    """The receipts in a pack, each with the files of all of them; none in one that is damaged."""
    if pack is None:
        return {}
    return {name: {**receipt, "files": pack["files"]} for name, receipt in pack["receipts"].items()}
