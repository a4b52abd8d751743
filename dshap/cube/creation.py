"""Where a store can be made, what a killed creation left there, and the removal of a new store."""

from __future__ import annotations

import shutil
from pathlib import Path

from dshap.core.places import Place, is_bucket
from dshap.storage.disk_files import DiskFiles
from dshap.storage.folder import Folder
from dshap.storage.links import true_path

CONTAINER = "state"
"""A scalar container variable (CF): its folder holds receipts, the plan and prepared states.

It holds no chunk.
"""
CREATING = ".creating"
"""The mark of a store in a bucket whose creation began: it goes once the root document is there."""


def is_free(path: Place) -> bool:
    """Whether a store can be made here: nothing is there, an empty folder, or an empty container.

    In a bucket what a killed creation left counts as nothing: it has no root document.
    """
    if is_bucket(path):
        return not Folder(path).list() or is_half_made(path)
    if not path.exists():
        return True
    return path.is_dir() and all(map(_is_empty_container, path.iterdir()))


def clear_empty_container(path: Path) -> None:
    """Remove the empty container in a folder that is free, which a full disk or a kill left."""
    if is_free(path) and (path / CONTAINER).exists():
        shutil.rmtree(path / CONTAINER)


def _is_empty_container(path: Path) -> bool:
    """Whether this is the container of a store in which nothing was written to the end.

    It holds empty rooms, unfinished files, and the document of its own Zarr group, at most.
    """
    if path.name != CONTAINER or path.is_symlink() or not path.is_dir():
        return False
    files = {str(each.relative_to(path)) for each in path.rglob("*") if not each.is_dir()}
    return files <= {"zarr.json", *DiskFiles(path).unfinished()}


def is_half_made(path: Place) -> bool:
    """Whether the creation of a store in a bucket was killed: the mark of it is there, and no root."""
    folder = Folder(path)
    return is_bucket(path) and folder.has_file(CREATING) and not folder.has_file("zarr.json")


def clear_orphans(path: Place, older_s: float = 0.0) -> tuple[str, ...]:
    """Remove what a killed run left unfinished in the store at `path`; give the names.

    Only the holder of the store's lock may ask for files of any age.  Where others may be writing,
    give `older_s`, longer than anybody takes to finish a file.  Links and files of others are
    left.  In a bucket it is the mark of a creation that ended, at most.
    """
    folder = Folder(path)
    orphans = list(folder.unfinished(older_s))
    if is_bucket(path) and folder.has_file(CREATING) and folder.has_file("zarr.json"):
        orphans.append(CREATING)
    for name in orphans:
        folder.delete(name)
    return tuple(orphans)


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
