"""The passes of a fit, one after the other: the sample, the steps, the held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import RowBlock
from dshap.core.records import Moments, Stacked
from dshap.core.rows import chosen_rows
from dshap.core.types import Pass

RunPass = Callable[[Pass], Any]
"""Function that runs a single pass over the rows; returns its result, or the pass that follows."""


def any_size(n_outputs: int) -> None:
    """Let a fit with any number of outputs through: the `check` of a fit without a limit."""


@dataclass(frozen=True)
class Tune:
    """The pass that collects the sample of rows that a fit starts from."""

    model: Any
    """The `KernelModel` to fit."""
    positions: NDArray[np.int64]
    """Sorted positions in the table of the rows of the sample."""
    feature_names: tuple[str, ...] | None
    strengths: tuple[float, ...] | None
    """Strengths of the Shapley penalty, see `KernelModel.fit_path`; None: the model's own."""
    check: Callable[[int], None] = any_size
    """Raises an error if a fit with this number of outputs does not fit in memory."""
    known: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the model's `tuned` that are known of the target, such as its classes."""
    wants = ("target",)

    def partial(self, block: RowBlock) -> Stacked:
        return chosen_rows(block, self.positions)

    def finish(self, total: Stacked) -> Pass:
        self.check(self.model.count_outputs(total["target"]))
        return self.model.tuned(
            total["x"],
            total["target"],
            total["position"],
            feature_names=self.feature_names,
            strengths=self.strengths,
            **self.known,
        )


@dataclass(frozen=True)
class HeldOut:
    """The pass that scores fitted models on the held-out rows."""

    models: tuple[Any, ...]
    """The fitted `KernelModel`s."""
    wants = ("target",)

    def partial(self, block: RowBlock) -> Moments:
        sums = (model.score_moments(block).arrays.items() for model in self.models)
        return Moments(
            {f"{index} {name}": array for index, each in enumerate(sums) for name, array in each}
        )

    def finish(self, total: Moments) -> tuple[Moments, ...]:
        """The sums for each model's `held_out_score`."""
        sums: list[dict[str, NDArray[Any]]] = [{} for _ in self.models]
        for place, array in total.arrays.items():
            index, _, name = place.partition(" ")
            sums[int(index)][name] = array
        return tuple(map(Moments, sums))


def fitted_by_passes(tune: Tune, run: RunPass) -> tuple[Any, ...]:
    """Fit the model of `tune`, or one for each of its strengths, with the passes that `run` runs.

    This is the loop of every fit: a plain one over blocks in this process, or over the rows of a
    table on the executor of a session.
    """
    found: Any = tune
    while isinstance(found, Pass):
        found = run(found)
    models: tuple[Any, ...] = (found,)
    if tune.strengths is not None:
        models = found
    if tune.model.holdout:
        for fitted, sums in zip(models, run(HeldOut(models)), strict=True):
            fitted.held_out_score(sums)
    return models
