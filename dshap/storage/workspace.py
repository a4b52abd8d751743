"""The workspace of a running job: a lock, and room for temporary files."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dshap.core.errors import DshapError, InputError, LockedError
from dshap.core.places import Place, is_bucket
from dshap.core.printing import LONGEST_LABEL, shortened
from dshap.core.rules import OF_STORES, name_fault
from dshap.storage.folder import Folder
from dshap.storage.lease import Lease
from dshap.storage.links import true_path

LOCK = "lock"
ATTEMPTS = 100
"""Number of tries to open a workspace that the previous run is just removing."""
ROOMS = ("certificates", "keys", "quality", "rows")
"""The folders that a workspace may hold; only folders of these names are ever cleared."""
HALF_LEASE = re.compile(r"\.[\w-]+\.json\.[0-9a-f]{12}")
"""The names of leases that a killed process did not finish, beside the rooms."""
HALF_LEASE_S = 60.0
"""Seconds after which nobody finishes such a file any more; a shard may be writing a younger one."""
CLEARED = re.compile(rf"({'|'.join(ROOMS)})-\d+")


class Rooms:
    """Room for temporary files of a run: new folders in one folder of this machine.

    Parameters
    ----------
    path : the folder
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lease: Lease | None = None
        """The lease by which other machines see the run; None where no other can be."""
        self._number = itertools.count()

    def check(self) -> None:
        """Raise a `LockedError` if the lease was lost: others may run on the store by now."""
        if self.lease is not None:
            self.lease.check()

    def confirm(self) -> None:
        """Raise a `LockedError` unless the lease is still held now, by a look at its files.

        Call it before a removal, a record or a pointer of the store.
        """
        if self.lease is not None:
            self.lease.confirm()

    def tell(self, progress: Mapping[str, Any], at_once: bool = False) -> None:
        """Say how far the run is, with its next sign of life, for who looks from elsewhere."""
        if self.lease is not None:
            self.lease.tell(progress, at_once)

    def folder(self, name: str) -> Path:
        """A new folder, for one of `ROOMS`."""
        if name not in ROOMS:
            raise DshapError(f"a workspace has no room {name!r}: {', '.join(ROOMS)}")
        path = self.path / f"{name}-{next(self._number)}"
        path.mkdir(mode=0o700)
        return path


