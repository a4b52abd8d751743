"""The seal of a run: digests of its loads, and its statement, written before its record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dshap.core.environment import with_environment
from dshap.core.places import Place
from dshap.history.backfills import sink_of_backfill
from dshap.history.run_record import RunFacts, SinkFacts, as_record, record_bytes
from dshap.jobfile.schema import Job
from dshap.jobfile.sink_tables import SinkTable
from dshap.seals.attestations import MadeByRun, seal_run
from dshap.seals.signing_keys import SigningKey, signing_key
from dshap.seals.statement import Resource
from dshap.seals.stored_job import StoredJob
from dshap.seals.subjects import LoadToSeal, subject_of_sink
from dshap.sinks import Sink
from dshap.steps.job_cubes import JobCubes
from dshap.steps.scope import Phase
from dshap.steps.sink_targets import sink_in
from dshap.steps.step import Step
from dshap.steps.under_way import RunUnderWay

PLACE = "[seal] key"
"""The name of the key in messages."""


def key_of_job(job: Job) -> SigningKey | None:
    """The key with which the runs of a job are signed; None if the job names none.

    Raises
    ------
    InputError
        It is no private key of Ed25519.
    """
    if job.seal.key is None:
        return None
    return signing_key(with_environment(job.seal.key), PLACE)


@dataclass
class SealLoads(Step):
    """Digest the lines of each load, before the runs that they build on may be removed."""

    run: RunUnderWay
    cubes: JobCubes

    phase = Phase.EXPLAIN

    def do(self) -> None:
        self.run.sealed_loads = tuple(self._subjects())

    def _subjects(self) -> Iterator[Resource]:
        for table, facts in zip(self.run.job.sink, self.run.facts.sinks, strict=True):
            if facts.status == "success":
                yield self._subject(table, facts)

    def _subject(self, table: SinkTable, facts: SinkFacts) -> Resource:
        run = self.run
        sink: Sink | None = sink_in(run.job, table)
        cube = self.cubes.to_load(facts.explain)
        if run.facts.is_backfill and sink is not None:
            sink = sink_of_backfill(sink)
            cube = run.result.paths.get(facts.explain)
        assert sink is not None, "it was loaded"
        assert cube is not None, "it was loaded"
        history = self.cubes.history(facts.explain, cube, run)
        load = LoadToSeal(
            facts.name,
            facts.target,
            _name_in(run.store, cube),
            str(facts.details.get("since") or ""),
            run.facts.as_of,
            run.facts.is_backfill,
        )
        return subject_of_sink(sink, load, cube, history)


def seal_ended(run: RunUnderWay, facts: RunFacts) -> Place:
    """Write the statement of a run that is over; its record is written after it."""
    command = run.command
    made = MadeByRun(
        {name: _name_in(run.store, path) for name, path in run.result.paths.items()},
        frozenset(each.name for each in facts.explanations if each.status == "no-op"),
        run.sealed_loads,
    )
    kept = StoredJob.of(run.job, command.job_file, command.settings, command.target)
    key = key_of_job(run.job)
    return seal_run(run.store, run.job, kept, as_record(facts), record_bytes(facts), made, key)


def _name_in(store: Place, cube: Place) -> str:
    """The name of a cube in its store."""
    return str(cube).removeprefix(f"{store}/")
