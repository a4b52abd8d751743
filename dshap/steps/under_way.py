"""A run in progress: its job, its folders, and the results of its steps so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from dshap.core.places import Place
from dshap.history.key_joins import KeyJoins
from dshap.history.run_folders import RunAbout, RunFolders
from dshap.history.run_record import KeyCounts, RunFacts
from dshap.history.stages import StageRecorder
from dshap.jobfile.listing import shown_setting
from dshap.jobfile.schema import Job
from dshap.models import FitReport
from dshap.run.session import Session
from dshap.seals.statement import Resource
from dshap.steps.results import ExplanationResult, JobResult
from dshap.steps.scope import WHOLE, Scope
from dshap.warehouse.snapshot import Snapshot


@dataclass(frozen=True)
class Command:
    """The options of the command that starts a run: date, part of the run, target and others."""

    job_file: str
    settings: tuple[str, ...] = ()
    as_of: date | None = None
    reread: bool = False
    wait_s: float | None = None
    scope: Scope = WHOLE
    """The part of the run that it does, such as a shard."""
    cluster: str | None = None
    performance: Path | None = None
    """The path of the performance report of the cluster that it writes; None for none."""
    accept: str = ""
    """The run whose failed checks are accepted; empty for none."""
    backfill: bool = False
    """Whether the run is for an earlier date than the last one."""
    own_processes: bool = False
    """Whether it may start worker processes on the cores of this machine.  Only the command line
    sets it: such processes import the script that starts them."""
    target: str = ""
    """The target of the job file, such as "dev" for [targets.dev]; empty for none."""
    n_sample: int | None = None
    """The number of rows of a sample; None for a run of the job itself."""

    @property
    def day(self) -> date:
        """The date of a run that begins now: the date of the command, or today in UTC."""
        return self.as_of or datetime.now(UTC).date()

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments in the form of dbt's run_results.json."""
        return {
            "which": "run",
            "job_file": self.job_file,
            "set": [shown_setting(each) for each in self.settings],
            "as_of": self.as_of,
            "reread": self.reread,
            "wait": self.wait_s,
            "cluster": self.cluster,
            "target": self.target or None,
            "sample": self.n_sample,
            "accept": self.accept or None,
            "backfill": self.backfill,
            **self.scope.arguments,
        }


@dataclass
class RunUnderWay:
    """A run in progress, and the results of its steps so far."""

    job: Job
    """The job as its file has it."""
    folders: RunFolders
    session: Session
    progress: StageRecorder
    command: Command
    joins: KeyJoins
    """The comparisons of its rows with the rows of earlier runs."""
    facts: RunFacts
    """The facts of its record, as far as they are known."""
    rows: Job
    """The job with its table replaced: by parts, or by one version of a table."""
    snapshot: Snapshot | None = None
    """The record of the rows that were read; None if the table is read in place, without a contract
    or limits of its age."""
    changes: KeyCounts | None = None
    """The keys that are new, changed, unchanged and deleted; None without [incremental]."""
    of_methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """explanation -> the facts of its model and method; empty without [incremental]."""
    lost: dict[str, str] = field(default_factory=dict)
    """explanation -> why all rows are explained again, if files of the run before are damaged."""
    damaged: Mapping[str, int] = field(default_factory=dict)
    """explanation -> the number of unchanged rows that are explained again because their blocks are
    damaged."""
    results: dict[str, ExplanationResult] = field(default_factory=dict)
    """explanation -> its outcome."""
    report: FitReport | None = None
    """The report of the fit; None if the job fits no model."""
    is_empty: bool = False
    """Whether the table has no rows."""
    is_idle: bool = False
    """Whether no row has changed since the night before."""
    has_explained: bool = False
    """Whether this process has explained blocks of an earlier explanation."""
    sealed_loads: tuple[Resource, ...] = ()
    """The subjects of the loads of sinks in the statement of the run."""
    made: Path | None = None
    """The folder of this machine in which parts were made before they were sent to a bucket; None
    after its removal."""

    @property
    def store(self) -> Place:
        return self.folders.store

    @property
    def run_id(self) -> str:
        return self.folders.run_id

    @property
    def scope(self) -> Scope:
        return self.command.scope

    @property
    def trusts_files(self) -> bool:
        """Whether facts from an earlier run are used if the files have the same sizes and times."""
        return not self.command.reread

    @property
    def about(self) -> RunAbout:
        """The facts that the run began with."""
        about = self.folders.about
        assert about is not None, "a run begins with run.json"
        return about

    @property
    def as_of(self) -> date:
        """The date that replaces {as_of} in a query."""
        return self.folders.as_of or self.command.day

    @property
    def result(self) -> JobResult:
        """The outcome so far, in the order of the job."""
        found = tuple(
            self.results[each.name] for each in self.job.explain if each.name in self.results
        )
        return JobResult(
            self.store,
            found,
            self.report,
            tuple(self.progress.stages),
            self.is_empty,
            self.is_idle,
            self.scope,
        )

    def know(self, **facts: Any) -> None:
        """Add to the facts of its record."""
        self.facts = replace(self.facts, **facts)
