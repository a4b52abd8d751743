"""Removal of files and folders that killed runs left in the store of a job, before the next run.

Unfinished files have names of their own (`dshap.storage.folder`); unfinished folders are hidden until
they are renamed.  Rows and keys whose run has no folder under `runs` belong to no run.
"""

from __future__ import annotations

from dshap.core.places import Place
from dshap.cube.arrays import RUNS
from dshap.cube.creation import clear_orphans
from dshap.history.run_folders import remove_room
from dshap.history.run_record import ID
from dshap.storage.folder import Folder


def clear_leftovers(store: Place) -> list[str]:
    """Remove files of killed runs in and beside the store of a job; return their names.

    A half-made store beside it, which was removed in part, is not named.  Only the holder of the
    store's lock may ask.
    """
    folder = Folder(store)
    if not folder.has_room():
        return []
    private = folder.clear_private_rooms()
    removed = [*clear_orphans(store), *private]
    known = set(Folder(store / RUNS).list())
    for room in ("keys", "parts"):
        for name in Folder(store / room).list():
            if ID.fullmatch(name) and name not in known:
                remove_room(store / room / name)
                removed.append(f"{room}/{name}")
    return removed
