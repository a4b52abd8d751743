"""The runs of a job's store: their ids, their folders, and which of them is over.

A run has a folder under `runs/`, with a description of the run (`run.json`, written first) and its
results (`run_results.json`, written last).  The rows that it read are under `parts/`, the digests
of their keys under `keys/`.  A run that was killed has no results yet: it is finished first, from
its parts, where these are whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from functools import cached_property
from typing import Any

from dshap.core.errors import DamagedError
from dshap.core.places import Place
from dshap.cube.arrays import RUNS
from dshap.history.run_record import ID, RECORD
from dshap.storage.folder import Folder
from dshap.storage.seals import ALTERED, digest_of_file, sealed_record, whole_record
from dshap.tables.keys.digests import DigestBatches, RowDigests, write_digests
from dshap.warehouse.snapshot import Snapshot

ABOUT = "run.json"
ROWS = "rows.parquet"
"""The file of the keys and digests of a run's rows."""
ROWS_MARK = "rows.json"
"""The file of the digest of `ROWS`, written before it; runs of earlier versions have none."""
LOOK = "source.json"
"""The file with the results of a look at the source, where its rows are read in place."""


@dataclass(frozen=True)
class RunAbout:
    """The facts that a run begins with."""

    run_id: str
    as_of: str
    """The date that replaces {as_of} in a query, as in 2026-11-27."""
    previous: Mapping[str, str] = field(default_factory=dict)
    """explanation -> the run whose cube was read when this run began; only those that had one."""
    job: str = ""
    """The digest of [source], [model] and [[explain]] as the job had them; empty: not known."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """"[source]", … -> the digest of that table of the job alone."""
    backfill: bool = False
    """Whether the run is for an earlier date than the run before, beside the cubes that are read."""


@dataclass(frozen=True)
class RunFolders:
    """The folders of one run in the store of a job."""

    store: Place
    run_id: str

    @property
    def parts(self) -> Place:
        """The folder of the rows that the run read."""
        return self.store / "parts" / self.run_id

    @property
    def facts(self) -> Place:
        """The folder of facts about these rows, for the parts of a run that come later."""
        return self.parts / "facts"

    @property
    def keys(self) -> Place:
        """The folder of the digests of the rows, and of the carried rows."""
        return self.store / "keys" / self.run_id

    @property
    def record(self) -> Place:
        """The folder of the description of the run and its results."""
        return self.store / RUNS / self.run_id

    @cached_property
    def about(self) -> RunAbout | None:
        """The facts that the run began with; None if they were never written, or are damaged."""
        content = Folder(self.record).get(ABOUT)
        with contextlib.suppress(ValueError, TypeError):
            return RunAbout(**whole_record(ABOUT, content or b""))
        return None

    @property
    def as_of(self) -> date | None:
        """The date of the run; None if it has not begun."""
        return date.fromisoformat(self.about.as_of) if self.about else None

    def refuse_damaged(self) -> None:
        """Raise a `DamagedError` if the facts that the run began with were altered."""
        if self.about is None and Folder(self.record).has_file(ABOUT):
            raise DamagedError(
                f"{self.record / ABOUT} is damaged ({ALTERED}): dshap verify {self.store} --repair "
                "removes it, and the same command then begins a new run"
            )

    @property
    def is_over(self) -> bool:
        """Whether the run has written its results."""
        return Folder(self.record).has_file(RECORD)

    @cached_property
    def digests(self) -> RowDigests:
        """The keys and digests of the rows that the run read, as they were when first asked for.

        Raises
        ------
        FileNotFoundError
            They are not there.
        ValueError
            They differ from those that `keep_digests` stored.
        """
        room = Folder(self.keys)
        if not room.has_file(ROWS):
            raise FileNotFoundError(str(self.keys / ROWS))
        mark = room.get(ROWS_MARK)
        if mark is not None:
            with room.open(ROWS) as opened:
                if whole_record(ROWS_MARK, mark)["digest"] != digest_of_file(opened):
                    raise ValueError(f"{ROWS}: {ALTERED}")
        found = RowDigests(self.keys / ROWS)
        if mark is None:  # its pages have checksums
            found.read_through()
        len(found)  # the footer is read
        return found

    def keep_digests(
        self,
        batches: DigestBatches,
        confirm: Callable[[], None],
        census: Callable[[], Mapping[str, Any]] = dict,
    ) -> RowDigests:
        """Store the keys and digests of the rows that the run read, batches of `digest_rows`.

        `confirm` is called once all rows are read, before anything has its name in the store; then
        `census` returns the facts of these rows, which are stored with the digests.
        """
        room = Folder(self.keys)
        with room.writing(ROWS) as private:
            write_digests(batches, private)
            with private.open("rb") as opened:
                mark = {"digest": digest_of_file(opened), "census": census()}
            confirm()
            room.replace(ROWS_MARK, sealed_record(ROWS_MARK, mark))
        self.__dict__.pop("digests", None)
        return self.digests

    @property
    def census(self) -> Mapping[str, Any]:
        """The facts of the rows that were stored with their digests; empty if there are none."""
        with contextlib.suppress(ValueError):
            facts = whole_record(ROWS_MARK, Folder(self.keys).get(ROWS_MARK) or b"")
            return dict(facts.get("census", {}))
        return {}

    def begin(self, about: RunAbout) -> None:
        """Write the description of the run; nothing changes if it is written already."""
        Folder(self.record).put_new(ABOUT, sealed_record(ABOUT, asdict(about)))

    def keep_look(self, snapshot: Snapshot) -> None:
        """Store the results of a look at a table that is read in place, for the run's record."""
        Folder(self.record).replace(LOOK, snapshot.to_json().encode())

    @property
    def look(self) -> Snapshot | None:
        """The look at the source from `keep_look`; None if there is none, or it is damaged."""
        content = Folder(self.record).get(LOOK)
        with contextlib.suppress(ValueError, TypeError):
            return Snapshot.from_json((content or b"").decode())
        return None

    def drop_facts(self) -> None:
        """Remove the facts about the rows, which no part of the run asks for any more."""
        if self.has_rows:
            remove_room(self.facts)

    @property
    def has_rows(self) -> bool:
        """Whether rows that the run read are in the store."""
        return Folder(self.store).has_room(f"parts/{self.run_id}")

    @property
    def has_keys(self) -> bool:
        """Whether digests of the rows are in the store."""
        return Folder(self.store).has_room(f"keys/{self.run_id}")

    def drop_rows(self) -> None:
        """Remove the rows and digests of the run; its record stays."""
        # Both lose their marks before either loses a file, so that a kill between leaves nothing
        # whole.
        for folder in (self.parts, self.keys):
            _unmark(folder)
        for folder in (self.keys, self.parts):
            remove_room(folder)

    def drop(self) -> None:
        """Remove all of the run, and the folders above that are empty then, the store too."""
        self.drop_rows()
        remove_room(self.record)
        for folder in (self.parts.parent, self.keys.parent, self.record.parent, self.store):
            Folder(folder).remove_empty()


