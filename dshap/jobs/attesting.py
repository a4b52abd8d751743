"""`dshap attest --verify`: checks the statements of a store, the store itself, and its sinks."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dshap.core.errors import DamagedError, DshapError, InputError, SinkError
from dshap.core.places import Place
from dshap.cube.blocks import CubeArrays
from dshap.history.key_joins import KeyJoins
from dshap.jobfile.reading import read_job_file
from dshap.jobfile.schema import Job
from dshap.jobs.verification import verify_job_store
from dshap.seals.attest_check import SealCheck, SealFault, check_seals, refuse_unsealed
from dshap.seals.attestations import read_envelope, sealed_runs
from dshap.seals.materials import attestation_file
from dshap.seals.sealed_loads import SealedLoad, loads_of
from dshap.seals.signing_keys import verifying_key
from dshap.seals.stored_job import StoredJob
from dshap.sinks import Sink
from dshap.steps.sink_targets import sink_in


@dataclass(frozen=True)
class AttestedSinks:
    """The job from which the sinks are taken, and whether they are compared at all."""

    job_file: str | None = None
    """The job file; None: the job that the run of each load has recorded."""
    settings: tuple[str, ...] = ()
    are_checked: bool = True
    target: str = ""
    """The target of the job file."""


@dataclass
class StoreCheck:
    """The outcome of a check of a store and its sinks."""

    seals: SealCheck
    unchecked: list[str] = field(default_factory=list)
    """Why sinks could not be compared, in words."""

    def refuse_faults(self) -> None:
        """Raise an error if something differs, or could not be compared."""
        self.seals.refuse_faults()
        if self.unchecked:
            raise SinkError("; ".join(self.unchecked))


def attest_store(
    store: Place, key: str | None, run_id: str, sinks: AttestedSinks, since: str = ""
) -> StoreCheck:
    """Check the statements of a store, all its contents, and the tables of its sinks.

    Parameters
    ----------
    store : Place
    key : str or None
        The public or private key, as PEM text or a path; None: the keys that the statements name.
    run_id : str
        The run whose statement is checked; empty for all runs.
    sinks : AttestedSinks
    since : str
        The run, or the day, from which on statements must be signed with the key; empty for all.

    Raises
    ------
    InputError
        There is no statement or no such run, or the key is not valid.
    """
    if sinks.job_file is None:
        refuse_target_alone(sinks.target)
    given = None if key is None else verifying_key(key, "--key")
    if since and key is None:
        raise InputError(
            f"--since {since} is the first run whose signature --key must fit: give --key too"
        )
    found = check_seals(store, given, run_id, since)
    damaged = verify_job_store(store)
    for part, damages in damaged.items():
        found.faults += [SealFault("", part, str(each)) for each in damages]
    check = StoreCheck(found)
    if sinks.are_checked and not found.faults:
        _check_sinks(check, store, sinks)
    return check


def _check_sinks(check: StoreCheck, store: Place, sinks: AttestedSinks) -> None:
    """Compare the lines of the last load of each sink, and its table with them."""
    jobs = _JobsOfLoads(store, sinks)
    with tempfile.TemporaryDirectory(prefix="dshap-keys-") as folder:
        joins = KeyJoins(partial(tempfile.mkdtemp, dir=folder))
        for name, sealed in _last_loads(store).items():
            try:
                job = jobs.of(sealed.run_id)
                for fault in _faults(job, _sink_named(job, name), sealed, joins):
                    check.seals.faults.append(SealFault(sealed.run_id, f"sink {name}", fault))
            except DshapError as error:
                check.unchecked.append(f"sink {name} was not compared: {error}")


@dataclass
class _JobsOfLoads:
    """The jobs with the sinks: a given job, or the job that each run has recorded."""

    store: Place
    sinks: AttestedSinks
    known: dict[str, Job] = field(default_factory=dict)
    """Run, or file -> its job."""

    def of(self, run_id: str) -> Job:
        """The job with the sink that a run has loaded."""
        sinks = self.sinks
        if sinks.job_file is not None:
            return self._given(sinks.job_file)
        if run_id not in self.known:
            stored = StoredJob.read(self.store, run_id)
            self.known[run_id] = stored.job(self.store, sinks.settings)
        return self.known[run_id]

    def _given(self, job_file: str) -> Job:
        """The job of a file."""
        if job_file not in self.known:
            sinks = self.sinks
            self.known[job_file] = read_job_file(job_file, sinks.settings, target=sinks.target)
        return self.known[job_file]


def refuse_target_alone(target: str) -> None:
    """Raise an `InputError` for a target without its job file."""
    if target:
        raise InputError(
            f"--target {target} belongs to a job file: give --job JOB.toml too, or leave it out: the "
            "job that each run has recorded has the values of its target"
        )


def _sink_named(job: Job, name: str) -> Sink:
    for table in job.sink:
        sink = sink_in(job, table)
        if name == (table.name or sink.label):
            return sink
    raise InputError("the job has no such [[sink]]")


def _last_loads(store: Place) -> dict[str, SealedLoad]:
    """Sink -> the load that came last, as the statement of its run names it."""
    found = {}
    for run_id in sealed_runs(store):
        with contextlib.suppress(ValueError):
            for load in loads_of(store, run_id):
                if not load.is_of_backfill:
                    found[load.name] = load
    return found


def _faults(job: Job, sink: Sink, sealed: SealedLoad, joins: KeyJoins) -> Iterator[str]:
    """How a load, and the table that it filled, differ from the sealed ones."""
    if not sealed.is_there:
        return
    history = sealed.history(joins)
    found = sealed.digest(sink, history)
    if found is not None and found[0] != sealed.subject.sha256:
        yield "the lines that its last load wrote are not what was sealed"
    yield from sink.differences(CubeArrays(sealed.cube), history, job.job.name, sealed.last)


def newest_sealed(store: Place) -> str:
    """The newest run of a store with a statement; an `InputError` if none has one."""
    sealed = sealed_runs(store)
    refuse_unsealed(store, sealed, "")
    return sealed[-1]


def statements_of(store: Place, run_id: str = "") -> tuple[list[str], dict[str, Any]]:
    """A line about the statement of each run, or of one; and the statements for JSON.

    Raises
    ------
    InputError
        There is no statement, or none of this run.
    DamagedError
        A statement cannot be read.
    """
    sealed = sealed_runs(store)
    refuse_unsealed(store, sealed, run_id)
    lines = []
    statements = {}
    for each in sealed:
        if run_id not in ("", each):
            continue
        try:
            envelope = read_envelope(store, each)
        except ValueError as error:
            raise DamagedError(f"{store / attestation_file(each)} is damaged: {error}") from error
        assert envelope is not None, "it is listed"
        statements[each] = envelope.statement
        signed = "not signed"
        if envelope.is_signed:
            signed = f"signed with the key {next(iter(envelope.signatures))[:12]}"
        given = envelope.statement["predicate"]["buildDefinition"]["resolvedDependencies"]
        n_subjects = len(envelope.statement["subject"])
        lines.append(
            f"{each}: {n_subjects:,} digests of what it made, {len(given):,} of what it was made "
            f"from; {signed}"
        )
    return lines, {"statements": statements}
