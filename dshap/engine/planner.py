"""`make_plan`: cuts the tiles, then sums the bytes and operations of each stage of a run."""

from __future__ import annotations

import math
from dataclasses import replace

from dshap.attributors.enough import (
    BLOCK_ROWS,
    JUDGED_ROWS,
    PARTS,
    judged_design,
    judged_tile,
    may_judge,
)
from dshap.attributors.tiling import Tiling
from dshap.core.blocks import N_ENDS
from dshap.core.capabilities import Work
from dshap.core.errors import InputError
from dshap.core.options import RunOptions
from dshap.core.records import n_partial_sums
from dshap.core.rows import SPAN_ROWS, spans
from dshap.core.types import RowReader
from dshap.engine.plan import PILOT_ROWS, Plan, Stage
from dshap.engine.tiles import cut_tiles

PILOT_SHARE = 16
LEAST_PILOT = 3
"""A pilot uses one row in `PILOT_SHARE`, but at least `LEAST_PILOT` and at most `PILOT_ROWS` rows.

Two of six different rows gave errors a third larger than all six, and at times several times as
large.  A pilot that asks for a quarter of the coalitions sees four times as many rows.
"""
TUNE_BYTES = 32 << 20
"""Bytes that a design needs to make its choices from a pilot."""
GROUP_ARRAYS = 6
"""Number of arrays in the memory of a task, each as large as the sums of all jackknife groups."""


def make_plan(
    work: Work,
    rows: RowReader,
    data: RowReader | None,
    options: RunOptions,
    reasons: tuple[tuple[str, str], ...] = (),
    *,
    data_rows: int = 0,
    noise_replicates: int = 0,
) -> Plan:
    """The plan of explaining `rows` with what is learned from `data`.

    When `data` is None it has been learned already, from `data_rows` rows.  `noise_replicates` is
    the number of replicates for the noise of a stochastic model, where the design has none.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.core.capabilities import Work
    >>> from dshap.core.options import RunOptions
    >>> from dshap.engine import make_plan
    >>> from dshap.sources import ArraySource
    >>> x = np.random.default_rng(0).normal(size=(1000, 3))
    >>> value = dshap.values.Marginal(lambda x: x[:, 0] * x[:, 1], x[:50])
    >>> work = Work.of(value, dshap.designs.exact(3))
    >>> plan = make_plan(work, ArraySource(x), ArraySource(x[:50]), RunOptions())
    >>> plan.n_rows, plan.n_coalitions, [stage.name for stage in plan.stages]
    (1000, 8, ['census', 'base', 'evaluation'])
    """
    info = work.info
    players = work.value.players
    if info.n_players != len(players):
        n = len(players)
        if info.has_graph:
            anew = f"make its graph of {n} players"
        else:
            anew = f"make the design with n_players={n}"
        raise InputError(
            f"the design has {info.n_players} players, the value function {n} "
            f"({', '.join(players.names[:6])}…): {anew}"
        )
    if data is not None:
        data_rows = data.n_rows
    if data is not None and work.learns:
        work.check_data(data_rows)
    tiling = tiling_of(work, rows.n_rows, data_rows, options, noise_replicates)
    plan = Plan(
        **vars(tiling),
        n_rows=rows.n_rows,
        n_players=info.n_players,
        pilot_rows=_pilot_rows(rows.n_rows) if work.pilot_coalitions or options.tol else 0,
        stages=(),
        reasons=reasons,
    )
    if data is None:
        learning = []
    else:
        learning = _learning(plan, work, data)
    if plan.pilot_rows:
        pilot = [_pilot(plan, work, rows)]
    else:
        pilot = []
    if plan.learns_range:
        bounds = [_range(plan, work, rows)]
    else:
        bounds = []
    last = _evaluation(plan, work, rows, data, options)
    return replace(plan, stages=(_census(plan, rows), *learning, *bounds, *pilot, last))


def tiling_of(
    work: Work, n_rows: int, data_rows: int, options: RunOptions, noise_replicates: int = 0
) -> Tiling:
    """Cut the tiles of explaining `n_rows` rows with what is learned from `data_rows` rows."""
    info = work.info
    value = work.value
    n_replicates = info.n_replicates or noise_replicates or work.draw_replicates
    has_floor = options.stochastic or (info.n_replicates > 0 and not info.is_whole)
    return Tiling(
        **cut_tiles(work, n_rows, data_rows, n_replicates, options),
        data_rows=data_rows,
        n_outputs=len(value.link.outputs(value.model.output_names)),
        n_replicates=n_replicates,
        n_coalitions=info.n_coalitions,
        pilot_coalitions=work.pilot_coalitions,
        row_span=options.row_span or SPAN_ROWS,
        tol=options.tol,
        stage_coalitions=work.stage_coalitions if options.tol else (info.n_coalitions,),
        stochastic=options.stochastic,
        interactions=options.interactions,
        is_closed_form=work.is_closed_form,
        learns_range=not work.is_closed_form and has_floor,
        draw_replicates=work.draw_replicates,
    )


