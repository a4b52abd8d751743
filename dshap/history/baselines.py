"""The baseline of a run: the earlier run that its checks compare with, and runs that were accepted.

A run is a baseline when none of its checks failed and all of its sinks were loaded.  A run whose
check failed becomes one when `dshap run JOB --accept RUN_ID` accepts it, which
`runs/RUN_ID/accepted.json` records.  So a run that was blocked stays blocked however often the same
command is started.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import NamedTuple

from dshap.core.errors import InputError, unknown_name
from dshap.core.places import Place
from dshap.cube import is_finished
from dshap.cube.arrays import RUNS
from dshap.cube.current import has_nights
from dshap.history.run_record import EarlierRuns, RunFacts, RunRecord, as_record
from dshap.storage.folder import Folder

ACCEPTED = "accepted.json"
"""The file of a run that was accepted, beside its record."""
FAILED = "fail"
"""The status of a failed check in a record."""
LOADED = ("success", "no-op")
"""The statuses of a sink that contains the cube of its run."""
NO_RUN = "there is no earlier run to compare with"
NO_BASELINE = (
    "there is no earlier run to compare with whose checks passed and whose sinks were loaded"
)


class AcceptedNumber(NamedTuple):
    """The number of a failed check in a run that was accepted."""

    run_id: str
    value: float | None
    """The number; None if it was not known."""


@dataclass(frozen=True)
class Baselines:
    """The baselines of a run, newest first; each record is read when it is asked for."""

    store: Place
    before: str = ""
    """The id of the run; empty for the baselines of a run that begins now."""
    as_of: date | None = None
    """The date of the run: baselines for later dates are left out.  None leaves out none."""
    is_backfill: bool = False
    """Whether the run is a backfill: numbers that were accepted are those of the same date."""

    def __iter__(self) -> Iterator[RunRecord]:
        return (each for each in self.earlier if self._is_one(each))

    @property
    def earlier(self) -> EarlierRuns:
        """All earlier runs of the store, newest first."""
        return EarlierRuns(self.store, self.before)

    @property
    def reason_for_none(self) -> str:
        """The reason why there is no baseline, in words."""
        if self.is_backfill:
            return f"{NO_BASELINE}, for this date or an earlier one"
        if any(each.is_over for each in self.earlier):
            return NO_BASELINE
        return NO_RUN

    def _is_one(self, record: RunRecord) -> bool:
        if record.is_backfill or not record.is_over or self._is_later(record):
            return False
        if not record.explained:
            return False
        if has_failed_check(record):
            return is_accepted(self.store, record.run_id)
        return has_loaded_sinks(record)

    def _is_later(self, record: RunRecord) -> bool:
        """Whether a run is for a later date."""
        as_of = record.as_of
        return as_of is not None and self.as_of is not None and as_of > self.as_of

    def accepted_number(self, check: str) -> AcceptedNumber | None:
        """The number of a check that was accepted last; None once the check has passed since."""
        for record in self.earlier:
            found = record.check(check)
            is_other_day = self.is_backfill and record.as_of != self.as_of
            if record.is_backfill != self.is_backfill or is_other_day:
                continue
            if found is None or found["status"] == "skipped":
                continue
            response = found["adapter_response"]
            if found["status"] == FAILED:
                if is_accepted(self.store, record.run_id):
                    return AcceptedNumber(record.run_id, response["value"])
            # a result that an accepted number made a warning is no pass: the number stays in force
            elif not response.get("accepted"):
                return None
        return None

    def cubes_of(self, explain: str) -> tuple[str, ...]:
        """The names of the cubes that checks of the next run may compare with: one, or none."""
        for record in self:
            if record.ranking(explain):
                return (record.cube_name(explain),)
        return ()


def is_baseline(facts: RunFacts) -> bool:
    """Whether a run that ends now is a baseline of later runs."""
    record = as_record(facts)
    return not has_failed_check(record) and has_loaded_sinks(record) and not record.is_backfill


def _has_cube(folder: Place, record: RunRecord, explain: str) -> bool:
    """Whether the cube that a run wrote or left as it was is there, where each run has its own."""
    cube = record.cube_name(explain)
    return not has_nights(folder) or not cube or is_finished(folder / cube)


def has_failed_check(record: RunRecord) -> bool:
    """Whether a check of a run failed; a warning is no failure."""
    return any(each["status"] == FAILED for each in record.named("check"))


def has_loaded_sinks(record: RunRecord) -> bool:
    """Whether every sink of a run was loaded; true of a job without sinks."""
    return all(each["status"] in LOADED for each in record.named("sink"))


def is_accepted(store: Place, run_id: str) -> bool:
    """Whether a run was accepted by `dshap run JOB --accept RUN_ID`."""
    return Folder(store).has_file(f"{RUNS}/{run_id}/{ACCEPTED}")


def accept(store: Place, run_id: str) -> None:
    """Accept the failed checks of a run, which makes it a baseline; it may be accepted already.

    Raises
    ------
    InputError
        There is no such run, none of its checks failed, or a later run is a baseline.
    """
    over = {each.run_id: each for each in EarlierRuns(store) if each.is_over}
    if run_id not in over:
        raise InputError(f"--accept: {unknown_name('run', run_id, over)}")
    if is_accepted(store, run_id):
        return
    record = over[run_id]
    if not has_failed_check(record):
        raise InputError(
            f"--accept {run_id}: no check of this run failed, so that there is nothing to accept: "
            "leave --accept out"
        )
    gone = [name for name in record.explained if not _has_cube(store / name, record, name)]
    if gone:
        raise InputError(
            f"--accept {run_id}: its cube of {gone[0]} is not kept any more, so that later runs could "
            "not be compared with it: accept the newest run whose checks failed"
        )
    baseline = next(iter(Baselines(store)), None)
    if baseline is not None and baseline.run_id > run_id and not record.is_backfill:
        raise InputError(
            f"--accept {run_id}: run {baseline.run_id}, which is later, passed its checks and "
            "loaded its sinks: leave --accept out"
        )
    said = {"run_id": run_id, "accepted_at": datetime.now(UTC).isoformat(timespec="seconds")}
    Folder(store).put_new(f"{RUNS}/{run_id}/{ACCEPTED}", json.dumps(said).encode())
