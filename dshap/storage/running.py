"""Who runs on a store: one run alone, or any number of shards beside each other.

| | beside a run alone | beside a shard | beside the finish |
|---|---|---|---|
| a run alone (`alone`) | refused | refused | refused |
| a shard (`beside_others`) | refused | runs | runs; refused once it has rows to explain (`refuse_finishing`) |
| the finish (`beside_others`) | refused | refused | refused |
| the finish by a shard (`finishing`) | | runs, unless blocks may change | leaves it to the other |

A run alone holds the lock of this file system (`Workspace`) and the lease "run", which other
machines see too.  A shard takes no lock: it leaves a lease of a name of its own.  Each puts its own
lease first and looks for the others' then, so that of a run and a shard that begin together at
least one is refused.

In a bucket there is no lock of a file system: the lease alone locks the store, and temporary files
lie in a folder of this machine.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from dshap.core.errors import InputError, LockedError
from dshap.core.places import BucketPath, Place, is_bucket
from dshap.storage.folder import Folder
from dshap.storage.lease import Holder, Lease, clear_gone, held_names, holder_of, living_holder
from dshap.storage.objects import refuse_unusable
from dshap.storage.scratch import scratch_folder
from dshap.storage.workspace import (
    Rooms,
    Workspace,
    check_place,
    is_locked,
    opened_workspace,
    workspace_of,
)

RUN = "run"
"""The name that a run alone holds."""
FINISH = "finish"
"""The name that is held by the process that finishes what shards have explained."""
ROOMS_OF_SHARD = re.compile(r"shard-[0-9a-f]{12}")
"""The names of the folders that shards keep beside the store while they run."""

Say = Callable[[str], None]


class SharedWorkspace(Workspace):
    """Room for temporary files of a process that shares the store with others; it locks nothing."""

    def __init__(self, store: Path) -> None:
        super().__init__(store)
        self.path = self.path / f"shard-{uuid.uuid4().hex[:12]}"

    def folder(self, name: str) -> Path:
        """A new folder in the workspace, which is removed at the end."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        return super().folder(name)

    def __enter__(self) -> SharedWorkspace:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


@contextlib.contextmanager
def alone(store: Place, what: str, say: Say | None = None, scratch: str = "") -> Iterator[Rooms]:
    """Hold the lock of a store while nobody else runs on it, a shard neither.

    Raises
    ------
    LockedError
        Another run or a shard runs on this store.
    """
    folder = lease_folder(store)
    with (
        _own_rooms(store, scratch) as rooms,
        Lease(folder, RUN, what, place=store, say=say) as lease,
    ):
        refuse_running(store, say, but=RUN)
        clear_gone(folder)
        if not is_bucket(store):
            path = workspace_of(store)
            for name in filter(ROOMS_OF_SHARD.fullmatch, os.listdir(path)):
                shutil.rmtree(path / name, ignore_errors=True)
        rooms.lease = lease
        yield rooms


@contextlib.contextmanager
def beside_others(
    store: Place,
    what: str,
    say: Say | None = None,
    scratch: str = "",
    *,
    finishes: bool = False,
) -> Iterator[Rooms]:
    """Run on a store that others may run on too, but no run alone; nobody at all where it `finishes`.

    Raises
    ------
    LockedError
        A run has the store for itself, or another process finishes; beside a finish any shard.
    """
    folder = lease_folder(store)
    if finishes:
        name = FINISH
    else:
        name = f"shard-{uuid.uuid4().hex[:12]}"
    with (
        _shared_rooms(store, scratch) as rooms,
        Lease(folder, name, what, place=store, say=say) as lease,
    ):
        clear_gone(folder)
        _refuse(store, [RUN], say)
        if finishes:
            _refuse(store, _shards_on(store), say)
        rooms.lease = lease
        yield rooms


@contextlib.contextmanager
def finishing(store: Place, what: str, may_change: Callable[[], bool]) -> Iterator[bool]:
    """Finish what shards have explained, as one of them, which waits for nobody.

    It gives False where another shard runs and `may_change`: blocks may be explained again.

    Raises
    ------
    LockedError
        Another process finishes.
    """
    with Lease(lease_folder(store), FINISH, what, place=store, waits=False):
        yield n_shards_on(store) <= 1 or not may_change()


