"""Create-only files beside the arrays: receipts and prepared states.

A file is written privately and then linked under its name (`disk.write_new`), so that it is whole
or not there, whoever dies when; the second writer of a name finds it taken and leaves it as it is.

Each carries a seal, a digest of its content and of the name that it was made for: a file that was
altered, cut or put under another name is known when it is read.  In an .npz file the seal is the
comment of the archive, in a record the entry `seal`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dshap.core.errors import DamagedError
from dshap.core.records import Record
from dshap.cube.disk import read_file, remove_file, write_new

__all__ = ["CreateOnlyFolder", "ReceiptFolder", "StateFolder"]

SEAL = "seal"
SEAL_BYTES = 16
PIECE_BYTES = 1 << 20
"""Of a file that is read to be checked."""
ALTERED = "its content is not what was written under this name"
HEADERS: Mapping[tuple[int, int], Callable[..., Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Version of an array's header -> what reads it."""
NO_FILE = "there is no file, but a folder or a link that leads nowhere"


def _sealing(name: str) -> hashlib.blake2b:
    """The digest that a content is added to, begun with the name."""
    return hashlib.blake2b(f"{name}:".encode(), digest_size=SEAL_BYTES)


class CreateOnlyFolder(ABC):
    """Files of one kind by name, each written once and sealed."""

    suffix: str

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def file(self, name: str) -> Path:
        return self.path / f"{name}{self.suffix}"

    def has(self, name: str) -> bool:
        """Something stands under this name, be it a link that leads nowhere."""
        return os.path.lexists(self.file(name))

    def names(self) -> Iterator[str]:
        """Names of the whole files; what a crash left half-written begins with a dot and is
        none."""
        if self.path.is_dir():
            for entry in sorted(os.scandir(self.path), key=lambda entry: entry.name):
                if entry.name.endswith(self.suffix) and not entry.name.startswith("."):
                    yield entry.name[: -len(self.suffix)]

    def remove(self, name: str) -> None:
        remove_file(self.file(name))

    def _write(self, name: str, *data: bytes | memoryview) -> bool:
        """Create the file of this name; a file or a link in the place of the folder goes."""
        if not self.path.is_dir():
            remove_file(self.path)
        return write_new(self.file(name), *data)

    @abstractmethod
    def damage(self, name: str) -> str | None:
        """What is wrong with the file of this name; None where it is whole."""

    def is_whole(self, name: str) -> bool:
        return self.has(name) and self.damage(name) is None

    def mend(self, names: Iterable[str] | None = None) -> list[str]:
        """Remove the damaged ones of these files (all where None), so that they are made again;
        gives their names."""
        if names is None:
            chosen = self.names()
        else:
            chosen = (name for name in names if self.has(name))
        damaged = [name for name in chosen if self.damage(name)]
        for name in damaged:
            self.remove(name)
        return damaged

    def refuse_damaged(self, name: str) -> None:
        """A `DamagedError` where the file is not whole."""
        if what := self.damage(name):
            raise DamagedError(
                f"{self.file(name)} is damaged ({what}): run the same again, or dshap.prepare "
                "where it lies in a "
                "prepared store, and it is made again; dshap verify names all that is damaged"
            )


