"""The reason codes of a job's sinks, as options of the explanation that they load."""

from __future__ import annotations

from dataclasses import replace

from dshap.attributors.method import Method
from dshap.core.options import RunOptions
from dshap.jobfile.schema import ExplainTable, Job
from dshap.run.session import Session
from dshap.sinks.checks import check_order


def options_of_explanation(job: Job, explain: ExplainTable) -> RunOptions:
    """The options of a run for one explanation of a job."""
    return with_codes_of(job, explain, job.options())


def session_of_explanation(session: Session, job: Job, explain: ExplainTable) -> Session:
    """The session of a run for one explanation of a job."""
    return replace(session, options=with_codes_of(job, explain, session.options))


def refuse_without_order(job: Job, explain: ExplainTable, method: Method) -> None:
    """Refuse to explain rows for a sink of reasons if the place of no reason could be certain.

    Raises
    ------
    InputError
        The attributions are estimates without standard errors.
    """
    why = method.why_no_order
    if not why:
        return
    for table in job.sink:
        sink = table.sink(job.explain[0].name)
        if sink.explain == explain.name:
            check_order(sink, why)


def with_codes_of(job: Job, explain: ExplainTable, options: RunOptions) -> RunOptions:
    """The options, with the codes of the sinks that an explanation is loaded into."""
    books = job.code_books(explain.name)
    if not books:
        return options
    undo = any(is_undone for _, is_undone in books)
    return replace(options, codes=books[0][0].players, undo_codes=undo or None)
