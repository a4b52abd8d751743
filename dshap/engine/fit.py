"""Fitting a model on all rows: a sample, passes of sums over spans of rows in a fixed tree, and a held-out score."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from dshap.engine.graph import Call, Executor, Reduction
from dshap.engine.progress import Progress
from dshap.engine.stages import OVERHEAD_BYTES, check_stages, fit_stages, spans
from dshap.models import KernelModel, Step
from dshap.models.rows import SPAN
from dshap.rows import read_sample
from dshap.types import FloatArray, Moments, RowReader

__all__ = ["fit_model"]

AnyModel = TypeVar("AnyModel", bound=KernelModel)


def fit_model(executor: Executor, model: AnyModel, reader: RowReader, progress: Progress) -> AnyModel:
    """The fitted model: the same bits as `model.fit` on the same rows in one process.

    Raises
    ------
    DoesNotFitError
        Where a worker cannot hold the sums: said when the sample has told how many outputs there are.
    """
    cut = spans(0, reader.n_rows, SPAN)
    progress.begin("fit", 1 + model.n_passes + bool(model.holdout), "passes")
    limits = (executor.memory_limit, executor.n_threads)
    step: Any = _one(executor, (model, reader), Reduction("tune", (), Call(_tune, limits)))
    while not isinstance(step, KernelModel):
        progress.advance()
        leaves = tuple(Call(_moments, span) for span in cut)
        step = _one(executor, (step, reader), Reduction("sums", leaves, Call(_solve)))
    fitted: AnyModel = step  # type: ignore[assignment]
    progress.advance()
    if model.holdout:
        leaves = tuple(Call(_score_moments, span) for span in cut)
        fitted.held_out_score(_one(executor, (fitted, reader), Reduction("score", leaves, Call(_total))))
        progress.advance()
    progress.end()
    fitted.warn_unless_converged()
    return fitted


def _one(executor: Executor, context: Any, reduction: Reduction) -> Any:
    results: list[Any] = []
    executor.run(context, [reduction], lambda _, result: results.append(result))
    return results[0]


def _tune(context: tuple[KernelModel, RowReader], _: None, memory_limit: int | None, threads: int) -> Step:
    model, reader = context
    sample = read_sample(reader, model.sample_size, model.seed, SPAN, target=True)
    stages = fit_stages(model, reader, model.count_outputs(sample["target"]))
    check_stages(stages, memory_limit, threads, OVERHEAD_BYTES, "ask for fewer landmarks or features, merge classes")
    return model.tuned(sample["x"], sample["target"], sample["position"], feature_names=reader.feature_names)


def _moments(context: tuple[Step, RowReader], start: int, stop: int) -> Moments:
    step, reader = context
    block = reader.read(start, stop, target=True)
    return step.moments(block.x, _target(block), np.arange(start, stop))


def _solve(context: tuple[Step, RowReader], total: Moments) -> Step | KernelModel:
    return context[0].solve(total)


def _score_moments(context: tuple[KernelModel, RowReader], start: int, stop: int) -> Moments:
    fitted, reader = context
    block = reader.read(start, stop, target=True)
    return fitted.score_moments(block.x, _target(block), np.arange(start, stop))


def _total(_: Any, total: Moments) -> Moments:
    return total


def _target(block: Any) -> FloatArray:
    if block.target is None:
        raise ValueError("the reader was opened without a target")
    return np.asarray(block.target)
