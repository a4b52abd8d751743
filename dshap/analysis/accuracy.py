"""The accuracy that a run measured, from its cubes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dshap.core.places import Place
from dshap.cube import largest_residual, read_notes

NOTED = ("mse_v", "pilot", "carried", "counted")
"""The notes of a run that are about its accuracy."""


def accuracy(cubes: Mapping[str, Place]) -> dict[str, dict[str, Any]]:
    """Explanation -> `residual` of each output over finished blocks, and what the run noted.

    That is `mse_v`, `pilot`, `carried` and `counted`, as far as there is any.
    """
    found = {}
    for name, path in cubes.items():
        notes = read_notes(path)
        residual = largest_residual(path)
        measured = {key: notes[key] for key in NOTED if key in notes}
        found[name] = {"residual": residual[~np.isnan(residual)].tolist()} | measured
    return found
