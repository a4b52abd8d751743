"""The session of a command: its store is held, and its executor is made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.engine import Events, Progress
from dshap.engine.clusters.installed import require_kind
from dshap.engine.late_cluster import ClusterExecutor, JobExecutor, ThisProcess
from dshap.engine.performance import OPTION as REPORT_OPTION
from dshap.engine.performance import PerformanceReport
from dshap.history.stages import StageRecorder
from dshap.jobfile.cluster_tables import ClusterSite
from dshap.jobfile.schema import Job
from dshap.run.session import Session
from dshap.steps.scope import Scope
from dshap.steps.seen_places import places_of_workers
from dshap.storage.workspace import Rooms


@contextlib.contextmanager
def held(
    job: Job,
    store: Place,
    progress: Progress,
    wait_s: float | None,
    scope: Scope,
    report: Path | None = None,
) -> Iterator[tuple[Session, StageRecorder]]:
    """Hold the store, alone or beside others; gives the session of the run, and its stages.

    `report` is the performance report of the cluster; None for none.
    """
    recorder = StageRecorder(progress)
    with (
        scope.hold(store, recorder.say, job.options().scratch or "") as workspace,
        contextlib.closing(
            executor_of(
                job,
                recorder,
                wait_s,
                workspace,
                places_of_workers(job, store, workspace.path),
                report,
            )
        ) as executor,
    ):
        recorder.hold(executor, workspace)
        yield Session(executor, workspace, job.options(), recorder), recorder


def executor_of(
    job: Job,
    progress: Events,
    wait_s: float | None,
    workspace: Rooms,
    seen: Mapping[str, Place],
    report: Path | None = None,
) -> JobExecutor:
    """Build the executor of a job; every worker of its cluster must see the places of `seen`."""
    if not job.cluster.has_workers:
        if report is not None:
            raise InputError(
                f"{REPORT_OPTION} {report}: the job runs in this process, and only a cluster has "
                "one: give --cluster, such as --cluster local, or leave it out"
            )
        return ThisProcess()
    require_kind(job.cluster.kind)
    site = ClusterSite(job.worker, partial(workspace.folder, "certificates"), progress.say)
    limit = dict(job.cluster).get("memory_limit") or job.worker_options.process_memory
    if wait_s is None:
        wait_s = job.options().wait
    return ClusterExecutor(
        lambda: job.cluster.made(site),
        limit,
        job.n_threads,
        wait_s,
        progress.say,
        job.worker_options.lifetime_s,
        seen,
        None if report is None else PerformanceReport(report, progress.say),
        grows=dict(job.cluster).get("maximum") is not None,
    )
