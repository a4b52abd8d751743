"""The place of a store behind a symbolic link, and its removal."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from dshap.core.errors import InputError
from dshap.core.places import Place, is_bucket
from dshap.cube.folder import CREATING, Folder


def true_place(store: Place) -> Place:
    """The place of a store: in a bucket it is what it is, on a disk as `true_path` has it."""
    if is_bucket(store):
        return store
    return true_path(store)


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


def remove_prepared(path: Place) -> None:
    """Remove prepared states that were just begun, with their folder."""
    if is_bucket(path):
        remove_store(path)
    else:
        shutil.rmtree(path, ignore_errors=True)


def remove_store(path: Place) -> None:
    """Remove a store that was just created.

    If `path` is a symbolic link, its target remains as an empty folder.  In a bucket the root
    document goes first, so that no half of a store is taken for one.
    """
    if is_bucket(path):
        folder = Folder(path)
        for name in ("zarr.json", *folder.list(), CREATING):
            folder.delete(name)
        return
    place = true_path(path)
    shutil.rmtree(place)
    if path.is_symlink():
        place.mkdir()
