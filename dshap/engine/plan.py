"""The plan of a run: tiles on both axes, stages, bytes and cost.  A value that is printed, checked and stored.

It follows from shapes, options and seed alone, never from the number or memory of workers: these can only refuse it.
"""

from __future__ import annotations

import bisect
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dshap.engine.noise import N_REPLICATES
from dshap.errors import DoesNotFitError, InputError
from dshap.models import KernelModel
from dshap.options import RunOptions
from dshap.types import N_ENDS, Design, PairedForm, RowReader, ValueFunction, n_partial_sums

__all__ = ["Plan", "Stage", "check_stages", "fit_stages", "format_bytes", "make_plan", "spans", "stage_lines"]

OPERATIONS_PER_SECOND = 1.5e10
"""What one core does on the small matrix products of this program; only steers tile sizes and the printed cost."""
TASK_SECONDS = 2.0
"""Length of an evaluation task that is aimed at: 2.4 to 3.4 ms of scheduling are then nothing."""
SHORT_TASK_SECONDS = 0.25
MAX_INSTANCE_TILE, MIN_INSTANCE_TILE, SMALLEST_TILE = 32_768, 256, 64
WANTED_TASKS = 32
"""Evaluation tasks that keep a small cluster busy to the end, where the table is small."""
STAGE_OPTIONS = {"moments": "coalition_tile", "evaluation": "instance_tile"}
"""The option that lowers a stage's bytes."""
MAX_CHUNK = 4_096
ROW_SPAN = 65_536
MOMENT_TILE_BYTES = 32 << 20
SCORE_BYTES = 64 << 20
"""Scores of the coalitions of a black box's tile, those of their groups counted, at most."""
MAX_COALITION_TILE = 512
MAX_BLACK_BOX_TILE = 8_192
BLACK_BOX_TILE, BLACK_BOX_TASKS = 16, 8
"""Rows of an instance tile of a black box at least, and tasks below which its coalitions are cut into groups."""
WANTED_LEAVES = 4
"""Tasks of the moments that share the work, where the data are few spans."""
MOMENT_TILE_SECONDS = 240.0
"""Of one core, at most, for the moments of one coalition tile: what a crash loses."""
MICRO_BYTES = 8 << 20
"""Kernel factors of a micro-block stay near the cache."""
MICRO_STATE_BYTES = 64 << 20
"""Of a micro-block, at most, where the state is larger than the cache: every micro-block reads it anew."""
OVERHEAD_BYTES = 8 << 20
"""Messages, codecs and the allocator's rounding in a worker at work."""
TUNE_BYTES = 32 << 20
"""What a design takes to choose from a pilot."""
VALUE_BYTES = 64 << 20
"""Values of all coalitions of an instance tile, at most, where rounds keep them."""
PILOT_ROWS, PILOT_SHARE, LEAST_PILOT = 16, 16, 3
"""A pilot takes one row in so many, at most 16 of them and three at least, where there are three (two of six different
rows leave a third more error than all six, and at times a multiple); four times as many where it asks for a quarter of
the coalitions."""
GROUP_BYTES = 16 << 20
"""Sums of all jackknife groups of an instance tile, at most; a task holds `GROUP_ARRAYS` arrays of that size."""
GROUP_ARRAYS = 6
CACHE_BYTES = 256 << 20
"""States of a run are kept in the worker's memory where all of them fit in this."""


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

    @property
    def instance_spans(self) -> list[tuple[int, int]]:
        return spans(0, self.n_rows, self.instance_tile)

    @property
    def coalition_spans(self) -> list[tuple[int, int]]:
        """Tiles of the proper coalitions; the two ends of a design are in none.  A closed form has one empty tile."""
        if self.is_closed_form:
            return [(N_ENDS, N_ENDS)]
        edges = sorted({N_ENDS, *self.stage_coalitions, self.pilot_coalitions or N_ENDS})
        return [span for ends in itertools.pairwise(edges) for span in spans(*ends, self.coalition_tile)]

    @property
    def stage_tiles(self) -> list[list[int]]:
        """Coalition tiles that each round adds."""
        ends = [stop for _, stop in self.coalition_spans]
        cuts = [0, *(bisect.bisect_right(ends, stop) for stop in self.stage_coalitions)]
        return [list(range(a, b)) for a, b in itertools.pairwise(cuts)]

    def first_tiles(self, n_coalitions: int) -> list[int]:
        """The coalition tiles of the first coalitions, whole tiles of them."""
        return [tile for tile, (_, stop) in enumerate(self.coalition_spans) if stop <= n_coalitions]

    def pilot_positions(self, n_coalitions: int) -> list[int]:
        """Rows, evenly spaced, that a pilot of the first coalitions sees: as many more as they are fewer."""
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
        check_stages(self.stages, memory_limit, threads, idle_bytes + self.cache_bytes + OVERHEAD_BYTES, remedy)

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
            f"tiles: {self.instance_tile:,} rows (chunks of {self.chunk_rows:,}, micro-blocks of {self.micro_rows}) × "
            f"{self.coalition_tile} coalitions in {self.coalition_groups} group"
            f"{'s' if self.coalition_groups > 1 else ''}; sums over spans of {self.row_span:,} rows"
        )
        return "\n".join(lines + [f"{choice}: {why}" for choice, why in self.reasons])


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
    tune = model.tune_bytes(reader.n_rows, n_columns, n_outputs)
    held = (2 + n_partial_sums(n_spans)) * model.moment_bytes(n_outputs)
    sums = max(model.moment_task_bytes(n_columns, n_outputs), model.solve_bytes(n_outputs)) + held
    operations = reader.n_rows * (2.0 * p * n_columns * 8 + model.row_operations(n_outputs))
    return (
        Stage("tune", 1, read + tune, 0.0, "rows", "kernel, features", "none"),
        Stage("fit", n_spans * model.n_passes, read + sums, model.n_passes * operations, "rows", "state/model-*",
              "fit"),
        Stage("score", n_spans if model.holdout else 0, read + model.predict_bytes(n_outputs),
              2.0 * reader.n_rows * p * model.holdout, "held-out rows", "score", "fit"),
    )  # fmt: skip


