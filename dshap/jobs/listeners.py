"""The listeners of the end of a run, from [notify] of the job and options of the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dshap.core.rules import as_path
from dshap.jobfile.schema import Job
from dshap.jobs.lineage import LineageFile, lineage_path
from dshap.jobs.metrics import MetricsFile, metrics_path
from dshap.jobs.notifying import Notifier
from dshap.jobs.run_endings import Listener


def listeners_of(
    job: Job,
    job_file: str,
    metrics: str | None,
    lineage: str | None,
    say: Callable[[str, str], None],
) -> list[Listener]:
    """The listeners of one command; a file that cannot be written is an error before it begins.

    Parameters
    ----------
    job : Job
    job_file : the file of the job, beside which the command of [notify] is started
    metrics, lineage : the files of --metrics and --lineage
    say : receives a line and its level

    Raises
    ------
    InputError
        The folder of a file does not exist, or collectors do not read files of this name.
    """
    found: list[Listener] = []
    if metrics is not None:
        found.append(MetricsFile(metrics_path(as_path("--metrics", metrics, "file"))))
    if lineage is not None:
        found.append(LineageFile(lineage_path(as_path("--lineage", lineage, "file"))))
    if job.notify.command is not None:
        folder = Path(job_file).absolute().parent
        is_for_problems = job.notify.when == "problem"
        found.append(Notifier(job.notify.command, folder, is_for_problems, say))
    return found