class Workspace(Rooms):
    """A hidden folder beside the store, locked while a run goes on and removed at its end.

    The lock is the operating system's, so it ends with its process, however that dies; the next run
    clears what a killed run left.  Only the run reads the folder, and only what a run put there is
    removed: the folder is held by its descriptor, a symbolic link is not followed, and a folder of
    another user is refused.

    Parameters
    ----------
    store : path of the store that the run writes; where it is a symbolic link, the folder stands
        beside its target

    Raises
    ------
    LockedError
        Another process runs on this store.
    InputError
        The folder of the store cannot be written, or something else has the name of the workspace.
    """

    def __init__(self, store: Path) -> None:
        super().__init__(workspace_of(store))
        self._descriptors: tuple[int, ...] = ()
        """The descriptors of the folder and of its lock; empty while it is not locked."""
        self._made = [parent for parent in self.path.parents if not parent.exists()]

    def __enter__(self) -> Self:
        try:
            self._lock()
            self._clear()
        except BlockingIOError as error:
            raise LockedError(
                f"{self.path.parent / self.path.name[1:-8]} is locked by a running job: wait for it"
            ) from error
        except OSError as error:
            self._release()
            raise InputError(
                f"cannot write {self.path.parent}: {error.strerror}; choose another store"
            ) from error
        return self

    def _lock(self) -> None:
        """Take the lock; try again if the previous run is just removing its workspace."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with opened_workspace(self.path) as folder:
                    self._take(folder)
            except FileNotFoundError:
                if attempt == ATTEMPTS:  # nothing can be created here, as under /proc
                    raise
            if self._descriptors:
                return
        raise BlockingIOError

    def _take(self, folder: int) -> None:
        """Lock an opened workspace, and keep it if both still stand under their names."""
        flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW
        lock = os.open(LOCK, flags, 0o600, dir_fd=folder)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_there(folder, lock):
                self._descriptors = (os.dup(folder), os.dup(lock))
        finally:
            os.close(lock)

    def _is_there(self, folder: int, lock: int) -> bool:
        """Whether the opened folder and lock still stand under their names."""
        here = os.lstat(self.path)
        inside = os.stat(LOCK, dir_fd=folder, follow_symlinks=False)
        return os.path.samestat(here, os.fstat(folder)) and os.path.samestat(inside, os.fstat(lock))

    def _clear(self) -> None:
        """Remove the folders of runs; links are removed and not followed, all else stays."""
        folder = self._descriptors[0]
        for name in filter(CLEARED.fullmatch, os.listdir(folder)):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
        for name in filter(HALF_LEASE.fullmatch, os.listdir(folder)):
            # its writer may be removing it
            with contextlib.suppress(FileNotFoundError):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and found.st_mtime < time.time() - HALF_LEASE_S:
                    os.unlink(name, dir_fd=folder)

    def _release(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = ()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._clear()
        with contextlib.suppress(OSError):
            os.unlink(LOCK, dir_fd=self._descriptors[0])
            os.rmdir(self.path)
        for parent in self._made:  # deepest first; a folder that now holds a store stays
            with contextlib.suppress(OSError):
                parent.rmdir()
        self._release()


def workspace_of(store: Path) -> Path:
    """The hidden folder beside a store that is there while something runs on it."""
    check_place(store)
    place = true_path(store)
    return place.parent / f".{place.name}.running"


def check_place(store: Place) -> None:
    """Raise an `InputError` if no store can have this place, by its name or a file above it."""
    fault = name_fault(store.name)
    if is_bucket(store):
        is_inside = Folder(store.parent).has_file("zarr.json")
        if fault and (store.name not in OF_STORES or is_inside):
            raise InputError(f"store {shortened(store.name, LONGEST_LABEL)!r}: {fault}")
        return
    if fault and (store.name not in OF_STORES or (store.parent / "zarr.json").exists()):
        raise InputError(f"store {shortened(store.name, LONGEST_LABEL)!r}: {fault}")
    above = next((parent for parent in store.parents if os.path.lexists(parent)), store)
    if not above.is_dir():
        raise InputError(f"cannot write {above}: it is no folder; choose another store")


@contextlib.contextmanager
def opened_workspace(path: Path) -> Iterator[int]:
    """The descriptor of the folder of a workspace, made if it is missing, private to the user."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    _refuse_foreign(path, os.lstat(path))
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _refuse_foreign(path, os.fstat(folder))
        with contextlib.suppress(OSError):  # some file systems have no modes
            os.fchmod(folder, 0o700)
        yield folder
    finally:
        os.close(folder)


def _refuse_foreign(path: Path, found: os.stat_result) -> None:
    """Raise an `InputError` if what stands under this name is not a folder of this user."""
    what = ""
    if stat.S_ISLNK(found.st_mode):
        what = "is a symbolic link"
    elif not stat.S_ISDIR(found.st_mode):
        what = "is no folder"
    elif found.st_uid != os.geteuid() and found.st_uid != _owner_of_new(path.parent):
        what = f"belongs to another user (id {found.st_uid})"
    if what:
        raise InputError(
            f"{path} {what}, and runs keep their lock and what they throw away in a folder of that "
            "name: remove it, or "
            "choose another store"
        )


def _owner_of_new(folder: Path) -> int:
    """The owner of files that are made in this folder: some file systems give all the same one."""
    with tempfile.TemporaryDirectory(prefix=".dshap-", dir=folder) as fresh:
        return os.lstat(fresh).st_uid


def is_locked(store: Path) -> bool:
    """Whether a run holds the lock of this store now.

    A workspace of another user, which cannot be looked into, counts as locked.
    """
    try:
        lock = os.open(workspace_of(store) / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except PermissionError:
        return True
    except (OSError, InputError):
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
