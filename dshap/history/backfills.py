"""Backfills: runs for an earlier date than the last run, beside the cubes that are read.

A night for an earlier date would remove later changes: keys that are new since then would count
as gone.  So an earlier date needs `--backfill`.  Such a run writes a cube of its own, leaves the
pointer `current` where it is, and loads only sinks that append, all its rows and no deletions.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import NamedTuple

from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.cube import is_finished
from dshap.history.run_folders import RunFolders, runs_in_store
from dshap.history.run_record import EarlierRuns, read_record
from dshap.jobfile.schema import Job
from dshap.sinks import Sink
from dshap.tables.sources import version_key
from dshap.warehouse.snapshot import has_snapshot

SKIPPED = 'a backfill loads only sinks with write = "append"'
"""The reason why a sink is left out."""


class LastDay(NamedTuple):
    """The last run that was no backfill, and its date."""

    run_id: str
    as_of: date


def last_day(store: Place) -> LastDay | None:
    """The newest run of a store that is no backfill and has read rows for a date; None for none.

    A run that explained nothing, such as one whose source was stale, has no day, nor has one that
    was stopped before all of its rows were read.
    """
    for record in EarlierRuns(store):
        run = RunFolders(store, record.run_id)
        about = run.about
        if record.is_over and record.explained:
            as_of = record.as_of
            is_backfill = record.is_backfill
        # a run that was killed after its rows were read has its day: it will be finished first
        elif not record.is_over and about is not None and has_snapshot(run.parts):
            as_of = date.fromisoformat(about.as_of)
            is_backfill = about.backfill
        else:
            continue
        if as_of is not None and not is_backfill:
            return LastDay(record.run_id, as_of)
    return None


def check_day(job: Job, store: Place, as_of: date, *, is_backfill: bool) -> None:
    """Check the date of a run that begins against that of the last run, before anything is read.

    Raises
    ------
    InputError
        An earlier date without --backfill, or --backfill where it has no meaning.
    """
    if is_backfill and not job.is_incremental:
        raise InputError(
            "--backfill: all runs of this job share one cube of each explanation, and a backfill "
            "needs a separate cube: "
            'give [incremental] strategy = "digest", or leave --backfill out'
        )
    last = last_day(store)
    if is_backfill:
        _refuse_no_backfill(last, as_of)
        _refuse_rows_of_now(job)
    elif last is not None and as_of < last.as_of:
        _refuse_earlier_day(job, last, as_of)


def _refuse_no_backfill(last: LastDay | None, as_of: date) -> None:
    """Raise if a date is no earlier than that of the last run."""
    if last is None:
        raise InputError(f"--backfill --as-of {as_of}: no run came before it: leave --backfill out")
    if as_of >= last.as_of:
        raise InputError(
            f"--backfill --as-of {as_of}: the last run, {last.run_id}, is for {last.as_of}, which is "
            "no later: give an earlier date with --as-of, or leave --backfill out"
        )


def _refuse_rows_of_now(job: Job) -> None:
    """Raise if the source would give a backfill the rows of now, for any date."""
    source = dict(job.source)
    version = version_key(job.source.kind)
    if version and source[version] is None:
        raise InputError(
            f"--backfill: [source] reads the newest version of the table: give that of the earlier "
            f"day with --set source.{version}=..."
        )
    if job.source.kind == "sql" and "{as_of}" not in (source["query"] or ""):
        raise InputError(
            "--backfill: [source] reads the same rows for every date: give a query with {as_of}"
        )


def _refuse_earlier_day(job: Job, last: LastDay, as_of: date) -> None:
    """Raise about a date before that of the last run, where rows are read for a date."""
    said = f"the date of this run is {as_of}, and the last run, {last.run_id}, is for {last.as_of}"
    if job.is_incremental:
        raise InputError(
            f"{said}: to explain the earlier day and keep the later one, run the job with --as-of "
            f"{as_of} --backfill; else give --as-of {last.as_of}, or a later date"
        )
    if job.source.kind == "sql":
        raise InputError(
            f"{said}: the store has one cube of each explanation: choose another [job] store for the "
            f"earlier day, or give --as-of {last.as_of} or a later date"
        )


def backfilled_before(store: Place, explain: str, as_of: date) -> str | None:
    """The newest backfill for a date that is over and has a cube; None for none."""
    for run in reversed(runs_in_store(store)):
        about = run.about
        if about is None or not about.backfill or about.as_of != as_of.isoformat():
            continue
        if run.is_over and is_finished(store / explain / run.run_id):
            return run.run_id
    return None


def is_backfill(store: Place, run_id: str) -> bool:
    """Whether a run of a store is a backfill: by its first record, else by its final one."""
    about = RunFolders(store, run_id).about
    if about is not None:
        return about.backfill
    record = read_record(store, run_id)
    return record is not None and record.is_backfill


def sink_of_backfill(sink: Sink) -> Sink | None:
    """The sink as a backfill loads it, all rows and no deletions; None if it is left out."""
    if sink.write != "append":
        return None
    return replace(sink, rows="all", deletes="keep")
