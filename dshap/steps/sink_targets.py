"""The targets of a job's sinks, checked once before a source is read: refused, or added to the job.

A plan then compares each table with the cube that it is for (`SinkTable.refuse_other_shape`), over
no further connection.
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
    """The sink of a table [[sink]], with the options that it leaves to the rest of the job."""
    return table.sink(job.explain[0].name, job.incremental.deletes)


def with_targets(
    job: Job, as_of: date, say: Callable[[str], None], *, is_backfill: bool = False
) -> Job:
    """Look at the target of each sink that a run loads; return the job whose sinks have them.

    A sink that cannot be reached now does not stop a run, as it may be there when the cube is
    loaded: a line reports it.

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
    """Raise an `InputError` where a code book names other columns than those that are explained.

    A column that [source] misspells is refused as one that the model does not know.
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
    """The job whose sinks have no target: of rows that no sink is loaded with."""
    return job.model_copy(update={"sink": [each.with_target(None) for each in job.sink]})
