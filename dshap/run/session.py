"""The session of one call: where tasks run, a temporary folder, options, and progress."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dshap import engine
from dshap.core.annotations import PathLike
from dshap.core.options import RunOptions
from dshap.core.places import Place
from dshap.core.rules import Flag, as_place
from dshap.core.types import Pass, RowReader
from dshap.engine import (
    Events,
    Executor,
    LineProgress,
    LoopExecutor,
    NotebookProgress,
    Plan,
    Progress,
    ToldProgress,
    checked_client,
    current_client,
    is_notebook,
    learn_from,
)
from dshap.engine.events import while_held
from dshap.storage.full_disk import naming_full_disk
from dshap.storage.running import alone
from dshap.storage.workspace import Rooms

IDLE_WORKER_BYTES = 320 << 20
"""Bytes that a worker occupies before its first task."""
ROOM_FOR_STORE = "make room there, or choose another store; the same call then continues"
"""The remedy for a full disk of a call with a store."""
ROOM_FOR_FILES = "make room there, or set TMPDIR to a folder on another disk"
"""The remedy for a full disk of a call without one, whose cube is in a temporary folder."""


@dataclass(frozen=True)
class Session:
    """Everything all steps of one call share: executor, workspace, options, progress.

    It is a `dshap.tables.site.Site`: the tables of a run are read and spooled here.
    """

    executor: Executor
    workspace: Rooms
    options: RunOptions = field(default_factory=RunOptions)
    progress: Events = field(default_factory=Events)
    shows_progress: bool = False
    """Whether a user sees the progress of the call."""

    @property
    def memory_limit(self) -> int | None:
        """Bytes of one worker: the smaller of its own limit and the option's; None: not known."""
        limits = [
            limit for limit in (self.executor.memory_limit, self.options.memory_limit) if limit
        ]
        return min(limits, default=None)

    def check(self, plan: Plan) -> None:
        """Raise a `DoesNotFitError` if a task of the plan needs more memory than a worker has."""
        plan.check(self.memory_limit, self.executor.n_threads, IDLE_WORKER_BYTES)

    @property
    def is_local(self) -> bool:
        """Whether tasks run in this process and can see its arrays."""
        return self.executor.is_local

    def folder(self, name: str) -> Path:
        """An empty folder that is removed at the end of the run."""
        return self.workspace.folder(name)

    def learn(self, one: Pass, reader: RowReader) -> Any:
        """Run a pass over all rows of a table; returns its result."""
        return learn_from(self.executor, one, reader)

    def each_partition(self, parts: Sequence[Any], write: Callable[[Any, int], int]) -> list[int]:
        """Call write(partition, index) for each delayed partition of Dask; return the results.

        The call runs on the worker that computes the partition.
        """
        return self.executor.each_partition(parts, write)


@contextlib.contextmanager
def open_session(
    store: PathLike | Place | None, client: Any, progress: bool | None, options: Mapping[str, Any]
) -> Iterator[tuple[Place, Session]]:
    """Open the session of one call; yield the absolute path of the store, and the session.

    Without a store, a temporary folder is used, and removed at the end.

    Raises
    ------
    InputError
        Unknown options, or a client that is not one of Dask.
    """
    record = RunOptions.of(options)
    of_workers = Events()
    if progress is not False:
        of_workers.listeners.append(LineProgress())
    executor = _executor_for(client, record.wait, of_workers.say)
    displays = _displays_for(progress)
    events = Events(*displays)
    with _held(store, events.say, record.scratch or "") as (path, workspace):
        try:
            told = ToldProgress(workspace.tell, lambda: executor)
            of_workers.listeners.append(told)
            # first: it raises if the lock was lost, before a display shows the step as begun
            events.listeners = [while_held(workspace.check), told, *displays]
            yield path, Session(executor, workspace, record, events, bool(displays))
        except KeyboardInterrupt:
            events.say(f"interrupted; {_kept(store)}")
            raise


def _kept(store: PathLike | Place | None) -> str:
    """The work that remains of a call that was interrupted, in words."""
    if store is None:
        return "nothing is stored without store="
    return f"finished work is kept in {store}: the same call continues"


def _executor_for(client: Any, wait_s: float, say: Callable[..., None]) -> Executor:
    """The Dask executor of this client or address, or of the current client.

    It is the plain loop if there is none.
    """
    if client is None:
        client = current_client()
    else:
        client = checked_client(client)
    if client is None:
        return LoopExecutor()
    return engine.DaskExecutor(client, wait_s, say)


def _displays_for(given: bool | None) -> list[Progress]:
    """The displays of a call: as requested, or by default on a terminal and in a notebook."""
    if given is not None:
        given = Flag()("progress", given)
    if given is False:
        return []
    if is_notebook():
        return [NotebookProgress()]
    if given or sys.stderr.isatty():
        return [LineProgress()]
    return []


@contextlib.contextmanager
def _held(
    store: PathLike | Place | None, say: Callable[[str], None], scratch: str
) -> Iterator[tuple[Place, Rooms]]:
    """Lock a store for one call; yield its absolute path, and room for temporary files.

    Without a store that is in a temporary folder of this process, which no other process knows.
    """
    if store is not None:
        path = as_place("store", store)
        opened = alone(path, "a call of dshap", say, scratch)
        with naming_full_disk(path, ROOM_FOR_STORE), opened as rooms:
            yield path, rooms
        return
    folder = Path(tempfile.mkdtemp(prefix="dshap-"))
    try:
        with naming_full_disk(folder, ROOM_FOR_FILES):
            yield folder / "cube.zarr", Rooms(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
