"""The tables [cluster] and [worker] of a job file, which a profile of a cluster has too."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from dshap.core.addresses import masked
from dshap.core.options import RULES, WAIT_S
from dshap.engine.clusters.installed import is_installed
from dshap.engine.clusters.jobqueue import CLASSES as QUEUES
from dshap.engine.clusters.jobqueue import check_queue_options
from dshap.engine.clusters.kubernetes import TLS_FOLDER, Pods, service_address
from dshap.engine.clusters.ssh import check_connect_options
from dshap.engine.clusters.worker import WorkerOptions, seconds_of_walltime
from dshap.jobfile.fields import (
    Count,
    Memory,
    NotEmpty,
    Unfilled,
    options_of,
    table_like,
    type_of,
    unchanged,
)
from dshap.jobfile.kinds import ConstructedArgument, Kinds, KindTable, Table, record_of
from dshap.jobfile.paths import Address, FilePath, FolderPath, ProfilePath
from dshap.jobfile.pod_fields import (
    Annotations,
    Labels,
    NodeLabels,
    ObjectName,
    ObjectNames,
    PodName,
    PodResources,
    Tolerations,
)

IN_SCRIPTS = (
    "env_var is not filled in here, because its value would be written into the scripts and "
    "manifests that start workers: set the variable where the workers run"
)
HostNames = Annotated[tuple[NotEmpty, ...], Field(min_length=1, strict=False)]


class _Worker(Table):
    """The checks of [worker] that need several keys."""

    @model_validator(mode="after")
    def _check(self) -> _Worker:
        WorkerOptions(**dict(self))
        return self


_TYPES: Mapping[str, Any] = {
    "cores": Count,
    "memory": Memory,
    "threads": Count,
    "walltime": Annotated[str, AfterValidator(unchanged(seconds_of_walltime))],
    "scratch": NotEmpty,
    "environment": Annotated[dict[str, str], table_like('{ LC_ALL = "C" }'), Unfilled(IN_SCRIPTS)],
    "python": NotEmpty,
    "ephemeral_storage": Memory,
}
"""Key of [worker] -> its type."""
WorkerTable: Any = record_of("WorkerTable", (_Worker,), options_of(WorkerOptions, types=_TYPES))
"""The table [worker]; see `dshap.engine.clusters.worker.WorkerOptions`."""


@dataclass(frozen=True)
class ClusterSite:
    """The parts of a run that its cluster is made with, beside the table [cluster]."""

    worker: Table
    """The table [worker]."""
    new_folder: Callable[[], Path]
    """Makes a private folder that workers see, and that goes with the run."""
    say: Callable[[str], None]
    """Shows a line about hosts that are missing."""


PARTS = {
    "worker": ConstructedArgument(lambda table, site: WorkerOptions(**dict(site.worker))),
    "new_folder": ConstructedArgument(lambda table, site: site.new_folder),
    "say": ConstructedArgument(lambda table, site: site.say),
}
"""Argument of a kind of cluster -> how it is made of a `ClusterSite`."""


SIZE = ("cores", "memory", "threads")
"""Keys of [worker] that every kind uses: plans are checked against the size of a worker."""
SURROUNDINGS = ("scratch", "environment", "python")
"""Keys of [worker] that kinds use whose workers are started by a command of dshap."""


class NoCluster(KindTable):
    """The table [cluster] of kind "none": this process."""

    worker_keys: ClassVar[Collection[str]] = tuple(_TYPES)
    """The keys of [worker] that this kind uses; here they wait for the cluster of --cluster."""
    has_workers: ClassVar[bool] = False
    """Whether there are workers, which a run needs to wait for."""
    has_manifest: ClassVar[bool] = False
    """Whether `dshap cluster manifest` prints its objects."""

    profile: ProfilePath | None = None
    """The name of the profile, or the path of its file, that the other keys come from."""


class ClusterTable(NoCluster):
    """The table [cluster] of any kind but "none"."""

    worker_keys: ClassVar[Collection[str]] = SIZE
    has_workers: ClassVar[bool] = True
    wait: type_of(RULES["wait"]) = WAIT_S  # type: ignore[valid-type]
    """How many seconds a run waits while the cluster has no worker; `dshap run --wait` replaces
    it."""

    def of_one_worker(self) -> ClusterTable:
        """Copy the table with one worker in place of its number."""
        one = {"workers": 1, "minimum": None, "maximum": None}
        there = type(self).model_fields
        return self.model_copy(update={key: one[key] for key in one if key in there})


class SizedTable(ClusterTable):
    """The keys of clusters that a job starts with so many workers."""

    workers: Count | None = None
    """The number of workers."""
    memory_limit: Memory | None = None
    """The memory of one process; the default is [worker] memory."""


class GrowingTable(ClusterTable):
    """The keys of clusters whose number of workers may depend on the number of waiting tasks."""

    minimum: Annotated[int, Field(ge=0)] | None = None
    """The smallest number of workers, 0 by default; it needs `maximum`."""
    maximum: Count | None = None
    """The largest number of workers, which then start and end with the number of waiting tasks."""

    @model_validator(mode="after")
    def _check_bounds(self) -> GrowingTable:
        if self.maximum is None:
            if self.minimum is not None:
                raise ValueError(f"minimum = {self.minimum} needs maximum: give both")
            return self
        if self.minimum is not None and self.minimum > self.maximum:
            raise ValueError(
                f"minimum = {self.minimum} is more than maximum = {self.maximum}: give at most that"
            )
        for name in ("workers", "cluster"):
            if name in self.model_fields_set:
                raise ValueError(
                    f"maximum = {self.maximum} lets the number of workers follow the tasks, and "
                    f"{name} is given too: leave one of them out"
                )
        return self


class LocalTable(SizedTable, GrowingTable):
    """The table [cluster] of kind "local"."""

    worker_keys: ClassVar[Collection[str]] = (*SIZE, "environment")
    threads: Count | None = None
    """The threads of one process; the default is [worker] threads."""


class PythonTable(SizedTable):
    """The table [cluster] of kind "python"."""

    file: FilePath
    """The path of a Python file with client(workers, memory_limit)."""


class TlsTable(ClusterTable):
    """The keys of clusters whose connections are encrypted."""

    certificates: FolderPath | None = None
    """The folder of ca.pem, cert.pem and key.pem, which `dshap cluster certificates` makes."""


class QueueTable(TlsTable, GrowingTable):
    """The table [cluster] of a queue: "slurm", "pbs", "sge" or "lsf"."""

    worker_keys: ClassVar[Collection[str]] = (*SIZE, *SURROUNDINGS, "walltime")
    workers: Count = 1
    """The number of jobs, one worker each."""
    jobqueue: dict[str, Any] | None = None
    """The table [cluster.jobqueue]: options of dask-jobqueue by its own names, such as queue,
    account, interface, log_directory or job_extra_directives."""

    @model_validator(mode="after")
    def _check(self) -> QueueTable:
        if is_installed(self.kind):
            check_queue_options(self.kind, self.jobqueue or {})
        return self


class SshTable(ClusterTable):
    """The table [cluster] of kind "ssh"."""

    worker_keys: ClassVar[Collection[str]] = (*SIZE, *SURROUNDINGS)
    hosts: HostNames
    """The hosts, like "node1" or "user@node1:2222", one worker each."""
    certificates: FolderPath
    """The folder of ca.pem, cert.pem and key.pem, under the same path on all hosts."""
    host: NotEmpty | None = None
    """The address at which the hosts reach this machine, if it is not that of its name."""
    connect: dict[str, Any] | None = None
    """The table [cluster.connect]: options of asyncssh by its own names, such as client_keys."""

    def of_one_worker(self) -> SshTable:
        return self.model_copy(update={"hosts": self.hosts[:1]})

    @model_validator(mode="after")
    def _check(self) -> SshTable:
        if is_installed(self.kind):
            check_connect_options(self.connect or {})
        return self


WEEK_S = 7 * 24 * 3600
_OF_POD = r"tls://([^/\s:\[\]]+|\[[^\s\]]+\])(:\d+)?"
"""The address of a scheduler that pods reach."""


class PodsTable(ClusterTable):
    """The table [cluster] of kind "kubernetes"."""

    worker_keys: ClassVar[Collection[str]] = (*SIZE, *SURROUNDINGS, "ephemeral_storage")
    has_manifest: ClassVar[bool] = True
    image: NotEmpty
    """The container image with dshap, the model and its packages."""
    workers: Count = 2
    """The number of pods, one worker each."""
    name: PodName = "dshap"
    """The beginning of the names of all objects."""
    namespace: PodName = "default"
    secret: ObjectName = "dshap-tls"
    """The secret with ca.pem, cert.pem and key.pem."""
    certificates: FolderPath = TLS_FOLDER
    """The folder in which a pod sees the files of the secret."""
    address: Address | None = None
    """The address of the scheduler, if it is not that of its service."""
    volumes: dict[str, PodName] = Field(default={})
    """Path in a pod -> persistent volume claim, as in { "/data" = "shared" }."""
    credentials: ObjectName | None = None
    """A secret whose entries are variables of all containers, such as AWS_ACCESS_KEY_ID."""
    service_account: ObjectName | None = None
    """The service account of the pods, for example if its role gives access to a bucket."""
    image_pull_secrets: ObjectNames = ()
    """The secrets by which nodes pull the image from a private registry."""
    node_selector: NodeLabels = Field(default={})
    """The labels that a node must have to run a pod, as in { pool = "batch" }."""
    tolerations: Tolerations = ()
    """The taints of nodes on which pods may run nevertheless, with the keys of Kubernetes."""
    priority_class: ObjectName | None = None
    """The priority class of the pods."""
    labels: Labels = Field(default={})
    """Labels of all objects and pods, beside those of dshap."""
    annotations: Annotations = Field(default={})
    """Annotations of all objects and pods."""
    resources: PodResources = PodResources()
    """The table [cluster.resources]: requests and limits of containers, if not the defaults."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0)] = WEEK_S
    """The seconds after which a Job that has ended is deleted, with its pods and their logs."""

    @model_validator(mode="after")
    def _check(self) -> PodsTable:
        if self.address is not None and not re.fullmatch(_OF_POD, self.address):
            raise ValueError(f'address = "{masked(self.address)}": give one like "tls://HOST:8786"')
        return self

    def pods(self, worker: WorkerOptions) -> Pods:
        """The pods of a run."""
        address = self.address or service_address(self.name, self.namespace)
        given = {name: getattr(self, name) for name in _OF_PODS}
        tolerations = [each.model_dump(exclude_none=True) for each in self.tolerations]
        resources = self.resources.model_dump(exclude_defaults=True)
        return Pods(
            **given, tolerations=tolerations, resources=resources, address=address, worker=worker
        )


