"""The nightly run by Airflow 3: put this file into its folder of DAGs, after the two paths are yours.

Secrets of the job's addresses come from the environment of the worker.  With -q a run logs errors
alone; leave it out for its progress.
"""

from __future__ import annotations

import subprocess
from datetime import datetime, timedelta

from airflow.sdk import dag, task

# Airflow 3.0 has both in airflow.exceptions
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

DSHAP = "/srv/churn/.venv/bin/dshap"
JOB = "/srv/churn/job.toml"
COMMAND = [DSHAP, "run", JOB, "-q", "--log", "json", "--skip-code", "99"]
SKIPPED = (6, 99)
"""Exit statuses of a run that had nothing to do, or found the run before still going on."""
FINAL = (1, 3, 4, 5, 7, 8)
"""Exit statuses that the same command would have again: docs/schedules.md."""


@task(retries=3, retry_delay=timedelta(minutes=20))
def explain(ds: str | None = None) -> None:
    """Explain the rows of the day; what is finished is kept, so that a retry does the rest.

    Airflow fills in `ds`, the date of its run (`--as-of {{ ds }}` of a BashOperator): a retry after
    midnight is for the same date.  A run that was started by hand without a date has none.
    """
    as_of = ["--as-of", ds] if ds else []
    status = subprocess.run([*COMMAND, *as_of]).returncode
    if status in SKIPPED:
        raise AirflowSkipException(f"exit status {status}: nothing to do")
    if status in FINAL:
        raise AirflowFailException(f"exit status {status}: see docs/schedules.md of dshap")
    if status != 0:
        raise RuntimeError(f"exit status {status}")


@dag(
    schedule="15 3 * * *",
    start_date=datetime(2026, 11, 27),
    catchup=False,
    max_active_runs=1,
)
def churn_reasons() -> None:
    explain()


churn_reasons()
