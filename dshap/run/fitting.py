"""Fits of kernel models on a table: their stages, and the passes on any executor."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from dshap.core.records import n_partial_sums
from dshap.core.rows import SPAN_ROWS, sample_positions, spans, spans_with
from dshap.core.types import Pass, RowReader
from dshap.engine import Stage, check_stages
from dshap.engine.learn import run_once
from dshap.engine.plan import OVERHEAD_BYTES
from dshap.models import KernelModel
from dshap.models.passes import Tune, fitted_by_passes
from dshap.run.session import Session


def fit_stages(model: KernelModel, reader: RowReader, n_outputs: int = 1) -> tuple[Stage, ...]:
    """The stages of fitting a model on all rows, before features and length-scales are chosen.

    Parameters
    ----------
    model : KernelModel
    reader : RowReader
    n_outputs : int
        The number of columns of the target, or of its classes.
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
    """Raise a `DoesNotFitError` if a worker with this memory limit (bytes) cannot run the fit."""
    remedy = "ask for fewer landmarks or features, merge classes"
    if model.shapley is not None:
        remedy += ", give the ShapleyPenalty fewer n_coalitions or a smaller embedding"
    check_stages(
        fit_stages(model, reader, n_outputs), memory_limit, threads, OVERHEAD_BYTES, remedy
    )


def fit_models[AnyModel: KernelModel](
    session: Session,
    model: AnyModel,
    reader: RowReader,
    strengths: Sequence[float] | None = None,
) -> tuple[AnyModel, ...]:
    """Fit a model on a table, or one for each of these strengths of its Shapley penalty.

    They are the same bits as `model.fit`, or `model.fit_path`, on its rows in one process.

    Raises
    ------
    DoesNotFitError
        The sums do not fit in a worker's memory; raised once the sample has shown the number of
        outputs.
    """
    executor = session.executor
    progress = session.progress
    path = None
    if strengths is not None:
        path = model.checked_strengths(strengths)
    check = partial(check_fit, model, reader, executor.memory_limit, executor.n_threads)
    positions = sample_positions(reader.n_rows, model.sample_size, model.seed)
    tune = Tune(model, positions, tuple(reader.feature_names), path, check)
    all_spans = spans(0, reader.n_rows)
    sampled_spans = spans_with(positions, all_spans)

    def run(one: Pass) -> Any:
        if one is tune:
            read = sampled_spans
        else:
            read = all_spans
        found = run_once(executor, one, reader, read)
        progress.advance()
        return found

    n_passes = 1 + model.passes(len(reader.feature_names)) + bool(model.holdout)
    progress.begin("fit", n_passes, "passes")
    models = fitted_by_passes(tune, run)
    progress.end()
    for fitted in models:
        fitted.warn_unless_converged()
    return models
