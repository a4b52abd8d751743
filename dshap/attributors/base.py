"""The base of an attributor of one's own, which `explain` takes in the place of a value
function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dshap.attributors.game import check_additivity
from dshap.core.blocks import Attribution, Status
from dshap.core.records import Cost, FloatArray
from dshap.values.base import Predicted

__all__ = ["BaseAttributor"]


class BaseAttributor(Predicted):
    """Rows in, attributions out; public as `dshap.Attributor`.

    What is left to write is ``attribute(rows (n, columns)) -> Attribution``, which `attribution`
    helps to make; `cost` where it is known, and `fingerprint` where attributions follow from more
    than the model and the players.  It travels to the workers with all that it holds but `data`,
    which tell names and kinds of the columns.  A link is not applied to what it gives.
    """

    n_replicates = 0

    def attribution(
        self,
        rows: FloatArray,
        phi: FloatArray,
        base: FloatArray,
        *,
        tolerance: float = 0.0,
        **more: Any,
    ) -> Attribution:
        """The record of rows (n, columns), whose Σφ + base must be the model's predictions.

        Parameters
        ----------
        phi : (n, d, k)
        base : (k,), or (n, k) where it differs from row to row
        tolerance : largest |Σφ + base − prediction| beyond rounding
        **more : other fields of `Attribution`, such as `replicates`

        Raises
        ------
        DshapError
            Where they miss the predictions.
        """
        prediction = self.model(rows)
        check_additivity(phi, base, prediction, tolerance)
        return Attribution(phi, base, prediction, np.full(len(rows), Status.OK, np.int8), **more)

    def cost(self, n: int = 1) -> Cost:
        """Of a black box, whose own memory and operations are not known."""
        buffer = 8 * self.model.buffer_rows * (self.n_columns + self.n_outputs)
        held = 8 * n * self.n_outputs * len(self.players) * (1 + self.n_replicates)
        return Cost(
            state_bytes=0, prepare_bytes=0, task_bytes=3 * buffer + 4 * held, operations=math.inf
        )
