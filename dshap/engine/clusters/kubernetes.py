"""Workers as pods of a Kubernetes cluster, from a manifest of plain Jobs: no operator is needed.

One Job holds the run, with the scheduler beside it in the same pod, which ends with the run.  An
Indexed Job holds the workers; they end when their scheduler is gone.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from distributed import Client

from dshap.engine.certificates import FILES, Certificates
from dshap.engine.clients import connect
from dshap.engine.clusters.worker import QUIET_PAGES, WorkerOptions

PORT = 8786
USER_ID = 1000
"""The user of all containers; cluster/Containerfile makes it."""
TLS_FOLDER = "/etc/dshap/tls"
PROFILES = "/etc/dshap/clusters"
JOBS = "/etc/dshap/jobs"
DEATH_S = 60
"""The seconds after which a worker ends that has lost its scheduler, or finds none."""
FINAL = [2, 3, 4, 7, 8, 9, 11]
"""Exit statuses of `dshap run` that the same command would have again."""
Manifest = dict[str, Any]


def at_pods(
    name: str = "dshap",
    namespace: str = "default",
    address: str | None = None,
    certificates: str = TLS_FOLDER,
) -> Client:
    """Connect to the scheduler of the pods that `Pods.manifests` describes, by its service."""
    security = Certificates.of_folder(certificates).security()
    return connect(address or service_address(name, namespace), security=security)


def service_address(name: str, namespace: str) -> str:
    """The address of the scheduler inside of the cluster."""
    return f"tls://{name}-scheduler.{namespace}.svc:{PORT}"


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
    worker: WorkerOptions

    def manifests(self, profile: Path, job: Path, with_secret: Path | None) -> list[Manifest]:
        """The objects, in the order in which they are applied.

        Parameters
        ----------
        profile, job : the files that the run in the pod reads
        with_secret : the folder of certificates to put into a secret; None: that is there already
        """
        files = {profile.name: profile.read_text(), job.name: job.read_text()}
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
        where = ["--local-directory", self.worker.scratch or "/tmp"]
        given = [self.address, *size, *end, *where, *self._tls()]
        return [self._python, "-m", "dask", "worker", *given]

    @property
    def _python(self) -> str:
        return self.worker.python or "python"

    def _tls(self) -> list[str]:
        options = ("--tls-ca-file", "--tls-cert", "--tls-key")
        pairs = zip(options, FILES, strict=True)
        return [text for name, file in pairs for text in (name, f"{self.certificates}/{file}")]

    def _object(self, version: str, kind: str, name: str, **parts: Any) -> Manifest:
        about = {"name": name, "namespace": self.namespace, "labels": {"app": self.name}}
        return {"apiVersion": version, "kind": kind, "metadata": about, **parts}

    def _service(self) -> Manifest:
        spec = {
            "selector": {"app": self.name, "part": "run"},
            "ports": [{"name": "tls", "port": PORT, "targetPort": PORT}],
            "publishNotReadyAddresses": True,
        }
        return self._object("v1", "Service", f"{self.name}-scheduler", spec=spec)

    def _run(self, profile: Path, job: Path) -> Manifest:
        """The Job of the run; a pod that is lost is made anew, and goes on where it was."""
        command = ["dshap", "run", f"{JOBS}/{job.name}", "--cluster", profile.stem, "--log", "json"]
        scheduler = self._container("scheduler", self.scheduler_command())
        files = [
            {"name": "files", "mountPath": f"{PROFILES}/{profile.name}", "subPath": profile.name},
            {"name": "files", "mountPath": f"{JOBS}/{job.name}", "subPath": job.name},
        ]
        run = self._container("run", command, files)
        on_exit = {"containerName": "run", "operator": "In", "values": FINAL}
        pod = self._pod("run", "Never", [run])
        pod["spec"]["initContainers"] = [{**scheduler, "restartPolicy": "Always"}]
        pod["spec"]["volumes"].append({"name": "files", "configMap": {"name": self.name}})
        spec = {
            "backoffLimit": 3,
            "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": on_exit}]},
            "template": pod,
        }
        return self._object("batch/v1", "Job", f"{self.name}-run", spec=spec)

    def _workers(self) -> Manifest:
        """The Indexed Job of the workers."""
        size = {"cpu": str(self.worker.cores)}
        if self.worker.process_memory is not None:
            size["memory"] = str(self.worker.process_memory * self.worker.n_processes)
        container = self._container("worker", self.worker_command())
        container["resources"] = {"requests": size, "limits": size}
        spec = {
            "completionMode": "Indexed",
            "completions": self.workers,
            "parallelism": self.workers,
            "backoffLimit": 10 * self.workers,
            "template": self._pod("worker", "OnFailure", [container]),
        }
        return self._object("batch/v1", "Job", f"{self.name}-workers", spec=spec)

    def _container(
        self, name: str, command: list[str], files: list[dict[str, str]] | None = None
    ) -> dict[str, Any]:
        """A container that sees the certificates and the volumes, and no more than it needs."""
        variables = {**QUIET_PAGES, **(self.worker.environment or {})}
        claims = [
            {"name": claim, "mountPath": path} for path, claim in sorted(self.volumes.items())
        ]
        tls = {"name": "tls", "mountPath": self.certificates, "readOnly": True}
        return {
            "name": name,
            "image": self.image,
            "command": command,
            "env": [{"name": key, "value": value} for key, value in variables.items()],
            "volumeMounts": [tls, *claims, *(files or [])],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }

    def _pod(self, part: str, restarts: str, containers: list[dict[str, Any]]) -> Manifest:
        claims = [
            {"name": claim, "persistentVolumeClaim": {"claimName": claim}}
            for claim in sorted(set(self.volumes.values()))
        ]
        tls = {"name": "tls", "secret": {"secretName": self.secret, "defaultMode": 0o440}}
        return {
            "metadata": {"labels": {"app": self.name, "part": part}},
            "spec": {
                "restartPolicy": restarts,
                "automountServiceAccountToken": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": USER_ID,
                    "fsGroup": USER_ID,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": containers,
                "volumes": [tls, *claims],
            },
        }


def as_yaml(objects: list[Manifest]) -> str:
    """The objects as one file for `kubectl apply -f`."""
    return yaml.safe_dump_all(objects, sort_keys=False, width=100)
