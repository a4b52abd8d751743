"""The time that a queue gives to a task of an array job."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Mapping

from dshap.core.errors import InputError
from dshap.engine.block_time import Deadline
from dshap.engine.clusters.worker import WorkerOptions, seconds_of_walltime

STARTED = time.time()
"""The start of this process in seconds since 1970, but for the first imports."""
ASKED_S = 20.0
"""The seconds within which SLURM must report the time that a job has left."""


def deadline_of(
    environment: Mapping[str, str], worker: WorkerOptions, started: float = STARTED
) -> Deadline | None:
    """The time at which the queue ends this process; None if no limit is known.

    SLURM gives it, by variables or by its command `squeue`; for other queues it is [worker] walltime
    from the start of this process (`started`, in seconds since 1970).
    """
    if job := _slurm_job(environment):
        times = _times_of_slurm_job(environment, job)
        if times is not None:
            began_at, ends_at = times
            earlier_s = max(0.0, started - began_at)
            return Deadline(ends_at, f"the walltime of SLURM job {job}", earlier_s)
    if worker.walltime is not None:
        return Deadline(started + worker.walltime_s, f'[worker] walltime = "{worker.walltime}"')
    return None


def _slurm_job(environment: Mapping[str, str]) -> str:
    """The job of SLURM that this process belongs to; empty if there is none.

    A task of an array is named by both numbers: the number of the last task is that of the whole array.
    """
    array = environment.get("SLURM_ARRAY_JOB_ID")
    task = environment.get("SLURM_ARRAY_TASK_ID")
    if array and task:
        return f"{array}_{task}"
    return environment.get("SLURM_JOB_ID", "")


def _times_of_slurm_job(environment: Mapping[str, str], job: str) -> tuple[float, float] | None:
    """The start and the end of a job of SLURM in seconds since 1970; None if it has no end.

    Versions before 22.05 give no variable with the start: it is infinite then.
    """
    began, ends = (environment.get(f"SLURM_JOB_{name}_TIME", "") for name in ("START", "END"))
    if ends.isdigit():
        return float(began or "inf"), float(ends)
    used, _, left = _asked_of_slurm(job).partition(" ")
    used_s = seconds_of(used)
    left_s = seconds_of(left.strip())
    if used_s is None or left_s is None:
        return None
    now = time.time()
    return now - used_s, now + left_s


def seconds_of(told: str) -> float | None:
    """The seconds of a time as `squeue` writes it: "1-02:03:04", "2:03:04" or "3:04".

    None for words such as UNLIMITED.
    """
    if told.count(":") == 1:
        # squeue writes short times as "M:SS"; a walltime needs hours, and minutes of two digits
        told = f"0:{told.zfill(5)}"
    with contextlib.suppress(InputError):
        return float(seconds_of_walltime(told))
    return None


def _asked_of_slurm(job: str) -> str:
    """The time that a job has run and the time that is left, as SLURM prints them.

    Empty if SLURM does not answer.
    """
    command = ["squeue", "--noheader", "--jobs", job, "--format=%M %L"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=ASKED_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip()
