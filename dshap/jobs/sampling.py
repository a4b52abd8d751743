"""`dshap run JOB --sample N`: runs a job on N of its rows, in a separate folder, without sinks.

The rows of the sample are copied into Parquet files.  The sample is then a job like any other, on
these files, with its own store.  The store of the job is neither read nor written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from dshap.core.errors import EmptyTableError, InputError, StoreMismatchError
from dshap.core.places import Place, of_place, place_of
from dshap.erasure.sample_copies import ABOUT, sample_of
from dshap.jobfile.check_tables import RowCountCheck
from dshap.jobfile.ending_tables import NotifyTable, SealTable
from dshap.jobfile.night_tables import IncrementalTable, PrepareTable, RetentionTable
from dshap.jobfile.schema import Job
from dshap.jobfile.source_tables import SpooledTable
from dshap.jobinput.job_columns import in_words_of
from dshap.jobinput.job_model import model_of_job
from dshap.jobinput.job_source import job_of_parts, look_before_reading, rules_of
from dshap.jobinput.table_versions import files_of
from dshap.storage.folder import Folder
from dshap.storage.running import alone, refuse_running
from dshap.tables.columns import as_names
from dshap.tables.parquet import ParquetFiles
from dshap.warehouse.reading_once import RowsReadOnce, SpoolRules, spool_rows
from dshap.warehouse.snapshot import put_rows
from dshap.warehouse.spread_rows import RowsOfFiles, SpreadRows

ROWS = "rows"
CUBE = "cube"
PAGE = "page.html"
"""The names in the folder of a sample: its rows, its store, and its page."""


@dataclass(frozen=True)
class JobSample:
    """A job on a few rows of another job, made by `sample_of_job`."""

    job: Job
    """The job of the sample."""
    folder: Place
    n_asked: int
    """The number of rows that were asked for."""
    n_rows: int
    n_rows_of_table: int
    store: Place
    """The store of the job itself, which the sample does not touch."""

    def __str__(self) -> str:
        if self.n_asked > self.n_rows_of_table:
            which = f"all {self.n_rows:,} rows, as the table has fewer than the {self.n_asked:,} asked for"
        else:
            which = f"{self.n_rows:,} of {self.n_rows_of_table:,} rows, spread over the table"
        return (
            f"sample: {which}; the job learns only from these rows, and takes its background from "
            f"them; cube and page are in {self.folder}, no sink is loaded, and {self.store} does "
            "not change"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.n_rows,
            "rows_of_table": self.n_rows_of_table,
            "folder": str(self.folder),
            "cube": self.job.job.store,
            "page": self.job.report.page,
        }


@dataclass(frozen=True)
class _About:
    """The content of `ABOUT`."""

    job: str
    rows: int
    read_at: str


def sample_of_job(
    job: Job,
    n_rows: int,
    as_of: date | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> JobSample:
    """Make a job on a sample of a job's rows, to try it in minutes.

    The folder of the sample is STORE.sample, next to the store of the job; an earlier sample there
    is replaced.  The whole table is read in one pass, and rows that are spread over it are
    selected.  Background, fit and landmarks are learned from these rows alone.

    Parameters
    ----------
    job : Job
    n_rows : int
        The number of rows, at least 1; a smaller table is taken whole.
    as_of : date, optional
        The date that replaces {as_of} in a query; today, in UTC, if None.
    say : function, optional
        Receives a line for people, such as a warning.

    Returns
    -------
    JobSample
        Run its `job` like any other.

    Raises
    ------
    InputError
        Fewer than one row, a source that cannot be read, or columns that do not fit it.
    EmptyTableError
        The table has no rows.
    StoreMismatchError
        The folder contains something else than a sample.
    LockedError
        Another sample of the job runs.
    """
    if n_rows < 1:
        raise InputError(f"a sample of {n_rows:,} rows: give at least 1")
    store = place_of(job.job.store)
    folder = sample_of(store)
    day = as_of or datetime.now(UTC).date()
    # before the lock, which would make a folder next to one that is not ours
    _refuse_other(folder)
    with alone(folder, "the rows of a sample", say, job.options().scratch or "") as rooms:
        refuse_running(folder / CUBE, say)
        _begin(folder, _About(job.job.name, n_rows, datetime.now(UTC).isoformat()))
        made = Folder(folder / ROWS).folder_to_fill(lambda: rooms.folder("rows") / "parts")
        with in_words_of(job):
            source, n_sample, n_table = _read(job, n_rows, day, made, folder / ROWS, say)
    job = _job_of_sample(job, folder, source, n_sample, say)
    return JobSample(job, folder, n_rows, n_sample, n_table, store)


def _refuse_other(folder: Place) -> None:
    """Raise an error if a folder is there that is no sample."""
    room = Folder(folder)
    if room.has_room() and room.list() and not room.has_file(ABOUT):
        raise StoreMismatchError(
            f"{folder} contains something other than a sample (there is no {ABOUT} in it): move it "
            "away, or give another [job] store"
        )


def _begin(folder: Place, about: _About) -> None:
    """Make the folder of a sample, without the files of an earlier one."""
    room = Folder(folder)
    for name in (ROWS, CUBE):
        if room.has_room(name):
            room.discard_room(name)
    room.delete(PAGE)
    room.replace(ABOUT, json.dumps(asdict(about), indent=2, ensure_ascii=False).encode())


def _read(
    job: Job, n_rows: int, day: date, made: Path, room: Place, say: Callable[[str], None]
) -> tuple[Any, int, int]:
    """The table [source] of the sample, the number of its rows, and of rows of the whole table."""
    source = job.source
    if source.kind == "synthetic":  # made up where it is read
        n_sample = min(n_rows, source.rows)
        return source.model_copy(update={"rows": n_sample}), n_sample, source.rows
    sampling = _sampling_of(job)
    rows, rules = sampling.rows(job, day, say)
    spread = SpreadRows(rows, n_rows)
    snapshot = spool_rows(spread, made, day, rules, say)
    if not snapshot.n_rows:
        raise EmptyTableError(rows.describe(), "a sample needs at least one row")
    put_rows(made, room)
    n_table = spread.counted["rows"]
    return sampling.source(job, room), snapshot.n_rows, n_table


def _text_rows(job: Job, day: date, say: Callable[[str], None]) -> tuple[RowsReadOnce, SpoolRules]:
    """The rows of files of texts, and their stored columns."""
    source = dict(job.source)
    used = (*as_names(source["key"]), source["column"])
    return RowsOfFiles(ParquetFiles(source["path"])), SpoolRules(used=used)


def _table_rows(job: Job, day: date, say: Callable[[str], None]) -> tuple[RowsReadOnce, SpoolRules]:
    """The rows of a table, after their age was judged, and their stored columns."""
    rules = rules_of(job, None, model_of_job(job).columns())
    look_before_reading(job, day, rules, say)
    # without freshness, which was judged just now for all rows: the newest may not be in the sample
    rules = SpoolRules(rules.keys, rules.used, rules.named, contract=rules.contract)
    files = files_of(job.source)
    if files is not None:
        return RowsOfFiles(files), rules
    match job.source:
        case SpooledTable() as table:
            return table.reader(), rules
    raise InputError(f'[source] kind = "{job.source.kind}" has no sample: leave --sample out')


@dataclass(frozen=True)
class _Sampling:
    """How the rows of a kind of source become those of a sample."""

    rows: Callable[[Job, date, Callable[[str], None]], tuple[RowsReadOnce, SpoolRules]]
    """Function that returns all rows of the job, and the columns of them that are stored."""
    source: Callable[[Job, Place], Any]
    """Function that returns the table [source] of the sample, whose parts are in a folder."""
    has_columns: bool = True
    """Whether the cube of the sample stores columns, whose values the page shows."""


OF_TABLES = _Sampling(_table_rows, lambda job, room: job_of_parts(job, room).source)
SAMPLINGS = {
    "texts": _Sampling(
        _text_rows,
        lambda job, room: job.source.model_copy(update={"path": str(room)}),
        has_columns=False,
    )
}
"""Kind of source whose rows are no table -> how a sample of it is made."""


def _sampling_of(job: Job) -> _Sampling:
    return SAMPLINGS.get(job.source.kind, OF_TABLES)


def _job_of_sample(
    job: Job, folder: Place, source: Any, n_rows: int, say: Callable[[str], None]
) -> Job:
    """The job of a sample: on its rows, in its folder, without sinks and nights."""
    changes: dict[str, Any] = {
        "job": _changed(job.job, name=f"{job.job.name} (sample)", store=str(folder / CUBE)),
        "source": source,
        "model": _fitting(job.model, n_rows, "[model]", say),
        "explain": [
            _fitting(each, n_rows, f"[[explain]] {each.name}", say) for each in job.explain
        ],
        "report": _changed(
            job.report, page=_page(folder), picture=None, instance=None, mlflow=False
        ),
        # no runs that build on each other: the next sample replaces this one
        "incremental": IncrementalTable(),
        "prepare": PrepareTable(),
        "retention": RetentionTable(),
        "seal": SealTable(),
        "notify": NotifyTable(),  # nobody is notified of a sample
        "check": _checks_of_rows(job.check),
        "sink": [],
    }
    if _sampling_of(job).has_columns:
        changes["run"] = _changed(job.run, keep_rows=True)
    return job.model_copy(update=changes)


def _changed(table: Any, **values: Any) -> Any:
    return table.model_copy(update=values)


def _fitting(table: Any, n_rows: int, place: str, say: Callable[[str], None]) -> Any:
    """The table [model] or [[explain]] with at most one landmark for two rows: some are held out."""
    most = max(1, n_rows // 2)
    landmarks = dict(table).get("landmarks")
    if isinstance(landmarks, int) and landmarks > most:
        say(f"{place} landmarks = {landmarks:,}: {most:,} in the sample, half of its rows")
        return _changed(table, landmarks=most)
    return table


def _checks_of_rows(checks: Sequence[Any]) -> list[Any]:
    """The checks that judge the explained rows alone: neither their number nor another run."""
    alone_checks = []
    for check in checks:
        match check:
            case RowCountCheck():
                continue
        if "against" not in type(check).model_fields and not check.compares:
            alone_checks.append(_changed(check, blocks_sinks=False))  # there is no sink to block
    return alone_checks


def _page(folder: Place) -> str:
    """The path of the page: in the folder, and of one in a bucket in the working directory."""
    return of_place(
        folder,
        lambda path: str(path / PAGE),
        lambda bucket: str(Path.cwd() / f"{bucket.name}.html"),
    )
