"""Planning a job with any source: rows of a database or of CSV files are read once for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime

from dshap.core.places import place_of
from dshap.history.backfills import check_day
from dshap.history.job_store import refuse_store
from dshap.jobfile.schema import Job
from dshap.steps.cubes_of_job import cubes_of_job
from dshap.steps.judging import refuse_unknown_runs
from dshap.steps.outlook import nights_of, sinks_of
from dshap.steps.plans import JobPlan
from dshap.steps.row_sources import row_source
from dshap.steps.shard_work import ShardsPlan
from dshap.steps.sink_targets import with_targets


def plan_from_source(
    job: Job,
    as_of: date | None = None,
    say: Callable[[str], None] = lambda _: None,
    shards: int | None = None,
    n_probe: int = 0,
) -> JobPlan:
    """Plan a job without fitting a model, starting a cluster, or leaving a file behind.

    If a run would copy its rows into its store (`kind = "sql"` or "csv"), they are copied here into
    a temporary folder, which is removed at the end.

    Parameters
    ----------
    job : Job
    as_of : date, optional
        The date that replaces {as_of} in a query; today, in UTC, if None.
    say : function, optional
        Receives a line for people, such as a warning.
    shards : int, optional
        Number of shards; the plan then also describes the work of each.
    n_probe : int
        Number of rows on which the speed of the model is measured; 0: it is not called.

    Raises
    ------
    InputError
        A source that cannot be read, columns and options that do not fit it, a date before that of
        the last run, or a sink that refuses a load.
    StaleSourceError
        A source that is older than its freshness allows.
    StoreMismatchError
        Something else is at the path of the store.
    """
    store = place_of(job.job.store)
    refuse_store(job, store)
    refuse_unknown_runs(job.check, store)
    cubes_of_job(job, store, row_source(job)).refuse_other_layout()
    day = as_of or datetime.now(UTC).date()
    check_day(job, store, day, is_backfill=False)
    job = with_targets(job, day, say)
    plan = row_source(job).plan(day, say, n_probe)
    if shards is not None:
        plan = replace(plan, shards=ShardsPlan.of(shards, plan.timed))
    return replace(plan, nights=nights_of(job), sinks=sinks_of(job))
