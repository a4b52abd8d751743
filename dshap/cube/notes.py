"""The notes of a cube: small records that its run wrote beside its values."""

from __future__ import annotations

import warnings
from typing import Any

from dshap.core.places import Place
from dshap.cube.reference_copy import has_copy, notes_of


def read_notes(path: Place) -> dict[str, Any]:
    """name -> a record that the run wrote beside its values.

    The names are "closed_form", "base_value", "pilot", "background", "carried",
    "rounds", "counted", "additivity", "penalties", "learning_error", "fold_error" and "mse_v"; "columns"
    and "card" are written by people: `dshap.cube.described`.
    """
    notes = notes_of(path)
    found = {}  # notes of earlier versions have no seal
    for name in notes.names():
        content, fault = notes.looked_at(name)
        if content is None or (fault and has_copy(path)):
            warnings.warn(
                f"note {name} of {path} is damaged and left out: dshap verify --repair",
                stacklevel=2,
            )
        else:
            found[name] = content
    return found
