"""The jobs whose sinks and pages an erasure searches: a job that is given, and those of all runs.

Each run of a store has recorded its job with the values of its target, so that the tables and pages
of every target are found.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dshap.core.errors import DshapError, InputError
from dshap.core.places import Place, place_of
from dshap.history.run_folders import runs_in_store
from dshap.history.run_record import EarlierRuns, RunRecord, read_record
from dshap.jobfile.reading import read_job_file, targets_in
from dshap.jobfile.schema import Job
from dshap.seals.signing_keys import SigningKey
from dshap.seals.stored_job import StoredJob
from dshap.sinks import Sink
from dshap.steps.sealing import key_of_job
from dshap.steps.sink_targets import sink_in

NOT_NEEDED = ("cluster", "worker", "notify")
"""The tables of a job that name no place with rows."""
OF_PLACES = ("job.", "sink.", "report.", "seal.")
"""The beginnings of texts of --set that change such places, or the key."""


@dataclass(frozen=True)
class ReachedJobs:
    """The jobs of a store."""

    given: Job | None = None
    """The job of a file: of --job, or the one that the last run was started with, as it is now."""
    of_runs: Mapping[str, Job] = field(default_factory=dict)
    """Run -> its job as it was recorded; the newest first.  Runs of the same job have one object."""
    unread_pages: frozenset[Path] = frozenset()
    """The pages of jobs that could not be read."""

    @property
    def jobs(self) -> list[Job]:
        """Each job once: the given one, then those of runs, the newest first."""
        found: list[Job] = []
        for job in (self.given, *self.of_runs.values()):
            if job is not None and not any(job is each for each in found):
                found.append(job)
        return found

    def of_run(self, run_id: str) -> Job | None:
        """The job of a run, or the given job if the run has recorded none that can be read."""
        return self.of_runs.get(run_id, self.given)

    def sinks(self, loaded: set[str]) -> Iterator[tuple[Job, str, Sink]]:
        """(job, name, sink) of each place once.

        Parameters
        ----------
        loaded : set of str
            The addresses that runs have loaded; recorded jobs are searched only for these.
        """
        seen: set[str] = set()
        for job in self.jobs:
            for table in job.sink:
                sink = sink_in(job, table)
                place = sink.describe()
                if place not in seen and (job is self.given or place in loaded):
                    seen.add(place)
                    yield job, table.name or sink.label, sink

    def pages(self) -> Iterator[tuple[Path, Job]]:
        """Each page once, with the job that wrote it last."""
        seen: set[Path] = set()
        for job in self.jobs:
            if job.report.page:
                page = Path(job.report.page)
                if page not in seen:
                    seen.add(page)
                    yield page, job

    def keys(self) -> list[SigningKey]:
        """The keys of the jobs that can be read here, the given one's first."""
        found: list[SigningKey] = []
        for job in self.jobs:
            # a key that cannot be read here: `keys_of_seals` reports the runs that need it
            with contextlib.suppress(DshapError):
                key = key_of_job(job)
                if key is not None and key.public not in [each.public for each in found]:
                    found.append(key)
        return found


def jobs_of_store(store: Place, job_file: str | None, target: str) -> ReachedJobs:
    """The jobs whose places an erasure reaches.

    Parameters
    ----------
    store : Place
    job_file : str, optional
        The job file that is given; left out, the one that the last run was started with, where it
        is there.
    target : str
        The target of the file; empty for none, and if `job_file` is left out for that of the run.

    Raises
    ------
    InputError
        The file, or its target, is of another store; or a target without a file.
    """
    last = next((each for each in EarlierRuns(store) if each.is_over), None)
    if job_file is None and target:
        job_file = _file_of(last)
        if job_file is None:
            raise InputError(f"--target {target}: give the job file that defines it, with --job")
    given: Job | None = None
    if job_file is not None:
        given = _given_job(store, job_file, target)
    elif last is not None:
        given = _job_of_command(store, last)
    reader = _RecordedJobs(store)
    runs = [run.run_id for run in reversed(runs_in_store(store))]
    of_runs = {run_id: job for run_id in runs if (job := reader.job(run_id)) is not None}
    return ReachedJobs(given, of_runs, frozenset(reader.unread_pages))


def _file_of(record: RunRecord | None) -> str | None:
    """The job file that a run was started with."""
    if record is None:
        return None
    return str(_arguments(record).get("job_file") or "") or None


def _arguments(record: RunRecord) -> Mapping[str, Any]:
    """The arguments of the command of a run."""
    return dict((record.content or {}).get("args", {}))


def _given_job(store: Place, job_file: str, target: str) -> Job:
    """The job of a file that is given.

    Raises
    ------
    InputError
        It is of another store.
    """
    job = read_job_file(job_file, target=target)
    if _is_same(place_of(job.job.store), store):
        return job
    said = job_file
    if target:
        said += f" with --target {target}"
    remedy = "give the job of this store"
    for each in targets_in(job_file):
        if _has_store(job_file, each, store):
            remedy = f"give --target {each}"
            break
    raise InputError(f"{said} has the store {job.job.store}, not {store}: {remedy}")


def _has_store(job_file: str, target: str, store: Place) -> bool:
    """Whether a target of a job file has this store."""
    with contextlib.suppress(DshapError):
        return _is_same(place_of(read_job_file(job_file, target=target).job.store), store)
    return False


def _job_of_command(store: Place, record: RunRecord) -> Job | None:
    """The job of the command of a run, from its file as it is now; None if it is of no use."""
    arguments = _arguments(record)
    file = _file_of(record)
    if file is None:
        return None
    settings = [str(each) for each in arguments.get("set") or ()]
    with contextlib.suppress(DshapError, OSError):
        job = read_job_file(file, settings, target=str(arguments.get("target") or ""))
        if _is_same(place_of(job.job.store), store):
            return job
    return None


def _is_same(one: Place, other: Place) -> bool:
    """Whether two places are one, after following links."""
    return one.resolve() == other.resolve()


@dataclass
class _RecordedJobs:
    """The jobs that runs have recorded: those that are alike are read once."""

    store: Place
    known: dict[str, Job | None] = field(default_factory=dict)
    unread_pages: set[Path] = field(default_factory=set)

    def job(self, run_id: str) -> Job | None:
        """The job of a run; None if it cannot be read here, or is that of another store."""
        try:
            stored = StoredJob.read(self.store, run_id)
        except InputError:  # of a version that recorded none, or damaged, which `attest` reports
            return None
        alike = _what_matters(stored)
        if alike not in self.known:
            self.known[alike] = self._read(stored, run_id)
        return self.known[alike]

    def _read(self, stored: StoredJob, run_id: str) -> Job | None:
        try:
            job = stored.job(None, without=NOT_NEEDED)
        except (DshapError, OSError):
            return self._from_its_file(stored, run_id)
        if _is_same(place_of(job.job.store), self.store):
            return job
        return None  # a copy of a store: its sinks are those of the first one

    def _from_its_file(self, stored: StoredJob, run_id: str) -> Job | None:
        """The job from its file, where the recorded one lacks a secret, or a file that it names."""
        record = read_record(self.store, run_id)
        job = None
        if record is not None:
            job = _job_of_command(self.store, record)
        page = stored.tables.get("report", {}).get("page")
        if job is None and page:
            self.unread_pages.add(Path(stored.folder) / str(page))
        return job


def _what_matters(stored: StoredJob) -> str:
    """A recorded job without texts of --set on other things, such as the table of one night."""
    settings = [each for each in stored.settings if each.strip().startswith(OF_PLACES)]
    return json.dumps([stored.folder, stored.tables, settings], sort_keys=True)
