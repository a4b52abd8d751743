"""The value function that an [[explain]] names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dshap import kernels, values
from dshap.engine import Executor, format_bytes
from dshap.errors import DoesNotFitError
from dshap.jobs.parts import KERNELS, Model, embedding_of, expansion_of
from dshap.jobs.schema import (
    CopulaValue,
    Explain,
    GaussianValue,
    Interventional,
    Job,
    KernelRidgeModel,
    LinkedTable,
    MarginalValue,
    Observational,
    Regression,
    TreesValue,
)
from dshap.jobs.table import JobTable
from dshap.types import Explained, Link

__all__ = ["value_of"]

MAX_BACKGROUND_BYTES = 1 << 30
"""Largest background that every worker holds."""


def value_of(explain: Explain, job: Job, model: Model, table: JobTable, executor: Executor | None = None) -> Explained:
    """The value function of one [[explain]]; without an executor for a plan, a background drawn at random."""
    options: dict[str, Any] = {"players": explain.players, "output_names": _output_names(job, model)}
    if isinstance(explain, MarginalValue):
        options["executor"] = executor
    if isinstance(explain, LinkedTable):
        options["link"] = _link(explain)
    value: Explained = VALUES[type(explain)](explain, job, model, table, options)
    return value


def _link(explain: LinkedTable) -> Link:
    """The link of an [[explain]]."""
    options: dict[str, Any] = {} if explain.link == "identity" else {"clip": explain.clip}
    if explain.link_class is not None:
        options["of"] = explain.link_class
    return values.LINKS[explain.link](**options)


def _output_names(job: Job, model: Model) -> tuple[str, ...] | None:
    """The targets of a ridge, the classes of a classifier; None where nobody knows any."""
    if not isinstance(job.model, KernelRidgeModel):
        expansion = expansion_of(model)
        return None if expansion is None else expansion.output_names
    target = job.source.target
    return (target,) if isinstance(target, str) else target


def _interventional(given: Interventional, job: Job, model: Model, table: JobTable, options: Any) -> Any:
    background = _background(given.background, table)
    return values.KernelInterventional(
        model, background, n_background=given.n_background, tolerance=given.tolerance, **options
    )


def _observational(given: Observational, job: Job, model: Model, table: JobTable, options: Any) -> Any:
    embedding = embedding_of(given, job.job.seed, model)
    return values.KernelObservational(
        model,
        table.reader,
        embedding,
        given.penalty,
        given.rank_tolerance,
        centred=given.centred,
        with_interventional=given.with_interventional,
        **options,
    )


def _regression(given: Regression, job: Job, model: Model, table: JobTable, options: Any) -> Any:
    kernel, embedding = _own_kernel(given, model), embedding_of(given, job.job.seed, model)
    return values.ConditionalRegression(
        _predict_of(model),
        table.reader,
        kernel,
        embedding,
        given.penalty,
        given.rank_tolerance,
        feature_names=table.reader.feature_names,
        precision=given.precision,
        **options,
    )


def _normal(given: GaussianValue | CopulaValue, job: Job, model: Model, table: JobTable, options: Any) -> Any:
    kind = values.Copula if isinstance(given, CopulaValue) else values.Gaussian
    return kind(
        _predict_of(model),
        table.reader,
        n_samples=given.n_samples,
        ridge=given.ridge,
        seed=job.job.seed if given.seed is None else given.seed,
        feature_names=table.reader.feature_names,
        **options,
    )


def _marginal(given: MarginalValue, job: Job, model: Model, table: JobTable, options: Any) -> Any:
    executor, background = options.pop("executor"), given.background
    if executor is None or isinstance(background, str) or given.selection == "random":
        rows = _background(background, table)
    else:
        rows = table.background(min(background, table.n_rows), given.selection, executor)
    return values.Marginal(_predict_of(model), rows, feature_names=table.reader.feature_names, **options)


def _trees(given: TreesValue, job: Job, model: Model, table: JobTable, options: Any) -> Any:
    return values.Trees(model, output_names=options["output_names"])


VALUES: Mapping[type, Callable[..., Any]] = {
    Interventional: _interventional,
    Observational: _observational,
    Regression: _regression,
    GaussianValue: _normal,
    CopulaValue: _normal,
    MarginalValue: _marginal,
    TreesValue: _trees,
}
"""Record of an [[explain]] -> function(record, job, model, table, options)."""


def _predict_of(model: Model) -> Callable[..., Any]:
    """What a value function calls: the decision function of a classifier."""
    expansion = expansion_of(model)
    if expansion is not None:
        return expansion.predict
    assert callable(model)
    return model


def _own_kernel(given: Regression, model: Model) -> kernels.Kernel | kernels.ProductKernel:
    """That of the model, where there is one and no other is named."""
    expansion = expansion_of(model)
    if given.kernel in (None, "model") and expansion is not None and expansion.kernel is not None:
        return expansion.kernel
    scale = list(given.lengthscale) if isinstance(given.lengthscale, tuple) else given.lengthscale
    return KERNELS[given.kernel or "rbf"](scale)


def _background(rows: str | int, table: JobTable) -> Any:
    """All rows as the table itself, or a seeded sample (b, columns) of those without NaN."""
    n_rows = table.n_rows if isinstance(rows, str) else min(rows, table.n_rows)
    if n_rows == table.n_rows:
        return table.reader
    size = 8 * n_rows * len(table.reader.feature_names)
    if size > MAX_BACKGROUND_BYTES:
        raise DoesNotFitError(
            f"[[explain]] background = {rows!r}: {n_rows:,} rows take {format_bytes(size)} on every worker, at most "
            f"{format_bytes(MAX_BACKGROUND_BYTES)} allowed: give a smaller number of rows"
        )
    return table.sample(n_rows)
