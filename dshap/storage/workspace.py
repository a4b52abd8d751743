"""The place beside a store for the leases and temporary files of the runs on it.

Beside a store on a disk it is a hidden folder, `.NAME.running`, which is there while something runs.
Leases of a store in a bucket are objects beside it, and temporary files are on the disk of this
machine.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from dshap.core.errors import DshapError, InputError
from dshap.core.places import BucketPath, Place, of_place
from dshap.core.printing import LONGEST_LABEL, shortened
from dshap.core.rules import OF_STORES, name_fault
from dshap.storage.folder import Folder
from dshap.storage.lease import Holder, Lease
from dshap.storage.links import true_path
from dshap.storage.objects import PROBE, refuse_unusable
from dshap.storage.scratch import scratch_folder

ATTEMPTS = 100
"""Number of tries to open a workspace that the previous run is just removing."""
ROOMS = ("certificates", "keys", "quality", "rows")
"""The folders that a process may make for its temporary files."""
HALF_LEASE = re.compile(r"\.[\w-]+\.json\.[0-9a-f]{12}")
"""The names of leases that a killed process did not finish."""
HALF_LEASE_S = 60.0
"""Seconds after which no process finishes such a file any more; a shard may be writing a younger
one."""
LEFT = re.compile(rf"({'|'.join(ROOMS)})-([0-9a-f]{{12}}-)?\d+|shard-[0-9a-f]{{12}}|lock")
"""The names that killed processes leave: their rooms, and a lock and rooms of earlier versions."""


class Rooms:
    """Room for temporary files of a run: new folders in one folder of this machine.

    Parameters
    ----------
    path : the folder
    is_shared : whether workers that can open the store can open this folder too
    """

    def __init__(self, path: Path, is_shared: bool = True) -> None:
        self.path = path
        self.is_shared = is_shared
        self.lease: Lease | None = None
        """The lease by which other processes see the run; None if no other can be."""
        self.token = uuid.uuid4().hex[:12]
        """A part of the names of the folders, by which they are known as those of this process."""
        self._number = itertools.count()  # two threads never have the same one
        self._made: list[Path] = []

    def check(self) -> None:
        """Raise a `LockedError` if the lease was lost: others may run on the store by now."""
        if self.lease is not None:
            self.lease.check()

    def confirm(self) -> None:
        """Read the files of the lease now, and raise a `LockedError` unless it is still valid.

        Call it before you remove files of the store, write a record, or change a pointer.
        """
        if self.lease is not None:
            self.lease.confirm()

    def tell(self, progress: Mapping[str, Any], at_once: bool = False) -> None:
        """Report the progress of the run, with its next sign of life, for processes elsewhere."""
        if self.lease is not None:
            self.lease.tell(progress, at_once)

    def folder(self, name: str) -> Path:
        """A new folder, for one of `ROOMS`."""
        if name not in ROOMS:
            raise DshapError(f"a workspace has no room {name!r}: {', '.join(ROOMS)}")
        path = self.path / f"{name}-{self.token}-{next(self._number)}"
        path.mkdir(mode=0o700)
        self._made.append(path)
        return path

    def remove(self) -> None:
        """Remove the folders that were made, as far as that can be done."""
        for path in self._made:
            shutil.rmtree(path, ignore_errors=True)


class Workspace(Protocol):
    """The folder of leases beside a store, and room for the temporary files of its runs."""

    def leases(self) -> Folder:
        """The folder of the leases."""
        ...

    def check(self) -> None:
        """Raise an `InputError` if no store can have this place."""
        ...

    def opened(self, scratch: str) -> contextlib.AbstractContextManager[Rooms]:
        """Room for temporary files of one process, which is removed at the end."""
        ...

    def clear(self, rooms: Rooms) -> None:
        """Remove the files of killed processes beside these rooms; only a run alone may ask."""
        ...

    def probe_folder(self, scratch: str) -> Path:
        """A folder that is there, in or above which a run makes its rooms."""
        ...

    def seen_places(self, here: Path, reads_rows: bool) -> dict[str, Place]:
        """Noun -> a place that the workers of a run must see.

        Parameters
        ----------
        here : a file or folder of this machine that represents the rooms of the run
        reads_rows : whether workers read files in these rooms
        """
        ...


class WorkspaceOnDisk:
    """The hidden folder beside a store on a disk, private to its user.

    A symbolic link in its place is not followed, and the folder of another user is refused: only
    files of runs are removed.  If the store itself is a symbolic link, the folder is beside
    its target, so that a store has one lock under all its names.

    Raises
    ------
    InputError
        The folder of the store cannot be written, or something else has the name of the workspace.
    """

    def __init__(self, store: Path) -> None:
        self.store = store

    @property
    def path(self) -> Path:
        self.check()
        place = true_path(self.store)
        return place.parent / f".{place.name}.running"

    def leases(self) -> Folder:
        return Folder(self.path)

    def check(self) -> None:
        _check_name(self.store)
        above = (each for each in self.store.parents if os.path.lexists(each))
        nearest = next(above, self.store)
        if not nearest.is_dir():
            raise InputError(f"cannot write {nearest}: it is not a folder; choose another store")

    @contextlib.contextmanager
    def opened(self, scratch: str) -> Iterator[Rooms]:
        """The folders above that were missing are removed too, unless there is a store by then."""
        path = self.path
        made = [parent for parent in path.parents if not parent.exists()]
        try:
            _make(path)
        except OSError as error:
            raise InputError(
                f"cannot write {path.parent}: {error.strerror}; choose another store"
            ) from error
        rooms = Rooms(path)
        try:
            yield rooms
        finally:
            rooms.remove()
            for each in (path, *made):
                with contextlib.suppress(OSError):
                    each.rmdir()

    def clear(self, rooms: Rooms) -> None:
        """Links are removed and not followed; all else stays."""
        # by its descriptor: nobody can exchange the folder for a link between look and removal
        with _opened_folder(self.path) as folder:
            for name in os.listdir(folder):
                # its writer may be removing it
                with contextlib.suppress(FileNotFoundError):
                    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    is_left = LEFT.fullmatch(name) and rooms.token not in name
                    if is_left and stat.S_ISDIR(found.st_mode):
                        shutil.rmtree(name, dir_fd=folder)
                    elif is_left or _is_half_lease(name, found):
                        os.unlink(name, dir_fd=folder)

    def probe_folder(self, scratch: str) -> Path:
        parent = self.store.resolve().parent
        return next(above for above in (parent, *parent.parents) if above.is_dir())

    def seen_places(self, here: Path, reads_rows: bool) -> dict[str, Place]:
        if here.parent in self.store.resolve().parents:
            return {"folder of the store": here}
        return {}


class WorkspaceInBucket:
    """The leases beside a store in a bucket, and a folder of this machine for temporary files."""

    def __init__(self, store: BucketPath) -> None:
        self.store = store

    def leases(self) -> Folder:
        return Folder(self.store.with_name(f".{self.store.name}.running"))

    def check(self) -> None:
        _check_name(self.store)

    @contextlib.contextmanager
    def opened(self, scratch: str) -> Iterator[Rooms]:
        """The bucket must be one in which a store can be written."""
        self.check()
        refuse_unusable(self.store, Holder.here("a probe").to_bytes())
        with scratch_folder(scratch) as folder:
            yield Rooms(folder, is_shared=False)

    def clear(self, rooms: Rooms) -> None:
        """Objects by which killed processes tried the bucket are removed.

        The folders of killed runs are removed when new ones are made.
        """
        folder = self.leases()
        for name in folder.list():
            if name.startswith(PROBE):
                holder = Holder.read(folder.get(name) or b"")
                if holder.is_gone or holder.is_silent:
                    folder.delete(name)

    def probe_folder(self, scratch: str) -> Path:
        refuse_unusable(self.store, Holder.here("a probe").to_bytes())
        return Path(scratch or tempfile.gettempdir())

    def seen_places(self, here: Path, reads_rows: bool) -> dict[str, Place]:
        places: dict[str, Place] = {"store": self.store}
        if reads_rows:
            places["folder of [run] scratch"] = here
        return places


def workspace_of(store: Place) -> Workspace:
    """The workspace beside a store."""
    return of_place(store, WorkspaceOnDisk, WorkspaceInBucket)


def _check_name(store: Place) -> None:
    fault = name_fault(store.name)
    if not fault:
        return
    is_inside = Folder(store.parent).has_file("zarr.json")
    if store.name not in OF_STORES or is_inside:
        raise InputError(f"store {shortened(store.name, LONGEST_LABEL)!r}: {fault}")


def _is_half_lease(name: str, found: os.stat_result) -> bool:
    """Whether a file is a lease that its writer did not finish, and so old that no process does."""
    is_old = found.st_mtime < time.time() - HALF_LEASE_S
    return HALF_LEASE.fullmatch(name) is not None and stat.S_ISREG(found.st_mode) and is_old


def _make(path: Path) -> None:
    """Make the folder of a workspace; try again if the previous run is just removing it."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with _opened_folder(path):
                return
        except FileNotFoundError:
            if attempt == ATTEMPTS:  # nothing can be created here, as under /proc
                raise


