"""What [source], [model] and [design] name, as the objects that the library works with."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from dshap import designs, kernels, values
from dshap.errors import InputError
from dshap.jobs.schema import EmbeddedTable, ImportedModel, Job, KernelLogisticModel, KernelTable, ParquetTable
from dshap.models import FourierExpansion, KernelExpansion, KernelLogistic, KernelModel, KernelRidge
from dshap.models.logistic import MAX_CLASSES
from dshap.records import FloatArray
from dshap.rows import spans
from dshap.tables import ParquetSource, SyntheticTable
from dshap.types import Design

__all__ = [
    "KERNELS",
    "Expansion",
    "Model",
    "TableReader",
    "design_of",
    "embedding_of",
    "expansion_of",
    "import_function",
    "imported_model",
    "model_of",
    "n_classes",
    "open_table",
    "stand_in",
]

Expansion = KernelExpansion | FourierExpansion
Model = KernelModel | Expansion | Callable[[FloatArray], Any]
"""A fitted kernel model, what stands for one in a plan, or a predict function."""
TableReader = ParquetSource | SyntheticTable
KERNELS: Mapping[str, Callable[[Any], kernels.Kernel]] = {
    "rbf": kernels.RBF,
    "laplacian": kernels.Laplacian,
    "matern12": partial(kernels.Matern, 0.5),
    "matern32": partial(kernels.Matern, 1.5),
    "matern52": partial(kernels.Matern, 2.5),
}


def open_table(job: Job) -> TableReader:
    """The table of [source], its columns checked; reads no row.  Of trees the columns and categories of the model."""
    source = job.source
    roles: dict[str, Any] = {"features": source.features, "target": source.target, "key": source.key}
    if job.is_of_trees:
        value = values.Trees(imported_model(job))
        roles["features"] = _features_of(value, source.features)
        roles |= {"categories": value.model.categories} if value.model.categories else {}
    return _opened(job, missing=source.missing, **roles)


def _features_of(value: values.Trees, given: Sequence[str] | None) -> Sequence[str] | None:
    """The model's columns in its order; those that were given where it knows none."""
    known = value.model.feature_names
    if known is not None and given is not None and set(given) != set(known):
        raise InputError(
            f"[source] features = {list(given)}: the model was fitted on {list(known)}, leave features out"
        )
    return known or given


def _opened(job: Job, missing: str, **roles: Any) -> TableReader:
    source = job.source
    if isinstance(source, ParquetTable):
        return ParquetSource(os.path.abspath(source.path), missing=missing, **roles)
    if roles.pop("categories", None):
        raise InputError(
            '[source] kind = "synthetic" holds numbers, and the model takes categories: name a Parquet table'
        )
    return SyntheticTable(source.name, source.rows, source.seed, **roles)


def n_classes(job: Job, reader: TableReader) -> int:
    """Classes of the target, counted in a pass over that column.

    Raises
    ------
    InputError
        More values than classes, or one only.
    """
    column = _opened(job, features=reader.target_names, target=None, key=(), missing="pass")
    classes = np.zeros(0)
    for start, stop in spans(0, column.n_rows):
        found = column.read(start, stop).x[:, 0]
        classes = np.union1d(classes, found[np.isfinite(found)])
        if len(classes) > MAX_CLASSES:
            break
    if not 2 <= len(classes) <= MAX_CLASSES:
        count = f"more than {MAX_CLASSES}" if len(classes) > MAX_CLASSES else len(classes)
        raise InputError(
            f'[source] target "{reader.target_names[0]}" holds {count} different values: [model] kind = '
            f'"kernel_logistic" takes 2 to {MAX_CLASSES} classes; for numbers use kind = "kernel_ridge"'
        )
    return len(classes)