def spans(start: int, stop: int, step: int) -> list[tuple[int, int]]:
    """Consecutive (a, b) from start to stop, each `step` long but the last."""
    return [(a, min(a + step, stop)) for a in range(start, stop, step)]


def make_plan(
    value: ValueFunction,
    design: Design,
    rows: RowReader,
    data: RowReader,
    options: RunOptions,
    reasons: tuple[tuple[str, str], ...] = (),
    *,
    is_prepared: bool = False,
) -> Plan:
    """The plan of explaining `rows` by a value function that learns from `data`, or did so before (`is_prepared`)."""
    if design.n_players != value.n_players:
        raise InputError(
            f"the design has {design.n_players} players, the value function {value.n_players} "
            f"({', '.join(value.player_names[:6])}…): make the design with n_players={value.n_players}"
        )
    proper, n_outputs = design.n_coalitions - N_ENDS, len(value.link.outputs(value.output_names))
    n_replicates = (design.n_replicates or N_REPLICATES) if options.stochastic else design.n_replicates
    row_groups = 8 * n_replicates * design.n_players * n_outputs / GROUP_BYTES
    held = design.n_coalitions if options.tol else design.held_coalitions
    row_values = 8 * held * n_outputs / VALUE_BYTES
    row_pairs = 8 * design.n_players**2 * n_outputs / VALUE_BYTES if options.interactions else 0.0
    instance_tile = _instance_tile(value, rows.n_rows, proper, max(row_groups, row_values, row_pairs), options)
    n_instance_tiles = math.ceil(rows.n_rows / instance_tile)
    is_black_box = not value.needs_moments and not math.isfinite(value.operations(1, proper))
    wanted = BLACK_BOX_TASKS if is_black_box else _wanted_tasks(value, rows.n_rows, proper)
    tile = options.coalition_tile
    if tile is None and is_black_box:
        tile = _black_box_tile(value, design, proper, math.ceil(wanted / n_instance_tiles))
    tile = tile or _coalition_tile(value, proper, data.n_rows)
    n_tiles = max(1, math.ceil(proper / tile))
    groups = options.coalition_groups or (1 if 2 * n_instance_tiles >= wanted else math.ceil(wanted / n_instance_tiles))
    groups = 1 if options.tol else min(groups, n_tiles)
    state_bytes = sum(value.state_bytes(b - a) for a, b in spans(0, proper, tile) or [(0, 0)])
    is_kept = value.needs_moments and state_bytes <= CACHE_BYTES
    joined = max(1, min(MAX_COALITION_TILE // tile, math.ceil(n_tiles / groups))) if is_kept and not options.tol else 1
    if is_black_box and n_tiles == 1 and not options.tol:
        joined = 2  # the pilot's coalitions are a tile of their own
    plan = Plan(
        n_rows=rows.n_rows,
        data_rows=data.n_rows,
        n_players=design.n_players,
        n_outputs=n_outputs,
        n_replicates=n_replicates,
        n_coalitions=design.n_coalitions,
        pilot_rows=_pilot_rows(rows.n_rows) if design.pilot_coalitions or options.tol else 0,
        pilot_coalitions=design.pilot_coalitions,
        instance_tile=instance_tile,
        chunk_rows=_chunk_rows(instance_tile),
        micro_rows=options.micro_rows
        or _micro_rows(value, min(tile * joined, max(1, proper)), instance_tile, options.interactions),
        coalition_tile=tile,
        coalition_groups=groups,
        join_tiles=joined,
        row_span=options.row_span or ROW_SPAN,
        cache_bytes=state_bytes if is_kept else 0,
        tol=options.tol,
        stochastic=options.stochastic,
        interactions=options.interactions,
        stage_coalitions=tuple(own.n_coalitions for own in design.stages) if options.tol else (design.n_coalitions,),
        is_closed_form=value.is_closed_form,
        stages=(),
        reasons=reasons,
    )
    stages = _stages(plan, value, design, rows, data, options)
    learning = ("landmarks", "base", "moments")
    return replace(plan, stages=tuple(own for own in stages if not (is_prepared and own.name in learning)))


def _pilot_rows(n_rows: int) -> int:
    return min(PILOT_ROWS, max(n_rows // PILOT_SHARE, min(n_rows, LEAST_PILOT)))


def _coalition_tile(value: ValueFunction, proper: int, data_rows: int) -> int:
    """Coalitions prepared together: moments and state within a bound, and enough tiles to share among workers."""
    size = max(value.moment_bytes(2) + value.state_bytes(2), 1) / 2
    fits = int(MOMENT_TILE_BYTES // size)
    n_tiles = WANTED_TASKS
    if value.needs_moments:  # every tile computes the kernel anew: no more of them than there is work for
        seconds = value.moment_operations(data_rows, proper) / OPERATIONS_PER_SECOND
        shared = min(WANTED_LEAVES, max(1, int(seconds))) / math.ceil(data_rows / ROW_SPAN)
        n_tiles = math.ceil(max(shared, seconds / MOMENT_TILE_SECONDS))
    tile = max(1, min(fits, MAX_COALITION_TILE, max(math.ceil(proper / n_tiles), 2)))
    return tile - tile % 2 if tile > 1 else 1  # pairs of complements stay together


def _black_box_tile(value: ValueFunction, design: Design, proper: int, n_groups: int) -> int:
    """As many coalitions as can be together: rows that several of them need are predicted once."""
    scores = (design.block_bytes(proper) - design.block_bytes(0)) / max(proper, 1)
    fits = int(min(MOMENT_TILE_BYTES // max(value.state_bytes(2) / 2, 1), SCORE_BYTES // max(scores, 1)))
    tile = max(1, min(fits, MAX_BLACK_BOX_TILE, math.ceil(proper / n_groups)))
    return tile - tile % 2 if tile > 1 else 1


def _wanted_tasks(value: ValueFunction, n_rows: int, proper: int) -> int:
    """Evaluation tasks that keep workers busy to the end: many, but none of less than `SHORT_TASK_SECONDS`."""
    seconds = value.operations(n_rows, proper) / OPERATIONS_PER_SECOND
    return WANTED_TASKS if not math.isfinite(seconds) else max(1, min(WANTED_TASKS, int(seconds / SHORT_TASK_SECONDS)))


def _instance_tile(value: ValueFunction, n_rows: int, proper: int, row_share: float, options: RunOptions) -> int:
    """Rows of an evaluation task: about `TASK_SECONDS` of one core, and enough tasks where the table allows.

    `row_share` is what one row takes of the bytes that a tile may hold.
    """
    if options.instance_tile:
        return options.instance_tile
    per_row = value.operations(1, proper)
    by_cost = TASK_SECONDS * OPERATIONS_PER_SECOND / per_row if math.isfinite(per_row) and per_row > 0 else 0.0
    wanted = _wanted_tasks(value, n_rows, proper)
    smallest = SMALLEST_TILE if math.isfinite(per_row) else BLACK_BOX_TILE
    rows = min(MAX_INSTANCE_TILE, max(MIN_INSTANCE_TILE, by_cost), max(smallest, n_rows / wanted))
    tile = int(2 ** math.ceil(math.log2(rows)))
    while tile > BLACK_BOX_TILE and tile * row_share > 1.0:
        tile //= 2
    return tile


def _chunk_rows(tile: int) -> int:
    """The largest divisor of a tile that is no more than `MAX_CHUNK`: whole chunks fill a shard."""
    return next(rows for rows in range(min(tile, MAX_CHUNK), 0, -1) if tile % rows == 0)


def _micro_rows(value: ValueFunction, tile: int, instance_tile: int, interactions: bool) -> int:
    """The largest power of two of 64 to 1,024 rows whose evaluation stays near the cache, or in its state's bytes; of
    one to 1,024 where a closed form gives interactions."""
    bound = max(MICRO_BYTES, min(value.state_bytes(tile), MICRO_STATE_BYTES))
    rows = min(1_024, instance_tile)
    while rows > 64 and value.task_bytes(rows, tile) > bound:
        rows //= 2
    while rows > 1 and interactions and _pair_bytes(value, rows) > bound:
        rows //= 2
    return rows


def _pair_bytes(value: ValueFunction, rows: int) -> int:
    """What a closed form takes for its interactions; 0 where they are sums over coalitions."""
    return value.interaction_bytes(rows) if isinstance(value, PairedForm) else 0


def _stages(
    plan: Plan, value: ValueFunction, design: Design, rows: RowReader, data: RowReader, options: RunOptions
) -> tuple[Stage, ...]:
    proper = plan.n_coalitions - N_ENDS
    n_spans, n_tiles = len(plan.data_spans), len(plan.coalition_spans)
    span = min(plan.row_span, plan.data_rows)
    data_bytes = data.read_bytes(span) + 2 * 8 * span * value.n_columns
    out = [
        Stage(
            "census", len(spans(0, plan.n_rows, ROW_SPAN)), _census_bytes(plan, rows), 0.0, "rows", "digests", "none"
        ),
        Stage("base", n_spans, data_bytes + _predict_bytes(value, span), 0.0, "data", "state/base-*", "stage"),
    ]
    if value.sample_size:
        n_sample = min(value.sample_size, plan.data_rows)
        out.insert(
            1,
            Stage(
                "landmarks", 1, data_bytes + 4 * 8 * n_sample * value.n_columns, 0.0,
                "data", "state/landmarks-*", "stage",
            ),
        )  # fmt: skip
    if value.needs_moments:
        tile = min(plan.coalition_tile, proper)
        held = (2 + n_partial_sums(n_spans)) * value.moment_bytes(tile)  # of other tiles, and of a tree
        leaf = data_bytes + value.moment_task_bytes(span, tile)
        finish = value.prepare_bytes(tile) + 2 * value.state_bytes(tile)  # the file's bytes beside the arrays
        out.append(
            Stage(
                "moments", n_spans * n_tiles, max(leaf, finish) + held, value.moment_operations(plan.data_rows, proper),
                "data", "state/moments-*", "coalition tile",
            )
        )  # fmt: skip
    if plan.pilot_rows:
        games = plan.pilot_rows * plan.n_outputs
        tile = max(1, min(plan.coalition_tile, proper))
        pilot = 3 * 8 * games * plan.n_coalitions + TUNE_BYTES + design.block_bytes(plan.n_coalitions)
        pilot += value.task_bytes(1, tile) + value.state_bytes(tile)
        out.append(
            Stage(
                "pilot", 1, rows.read_bytes(1) + pilot, value.operations(plan.pilot_rows, proper),
                "rows, state", "state/pilot-*", "stage",
            )
        )  # fmt: skip
    n_groups = plan.coalition_groups
    out.append(
        Stage(
            "evaluation",
            len(plan.instance_spans) * (n_groups + 1 if n_groups > 1 else 1),
            _evaluation_bytes(plan, value, design, rows, options) + (data_bytes if value.streams_data else 0),
            value.operations(plan.n_rows, proper),
            "rows, state",
            "attribution, receipts",
            "instance tile" if n_groups == 1 else "coalition group",
        )
    )
    return tuple(out)


def _census_bytes(plan: Plan, rows: RowReader) -> int:
    span = min(plan.n_rows, ROW_SPAN)
    return rows.read_bytes(span) + 3 * 8 * span * len(rows.feature_names)


def _predict_bytes(value: ValueFunction, n: int) -> int:
    return 2 * 8 * n * value.n_outputs + value.task_bytes(min(n, 256), 1)


def _evaluation_bytes(plan: Plan, value: ValueFunction, design: Design, rows: RowReader, options: RunOptions) -> int:
    """Rows twice, sums and their finish (four arrays of attributions), what is written, one state, one micro-block."""
    n = min(plan.instance_tile, plan.n_rows)
    tile = max(1, min(plan.coalition_tile * plan.join_tiles, plan.n_coalitions - N_ENDS))
    cell = plan.n_players * plan.n_outputs
    groups = GROUP_ARRAYS * 8 * plan.n_replicates * n * cell * (2 if plan.stochastic else 1)
    chosen = 8 * min(plan.micro_rows, n) * tile * plan.n_outputs if plan.n_replicates else 0  # values of one group
    pairs = (8 * n * cell + 4 * tile) * 4 * plan.n_players if plan.interactions else 0
    stored = 2 * (2 if plan.n_replicates else 1) * n * cell * (8 if options.dtype == "float64" else 4)
    linked = 0 if value.link.is_identity else 5 * 8 * min(plan.micro_rows, n) * tile * value.n_outputs
    held = plan.n_coalitions if plan.tol else design.held_coalitions
    state = value.state_bytes(tile)  # beside the states that are kept: their parts, while they are joined
    return int(
        rows.read_bytes(n)
        + 2 * 8 * n * value.n_columns
        + value.row_bytes(n, tile)
        + 4 * 8 * n * cell
        + groups
        + design.block_bytes(held or tile)
        + chosen
        + pairs
        + (_pair_bytes(value, min(plan.micro_rows, n)) if plan.interactions else 0)
        + 3 * 8 * n * held * plan.n_outputs
        + stored
        + state
        + max(_predict_bytes(value, n), value.task_bytes(min(plan.micro_rows, n), tile) + linked)
    )


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
