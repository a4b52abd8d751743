from dshap.history.fits import fit_report
from dshap.history.run_record import RunFacts, error_of
from dshap.jobfile.reading import parse_job
from dshap.jobfile.reading import read_job_file as load_job
from dshap.jobfile.schema import Job
from dshap.jobs.cluster_check import check_cluster
from dshap.jobs.first_job import FirstJob
from dshap.jobs.first_model import FirstModel
from dshap.jobs.first_source import FirstSource
from dshap.jobs.job_check import check_job
from dshap.jobs.manifests import manifests_of
from dshap.jobs.planning import plan_from_source
from dshap.jobs.repair import refuse_damage, repair_with_job
from dshap.jobs.runs_in_words import (
    about_run,
    about_start,
    closing_lines,
    run_content,
    runs_summary,
)
from dshap.jobs.sampling import JobSample, sample_of_job
from dshap.jobs.schedules import Schedule
from dshap.jobs.store_runs import RecordedRun, run_job, run_recorded
from dshap.jobs.summary import JobSummary, job_summary
from dshap.jobs.verification import repair_job_store, verify_job_store
from dshap.steps.plans import JobPlan, plan_job
from dshap.steps.results import ExplanationResult, JobResult
from dshap.steps.scope import Scope, scope_of
from dshap.steps.under_way import Command

__all__ = [
    "Command",
    "ExplanationResult",
    "FirstJob",
    "FirstModel",
    "FirstSource",
    "Job",
    "JobPlan",
    "JobResult",
    "JobSample",
    "JobSummary",
    "RecordedRun",
    "RunFacts",
    "Schedule",
    "Scope",
    "about_run",
    "about_start",
    "check_cluster",
    "check_job",
    "closing_lines",
    "error_of",
    "fit_report",
    "job_summary",
    "load_job",
    "manifests_of",
    "parse_job",
    "plan_from_source",
    "plan_job",
    "refuse_damage",
    "repair_job_store",
    "repair_with_job",
    "run_content",
    "run_job",
    "run_recorded",
    "runs_summary",
    "sample_of_job",
    "scope_of",
    "verify_job_store",
]