class GatewayTable(GrowingTable):
    """The table [cluster] of kind "gateway".

    Keys that are left out are read from dask-gateway's own configuration.
    """

    workers: Count = 1
    """The number of workers."""
    address: Address | None = None
    """The address of the gateway, like "https://gateway.example"."""
    auth: Literal["basic", "kerberos", "jupyterhub"] | None = None
    """How to log in; dask-gateway reads passwords and tokens from the environment."""
    cluster: NotEmpty | None = None
    """The name of a cluster that runs already, and stays after the run."""
    gateway: dict[str, Any] | None = None
    """The table [cluster.gateway]: the options that the gateway offers for a new cluster."""


_OF_PODS = (
    "image",
    "name",
    "namespace",
    "workers",
    "secret",
    "certificates",
    "volumes",
    "credentials",
    "service_account",
    "image_pull_secrets",
    "node_selector",
    "priority_class",
    "labels",
    "annotations",
    "ttl_seconds_after_finished",
    "wait",
)
"""The keys that `Pods` has as they are."""


class SchedulerTable(TlsTable):
    """The table [cluster] of kind "scheduler"."""

    address: Address
    """The address of the scheduler, like "tls://10.0.0.5:8786"."""
    security: Literal["tls", "none"] = "tls"
    """ "none" allows an address of a different machine without encryption, like
    "tcp://10.0.0.5:8786"."""