def remove_room(room: Place) -> None:
    """Remove a room of a store with all in it, as far as that can be done."""
    Folder(room.parent).discard_room(room.name)


def _unmark(room: Place) -> None:
    """Remove the .json files of a room, which mark the others as whole.

    The files that a killed process leaves then count as unfinished, never as complete.
    """
    folder = Folder(room)
    marks = [name for name in folder.list() if name.endswith(".json")]
    for mark in marks:
        folder.delete(mark)
    if marks:
        folder.sync_names()


def runs_in_store(store: Place) -> list[RunFolders]:
    """The runs of a store, in the order of time."""
    return [RunFolders(store, name) for name in Folder(store / RUNS).list() if ID.fullmatch(name)]


def unfinished_runs(store: Place) -> list[RunFolders]:
    """The runs of a store that are to be finished, in the order of time, from one listing of all runs.

    A run without results before one that is over has lost them: it was finished before the later one
    began, and is history.
    """
    runs = runs_in_store(store)
    if not runs:
        return []
    there = set(Folder(store / RUNS).tree())
    found: list[RunFolders] = []
    for run in reversed(runs):
        if f"{run.run_id}/{RECORD}" in there:
            break
        found.append(run)
    return found[::-1]


def runs_with_rows(store: Place) -> list[RunFolders]:
    """The runs whose rows are in a store, in the order of time, from one listing."""
    rooms = set(Folder(store / "parts").list())
    return [run for run in runs_in_store(store) if run.run_id in rooms]


def made_by(store: Place, explain: str, run_id: str) -> str:
    """The run that made a cube shared by all runs: this one, unless one is recorded."""
    room = Folder(store / RUNS)
    name = _maker_file(explain)
    known = room.get(name) or b""
    # the file is empty after `forget_maker`
    if not known:
        known = run_id.encode()
        room.replace(name, known)
    return known.decode()


def forget_maker(store: Place, explain: str) -> None:
    """Let the next run that asks be the one that made a cube, before blocks are added to it.

    Sinks that have loaded the cube as it was then load it again.
    """
    room = Folder(store / RUNS)
    name = _maker_file(explain)
    if room.has_file(name):
        room.replace(name, b"")


def _maker_file(explain: str) -> str:
    return f"{explain}.made"
