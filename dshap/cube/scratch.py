"""Folders for temporary files of runs whose store is in a bucket, on the disk of one machine.

The folder of a run is removed at its end.  That of a run that was killed is removed by the next run
of the same user on the same machine: a run holds a lock of the operating system in its folder, which
ends with its process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dshap.core.errors import InputError

HELD = "held"
"""The file in a folder of a run that its process has locked."""
FIRST = "dshap-"
"""The first letters of the names of these folders, before the name of the machine."""


@contextlib.contextmanager
def scratch_folder(scratch: str = "") -> Iterator[Path]:
    """A new folder in `scratch`, or in the system's folder for temporary files; removed at the end.

    Raises
    ------
    InputError
        No folder can be made there.
    """
    parent = Path(scratch or tempfile.gettempdir())
    try:
        clear_dead(parent)
        path, lock = _held_folder(parent)
    except OSError as error:
        raise InputError(
            f"scratch {scratch}: no folder can be made there ({error.strerror}): give another one"
        ) from error
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _held_folder(parent: Path) -> tuple[Path, int]:
    """A new folder whose file `HELD` this process has locked before the folder has its name."""
    private = Path(tempfile.mkdtemp(prefix=".dshap-", dir=parent))
    lock = os.open(private / HELD, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    with contextlib.suppress(OSError):  # some file systems have no locks: nothing is cleared there
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    path = parent / f"{_first_of_machine()}{private.name.removeprefix('.dshap-')}"
    private.rename(path)
    return path, lock


def clear_dead(parent: Path) -> None:
    """Remove the folders that killed runs of this user left on this machine."""
    with os.scandir(parent) as entries:
        found = [entry for entry in entries if entry.name.startswith(_first_of_machine())]
    for entry in found:
        with contextlib.suppress(OSError):
            is_own = entry.stat(follow_symlinks=False).st_uid == os.geteuid()
            if is_own and entry.is_dir(follow_symlinks=False):
                _remove_dead(Path(entry.path))


def _remove_dead(path: Path) -> None:
    """Remove a folder unless a process holds it; an `OSError` where it does."""
    lock = os.open(path / HELD, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


def _first_of_machine() -> str:
    """The first letters of the names of the folders on this machine."""
    return f"{FIRST}{re.sub(r'[^A-Za-z0-9.-]', '', platform.node())}-"
