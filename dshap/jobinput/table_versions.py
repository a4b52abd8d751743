"""The version of a lakehouse table that a job reads: the same in a run, its parts and its repeats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dshap.core.places import Place
from dshap.cube import read_job
from dshap.jobfile.schema import Job
from dshap.tables.lake_files import LakeFiles, version_to_read
from dshap.tables.parquet import ParquetFiles
from dshap.tables.sources import KINDS, Kind, reader_class, version_key


def files_of(source: Any) -> ParquetFiles | None:
    """The files of a table [source]; None for a kind that is not in Parquet files."""
    kind = KINDS.get(source.kind, Kind())
    if not kind.files:
        return None
    given = dict(source)
    versions = {kind.version: given[kind.version]} if kind.version else {}
    files: ParquetFiles = reader_class(kind.files)(given["path"], **versions)
    return files


def at_version_of_store(job: Job, store: Place, say: Callable[[str], None]) -> Job:
    """The job with the version of its table with which its store began, or else the newest version.

    A version in the job file is not changed.  All tasks of a run, its shards, and a run that
    continues after a kill therefore read the same rows, even if the table is written meanwhile.

    Parameters
    ----------
    job : Job
        A job whose rows are read in place.
    store : Place
        Its store, which need not exist.
    say : function
        Receives a line if the table has a newer version.
    """
    source = job.source
    key = version_key(source.kind)
    if not key or dict(source)[key] is not None:
        return job
    begun = (read_job(store) or {}).get("table", {})
    match files_of(source):
        case LakeFiles() as files:
            number = version_to_read(files, begun, store, say)
            job = job.model_copy(update={"source": source.model_copy(update={key: number})})
    return job
