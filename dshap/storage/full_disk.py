"""Errors about full disks, with the path and the free bytes."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.storage.disk import free_bytes
from dshap.storage.folder import Folder

FULL = (errno.ENOSPC, errno.EDQUOT)
"""The error numbers of a disk without space, and of a user whose quota is used up."""
AGAIN = "make room there, or choose another place; the same command then continues"
"""The remedy for a full disk if no better one is known."""


def is_full_disk(error: OSError) -> bool:
    """Whether an error means that a disk is full."""
    return error.errno in FULL


def full_disk(path: Path, remedy: str) -> InputError:
    """The error about the full disk of `path`, with the bytes that are free now."""
    free = free_bytes(path)
    return InputError(f"no space is left on the disk of {path} ({free:,} bytes are free): {remedy}")


@contextmanager
def naming_full_disk(place: Place, remedy: str = AGAIN) -> Iterator[None]:
    """Raise an `InputError` for a full disk: about the file that could not be written, or `place`.

    Most writes fail without the name of their file; those of a run go to its store.
    """
    try:
        yield
    except OSError as error:
        path = Folder(place).full_disk_path(error)
        if path is None or not is_full_disk(error):
            raise
        raise full_disk(path, remedy) from error
