"""The names of the rows of a picture of few rows: their keys, or their positions."""

from __future__ import annotations

import numpy as np

from dshap.analysis.tallies import FEW_ROWS
from dshap.analysis.view import View
from dshap.core.printing import label


def names_of_rows(view: View) -> tuple[str, ...]:
    """(n,): the keys of the rows as text, or their positions; empty from 2,000 rows on."""
    if view.rows >= FEW_ROWS:
        return ()
    cube = view.cube
    keys = [str(name) for name in cube.coords if cube[name].dims == ("instance",)]
    if not keys:
        return tuple(f"{place:,}" for place in range(cube.sizes["instance"]))
    columns = [[label(value, 24) for value in np.asarray(cube[name].values)] for name in keys]
    return tuple(", ".join(parts) for parts in zip(*columns, strict=True))
