"""The files of an array: rows read from them, and one file made of rows, without an event loop.

Zarr sends each chunk of a shard through an event loop and two threads: about a millisecond, several
times what its bytes take.  A shard that is not exactly as this program writes it is left to Zarr,
which says what is wrong with it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from dshap.core.places import Place
from dshap.storage.folder import Folder

CRC_BYTES = 4
"""The bytes of the CRC32C behind a chunk, and behind the index of a shard."""
NO_CHUNK = 2**64 - 1
"""The offset, in the index of a shard, of a chunk that holds fill values only."""
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
FIRST = (LITTLE, {"name": "bytes"}, {"name": "vlen-utf8", "configuration": {}})
"""The codecs of numbers, of single bytes and of text."""
TYPES = {"string": "O"}
WHOLE_FILES = {"index_codecs": [LITTLE, {"name": "crc32c"}], "index_location": "end"}
"""The index that an array without shards is given, so that one check serves both."""
SEPARATORS = ("/", ".")
"""Between the numbers in the name of a file: stores of earlier versions have a folder for each."""


@dataclass(frozen=True)
class Shards:
    """The shards of an array along its first axis: chunks in Zstandard, each with its checksum."""

    folder: Folder
    """The folder of the array."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    """The type of the values in a shard: of text that of Python's objects."""
    fill: Any
    """The value of what is not stored."""
    shard_rows: int
    """The rows of a file."""
    chunk_rows: int
    is_sharded: bool = True
    """Whether a file holds chunks and their index; else it is one chunk."""
    separator: str = "/"

    def name(self, shard: int) -> str:
        """The name of a file, such as "c.12.0.0"."""
        return self.separator.join(["c", str(shard), *["0"] * (len(self.shape) - 1)])

    def read(self, start: int, stop: int) -> NDArray[Any] | None:
        """The rows start to stop − 1; None where a shard is not as it was written."""
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
        content = memoryview(self.folder.get(name) or b"")
        if not content:
            return not self.folder.has(name)
        first = shard * self.shard_rows
        if not self.is_sharded:
            return self._place(content, first - start, found)
        n_chunks = self.shard_rows // self.chunk_rows
        index = _checked(content[-(16 * n_chunks + CRC_BYTES) :])
        if index is None or len(index) != 16 * n_chunks:
            return False
        for place, (offset, size) in enumerate(np.frombuffer(index, "<u8").reshape(-1, 2).tolist()):
            begin = first + place * self.chunk_rows - start
            if offset == NO_CHUNK or begin >= len(found) or begin + self.chunk_rows <= 0:
                continue
            if not self._place(content[offset : offset + size], begin, found):
                return False
        return True

    def _place(self, content: memoryview, begin: int, found: NDArray[Any]) -> bool:
        """Put the rows of a chunk, whose first is `begin` in these rows, there; False if damaged."""
        values = self._chunk(content)
        if values is None:
            return False
        into = found[max(begin, 0) : begin + self.chunk_rows]
        into[...] = values[max(-begin, 0) :][: len(into)]
        return True

    def encoded(self, values: NDArray[Any]) -> bytes | None:
        """One file that holds these rows; None where all of them are fill values.

        It has the bytes that Zarr writes: a chunk of fill values only is left out, and the last
        file of an array has fill values behind its last row.
        """
        whole = values.astype(self.dtype, copy=False)
        if len(values) < self.shard_rows:
            whole = np.full((self.shard_rows, *self.shape[1:]), self.fill, self.dtype)
            whole[: len(values)] = values
        chunks = whole.reshape(-1, self.chunk_rows, *self.shape[1:])
        parts = [self._encoded_chunk(chunk) for chunk in chunks]
        if all(part is None for part in parts):
            return None
        if not self.is_sharded:
            return parts[0]
        sizes = [len(part or b"") for part in parts]
        ends = np.cumsum(sizes)
        index = np.full((len(parts), 2), NO_CHUNK, "<u8")
        for place, part in enumerate(parts):
            if part is not None:
                index[place] = ends[place] - sizes[place], sizes[place]
        return b"".join([*filter(None, parts), _with_checksum(index.tobytes())])

    def _encoded_chunk(self, values: NDArray[Any]) -> bytes | None:
        """The bytes of a chunk; None where all of it are fill values."""
        from numcodecs import Zstd
        from numcodecs.vlen import VLenUTF8

        if _is_all(values, self.fill):
            return None
        if self.dtype.kind == "O":
            content = VLenUTF8().encode(values.ravel())
        else:
            content = np.ascontiguousarray(values)
        return _with_checksum(Zstd(level=0).encode(content))

    def _chunk(self, content: memoryview) -> NDArray[Any] | None:
        """The rows of a chunk; None where its bytes are not those that were written."""
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
    """The shards of the array at `path`; None where its values or codecs are of another kind."""
    folder = Folder(path)
    document = json.loads(folder.get("zarr.json") or b"{}")
    try:
        dtype = np.dtype(TYPES.get(document["data_type"], document["data_type"]))
        shape = tuple(document["shape"])
        shard = tuple(document["chunk_grid"]["configuration"]["chunk_shape"])
        is_sharded = document["codecs"][0]["name"] == "sharding_indexed"
        if is_sharded:
            inside = document["codecs"][0]["configuration"]
        else:
            inside = {**WHOLE_FILES, "chunk_shape": shard, "codecs": document["codecs"]}
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


def separator_of(document: Mapping[str, Any]) -> str:
    """The separator in the names of an array's files, from its document."""
    return str(document["chunk_key_encoding"]["configuration"]["separator"])


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
    """Bytes without the checksum at their end; None where it is not theirs."""
    body = content[:-CRC_BYTES]
    if (
        google_crc32c.value(np.frombuffer(body, np.uint8)).to_bytes(CRC_BYTES, "little")
        != content[-CRC_BYTES:]
    ):
        return None
    return body
