"""The calls of the file system that a store makes: files that are whole and synced, and folders.

A visible name stands for content that a power cut does not undo: first the content is synced, then
the name is given, then the folder that holds the name is synced.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dshap.core.errors import InputError

SYNC_THREADS = 8
"""Number of syncs that run at once: the file system then writes its journal once for all of them.

The 42 syncs of a block take 20 ms so, and 130 ms one after the other.
"""
NO_SYNC = (errno.EINVAL, errno.ENOTSUP)
"""The error numbers of file systems that cannot sync a folder."""


def write_new(path: Path, *data: bytes | memoryview) -> bool:
    """Create `path` with this content in one step; return False, changing nothing, if it exists."""
    with _private_file(path, *data) as private:
        try:
            os.link(private, path)
        except FileExistsError:
            return False
    _sync(path.parent)
    return True


def replace_file(path: Path, content: bytes) -> None:
    """Put this content under the file's name in one step, replacing a file or a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    with _private_file(path, content) as private:
        os.replace(private, path)
    _sync(path.parent)


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


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents, and sync the folders that hold them."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in missing:
        _sync(each.parent)


def sync(paths: Iterable[Path]) -> None:
    """Return once the content of these files, and the names in these folders, are on disk."""
    chosen = list(dict.fromkeys(paths))
    with ThreadPoolExecutor(max(1, min(len(chosen), SYNC_THREADS))) as pool:
        for _ in pool.map(_sync, chosen):
            pass


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NO_SYNC or not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Sync a folder and everything in it."""
    sync([folder, *folder.rglob("*")])


def size_of(path: Path) -> int:
    """The size of a file in bytes; 0 if there is no regular file."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return 0
    if stat.S_ISREG(found.st_mode):
        return found.st_size
    return 0


def read_file(path: Path) -> bytes | None:
    """The content of a file; None if there is none, or a folder or broken link in its place."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None


def remove_file(path: Path) -> None:
    """Remove what stands under the name of a file: the file, a link, or a folder in its place."""
    try:
        path.unlink(missing_ok=True)
    except (IsADirectoryError, PermissionError):
        if not path.is_dir() or path.is_symlink():
            raise
        shutil.rmtree(path)


def clear_way(path: Path, folder: Path) -> None:
    """Remove what stands under a file's name, and any file where a folder above it should be.

    Only folders below `folder` are looked at.
    """
    for parent in reversed(path.parents):
        if parent.is_relative_to(folder) and os.path.lexists(parent) and not parent.is_dir():
            parent.unlink()
    remove_file(path)


def true_path(path: Path) -> Path:
    """The path of a store with a symbolic link resolved to its target.

    The lock and unfinished files stand beside it, so that a store has one lock whatever name it is
    opened by.

    Raises
    ------
    InputError
        The link leads nowhere.
    """
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if not path.exists():
        raise InputError(
            f"{path} is a symbolic link to {target}, where nothing is: make that folder, remove "
            "the link, or choose "
            "another store"
        )
    return target


def remove_store(path: Path) -> None:
    """Remove a store that was just created.

    If `path` is a symbolic link, its target remains as an empty folder.
    """
    place = true_path(path)
    shutil.rmtree(place)
    if path.is_symlink():
        place.mkdir()
