"""A finished cube in few files: blocks are packed into large ones, and unpacked before they change.

Packed files are written beside the files of the blocks, chunk by chunk, byte for byte, each chunk
checked by its checksum; the receipts of a pack go into one file.  Then the documents of the arrays are put
one by one, and only then the old files are removed: after a crash at any time each array can be
read in the form that its document names.

Two marks in the folder `state` show its progress.  With `packing` both forms are complete, and a
document may be of either.  With `packed` only the packed form counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dshap.core.places import Place
from dshap.core.rows import spans
from dshap.cube.creation import CONTAINER, ROOT
from dshap.cube.opening import keep_opening
from dshap.cube.packed_documents import (
    BLOCKS_OF_PACK,
    GROWING,
    LEAST_BLOCKS,
    arrays_in,
    n_blocks_in,
    packed_documents,
    unpacked_documents,
)
from dshap.cube.receipts import (
    PACKED,
    PACKING,
    block_name,
    is_packed,
    packed_receipts,
    receipts_in,
)
from dshap.cube.reference_copy import (
    altered_files,
    is_finished,
    mark_of,
    receipts_of,
    whole_copy,
)
from dshap.cube.shards import Shards, index_of, known_shards
from dshap.cube.writer import keep_files, lost_files
from dshap.storage.folder import Folder


def pack_cube(path: Place) -> bool:
    """Pack the blocks of a finished cube; whether they were not packed before, and are now.

    A cube of fewer than `LEAST_BLOCKS` blocks stays, one that is damaged, and one of an earlier
    version of dshap.  Only the holder of the store's lock may ask.
    """
    is_new = not is_packed(path) and _pack_blocks(path)
    if is_packed(path):
        keep_opening(path)
        # files of single blocks go last, and each call repeats that: a kill leaves files too many,
        # never too few
        mark_of(path).remove(PACKING)
        _Forms(path, plain_documents(path)).discard_blocks()
    return is_new


def _pack_blocks(path: Place) -> bool:
    """Pack a cube that is not packed, unless it has to stay as it is."""
    unpack_cube(path)  # what a killed packing left
    created = whole_copy(path)
    if created is None or not is_finished(path) or altered_files(path):
        return False
    if n_blocks_in(created) < LEAST_BLOCKS or not any(arrays_in(created)):
        return False
    forms = _Forms(path, created)
    try:
        for span in forms.spans:
            forms.pack(span)
    except _NotWholeError:
        forms.discard_packs()
        return False
    forms.switch()
    return True


def unpack_cube(path: Place) -> bool:
    """Give each block its own files and its receipt again; False if it has them.

    A block whose chunks, or whose receipt, cannot be read any more gets no receipt: the same run
    computes it again.  Files of a killed packing or unpacking are removed.  Only the holder of the
    store's lock may ask.
    """
    marks = mark_of(path)
    if not is_packed(path) and not marks.has(PACKING):
        return False
    forms = _Forms(path, plain_documents(path))
    if is_packed(path):
        for span in forms.spans:
            forms.restore(span)
        # from here to its removal either form of a document counts as unaltered (`expected_files`)
        marks.put(PACKING, {})
        marks.remove(PACKED)
    forms.put(forms.plain)
    marks.remove(PACKING)
    forms.discard_packs()
    return True


class _NotWholeError(Exception):
    """A block has no whole receipt, or a file differs from its written content."""


@dataclass(frozen=True)
class _Forms:
    """The two forms of a cube: with files of one block each, and packed."""

    path: Place
    plain: Mapping[str, bytes]
    """name -> content of the documents of the cube that is not packed."""

    @property
    def folder(self) -> Folder:
        return Folder(self.path)

    @property
    def blocks_of_pack(self) -> int:
        return min(n_blocks_in(self.plain), BLOCKS_OF_PACK)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """(start, stop) of the blocks of each pack."""
        return spans(0, n_blocks_in(self.plain), self.blocks_of_pack)

    def arrays(self) -> Iterator[tuple[str, Shards, Shards]]:
        """(name, files of one block each, packed files) of the arrays."""
        packed = packed_documents(self.plain)
        for name in arrays_in(self.plain):
            file = f"{name}/{ROOT}"
            folder = Folder(self.path / name)
            yield name, known_shards(folder, self.plain[file]), known_shards(folder, packed[file])

    def pack(self, span: tuple[int, int]) -> None:
        """Write the packed files of these blocks, and their receipts."""
        names = [block_name(block) for block in range(*span)]
        kept = receipts_of(self.path)
        receipts = {}
        for name, receipt in kept.whole_ones(names):
            if receipt is None:
                raise _NotWholeError
            receipts[name] = receipt
        files = {}
        for name, one, many in self.arrays():
            own = [one.name(block) for block in range(*span)]
            sizes = [
                receipts[each]["files"][f"{name}/{file}"]
                for each, file in zip(names, own, strict=True)
            ]
            file = many.name(span[0] // self.blocks_of_pack)
            files[f"{name}/{file}"] = _pack_files(
                one, many, file, dict(zip(own, sizes, strict=True))
            )
        # a pack that a killed packing left may have other bytes, and `put` would leave it
        kept.packs.remove(_pack_name(span))
        kept.packs.put(_pack_name(span), packed_receipts(receipts, files))

    def restore(self, span: tuple[int, int]) -> None:
        """Write the files of each of these blocks, and its receipt, from a pack."""
        receipts = receipts_of(self.path)
        pack = receipts.packs.whole_one(_pack_name(span))
        if pack is None or lost_files(self.path, pack):
            return
        shard = span[0] // self.blocks_of_pack
        arrays = [*self.arrays()]
        for name, receipt in receipts_in(pack).items():
            block = receipt["block"]
            contents = {}
            try:
                for array, one, many in arrays:
                    n_chunks = one.chunks_per_file
                    chunks = many.chunks_of(shard, (block - span[0]) * n_chunks, n_chunks)
                    contents[f"{array}/{one.name(block)}"] = one.file_of(chunks)
            except ValueError:
                continue
            files = keep_files(self.folder, contents)
            receipts.put_over(name, {**receipt, "files": files})

    def switch(self) -> None:
        """Let the packed form be the one that is read."""
        marks = mark_of(self.path)
        # as in `unpack_cube`: documents change one by one, and both forms are right until PACKED
        # is there
        marks.put(PACKING, {})
        self.put(packed_documents(self.plain))
        marks.put(PACKED, {})

    def put(self, documents: Mapping[str, bytes]) -> None:
        """Put the documents that are not there yet, the root last."""
        for name in sorted(documents, key=lambda name: (name == ROOT, name)):
            if self.folder.get(name) != documents[name]:
                self.folder.replace(name, documents[name])

    def discard_packs(self) -> None:
        """Remove the packed files, and the receipts of packs."""
        for name in arrays_in(self.plain):
            Folder(self.path / name).delete("c")
        self.folder.delete(f"{CONTAINER}/packs")

    def discard_blocks(self) -> None:
        """Remove the files of single blocks, and their receipts."""
        for name in arrays_in(self.plain):
            files = Folder(self.path / name)
            files.delete_all(file for file in files.list() if file.startswith(f"c{GROWING}"))
        receipts = receipts_of(self.path)
        singles = [name for name in receipts.single_names() if receipts.pack_of(name)]
        receipts.folder.delete_all(map(receipts.file, singles))


def _pack_files(one: Shards, many: Shards, file: str, sizes: Mapping[str, int]) -> int:
    """Write one file of an array from the files of its blocks (name -> bytes); return its bytes.

    They are 0, and there is no file, where all of the values are fill values.
    """
    if not any(sizes.values()):
        many.folder.clear_way(file)
        return 0
    written: list[int] = []
    with many.folder.writing(file) as private, open(private, "wb") as opened:
        for name, content in zip(sizes, one.folder.map(one.folder.get, sizes), strict=True):
            if len(content or b"") != sizes[name]:
                raise _NotWholeError
            for chunk in _chunks(one, content):
                opened.write(chunk)
                written.append(len(chunk))
        written += [0] * (many.chunks_per_file - len(written))
        opened.write(index_of(written))
        return opened.tell()


def _chunks(shards: Shards, content: bytes | None) -> Sequence[bytes | memoryview]:
    """The encoded chunks of a file; one of fill values only is empty."""
    try:
        return [chunk or b"" for chunk in shards.chunks_in(content)]
    except ValueError as error:
        raise _NotWholeError from error


def plain_documents(path: Place) -> dict[str, bytes]:
    """name -> content of the documents of a cube, as they were before it was packed."""
    found = dict(_documents(Folder(path), ""))
    return {**found, **unpacked_documents(found)}


def _documents(store: Folder, room: str) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the documents of a group and of all in it."""
    content = store.get(f"{room}{ROOT}")
    if content is None:
        return
    yield f"{room}{ROOT}", content
    if json.loads(content)["node_type"] == "group":
        for name in Folder(store.path / room).list():
            yield from _documents(store, f"{room}{name}/")


def _pack_name(span: tuple[int, int]) -> str:
    """The name of the receipts of the blocks start..stop."""
    return f"blocks-{span[0]:08d}-{span[1] - 1:08d}"
