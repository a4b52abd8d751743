"""The plan of a run: tiles on both axes, stages, bytes and cost, as one frozen record.

The plan is printed, checked and stored.  It follows from shapes, options and seed alone, never from
the number or the memory of workers: these can only refuse it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dshap.attributors.tiling import Tiling
from dshap.core.blocks import N_ENDS
from dshap.core.errors import DoesNotFitError
from dshap.core.html import table_html
from dshap.core.printing import counted, format_bytes
from dshap.core.rows import spans

OPERATIONS_PER_SECOND = 1.5e10
"""The assumed speed of one core on small matrix products.

It steers only the sizes of tiles and the printed cost.
"""
PREDICTION_SECONDS = 1e-6
"""The assumed seconds per row of a black box; linear models are faster, networks slower."""
OVERHEAD_BYTES = 8 << 20
"""Bytes of a busy worker for messages, codecs and the rounding of its allocator."""
STAGE_OPTIONS = {
    "enough": "coalition_tile",
    "moments": "coalition_tile",
    "evaluation": "instance_tile",
}
"""The option that lowers the bytes of a stage, by the name of the stage."""
PILOT_ROWS = 16
"""The largest number of rows of a pilot."""
STAGE_HEADS = ("stage", "makes", "kept per", "tasks", "bytes/task", "core time")
STAGE_TEXTS = 3
"""The heads of a table of stages; the first `STAGE_TEXTS` columns contain texts."""
GRAINS = {"none": "not kept"}
"""Grain of a stage -> its words, where these are others."""
REASONS = {"given": "as given"}
"""Reason of a choice -> its words, where these are others."""
NOT_KNOWN = "not known"
"""The words for the time of a stage whose model is a black box."""


@dataclass(frozen=True)
class Stage:
    """One stage of a run, such as the evaluation: many tasks of one kind.

    Examples
    --------
    >>> from dshap.engine import Stage
    >>> stage = Stage("evaluation", 10, 2**20, 1e9, "rows", "attributions", grain="tile")
    >>> stage.name, stage.n_tasks, stage.task_bytes
    ('evaluation', 10, 1048576)
    """

    name: str
    n_tasks: int
    task_bytes: int
    """The peak bytes of one task."""
    operations: float
    """Floating-point operations of the whole stage; infinity if it calls a model of unknown cost."""
    reads: str
    """The input of its tasks in words, such as "rows"."""
    makes: str
    """The output of its tasks in words, such as "attributions"."""
    grain: str
    """The unit of finished work that a resumed run does not compute again, such as "tile"."""
    predictions: float = 0.0
    """The most rows that the model predicts in the whole stage."""


@dataclass(frozen=True, kw_only=True)
class Plan(Tiling):
    """The division of a run into tiles and stages, with the bytes and the work of each task.

    A tile is a part of the rows or of the coalitions, which one task computes.  Print the plan for
    a table of the stages and the reason of each choice.  The plan follows from shapes,
    options and seed alone, so that every machine makes the same plan and the same numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.core.capabilities import Work
    >>> from dshap.core.options import RunOptions
    >>> from dshap.engine import Plan, make_plan
    >>> from dshap.sources import ArraySource
    >>> x = np.random.default_rng(0).normal(size=(1000, 3))
    >>> value = dshap.values.Marginal(lambda x: x[:, 0] * x[:, 1], x[:50])
    >>> work = Work.of(value, dshap.designs.exact(3))
    >>> plan = make_plan(work, ArraySource(x), ArraySource(x[:50]), RunOptions(instance_tile=200))
    >>> plan.n_instance_tiles, Plan.from_json(plan.to_json()) == plan
    (5, True)
    """

    n_rows: int
    n_players: int
    """Number of players of the design; players whose columns are constant are left out."""
    pilot_rows: int
    """Number of rows whose values the design reads before the evaluation, to make its choices."""
    stages: tuple[Stage, ...]
    reasons: tuple[tuple[str, str], ...]
    """(option, reason of its value) for each option that the plan chose."""

    @property
    def n_instance_tiles(self) -> int:
        """The number of blocks of the cube."""
        return math.ceil(self.n_rows / self.instance_tile)

    @property
    def instance_spans(self) -> list[tuple[int, int]]:
        return spans(0, self.n_rows, self.instance_tile)

    def pilot_positions(self, n_coalitions: int) -> list[int]:
        """Evenly spaced positions of the rows that a pilot of the first `n_coalitions` evaluates.

        The fewer coalitions it evaluates, the more rows it can afford, up to `PILOT_ROWS`.
        """
        n = min(PILOT_ROWS, self.n_rows, self.pilot_rows * (self.n_coalitions // n_coalitions))
        positions: list[int] = np.linspace(0, self.n_rows - 1, n).round().astype(int).tolist()
        return positions

    @property
    def range_spans(self) -> list[tuple[int, int]]:
        """(start, stop) of the rows to explain whose predictions one task of "range" sees."""
        return spans(0, self.n_rows, self.row_span)

    @property
    def process_bytes(self) -> int:
        """The peak bytes of a worker that runs one task at a time, beyond its idle size."""
        return max(stage.task_bytes for stage in self.stages) + self.cache_bytes + OVERHEAD_BYTES

    @property
    def n_predictions(self) -> float:
        """The most rows that the model predicts; equal rows of one call are predicted once."""
        return sum(stage.predictions for stage in self.stages)

    @property
    def calls_model(self) -> bool:
        """Whether the values of coalitions come from calls of a model, whose time is not known."""
        return any(not math.isfinite(stage.operations) for stage in self.stages)

    @property
    def n_tasks(self) -> int:
        return sum(stage.n_tasks for stage in self.stages)

    def check(self, memory_limit: int | None, threads: int = 1, idle_bytes: int = 0) -> None:
        """Refuse the plan if a worker with this memory limit (bytes) cannot run it.

        Raises
        ------
        DoesNotFitError
            The plan does not fit; the message contains the bytes and the option to change.
        """
        largest = largest_of(self.stages)
        option = STAGE_OPTIONS.get(largest.name, "row_span")
        remedy = f"lower {option} (now {getattr(self, option):,})"
        check_stages(
            self.stages,
            memory_limit,
            threads,
            self._held_bytes(idle_bytes),
            remedy,
        )

    def worker_bytes(self, threads: int, idle_bytes: int) -> int:
        """The memory (bytes) that a worker process of so many threads needs for this plan."""
        return bytes_of_stages(self.stages, threads, self._held_bytes(idle_bytes))

    def _held_bytes(self, idle_bytes: int) -> int:
        """The bytes that a worker has in memory throughout."""
        return idle_bytes + self.cache_bytes + OVERHEAD_BYTES

    def to_json(self) -> str:
        return json.dumps(asdict(self), allow_nan=True)  # operations of a black box are infinite

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        fields: dict[str, Any] = json.loads(text)
        fields["stages"] = tuple(Stage(**stage) for stage in fields["stages"])
        fields["stage_coalitions"] = tuple(fields["stage_coalitions"])
        fields["reasons"] = tuple((choice, why) for choice, why in fields["reasons"])
        return cls(**fields)

    def __repr__(self) -> str:
        return f"Plan({str(self).splitlines()[0]})"

    def __str__(self) -> str:
        """A table of the stages, then the tiles, then the reason of each choice."""
        return "\n".join([self._sizes(), *stage_lines(self.stages), *self._choices()])

    def _repr_html_(self) -> str:
        return self.as_html()

    def as_html(self, title: str = "") -> str:
        """The table of the stages in HTML, under this title and the sizes of the run."""
        rows = map(stage_cells, self.stages)
        return table_html(
            f"{title}{self._sizes()}", STAGE_HEADS, rows, self._choices(), STAGE_TEXTS
        )

    def _sizes(self) -> str:
        """The sizes of the run in one line."""
        return (
            f"{counted(self.n_rows, 'row')} × {counted(self.n_players, 'player')} × "
            f"{counted(self.n_outputs, 'output')}, {self._coalitions()}, "
            f"{counted(self.n_tasks, 'task')}, "
            f"{format_bytes(self.process_bytes)} a worker beyond its idle size"
        )

    def _coalitions(self) -> str:
        """The number of coalitions, where the method lists any."""
        if self.is_closed_form:
            return "no list of coalitions"
        return counted(self.n_coalitions, "coalition")

    def _choices(self) -> list[str]:
        """The tiles, then the reason of each choice."""
        tiles = (
            f"tiles: {self.instance_tile:,} rows (chunks of {self.chunk_rows:,}, micro-blocks of "
            f"{self.micro_rows:,})"
        )
        if not self.is_closed_form:
            tiles += (
                f" × {counted(self.coalition_tile, 'coalition')} in "
                f"{counted(self.coalition_groups, 'group')}"
            )
        tiles += f"; sums over spans of {self.row_span:,} rows"
        chosen = [f"{choice}: {REASONS.get(why, why)}" for choice, why in self.reasons]
        unknown = [stage.name for stage in self.stages if not math.isfinite(stage.operations)]
        if not unknown:
            return [tiles, *chosen]
        time = (
            f"core time of {', '.join(unknown)}: {NOT_KNOWN}, as your model is called; the run shows "
            "its rate"
        )
        return [time, self._predictions(), tiles, *chosen]

    def _predictions(self) -> str:
        """The line on the number of predictions."""
        coalitions = self.n_coalitions - N_ENDS
        each = 0.0
        if not self.is_closed_form and coalitions > 0:
            each = self.stages[-1].predictions / (self.n_rows * coalitions)
        line = f"predictions of your model: at most {self.n_predictions:,.0f}"
        if each >= 1.0:
            line += (
                f", about {self.n_rows:,} rows × {counted(coalitions, 'coalition')} × "
                f"{counted(int(each), 'row')} each"
            )
        return f"{line}; `dshap plan --probe 100` measures how long they take"


def largest_of(stages: Sequence[Stage]) -> Stage:
    """The stage with the most bytes of a task."""
    return max(stages, key=lambda stage: stage.task_bytes)


def bytes_of_stages(stages: Sequence[Stage], threads: int, held_bytes: int) -> int:
    """The memory that a worker needs: the largest task on every thread, and `held_bytes`."""
    return largest_of(stages).task_bytes * threads + held_bytes


def check_stages(
    stages: Sequence[Stage], memory_limit: int | None, threads: int, idle_bytes: int, remedy: str
) -> None:
    """Raise a `DoesNotFitError` if a worker with this memory limit cannot run these stages.

    `remedy` is the part of the message that names the option to change.

    Examples
    --------
    >>> import dshap
    >>> from dshap.engine import Stage, check_stages
    >>> stage = Stage("evaluation", 10, 2**30, 1e9, "rows", "attributions", grain="tile")
    >>> check_stages([stage], 2**32, threads=1, idle_bytes=2**27, remedy="lower the tile")
    >>> try:
    ...     check_stages([stage], 2**29, threads=1, idle_bytes=2**27, remedy="lower the tile")
    ... except dshap.DshapError as error:
    ...     print(type(error).__name__)
    DoesNotFitError
    """
    if memory_limit is None:
        return
    largest = largest_of(stages)
    needed = bytes_of_stages(stages, threads, idle_bytes)
    if needed <= memory_limit:
        return
    given = f"workers have {format_bytes(memory_limit)}"
    wanted = f"give workers at least {math.ceil(needed / 2**20)} MiB (memory_limit)"
    worker = f"a worker of {counted(threads, 'thread')}"
    if memory_limit <= idle_bytes:
        raise DoesNotFitError(
            f"stage {largest.name} does not fit, however small its tasks: {worker} needs "
            f"{format_bytes(idle_bytes)} "
            f"throughout, and {given}: {wanted}"
        )
    raise DoesNotFitError(
        f"stage {largest.name} needs {format_bytes(needed)} on {worker} "
        f"({format_bytes(idle_bytes)} of it for the whole run) but {given}: {remedy} or {wanted}"
    )


def stage_lines(stages: Sequence[Stage]) -> list[str]:
    """Format stages as the lines of a table, with a heading.

    Examples
    --------
    >>> from dshap.engine import Stage, stage_lines
    >>> stage = Stage("evaluation", 10, 2**20, 1e6, "rows", "attributions", grain="tile")
    >>> for line in stage_lines([stage]):
    ...     print(line)
    stage          tasks  bytes/task   core time  makes                       kept per
    evaluation        10     1.0 MiB     < 0.1 s  attributions                tile
    """
    return [
        f"{stage:<12}{tasks:>8}{task_bytes:>12}{time:>12}  {makes:<28}{grain}"
        for stage, makes, grain, tasks, task_bytes, time in (
            STAGE_HEADS,
            *map(stage_cells, stages),
        )
    ]


def stage_cells(stage: Stage) -> tuple[str, ...]:
    """The cells of a stage under `STAGE_HEADS`."""
    return (
        stage.name,
        stage.makes,
        GRAINS.get(stage.grain, stage.grain),
        f"{stage.n_tasks:,}",
        format_bytes(stage.task_bytes),
        one_core_time(stage.operations),
    )


def one_core_time(operations: float) -> str:
    """The expected time of one core for so many operations, in words."""
    if not math.isfinite(operations):
        return NOT_KNOWN
    seconds = operations / OPERATIONS_PER_SECOND
    if seconds < 0.1:
        return "< 0.1 s"
    if seconds < 600:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min"