@contextlib.contextmanager
def _opened_folder(path: Path) -> Iterator[int]:
    """The descriptor of the folder of a workspace, made if missing, and private to the user."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    _refuse_foreign(path, os.lstat(path))
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        # again, of what was opened: the entry of this name may have been exchanged meanwhile
        _refuse_foreign(path, os.fstat(folder))
        with contextlib.suppress(OSError):  # some file systems have no modes
            os.fchmod(folder, 0o700)
        yield folder
    finally:
        os.close(folder)


def _refuse_foreign(path: Path, found: os.stat_result) -> None:
    """Raise an `InputError` if the entry of this name is not a folder of this user."""
    what = ""
    if stat.S_ISLNK(found.st_mode):
        what = "is a symbolic link"
    elif not stat.S_ISDIR(found.st_mode):
        what = "is not a folder"
    elif found.st_uid != os.geteuid() and found.st_uid != _owner_of_new(path.parent):
        what = f"belongs to another user (id {found.st_uid})"
    if what:
        raise InputError(
            f"{path} {what}, and runs need a folder of that name for their lock and for files that "
            "they remove: remove it, or choose another store"
        )


def _owner_of_new(folder: Path) -> int:
    """The owner of files that are made in this folder: some file systems give all the same one."""
    with tempfile.TemporaryDirectory(prefix=".dshap-", dir=folder) as fresh:
        return os.lstat(fresh).st_uid
