"""Workers as jobs of a queue: SLURM, and by the same package PBS, SGE and LSF.

Scheduler and client are in this process; each worker is one job.  A job that ends, by its walltime
or because a user cancels it, is submitted again.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from dshap.core.errors import InputError, unknown_name
from dshap.core.late import distributed
from dshap.core.user_code import job_path
from dshap.engine.backlog import IDLE_LOOKS
from dshap.engine.certificates import Certificates, make_certificates
from dshap.engine.clients import NO_HTTP
from dshap.engine.clusters.installed import package_of
from dshap.engine.clusters.worker import HOURS, WorkerOptions, clock

CLASSES = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "sge": "SGECluster", "lsf": "LSFCluster"}
"""Kind of cluster -> its class in dask-jobqueue."""
FORMS = {"lsf": "{hours:02d}:{minutes:02d}"}
"""Kind of cluster -> the form of its walltimes, where that is not HH:MM:SS."""
ELSEWHERE = {
    "cores": "[worker] cores",
    "memory": "[worker] memory",
    "processes": "[worker] cores and threads",
    "python": "[worker] python",
    "walltime": "[worker] walltime",
    "local_directory": "[worker] scratch",
    "n_workers": "[cluster] workers",
    "security": "[cluster] certificates",
    "protocol": "[cluster] certificates",
}
"""Option of dask-jobqueue -> the key of a job file that sets it."""
HIDDEN = {"self", "args", "asynchronous", "config_name", "dashboard_address", "host", "job_cls"}
HIDDEN |= {"loop", "name", "scheduler", "scheduler_cls"}
"""Parameters of dask-jobqueue that no option sets."""
WATCH_S = 2.0
"""The seconds between two checks whether a job has to be submitted again."""
LOOKS = 3
"""The number of checks in a row without the worker after which its job counts as ended: a process
that Dask restarts is back earlier."""


def queue_options(kind: str) -> set[str]:
    """The options of dask-jobqueue for a queue, by its own names."""
    cluster = getattr(package_of(kind), CLASSES[kind])
    makers = [*cluster.job_cls.__mro__, *cluster.__mro__]
    found = set[str]()
    for maker in makers:
        if maker.__module__.startswith("dask_jobqueue"):
            parameters = inspect.signature(maker.__init__).parameters.values()
            found |= {each.name for each in parameters if each.kind is not each.VAR_KEYWORD}
    return found - HIDDEN


def check_queue_options(kind: str, given: Collection[str]) -> None:
    """Raise an `InputError` for an option that dask-jobqueue does not know, or that has a key."""
    known = queue_options(kind)
    for name in given:
        if name in ELSEWHERE:
            raise InputError(f"jobqueue.{name}: {ELSEWHERE[name]} sets it; leave it out")
        if name not in known:
            raise InputError(
                unknown_name("option of dask-jobqueue", name, known - ELSEWHERE.keys())
            )


def queue_client(
    kind: str,
    worker: WorkerOptions,
    new_folder: Callable[[], Path],
    workers: int = 1,
    certificates: str | None = None,
    jobqueue: Mapping[str, Any] | None = None,
    minimum: int | None = None,
    maximum: int | None = None,
) -> distributed.Client:
    """Submit `workers` jobs to the queue, and replace jobs that end until the client is closed.

    With `maximum` their number follows the tasks that wait, from `minimum` (0) upward.

    Without `certificates`, new ones are made for this cluster, in a folder that `new_folder` makes
    where workers see it; dask-jobqueue puts them into files in `shared_temp_directory` instead,
    if `jobqueue`, which are options of it, names that.
    """
    cluster_class = getattr(package_of(kind), CLASSES[kind])
    if worker.memory is None:
        raise InputError(
            f'[worker] memory is missing: [cluster] kind = "{kind}" requests this much memory from '
            "the queue"
        )
    check_queue_options(kind, jobqueue or {})
    logging.getLogger("distributed").setLevel(logging.ERROR)
    _check_command(kind, cluster_class.job_cls.submit_command)
    try:
        security = _security(new_folder, certificates, jobqueue or {})
        cluster = cluster_class(**_arguments(kind, worker, security, dict(jobqueue or {})))
    except (TypeError, ValueError) as error:
        raise InputError(f'[cluster] kind = "{kind}": {error}') from error
    if maximum is None:
        first = workers
    else:
        first = minimum or 0
    for _ in range(first):
        # not by `scale`, which submits in the background: awaiting the cluster below raises the
        # error of a queue that refuses
        cluster.worker_spec.update(cluster.new_worker_spec())
    try:
        cluster.sync(_submitted, cluster)
    except Exception as error:
        with contextlib.suppress(AssertionError):  # of workers that have never started
            cluster.close()
        raise InputError(f"the queue did not accept a worker: {_told_by_queue(error)}") from error
    client = distributed.Client(cluster)
    if maximum is None:
        cluster.loop.add_callback(_keep, cluster, lambda: cluster.scale(jobs=workers))
    else:
        cluster.adapt(minimum_jobs=first, maximum_jobs=maximum, wait_count=IDLE_LOOKS)
        cluster.loop.add_callback(_keep, cluster, lambda: _forget_ended(cluster))
    return client


def _security(
    new_folder: Callable[[], Path], certificates: str | None, jobqueue: Mapping[str, Any]
) -> distributed.Security | bool:
    """The certificates of a cluster; True if dask-jobqueue makes them, in memory and in files."""
    if certificates is not None:
        return Certificates.of_folder(certificates).security()
    if "shared_temp_directory" in jobqueue:
        return True
    return make_certificates(new_folder()).security()


def _arguments(
    kind: str, worker: WorkerOptions, security: distributed.Security | bool, options: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of the class of dask-jobqueue."""
    variables = {**worker.variables, **job_path(worker.variables)}
    exports = [f"export {name}={shlex.quote(text)}" for name, text in variables.items()]
    more = options.pop("worker_extra_args", [])
    quiet = {"dashboard": False, "dashboard_address": ":0", "preload": [NO_HTTP]}
    arguments: dict[str, Any] = {
        "cores": worker.cores,
        "processes": worker.n_processes,
        "memory": str(worker.memory),
        "python": worker.python,
        "local_directory": worker.scratch,
        "security": security,
        "worker_extra_args": ["--no-dashboard", *worker.lifetime_arguments, *more],
        "job_script_prologue": [*exports, *options.pop("job_script_prologue", [])],
        "scheduler_options": {**quiet, **options.pop("scheduler_options", {})},
        "silence_logs": "error",
        **options,
    }
    if worker.walltime is not None:
        arguments["walltime"] = clock(worker.walltime_s, FORMS.get(kind, HOURS))
    return arguments


