"""Columns that a job names: which there are, and errors about them in the words of the job file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dshap.core.errors import InputError, unknown_name
from dshap.core.printing import label
from dshap.jobfile.model_tables import ImportedModel, ModelFileTable, given_model
from dshap.jobfile.schema import Job
from dshap.jobfile.source_tables import CsvTable, SqlTable
from dshap.models.adapters.model_files import feature_names_of, n_columns_of
from dshap.predictors.times import DATE, time_kind
from dshap.predictors.tree_kinds import is_ensemble
from dshap.tables.columns import as_names
from dshap.tables.sources import version_key

QUERY_CHARACTERS = 120
"""The most characters of a query that a message shows."""
KEYS = ("key", "target", "features", "column")
"""Keys of [source] that name columns."""


def feature_columns(job: Job) -> Sequence[str] | None:
    """The columns that a given model was fitted on, in its order; those of [source] otherwise.

    Raises
    ------
    InputError
        [source] features names other columns than the model knows.
    """
    given: Sequence[str] | None = dict(job.source).get("features")
    if not job.is_given:
        return given
    known = feature_names_of(given_model(job.model))
    if known is None or given is None:
        return known or given
    if other := [name for name in given if name not in known]:
        raise InputError(
            f"[source] features names a column that {_model_of(job)} was not fitted on: "
            f"{unknown_name('column', other[0], known)} Leave features out: the model knows its "
            "columns"
        )
    if absent := [name for name in known if name not in given]:
        raise InputError(
            f"[source] features lacks column {absent[0]!r}, which {_model_of(job)} was fitted on: "
            "leave features out, as the model knows its columns"
        )
    return known


def check_width(job: Job, columns: Sequence[str]) -> None:
    """Hold the columns of a table to the number that a given model takes without knowing their names.

    Raises
    ------
    InputError
        There are more or fewer.
    """
    if not job.is_given or job.is_of_texts:
        return
    given = given_model(job.model)
    wanted = n_columns_of(given)
    if wanted in (None, len(columns)) or feature_names_of(given) is not None:
        return
    listed = label(", ".join(columns), QUERY_CHARACTERS)
    takes = f"{_model_of(job)} takes {wanted} and does not know their names"
    if dict(job.source).get("features"):
        raise InputError(
            f"[source] features names {len(columns)} columns ({listed}), and {takes}: name those of "
            "the fit, in their order"
        )
    raise InputError(
        f"[source] features is left out, so that all {len(columns)} columns of numbers are features "
        f"({listed}), and {takes}: name those of the fit, in their order"
    )


def takes_times(job: Job) -> bool:
    """Whether columns of times may be features of the job: trees take numbers alone."""
    return job.is_given and not job.is_of_trees and not is_ensemble(given_model(job.model).model)


def place_of_table(job: Job) -> str:
    """The table of [source]: its files, or its database with the query or table there."""
    match job.source:
        case SqlTable() as source:
            query = label(source.rows().describe(), QUERY_CHARACTERS)
            return f"{source.database().describe()}, {query}"
        case CsvTable() as source:
            return source.reader().describe()
    return f"{job.source.kind} {dict(job.source).get('path', '')}".strip()


@contextmanager
def in_words_of(job: Job) -> Iterator[None]:
    """Tell errors about columns of the table in the words of the job file."""
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
    return f"{_model_of(job)} was fitted on"


def _model_of(job: Job) -> str:
    """The model with the key that names it."""
    match job.model:
        case ModelFileTable(path=path):
            return f'the model of [model] path = "{path}"'
        case ImportedModel(function=function):
            return f'the model of [model] function = "{function}"'
    return f'[model] kind = "{job.model.kind}"'


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
        case source if version_key(source.kind):
            remedy = "in a column of the table"
        case source:
            rows = f"read_{source.kind}('{source.path}')"
            remedy = (
                'in the file, or by [source] kind = "sql" on DuckDB with query = "SELECT * REPLACE '
                f'({seconds}) FROM {rows}"'
            )
    number = "a number"
    if job.is_given:
        number = "the number that the model was fitted on"
    said = (
        f"column {error.column!r} of {place_of_table(job)} holds {what} ({error.times}), and "
        f"{_model_of(job)} takes numbers there: give it as {number}, {remedy}"
    )
    if not job.is_given or feature_names_of(given_model(job.model)) is None:
        said += ", or take it out of [source] features"
    return said