def _pilot_rows(n_rows: int) -> int:
    return min(PILOT_ROWS, max(n_rows // PILOT_SHARE, min(n_rows, LEAST_PILOT)))


def _census(plan: Plan, rows: RowReader) -> Stage:
    """The census stage: a task needs one span, a flag for each value, and one column twice."""
    n_spans = len(spans(0, plan.n_rows))
    span = min(plan.n_rows, SPAN_ROWS)
    values_and_flags = (8 + 1) * span * len(rows.feature_names)
    column_twice = 2 * 8 * span
    task_bytes = rows.read_bytes(span) + values_and_flags + column_twice
    return Stage("census", n_spans, task_bytes, 0.0, "rows", "digests", "none")


def _learning(plan: Plan, work: Work, data: RowReader) -> list[Stage]:
    """The learning stages: landmarks from a sample, the base value, moments of coalition tiles.

    A worker may still have in memory the parts of a sample, and the messages that they came in,
    beside it.
    """
    model = work.value.model
    read = _data_bytes(plan, work, data)
    stages = []
    if work.sample_size:
        sample_rows = min(work.sample_size, plan.data_rows)
        held = read + 6 * 8 * sample_rows * model.n_columns
        stages.append(Stage("landmarks", 1, held, 0.0, "data", "state/landmarks-*", "stage"))
    if work.judges and may_judge(plan.data_rows):
        stages.append(_enough(plan, work, read))
    n_spans = len(plan.data_spans)
    span = min(plan.row_span, plan.data_rows)
    if work.sums_predictions:
        held = read + model.predict_bytes(span)
        predictions = float(plan.data_rows)
        stages.append(
            Stage("base", n_spans, held, 0.0, "data", "state/base-*", "stage", predictions)
        )
    if work.learns:
        stages.append(_moments(plan, work, read))
    return stages


def _enough(plan: Plan, work: Work, read: int) -> Stage:
    """The stage that decides how many rows are learned from, with the tasks of the first decision.

    A task collects a block of rows with their predictions; or it sums over a block, or judges a
    tile of coalitions.  A worker also has in memory the sums of all parts, those of all rows, those
    without one part, and those that arrive.
    """
    model = work.value.model
    rows = min(BLOCK_ROWS, plan.data_rows)
    block = 8 * rows * (model.n_columns + len(model.output_names))
    collecting = read + model.predict_bytes(rows) + 3 * block
    coalitions = judged_tile(plan.coalition_tile)
    tile = work.cost(coalitions, rows)
    summing = 3 * block + tile.moment_task_bytes
    evaluating = tile.state_bytes + work.cost(coalitions, JUDGED_ROWS).task_bytes
    sums = (PARTS + 3) * tile.moment_bytes
    judging = max(summing, tile.prepare_bytes, evaluating) + sums
    n_tiles = math.ceil((judged_design(plan.n_players).info.n_coalitions - N_ENDS) / coalitions)
    return Stage(
        "enough",
        PARTS * n_tiles,
        max(collecting, judging),
        0.0,
        "data",
        "state/enough-*",
        "stage",
    )


def _moments(plan: Plan, work: Work, read: int) -> Stage:
    """The moments stage: a task sums over a span of the data, or prepares a coalition tile.

    It also has in memory sums of other tiles and of the tree, and the state twice: as arrays and as
    the bytes of its file.
    """
    proper = plan.n_coalitions - N_ENDS
    n_spans = len(plan.data_spans)
    coalitions = min(plan.coalition_tile, proper)
    span = min(plan.row_span, plan.data_rows)
    tile = work.cost(coalitions, span)
    of_sums = read + tile.moment_task_bytes
    of_state = tile.prepare_bytes + 2 * tile.state_bytes
    other_sums = (2 + n_partial_sums(n_spans)) * tile.moment_bytes
    task_bytes = max(of_sums, of_state) + other_sums
    operations = work.cost(proper, plan.data_rows).moment_operations
    n_tasks = n_spans * len(plan.coalition_spans)
    if plan.kept_spans:
        grain = f"{plan.kept_spans:,} spans of a coalition tile"
    else:
        grain = "coalition tile"
    return Stage("moments", n_tasks, task_bytes, operations, "data", "state/moments-*", grain)


def _range(plan: Plan, work: Work, rows: RowReader) -> Stage:
    """The range stage: the smallest and the largest prediction, one tile of rows at a time."""
    model = work.value.model
    n_spans = len(plan.range_spans)
    span = min(plan.row_span, plan.n_rows)
    tile = min(plan.instance_tile, span)
    rows_twice = 2 * 8 * span * model.n_columns
    task_bytes = rows.read_bytes(span) + rows_twice + model.predict_bytes(tile)
    predictions = float(plan.n_rows)
    return Stage("range", n_spans, task_bytes, 0.0, "rows", "state/range-*", "stage", predictions)


def _pilot(plan: Plan, work: Work, rows: RowReader) -> Stage:
    proper = plan.n_coalitions - N_ENDS
    coalitions = max(1, min(plan.coalition_tile, proper))
    tile = work.cost(coalitions)
    values = 3 * 8 * plan.pilot_rows * plan.n_outputs * plan.n_coalitions
    of_design = TUNE_BYTES + work.info.block_bytes(plan.n_coalitions)
    of_tile = tile.task_bytes + tile.state_bytes
    task_bytes = rows.read_bytes(1) + values + of_design + of_tile
    cost = work.cost(proper, plan.pilot_rows)
    predictions = cost.predictions + plan.pilot_rows
    return Stage(
        "pilot",
        1,
        task_bytes,
        cost.operations,
        "rows, state",
        "state/pilot-*",
        "stage",
        predictions,
    )


def _evaluation(
    plan: Plan, work: Work, rows: RowReader, data: RowReader | None, options: RunOptions
) -> Stage:
    proper = plan.n_coalitions - N_ENDS
    task_bytes = _evaluation_bytes(plan, work, rows, options)
    if work.streams and data is not None:
        task_bytes += _data_bytes(plan, work, data)
    if plan.coalition_groups == 1:
        grain = "instance tile"
        tile_tasks = 1
    else:  # one more adds the groups up
        grain = "coalition group"
        tile_tasks = plan.coalition_groups + 1
    cost = work.cost(proper, plan.n_rows)
    return Stage(
        name="evaluation",
        n_tasks=plan.n_instance_tiles * tile_tasks,
        task_bytes=task_bytes,
        operations=cost.operations,
        reads="rows, state",
        makes="attribution, receipts",
        grain=grain,
        predictions=cost.predictions + plan.n_rows,
    )


def _evaluation_bytes(plan: Plan, work: Work, rows: RowReader, options: RunOptions) -> int:
    """Peak bytes of an evaluation task.

    They are the rows twice, the sums and their finish (four arrays of attributions), what is
    written, one state and one micro-block.
    """
    model = work.value.model
    n = min(plan.instance_tile, plan.n_rows)
    micro = min(plan.micro_rows, n)
    joined = plan.coalition_tile * plan.join_tiles
    # the peaks of these sums are compared with measured ones in tests/engine/test_memory.py: an
    # array that a task gains has to be counted here too
    m = max(1, min(joined, plan.n_coalitions - N_ENDS))
    block = work.cost(m, micro)
    cell = plan.n_players * plan.n_outputs
    copies = 2
    held = work.held_coalitions
    value_copies = 3
    if plan.tol:  # with rounds also the rows that are left, and their values
        copies = 3
        held = plan.n_coalitions
        value_copies = 4 * (1 + plan.draw_replicates)
    numbers = copies * n * model.n_columns
    numbers += 4 * n * cell  # the sums and their finish
    numbers += value_copies * n * held * plan.n_outputs
    groups = GROUP_ARRAYS * plan.n_replicates * n * cell
    if plan.stochastic:
        groups *= 2
    if plan.draw_replicates:
        groups *= 2
    numbers += groups
    if plan.n_replicates:  # values of one jackknife group
        numbers += micro * m * plan.n_outputs
    pairs = 0
    if plan.interactions:
        pairs = (8 * n * cell + 4 * m) * 4 * plan.n_players + block.pair_bytes
    linked = 0
    if not work.value.link.is_identity:
        linked = 5 * 8 * micro * m * len(model.output_names) * (1 + plan.draw_replicates)
    return int(
        rows.read_bytes(n)
        + work.cost(m, n).row_bytes
        + work.info.block_bytes(held or m)
        + 8 * numbers
        + pairs
        + _stored_bytes(n * cell, plan, options)
        + _code_bytes(n, plan, options)
        + block.state_bytes  # parts of a state while they are joined
        + max(model.predict_bytes(n), block.task_bytes + linked)
    )


def _stored_bytes(n_cells: int, plan: Plan, options: RunOptions) -> int:
    """Bytes of the arrays that are written, twice: attributions, and standard errors if there are any."""
    n_arrays = 1
    if plan.n_replicates:
        n_arrays = 2
    number_bytes = 4
    if options.dtype == "float64":
        number_bytes = 8
    return 2 * n_arrays * n_cells * number_bytes


def _code_bytes(n: int, plan: Plan, options: RunOptions) -> int:
    """Bytes of the errors of codes of n rows: sums, differences and squares of pairs, and as stored."""
    if options.codes is None or not plan.n_replicates:
        return 0
    return 4 * 8 * n * len(options.codes) ** 2 * plan.n_outputs


def _data_bytes(plan: Plan, work: Work, data: RowReader) -> int:
    """Bytes of reading one span of the data."""
    span = min(plan.row_span, plan.data_rows)
    return data.read_bytes(span) + 2 * 8 * span * work.value.model.n_columns
