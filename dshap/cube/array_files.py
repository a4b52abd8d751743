"""Arrays in .npy files of a store: written whole, read whole or in part, on a disk or in a bucket."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dshap.core.buckets import range_of, whole_object
from dshap.core.places import Place, is_bucket
from dshap.core.seals import digest_of_content
from dshap.cube.folder import Folder

HEAD_BYTES = 128
"""Bytes before the values of an array of one axis and of numbers, as numpy writes it."""


def save_array(file: Place, values: NDArray[Any]) -> str:
    """Write an array in one step that a power cut keeps; return the digest of the file."""
    written = io.BytesIO()
    np.save(written, values)
    content = written.getvalue()
    Folder(file.parent).replace(file.name, content)
    return digest_of_content(content)


def load_array(file: Place) -> NDArray[Any]:
    """All of an array; on a disk it is mapped, not read."""
    found: NDArray[Any]
    if not is_bucket(file):
        found = np.load(file, mmap_mode="r")
        return found
    content = whole_object(file)
    if content is None:
        raise FileNotFoundError(str(file))
    found = np.load(io.BytesIO(content))
    return found


def rows_of_array(file: Place, start: int, stop: int) -> NDArray[Any]:
    """The entries start..stop of an array of one axis; of an object only these are fetched."""
    if not is_bucket(file):
        return np.array(np.load(file, mmap_mode="r")[start:stop])
    head = io.BytesIO(range_of(file, 0, HEAD_BYTES))
    npy.read_magic(head)
    _, _, dtype = npy.read_array_header_1_0(head)
    if start == stop:
        return np.zeros(0, dtype)
    first = head.tell()
    size = dtype.itemsize
    content = range_of(file, first + start * size, first + stop * size)
    return np.frombuffer(content, dtype)
