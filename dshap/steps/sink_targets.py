"""The targets of a job's sinks, inspected once before a source is read, and added to the job.

A plan then compares each target with the cube (`SinkTable.refuse_other_shape`) without connecting
again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from dshap.core.code_groups import code_members
from dshap.core.errors import InputError
from dshap.history.backfills import sink_of_backfill
from dshap.jobfile.schema import Job
from dshap.jobfile.sink_tables import SinkTable, look_at_sink
from dshap.jobinput.job_model import model_of_job
from dshap.sinks import Sink


def sink_in(job: Job, table: SinkTable) -> Sink:
    """The sink of a table [[sink]]; options that it leaves out come from the rest of the job."""
    return table.sink(job.explain[0].name, job.incremental.deletes)


def with_targets(
    job: Job, as_of: date, say: Callable[[str], None], *, is_backfill: bool = False
) -> Job:
    """Inspect the target of each sink that a run loads; return the job with these targets.

    A sink that cannot be reached now does not stop a run, because it may be reachable when the cube
    is loaded; a line reports it.

    Parameters
    ----------
    job : the job
    as_of : the date of the run
    say : receives a line for people
    is_backfill : whether the run is for an earlier date, which leaves out most sinks

    Raises
    ------
    InputError
        A load would be refused; the message names every such sink.
    """
    _refuse_other_players(job)
    tables = []
    faults: list[str] = []
    for table in job.sink:
        sink = sink_in(job, table)
        target = None
        if not is_backfill or sink_of_backfill(sink) is not None:
            target = look_at_sink(sink, job.source, as_of, job.job.name)
            faults += target.faults
            if target.unreachable:
                say(f"warning: {target.unreachable}; it is tried again when the cube is loaded")
        tables.append(table.with_target(target))
    if faults:
        raise InputError("; ".join(faults))
    return job.model_copy(update={"sink": tables})


def _refuse_other_players(job: Job) -> None:
    """Raise an `InputError` if a code book and the explained columns differ.

    A misspelt column of [source] is a different error: the model does not have it.
    """
    if job.is_of_texts:
        return
    columns = model_of_job(job).columns()
    if columns is None:
        return
    explained = {each.name: each for each in job.explain}
    for table in job.sink:
        sink = sink_in(job, table)
        if sink.codes is None or explained[sink.explain].players:
            continue
        try:
            code_members(sink.codes.players, columns, f"codes: {sink.codes.path}")
        except InputError as error:
            raise InputError(f"{sink}: {error}") from None


def without_targets(job: Job) -> Job:
    """The job without targets of its sinks, for rows that are not loaded into sinks."""
    return job.model_copy(update={"sink": [each.with_target(None) for each in job.sink]})
