"""The passes before and after those of a fit: over a sample of the rows, and over those that were
held out."""

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

__all__ = ["HeldOut", "Tune"]


@dataclass(frozen=True)
class Tune:
    """The pass over a sample of the rows that a fit begins with."""

    model: Any
    """A `KernelModel`."""
    positions: NDArray[np.int64]
    """Of the sample in the table, sorted."""
    feature_names: tuple[str, ...]
    check: Callable[[int], None]
    """Refuses a fit with so many outputs that does not fit."""
    strengths: tuple[float, ...] | None = None
    """See `KernelModel.fit_path`."""
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
    """The pass that scores fitted models on the rows that were held out."""

    models: tuple[Any, ...]
    """`KernelModel`s."""
    wants = ("target",)

    def partial(self, block: RowBlock) -> Moments:
        sums = (model.score_moments(block).arrays.items() for model in self.models)
        return Moments(
            {f"{index} {name}": array for index, each in enumerate(sums) for name, array in each}
        )

    def finish(self, total: Moments) -> tuple[Moments, ...]:
        """The sums of each model, for its `held_out_score`."""
        sums: list[dict[str, NDArray[Any]]] = [{} for _ in self.models]
        for place, array in total.arrays.items():
            index, _, name = place.partition(" ")
            sums[int(index)][name] = array
        return tuple(map(Moments, sums))
