"""Stages of a run: their tasks, bytes and operations; refused where workers cannot hold them, printed as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dshap.errors import DoesNotFitError
from dshap.models import KernelModel
from dshap.records import n_partial_sums
from dshap.types import RowReader

__all__ = [
    "OPERATIONS_PER_SECOND",
    "OVERHEAD_BYTES",
    "ROW_SPAN",
    "Stage",
    "check_stages",
    "fit_stages",
    "format_bytes",
    "spans",
    "stage_lines",
]

OPERATIONS_PER_SECOND = 1.5e10
"""What one core does on the small matrix products of this program; only steers tile sizes and the printed cost."""
OVERHEAD_BYTES = 8 << 20
"""Messages, codecs and the allocator's rounding in a worker at work."""
ROW_SPAN = 65_536
"""Rows of a table that one task of a pass reads."""


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


def spans(start: int, stop: int, step: int) -> list[tuple[int, int]]:
    """Consecutive (a, b) from start to stop, each `step` long but the last."""
    return [(a, min(a + step, stop)) for a in range(start, stop, step)]


def fit_stages(model: KernelModel, reader: RowReader, n_outputs: int = 1) -> tuple[Stage, ...]:
    """The stages of fitting a model on all rows, before features and length-scales are chosen.

    Parameters
    ----------
    model : KernelModel
    reader : RowReader
    n_outputs : int
        Columns of the target, or its classes.
    """
    span, n_columns = min(ROW_SPAN, reader.n_rows), len(reader.feature_names)
    n_spans = len(spans(0, reader.n_rows, ROW_SPAN))
    p, read = model.embedding.n_features, reader.read_bytes(span) + 16 * span * (n_columns + n_outputs)
    cost = model.cost(reader.n_rows, n_columns, n_outputs)
    held = (2 + n_partial_sums(n_spans)) * cost.sum_bytes
    sums = max(cost.partial_bytes, cost.solve_bytes) + held
    operations = reader.n_rows * (2.0 * p * n_columns * 8 + cost.row_operations)
    return (
        Stage("tune", 1, read + cost.tune_bytes, 0.0, "rows", "kernel, features", "none"),
        Stage("fit", n_spans * model.n_passes, read + sums, model.n_passes * operations, "rows", "state/model-*",
              "fit"),
        Stage("score", n_spans if model.holdout else 0, read + cost.score_bytes,
              2.0 * reader.n_rows * p * model.holdout, "held-out rows", "score", "fit"),
    )  # fmt: skip


def check_stages(stages: Sequence[Stage], memory_limit: int | None, threads: int, idle_bytes: int, remedy: str) -> None:
    """Refuse stages that a worker with this limit cannot hold; `remedy` is the option to change."""
    if memory_limit is None:
        return
    largest = max(stages, key=lambda stage: stage.task_bytes)
    needed = largest.task_bytes * threads + idle_bytes
    if needed > memory_limit:
        raise DoesNotFitError(
            f"stage {largest.name} needs {format_bytes(needed)} on a worker of {threads} "
            f"thread{'s' if threads > 1 else ''} ({format_bytes(idle_bytes)} of it held throughout) but workers have "
            f"{format_bytes(memory_limit)}: {remedy} or give workers more memory"
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
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TiB"


def _duration(operations: float) -> str:
    if not math.isfinite(operations):
        return "the model's"
    seconds = operations / OPERATIONS_PER_SECOND
    return f"{seconds:.1f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
