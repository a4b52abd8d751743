"""The codes that the sinks of a job state reasons by: options of the explanation that they load."""

from __future__ import annotations

from dataclasses import replace

from dshap.core.options import RunOptions
from dshap.jobfile.schema import ExplainTable, Job
from dshap.run.session import Session


def options_of_explanation(job: Job, explain: ExplainTable) -> RunOptions:
    """The options of a run for one explanation of a job."""
    return with_codes_of(job, explain, job.options())


def session_of_explanation(session: Session, job: Job, explain: ExplainTable) -> Session:
    """The session of a run for one explanation of a job."""
    return replace(session, options=with_codes_of(job, explain, session.options))


def with_codes_of(job: Job, explain: ExplainTable, options: RunOptions) -> RunOptions:
    """The options, with the codes of the sinks that an explanation is loaded into."""
    books = job.code_books(explain.name)
    if not books:
        return options
    undo = any(is_undone for _, is_undone in books)
    return replace(options, codes=books[0][0].players, undo_codes=undo or None)
