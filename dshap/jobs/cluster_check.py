"""`dshap cluster check`: starts one worker of a profile, inspects it, and ends it."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dshap.core.addresses import scheme_of
from dshap.core.errors import InputError
from dshap.core.processors import processor
from dshap.engine import format_bytes, shut_down
from dshap.engine.clients import await_workers
from dshap.engine.clusters.inspection import (
    differing,
    processors_of_workers,
    round_trip_s,
    unseen_by_workers,
    versions_here,
    versions_of_workers,
)
from dshap.engine.clusters.installed import require_kind
from dshap.engine.clusters.worker import WorkerOptions
from dshap.jobfile.cluster_tables import ClusterSite
from dshap.jobfile.reading import read_cluster, read_job_file
from dshap.jobfile.schema import Job
from dshap.steps.seen_places import probed_places


@dataclass(frozen=True)
class ClusterCheck:
    """The result of `dshap cluster check`: facts about one worker of a cluster."""

    profile: str
    kind: str
    address: str
    """The address of the worker."""
    n_workers: int
    """The number of workers that the scheduler has."""
    threads: int
    memory_limit: int | None
    """The bytes of one process; None if it has no limit."""
    start_s: float
    """The seconds until the worker had connected."""
    round_trip_s: float
    """The seconds between sending a task that does nothing and receiving its result."""
    versions_here: dict[str, str]
    versions_there: dict[str, str]
    processor_here: str
    processor_there: str
    """The processor of the worker; empty if its versions differ, as it is not asked then."""
    seen: dict[str, bool]
    """Noun -> whether the worker sees it: the store or its folder, scratch, and the table."""
    unseen: dict[str, str]
    """Noun -> the reason why the worker does not see it, in words; empty for a path."""
    lifetime_s: int | None
    """The seconds after which a worker ends itself; None if it has no walltime."""

    def __str__(self) -> str:
        limit = "no limit" if self.memory_limit is None else format_bytes(self.memory_limit)
        lines = [
            f"profile {self.profile}, kind {self.kind}",
            f"worker {self.address} ({self.n_workers} in all), ready after {self.start_s:.1f} s",
            f"  threads {self.threads}, memory {limit}",
        ]
        if self.lifetime_s is not None:
            lines.append(f"  ends itself after {self.lifetime_s} s, its walltime less five minutes")
        lines += [f"  answers in {1000 * self.round_trip_s:.1f} ms", ""]
        lines.append(f"{'':<12} {'here':<12} {'worker':<12}")
        for name, here in self.versions_here.items():
            there = self.versions_there[name]
            note = "" if here == there else "differs"
            lines.append(f"{name:<12} {here:<12} {there:<12} {note}".rstrip())
        lines += self._processor_lines()
        lines += [
            f"the {noun}: {'seen' if is_seen else 'not seen'} by the worker"
            for noun, is_seen in self.seen.items()
        ]
        return "\n".join(lines)

    def _processor_lines(self) -> list[str]:
        """The processors of both sides; another one is no fault."""
        if self.processor_here == self.processor_there:
            return [f"processor, on both sides: {self.processor_here}"]
        lines = [
            f"processor here: {self.processor_here}",
            f"processor of the worker: {self.processor_there or 'not asked'}",
        ]
        if self.processor_there:
            lines.append("  the processors differ: the last digits of values may differ")
        return lines

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def refuse_faults(self) -> None:
        """Raise an `InputError` if a run on this cluster would be refused."""
        faults = [
            f"{name} is {self.versions_here[name]} here and {self.versions_there[name]} there"
            for name in differing(self.versions_here, self.versions_there)
        ]
        faults += [
            f"the {noun} is not seen by the worker{reason and ': '}{reason}"
            for noun, reason in self.unseen.items()
        ]
        if faults:
            raise InputError(f"profile {self.profile}: {'; '.join(faults)}")


def check_cluster(
    profile: str,
    job_file: str | None,
    wait_s: float | None,
    say: Callable[[str], None],
    target: str = "",
) -> ClusterCheck:
    """Start one worker of a cluster profile, check that it can run a job, and end it.

    Parameters
    ----------
    profile : the name of a profile, or the path of its file
    job_file : path of a job whose store and table the worker must be able to open; None: they are
        not checked
    wait_s : the seconds to wait for the worker; None: `wait` of [cluster]
    say : receives a line if the worker does not start within two seconds
    target : the name of a table [targets.NAME] of the job; empty for none

    Raises
    ------
    InputError
        No such profile, a cluster that does not start, or no worker of it.
    """
    if target and job_file is None:
        raise InputError(f"--target {target} is of a job: give --job too")
    if job_file is None:
        job = None
        cluster, worker = read_cluster(profile)
    else:
        job = read_job_file(job_file, cluster=profile, target=target)
        cluster = job.cluster
        worker = job.worker
    if not cluster.has_workers:
        raise InputError(f'profile {profile}: kind = "none" is this process: there is no worker')
    require_kind(cluster.kind)
    start = time.monotonic()
    with _folder_maker(job) as new_folder:
        client = cluster.of_one_worker().made(ClusterSite(worker, new_folder, say))
        try:
            await_workers(client, cluster.wait if wait_s is None else wait_s, say)
            start_s = time.monotonic() - start
            found = client.scheduler_info(n_workers=-1)["workers"]
            address = min(found)
            here = versions_here()
            there = versions_of_workers(client)[address]
            if differing(here, there):
                of_worker = ""
            else:
                of_worker = processors_of_workers(client)[address]
            return ClusterCheck(
                profile=profile,
                kind=cluster.kind,
                address=address,
                n_workers=len(found),
                threads=found[address]["nthreads"],
                memory_limit=found[address]["memory_limit"] or None,
                start_s=start_s,
                round_trip_s=round_trip_s(client),
                versions_here=here,
                versions_there=there,
                processor_here=processor(),
                processor_there=of_worker,
                **_looked_at(client, job),
                lifetime_s=WorkerOptions(**dict(worker)).lifetime_s,
            )
        finally:
            shut_down(client)


@contextlib.contextmanager
def _folder_maker(job: Job | None) -> Iterator[Callable[[], Path]]:
    """A function that makes a private folder beside the store of a job, removed at the end.

    Without a job, or with a store in a bucket, in the working directory.
    """
    above = Path.cwd()
    if job is not None and not scheme_of(job.job.store):
        store = Path(job.job.store)
        above = next(each for each in (store, *store.parents) if each.is_dir())
    with contextlib.ExitStack() as made:
        yield lambda: Path(
            made.enter_context(tempfile.TemporaryDirectory(prefix=".dshap-", dir=above))
        )


def _looked_at(client: Any, job: Job | None) -> dict[str, dict[str, Any]]:
    """The fields of a `ClusterCheck` on places of a job that workers see; none without a job."""
    if job is None:
        return {"seen": {}, "unseen": {}}
    with probed_places(job) as places:
        faults = unseen_by_workers(client, places)
    unseen = {noun: next(iter(each.values())) for noun, each in faults.items()}
    return {"seen": {noun: noun not in unseen for noun in places}, "unseen": unseen}
