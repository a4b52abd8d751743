"""The history of the rows of a cube: the run that computed each, and what changed since a run.

A night's cube holds rows that were computed tonight and rows that were carried from last night's.
For each explanation `keys/RUN_ID` keeps the row of last night's cube that each row was carried from,
and the run that computed it, so that a sink which missed a night still learns what it lacks.
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
from dshap.core.seals import ALTERED, digest_of_file, sealed_record, whole_record
from dshap.cube.array_files import load_array, save_array
from dshap.cube.folder import Folder
from dshap.jobs.run_folders import RunFolders
from dshap.jobs.run_record import KeyCounts
from dshap.tables.digests import UNREADABLE, RowDigests

CARRIED = (int(Status.OK), int(Status.SKIPPED))
"""The statuses of rows that need not be explained again; failed ones are tried again."""


def counts_between(tonight: RowDigests, before: RowDigests | None) -> KeyCounts:
    """The numbers of keys of tonight's table against those of the run before.

    Where another key tells rows apart, every key is new.
    """
    if before is None or not len(before) or _key_kinds(before) != _key_kinds(tonight):
        return KeyCounts(len(tonight), 0, 0, 0)
    positions = tonight.positions_in(before)
    unchanged = int(tonight.is_unchanged(before, positions).sum())
    known = int((positions >= 0).sum())
    return KeyCounts(len(tonight) - known, known - unchanged, unchanged, len(before) - known)


@dataclass(frozen=True)
class NightHistory:
    """The history of one explanation's cube of a night; see `dshap.sinks.RowHistory`."""

    folders: RunFolders
    explain: str

    @property
    def run_id(self) -> str:
        return self.folders.run_id

    @property
    def _file(self) -> str:
        """The name of the file that says what was decided, written last."""
        return f"{self.explain}.json"

    @cached_property
    def _said(self) -> dict[str, Any]:
        """The decision as it was stored; empty where it is not written, or was altered."""
        try:
            return whole_record(self._file, Folder(self.folders.keys).get(self._file) or b"")
        except ValueError:
            return {}

    @property
    def is_there(self) -> bool:
        """Whether the file that says what was decided is there, whole or damaged."""
        return Folder(self.folders.keys).has(self._file)

    @property
    def is_written(self) -> bool:
        return bool(self._said)

    @cached_property
    def damage(self) -> str:
        """The reason why the history cannot be read; empty where it can."""
        if not self._said and self.is_there:
            return f"{self._file}: {ALTERED}"
        try:
            for name in self._altered():
                return f"{name}: {ALTERED}"
            positions = load_array(self.positions)
            lengths = {len(self.rows), len(self._run_of_row), len(positions)}
        except UnreachableError:
            raise
        except UNREADABLE as error:
            return str(error)
        if len(lengths) > 1:
            return "its files are of different numbers of rows"
        n_runs = len(self._said.get("runs", ()))
        if not _is_within(self._run_of_row, 0, n_runs):
            return f"{self._computed.name} names runs that {self._file} does not list"
        if not _is_within(positions, -1, np.iinfo(np.int64).max):
            return f"{self.positions.name} has negative rows of the earlier cube"
        return ""

    def _altered(self) -> Iterator[str]:
        """The names of the files whose content is not what was written with the decision."""
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
        """The facts of model and method for the record of the run; empty where they are not known."""
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

    @cached_property
    def _run_of_row(self) -> NDArray[np.int32]:
        """(n,): the position in `_runs` of the run that computed each row."""
        return load_array(self._computed)

    @property
    def rows(self) -> RowDigests:
        """The keys and digests of the rows."""
        return self.folders.digests

    def computed_by(self, start: int, stop: int) -> NDArray[Any]:
        """(n,): the id of the run that computed each of the rows start to stop."""
        return self._runs[self._run_of_row[start:stop]]

    def changed_since(self, run_id: str, method: str) -> BoolArray | None:
        """(n,): whether a row was computed after a run; None where that run is not known any more."""
        if self._before(run_id, method) is None:
            return None
        is_later = np.array([run > run_id for run in self._said["runs"]])
        return is_later[self._run_of_row]

    def deleted_since(self, run_id: str, method: str) -> Any:
        """The key columns, as an Arrow table, of rows of an earlier run that are not here.

        None where that run is not known any more.
        """
        before = self._before(run_id, method)
        if before is None:
            return None
        return before.rows.without(self.rows)

    def _before(self, run_id: str, method: str) -> NightHistory | None:
        """The history of an earlier run of the same method and key."""
        before = NightHistory(RunFolders(self.folders.store, run_id), self.explain)
        is_known = before.is_written and before.method == method == self.method
        if is_known and not before.damage and self.has_key_of(before):
            return before
        return None

    def has_key_of(self, other: NightHistory) -> bool:
        """Whether the rows of both have the same key columns, in one order, of the same kinds."""
        return _key_kinds(other.rows) == _key_kinds(self.rows)

    def fault(self, n_rows: int) -> str:
        """The first thing in it that does not agree, in words, for so many rows; empty for none."""
        if not self.is_written and self.is_there:
            return f"is damaged ({ALTERED})"
        if not self.is_written:
            return "is missing"
        if self.damage:
            return f"has files beside it that cannot be read ({self.damage})"
        if len(self._run_of_row) != n_rows:
            return f"has arrays of other than {n_rows:,} rows"
        n_carried = int((load_array(self.positions) >= 0).sum())
        if n_carried != self.n_carried:
            return f"counts {self.n_carried:,} carried rows, and {n_carried:,} are"
        return ""

    def write(
        self,
        method: str,
        before: NightHistory | None,
        statuses: NDArray[np.int8],
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Decide which rows are carried from the cube of an earlier run, and keep it.

        `statuses` (n,) are those of that cube's rows, `Status.PENDING` where their block is
        damaged: such rows are explained anew.  `facts` tell of model and method.  An earlier
        decision of this run is replaced: it is not there while its arrays are written anew.
        """
        n = len(self.rows)
        positions = np.full(n, -1, np.int64)
        runs = [self.run_id]
        run_of_row = np.zeros(n, np.int32)
        n_damaged = 0
        if before is not None and n and len(before.rows):
            known = self.rows.positions_in(before.rows)
            unchanged = self.rows.is_unchanged(before.rows, known)
            at = np.flatnonzero(unchanged)
            n_damaged = int((statuses[known[at]] == Status.PENDING).sum())
            at = at[np.isin(statuses[known[at]], CARRIED)]
            positions[at] = known[at]
            runs += before._said["runs"]
            run_of_row[at] = 1 + before._run_of_row[known[at]]
        room = Folder(self.folders.keys)
        room.delete(self._file)
        used = np.unique(run_of_row)
        used = np.union1d([0], used).astype(np.int64)
        files = {
            self.positions.name: save_array(self.positions, positions),
            self._computed.name: save_array(
                self._computed, np.searchsorted(used, run_of_row).astype(np.int32)
            ),
        }
        previous = ""
        if before is not None:
            previous = before.run_id
        said = {
            "method": method,
            "runs": [runs[j] for j in used],
            "previous": previous,
            "carried": int((positions >= 0).sum()),
            "damaged": n_damaged,
            "facts": dict(facts or {}),
            "files": files,
        }
        room.replace(self._file, sealed_record(self._file, said))
        for name in ("_said", "damage", "_runs", "_run_of_row"):
            self.__dict__.pop(name, None)

    @property
    def previous(self) -> str:
        """The run whose cube rows are carried from; empty where none are."""
        return str(self._said.get("previous", ""))

    @property
    def n_carried(self) -> int:
        return int(self._said["carried"])

    @property
    def n_damaged(self) -> int:
        """The number of unchanged rows that are explained anew, as their earlier block is damaged."""
        return int(self._said.get("damaged", 0))

    def carries_only(self, statuses: NDArray[np.int8]) -> bool:
        """Whether all carried rows may still be carried from a cube of these statuses (n,)."""
        positions = load_array(self.positions)
        if not _is_within(positions, -1, len(statuses)):
            return False
        return bool(np.isin(statuses[positions[positions >= 0]], CARRIED).all())


def _is_within(values: NDArray[np.integer[Any]], least: int, below: int) -> bool:
    """Whether all values are at least `least`, and less than `below`."""
    return bool(((values >= least) & (values < below)).all())


def _key_kinds(rows: RowDigests) -> list[tuple[str, str]]:
    """The key columns in their order, each with the kind of its values: number, text or time."""
    return [(name, values.dtype.kind) for name, values in rows.keys.items()]
