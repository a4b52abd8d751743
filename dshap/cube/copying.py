"""Copies of a store from one place to another, on disks and in buckets, compared file by file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from dshap.core.errors import InputError, StoreMismatchError, UnreachableError
from dshap.core.places import Place
from dshap.cube.creation import CREATING, is_free
from dshap.cube.reference_copy import PREPARED
from dshap.storage.folder import Folder
from dshap.storage.running import alone, refuse_running

AT_ONCE = 8
"""The number of files that are copied at the same time."""
ROOTS = ("zarr.json", PREPARED)
"""The document that makes a folder a store, which is copied last."""


@dataclass(frozen=True)
class StoreCopy:
    """The files of a copy that is whole."""

    n_files: int
    n_bytes: int
    n_copied: int
    """The files that were not there yet, from a copy that was stopped."""


def copy_store(source: Place, target: Place, say: Callable[[str], None]) -> StoreCopy:
    """Copy a store, and read each file back; continue a copy that was stopped.

    The copy is a store once all its files are there: its root document comes last.

    Raises
    ------
    InputError
        There is no store, or one place is in the other.
    LockedError
        A run is going on at one of the places.
    StoreMismatchError
        Something else is at the target.
    UnreachableError
        A file reads back with another content than was written.
    """
    made = Folder(Folder(source).true_place())
    root = next((name for name in ROOTS if made.has_file(name)), None)
    if root is None:
        raise InputError(f"{source} is not a store: give the store of a run, or a prepared one")
    _refuse_inside(source, target)
    refuse_running(source, say)
    with alone(target, f"a copy of {source}", say):
        return _copied(made, Folder(Folder(target).true_place()), root)


def _copied(made: Folder, put: Folder, root: str) -> StoreCopy:
    # the mark of a copy names its source: the rest of a different store's copy is refused
    token = hashlib.blake2b(made.get(root) or b"", digest_size=16).hexdigest().encode()
    is_begun = put.get(CREATING) == token
    if not is_begun:
        if not is_free(put.path):
            raise StoreMismatchError(
                f"{put.path} exists, and is not an unfinished copy of {made.path}: choose another "
                "place"
            )
        for name in put.list():  # what a killed creation left
            put.delete(name)
        put.replace(CREATING, token)
    names = [name for name in _names_in(made) if name != root]
    # files that the source no longer has, and the root document, which has to come last
    for name in set(_names_in(put)) - set(names):
        put.delete(name)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda name: _copy_file(made, put, name), names))
    found.append(_copy_file(made, put, root))
    put.delete(CREATING)
    return StoreCopy(len(found), sum(size for size, _ in found), sum(new for _, new in found))


def _names_in(folder: Folder) -> Iterator[str]:
    """The names of the files of a store; unfinished and hidden ones are left out."""
    return (name for name in folder.tree() if not f"/{name}".count("/."))


def _copy_file(made: Folder, put: Folder, name: str) -> tuple[int, bool]:
    """Copy a file, unless it is there; returns its bytes, and whether it was copied."""
    content = made.get(name) or b""
    if put.get(name) == content:
        return len(content), False
    put.replace(name, content)
    if put.get(name) != content:
        raise UnreachableError(
            f"{put.place(name)} was read back with a different content than was written: run the "
            "same command again"
        )
    return len(content), True


def _refuse_inside(source: Place, target: Place) -> None:
    for one, other in ((source, target), (target, source)):
        if one == other or one in other.parents:
            raise InputError(f"{source} and {target} are inside each other: choose another place")
