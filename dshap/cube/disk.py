"""The place of a store behind a symbolic link, and its removal."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from dshap.core.errors import InputError


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