def _check_command(kind: str, command: str) -> None:
    program = shlex.split(command)[0]
    if shutil.which(program) is None:
        raise InputError(
            f'[cluster] kind = "{kind}": there is no command {program} here: run dshap where jobs '
            "are submitted"
        )


async def _submitted(cluster: Any) -> None:
    """Wait until the queue has accepted the jobs of a cluster, or raise its error."""
    await cluster


def _forget_ended(cluster: Any) -> None:
    """Remove jobs that have ended from the plan of an adaptive cluster, which then plans others."""
    for name in set(cluster.worker_spec) - set(cluster.workers):
        if not cluster._lock.locked():  # else these jobs are being submitted
            del cluster.worker_spec[name]


def _keep(cluster: Any, replace_ended: Callable[[], object]) -> None:
    """Submit jobs again as others end, on the loop of the cluster, while that is open."""
    from tornado.ioloop import PeriodicCallback

    from dshap.engine.clusters.arrivals import Arrivals

    arrivals = Arrivals()
    cluster.scheduler.add_plugin(arrivals)
    missed = Counter[str]()

    def look() -> None:
        if cluster.status.name != "running":
            watch.stop()
            return
        there = [str(each["name"]) for each in cluster.scheduler_info["workers"].values()]
        for name in list(cluster.workers):
            # a job of which no process has come yet still waits in the queue: only one that came
            # can be missed
            if _processes_of(name, there) or not _processes_of(name, arrivals.names):
                missed.pop(name, None)
                continue
            missed[name] += 1
            if missed[name] == LOOKS:
                missed.pop(name)
                # the job that replaces it has the same name, and must not count as one that came
                arrivals.names.difference_update(_processes_of(name, arrivals.names))
                cluster.loop.add_callback(cluster.workers.pop(name).close)
        replace_ended()

    watch = PeriodicCallback(look, WATCH_S * 1000)
    watch.start()


def _processes_of(job: str, names: Iterable[str]) -> list[str]:
    """The names that belong to a job; its processes are named JOB-0, JOB-1 if it has several."""
    return [name for name in names if name == job or name.startswith(f"{job}-")]


def _told_by_queue(error: Exception) -> str:
    """The last line that a command of the queue printed before it failed."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.endswith(":")]
    if told:
        return told[-1]
    return type(error).__name__
