"""The steps after the last cube of a run: checks, sinks, and removals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from dshap.core.errors import DshapError, SinkError
from dshap.core.places import Place
from dshap.cube import read_run
from dshap.cube.described import describe_cube
from dshap.history.backfills import SKIPPED, sink_of_backfill
from dshap.history.run_record import ExplanationFacts, SinkFacts
from dshap.history.stages import SINK
from dshap.jobfile.described_tables import PLACE
from dshap.jobfile.sink_tables import SinkTable
from dshap.run.description import describable_names, refuse_misnamed
from dshap.sinks import Sink, load_sink
from dshap.steps.facts_of_job import explanations_of
from dshap.steps.job_cubes import JobCubes
from dshap.steps.judging import judge
from dshap.steps.load_facts import about_load
from dshap.steps.row_sources import RowSource
from dshap.steps.scope import Phase
from dshap.steps.sealing import SealLoads
from dshap.steps.sink_targets import sink_in
from dshap.steps.step import Act, Step
from dshap.steps.under_way import RunUnderWay
from dshap.tables.columns import as_names
from dshap.warehouse.snapshot import Snapshot


def ending_steps(run: RunUnderWay, source: RowSource, cubes: JobCubes) -> Iterator[Step]:
    """The steps from the cubes of a run to its record, which is written by the caller."""
    blocking = [check for check in run.job.check if check.blocks_sinks]
    others = [check for check in run.job.check if not check.blocks_sinks]
    yield Act(Phase.BEGIN, lambda: source.end(run))
    yield Act(Phase.FINISH, lambda: _describe_cubes(run))
    run.know(explanations=_explanations(run))
    yield Judge(run, blocking)
    for table in run.job.sink:
        yield LoadSink(run, table, cubes)
    yield SealLoads(run, cubes)
    # after the sinks, which these checks do not block, and which need not wait for them
    yield Judge(run, others)
    yield Act(Phase.EXPLAIN, lambda: source.tidy(run, cubes.tidy))


def _describe_cubes(run: RunUnderWay) -> None:
    """Store the job's present description of columns and model, also beside finished cubes."""
    description = run.job.description
    stored = {path: read_run(path) for path in run.result.paths.values()}
    known = [
        name
        for found in stored.values()
        if found
        for name in describable_names(found["fingerprint"])
    ]
    refuse_misnamed(description, [*known, *as_names(run.job.target)], place=PLACE)
    for path, found in stored.items():
        if found is not None:
            run.session.workspace.confirm()
            describe_cube(path, description)


@dataclass
class Judge(Step):
    """Judge the run by some checks of the job."""

    run: RunUnderWay
    checks: list[Any]

    phase = Phase.EXPLAIN

    def do(self) -> None:
        found = judge(self.checks, self.run.facts, self.run.store)
        self.run.know(checks=(*self.run.facts.checks, *found))


@dataclass
class LoadSink(Step):
    """Load one sink, unless a check forbids it; a failure is recorded, and the run goes on."""

    run: RunUnderWay
    table: SinkTable
    cubes: JobCubes

    phase = Phase.EXPLAIN

    def do(self) -> None:
        run = self.run
        run.know(sinks=(*run.facts.sinks, self._loaded()))

    def _loaded(self) -> SinkFacts:
        sink = sink_in(self.run.job, self.table)
        name = self.table.name or sink.label
        started = datetime.now(UTC)
        facts = SinkFacts(
            name, "success", started=started, explain=sink.explain, target=sink.describe()
        )
        if self.run.facts.is_backfill:
            backfilled = sink_of_backfill(sink)
            if backfilled is None:
                return replace(facts, status="skipped", message=SKIPPED)
            sink = backfilled
            cube = self.run.result.paths.get(sink.explain)
        else:
            cube = self.cubes.to_load(sink.explain)
        failed = [each.name for each in self.run.facts.checks if each.status == "error"]
        if cube is None:
            return replace(facts, status="skipped", message="there is no whole cube to load")
        if failed:
            said = f"check {failed[0]} failed, and it has blocks_sinks = true"
            return replace(facts, status="skipped", message=said)
        try:
            return self._from_cube(facts, sink, cube)
        except DshapError as error:
            failure = SinkError(f"[[sink]] {name} is not loaded: {error}")
            return replace(facts, status="error", failure=failure, ended=datetime.now(UTC))

    def _from_cube(self, facts: SinkFacts, sink: Sink, cube: Place) -> SinkFacts:
        run = self.run
        with run.progress.stage(f"{SINK}{facts.name}") as counted:
            found = load_sink(
                sink,
                cube,
                self.cubes.history(sink.explain, cube, run),
                run.job.job.name,
                run.progress.say,
                as_of=run.facts.as_of,
                is_backfill=run.facts.is_backfill,
                about=about_load(run),
            )
            counted.rows = found.n_rows
        if found.already:
            facts = replace(facts, status="no-op")
        return replace(
            facts,
            rows=found.n_lines,
            deleted=found.n_deleted,
            seconds=found.seconds,
            ended=datetime.now(UTC),
            details={
                "since": found.since,
                "reason": found.reason,
                "keys": found.n_rows,
                "escaped": found.escaped,
            },
        )


def _explanations(run: RunUnderWay) -> tuple[ExplanationFacts, ...]:
    """The facts of the explanations, with the run's facts about its rows and methods."""
    facts = explanations_of(run.job, run.result)
    return tuple(replace(each, **_of_run(run, each)) for each in facts)


def _of_run(run: RunUnderWay, facts: ExplanationFacts) -> dict[str, Any]:
    """The facts about one explanation that the run has, and its cube has not."""
    known: dict[str, Any] = {}
    if run.snapshot is not None:
        known["source"] = {**facts.source, **_source_of(run.snapshot)}
    if run.changes is not None:
        n_damaged = run.damaged.get(facts.name, 0)
        known["keys"] = replace(run.changes, failed=facts.failed, damaged=n_damaged)
    if facts.name in run.lost:
        known["message"] = run.lost[facts.name]
    return {**known, **run.of_methods.get(facts.name, {})}


def _source_of(snapshot: Snapshot) -> dict[str, Any]:
    """The facts of a table that was read once, or that has a contract or limits of its age."""
    return {
        "kind": snapshot.kind,
        "place": snapshot.source,
        "rows": snapshot.n_rows,
        "schema_digest": snapshot.schema_digest,
        "snapshot": {
            "read_at": snapshot.read_at,
            "as_of": snapshot.as_of,
            "schema": snapshot.schema,
            **snapshot.detail,
        },
        "freshness": snapshot.freshness,
    }
