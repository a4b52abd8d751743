"""Fitting a model on all rows of a table, on any executor."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

import numpy as np

from dshap.engine import check_stages, fit_stages
from dshap.engine.learn import run_pass
from dshap.engine.plan import OVERHEAD_BYTES
from dshap.models import KernelModel
from dshap.models.kernel_model import HeldOut, Tune
from dshap.rows import sample_positions, spans
from dshap.session import Session
from dshap.types import RowReader

__all__ = ["fit_model"]

AnyModel = TypeVar("AnyModel", bound=KernelModel)


def fit_model(session: Session, model: AnyModel, reader: RowReader) -> AnyModel:
    """The fitted model: the same bits as `model.fit` on the same rows in one process.

    Raises
    ------
    DoesNotFitError
        Where a worker cannot hold the sums: said when the sample has told how many outputs there are.
    """
    executor, progress = session.executor, session.progress
    cut = spans(0, reader.n_rows)
    progress.begin("fit", 1 + model.n_passes + bool(model.holdout), "passes")
    positions = sample_positions(reader.n_rows, model.sample_size, model.seed)
    inside = [(a, b) for a, b in cut if np.searchsorted(positions, a) < np.searchsorted(positions, b)]
    check = partial(_check, model, reader, executor.memory_limit, executor.n_threads)
    tune = Tune(model, positions, tuple(reader.feature_names), check)
    first = run_pass(executor, tune, reader, inside, progress.advance, n_passes=1)
    fitted: AnyModel = run_pass(executor, first, reader, cut, progress.advance)
    if model.holdout:
        fitted.held_out_score(run_pass(executor, HeldOut(fitted), reader, cut, progress.advance))
    progress.end()
    fitted.warn_unless_converged()
    return fitted


def _check(model: KernelModel, reader: RowReader, memory_limit: int | None, threads: int, n_outputs: int) -> None:
    stages = fit_stages(model, reader, n_outputs)
    check_stages(stages, memory_limit, threads, OVERHEAD_BYTES, "ask for fewer landmarks or features, merge classes")
