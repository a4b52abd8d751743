"""Arrays of one axis in .npy files of a store, on a disk or in a bucket: written and read in parts."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from dshap.core.places import Place
from dshap.core.rows import spans
from dshap.storage.folder import Folder
from dshap.storage.seals import begun_digest

HEAD_BYTES = 128
"""Bytes before the values of an array of one axis and of numbers, as numpy writes it."""
ENTRIES_AT_ONCE = 1 << 18
"""Entries of an array that are in memory at once: 2 MiB of 64 bits each."""


class ArrayWriter:
    """An array of one axis that is written part by part.

    Parameters
    ----------
    written : a new file
    n_entries : the number of entries that will have been written at the end
    """

    def __init__(self, written: BinaryIO, n_entries: int, dtype: np.dtype[Any]) -> None:
        self._written = written
        self._dtype = dtype
        self._digest = begun_digest()
        head = io.BytesIO()
        form = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": (n_entries,)}
        npy.write_array_header_1_0(head, form)
        self._add(head.getvalue())

    def write(self, part: NDArray[Any]) -> None:
        """Add entries."""
        self._add(np.ascontiguousarray(part, self._dtype).tobytes())

    @property
    def digest(self) -> str:
        """The digest of the bytes of the file so far."""
        return self._digest.hexdigest()

    def _add(self, content: bytes) -> None:
        self._written.write(content)
        self._digest.update(content)


@contextlib.contextmanager
def writing_array(file: Place, n_entries: int, dtype: DTypeLike) -> Iterator[ArrayWriter]:
    """Write an array part by part.

    The file gets its name once the block ends, in one step that survives a power cut.
    """
    with Folder(file.parent).writing(file.name) as private, private.open("wb") as written:
        yield ArrayWriter(written, n_entries, np.dtype(dtype))


def form_of_array(file: Place) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and the dtype of an array; its values are not read.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        It is no array.
    """
    shape, dtype, _ = _head_of(file)
    return shape, dtype


def rows_of_array(file: Place, start: int, stop: int) -> NDArray[Any]:
    """The entries start..stop of an array of one axis; only these are read.

    Raises
    ------
    ValueError
        The file ends before.
    """
    _, dtype, first = _head_of(file)
    size = dtype.itemsize
    content = Folder(file.parent).part(file.name, first + start * size, first + stop * size)
    if len(content) != (stop - start) * size:
        raise ValueError(f"{file} ends before entry {stop}")
    return np.frombuffer(content, dtype)


def parts_of_array(file: Place) -> Iterator[NDArray[Any]]:
    """Yield an array of one axis in parts, in order."""
    (n_entries,), _ = form_of_array(file)
    for start, stop in spans(0, n_entries, ENTRIES_AT_ONCE):
        yield rows_of_array(file, start, stop)


def entries_of_array(file: Place, positions: NDArray[np.int64]) -> NDArray[Any]:
    """The entries (n,) at these positions, in any order; few entries are in memory at once."""
    _, dtype = form_of_array(file)
    found = np.zeros(len(positions), dtype)
    if not len(positions):
        return found
    parts = positions // ENTRIES_AT_ONCE
    for part in np.unique(parts):
        is_here = parts == part
        here = positions[is_here]
        first = int(here.min())
        found[is_here] = rows_of_array(file, first, int(here.max()) + 1)[here - first]
    return found


def _head_of(file: Place) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """The shape and dtype of an array, and the bytes before its values."""
    head = io.BytesIO(Folder(file.parent).part(file.name, 0, HEAD_BYTES))
    npy.read_magic(head)
    shape, _, dtype = npy.read_array_header_1_0(head)
    return shape, dtype, head.tell()
