"""What the tables of a job name, as the objects that the library works with."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from dshap import designs, kernels, values
from dshap.engine import format_bytes
from dshap.engine.run import read_sample
from dshap.errors import DoesNotFitError, InputError
from dshap.jobs.schema import Explain, Interventional, Job, KernelRidgeModel, Observational
from dshap.models import KernelExpansion, KernelRidge
from dshap.sources import SPAN_ROWS, ParquetSource
from dshap.types import Design, FloatArray, ValueFunction

__all__ = ["Model", "design_of", "import_function", "open_table", "output_names", "ridge_of", "stand_in", "value_of"]

Model = KernelRidge | KernelExpansion | Callable[[FloatArray], Any]
"""A fitted kernel model, or a predict function."""
KERNELS: Mapping[str, Callable[[Any], kernels.Kernel]] = {
    "rbf": kernels.RBF,
    "laplacian": kernels.Laplacian,
    "matern12": partial(kernels.Matern, 0.5),
    "matern32": partial(kernels.Matern, 1.5),
    "matern52": partial(kernels.Matern, 2.5),
}
MAX_BACKGROUND_BYTES = 1 << 30
"""Largest background that every worker holds."""


def open_table(job: Job) -> ParquetSource:
    """The table of [source], its columns checked; reads no row."""
    source = job.source
    return ParquetSource(
        os.path.abspath(source.path),
        features=source.features,
        target=source.target,
        key=source.key,
        missing=source.missing,
    )


def output_names(job: Job) -> tuple[str, ...] | None:
    """The targets, where there are any."""
    target = job.source.target
    return (target,) if isinstance(target, str) else target


def ridge_of(job: Job, reader: ParquetSource) -> KernelRidge:
    """The model of [model] kind = "kernel_ridge", not fitted.

    Raises
    ------
    InputError
        Options that cannot fit the table.
    """
    given = job.model
    assert isinstance(given, KernelRidgeModel)
    scale = list(given.lengthscale) if isinstance(given.lengthscale, tuple) else given.lengthscale
    kernel = KERNELS[given.kernel](scale)
    if kernel.is_resolved:
        kernel.bind(len(reader.feature_names))
    if given.landmarks > reader.n_rows:
        raise InputError(
            f"[model] landmarks = {given.landmarks}: the table has {reader.n_rows} rows, give at most that"
        )
    return KernelRidge(
        kernel,
        kernels.Nystrom(given.landmarks, seed=job.job.seed),
        given.penalty,
        holdout=given.holdout,
        seed=job.job.seed,
        sample_size=given.sample_size,
    )


def stand_in(job: Job, reader: ParquetSource) -> KernelExpansion:
    """A model of the size that was asked for, which knows nothing: enough for a plan."""
    assert isinstance(job.model, KernelRidgeModel)
    columns, r, k = len(reader.feature_names), job.model.landmarks, len(reader.target_names)
    kernel = kernels.RBF(1.0).bind(columns)
    return KernelExpansion(kernel, np.zeros((r, columns)), np.zeros((r, k)), np.zeros(k), reader.feature_names)


def import_function(name: str) -> Callable[[FloatArray], Any]:
    """The predict function "package.module:name" of code that is installed where this runs.

    Raises
    ------
    InputError
        No such module, or no such function in it.
    """
    module_name, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise InputError(
            f'[model] function = "{name}": importing {module_name} failed ({type(error).__name__}: {error}); install '
            "it where the workers run, or put its folder on PYTHONPATH"
        ) from error
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InputError(f'[model] function = "{name}": {module_name} has no function {attribute!r}')
    return found


def design_of(job: Job, n_players: int) -> Design | str:
    """The design of [design]; "auto" by name, since the plan says how it was resolved."""
    given = job.design
    if given.kind == "exact":
        return designs.exact(n_players)
    if given.kind == "auto":
        return "auto"
    assert given.n_coalitions is not None
    return designs.kernelshap(
        n_players, given.n_coalitions, sampling=given.sampling, paired=given.paired, seed=job.design_seed
    )


def value_of(explain: Explain, job: Job, model: Model, reader: ParquetSource) -> ValueFunction:
    """The value function of one [[explain]]."""
    options: dict[str, Any] = {"players": explain.players, "output_names": output_names(job)}
    if isinstance(explain, Interventional):
        return values.KernelInterventional(model, _background(explain.background, job, reader), **options)
    if isinstance(explain, Observational):
        embedding = kernels.Nystrom(explain.landmarks, explain.selection, job.job.seed)
        return values.KernelObservational(model, reader, embedding, explain.penalty, explain.rank_tolerance, **options)
    background = _background(explain.background, job, reader, in_memory=True)
    if callable(model):
        return values.Marginal(model, background, players=explain.players, feature_names=reader.feature_names)
    predict = getattr(model, "expansion_", model).predict
    return values.Marginal(predict, background, feature_names=reader.feature_names, **options)


def _background(rows: str | int, job: Job, reader: ParquetSource, in_memory: bool = False) -> Any:
    """All rows as the table itself, or a seeded sample (b, columns) of those without NaN."""
    n_rows = reader.n_rows if isinstance(rows, str) else min(rows, reader.n_rows)
    if n_rows == reader.n_rows and not in_memory:
        return reader
    size = 8 * n_rows * len(reader.feature_names)
    if size > MAX_BACKGROUND_BYTES:
        raise DoesNotFitError(
            f"[[explain]] background = {rows!r}: {n_rows:,} rows take {format_bytes(size)} on every worker, at most "
            f"{format_bytes(MAX_BACKGROUND_BYTES)} allowed: give a smaller number of rows"
        )
    return read_sample(reader, n_rows, job.job.seed, SPAN_ROWS)["x"]
