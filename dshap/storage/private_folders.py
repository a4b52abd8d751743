"""Folders of a disk under private names: they are renamed once they are whole."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

PRIVATE_FOLDER = re.compile(r"\..+\.[0-9a-f]{12}\.new")
"""The names of `private_folder`."""


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


def clear_private_rooms(path: Path) -> tuple[str, ...]:
    """Remove the private folders beside a folder, in it and in its rooms; return the names of those inside.

    Links are not followed.
    """
    clear_private_folders(path)
    found = tuple(_private_rooms(path))
    for folder in found:
        shutil.rmtree(folder, ignore_errors=True)
    return tuple(str(folder.relative_to(path)) for folder in found)


def _private_rooms(path: Path) -> Iterator[Path]:
    for room in [path, *(each for each in path.iterdir() if each.is_dir())]:
        for folder in room.iterdir():
            is_folder = folder.is_dir() and not folder.is_symlink()
            if is_folder and PRIVATE_FOLDER.fullmatch(folder.name):
                yield folder
