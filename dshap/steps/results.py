"""The outcome of a job, and of each of its explanations."""

from __future__ import annotations

from dataclasses import dataclass

from dshap.core.errors import FailedBlocksError
from dshap.core.html import table_html
from dshap.core.places import Place
from dshap.history.stages import StageUse
from dshap.models import FitReport
from dshap.run.quality import Note
from dshap.steps.scope import WHOLE, Phase, Scope
from dshap.steps.shards import BlocksOfShard


@dataclass(frozen=True)
class ExplanationResult:
    """The outcome of one explanation."""

    name: str
    path: Place
    was_complete: bool
    """Whether nothing was left to do when the job started."""
    finished_by: str = ""
    """The version of dshap that finished it, if its numerics differ from this one's; else empty."""
    failure: FailedBlocksError | None = None
    shard: BlocksOfShard | None = None
    """The blocks that this command explained, if it is a shard of a run."""
    quality: Note | None = None
    """The note of MSE_v in the cube, if the job sets [[explain]] quality_rows."""
    has_new_what_if: bool = False
    """Whether this command has stored the model for the what-if of the page."""

    @property
    def is_kept(self) -> bool:
        """Whether the command found nothing to do here: all is finished, or all blocks of its shard."""
        return self.was_complete or (self.shard is not None and self.shard.is_done)


@dataclass(frozen=True)
class JobResult:
    """The outcome of a job."""

    store: Place
    explanations: tuple[ExplanationResult, ...]
    report: FitReport | None
    """The report of the fit; None if the job fits no model."""
    stages: tuple[StageUse, ...] = ()
    """Time, rows and memory of each stage, in the order of the run."""
    is_empty: bool = False
    """Whether the table has no rows, so that nothing was explained or written."""
    is_idle: bool = False
    """Whether no row had changed since the run before, so that no cube was written."""
    scope: Scope = WHOLE
    """The part of the run that this command did."""
    over: str = ""
    """The run that was finished before this command could do anything; empty for none."""

    @property
    def is_part(self) -> bool:
        """Whether other commands finish the run, or had done so before this one."""
        if self.over:
            return True
        return not (self.scope.does(Phase.FINISH) or self.is_idle or self.is_empty)

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of census, fit and each explanation in this run, as far as they had work."""
        seconds: dict[str, float] = {}
        for stage in self.stages:
            if stage.seconds:
                name = stage.name.partition(": ")[0]
                seconds[name] = seconds.get(name, 0.0) + stage.seconds
        return seconds

    @property
    def was_complete(self) -> bool:
        return all(result.was_complete for result in self.explanations)

    @property
    def has_news(self) -> bool:
        """Whether this command added something that the page of an earlier one does not show."""
        return not self.was_complete or any(each.has_new_what_if for each in self.explanations)

    @property
    def paths(self) -> dict[str, Place]:
        """Name -> path of the cube of each explanation."""
        return {result.name: result.path for result in self.explanations}

    def _repr_html_(self) -> str:
        rows = [
            [each.name, str(each.path), str(each.failure or "done")] for each in self.explanations
        ]
        heads = ("explanation", "cube", "ended")
        notes = [f"{name}: {seconds:.1f} s" for name, seconds in self.seconds.items()]
        return table_html(f"Job of {self.store}", heads, rows, notes, n_texts=3)

    @property
    def has_failed(self) -> bool:
        """Whether an explanation has blocks with rows without attributions."""
        return any(result.failure for result in self.explanations)

    def raise_on_failed(self) -> None:
        """Raise a `FailedBlocksError` that names all explanations with failed rows."""
        failed = [result for result in self.explanations if result.failure]
        if failed:
            raise FailedBlocksError(
                "; ".join(f"{result.name}: {result.failure}" for result in failed)
            )
