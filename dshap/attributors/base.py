"""The base class of user-defined attributors, which replace a value function in `explain`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dshap.attributors.game import check_additivity
from dshap.core.blocks import Attribution, Status
from dshap.core.records import Cost, FloatArray
from dshap.values.base import Predicted


class BaseAttributor(Predicted):
    """The base class to subclass for attributions of your own, in place of dshap's methods.

    A subclass defines ``attribute(rows (n, columns)) -> Attribution``.  This method returns
    ``self.attribution(...)``, which checks the numbers and builds the `Attribution`.  The subclass
    also defines `cost` if the cost is known, and `fingerprint` if the attributions depend on more
    than the model and the players.

    The object is sent to the workers with all its attributes except `data`, from which only the
    names and kinds of the columns are used.  No link is applied to its attributions.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> class Linear(dshap.Attributor):
    ...     def attribute(self, rows):
    ...         phi = np.array([2.0, -3.0]) * (rows - 1)  # beside a row of ones
    ...         return self.attribution(rows, phi[:, :, None], base=np.array([-1.0]))
    >>> rows = np.array([[2.0, 2.0], [4.0, 3.0]])
    >>> linear = Linear(lambda x: x @ [2.0, -3.0], rows, feature_names=["rooms", "age"])
    >>> dshap.explain(linear, rows).attribution.values[:, :, 0].tolist()
    [[2.0, -3.0], [6.0, -6.0]]
    """

    n_replicates = 0

    def attribution(
        self,
        rows: FloatArray,
        phi: FloatArray,
        base: FloatArray,
        *,
        tolerance: float = 0.0,
        replicates: FloatArray | None = None,
        of_coalitions: FloatArray | None = None,
        n_coalitions: NDArray[np.int32] | None = None,
        interaction: FloatArray | None = None,
        stated: Mapping[str, Sequence[float] | float] | None = None,
        counted: Mapping[str, int] | None = None,
        reasons: Mapping[int, str] | None = None,
    ) -> Attribution:
        """Build the `Attribution` of rows (n, columns), after checking that Σφ + base is f(x).

        Parameters
        ----------
        rows : (n, columns)
            The rows that `attribute` received.
        phi : (n, d, k)
            Attributions of d players and k outputs.
        base : (k,) or (n, k)
            The base value; (n, k) if it differs from row to row.
        tolerance : float
            The largest |Σφ + base − prediction| that is allowed in addition to rounding.
        replicates, of_coalitions, n_coalitions, interaction : optional
            See `Attribution`.
        stated, counted, reasons : optional
            See `Attribution`.

        Raises
        ------
        DshapError
            Σφ + base misses the predictions.
        """
        prediction = self.model(rows)
        check_additivity(phi, base, prediction, tolerance)
        return Attribution(
            phi,
            base,
            prediction,
            status=np.full(len(rows), Status.OK, np.int8),
            replicates=replicates,
            of_coalitions=of_coalitions,
            n_coalitions=n_coalitions,
            interaction=interaction,
            stated=stated or {},
            counted=counted or {},
            reasons=reasons or {},
        )

    def cost(self, n: int = 1) -> Cost:
        """Estimated cost; operations are infinite, because the work of the subclass is unknown."""
        buffer = 8 * self.model.buffer_rows * (self.n_columns + self.n_outputs)
        held = 8 * n * self.n_outputs * len(self.players) * (1 + self.n_replicates)
        return Cost(
            state_bytes=0, prepare_bytes=0, task_bytes=3 * buffer + 4 * held, operations=math.inf
        )
