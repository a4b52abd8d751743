"""The files of an array: rows read from them, and one file made of rows, without an event loop.

Zarr sends each chunk of a shard through an event loop and two threads: about a millisecond, several
times the time for its bytes.  A shard that is not exactly as this program writes it is left to
Zarr, which reports its fault.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import DamagedError, MovedFilesError
from dshap.core.places import Place
from dshap.storage.folder import Folder

CRC_BYTES = 4
"""The bytes of the CRC32C behind a chunk, and behind the index of a shard."""
NO_CHUNK = 2**64 - 1
"""The offset, in the index of a shard, of a chunk with fill values only."""
NO_OFFSET = -1
"""`NO_CHUNK` as a signed integer."""
MOVED = "the cube was packed into other files after it was opened: open it again"
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
FIRST = (LITTLE, {"name": "bytes"}, {"name": "vlen-utf8", "configuration": {}})
"""The codecs of numbers, of single bytes and of text."""
TYPES = {"string": "O"}
INDEX_AT_END = {"index_codecs": [LITTLE, {"name": "crc32c"}], "index_location": "end"}
"""The entries about the index of a file; an array without shards is given them too, so that one check
serves both."""
SEPARATORS = ("/", ".")
"""Between the numbers in the name of a file: stores of earlier versions have a folder for each."""


@dataclass(frozen=True)
class Shards:
    """The shards of an array along its first axis: chunks in Zstandard, each with its checksum."""

    folder: Folder
    """The folder of the array."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    """The type of the values in a shard; texts are Python objects."""
    fill: Any
    """The value of chunks that are not stored."""
    shard_rows: int
    """The rows of a file."""
    chunk_rows: int
    is_sharded: bool = True
    """Whether a file contains chunks and their index; else it is one chunk."""
    separator: str = "/"
    _indexes: dict[str, NDArray[np.int64]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """The index of the file of which a part was read last."""

    @property
    def chunks_per_file(self) -> int:
        return self.shard_rows // self.chunk_rows

    def name(self, shard: int) -> str:
        """The name of a file, such as "c.12.0.0"."""
        return self.separator.join(["c", str(shard), *["0"] * (len(self.shape) - 1)])

    def read(self, start: int, stop: int) -> NDArray[Any] | None:
        """The rows start to stop − 1; None if a shard is not as it was written.

        Raises
        ------
        MovedFilesError
            The cube was packed, or unpacked, after the array was opened.
        """
        found = np.full((stop - start, *self.shape[1:]), self.fill, self.dtype)
        for shard in range(start // self.shard_rows, -(-stop // self.shard_rows)):
            if not self._read_shard(shard, start, found):
                return None
        if self.dtype.kind == "O":
            return found.astype(np.dtypes.StringDType())
        return found

    def _read_shard(self, shard: int, start: int, found: NDArray[Any]) -> bool:
        """Put the rows of a shard into their place in rows from `start` on; False if damaged."""
        name = self.name(shard)
        first = shard * self.shard_rows
        last = min(first + self.shard_rows, self.shape[0])
        if start <= first and last <= start + len(found):
            content = self.folder.get(name)
            if not content:
                return self._is_missing(name)
            if not self.is_sharded:
                return self._place(memoryview(content), first - start, found)
            index = index_in(memoryview(content), self.chunks_per_file)
            if index is None:
                return False
            extents = self._extents(index, first - start, len(found))
            return self._place_all(memoryview(content), 0, extents, found)
        index = self._index_of(name)
        if index is None:
            return self._is_missing(name)
        extents = self._extents(index, first - start, len(found))
        if not extents:
            return True
        begin = min(offset for _, offset, _ in extents)
        end = max(offset + size for _, offset, size in extents)
        content = self.folder.part(name, begin, end)
        return self._place_all(memoryview(content), begin, extents, found)

    def _is_missing(self, name: str) -> bool:
        """Whether a file is not stored, so that its rows have the fill value; False if it is damaged."""
        if self.folder.has(name):
            return False
        # Packing names files with another separator: the file may have moved, not been left out.
        now = self.folder.get("zarr.json") or b"{}"
        if separator_of(json.loads(now)) != self.separator:
            raise MovedFilesError(f"{self.folder.place(name)}: {MOVED}")
        return True

    def _index_of(self, name: str) -> NDArray[np.int64] | None:
        """The index of a file (chunk, 2); None if there is none, or it is damaged."""
        if not self.is_sharded:
            size = self.folder.size(name)
            return np.array([[0, size]]) if size else None
        if name not in self._indexes:
            n_bytes = index_bytes(self.chunks_per_file)
            size = self.folder.size(name)
            if size < n_bytes:
                return None
            content = memoryview(self.folder.part(name, size - n_bytes, size))
            found = index_in(content, self.chunks_per_file)
            if found is None:
                return None
            self._indexes.clear()
            self._indexes[name] = found
        return self._indexes[name]

    def _extents(
        self, index: NDArray[np.int64], begin: int, n_rows: int
    ) -> list[tuple[int, int, int]]:
        """(first row, offset, bytes) of the stored chunks of a file that reach into these rows.

        The first row of the file is `begin` in them.
        """
        first = max(-begin // self.chunk_rows, 0)
        # rounded up: the chunk behind the last one that has some of these rows
        last = -((begin - n_rows) // self.chunk_rows)
        return [
            (begin + place * self.chunk_rows, offset, size)
            for place, (offset, size) in enumerate(index[first:last].tolist(), first)
            if offset != NO_OFFSET
        ]

    def _place_all(
        self,
        content: memoryview,
        begin: int,
        extents: Sequence[tuple[int, int, int]],
        found: NDArray[Any],
    ) -> bool:
        """Put chunks into their places; `content` is that of the file from its byte `begin` on."""
        return all(
            self._place(content[offset - begin : offset - begin + size], first, found)
            for first, offset, size in extents
        )

    def _place(self, content: memoryview, begin: int, found: NDArray[Any]) -> bool:
        """Put the rows of a chunk, whose first is `begin` in these rows, there; False if damaged."""
        values = self._chunk(content)
        if values is None:
            return False
        into = found[max(begin, 0) : begin + self.chunk_rows]
        into[...] = values[max(-begin, 0) :][: len(into)]
        return True

    def encoded(self, values: NDArray[Any]) -> bytes | None:
        """One file with these rows; None if all of them are fill values.

        It has the bytes that Zarr writes: a chunk of fill values only is left out, and the last
        file of an array has fill values behind its last row.
        """
        whole = values.astype(self.dtype, copy=False)
        if len(values) < self.shard_rows:
            whole = np.full((self.shard_rows, *self.shape[1:]), self.fill, self.dtype)
            whole[: len(values)] = values
        chunks = whole.reshape(-1, self.chunk_rows, *self.shape[1:])
        return self.file_of([self._encoded_chunk(chunk) for chunk in chunks])

    def file_of(self, chunks: Sequence[bytes | memoryview | None]) -> bytes | None:
        """The file of these encoded chunks; None if all of them are fill values."""
        if all(chunk is None for chunk in chunks):
            return None
        if not self.is_sharded:
            return bytes(chunks[0] or b"")
        stored = [chunk or b"" for chunk in chunks]
        return b"".join([*stored, index_of([*map(len, stored)])])

    def chunks_in(self, content: bytes | None) -> Iterator[memoryview | None]:
        """The encoded chunks of a file, None for each of fill values only.

        Raises
        ------
        ValueError
            A chunk, or the index, differs from its written content.
        """
        if content is None:
            yield from [None] * self.chunks_per_file
            return
        view = memoryview(content)
        index: NDArray[np.int64] | None = np.array([[0, len(view)]])
        if self.is_sharded:
            index = index_in(view, self.chunks_per_file)
        if index is None:
            raise ValueError("its index is not what was written")
        for offset, size in index.tolist():
            if offset == NO_OFFSET:
                yield None
            else:
                chunk = view[offset : offset + size]
                if _checked(chunk) is None:
                    raise ValueError("a chunk is not what was written")
                yield chunk

    def chunks_of(self, shard: int, first: int, n_chunks: int) -> list[bytes | None]:
        """Encoded chunks of a file, from its chunk `first` on; None for each of fill values only.

        Raises
        ------
        ValueError
            The file differs from its written content.
        """
        name = self.name(shard)
        index = self._index_of(name)
        if index is None and self._is_missing(name):
            return [None] * n_chunks
        if index is None:
            raise ValueError(f"{self.folder.place(name)}: its index is not what was written")
        return [
            None if offset == NO_OFFSET else self.folder.part(name, offset, offset + size)
            for offset, size in index[first : first + n_chunks].tolist()
        ]

    def _encoded_chunk(self, values: NDArray[Any]) -> bytes | None:
        """The bytes of a chunk; None if all of it are fill values."""
        from numcodecs import Zstd
        from numcodecs.vlen import VLenUTF8

        if _is_all(values, self.fill):
            return None
        if self.dtype.kind == "O":
            content = VLenUTF8().encode(values.ravel())
        else:
            content = np.ascontiguousarray(values)
        # the level of `ZarrGroup.create`, so that the bytes are those that Zarr writes
        return _with_checksum(Zstd(level=0).encode(content))

    def _chunk(self, content: memoryview) -> NDArray[Any] | None:
        """The rows of a chunk; None if its bytes are not those that were written."""
        from numcodecs import Zstd
        from numcodecs.vlen import VLenUTF8

        checked = _checked(content)
        if checked is None:
            return None
        content = Zstd().decode(checked)
        if self.dtype.kind == "O":
            values = VLenUTF8().decode(content)
        else:
            values = np.frombuffer(content, self.dtype)
        shape = (self.chunk_rows, *self.shape[1:])
        if values.size != math.prod(shape):
            return None
        return values.reshape(shape)


def shards_of(path: Place) -> Shards | None:
    """The shards of the array at `path`; None if its values or codecs are of another kind."""
    folder = Folder(path)
    return shards_by(folder, folder.get("zarr.json") or b"{}")


def shards_by(folder: Folder, content: bytes) -> Shards | None:
    """The shards of an array in this folder with this document, as `shards_of`."""
    document = json.loads(content)
    try:
        dtype = np.dtype(TYPES.get(document["data_type"], document["data_type"]))
        shape = tuple(document["shape"])
        shard = tuple(document["chunk_grid"]["configuration"]["chunk_shape"])
        is_sharded = document["codecs"][0]["name"] == "sharding_indexed"
        if is_sharded:
            inside = document["codecs"][0]["configuration"]
        else:
            inside = {**INDEX_AT_END, "chunk_shape": shard, "codecs": document["codecs"]}
        chunk = tuple(inside["chunk_shape"])
    except (KeyError, TypeError, ValueError):
        return None
    is_by_rows = shape[1:] == shard[1:] == chunk[1:]
    if not is_by_rows or dtype.kind not in "biufO" or not _is_as_written(document, inside):
        return None
    fill = np.array(document["fill_value"]).astype(dtype)
    return Shards(
        folder,
        shape,
        dtype.newbyteorder("<"),
        fill,
        shard[0],
        chunk[0],
        is_sharded,
        separator_of(document),
    )


def known_shards(folder: Folder, content: bytes) -> Shards:
    """The shards of an array in this folder with this document.

    Raises
    ------
    DamagedError
        It is no array as this program creates one.
    """
    found = shards_by(folder, content)
    if found is None:
        raise DamagedError(
            f"{folder.path} is not an array as dshap creates it: dshap verify shows more"
        )
    return found


def separator_of(document: Mapping[str, Any]) -> str:
    """The separator in the names of an array's files, from its document; "/" if it names none."""
    encoding = document.get("chunk_key_encoding", {})
    return str(encoding.get("configuration", {}).get("separator", "/"))


