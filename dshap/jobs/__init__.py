"""Job files: their schema, planning them and running them."""

from dshap.jobs.reading import parse_job
from dshap.jobs.reading import read_job_file as load_job
from dshap.jobs.runner import ExplanationResult, JobPlan, JobResult, fit_report, plan_job, run_job
from dshap.jobs.schema import Job

__all__ = [
    "ExplanationResult",
    "Job",
    "JobPlan",
    "JobResult",
    "fit_report",
    "load_job",
    "parse_job",
    "plan_job",
    "run_job",
]