_ROOM = "dshap.engine.clusters"
CLUSTERS = Kinds(
    "kind",
    {
        "local": f"{_ROOM}.local:local_workers",
        "python": f"{_ROOM}.python_file:client_of_file",
        "scheduler": f"{_ROOM}.scheduler:at_scheduler",
        **dict.fromkeys(QUEUES, f"{_ROOM}.jobqueue:queue_client"),
        "ssh": f"{_ROOM}.ssh:ssh_client",
        "kubernetes": f"{_ROOM}.kubernetes:at_pods",
        "gateway": f"{_ROOM}.gateway:gateway_client",
        "none": NoCluster,
    },
    ClusterTable,
    parts=PARTS,
    bases={
        "local": LocalTable,
        "python": PythonTable,
        "scheduler": SchedulerTable,
        **dict.fromkeys(QUEUES, QueueTable),
        "ssh": SshTable,
        "kubernetes": PodsTable,
        "gateway": GatewayTable,
    },
)


def refuse_unused(cluster: NoCluster, worker: Table) -> None:
    """Raise a ValueError for a key of [worker] that this kind of cluster does not use."""
    for name in type(worker).model_fields:
        if name in worker.model_fields_set and name not in cluster.worker_keys:
            kinds = [
                f'"{kind}"'
                for kind, record in CLUSTERS.records.items()
                if kind != "none" and name in record.worker_keys
            ]
            raise ValueError(
                f'[worker] {name} is not used by [cluster] kind = "{cluster.kind}": leave it out; '
                f"kinds that take it: {', '.join(kinds)}"
            )


class ClusterProfile(Table):
    """A checked profile: the tables of a cluster alone."""

    cluster: Annotated[Any, BeforeValidator(CLUSTERS)]
    worker: WorkerTable = WorkerTable()

    @model_validator(mode="after")
    def _check(self) -> ClusterProfile:
        refuse_unused(self.cluster, self.worker)
        return self
