"""The first and the last pass of a fit: over a sample, and over the held-out rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import RowBlock
from dshap.core.records import Moments, Stacked
from dshap.core.rows import chosen_rows
from dshap.core.types import Pass


@dataclass(frozen=True)
class Tune:
    """The pass that collects the sample of rows that a fit starts from."""

    model: Any
    """The `KernelModel` to fit."""
    positions: NDArray[np.int64]
    """Sorted positions in the table of the rows of the sample."""
    feature_names: tuple[str, ...]
    check: Callable[[int], None]
    """Raises an error where a fit with this number of outputs does not fit in memory."""
    strengths: tuple[float, ...] | None = None
    """Strengths of the Shapley penalty, see `KernelModel.fit_path`."""
    wants = ("target",)

    def partial(self, block: RowBlock) -> Stacked:
        return chosen_rows(block, self.positions)

    def finish(self, total: Stacked) -> Pass:
        self.check(self.model.count_outputs(total["target"]))
        names = self.feature_names
        rows = total["x"], total["target"], total["position"]
        return self.model.tuned(*rows, feature_names=names, strengths=self.strengths)


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
