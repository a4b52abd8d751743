"""Copying the source of a job into Parquet parts, which all later steps read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.jobfile.schema import READ_ONCE, SOURCES, Job
from dshap.jobfile.source_tables import HeldTable, SpooledTable
from dshap.jobinput.job_model import model_of_job
from dshap.jobinput.job_rows import open_table
from dshap.jobinput.table_versions import files_of
from dshap.tables.columns import as_names
from dshap.tables.sources import version_key
from dshap.warehouse.looks import SourceLook, look_at_parquet, look_at_rows
from dshap.warehouse.reading_once import SpoolRules, look_at_files, spool_files, spool_rows
from dshap.warehouse.snapshot import Snapshot

_ROLES = ("key", "target", "features", "missing")
"""Keys of [source] that stay when its rows are read from parts."""


def spool_job(
    job: Job,
    folder: Path,
    as_of: date,
    previous: Mapping[str, str] | None,
    say: Callable[[str], None],
) -> Snapshot:
    """Copy the rows of a job's source into parts in a new folder; the snapshot is written last.

    Parquet files and lakehouse tables are copied too, because a job whose runs build on each other
    needs rows that do not change.

    Parameters
    ----------
    job : Job
    folder : Path
        A folder that does not exist; it is removed if an error occurs.
    as_of : date
        The date that replaces {as_of} in a query.
    previous : mapping, optional
        Column -> type in the run before, with which the contract compares the present types.
    say : function
        Receives a line for people, such as a warning.

    Raises
    ------
    InputError
        A source that cannot be read, or does not satisfy the contract.
    StaleSourceError
        A source that is older than its freshness allows.
    """
    source = job.source
    rules = rules_of(job, previous, model_of_job(job).columns())
    files = files_of(source)
    if files is not None:
        return spool_files(files, folder, as_of, rules, say)
    match source:
        case SpooledTable():
            return spool_rows(source.reader(), folder, as_of, rules, say)
    raise InputError(
        f'[source] kind = "{source.kind}": a job with [incremental] reads a database or files: '
        f"name one of {', '.join(READ_ONCE)}, or leave [incremental] out"
    )


def look_at_source(
    job: Job, as_of: date, previous: Mapping[str, str] | None, say: Callable[[str], None]
) -> Snapshot | None:
    """Check freshness and contract of a table that is read in place.

    Return None if [source] has neither, unless the table has versions: the result then records
    which version is read.

    Parameters
    ----------
    previous : mapping, optional
        Column -> type in the run before.

    Raises
    ------
    InputError
        The table has other columns than the contract allows, or no column of times by that name.
    StaleSourceError
        A source that is older than its freshness allows.
    """
    files = None
    if promises_something(job):
        files = files_of(job.source)
    if files is None:
        return None
    rules = rules_of(job, previous, model_of_job(job).columns())
    return look_at_files(files, as_of, rules, say)


def look_before_reading(
    job: Job, as_of: date, rules: SpoolRules, say: Callable[[str], None]
) -> SourceLook | None:
    """Inspect the source of a job before its rows are read: can it be opened, its columns, its age.

    Return None for kinds without columns before rows are read: generated rows, and texts.

    Raises
    ------
    InputError
        A source that cannot be opened, or lacks a column.
    StaleSourceError
        A source that is older than its freshness allows.
    """
    source = job.source
    files = files_of(source)
    if files is not None:
        return look_at_parquet(files, as_of, rules, say)
    match source:
        case SpooledTable():
            return look_at_rows(source.reader(), as_of, rules)
    open_table(job)
    return None


def promises_something(job: Job) -> bool:
    """Whether the table has limits of its age, a contract, or versions."""
    match job.source:
        case HeldTable(promises=True):
            return True
    return bool(version_key(job.source.kind))


def rules_of(
    job: Job, previous: Mapping[str, str] | None, features: Sequence[str] | None
) -> SpoolRules:
    """The rules that the source of a job is checked by.

    Parameters
    ----------
    job : Job
    previous : mapping, optional
        Column -> type in the run before.
    features : sequence of names, optional
        The columns that are explained (`JobModel.columns`); all if None.
    """
    source = dict(job.source)
    keys = as_names(source.get("key"))
    named = (*keys, *as_names(source.get("target")))
    if features is None:
        used = None
    else:
        used = tuple(dict.fromkeys((*named, *features)))
    rules = SpoolRules(keys, used, named, previous=previous)
    match job.source:
        case HeldTable() as held:
            return replace(rules, freshness=held.age_limits(), contract=held.contract.made())
    return rules


def job_of_parts(job: Job, room: Place) -> Job:
    """Build the job whose source is the Parquet table in a room of parts."""
    given: dict[str, Any] = {
        key: value
        for key, value in dict(job.source).items()
        if key in _ROLES and key in job.source.model_fields_set
    }
    source = SOURCES({"kind": "parquet", "path": str(room), **given})
    return job.model_copy(update={"source": source})
