"""Places for a new store, its creation in one step, and its removal, on a disk and in a bucket.

On a disk a store is made in a private folder and renamed.  In a bucket a mark is put first and the
root document last; without that document there is no store, and with the mark alone there is one
whose creation was killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from dshap.core.places import BucketPath, Place, of_place
from dshap.storage.disk import make_folder, sync, sync_tree
from dshap.storage.disk_files import DiskFiles
from dshap.storage.folder import Folder
from dshap.storage.links import true_path
from dshap.storage.private_folders import (
    PRIVATE_FOLDER,
    clear_private_folders,
    private_folder,
)

CONTAINER = "state"
"""A scalar container variable (CF): its folder contains receipts, the plan and prepared states.

It has no chunk.
"""
ROOT = "zarr.json"
"""The root document of a store."""
CREATING = ".creating"
"""The mark of a store in a bucket whose creation began: it goes once the root document is there."""


class Creation(Protocol):
    """The creation and the removal of a store at one place."""

    def is_free(self) -> bool:
        """Whether a store can be made here."""
        ...

    def is_half_made(self) -> bool:
        """Whether the creation was killed: its mark is there, and no root document."""
        ...

    def needless_marks(self) -> list[str]:
        """The marks of a creation that ended."""
        ...

    def making(self) -> contextlib.AbstractContextManager[Path]:
        """A private folder of this machine in which the store is made."""
        ...

    def put_whole(self, made: Path) -> None:
        """Put a store that was made in a private folder here, so that it is never half there."""
        ...

    def remove(self) -> None:
        """Remove a store that was just created."""
        ...

    def take_away(self, name: str) -> None:
        """Remove a store in this folder from its name in one step."""
        ...

    def clear_taken(self) -> None:
        """Remove the rest of stores that were taken away."""
        ...


class CreationOnDisk:
    """The creation of a store in a folder of a file system."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def is_free(self) -> bool:
        if not self.path.exists():
            return True
        return self.path.is_dir() and all(map(_is_empty_container, self.path.iterdir()))

    def is_half_made(self) -> bool:
        return False

    def needless_marks(self) -> list[str]:
        return []

    @contextlib.contextmanager
    def making(self) -> Iterator[Path]:
        path = true_path(self.path)
        clear_private_folders(path)
        private = private_folder(path)
        make_folder(path.parent)
        try:
            yield private
            sync([path.parent])
        finally:
            shutil.rmtree(private, ignore_errors=True)

    def put_whole(self, made: Path) -> None:
        # before the name: a store that a power cut leaves under its name is whole
        sync_tree(made)
        path = true_path(self.path)
        container = path / CONTAINER
        if self.is_free() and container.exists():  # left by a full disk or a kill
            shutil.rmtree(container)
        os.rename(made, path)

    def remove(self) -> None:
        """If the path is a symbolic link, its target remains as an empty folder."""
        place = true_path(self.path)
        shutil.rmtree(place)
        if self.path.is_symlink():
            place.mkdir()

    def take_away(self, name: str) -> None:
        os.rename(self.path / name, private_folder(self.path / name))
        sync([self.path])

    def clear_taken(self) -> None:
        for each in filter(PRIVATE_FOLDER.fullmatch, os.listdir(self.path)):
            shutil.rmtree(self.path / each, ignore_errors=True)


class CreationInBucket:
    """The creation of a store in a bucket."""

    def __init__(self, place: BucketPath) -> None:
        self.place = place
        self.folder = Folder(place)

    def is_free(self) -> bool:
        return not self.folder.list() or self.is_half_made()

    def is_half_made(self) -> bool:
        return self.folder.has_file(CREATING) and not self.folder.has_file(ROOT)

    def needless_marks(self) -> list[str]:
        if self.folder.has_file(CREATING) and self.folder.has_file(ROOT):
            return [CREATING]
        return []

    @contextlib.contextmanager
    def making(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="dshap-") as room:
            yield Path(room, "store")

    def put_whole(self, made: Path) -> None:
        files = Folder(made)
        if not self.is_free():
            raise FileExistsError(str(self.place))
        for name in self.folder.list():  # what a killed creation left
            self.folder.delete(name)
        self.folder.replace(CREATING, b"")
        for name in files.tree():
            if name != ROOT:
                self.folder.replace(name, files.get(name) or b"")
        # another process may have made a store here meanwhile: its root document stays
        if not self.folder.put_new(ROOT, files.get(ROOT) or b""):
            raise FileExistsError(str(self.place))
        self.folder.delete(CREATING)

    def remove(self) -> None:
        # the root document first: without it there is no store, whatever a kill leaves
        for name in (ROOT, *self.folder.list(), CREATING):
            self.folder.delete(name)

    def take_away(self, name: str) -> None:
        """A mark comes first, and the root document goes before all else."""
        self.folder.replace(f"{name}/{CREATING}", b"")
        self.folder.delete(f"{name}/{ROOT}")

    def clear_taken(self) -> None:
        for name in self.folder.list():
            if CreationInBucket(self.place / name).is_half_made():
                self.folder.delete(name)


def creation_at(place: Place) -> Creation:
    """The creation of a store at a place."""
    return of_place(place, CreationOnDisk, CreationInBucket)


def is_free(path: Place) -> bool:
    """Whether a store can be made here: nothing is there, an empty folder, or an empty container.

    In a bucket the files of a killed creation count as nothing: it has no root document.
    """
    return creation_at(path).is_free()


def clear_orphans(path: Place, older_s: float = 0.0) -> tuple[str, ...]:
    """Remove unfinished files of killed runs in the store at `path`; return their names.

    Only the holder of the store's lock may ask for files of any age.  If others may be writing,
    give `older_s`, longer than any process needs to finish a file.  Links and files of others are
    left.  In a bucket it is the mark of a creation that ended, at most.
    """
    folder = Folder(path)
    orphans = [*folder.unfinished(older_s), *creation_at(path).needless_marks()]
    for name in orphans:
        folder.delete(name)
    return tuple(orphans)


def _is_empty_container(path: Path) -> bool:
    """Whether this is the container of a store in which nothing was written to the end.

    It contains empty rooms, unfinished files, and the document of its own Zarr group, at most.
    """
    if path.name != CONTAINER or path.is_symlink() or not path.is_dir():
        return False
    files = {str(each.relative_to(path)) for each in path.rglob("*") if not each.is_dir()}
    return files <= {ROOT, *DiskFiles(path).unfinished()}
