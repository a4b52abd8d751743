"""Workers as pods of a Kubernetes cluster, from a manifest of plain Jobs: no operator is needed.

One Job contains the run, with the scheduler beside it in the same pod, which ends with the run.  An
Indexed Job contains the workers; they end when their scheduler is gone and no other has replaced
it.

A run in parts has no scheduler: a Job learns, an Indexed Job has a shard a pod, and a Job finishes.
Neither has a run on a schedule: a CronJob starts one pod, which does all of it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dshap.core.exit_statuses import FINAL
from dshap.core.late import distributed
from dshap.core.options import parse_bytes
from dshap.engine.certificates import FILES, Certificates
from dshap.engine.clients import connect
from dshap.engine.clusters.worker import PORT, QUIET_PAGES, WorkerOptions

USER_ID = 1000
"""The user of all containers; cluster/Containerfile makes it."""
TLS_FOLDER = "/etc/dshap/tls"
PROFILES = "/etc/dshap/clusters"
JOBS = "/etc/dshap/jobs"
SCRATCH = "/var/tmp/dshap"
"""The folder of a pod for temporary files, where [worker] scratch names none."""
DEATH_S = 60
"""The seconds after which a worker ends if its scheduler does not accept it."""
RETRIES = 3
"""How often a run, or a shard, is started again after an exit status that is not final."""
GRACE_S = 120
"""The seconds that a pod has to end after SIGTERM, in which it stores its finished work."""
MANY_INDEXES = 100_000
"""The number of indexes above which the API of Kubernetes wants the two limits below, and the most
pods at once of an Indexed Job."""
MOST_FAILED = 10_000
"""The most indexes that may fail, of a Job with more indexes than `MANY_INDEXES`."""
MOST_AT_ONCE = 10_000
"""The most pods at once of such a Job."""
START_WITHIN_S = 7200
"""The seconds after its time in which a scheduled run may still start."""
KEPT_RUNS = 7
"""The number of scheduled runs that stay with their logs: so many that succeeded, and so many that
failed."""
DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "run": {"cpu": "1", "memory": "2Gi"},
    "scheduler": {"cpu": "500m", "memory": "1Gi"},
}
"""Container -> its default requests: a run leaves the rows to workers."""
BESIDE_BYTES = 320 << 20
"""Bytes of the other processes in a pod of workers: the process that waits for a scheduler, the
nanny that watches the workers, and Python's tracker of resources.  Measured: 291 MiB."""
PER_WORKER_BYTES = 1 << 20
"""Bytes that these processes need in addition for each worker process.  Measured: 0.44 MiB."""
Manifest = dict[str, Any]
Resources = Mapping[str, Mapping[str, str]]
"""The requests and limits of a container, in the words of Kubernetes."""


def at_pods(
    name: str = "dshap",
    namespace: str = "default",
    address: str | None = None,
    certificates: str = TLS_FOLDER,
) -> distributed.Client:
    """Connect to the scheduler of the pods that `Pods.manifests` describes, by its service."""
    security = Certificates.of_folder(certificates).security()
    return connect(address or service_address(name, namespace), security=security)


def service_address(name: str, namespace: str) -> str:
    """The address of the scheduler inside of the cluster."""
    return f"tls://{name}-scheduler.{namespace}.svc:{PORT}"


@dataclass(frozen=True)
class JobInPods:
    """The job of a run in pods, whose file these read from a config map."""

    file: Path
    target: str = ""
    """The name of a table [targets.NAME] of the file; empty for the job without a target."""

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.file.name

    @property
    def command(self) -> list[str]:
        """The beginning of the command of the run."""
        target = ["--target", self.target] if self.target else []
        return ["dshap", "run", f"{JOBS}/{self.name}", *target]


