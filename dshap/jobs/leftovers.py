"""Removal of files and folders that killed runs left in the store of a job, before the next run.

Unfinished files have names of their own (`dshap.storage.folder`); unfinished folders are hidden until
they are renamed.  Rows and keys whose run has no folder under `runs` belong to no run.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from dshap.core.places import Place, is_bucket
from dshap.cube.creation import clear_orphans
from dshap.jobs.outlook import ROOM
from dshap.jobs.run_folders import remove_room
from dshap.jobs.run_record import ID, RUNS
from dshap.storage.folder import PRIVATE_FOLDER, Folder, clear_private_folders

HIDDEN_ROWS = re.compile(rf"\.{ID.pattern}")
"""The names of folders that rows to learn from are copied to, before they get the name of the run."""


def clear_leftovers(store: Place) -> list[str]:
    """Remove from the store of a job, and from beside it, what killed runs left; give the names.

    A half-made store beside it, which was removed in part, is not named.

    Only the holder of the store's lock may ask.  Of a store in a bucket nothing is removed here:
    objects are put whole, and each cube clears the mark of its own creation.
    """
    if is_bucket(store) or not store.is_dir():
        return []
    clear_private_folders(store)
    removed = list(clear_orphans(store))
    for folder in _private_folders(store):
        shutil.rmtree(folder, ignore_errors=True)
        removed.append(str(folder.relative_to(store)))
    known = set(Folder(store / RUNS).list())
    for room in ("keys", "parts"):
        for name in Folder(store / room).list():
            if ID.fullmatch(name) and name not in known:
                remove_room(store / room / name)
                removed.append(f"{room}/{name}")
    return removed


def _private_folders(store: Path) -> Iterator[Path]:
    """The folders in a store that never got their name: of cubes, and of rows to learn from."""
    for room in [store, *(each for each in store.iterdir() if each.is_dir())]:
        for folder in room.iterdir():
            if PRIVATE_FOLDER.fullmatch(folder.name) and _is_folder(folder):
                yield folder
    rows = store / ROOM / "rows"
    if rows.is_dir():
        for folder in rows.iterdir():
            if HIDDEN_ROWS.fullmatch(folder.name) and _is_folder(folder):
                yield folder


def _is_folder(path: Path) -> bool:
    """Whether a folder stands there, not a link to one."""
    return path.is_dir() and not path.is_symlink()
