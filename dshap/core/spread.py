"""The order in which a table is read if a part of its rows may be enough: rows far apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dshap.core.rows import Positions

MOST_RUNS = 1 << 31
"""The most runs, whose products stay below 2⁶³; a table of more rows has runs of several rows."""
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True)
class SpreadOrder:
    """The rows of a table in an order whose every section is spread over the whole table.

    Row i of the order is row i·step mod n of the table, with step near the golden section of n and
    without a common divisor: the rows of any section leave gaps of at most three lengths (the
    three-gap theorem), and no period of the table is met again and again.  Rows that are
    neighbours in a file are often alike (one meet, one hour, one customer): read in runs of 16,
    lifts need four times as many rows for the same error.  Nothing is drawn: the order follows from
    the number of rows alone.  A table of more than 2³¹ rows is cut into so many runs, and rows after
    the last whole run are left out.

    Parameters
    ----------
    n_rows : number of rows of the table

    Examples
    --------
    >>> from dshap.core.spread import SpreadOrder
    >>> SpreadOrder(10).positions(0, 5)
    array([0, 7, 4, 1, 8])
    """

    n_rows: int

    @property
    def run_rows(self) -> int:
        """The number of rows of a run."""
        return max(1, math.ceil(self.n_rows / MOST_RUNS))

    @property
    def n_runs(self) -> int:
        return self.n_rows // self.run_rows

    @cached_property
    def step(self) -> int:
        """The number of runs from one run to the next in the order."""
        step = max(1, round(self.n_runs * GOLDEN))
        # with a common divisor the order would come back to its first run before it has met all
        # runs
        while math.gcd(step, self.n_runs) > 1:
            step += 1
        return step

    def positions(self, start: int, stop: int) -> Positions:
        """The positions in the table of the places start..stop of the order."""
        places = np.arange(start, stop)
        run, inside = np.divmod(places, self.run_rows)
        return run * self.step % self.n_runs * self.run_rows + inside


GOLDEN_STEP = 0x9E3779B97F4A7C15
"""The golden section of 2⁶⁴, as a whole number."""


def golden_places(positions: Positions) -> NDArray[np.uint64]:
    """(n,): the place of each row, frac(i · golden section), in units of 2⁻⁶⁴.

    The rows with the smallest places are spread over a table whose number of rows is not known yet:
    they leave gaps of at most three lengths, as those of a `SpreadOrder`.

    Parameters
    ----------
    positions : (n,) positions in the table

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.core.spread import golden_places
    >>> np.sort(np.argsort(golden_places(np.arange(100)))[:5])
    array([ 0, 13, 34, 68, 89])
    """
    return np.asarray(positions).astype(np.uint64) * np.uint64(GOLDEN_STEP)
