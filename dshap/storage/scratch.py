"""Folders for temporary files of runs whose store is in a bucket, on the disk of one machine.

The folder of a run is removed at its end.  That of a run that was killed is removed by the next run
of the same user on the same machine: a run locks its folder by the operating system, and the lock
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
import time
from collections.abc import Iterator
from pathlib import Path

from dshap.core.errors import InputError

HELD = "held"
"""The file in a folder of a run that its process has locked."""
PRIVATE_S = 3_600.0
"""Seconds after which a folder that has no name of its own yet was left by a killed process."""


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
        _remove(path)
        os.close(lock)


def _held_folder(parent: Path) -> tuple[Path, int]:
    """A new folder whose file `HELD` this process has locked before the folder has its name."""
    private = Path(tempfile.mkdtemp(prefix=f".{_first_of_machine()}", dir=parent))
    lock = os.open(private / HELD, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    with contextlib.suppress(OSError):  # some file systems have no locks: nothing is cleared there
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    path = parent / private.name.removeprefix(".")
    private.rename(path)
    return path, lock


def clear_dead(parent: Path) -> None:
    """Remove the folders that killed runs of this user left on this machine."""
    named = re.compile(rf"(\.?){re.escape(_first_of_machine())}[a-z0-9_]{{8}}")  # as mkdtemp does
    with os.scandir(parent) as entries:
        found = [(entry, match) for entry in entries if (match := named.fullmatch(entry.name))]
    for entry, match in found:
        # several runs may clear at the same time, and a living run has locked its folder
        with contextlib.suppress(OSError):
            state = entry.stat(follow_symlinks=False)
            is_own = state.st_uid == os.geteuid() and entry.is_dir(follow_symlinks=False)
            is_made = not match[1] or time.time() - state.st_mtime > PRIVATE_S
            if is_own and is_made:
                _remove_dead(Path(entry.path))


def _remove_dead(path: Path) -> None:
    """Remove a folder unless a process has locked it; an `OSError` if one has."""
    lock = os.open(path / HELD, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(path)
    finally:
        os.close(lock)


def _remove(path: Path) -> None:
    """Remove a folder, and last the file that is locked in it.

    If the removal stops half way, the next run still finds the file, and removes the rest.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir(path):
            if name != HELD:
                _remove_entry(path / name)
    shutil.rmtree(path, ignore_errors=True)


def _remove_entry(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


def _first_of_machine() -> str:
    """The first letters of the names of the folders on this machine."""
    return f"dshap-{re.sub(r'[^A-Za-z0-9.-]', '', platform.node())}-"