@dataclass(frozen=True)
class Pods:
    """The pods of one run."""

    image: str
    name: str
    namespace: str
    workers: int
    secret: str
    """The name of the secret with the files of the certificates."""
    certificates: str
    """The folder in which a pod sees them."""
    address: str
    """The address of the scheduler."""
    volumes: Mapping[str, str]
    """Path in a pod -> name of a persistent volume claim."""
    credentials: str | None
    """The name of a secret whose entries are variables of all containers; None: there is none."""
    service_account: str | None
    """The name of the service account of the pods; None: that of the namespace."""
    image_pull_secrets: Sequence[str]
    """The names of secrets by which nodes pull the image."""
    node_selector: Mapping[str, str]
    """The labels that a node must have."""
    tolerations: Sequence[Mapping[str, Any]]
    """The taints of nodes that pods may run on, as Kubernetes writes them."""
    priority_class: str | None
    """The name of the priority class of the pods; None: that of the cluster."""
    labels: Mapping[str, str]
    """Labels of the user's, of all objects and pods."""
    annotations: Mapping[str, str]
    resources: Mapping[str, Resources]
    """Container ("run", "scheduler", "worker") -> its resources in the profile."""
    ttl_seconds_after_finished: int
    """The seconds after which a Job that has ended is deleted, with its pods and their logs."""
    wait: float
    """The seconds for which workers wait for a scheduler, the first or its replacement."""
    worker: WorkerOptions

    def shards(self, job: JobInPods, count: int, learning: int | None = None) -> list[Manifest]:
        """The objects of a run in parts; all but the first wait until they are started.

        Parameters
        ----------
        job : the job that the run in the pods reads
        count : the number of shards that explain
        learning : the number of shards that share the learning; None: one pod learns all
        """
        parts = [
            ("learn", ["--only", "learn"], _tries("learn")),
            ("shards", ["--shard", f"auto/{count}"], self._indexed("shards", count)),
            ("finish", ["--only", "finish"], _tries("finish")),
        ]
        if learning is not None:
            share = ["--only", "learn", "--shard", f"auto/{learning}"]
            parts[:0] = [
                ("begin", ["--only", "begin"], _tries("begin")),
                ("learning", share, self._indexed("learning", learning)),
            ]
        objects = [self._job_file(job)]
        for place, (part, words, spec) in enumerate(parts):
            waiting = {"suspend": place > 0, **spec}
            objects.append(self._job(part, waiting, self._alone(part, job, words)))
        return objects

    def _indexed(self, part: str, count: int) -> dict[str, Any]:
        """The keys of an Indexed Job of so many pods, each of which is tried again separately."""
        return {**self._indexes(count), "podFailurePolicy": _policy(part, "FailIndex")}

    def nights(self, job: JobInPods, schedule: str, time_zone: str) -> list[Manifest]:
        """The objects of a run on a schedule: one pod that does all of it, and no workers.

        Parameters
        ----------
        job : the job that the run in the pod reads
        schedule : five fields as cron has them, such as "0 3 * * *"
        time_zone : the zone of these times, such as "Europe/Berlin"
        """
        template = {**_tries("night"), "template": self._alone("night", job, [])}
        spec = {
            "schedule": schedule,
            "timeZone": time_zone,
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": START_WITHIN_S,
            "successfulJobsHistoryLimit": KEPT_RUNS,
            "failedJobsHistoryLimit": KEPT_RUNS,
            "jobTemplate": {"metadata": self._marks({"app": self.name}), "spec": template},
        }
        return [self._job_file(job), self._object("batch/v1", "CronJob", self.name, spec=spec)]

    def _job_file(self, job: JobInPods) -> Manifest:
        """The config map of a run that needs no profile."""
        return self._object("v1", "ConfigMap", self.name, data={job.name: _text_of(job.file)})

    def _alone(self, part: str, job: JobInPods, words: list[str]) -> Manifest:
        """A pod with one process, which explains rows itself: no scheduler, no certificates."""
        command = [*job.command, "--cluster", "none", "--log", "json", *words]
        container = self._container(part, command, self._files([(JOBS, job.name)]))
        container["resources"] = self._size("worker", self._worker_size(beside=0))
        # nothing is restarted in the pod ("Never"), as Kubernetes applies a podFailurePolicy to
        # such pods only
        volumes = [self._files_volume(), *self._scratch_volumes(self._storage())]
        return self._pod(part, "Never", [container], volumes)

    def _indexes(self, count: int) -> dict[str, Any]:
        """The keys of an Indexed Job of so many indexes, within the limits of the API."""
        most = MANY_INDEXES
        limits = {}
        if count > MANY_INDEXES:
            most = MOST_AT_ONCE
            limits["maxFailedIndexes"] = MOST_FAILED
        return {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": min(self.workers, count, most),
            "backoffLimitPerIndex": RETRIES,
            **limits,
        }

    def manifests(self, profile: Path, job: JobInPods, with_secret: Path | None) -> list[Manifest]:
        """The objects, in the order in which they are applied.

        Parameters
        ----------
        profile, job : the files that the run in the pod reads
        with_secret : the folder of certificates to put into a secret; None: that is there already
        """
        files = {profile.name: _text_of(profile), job.name: _text_of(job.file)}
        objects = [
            self._object("v1", "ConfigMap", self.name, data=files),
            self._service(),
            self._run(profile, job),
            self._workers(),
        ]
        if with_secret is None:
            return objects
        Certificates.of_folder(with_secret).check()
        data = {
            name: base64.b64encode((with_secret / name).read_bytes()).decode() for name in FILES
        }
        return [self._object("v1", "Secret", self.secret, type="Opaque", data=data), *objects]

    def scheduler_command(self) -> list[str]:
        """The command of the scheduler."""
        where = ["--protocol", "tls", "--port", str(PORT), "--no-dashboard"]
        return [self._python, "-m", "dask", "scheduler", *where, *self._tls()]

    def worker_command(self) -> list[str]:
        """The command of a worker."""
        size = ["--nworkers", str(self.worker.n_processes), "--nthreads", str(self.worker.threads)]
        if self.worker.process_memory is not None:
            size += ["--memory-limit", str(self.worker.process_memory)]
        end = ["--death-timeout", str(DEATH_S), "--no-dashboard"]
        where = ["--local-directory", self._scratch]
        given = [self.address, str(self.wait), self.certificates, *size, *end, *where, *self._tls()]
        return [self._python, "-m", "dshap.engine.clusters.pod_worker", *given]

    @property
    def beside_bytes(self) -> int:
        """The bytes of the other processes in a pod of workers."""
        return BESIDE_BYTES + PER_WORKER_BYTES * self.worker.n_processes

    @property
    def _python(self) -> str:
        return self.worker.python or "python"

    @property
    def _scratch(self) -> str:
        """The folder of a pod for temporary files."""
        return self.worker.scratch or SCRATCH

    @property
    def _has_scratch_volume(self) -> bool:
        """Whether scratch is a volume of the pod's own, and on none of the profile."""
        return not any(Path(self._scratch).is_relative_to(path) for path in self.volumes)

    def _tls(self) -> list[str]:
        options = ("--tls-ca-file", "--tls-cert", "--tls-key")
        pairs = zip(options, FILES, strict=True)
        return [text for name, file in pairs for text in (name, f"{self.certificates}/{file}")]

    def _object(self, version: str, kind: str, name: str, **parts: Any) -> Manifest:
        about = {"name": name, "namespace": self.namespace, **self._marks({"app": self.name})}
        return {"apiVersion": version, "kind": kind, "metadata": about, **parts}

    def _job(self, ending: str, spec: Mapping[str, Any], pod: Manifest) -> Manifest:
        """A Job of this pod, which is deleted some time after it has ended."""
        end = {"ttlSecondsAfterFinished": self.ttl_seconds_after_finished}
        whole = {**spec, **end, "template": pod}
        return self._object("batch/v1", "Job", f"{self.name}-{ending}", spec=whole)

    def _marks(self, labels: Mapping[str, str]) -> dict[str, Any]:
        """The labels and annotations of an object or a pod: these, and those of the profile."""
        marks = {"labels": {**self.labels, **labels}}
        if self.annotations:
            marks["annotations"] = dict(self.annotations)
        return marks

    def _service(self) -> Manifest:
        spec = {
            "selector": {"app": self.name, "part": "run"},
            "ports": [{"name": "tls", "port": PORT, "targetPort": PORT}],
            # the run reaches the scheduler beside it by this service, before its own pod counts as
            # ready
            "publishNotReadyAddresses": True,
        }
        return self._object("v1", "Service", f"{self.name}-scheduler", spec=spec)

    def _run(self, profile: Path, job: JobInPods) -> Manifest:
        """The Job of the run; a pod that is lost is replaced, and continues where it was."""
        command = [*job.command, "--cluster", profile.stem, "--log", "json"]
        scheduler = self._container("scheduler", self.scheduler_command(), [self._tls_mount()])
        scheduler["resources"] = self._size("scheduler", {})
        files = self._files([(PROFILES, profile.name), (JOBS, job.name)])
        run = self._container("run", command, [self._tls_mount(), *files])
        run["resources"] = self._size("run", {})
        volumes = [self._tls_volume(), self._files_volume(), *self._scratch_volumes(None)]
        pod = self._pod("run", "Never", [run], volumes)
        # an init container that restarts is a sidecar: it starts before the run and ends with it,
        # where a second container would keep a finished pod alive
        pod["spec"]["initContainers"] = [{**scheduler, "restartPolicy": "Always"}]
        return self._job("run", _tries("run"), pod)

    def _workers(self) -> Manifest:
        """The Indexed Job of the workers."""
        container = self._container("worker", self.worker_command(), [self._tls_mount()])
        container["resources"] = self._size("worker", self._worker_size(self.beside_bytes))
        volumes = [self._tls_volume(), *self._scratch_volumes(self._storage())]
        spec = {
            "completionMode": "Indexed",
            "completions": self.workers,
            "parallelism": self.workers,
            # Kubernetes counts the restarts of all pods together, so the limit grows with their
            # number
            "backoffLimit": 10 * self.workers,
        }
        return self._job("workers", spec, self._pod("worker", "OnFailure", [container], volumes))

    def _worker_size(self, beside: int) -> dict[str, str]:
        """The resources of a container that explains rows, by [worker].

        `beside` are the bytes of the pod's other processes, which are added to the memory of the
        workers.
        """
        size = {"cpu": str(self.worker.cores)}
        if self.worker.process_memory is not None:
            workers = self.worker.process_memory * self.worker.n_processes
            size["memory"] = _quantity(workers + beside)
        storage = self._storage()
        if storage is not None:
            size["ephemeral-storage"] = storage
        return size

    def _size(self, container: str, limits: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """The resources of a container: these limits, overridden by the profile."""
        given = self.resources.get(container, {})
        all_limits = {**limits, **given.get("limits", {})}
        # a request that nobody gives is the limit, as Kubernetes has it
        requests = {**DEFAULTS.get(container, {}), **all_limits, **given.get("requests", {})}
        size = {"requests": requests, "limits": all_limits}
        return {name: part for name, part in size.items() if part}

    def _storage(self) -> str | None:
        """The disk of its node that a pod which explains rows may fill; None: no limit is given."""
        if self.worker.ephemeral_storage is None:
            return None
        return _quantity(parse_bytes(self.worker.ephemeral_storage))

    def _scratch_volumes(self, limit: str | None) -> list[dict[str, Any]]:
        """The volume of a pod for temporary files, limited to this size."""
        if not self._has_scratch_volume:
            return []
        if limit is None:
            return [{"name": "scratch", "emptyDir": {}}]
        return [{"name": "scratch", "emptyDir": {"sizeLimit": limit}}]

    def _claims(self) -> dict[str, str]:
        """Claim -> the name of its volume in a pod, where dshap has volumes of its own."""
        claims = sorted(set(self.volumes.values()))
        return {claim: f"claim-{number}" for number, claim in enumerate(claims)}

    def _files(self, places: list[tuple[str, str]]) -> list[dict[str, Any]]:
        """The mounts of files of the config map, by folder and name."""
        return [
            {"name": "files", "mountPath": f"{folder}/{name}", "subPath": name}
            for folder, name in places
        ]

    def _files_volume(self) -> dict[str, Any]:
        return {"name": "files", "configMap": {"name": self.name}}

    def _tls_volume(self) -> dict[str, Any]:
        # a secret's files belong to root: the containers read them through their group (`fsGroup`)
        return {"name": "tls", "secret": {"secretName": self.secret, "defaultMode": 0o440}}

    def _tls_mount(self) -> dict[str, Any]:
        return {"name": "tls", "mountPath": self.certificates, "readOnly": True}

    def _container(
        self, name: str, command: list[str], mounts: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """A container that sees these mounts and the volumes, and may do no more than it needs."""
        variables = dict(QUIET_PAGES)
        scratch = []
        if self._has_scratch_volume:
            variables["TMPDIR"] = self._scratch
            scratch = [{"name": "scratch", "mountPath": self._scratch}]
        variables |= self.worker.environment or {}
        names = self._claims()
        claims = [
            {"name": names[claim], "mountPath": path}
            for path, claim in sorted(self.volumes.items())
        ]
        container = {
            "name": name,
            "image": self.image,
            "command": command,
            "env": [{"name": key, "value": value} for key, value in variables.items()],
            "volumeMounts": [*mounts, *scratch, *claims],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }
        if self.credentials is not None:
            container["envFrom"] = [{"secretRef": {"name": self.credentials}}]
        return container

    def _pod(
        self,
        part: str,
        restarts: str,
        containers: list[dict[str, Any]],
        volumes: list[dict[str, Any]],
    ) -> Manifest:
        """The template of a pod with these volumes, and those of the profile."""
        claims = [
            {"name": name, "persistentVolumeClaim": {"claimName": claim}}
            for claim, name in self._claims().items()
        ]
        return {
            "metadata": self._marks({"app": self.name, "part": part}),
            "spec": {
                **self._place(),
                "restartPolicy": restarts,
                "terminationGracePeriodSeconds": GRACE_S,
                # no container speaks to the API of Kubernetes
                "automountServiceAccountToken": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": USER_ID,
                    "fsGroup": USER_ID,
                    # without it Kubernetes changes the group of every file of a volume each time
                    # it is mounted
                    "fsGroupChangePolicy": "OnRootMismatch",
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": containers,
                "volumes": [*volumes, *claims],
            },
        }

    def _place(self) -> dict[str, Any]:
        """The parts of a pod on its node and its user, as far as the profile sets them."""
        secrets = [{"name": name} for name in self.image_pull_secrets]
        place = {
            "serviceAccountName": self.service_account,
            "imagePullSecrets": secrets,
            "nodeSelector": dict(self.node_selector),
            "tolerations": [dict(each) for each in self.tolerations],
            "priorityClassName": self.priority_class,
        }
        return {name: value for name, value in place.items() if value}


def _tries(container: str) -> dict[str, Any]:
    """How often a Job starts its pod again."""
    return {"backoffLimit": RETRIES, "podFailurePolicy": _policy(container, "FailJob")}


def _policy(container: str, at_the_end: str) -> dict[str, Any]:
    """The rules by which a failed pod is the last one, or does not count.

    One that is evicted or preempted does not count; after a final exit status of its container there
    is no other.
    """
    on_exit = {"containerName": container, "operator": "In", "values": list(FINAL)}
    is_taken_away = [{"type": "DisruptionTarget", "status": "True"}]
    rules = [
        {"action": "Ignore", "onPodConditions": is_taken_away},
        {"action": at_the_end, "onExitCodes": on_exit},
    ]
    return {"rules": rules}


def _text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _quantity(n_bytes: int) -> str:
    """Bytes as Kubernetes writes them: in mebibytes, where they are whole."""
    mebibytes, rest = divmod(n_bytes, 1 << 20)
    if rest:
        return str(n_bytes)
    return f"{mebibytes}Mi"
