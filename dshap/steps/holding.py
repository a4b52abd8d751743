"""The session of a command: its store is locked, and its executor is made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from dshap import engine
from dshap.core.cores import n_cores
from dshap.core.errors import InputError
from dshap.core.options import parse_bytes
from dshap.core.places import Place
from dshap.core.printing import counted
from dshap.engine import Events, Progress
from dshap.engine.clusters.installed import require_kind
from dshap.engine.late_cluster import ClusterExecutor, ThisProcess
from dshap.engine.own_processes import JobExecutor, OwnProcesses
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
    own_processes: bool = False,
) -> Iterator[tuple[Session, StageRecorder]]:
    """Lock the store, alone or together with others; yield the session of the run, and its stages.

    `report` is the performance report of the cluster; None for none.  With `own_processes` a job
    without a cluster may start processes on the cores of this machine.
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
                own_processes,
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
    own_processes: bool = False,
) -> JobExecutor:
    """Build the executor of a job; every worker of its cluster must see the places of `seen`."""
    if not job.cluster.has_workers:
        if report is not None:
            raise InputError(
                f"{REPORT_OPTION} {report}: the job runs in this process, and only a cluster makes "
                "a performance report: give --cluster, such as --cluster local, or leave it out"
            )
        n_processes = cores_of(job, progress.say) if own_processes else 1
        if n_processes == 1:
            return ThisProcess()
        return OwnProcesses(_own_cluster(job, n_processes, progress.say), n_processes, progress.say)
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


def cores_of(job: Job, say: Callable[[str], None]) -> int:
    """The cores for a job without a cluster: `cores` of [worker], at most the machine's cores."""
    there = n_cores()
    if "cores" not in job.worker.model_fields_set:
        return there
    asked = job.worker_options.cores
    if asked > there:
        say(f"[worker] cores = {asked}: this process may use {counted(there, 'core')}, and does")
    return min(asked, there)


def _own_cluster(job: Job, n_processes: int, say: Callable[[str], None]) -> ClusterExecutor:
    """Processes of one thread on this machine, which share the memory of [worker]."""
    limit = None
    if job.worker_options.memory is not None:
        limit = parse_bytes(job.worker_options.memory) // n_processes
    return ClusterExecutor(
        lambda: engine.local_client(
            n_processes,
            limit or 0,
            set_as_default=False,
            environment=job.worker_options.environment,
        ),
        limit,
        1,
        say=say,
    )
