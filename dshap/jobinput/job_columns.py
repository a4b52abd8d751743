"""The columns that a job names, and errors about columns in the words of the job file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dshap.core.errors import InputError
from dshap.core.printing import label
from dshap.jobfile.schema import Job
from dshap.jobfile.source_tables import SpooledTable, SqlTable
from dshap.jobinput.job_model import model_of_job
from dshap.predictors.times import DATE, time_kind
from dshap.tables.columns import as_names
from dshap.tables.sources import version_key

QUERY_CHARACTERS = 120
"""The most characters of a query that a message shows."""
KEYS = ("key", "target", "features", "column")
"""Keys of [source] that name columns."""


def check_width(job: Job, columns: Sequence[str]) -> None:
    """Check the number of columns of a table for a given model that does not know their names.

    Raises
    ------
    InputError
        There are more or fewer.
    """
    model = model_of_job(job)
    wanted = model.width
    if wanted in (None, len(columns)) or model.names is not None or job.is_of_texts:
        return
    listed = label(", ".join(columns), QUERY_CHARACTERS)
    takes = f"{model_of_job(job)} takes {wanted}, and has no names for them"
    if dict(job.source).get("features"):
        raise InputError(
            f"[source] features names {len(columns)} columns ({listed}), and {takes}: name those of "
            "the fit, in their order"
        )
    raise InputError(
        f"[source] features is left out, so that all {len(columns)} columns of numbers are features "
        f"({listed}), and {takes}: name those of the fit, in their order"
    )


def place_of_table(job: Job) -> str:
    """The table of [source]: its files, or its database with the query or table there."""
    match job.source:
        case SqlTable() as source:
            query = label(source.rows().describe(), QUERY_CHARACTERS)
            return f"{source.database().describe()}, {query}"
        case SpooledTable() as source:
            return source.reader().describe()
    return f"{job.source.kind} {dict(job.source).get('path', '')}".strip()


@contextmanager
def in_words_of(job: Job) -> Iterator[None]:
    """Raise errors about columns of the table in the words of the job file."""
    try:
        yield
    except InputError as error:
        if not error.column:
            raise
        if error.times:
            raise InputError(_times_in_words(job, error)) from None
        raise InputError(
            f"{_naming(job, error.column)} a column that {place_of_table(job)} lacks: {error}"
        ) from None


def _naming(job: Job, column: str) -> str:
    """The part of the job that names a column, as the beginning of a sentence."""
    source = dict(job.source)
    for key in KEYS:
        if column in as_names(source.get(key)):
            return f"[source] {key} names"
    return f"{model_of_job(job)} was fitted on"


def _times_in_words(job: Job, error: InputError) -> str:
    """The message about a column of times, with what to do in the query, the file and the job."""
    what = "times"
    if time_kind(error.times) == DATE or error.times == DATE:
        what = "dates"
    name = error.column
    if not name.isidentifier():
        name = f'"{name}"'
    seconds = f"EXTRACT(EPOCH FROM {name}) AS {name}"
    match job.source:
        case SqlTable(query=str()):
            remedy = f"as in {seconds} in [source] query"
        case SqlTable():
            remedy = f"as in {seconds} in a [source] query in the place of table"
        case source if version_key(source.kind) or "path" not in dict(source):
            remedy = "in a column of the table"
        case source:
            rows = f"read_{source.kind}('{source.path}')"
            remedy = (
                'in the file, or by [source] kind = "sql" on DuckDB with query = "SELECT * REPLACE '
                f'({seconds}) FROM {rows}"'
            )
    model = model_of_job(job)
    said = (
        f"column {error.column!r} of {place_of_table(job)} contains {what} ({error.times}), and "
        f"{model_of_job(job)} takes numbers there: give it as {model.number}, {remedy}"
    )
    if model.names is None:
        said += ", or take it out of [source] features"
    return said
