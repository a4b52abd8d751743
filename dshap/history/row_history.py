"""The history of the rows of a cube: the run that computed each, and the changes since a run.

A night's cube contains rows that were computed tonight and rows that were carried from last
night's. For each explanation `keys/RUN_ID` records the row of last night's cube that each row was
carried from, and the run that computed it, so that a sink which missed a night still gets the
missing changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import Status
from dshap.core.errors import UnreachableError
from dshap.core.places import Place
from dshap.core.records import BoolArray
from dshap.core.rows import spans
from dshap.history.key_joins import KeyJoins
from dshap.history.run_folders import RunFolders
from dshap.history.run_record import KeyCounts
from dshap.storage.array_files import (
    ENTRIES_AT_ONCE,
    entries_of_array,
    form_of_array,
    parts_of_array,
    rows_of_array,
    writing_array,
)
from dshap.storage.folder import Folder
from dshap.storage.seals import ALTERED, digest_of_file, sealed_record, whole_record
from dshap.tables.keys.digests import UNREADABLE, RowDigests
from dshap.tables.keys.joining import keys_not_in

CARRIED = (int(Status.OK), int(Status.SKIPPED))
"""The statuses of rows that need not be explained again; failed ones are tried again."""


def counts_between(tonight: RunFolders, before: RunFolders | None, joins: KeyJoins) -> KeyCounts:
    """The numbers of keys of tonight's table against those of the run before.

    If another key identifies rows, every key is new.
    """
    n_rows = len(tonight.digests)
    if before is None or not has_same_key(tonight, before):
        return KeyCounts(n_rows, 0, 0, 0)
    found = joins.join(tonight, before)
    return KeyCounts(
        n_rows - found.n_known,
        found.n_known - found.n_unchanged,
        found.n_unchanged,
        found.n_before - found.n_known,
    )


def has_same_key(run: RunFolders, other: RunFolders) -> bool:
    """Whether the rows of both have the same key columns, in one order, of the same kinds."""
    return run.digests.key_kinds == other.digests.key_kinds


@dataclass(frozen=True)
class NightHistory:
    """The history of one explanation's cube of a night; see `dshap.sinks.RowHistory`."""

    folders: RunFolders
    explain: str
    joins: KeyJoins
    """The comparisons of the rows of runs."""

    @property
    def run_id(self) -> str:
        return self.folders.run_id

    @property
    def _file(self) -> str:
        """The name of the file with the decisions, written last."""
        return f"{self.explain}.json"

    @cached_property
    def _said(self) -> dict[str, Any]:
        """The decision as it was stored; empty if it is not written, or was altered."""
        try:
            return whole_record(self._file, Folder(self.folders.keys).get(self._file) or b"")
        except ValueError:
            return {}

    @property
    def is_there(self) -> bool:
        """Whether the file with the decisions is there, whole or damaged."""
        return Folder(self.folders.keys).has(self._file)

    @property
    def is_written(self) -> bool:
        return bool(self._said)

    @cached_property
    def damage(self) -> str:
        """The reason why the history cannot be read; empty if it can."""
        if not self._said and self.is_there:
            return f"{self._file}: {ALTERED}"
        try:
            for name in self._altered():
                return f"{name}: {ALTERED}"
            lengths = {
                (len(self.rows),),
                *(form_of_array(file)[0] for file in (self.positions, self._computed)),
            }
        except UnreachableError:
            raise
        except UNREADABLE as error:
            return str(error)
        if len(lengths) > 1:
            return "its files have different numbers of rows"
        n_runs = len(self._said.get("runs", ()))
        if not _is_within(self._computed, 0, n_runs):
            return f"{self._computed.name} names runs that {self._file} does not list"
        if not _is_within(self.positions, -1, np.iinfo(np.int64).max):
            return f"{self.positions.name} has negative rows of the earlier cube"
        return ""

    def _altered(self) -> Iterator[str]:
        """The names of files whose content differs from that written with the decision."""
        for name, digest in self._said.get("files", {}).items():
            with Folder(self.folders.keys).open(name) as opened:
                if digest_of_file(opened) != digest:
                    yield name

    @property
    def method(self) -> str:
        """The digest of the method that all rows of the cube are explained by."""
        return str(self._said.get("method", ""))

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts of model and method for the record of the run; empty if they are not known."""
        found: Mapping[str, Any] = self._said.get("facts", {})
        return found

    @property
    def positions(self) -> Place:
        """The file of the rows of the earlier cube that these are carried from; −1 of the others."""
        return self.folders.keys / f"{self.explain}.positions.npy"

    @property
    def _computed(self) -> Place:
        return self.folders.keys / f"{self.explain}.computed.npy"

    @cached_property
    def _runs(self) -> NDArray[Any]:
        return np.array(self._said["runs"], dtype=np.dtypes.StringDType())

    @property
    def rows(self) -> RowDigests:
        """The keys and digests of the rows."""
        return self.folders.digests

    def computed_by(self, start: int, stop: int) -> NDArray[Any]:
        """(n,): the id of the run that computed each of the rows start to stop."""
        return self._runs[rows_of_array(self._computed, start, stop)]

    def changed_since(self, run_id: str, method: str) -> BoolArray | None:
        """(n,): whether a row was computed after a run; None if that run is not known any more."""
        if self._before(run_id, method) is None:
            return None
        # ids of runs begin with their time, so that text order is the order of the runs
        is_later = np.array([run > run_id for run in self._said["runs"]])
        parts = [is_later[part] for part in parts_of_array(self._computed)]
        return np.concatenate([np.zeros(0, bool), *parts])

    def deleted_since(self, run_id: str, method: str) -> Iterator[Any] | None:
        """The key columns of rows of an earlier run that are not here, as batches of Arrow.

        None if that run is not known any more.
        """
        before = self._before(run_id, method)
        if before is None:
            return None
        return keys_not_in(before.rows, self.joins.join(before.folders, self.folders))

    def _before(self, run_id: str, method: str) -> NightHistory | None:
        """The history of an earlier run of the same method and key."""
        before = NightHistory(RunFolders(self.folders.store, run_id), self.explain, self.joins)
        is_known = before.is_written and before.method == method == self.method
        if is_known and not before.damage and self.has_key_of(before):
            return before
        return None

    def has_key_of(self, other: NightHistory) -> bool:
        """Whether the rows of both have the same key columns, in one order, of the same kinds."""
        return has_same_key(self.folders, other.folders)

    def fault(self, n_rows: int) -> str:
        """The first thing in it that does not agree, in words, for so many rows; empty for none."""
        if not self.is_written and self.is_there:
            return f"is damaged ({ALTERED})"
        if not self.is_written:
            return "is missing"
        if self.damage:
            return f"has files beside it that cannot be read ({self.damage})"
        if len(self.rows) != n_rows:
            return f"has arrays whose length is not {n_rows:,}"
        n_carried = sum(int((part >= 0).sum()) for part in parts_of_array(self.positions))
        if n_carried != self.n_carried:
            return f"counts {self.n_carried:,} carried rows, but {n_carried:,} are carried"
        return ""

    def write(
        self,
        method: str,
        before: NightHistory | None,
        statuses: NDArray[np.int8],
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Decide which rows are carried from the cube of an earlier run, and store the decision.

        `statuses` (n,) are those of that cube's rows, `Status.PENDING` if their block is
        damaged: such rows are explained again.  `facts` describe model and method.  An earlier
        decision of this run is replaced: it is not there while its arrays are written again.
        """
        runs = [self.run_id]
        previous = ""
        if before is not None:
            runs += before._said["runs"]
            previous = before.run_id
        n_carried = 0
        n_damaged = 0
        used = {0}
        # two passes: the numbers of the runs are known only when all rows are decided, and the
        # rows do not fit in memory
        for each in self._decisions(before, statuses):
            n_carried += int(np.count_nonzero(each.is_carried))
            n_damaged += each.n_damaged
            used |= {*np.unique(each.run_of_row).tolist()}
        # runs without a row left are dropped, else the list would grow with each night
        number = np.zeros(len(runs), np.int32)
        number[sorted(used)] = np.arange(len(used))
        room = Folder(self.folders.keys)
        # first: without this file the arrays count as not written
        room.delete(self._file)
        n_rows = len(self.rows)
        with (
            writing_array(self._computed, n_rows, np.int32) as computed,
            writing_array(self.positions, n_rows, np.int64) as positions,
        ):
            for each in self._decisions(before, statuses):
                positions.write(each.positions)
                computed.write(number[each.run_of_row])
        said = {
            "method": method,
            "runs": [runs[j] for j in sorted(used)],
            "previous": previous,
            "carried": n_carried,
            "damaged": n_damaged,
            "facts": dict(facts or {}),
            "files": {
                self.positions.name: positions.digest,
                self._computed.name: computed.digest,
            },
        }
        room.replace(self._file, sealed_record(self._file, said))
        for name in ("_said", "damage", "_runs"):
            self.__dict__.pop(name, None)

    def _decisions(
        self, before: NightHistory | None, statuses: NDArray[np.int8]
    ) -> Iterator[_Decision]:
        """Decide span by span which rows are carried from the cube of an earlier run."""
        n_rows = len(self.rows)
        if before is None or not n_rows:
            for start, stop in spans(0, n_rows, ENTRIES_AT_ONCE):
                yield _Decision(
                    np.full(stop - start, -1, np.int64), np.zeros(stop - start, np.int32)
                )
            return
        found = self.joins.join(self.folders, before.folders)
        for start, stop in found.spans():
            known, is_unchanged = found.read(start, stop)
            at = np.flatnonzero(is_unchanged)
            status = statuses[known[at]]
            at = at[np.isin(status, CARRIED)]
            positions = np.full(stop - start, -1, np.int64)
            positions[at] = known[at]
            run_of_row = np.zeros(stop - start, np.int32)
            # 0 is this run, so that the runs of the earlier cube follow from 1
            run_of_row[at] = 1 + entries_of_array(before._computed, known[at])
            yield _Decision(positions, run_of_row, int((status == Status.PENDING).sum()))

    @property
    def previous(self) -> str:
        """The run whose cube rows are carried from; empty if none are."""
        return str(self._said.get("previous", ""))

    @property
    def n_carried(self) -> int:
        return int(self._said["carried"])

    @property
    def n_damaged(self) -> int:
        """The number of unchanged rows explained again, as their earlier block is damaged."""
        return int(self._said.get("damaged", 0))

    def carries_only(self, statuses: NDArray[np.int8]) -> bool:
        """Whether all carried rows may still be carried from a cube of these statuses (n,)."""
        if not _is_within(self.positions, -1, len(statuses)):
            return False
        return all(
            np.isin(statuses[part[part >= 0]], CARRIED).all()
            for part in parts_of_array(self.positions)
        )


@dataclass(frozen=True)
class _Decision:
    """Which of the rows of a span are carried."""

    positions: NDArray[np.int64]
    """(n,): the row of the earlier cube, −1 of rows that are explained."""
    run_of_row: NDArray[np.int32]
    """(n,): the run that computed the row: 0 is this one, the others are those of the earlier cube."""
    n_damaged: int = 0
    """The number of unchanged rows that are explained, as their earlier block is damaged."""

    @property
    def is_carried(self) -> BoolArray:
        return self.positions >= 0


def _is_within(file: Place, least: int, below: int) -> bool:
    """Whether all values of an array are at least `least`, and less than `below`."""
    return all(((part >= least) & (part < below)).all() for part in parts_of_array(file))
