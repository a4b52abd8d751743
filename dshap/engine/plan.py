"""The plan of a run: tiles on both axes, stages, bytes and cost.  A value that is printed, checked
and stored.

It follows from shapes, options and seed alone, never from the number or memory of workers: these
can only refuse it.
"""

from __future__ import annotations

import bisect
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dshap.core.blocks import N_ENDS
from dshap.core.errors import DoesNotFitError
from dshap.core.records import n_partial_sums
from dshap.core.rows import SPAN_ROWS, spans
from dshap.core.types import RowReader
from dshap.models import KernelModel

__all__ = [
    "OPERATIONS_PER_SECOND",
    "OVERHEAD_BYTES",
    "PILOT_ROWS",
    "PREDICTION_SECONDS",
    "Plan",
    "Stage",
    "check_fit",
    "check_stages",
    "fit_stages",
    "format_bytes",
    "stage_lines",
]

OPERATIONS_PER_SECOND = 1.5e10
"""What one core does on the small matrix products of this program; only steers tile sizes and the
printed cost."""
PREDICTION_SECONDS = 1e-6
"""Seconds that a black box is held to take for a row: linear models take less, trees and networks
more."""
OVERHEAD_BYTES = 8 << 20
"""Messages, codecs and the allocator's rounding in a worker at work."""
STAGE_OPTIONS = {"moments": "coalition_tile", "evaluation": "instance_tile"}
"""The option that lowers a stage's bytes."""
PILOT_ROWS = 16
"""Rows that a pilot sees, at most."""


@dataclass(frozen=True)
class Stage:
    """One step of the run: many tasks of one kind."""

    name: str
    n_tasks: int
    task_bytes: int
    """Peak bytes of one task."""
    operations: float
    """Floating-point operations of the whole stage; infinity where a black box hides them."""
    reads: str
    makes: str
    grain: str
    """What a resumed run does not compute again."""


