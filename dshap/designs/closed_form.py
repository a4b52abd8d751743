"""The design of a closed form: no coalition is listed, the value function gives attributions itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dshap.designs.coalitions import FixedDesign
from dshap.errors import DshapError
from dshap.types import EMPTY, FULL, N_ENDS, CoalitionBlock, FloatArray, Groups

__all__ = ["ClosedFormDesign"]


@dataclass(frozen=True)
class ClosedFormDesign(FixedDesign):
    """The two ends alone; see `dshap.types.ClosedForm`."""

    n_players: int
    seed: int = 0
    n_replicates: int = 0
    why_no_errors: str = ""
    is_efficient: bool = False
    """To the closed form's own stated error."""

    @property
    def n_coalitions(self) -> int:
        return N_ENDS

    def block(self, start: int, stop: int) -> CoalitionBlock:
        """The empty and the full coalition, with score 0."""
        masks = np.zeros((N_ENDS, self.n_players), dtype=bool)
        masks[FULL] = True
        masks[EMPTY] = False
        own = masks[start:stop]
        return CoalitionBlock(own, np.zeros(own.shape), Groups.none(self.n_players))

    def finish(self, sums: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        raise DshapError("a closed form has no sum over coalitions to finish")

    def replicates(self, sums: FloatArray, groups: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        raise DshapError("a closed form has no sum over coalitions to finish")

    def grow(self, n_coalitions: int) -> ClosedFormDesign:
        raise DshapError("a closed form has no coalitions to grow by")

    def with_players(self, n_players: int) -> ClosedFormDesign:
        return replace(self, n_players=n_players)

    def fingerprint(self) -> dict[str, Any]:
        return {"design": "closed_form", "n_players": self.n_players, "n_replicates": self.n_replicates}
