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

from dshap.core.options import RunOptions
from dshap.core.places import Place
from dshap.core.rules import Flag, as_place
from dshap.core.types import Pass, RowReader
from dshap.engine import (
    DaskExecutor,
    Executor,
    LineProgress,
    LoopExecutor,
    NotebookProgress,
    Plan,
    Progress,
    SilentProgress,
    ToldProgress,
    checked_client,
    collect_partitions,
    current_client,
    is_notebook,
    learn_from,
)
from dshap.storage.full_disk import naming_full_disk
from dshap.storage.running import alone
from dshap.storage.workspace import Rooms

IDLE_WORKER_BYTES = 320 << 20
"""Bytes that a worker occupies before its first task."""
ROOM_FOR_STORE = "make room there, or choose another store; the same call then goes on"
"""The remedy for a full disk of a call with a store."""
ROOM_FOR_FILES = "make room there, or let TMPDIR name a folder on another disk"
"""The remedy for a full disk of a call without one, whose cube lies in a temporary folder."""


@dataclass(frozen=True)
class HeldProgress:
    """A `Progress` that forwards everything, as long as the store is still held by this process.

    A `LockedError` ends the run otherwise, before it writes what another one may be writing.
    """

    shown: Progress
    check: Callable[[], None]
    told: Progress = field(default_factory=SilentProgress)
    """A display for who looks at the run from another process."""

    def begin(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        self.check()
        self.shown.begin(stage, total, unit, done)
        self.told.begin(stage, total, unit, done)

    def advance(self, amount: int = 1) -> None:
        self.check()
        self.shown.advance(amount)
        self.told.advance(amount)

    def end(self) -> None:
        self.check()
        self.shown.end()
        self.told.end()

    def say(self, text: str, **facts: Any) -> None:
        self.shown.say(text, **facts)


@dataclass(frozen=True)
class Session:
    """Everything all steps of one call share: executor, workspace, options, progress.

    It is a `dshap.tables.site.Site`: the tables of a run are read and spooled here.
    """

    executor: Executor
    workspace: Rooms
    options: RunOptions = field(default_factory=RunOptions)
    progress: Progress = field(default_factory=SilentProgress)

    @property
    def memory_limit(self) -> int | None:
        """Bytes of one worker: the smaller of its own limit and the option's; None: not known."""
        limits = [
            limit for limit in (self.executor.memory_limit, self.options.memory_limit) if limit
        ]
        return min(limits, default=None)

    def check(self, plan: Plan) -> None:
        """Raise a `DoesNotFitError` where a task of the plan needs more memory than a worker has."""
        plan.check(self.memory_limit, self.executor.n_threads, IDLE_WORKER_BYTES)

    @property
    def is_local(self) -> bool:
        """Whether tasks run in this process and can see its arrays."""
        return self.executor.is_local

    @property
    def shows_progress(self) -> bool:
        """Whether anybody sees how the call goes."""
        match self.progress:
            case SilentProgress() | HeldProgress(shown=SilentProgress()):
                return False
        return True

    def folder(self, name: str) -> Path:
        """An empty folder that is removed at the end of the run."""
        return self.workspace.folder(name)

    def learn(self, one: Pass, reader: RowReader) -> Any:
        """Run a pass over all rows of a table; gives its result."""
        return learn_from(self.executor, one, reader)

    def each_partition(self, parts: Sequence[Any], write: Callable[[Any, int], int]) -> list[int]:
        """Call write(partition, index) on each delayed partition of a Dask collection, in order.

        The call runs where the partition lives; gives the results.
        """
        match self.executor:
            case DaskExecutor() as executor:
                return collect_partitions(parts, write, executor)
        return collect_partitions(parts, write, None)


@contextlib.contextmanager
def open_session(
    store: str | Place | None, client: Any, progress: bool | None, options: Mapping[str, Any]
) -> Iterator[tuple[Place, Session]]:
    """Open the session of one call; gives the absolute path of the store, and the session.

    Without a store, a temporary folder is used, and removed at the end.

    Raises
    ------
    InputError
        Unknown options, or a client that is not one of Dask.
    """
    record = RunOptions.of(options)
    executor = _executor_for(client, progress, record.wait)
    shown = _progress_for(progress)
    with _held(store, shown.say, record.scratch or "") as (path, workspace):
        try:
            told = ToldProgress(workspace.tell, lambda: executor)
            held = HeldProgress(shown, workspace.check, told)
            match executor:
                case DaskExecutor():
                    executor.listen(told.say)
            yield path, Session(executor, workspace, record, held)
        except KeyboardInterrupt:
            shown.say(f"interrupted; {_kept(store)}")
            raise


def _kept(store: str | Place | None) -> str:
    """The work that is kept of a call that was interrupted, in words."""
    if store is None:
        return "nothing is kept without store="
    return f"what is finished is kept in {store}: the same call goes on"


def _executor_for(client: Any, progress: bool | None, wait_s: float) -> Executor:
    """The Dask executor of this client or address, or of the current client.

    It is the plain loop where there is none.
    """
    if client is None:
        client = current_client()
    else:
        client = checked_client(client)
    if client is None:
        return LoopExecutor()
    return DaskExecutor(
        client, wait_s, (SilentProgress() if progress is False else LineProgress()).say
    )


def _progress_for(given: bool | None) -> Progress:
    """Choose how progress is shown: on request, or by itself in a terminal or a notebook."""
    if given is not None:
        given = Flag()("progress", given)
    if given is False:
        return SilentProgress()
    if is_notebook():
        return NotebookProgress()
    if given or sys.stderr.isatty():
        return LineProgress()
    return SilentProgress()


@contextlib.contextmanager
def _held(
    store: str | Place | None, say: Callable[[str], None], scratch: str
) -> Iterator[tuple[Place, Rooms]]:
    """Hold a store for one call; gives its absolute path, and room for temporary files.

    Without a store that is in a temporary folder of this process, which nobody else knows.
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
