"""The contraction of designs that compare each row with the rows of their pilot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from dshap.attributors.contraction import WholeContraction
from dshap.attributors.game import Found
from dshap.core.blocks import NOT_SERVED
from dshap.core.capabilities import ChecksRows
from dshap.core.records import FloatArray


@dataclass
class CheckedContraction(WholeContraction):
    """A contraction that counts the rows which the design's pilot does not serve."""

    def _estimated(self, values: FloatArray) -> Found:
        design = cast(ChecksRows, self.game.design)
        phi, replicates, is_served = design.of_checked_values(values)
        return Found(phi, replicates, counted={NOT_SERVED: int(np.count_nonzero(~is_served))})
