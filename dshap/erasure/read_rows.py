"""Rows that runs have copied: the parts of each run, and the rows that methods learned from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from dshap.core.errors import DamagedError
from dshap.core.places import Place
from dshap.cube import read_prepared
from dshap.erasure.work import ErasureWork, HoldsRows
from dshap.history.run_folders import remove_room, runs_with_rows
from dshap.steps.outlook import ROOM, read_learned, withdraw_learned
from dshap.storage.folder import Folder
from dshap.tables.parts_without import erase_in_part, note_part
from dshap.tables.stored_parts import columns_of_part, count_rows_in, parts_in
from dshap.warehouse.snapshot import SNAPSHOT, Snapshot

FACTS = "facts"
"""The room of facts about the rows, in the parts of a run."""


def find_in_room(room: Place, work: ErasureWork) -> set[int]:
    """The numbers of the wanted keys in a room of parts; notes the texts of all its rows."""
    found: set[int] = set()
    for part in parts_in(room):
        if set(work.keys.names) <= set(columns_of_part(part)):
            work.has_texts = True
            found |= set(note_part(part, work.keys, work.texts))
    return found


def erase_in_room(room: Place, work: ErasureWork) -> int:
    """Write the parts of a room, and their record, without the wanted rows; return their number."""
    known = Snapshot.read(room)
    parts = [part for part in parts_in(room) if set(work.keys.names) <= set(columns_of_part(part))]
    done = {part.name: erase_in_part(part, work.keys) for part in parts}
    if known is not None and done:
        digests = {name: each.digest for name, each in done.items()} if known.parts else {}
        now = replace(known, n_rows=count_rows_in(room), parts={**known.parts, **digests})
        if now != known:
            Folder(room).replace(SNAPSHOT, now.to_json().encode())
    n_gone = sum(each.n_gone for each in done.values())
    if n_gone:
        remove_room(room / FACTS)
    return n_gone


class ReadParts(HoldsRows):
    """The parts of each run: `parts/RUN_ID`."""

    noun = "rows of parts"

    def find(self, work: ErasureWork) -> set[int]:
        found: set[int] = set()
        for run in runs_with_rows(work.store):
            found |= find_in_room(run.parts, work)
        return found

    def erase(self, work: ErasureWork) -> None:
        for run in runs_with_rows(work.store):
            work.count(self.noun, erase_in_room(run.parts, work))


class LearnedRows(HoldsRows):
    """The learned methods of a nightly job, and the rows from which they were learned: `prepared/`.

    A method that was learned from a wanted row is withdrawn, because its states may contain the
    row, for example as a landmark or a row of a background.  The next run learns it again from the
    rows that are left.  A method that has read no row, such as path-dependent values of trees,
    stays.
    """

    noun = "rows to learn from"

    def find(self, work: ErasureWork) -> set[int]:
        found: set[int] = set()
        for run_id in _runs_in(work.store):
            here = find_in_room(work.store / ROOM / "rows" / run_id, work)
            if here:
                is_empty = len(here) >= count_rows_in(work.store / ROOM / "rows" / run_id)
                for explain, method in _learned_in(work.store, run_id):
                    if is_empty or _has_learned(work.store / ROOM / method):
                        work.withdrawn.add(explain)
            found |= here
        return found

    def erase(self, work: ErasureWork) -> None:
        room = work.store / ROOM
        for explain in sorted(work.withdrawn):
            about = read_learned(room, explain)
            if about is not None:
                withdraw_learned(room, explain, about)
                work.count("methods")
        self._remove_unused(room)
        for run_id in _runs_in(work.store):
            work.count(self.noun, erase_in_room(room / "rows" / run_id, work))

    def _remove_unused(self, room: Place) -> None:
        """Remove the states of methods that no explanation has any more."""
        names = Folder(room).list()
        explained = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        known = [read_learned(room, explain) for explain in explained]
        used = {about.method for about in known if about is not None}
        for name in names:
            if name != "rows" and name not in used and Folder(room).has_room(name):
                remove_room(room / name)


def _runs_in(store: Place) -> list[str]:
    return Folder(store / ROOM / "rows").list()


def _learned_in(store: Place, run_id: str) -> Iterator[tuple[str, str]]:
    """(explanation, method) of each whose method was learned in a run."""
    for name in Folder(store / ROOM).list():
        if name.endswith(".json"):
            explain = name.removesuffix(".json")
            about = read_learned(store / ROOM, explain)
            if about is not None and about.run_id == run_id:
                yield explain, about.method


def _has_learned(method: Place) -> bool:
    """Whether a method has read rows: one of a model alone, such as its trees, has nothing of them.

    A method whose description cannot be read counts as one that has.
    """
    with contextlib.suppress(DamagedError):
        content = read_prepared(method)
        return content is None or content["data"]["n_rows"] > 0
    return True
