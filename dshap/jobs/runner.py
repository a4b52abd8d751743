"""Planning and running a job: one table, one model, any number of explanations, one store."""

from __future__ import annotations

from dshap.jobs.reading import read_job_file as load_job

__all__ = ["ExplanationResult", "JobPlan", "JobResult", "load_job", "plan_job", "run_job"]
