"""The place of a store behind a symbolic link."""

from __future__ import annotations

import os
from pathlib import Path

from dshap.core.errors import InputError


def true_path(path: Path) -> Path:
    """The path of a store with a symbolic link resolved to its target.

    The lock and unfinished files are beside it, so that a store has one lock under all its names.

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
