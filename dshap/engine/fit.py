"""Fitting a model on all rows: a sample, sums over spans of rows in a fixed tree, a solve, and a held-out score."""

from __future__ import annotations

from typing import Any

import numpy as np

from dshap.engine.graph import Call, Executor, Reduction
from dshap.engine.plan import spans
from dshap.engine.progress import Progress
from dshap.engine.run import read_sample
from dshap.models import KernelRidge, TunedRidge
from dshap.models.rows import SPAN
from dshap.types import Moments, RowReader

__all__ = ["fit_model"]


def fit_model(executor: Executor, model: KernelRidge, reader: RowReader, progress: Progress) -> KernelRidge:
    """The fitted model: the same bits as `model.fit` on the same rows in one process."""
    cut = spans(0, reader.n_rows, SPAN)
    progress.begin("fit", 3 if model.holdout else 2, "steps")
    tuned = _one(executor, (model, reader), Reduction("tune", (), Call(_tune)))
    progress.advance()
    leaves = tuple(Call(_moments, span) for span in cut)
    fitted: KernelRidge = _one(executor, (tuned, reader), Reduction("sums", leaves, Call(_solve)))
    progress.advance()
    if model.holdout:
        leaves = tuple(Call(_score_moments, span) for span in cut)
        fitted.score(_one(executor, (fitted, reader), Reduction("score", leaves, Call(_total))))
        progress.advance()
    progress.end()
    return fitted


def _one(executor: Executor, context: Any, reduction: Reduction) -> Any:
    results: list[Any] = []
    executor.run(context, [reduction], lambda _, result: results.append(result))
    return results[0]


def _tune(context: tuple[KernelRidge, RowReader], _: None) -> TunedRidge:
    model, reader = context
    sample = read_sample(reader, model.sample_size, model.seed, SPAN, target=True)
    return model.tuned(sample["x"], sample["target"], sample["position"], feature_names=reader.feature_names)


def _moments(context: tuple[TunedRidge, RowReader], start: int, stop: int) -> Moments:
    tuned, reader = context
    block = reader.read(start, stop, target=True)
    return tuned.moments(block.x, _target(block), np.arange(start, stop))


def _solve(context: tuple[TunedRidge, RowReader], total: Moments) -> KernelRidge:
    return context[0].solve(total)


def _score_moments(context: tuple[KernelRidge, RowReader], start: int, stop: int) -> Moments:
    fitted, reader = context
    block = reader.read(start, stop, target=True)
    return fitted.score_moments(block.x, _target(block), np.arange(start, stop))


def _total(_: Any, total: Moments) -> Moments:
    return total


def _target(block: Any) -> np.ndarray:
    if block.target is None:
        raise ValueError("the reader was opened without a target")
    return np.asarray(block.target)