class ReceiptFolder(CreateOnlyFolder):
    """Small records of text and numbers, as JSON."""

    suffix = ".json"

    def put(self, name: str, content: dict[str, Any]) -> bool:
        """False where there is one of this name: it is left as it is."""
        return self._write(name, self._sealed(name, content))

    def get(self, name: str) -> dict[str, Any]:
        """The record.

        Raises
        ------
        DamagedError
            It is not what was written under this name.
        """
        self.refuse_damaged(name)
        return self.content(name)

    def whole(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Name and content of those that are whole."""
        found = ((name, self.whole_one(name)) for name in self.names())
        return ((name, content) for name, content in found if content is not None)

    def whole_one(self, name: str) -> dict[str, Any] | None:
        """The record of this name, where it is there and whole."""
        stored = read_file(self.file(name))
        try:
            content = dict(json.loads(stored or b""))
        except (ValueError, TypeError):
            return None
        content.pop(SEAL, None)
        if stored == self._sealed(name, content):
            return content
        return None

    def damage(self, name: str) -> str | None:
        stored = read_file(self.file(name))
        if stored is None:
            return NO_FILE
        try:
            is_same = stored == self._sealed(name, self.content(name))
        except (ValueError, TypeError):
            return "it is no record of names and values"
        if is_same:
            return None
        return ALTERED

    def content(self, name: str) -> dict[str, Any]:
        """The record, not checked."""
        content = dict(json.loads(self.file(name).read_bytes()))
        content.pop(SEAL, None)
        return content

    def holds(self, name: str, content: dict[str, Any]) -> bool:
        """The file is whole, and its record is this one."""
        return read_file(self.file(name)) == self._sealed(name, content)

    @staticmethod
    def _sealed(name: str, content: dict[str, Any]) -> bytes:
        sealing = _sealing(name)
        sealing.update(json.dumps(content, sort_keys=True).encode())
        return json.dumps({**content, SEAL: sealing.hexdigest()}, sort_keys=True).encode()


class StateFolder(CreateOnlyFolder):
    """Records of arrays by name, as .npz files that `numpy.load` opens without pickle.

    Parameters
    ----------
    path : folder that is written
    prepared : a second folder, which is looked in first and never written
    """

    suffix = ".npz"

    def __init__(self, path: str | Path, prepared: str | Path | None = None) -> None:
        super().__init__(path)
        if prepared is None:
            self.prepared = None
        else:
            self.prepared = Path(prepared)

    def file(self, name: str) -> Path:
        file = self.path / f"{name}{self.suffix}"
        if self.prepared is not None and (self.prepared / file.name).exists():
            return self.prepared / file.name
        return file

    def remove(self, name: str) -> None:
        remove_file(self.path / f"{name}{self.suffix}")

    def put(self, name: str, record: Record) -> None:
        """The .npz file, which ends with the length of its comment, 0: the seal is written as that
        comment."""
        content = memoryview(record.to_bytes())[:-2]
        length = SEAL_BYTES.to_bytes(2, "little")
        sealing = _sealing(name)
        sealing.update(content)
        sealing.update(length)
        self._write(name, content, length, sealing.digest())

    def get(self, name: str, kind: type[Record]) -> Any:
        """The record.

        Raises
        ------
        DamagedError
            It is not what was written under this name.
        """
        self.refuse_damaged(name)
        return kind.load(self.file(name))

    def damage(self, name: str) -> str | None:
        file = self.file(name)
        if not file.is_file():
            return NO_FILE
        if _is_sealed(file, name):
            return _oversized(file)
        return ALTERED


def _is_sealed(file: Path, name: str) -> bool:
    """The .npz file ends with the seal of its content under this name; read piece by piece."""
    sealing = _sealing(name)
    with open(file, "rb") as content:
        left = os.fstat(content.fileno()).st_size - SEAL_BYTES
        while left > 0 and (piece := content.read(min(left, PIECE_BYTES))):
            sealing.update(piece)
            left -= len(piece)
        return left == 0 and content.read() == sealing.digest()


def _oversized(file: Path) -> str | None:
    """Say what is wrong with the entries of a sealed .npz file, from their headers alone: none is
    loaded for it.

    A seal says that a file was not altered, not who made it: entries that are compressed, or that
    say that they hold more than the file, would take memory that nobody planned.
    """
    size = file.stat().st_size
    said = 0
    try:
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                if entry.compress_type != zipfile.ZIP_STORED:
                    return f"its entry {entry.filename!r} is compressed, which dshap writes none"
                said += _said_bytes(archive, entry)
                if said > size:
                    return f"its entry {entry.filename!r} says that it holds more than the whole file ({size:,} bytes)"
    except (ValueError, zipfile.BadZipFile):
        return "it is no record of arrays"
    return None


def _said_bytes(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    """Bytes of the array that an entry says it holds."""
    with archive.open(entry) as content:
        version = np.lib.format.read_magic(content)
        read = HEADERS.get(version)
        if read is None:
            raise ValueError(f"a header of version {version}")
        shape, _, dtype = read(content)
    return math.prod(shape) * dtype.itemsize
