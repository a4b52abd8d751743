"""The files of a store by their names: put once, read, listed and deleted, whoever dies when.

All of `cube/` but Zarr's own reading and writing of arrays goes through a `Folder`.  A name is a
text such as "state/plan.json", never a path.  A visible name stands for content that a power cut
does not undo: first the content is synced, then the name is given, then the folder that holds the
name is synced.  What a killed process left unfinished has names of its own, which are told and
cleared here.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from dshap.core.disk import make_folder, sync

ORPHAN = re.compile(
    r"\.([\w-]+\.(npz|json)|\d+|current)\.[0-9a-f]{12}|([\w-]+)\.[0-9a-f]{32}\.partial"
)
"""The names of unfinished files: those of `Folder.put_new`, and Zarr's of a chunk or document."""


def is_free(path: Path) -> bool:
    """Whether a store can be made here: nothing is there, or an empty folder."""
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


def clear_orphans(path: Path, older_s: float = 0.0) -> tuple[str, ...]:
    """Remove what a killed run left unfinished in the store at `path`; give the names.

    Only the holder of the store's lock may ask for files of any age.  Where others may be writing,
    give `older_s`, longer than anybody takes to finish a file.  Links and files of others are
    left.
    """
    folder = Folder(path)
    orphans = tuple(folder.unfinished(older_s))
    for name in orphans:
        folder.delete(name)
    return orphans


def private_folder(path: Path) -> Path:
    """A random name beside `path` for a folder that is renamed to `path` once it is whole."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.new")


def clear_private_folders(path: Path) -> None:
    """Remove the private folders of `path` that a killed run left behind, and no others."""
    if not path.parent.is_dir():
        return
    own = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{12}}\.new")
    with os.scandir(path.parent) as entries:
        for entry in entries:
            is_own = own.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            if is_own and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                shutil.rmtree(entry.path, ignore_errors=True)


class Folder:
    """The files of a store, or of one of its rooms, in a folder of this file system.

    Parameters
    ----------
    path : path of the folder, which need not exist
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def place(self, name: str) -> str:
        """The place of a file in messages."""
        return str(self.path / name)

    def put_new(self, name: str, *data: bytes | memoryview) -> bool:
        """Create a file in one step; return False, changing nothing, if the name is taken.

        A file or a link in the place of the folder is removed.
        """
        path = self.path / name
        _make_way_for_folder(self.path)
        with _private_file(path, *data) as private:
            try:
                os.link(private, path)
            except FileExistsError:
                return False
        sync([path.parent])
        return True

    def clear_way(self, name: str) -> None:
        """Remove what stands under a name, and any file where a room above it should be."""
        path = self.path / name
        for parent in reversed(path.parents):
            if parent.is_relative_to(self.path):
                _make_way_for_folder(parent)
        _remove(path)

    def replace(self, name: str, content: bytes) -> None:
        """Put this content under a name in one step, whatever stood there or above it."""
        if not self.has_file(name):
            self.clear_way(name)
        path = self.path / name
        with _private_file(path, content) as private:
            os.replace(private, path)
        sync([path.parent])

    def get(self, name: str) -> bytes | None:
        """The content of a file; None if there is none, or a folder or broken link in its place."""
        try:
            return (self.path / name).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None

    def open(self, name: str) -> BinaryIO:
        """A file opened to be read in pieces."""
        return open(self.path / name, "rb")

    def delete(self, name: str) -> None:
        """Remove what stands under a name: the file, a link, or a folder in its place."""
        _remove(self.path / name)

    def has(self, name: str) -> bool:
        """Whether anything stands under this name, even a link that leads nowhere."""
        return os.path.lexists(self.path / name)

    def has_file(self, name: str) -> bool:
        """Whether a file can be read under this name."""
        return (self.path / name).is_file()

    def has_room(self, name: str = "") -> bool:
        """Whether a room of this name is there; without a name, whether this folder is."""
        return (self.path / name).is_dir()

    def size(self, name: str) -> int:
        """The bytes of a file; 0 if there is no regular file."""
        try:
            found = os.stat(os.path.join(self.path, name))
        except (FileNotFoundError, NotADirectoryError):
            return 0
        if stat.S_ISREG(found.st_mode):
            return found.st_size
        return 0

    def list(self) -> list[str]:
        """The sorted names of the files and rooms right here; unfinished and hidden ones are left out."""
        if not self.has_room():
            return []
        return sorted(name for name in os.listdir(self.path) if not name.startswith("."))

    def tree(self) -> Iterator[str]:
        """The sorted names of all files, in rooms too."""
        for file in sorted(self.path.rglob("*")):
            if file.is_file():
                yield str(file.relative_to(self.path))

    def sync(self, names: Iterable[str]) -> None:
        """Return once these files, and the names of the rooms above them, are on disk."""
        files = [self.path / name for name in names]
        rooms = [room for file in files for room in file.parents if self.path in room.parents]
        sync([*files, *rooms])

    def unfinished(self, older_s: float = 0.0) -> Iterator[str]:
        """The names of unfinished files of this user, in rooms too; links are not followed.

        Files that were written less than `older_s` ago are left out.
        """
        newest = time.time() - older_s
        for room, _, files in os.walk(self.path):
            for name in filter(ORPHAN.fullmatch, files):
                file = Path(room, name)
                found = file.lstat()
                is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
                if is_own and (not older_s or found.st_mtime < newest):
                    yield str(file.relative_to(self.path))


@contextlib.contextmanager
def _private_file(path: Path, *data: bytes | memoryview) -> Iterator[Path]:
    """A synced file with this content beside `path`, under a random name; removed afterwards."""
    private = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")
    make_folder(path.parent)
    try:
        with open(private, "xb") as file:
            for part in data:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        yield private
    finally:
        private.unlink(missing_ok=True)


def _make_way_for_folder(path: Path) -> None:
    """Remove a file or link that stands where a folder should be.

    A folder is left, whoever makes it meanwhile: it may hold the files of another thread.
    """
    if os.path.lexists(path) and not path.is_dir():
        try:
            path.unlink(missing_ok=True)
        except (IsADirectoryError, PermissionError):
            if not path.is_dir():
                raise


def _remove(path: Path) -> None:
    """Remove what stands under the name of a file: the file, a link, or a folder in its place."""
    try:
        path.unlink(missing_ok=True)
    except (IsADirectoryError, PermissionError):
        if not path.is_dir() or path.is_symlink():
            raise
        shutil.rmtree(path)
