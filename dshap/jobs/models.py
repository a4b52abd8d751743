"""The model that a job fits, and the placeholder of it in a plan."""

from __future__ import annotations

import numpy as np

from dshap import kernels
from dshap.errors import InputError
from dshap.jobs.parts import MODEL_PARTS, Context, Expansion
from dshap.jobs.schema import Job
from dshap.jobs.table import JobTable
from dshap.models import FourierExpansion, KernelExpansion, KernelModel
from dshap.types import RowReader

__all__ = ["model_of", "placeholder"]


def model_of(job: Job, table: JobTable) -> KernelModel:
    """The kernel model of [model], not fitted.

    Raises
    ------
    InputError
        Options that cannot fit the table.
    """
    given, reader = job.model, table.reader
    context = Context(job, table)
    kernel = MODEL_PARTS["kernel"].make(given, context)
    if kernel.is_resolved:
        kernel.bind(len(reader.feature_names))
    if given.embedding == "nystrom" and given.landmarks > reader.n_rows:
        raise InputError(
            f"[model] landmarks = {given.landmarks}: the table has {reader.n_rows} rows, give at most that"
        )
    model: KernelModel = given.made(context)
    return model


def placeholder(job: Job, reader: RowReader, n_outputs: int) -> Expansion:
    """A model of the size that was asked for, of zeros: enough for a plan."""
    given = job.model
    columns, names = len(reader.feature_names), reader.feature_names
    kernel = kernels.RBF(1.0).bind(columns)
    if given.embedding == "fourier":
        frequencies = np.tile(np.arange(1.0, given.features // 2 + 1)[:, None], columns)  # a cosine and a sine each
        zeros = np.zeros((len(frequencies), n_outputs))
        return FourierExpansion(frequencies, zeros[:, 0], zeros, zeros[0], names, kernel=kernel)
    r = given.landmarks
    return KernelExpansion(kernel, np.zeros((r, columns)), np.zeros((r, n_outputs)), np.zeros(n_outputs), names)
