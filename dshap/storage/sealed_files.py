"""Create-only files beside the arrays: receipts and prepared states.

A file is written privately and then linked under its name (`Folder.put_new`), so that it is either
whole or missing, whichever process dies.  The second writer of a name leaves the first file as it
is.

Each file carries a seal, a digest of its content and of the name that it was made for: a file that
was altered, cut or renamed is recognised when it is read.  In an .npz file the seal is the comment
of the archive, in a record the entry `seal`.
"""

from __future__ import annotations

import contextlib
import math
import os
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from dshap.core.errors import DamagedError
from dshap.core.places import Place
from dshap.core.records import Record
from dshap.storage.folder import Folder
from dshap.storage.seals import (
    ALTERED,
    PIECE_BYTES,
    SEAL_BYTES,
    begun_seal,
    record_in,
    sealed_record,
)

HEADERS: Mapping[tuple[int, int], Callable[..., Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Version of the header of a .npy array -> the function that reads it."""
NO_FILE = "there is no file, but a folder or a link that leads nowhere"


class CreateOnlyFolder(ABC):
    """A folder of files of one kind, each written once under its name, with a seal."""

    suffix: str

    def __init__(self, path: str | Place) -> None:
        self.folder = Folder(path)

    def file(self, name: str) -> str:
        """The name of a file in the folder."""
        return f"{name}{self.suffix}"

    def has(self, name: str) -> bool:
        """Whether an entry of this name exists, even a link that leads nowhere."""
        return self.home(name).has(self.file(name))

    def names(self) -> Iterator[str]:
        """The names of the whole files; a half-written one begins with a dot and is left out."""
        for file in self.folder.list():
            if file.endswith(self.suffix):
                yield file.removesuffix(self.suffix)

    def times(self) -> dict[str, float]:
        """Name -> time at which a file was written, in seconds since 1970."""
        return {
            file.removesuffix(self.suffix): at
            for file, at in self.folder.times().items()
            if file.endswith(self.suffix)
        }

    def remove(self, name: str) -> None:
        self.folder.delete(self.file(name))

    def home(self, name: str) -> Folder:
        """The folder with the file of this name."""
        return self.folder

    @abstractmethod
    def damage(self, name: str) -> str | None:
        """The fault of the file of this name, in words; None if it is whole."""

    def is_whole(self, name: str) -> bool:
        return self.damage(name) is None

    def faults(self, names: Iterable[str]) -> Iterator[tuple[str, str | None]]:
        """(name, `damage`) of these files, in their order."""
        return self.folder.map(lambda name: (name, self.damage(name)), names)

    def mend(self, names: Iterable[str] | None = None) -> list[str]:
        """Remove those of these files that are damaged, and return their names.

        The next run makes them again.  None means all files of the folder.
        """
        if names is None:
            chosen = self.names()
        else:
            chosen = (name for name in names if self.has(name))
        damaged = [name for name, fault in self.faults(chosen) if fault]
        for name in damaged:
            self.remove(name)
        return damaged

    def refuse_damaged(self, name: str) -> None:
        """Raise a `DamagedError` if the file of this name is not whole."""
        if what := self.damage(name):
            raise self._damaged(name, what)

    def _damaged(self, name: str, what: str) -> DamagedError:
        """The error about the file of this name, which has a fault."""
        return DamagedError(
            f"{self.home(name).place(self.file(name))} is damaged ({what}): run the same command "
            "again, or dshap.prepare for a prepared store, to make it again; dshap verify lists "
            "all damage"
        )


class ReceiptFolder(CreateOnlyFolder):
    """A folder of small records of text and numbers, stored as JSON."""

    suffix = ".json"

    def put(self, name: str, content: dict[str, Any]) -> bool:
        """Store a record; return False if one of this name exists (it is left as it is)."""
        return self.folder.put_new(self.file(name), sealed_record(name, content))

    def put_over(self, name: str, content: dict[str, Any]) -> None:
        """Store a record in place of one of this name."""
        self.folder.replace(self.file(name), sealed_record(name, content))

    def get(self, name: str) -> dict[str, Any]:
        """The record of this name.

        Raises
        ------
        DamagedError
            Its content differs from the content written under this name.
        """
        stored = self.folder.get(self.file(name))
        if what := self._fault(name, stored):
            raise self._damaged(name, what)
        return record_in(stored)

    def whole(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(name, content) of the records that are whole."""
        for name, content in self.whole_ones(self.names()):
            if content is not None:
                yield name, content

    def whole_ones(self, names: Iterable[str]) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """(name, `whole_one`) of these records, in their order."""
        return self.folder.map(lambda name: (name, self.whole_one(name)), names)

    def whole_one(self, name: str) -> dict[str, Any] | None:
        """The record of this name, or None if it is missing or damaged."""
        stored = self.folder.get(self.file(name))
        try:
            content = record_in(stored)
        except (ValueError, TypeError):
            return None
        if stored == sealed_record(name, content):
            return content
        return None

    def damage(self, name: str) -> str | None:
        return self._fault(name, self.folder.get(self.file(name)))

    def _fault(self, name: str, stored: bytes | None) -> str | None:
        """The fault of the file under this name; None if it is whole."""
        if stored is None:
            return NO_FILE
        try:
            is_same = stored == sealed_record(name, record_in(stored))
        except (ValueError, TypeError):
            return "it is not a record of names and values"
        if is_same:
            return None
        return ALTERED

    def looked_at(self, name: str) -> tuple[dict[str, Any] | None, str | None]:
        """(record, `damage`) of this name: without a check of its seal, None if it is no record."""
        stored = self.folder.get(self.file(name))
        fault = self._fault(name, stored)
        try:
            return record_in(stored), fault
        except (ValueError, TypeError):
            return None, fault

    def holds(self, name: str, content: dict[str, Any]) -> bool:
        """Whether the file is whole and its record equals `content`."""
        return self.folder.get(self.file(name)) == sealed_record(name, content)


class StateFolder(CreateOnlyFolder):
    """A folder of records of arrays, as .npz files that `numpy.load` opens without pickle.

    Parameters
    ----------
    path : folder that is written
    prepared : a second folder, which is searched first and never written
    """

    suffix = ".npz"

    def __init__(self, path: str | Place, prepared: str | Place | None = None) -> None:
        super().__init__(path)
        if prepared is None:
            self.prepared = None
        else:
            self.prepared = Folder(prepared)

    def home(self, name: str) -> Folder:
        """The folder with the file of this name."""
        if self.prepared is not None and self.prepared.has_file(self.file(name)):
            return self.prepared
        return self.folder

    def put(self, name: str, record: Record) -> None:
        """Store a record as an .npz file, with the seal as the comment of its archive.

        An .npz file ends with the length of its comment, which is 0 before the seal is added.
        """
        content = memoryview(record.to_bytes())[:-2]
        length = SEAL_BYTES.to_bytes(2, "little")
        sealing = begun_seal(name)
        sealing.update(content)
        sealing.update(length)
        self.folder.put_new(self.file(name), content, length, sealing.digest())

    def get(self, name: str, kind: type[Record]) -> Any:
        """The record of this name, as an instance of `kind`.

        Raises
        ------
        DamagedError
            Its content differs from the content written under this name.
        """
        content = self._opened(name)
        if content is None:
            raise self._damaged(name, NO_FILE)
        with content:
            if what := _fault_of(content, name):
                raise self._damaged(name, what)
            content.seek(0)
            return kind.load(content)

    def damage(self, name: str) -> str | None:
        content = self._opened(name)
        if content is None:
            return NO_FILE
        with content:
            return _fault_of(content, name)

    def _opened(self, name: str) -> BinaryIO | None:
        """The file of this name, opened to be read; None if there is none."""
        for home in filter(None, (self.prepared, self.folder)):
            with contextlib.suppress(FileNotFoundError):
                return home.open(self.file(name))
        return None


def _fault_of(content: BinaryIO, name: str) -> str | None:
    """The fault of an opened .npz file, in words; None if it is whole."""
    size = content.seek(0, os.SEEK_END)
    content.seek(0)
    if _is_sealed(content, size, name):
        return _oversized(content, size)
    return ALTERED


def _is_sealed(content: BinaryIO, size: int, name: str) -> bool:
    """Whether the .npz file ends with the seal of its content and name; it is read in pieces."""
    sealing = begun_seal(name)
    left = size - SEAL_BYTES
    while left > 0 and (piece := content.read(min(left, PIECE_BYTES))):
        sealing.update(piece)
        left -= len(piece)
    return left == 0 and content.read() == sealing.digest()


def _oversized(content: BinaryIO, size: int) -> str | None:
    """The fault of the entries of a sealed .npz file, in words; None if there is none.

    Only headers are read.  A seal shows that a file was not altered, not its author: entries that
    are compressed, or claim to contain more than the file, could need unplanned memory.
    """
    said = 0
    try:
        with zipfile.ZipFile(content) as archive:
            for entry in archive.infolist():
                if entry.compress_type != zipfile.ZIP_STORED:
                    return (
                        f"its entry {entry.filename!r} is compressed, and dshap writes no "
                        "compressed entries"
                    )
                said += _said_bytes(archive, entry)
                if said > size:
                    return f"its entry {entry.filename!r} states more bytes than the file has ({size:,})"
    except (ValueError, zipfile.BadZipFile):
        return "it is not a record of arrays"
    return None


def _said_bytes(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    """The bytes of an array, from the shape and dtype in the header of its entry."""
    with archive.open(entry) as content:
        version = np.lib.format.read_magic(content)
        read = HEADERS.get(version)
        if read is None:
            raise ValueError(f"a header of version {version}")
        shape, _, dtype = read(content)
    return math.prod(shape) * dtype.itemsize
