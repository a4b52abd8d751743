"""The page of a run, logged in MLflow as an artifact."""

from __future__ import annotations

from pathlib import Path

from dshap.jobfile.model_tables import MlflowTable
from dshap.jobfile.schema import Job
from dshap.jobs.runs_in_words import about_run
from dshap.models.adapters.mlflow_models import Registry
from dshap.steps.facts_of_job import model_facts
from dshap.steps.results import JobResult


def log_page(job: Job, page: Path, result: JobResult) -> str:
    """Log the page of a run in the MLflow experiment of the job's name; returns MLflow's run id.

    The tags of MLflow's run are the job, the run of dshap, the store, and the model: its version in
    a registry, or its digest.

    Raises
    ------
    InputError
        MLflow is not installed, or cannot be reached.
    """
    tracking_uri = None
    match job.model:
        case MlflowTable(tracking_uri=uri):
            tracking_uri = uri
    about = about_run(result.store)
    facts = model_facts(job)
    tags = {
        "dshap.job": job.job.name,
        "dshap.run": about.get("run", ""),
        "dshap.store": str(result.store),
        "dshap.model": str(facts.get("registered") or facts.get("sha256") or facts["kind"]),
    }
    name = about.get("run") or job.job.name
    return Registry(tracking_uri).log_file(job.job.name, name, tags, page)
