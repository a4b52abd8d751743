"""Which cubes a job writes: one for all its runs, or one for each."""

from __future__ import annotations

from dshap.core.places import Place
from dshap.jobfile.schema import Job
from dshap.steps.job_cubes import JobCubes
from dshap.steps.nightly_cubes import NightlyCubes
from dshap.steps.row_sources import RowSource
from dshap.steps.shared_cubes import SharedCubes


def cubes_of_job(job: Job, store: Place, source: RowSource) -> JobCubes:
    """The cubes of a job in its store, whose rows come from a source."""
    if job.is_incremental:
        return NightlyCubes(job, store, source)
    return SharedCubes(job, store, source)