def index_bytes(n_chunks: int) -> int:
    """The bytes of the index of a file, with its checksum."""
    return 16 * n_chunks + CRC_BYTES


def index_in(content: memoryview, n_chunks: int) -> NDArray[np.int64] | None:
    """The index (chunk, 2) at the end of a file: offsets and bytes; None if it is damaged."""
    index = _checked(content[-index_bytes(n_chunks) :])
    if index is None or len(index) != 16 * n_chunks:
        return None
    return np.frombuffer(index, "<i8").reshape(-1, 2)


def index_of(sizes: Sequence[int]) -> bytes:
    """The index of a file of chunks of so many bytes, one after the other, with its checksum.

    A chunk of 0 bytes is not stored: it has fill values only.
    """
    ends = np.cumsum(sizes)
    index = np.full((len(sizes), 2), NO_CHUNK, "<u8")
    for place in np.flatnonzero(sizes).tolist():
        index[place] = ends[place] - sizes[place], sizes[place]
    return _with_checksum(index.tobytes())


def _is_as_written(document: Mapping[str, Any], inside: Mapping[str, Any]) -> bool:
    """Whether the codecs of an array are those that this program creates arrays with."""
    return bool(
        document["chunk_key_encoding"]["name"] == "default"
        and separator_of(document) in SEPARATORS
        and inside["codecs"][0] in FIRST
        and [each["name"] for each in inside["codecs"][1:]] == ["zstd", "crc32c"]
        and inside["index_codecs"] == [LITTLE, {"name": "crc32c"}]
        and inside["index_location"] == "end"
    )


def _is_all(values: NDArray[Any], fill: Any) -> bool:
    """Whether all of these values are the fill value, NaN among them."""
    is_fill = values == fill
    if values.dtype.kind == "f":
        is_fill |= np.isnan(values) & np.isnan(fill)
    return bool(is_fill.all())


def _with_checksum(content: bytes) -> bytes:
    return content + google_crc32c.value(content).to_bytes(CRC_BYTES, "little")


def _checked(content: memoryview) -> memoryview | None:
    """Bytes without the checksum at their end; None if it is not theirs."""
    body = content[:-CRC_BYTES]
    if (
        google_crc32c.value(np.frombuffer(body, np.uint8)).to_bytes(CRC_BYTES, "little")
        != content[-CRC_BYTES:]
    ):
        return None
    return body
