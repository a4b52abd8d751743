"""Syncing files and folders to the disk, and files that get their name once they are whole."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

SYNC_THREADS = 8
"""Number of syncs that run at the same time, for which the file system writes its journal once."""
NO_SYNC = (errno.EINVAL, errno.ENOTSUP)
"""The error numbers of file systems that cannot sync a folder."""


@contextmanager
def whole_file(path: Path, *, synced: bool = False) -> Iterator[Path]:
    """A private path to write to, renamed to `path` once everything is written.

    The folder is made if it does not exist.  With `synced` the file survives a power cut: the
    content is on the disk before it has the name, then the name itself.
    """
    if synced:
        make_folder(path.parent)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
    private = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield private
        if synced:
            sync([private])
        os.replace(private, path)
    finally:
        private.unlink(missing_ok=True)
    if synced:
        sync([path.parent])


def free_bytes(path: Path) -> int:
    """The bytes that are free on the disk of `path`, which need not exist."""
    there = next((each for each in (path, *path.parents) if each.exists()), Path())
    return shutil.disk_usage(there).free


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents, and sync the folders that contain them."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in missing:
        _sync(each.parent)


def sync(paths: Iterable[Path]) -> None:
    """Return once the content of these files, and the names in these folders, are on disk."""
    chosen = list(dict.fromkeys(paths))
    if len(chosen) == 1:  # handing it to a thread would only cost time
        _sync(chosen[0])
        return
    for _ in _syncing_threads().map(_sync, chosen):
        pass


def sync_opened(files: Sequence[BinaryIO]) -> None:
    """Return once the content of these opened files is on disk."""
    for _ in _syncing_threads().map(os.fsync, [file.fileno() for file in files]):
        pass


@cache
def _syncing_threads() -> ThreadPoolExecutor:
    """The threads of this process that wait for the disk."""
    return ThreadPoolExecutor(SYNC_THREADS, "dshap-sync")


os.register_at_fork(after_in_child=_syncing_threads.cache_clear)  # threads are not forked


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
