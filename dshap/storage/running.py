"""The processes that run on a store: one run alone, or any number of shards beside each other.

| | beside a run alone | beside a shard | beside the finish |
|---|---|---|---|
| a run alone (`alone`) | refused | refused | refused |
| a shard (`beside_others`) | refused | runs | runs; refused once it has rows to explain (`refuse_finishing`) |
| the finish (`beside_others`) | refused | refused | refused |
| the finish by a shard (`finishing`) | | runs, unless blocks may change | leaves it to the other |

A run alone has the lease "run", and each shard has a lease of a different name.  Each first puts
its own lease and then looks for others: if a run and a shard begin at the same time, at least one
of them finds the other, and is refused.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator

from dshap.core.errors import InputError, LockedError
from dshap.core.places import Place
from dshap.storage.folder import Folder
from dshap.storage.lease import Holder, Lease, clear_gone, held_names, holder_of, living_holder
from dshap.storage.workspace import Rooms, workspace_of

RUN = "run"
"""The name of the lease of a run alone."""
FINISH = "finish"
"""The name of the lease of the process that finishes the work of shards."""

Say = Callable[[str], None]


@contextlib.contextmanager
def alone(store: Place, what: str, say: Say | None = None, scratch: str = "") -> Iterator[Rooms]:
    """Lock a store for one run; no other run, and no shard, may run on it.

    Raises
    ------
    LockedError
        Another run or a shard runs on this store.
    """
    folder = lease_folder(store)
    workspace = workspace_of(store)
    with (
        workspace.opened(scratch) as rooms,
        Lease(folder, RUN, what, place=store, say=say) as lease,
    ):
        # after the lease is there: of two processes that exclude each other, at least one sees the
        # other
        refuse_running(store, say, but=RUN)
        clear_gone(folder)
        workspace.clear(rooms)
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
    """Run on a store together with shards, but not with a run alone; with `finishes`, alone.

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
        workspace_of(store).opened(scratch) as rooms,
        Lease(folder, name, what, place=store, say=say) as lease,
    ):
        clear_gone(folder)
        # as in `alone`, with the own lease in place
        _refuse(store, [RUN], say)
        if finishes:
            _refuse(store, _shards_on(store), say)
        rooms.lease = lease
        yield rooms


@contextlib.contextmanager
def finishing(store: Place, what: str, may_change: Callable[[], bool]) -> Iterator[bool]:
    """Finish the work of shards, as one of them, without waiting for others.

    It yields False if another shard runs and `may_change()` is true, because that shard may explain
    blocks again.

    Raises
    ------
    LockedError
        Another process finishes.
    """
    with Lease(lease_folder(store), FINISH, what, place=store, waits=False):
        yield n_shards_on(store) <= 1 or not may_change()


def refuse_finishing(store: Place, say: Say | None = None) -> None:
    """Raise a `LockedError` if a process finishes the work of the shards of this store."""
    _refuse(store, [FINISH], say)


def refuse_running(store: Place, say: Say | None = None, but: str = "") -> None:
    """Raise a `LockedError` if anything runs on the store, beside the holder of the name `but`.

    A process on a different machine is watched until it gives a sign of life, or counts as dead.
    """
    _refuse(store, [name for name in _names_on(store) if name != but], say)


def _refuse(store: Place, names: list[str], say: Say | None) -> None:
    holder = living_holder(lease_folder(store), *names, say=say)
    if holder is not None:
        raise LockedError(f"{store} is locked by {holder}: wait for it")


def holders_on(store: Place) -> list[Holder]:
    """The processes that run on a store, without waiting: those on other machines may be dead.

    They are in the order of their work: shard 2 comes before shard 10.
    """
    found = (holder_of(lease_folder(store), name) for name in _names_on(store))
    holders = [holder for holder in found if holder is not None]
    return sorted(holders, key=lambda holder: (len(holder.what), holder.what, holder.token))


def n_shards_on(store: Place) -> int:
    """The number of shards that run on a store, without waiting: those elsewhere may be dead."""
    folder = lease_folder(store)
    return sum(holder_of(folder, name) is not None for name in _shards_on(store))


def _shards_on(store: Place) -> list[str]:
    """The names of the leases of shards on a store."""
    return [name for name in _names_on(store) if name not in (RUN, FINISH)]


def _names_on(store: Place) -> list[str]:
    """The names of the leases of a store; none if the folder of leases cannot be read.

    Raises
    ------
    LockedError
        The leases are in a folder of another user, which cannot be looked into.
    """
    try:
        return held_names(lease_folder(store))
    except PermissionError as error:
        raise LockedError(
            f"{store} may be locked by a running job: {error.filename} belongs to another user"
        ) from error
    except (OSError, InputError):
        return []


def is_running(store: Place) -> bool:
    """Whether a run or a shard has locked the store now.

    A process on a different machine that has been silent for ten minutes does not count.  A folder
    of leases that belongs to a different user, and cannot be read, counts as a running process.
    """
    try:
        return any(not holder.is_silent for holder in holders_on(store))
    except LockedError:
        return True


def lease_folder(store: Place) -> Folder:
    """The folder of the leases of a store."""
    return workspace_of(store).leases()