def model_of(job: Job, reader: TableReader) -> KernelModel:
    """The kernel model of [model], not fitted.

    Raises
    ------
    InputError
        Options that cannot fit the table.
    """
    given = job.model
    assert isinstance(given, KernelTable)
    scale = list(given.lengthscale) if isinstance(given.lengthscale, tuple) else given.lengthscale
    kernel = KERNELS[given.kernel](scale)
    if kernel.is_resolved:
        kernel.bind(len(reader.feature_names))
    if given.embedding == "nystrom" and given.landmarks > reader.n_rows:
        raise InputError(
            f"[model] landmarks = {given.landmarks}: the table has {reader.n_rows} rows, give at most that"
        )
    make = KernelLogistic if isinstance(given, KernelLogisticModel) else KernelRidge
    return make(
        kernel,
        embedding_of(given, job.job.seed),
        given.penalty,
        holdout=given.holdout,
        seed=job.job.seed,
        sample_size=given.sample_size,
    )


def embedding_of(given: EmbeddedTable, seed: int, model: Model | None = None) -> kernels.Embedding:
    """Landmarks, those of the model where asked for, or random Fourier features."""
    if given.embedding == "fourier":
        return kernels.Fourier(given.features, seed)
    if isinstance(given.landmarks, str):
        expansion = expansion_of(model)
        assert isinstance(expansion, KernelExpansion)
        return kernels.Nystrom(landmarks=expansion.landmarks)
    return kernels.Nystrom(given.landmarks, given.selection, seed)


def expansion_of(model: Any) -> Expansion | None:
    """What a kernel model is reduced to; None of a predict function."""
    expansion = getattr(model, "expansion_", model)
    return expansion if isinstance(expansion, KernelExpansion | FourierExpansion) else None


def stand_in(job: Job, reader: TableReader, n_outputs: int) -> Expansion:
    """A model of the size that was asked for, which knows nothing: enough for a plan."""
    given = job.model
    assert isinstance(given, KernelTable)
    columns, names = len(reader.feature_names), reader.feature_names
    kernel = kernels.RBF(1.0).bind(columns)
    if given.embedding == "fourier":
        frequencies = np.tile(np.arange(1.0, given.features // 2 + 1)[:, None], columns)  # a cosine and a sine each
        zeros = np.zeros((len(frequencies), n_outputs))
        return FourierExpansion(frequencies, zeros[:, 0], zeros, zeros[0], names, kernel=kernel)
    r = given.landmarks
    return KernelExpansion(kernel, np.zeros((r, columns)), np.zeros((r, n_outputs)), np.zeros(n_outputs), names)


def imported_model(job: Job) -> Any:
    """What [model] function names: a predict function, or a fitted ensemble for trees."""
    assert isinstance(job.model, ImportedModel)
    name = job.model.function
    if not job.is_of_trees:
        return import_function(name)
    found = _imported(name)
    if found is None:
        module_name, _, attribute = name.partition(":")
        raise InputError(f'[model] function = "{name}": {module_name} has no {attribute!r}')
    return found


def import_function(name: str) -> Callable[[FloatArray], Any]:
    """The predict function "package.module:name" of code that is installed where this runs.

    Raises
    ------
    InputError
        No such module, or no such function in it.
    """
    found = _imported(name)
    if not callable(found):
        module_name, _, attribute = name.partition(":")
        raise InputError(f'[model] function = "{name}": {module_name} has no function {attribute!r}')
    return found


def _imported(name: str) -> Any:
    """Whatever "package.module:name" names; None where the module has no such name."""
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
    return found


def design_of(job: Job, n_players: int) -> Design | str:
    """The design of [design]; "auto" and "quadrature" by name."""
    given = job.design
    if given.kind == "exact":
        return designs.exact(n_players)
    if given.kind in ("auto", "quadrature"):
        return given.kind
    shared: dict[str, Any] = {"seed": job.design_seed, "n_replicates": given.n_replicates}
    if given.kind == "permutation":
        assert given.n_permutations is not None
        return designs.permutation(n_players, given.n_permutations, antithetic=given.antithetic, **shared)
    assert given.n_coalitions is not None
    if given.kind == "kriging":
        return designs.kriging(n_players, given.n_coalitions, decay=given.decay, **shared)
    return designs.kernelshap(n_players, given.n_coalitions, sampling=given.sampling, paired=given.paired, **shared)
