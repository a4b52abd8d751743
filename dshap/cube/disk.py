"""Syncing files and folders to the disk, and the place of a store behind a symbolic link."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dshap.core.errors import InputError

SYNC_THREADS = 8
"""Number of syncs that run at once: the file system then writes its journal once for all of them.

The 42 syncs of a block take 20 ms so, and 130 ms one after the other.
"""
NO_SYNC = (errno.EINVAL, errno.ENOTSUP)
"""The error numbers of file systems that cannot sync a folder."""


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
