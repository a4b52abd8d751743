"""Job files: their schema, planning them and running them."""

from dshap.jobs.reading import parse_job
from dshap.jobs.reading import read_job_file as load_job
from dshap.jobs.repair import refuse_damage, repair_with_job
from dshap.jobs.runner import ExplanationResult, JobPlan, JobResult, fit_report, plan_job, run_job
from dshap.jobs.schema import Job
from dshap.jobs.summary import JobSummary, job_summary

__all__ = [
    "ExplanationResult",
    "Job",
    "JobPlan",
    "JobResult",
    "JobSummary",
    "fit_report",
    "job_summary",
    "load_job",
    "parse_job",
    "plan_job",
    "refuse_damage",
    "repair_with_job",
    "run_job",
]
