"""The manifest of a run on Kubernetes: `dshap cluster manifest`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from dshap.core.addresses import scheme_of
from dshap.core.errors import InputError
from dshap.engine import format_bytes
from dshap.engine.clusters.kubernetes import JOBS, PROFILES, JobInPods, Pods
from dshap.engine.clusters.worker import WorkerOptions
from dshap.jobfile.pod_fields import amount_of
from dshap.jobfile.profiles import profile_file
from dshap.jobfile.reading import read_cluster, read_job_file
from dshap.jobfile.settings import with_target
from dshap.jobs.schedules import Schedule

PATHS = (("job", "store"), ("source", "path"), ("model", "path"))
"""Keys whose paths pods must see."""


def manifests_of(
    profile: str,
    job_file: str,
    certificates: Path | None = None,
    shards: int | None = None,
    schedule: Schedule | None = None,
    learning: int | None = None,
    target: str = "",
) -> list[dict[str, Any]]:
    """The objects of Kubernetes that run a job on the pods of a profile.

    Parameters
    ----------
    profile : the name of a profile of kind "kubernetes", or the path of its file
    job_file : the path of the job
    certificates : the folder of certificates to put into a secret; None: the secret is there
    shards : the number of shards of a run in parts; None: a whole run on workers
    schedule : the times of a run that one pod does alone; None: a run now
    learning : the number of shards that share the learning of a run in parts; None: one pod learns
    target : the name of a table [targets.NAME] of the job; empty for none

    Raises
    ------
    InputError
        Another kind of profile, a job that is not allowed, or paths in it that no pod sees.
    """
    _refuse_together(certificates, shards, schedule)
    if learning is not None and shards is None:
        raise InputError("--learn-shards is for a run with --shards: give --shards too")
    cluster, worker = read_cluster(profile)
    if not cluster.has_manifest:
        raise InputError(
            f'profile {profile}: kind = "{cluster.kind}" has no manifest: only kind = "kubernetes" '
            "has one"
        )
    read_job_file(job_file, cluster=profile, target=target)
    pods: Pods = cluster.pods(WorkerOptions(**dict(worker)))
    job = JobInPods(Path(job_file), target)
    _refuse_paths(job, pods)
    _refuse_scratch(profile, pods)
    if shards is not None:
        _refuse_small(profile, pods, beside=0)
        return pods.shards(job, shards, learning)
    if schedule is not None:
        _refuse_small(profile, pods, beside=0)
        return pods.nights(job, schedule.times, schedule.time_zone)
    _refuse_small(profile, pods, pods.beside_bytes)
    return pods.manifests(profile_file(profile), job, certificates)


def _refuse_together(
    certificates: Path | None, shards: int | None, schedule: Schedule | None
) -> None:
    """Raise an error if options are given that exclude each other."""
    if shards is not None and schedule is not None:
        raise InputError(
            "--schedule is for a run in one pod, and --shards for a run in several: give one of "
            "them"
        )
    for option, given in (("--shards", shards), ("--schedule", schedule)):
        if given is not None and certificates is not None:
            raise InputError(
                f"{option} has no scheduler and so no certificates: leave --certificates out"
            )


def _refuse_paths(job: JobInPods, pods: Pods) -> None:
    """Raise an error if a path of the job is on no volume of the pods."""
    whole = tomllib.loads(job.file.read_text(encoding="utf-8"))
    written = with_target(whole, job.target)
    for table, key in PATHS:
        path = written.get(table, {}).get(key)
        if path is None or (scheme_of(path) and scheme_of(path) != "file"):
            continue
        if not any(Path(path).is_relative_to(volume) for volume in pods.volumes):
            volumes = ", ".join(pods.volumes) or "none"
            raise InputError(
                f'job file {job.file}: [{table}] {key} = "{path}" is on no volume of the pods: '
                f"give a path on one of [cluster] volumes (now {volumes})"
            )


def _refuse_scratch(profile: str, pods: Pods) -> None:
    """Raise an error if [worker] scratch is no folder that a pod can have for temporary files."""
    text = pods.worker.scratch
    if text is None:
        return
    path = Path(text)
    if not path.is_absolute() or path == Path("/") or ".." in path.parts:
        raise InputError(
            f'profile {profile}: [worker] scratch = "{text}" is a folder of pods: give an absolute '
            'path below "/", without ".."'
        )
    for own in map(Path, (pods.certificates, PROFILES, JOBS)):
        if path.is_relative_to(own):
            raise InputError(
                f'profile {profile}: [worker] scratch = "{text}" is in {own}, where pods see files '
                "of dshap: give another folder"
            )


def _refuse_small(profile: str, pods: Pods, beside: int) -> None:
    """Raise an error if a container may use less memory than its worker processes together."""
    given = pods.resources.get("worker", {}).get("limits", {}).get("memory")
    process = pods.worker.process_memory
    if given is None or process is None:
        return
    needed = process * pods.worker.n_processes + beside
    if amount_of(given) < needed:
        raise InputError(
            f'profile {profile}: [cluster.resources.worker] limits.memory = "{given}" is less than '
            f"the {format_bytes(needed)} of its processes, by [worker] memory: leave it out, or "
            "lower [worker] memory"
        )