@dataclass(frozen=True)
class Plan:
    """Everything that the executors need to know about the cutting of a run."""

    n_rows: int
    data_rows: int
    n_players: int
    """Of the design: those whose columns vary."""
    n_outputs: int
    """After the link."""
    n_replicates: int
    """Jackknife groups of the design; those of the model's noise where the design has none."""
    n_coalitions: int
    pilot_rows: int
    """Rows that the design chooses from before the evaluation."""
    pilot_coalitions: int
    """Coalitions that it asks for first."""
    instance_tile: int
    chunk_rows: int
    """Rows of an inner chunk of the cube; an instance tile is one shard."""
    micro_rows: int
    coalition_tile: int
    coalition_groups: int
    join_tiles: int
    """Coalition tiles whose states are evaluated as one."""
    row_span: int
    cache_bytes: int
    """Bytes of prepared states that a worker keeps."""
    tol: float | None
    """Rounds end for a row at this error; None: all coalitions for every row."""
    stage_coalitions: tuple[int, ...]
    """Coalitions after each round."""
    stochastic: bool
    """Everything is asked twice."""
    interactions: bool
    """Of pairs of players, beside the attributions."""
    is_closed_form: bool
    """No coalition is listed: the value function gives attributions itself."""
    stages: tuple[Stage, ...]
    reasons: tuple[tuple[str, str], ...]
    """(choice, why) of each "auto"."""
    learns_range: bool = False
    """The range of the predictions of the rows is learned first: errors of sampling have a floor by
    it."""

    @property
    def n_instance_tiles(self) -> int:
        """Blocks of the cube."""
        return math.ceil(self.n_rows / self.instance_tile)

    @property
    def instance_spans(self) -> list[tuple[int, int]]:
        return spans(0, self.n_rows, self.instance_tile)

    @property
    def coalition_spans(self) -> list[tuple[int, int]]:
        """Tiles of the proper coalitions; the two ends of a design are in none.  A closed form has
        one empty tile."""
        if self.is_closed_form:
            return [(N_ENDS, N_ENDS)]
        edges = sorted({N_ENDS, *self.stage_coalitions, self.pilot_coalitions or N_ENDS})
        return [
            span for ends in itertools.pairwise(edges) for span in spans(*ends, self.coalition_tile)
        ]

    @property
    def round_tiles(self) -> list[list[int]]:
        """Coalition tiles that each round adds."""
        ends = [stop for _, stop in self.coalition_spans]
        cuts = [0, *(bisect.bisect_right(ends, stop) for stop in self.stage_coalitions)]
        return [list(range(a, b)) for a, b in itertools.pairwise(cuts)]

    def pilot_positions(self, n_coalitions: int) -> list[int]:
        """Rows, evenly spaced, that a pilot of the first coalitions sees: as many more as they are
        fewer."""
        n = min(PILOT_ROWS, self.n_rows, self.pilot_rows * (self.n_coalitions // n_coalitions))
        positions: list[int] = np.linspace(0, self.n_rows - 1, n).round().astype(int).tolist()
        return positions

    @property
    def groups(self) -> list[list[int]]:
        """Indices of the coalition tiles of each group, as even as can be."""
        n_tiles = len(self.coalition_spans)
        cuts = [n_tiles * g // self.coalition_groups for g in range(self.coalition_groups + 1)]
        return [list(range(a, b)) for a, b in itertools.pairwise(cuts)]

    @property
    def data_spans(self) -> list[tuple[int, int]]:
        return spans(0, self.data_rows, self.row_span)

    @property
    def range_spans(self) -> list[tuple[int, int]]:
        """Rows to explain whose predictions a task of the range sees."""
        return spans(0, self.n_rows, self.row_span)

    @property
    def process_bytes(self) -> int:
        """Peak bytes of a worker that runs one task at a time, beyond what it takes idle."""
        return max(stage.task_bytes for stage in self.stages) + self.cache_bytes + OVERHEAD_BYTES

    @property
    def n_tasks(self) -> int:
        return sum(stage.n_tasks for stage in self.stages)

    def check(self, memory_limit: int | None, threads: int = 1, idle_bytes: int = 0) -> None:
        """Refuse the plan where a worker with this limit cannot hold it.

        Raises
        ------
        DoesNotFitError
            With the numbers and the option to change.
        """
        largest = max(self.stages, key=lambda stage: stage.task_bytes)
        option = STAGE_OPTIONS.get(largest.name, "row_span")
        remedy = f"lower {option} (now {getattr(self, option):,})"
        check_stages(
            self.stages,
            memory_limit,
            threads,
            idle_bytes + self.cache_bytes + OVERHEAD_BYTES,
            remedy,
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self), allow_nan=True)

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
        """A table of the stages, then the tiles, then why each choice was made."""
        lines = [
            f"{self.n_rows:,} rows × {self.n_players} players × {self.n_outputs} outputs, "
            f"{self.n_coalitions:,} coalitions, {self.n_tasks:,} tasks, "
            f"{format_bytes(self.process_bytes)} a worker beyond its idle size",
            *stage_lines(self.stages),
        ]
        lines.append(
            f"tiles: {self.instance_tile:,} rows (chunks of {self.chunk_rows:,}, micro-blocks of "
            f"{self.micro_rows}) × "
            f"{self.coalition_tile} coalitions in {self.coalition_groups} group"
            f"{'s' if self.coalition_groups > 1 else ''}; sums over spans of {self.row_span:,} rows"
        )
        return "\n".join(lines + [f"{choice}: {why}" for choice, why in self.reasons])


def fit_stages(model: KernelModel, reader: RowReader, n_outputs: int = 1) -> tuple[Stage, ...]:
    """The stages of fitting a model on all rows, before features and length-scales are chosen.

    Parameters
    ----------
    model : KernelModel
    reader : RowReader
    n_outputs : int
        Columns of the target, or its classes.
    """
    span = min(SPAN_ROWS, reader.n_rows)
    n_columns = len(reader.feature_names)
    n_spans = len(spans(0, reader.n_rows))
    p = model.embedding.n_features
    read = reader.read_bytes(span) + 16 * span * (n_columns + n_outputs)
    cost = model.cost(reader.n_rows, n_columns, n_outputs)
    held = (2 + n_partial_sums(n_spans)) * cost.sum_bytes
    sums = max(cost.partial_bytes, cost.solve_bytes) + held
    passes = model.passes(n_columns)
    operations = reader.n_rows * (2.0 * p * n_columns * 8 + cost.row_operations)
    return (
        Stage("tune", 1, read + cost.tune_bytes, 0.0, "rows", "kernel, features", "none"),
        Stage(
            "fit",
            n_spans * passes,
            read + sums,
            passes * operations,
            "rows",
            "state/model-*",
            "fit",
        ),
        Stage(
            "score",
            n_spans if model.holdout else 0,
            read + cost.score_bytes,
            2.0 * reader.n_rows * p * model.holdout,
            "held-out rows",
            "score",
            "fit",
        ),
    )


def check_fit(
    model: KernelModel, reader: RowReader, memory_limit: int | None, threads: int, n_outputs: int
) -> None:
    """Refuse a fit that a worker with this limit cannot hold: a `DoesNotFitError`."""
    remedy = "ask for fewer landmarks or features, merge classes"
    if model.shapley is not None:
        remedy += ", give the ShapleyPenalty fewer n_coalitions or a smaller embedding"
    check_stages(
        fit_stages(model, reader, n_outputs), memory_limit, threads, OVERHEAD_BYTES, remedy
    )


def check_stages(
    stages: Sequence[Stage], memory_limit: int | None, threads: int, idle_bytes: int, remedy: str
) -> None:
    """Refuse stages that a worker with this limit cannot hold; `remedy` is the option to change,
    where one helps."""
    if memory_limit is None:
        return
    largest = max(stages, key=lambda stage: stage.task_bytes)
    needed = largest.task_bytes * threads + idle_bytes
    if needed <= memory_limit:
        return
    given = f"workers have {format_bytes(memory_limit)}"
    wanted = f"give workers at least {math.ceil(needed / 2**20)} MiB (memory_limit)"
    worker = f"a worker of {threads} thread{'s' if threads > 1 else ''}"
    if memory_limit <= idle_bytes:
        raise DoesNotFitError(
            f"stage {largest.name} does not fit, however small its tasks: {worker} holds "
            f"{format_bytes(idle_bytes)} "
            f"throughout, and {given}: {wanted}"
        )
    raise DoesNotFitError(
        f"stage {largest.name} needs {format_bytes(needed)} on {worker} "
        f"({format_bytes(idle_bytes)} of it held "
        f"throughout) but {given}: {remedy} or {wanted}"
    )


def stage_lines(stages: Sequence[Stage]) -> list[str]:
    """The stages as a table with a heading."""
    return [
        f"{'stage':<12}{'tasks':>8}{'bytes/task':>12}{'one core':>12}  {'makes':<28}resumes by",
        *(
            f"{stage.name:<12}{stage.n_tasks:>8,}{format_bytes(stage.task_bytes):>12}"
            f"{_duration(stage.operations):>12}  {stage.makes:<28}{stage.grain}"
            for stage in stages
        ),
    ]


def format_bytes(n: float) -> str:
    """1.5 GiB and the like."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n) < 1024:
            if unit == "B":
                return f"{n:.0f} {unit}"
            return f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TiB"


def _duration(operations: float) -> str:
    if not math.isfinite(operations):
        return "the model's"
    seconds = operations / OPERATIONS_PER_SECOND
    if seconds < 600:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min"
