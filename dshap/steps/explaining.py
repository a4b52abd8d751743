"""The steps of one explanation: its rows are explained, and MSE_v is measured."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dshap.core.errors import FailedBlocksError, NotLearnedError
from dshap.core.rows import runs_of_neighbours
from dshap.cube import pack_cube, read_run
from dshap.engine import Failure
from dshap.engine.block_time import Deadline
from dshap.engine.walltimes import deadline_of
from dshap.history.run_folders import forget_maker
from dshap.jobfile.schema import ExplainTable
from dshap.jobinput.quality_of_job import measured_by_job, stored_quality
from dshap.report.what_if.keeping import has_what_if, keep_what_if
from dshap.run.explanation import Explanation
from dshap.run.quality import Note
from dshap.steps.asked_codes import refuse_without_order
from dshap.steps.opened import OpenedJob
from dshap.steps.results import ExplanationResult
from dshap.steps.scope import OneExplanation, Phase
from dshap.steps.shards import BlocksOfShard, Shard
from dshap.steps.step import Act, Step
from dshap.steps.under_way import RunUnderWay


def steps_of_explanation(
    run: RunUnderWay, opened: OpenedJob, explain: ExplainTable, explanation: Explanation
) -> Iterator[Step]:
    """The steps of a checked and planned explanation; the last step reports failed blocks."""
    refuse_without_order(run.job, explain, explanation.work.method)
    yield ExplainRows(run, opened, explanation, explain.name)
    if explain.n_quality_rows is not None and run.results[explain.name].failure is None:
        yield MeasureQuality(run, opened, explanation, explain)
    yield Act(Phase.FINISH, explanation.describe)
    if run.job.report.what_if and run.results[explain.name].failure is None:
        yield KeepWhatIf(run, explanation, explain.name)
    yield Act(Phase.FINISH, lambda: _pack(run, explanation))


def _pack(run: RunUnderWay, explanation: Explanation) -> None:
    """Pack the files of many blocks into few."""
    if pack_cube(explanation.path):
        n_blocks = explanation.plan.n_instance_tiles
        run.progress.say(f"{explanation.path}: {n_blocks:,} blocks are packed into fewer files")


class ExplainRows(Step):
    """The rows of one explanation, or a share of them, are explained."""

    phase = Phase.EXPLAIN

    def __init__(
        self, run: RunUnderWay, opened: OpenedJob, explanation: Explanation, name: str
    ) -> None:
        self.run = run
        self.opened = opened
        self.explanation = explanation
        self.learns = explanation.work.method.learns
        writer = explanation.finished_by
        shard = run.scope.shard
        share = None
        if shard is not None:
            share = _share(shard, explanation)
            run.progress.has_blocks(name, share.blocks)
        was_complete = run.scope.was_complete(explanation)
        run.results[name] = ExplanationResult(
            name, explanation.path, was_complete, str(writer or ""), shard=share
        )
        self.name = name

    @property
    def result(self) -> ExplanationResult:
        return self.run.results[self.name]

    def is_done(self) -> bool:
        return self.result.is_kept

    def keep(self) -> None:
        self.run.progress.kept_explanation(self.name, self.learns)

    def do(self) -> None:
        run = self.run
        plan = self.explanation.plan
        run.scope.begin_rows(run.store, run.progress.say)
        self.opened.start()
        size = f"{plan.n_rows:,} rows"
        if not plan.is_closed_form:
            size += f", {plan.n_coalitions:,} coalitions"
        run.progress.say(f"explanation {self.name}: {size}")
        forget_maker(run.store, self.name)
        is_new = read_run(self.explanation.path) is None
        with run.progress.explanation(self.name, plan.data_rows, self.learns, is_new):
            work = OneExplanation(self.explanation, run.session, self.result.shard, self._deadline)
            ended = run.scope.carry_out(work)
        try:
            ended.raise_on_failed(again=run.scope.again)
        except FailedBlocksError as error:
            facts = _of_failures(ended.failures)
            run.progress.tell("failed_rows", explanation=self.name, **facts)
            run.results[self.name] = replace(self.result, failure=error)

    def _deadline(self) -> Deadline | None:
        """The time at which the queue ends this process, for the first explanation with blocks.

        None for later explanations: if the earlier ones have left too little time for a block, the
        next attempt has enough.
        """
        if self.run.has_explained:
            return None
        self.run.has_explained = True
        return deadline_of(os.environ, self.run.job.worker_options)


class MeasureQuality(Step):
    """MSE_v of one explanation is measured, once."""

    phase = Phase.FINISH

    def __init__(
        self,
        run: RunUnderWay,
        opened: OpenedJob,
        explanation: Explanation,
        explain: ExplainTable,
    ) -> None:
        self.run = run
        self.opened = opened
        self.explanation = explanation
        self.explain = explain

    @cached_property
    def _stored(self) -> Note | None:
        return stored_quality(self.explain, self.run.job, self.explanation)

    def is_done(self) -> bool:
        return self._stored is not None

    def keep(self) -> None:
        self.run.progress.kept(f"{self.explain.name}: quality")
        self._keep_in_result(self._stored)

    def do(self) -> None:
        self.opened.start()
        with self.run.progress.stage(f"{self.explain.name}: quality") as counted:
            found = measured_by_job(
                self.explain,
                self.opened.job,
                self.opened.reader,
                self.explanation,
                self.run.session,
            )
            counted.rows = found["rows"]
        self._keep_in_result(found)

    def _keep_in_result(self, note: Note | None) -> None:
        name = self.explain.name
        self.run.results[name] = replace(self.run.results[name], quality=note)


@dataclass
class KeepWhatIf(Step):
    """The model of one explanation is stored in its cube, for the what-if of the page."""

    run: RunUnderWay
    explanation: Explanation
    name: str

    phase = Phase.FINISH

    def is_done(self) -> bool:
        return self.explanation.is_complete and has_what_if(self.explanation.path)

    def do(self) -> None:
        reason = keep_what_if(self.explanation, self.run.session)
        if reason:
            self.run.progress.say(f"no what-if of {self.name}: {reason}")
        self.run.results[self.name] = replace(self.run.results[self.name], has_new_what_if=True)


def _share(shard: Shard, explanation: Explanation) -> BlocksOfShard:
    """The blocks of one explanation that a shard has, and how many of them are done."""
    if not (explanation.is_complete or explanation.is_learned):
        raise NotLearnedError(f"{explanation.path} has not learned yet")
    spans = explanation.plan.instance_spans
    tiles = shard.tiles(len(spans))
    if tiles:
        rows = (spans[tiles[0]][0], spans[tiles[-1]][1])
    else:
        rows = (0, 0)
    n_kept = len(explanation.work.cube.done(tiles))
    return BlocksOfShard(tiles, len(spans), rows, n_kept)


def _of_failures(failures: Sequence[Failure]) -> dict[str, Any]:
    """The facts of rows without attributions, for machines."""
    first = min(failures, key=lambda failure: failure.start)
    blocks = sorted({failure.tile for failure in failures})
    return {
        "rows": sum(failure.n_rows for failure in failures),
        "blocks": [list(run) for run in runs_of_neighbours(blocks)],
        "first": first.where,
        "reason": first.reason,
    }
