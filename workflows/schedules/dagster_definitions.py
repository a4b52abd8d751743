"""The nightly run by Dagster: `dagster dev -f dagster_definitions.py`, after the two paths are yours.

Secrets of the job's addresses come from the environment.
"""

from __future__ import annotations

import subprocess

import dagster

DSHAP = "/srv/churn/.venv/bin/dshap"
JOB = "/srv/churn/job.toml"
COMMAND = [DSHAP, "run", JOB, "-q", "--log", "json", "--skip-code", "99"]
SKIPPED = (6, 99)
"""Exit statuses of a run that had nothing to do, or found the run before still going on."""
FINAL = (1, 3, 4, 5, 7, 8)
"""Exit statuses that the same command would have again: docs/schedules.md."""


@dagster.asset(retry_policy=dagster.RetryPolicy(max_retries=3, delay=20 * 60))
def customer_reasons() -> dagster.MaterializeResult:
    """Reasons of every customer's prediction; what is finished is kept, so that a retry does the
    rest."""
    status = subprocess.run(COMMAND).returncode
    if status in (0, *SKIPPED):
        return dagster.MaterializeResult(metadata={"exit_status": status})
    raise dagster.Failure(
        f"exit status {status}: see docs/schedules.md of dshap", allow_retries=status not in FINAL
    )


nightly = dagster.ScheduleDefinition(
    name="nightly", target=[customer_reasons], cron_schedule="15 3 * * *"
)
definitions = dagster.Definitions(assets=[customer_reasons], schedules=[nightly])
