"""The design of a closed form: no coalition is listed, the value function gives attributions itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dshap.blocks import FULL, N_ENDS, CoalitionBlock, DesignInfo, Groups
from dshap.designs.coalitions import BaseDesign
from dshap.errors import DshapError
from dshap.records import FloatArray

__all__ = ["ClosedFormDesign"]


@dataclass(frozen=True)
class ClosedFormDesign(BaseDesign):
    """The two ends alone; see `dshap.abilities.ClosedForm`."""

    n_players: int
    n_replicates: int = 0

    @property
    def info(self) -> DesignInfo:
        """The attributions add up to the closed form's stated error, not by construction."""
        return DesignInfo(self.n_players, N_ENDS, self.n_replicates, self.n_players, is_efficient=False)

    def block(self, start: int, stop: int) -> CoalitionBlock:
        """The empty and the full coalition, with score 0."""
        masks = np.zeros((N_ENDS, self.n_players), dtype=bool)
        masks[FULL] = True
        masks = masks[start:stop]
        return CoalitionBlock(masks, np.zeros(masks.shape), Groups.none(self.n_players))

    def finish(self, sums: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        raise DshapError("a closed form has no sum over coalitions to finish")

    def replicates(self, sums: FloatArray, groups: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        raise DshapError("a closed form has no sum over coalitions to finish")

    def with_players(self, n_players: int) -> ClosedFormDesign:
        return replace(self, n_players=n_players)

    def fingerprint(self) -> dict[str, Any]:
        return {"design": "closed_form"} | asdict(self)