def _own_rooms(store: Place, scratch: str) -> contextlib.AbstractContextManager[Rooms]:
    """Room for temporary files of a run alone, with the lock of the file system where there is one."""
    if is_bucket(store):
        return _temporary_rooms(store, scratch)
    return Workspace(store)


@contextlib.contextmanager
def _shared_rooms(store: Place, scratch: str) -> Iterator[Rooms]:
    """Room for temporary files of a process that shares the store."""
    if is_bucket(store):
        with _temporary_rooms(store, scratch) as rooms:
            yield rooms
        return
    with _folder_kept(store), SharedWorkspace(store) as workspace:
        yield workspace


@contextlib.contextmanager
def _temporary_rooms(store: BucketPath, scratch: str) -> Iterator[Rooms]:
    """Room for temporary files of a run on a store in a bucket, which must be usable."""
    check_place(store)
    refuse_unusable(store)
    with scratch_folder(scratch) as folder:
        yield Rooms(folder)


@contextlib.contextmanager
def _folder_kept(store: Path) -> Iterator[None]:
    """Make the folder of the leases, and remove it afterwards if nobody else has a file there.

    Folders above it that were missing are removed too, unless they hold a store by then.
    """
    path = workspace_of(store)
    made = [parent for parent in path.parents if not parent.exists()]
    with opened_workspace(path):
        pass
    try:
        yield
    finally:
        for each in (path, *made):
            with contextlib.suppress(OSError):
                each.rmdir()


def refuse_finishing(store: Place, say: Say | None = None) -> None:
    """Raise a `LockedError` if a process finishes what the shards of this store have explained."""
    _refuse(store, [FINISH], say)


def refuse_running(store: Place, say: Say | None = None, but: str = "") -> None:
    """Raise a `LockedError` if anything runs on the store, beside the holder of the name `but`.

    What runs on another machine is watched until it gives a sign of life, or is dead.
    """
    if not but and not is_bucket(store) and is_locked(store):
        raise LockedError(f"{store} is locked by a running job: wait for it")
    _refuse(store, [name for name in _names_on(store) if name != but], say)


def _refuse(store: Place, names: list[str], say: Say | None) -> None:
    holder = living_holder(lease_folder(store), *names, say=say)
    if holder is not None:
        raise LockedError(f"{store} is locked by {holder}: wait for it")


def holders_on(store: Place) -> list[Holder]:
    """The processes that run on a store, seen at once; those on other machines may be dead.

    They are in the order of their work: shard 2 comes before shard 10.
    """
    found = (holder_of(lease_folder(store), name) for name in _names_on(store))
    holders = [holder for holder in found if holder is not None]
    return sorted(holders, key=lambda holder: (len(holder.what), holder.what, holder.token))


def n_shards_on(store: Place) -> int:
    """The number of shards that run on a store, seen at once; those elsewhere may be dead."""
    folder = lease_folder(store)
    return sum(holder_of(folder, name) is not None for name in _shards_on(store))


def _shards_on(store: Place) -> list[str]:
    """The names of the leases of shards on a store."""
    return [name for name in _names_on(store) if name not in (RUN, FINISH)]


def _names_on(store: Place) -> list[str]:
    """The names of the leases of a store; none where nothing can run, or where one cannot look."""
    try:
        return held_names(lease_folder(store))
    except (OSError, InputError):
        return []


def is_running(store: Place) -> bool:
    """Whether a run holds the lock of this store now, or a shard runs on it.

    One on another machine that was silent for ten minutes does not count.
    """
    if not is_bucket(store) and is_locked(store):
        return True
    return any(not holder.is_silent for holder in holders_on(store))


def lease_folder(store: Place) -> Folder:
    """The folder of the leases of a store."""
    if is_bucket(store):
        return Folder(store.with_name(f".{store.name}.running"))
    return Folder(workspace_of(store))
