"""The units and the scale of a cube, in words: for axes, tables, pages and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dshap.core.printing import label
from dshap.core.scales import MEANINGS, TARGET, unit_words


def units_of_cube(cube: Any) -> str:
    """The units that the user gave for the attributions; "1" where none were given."""
    return str(cube["attribution"].attrs.get("units", "1"))


def scale_of_cube(cube: Any) -> str:
    """The scale of the attributions; empty in a cube of an earlier version, which states none."""
    return str(cube["attribution"].attrs.get("scale", ""))


def measure_of_cube(cube: Any, output: str = "") -> str:
    """Units and scale of a cube in words: "EUR", "log-odds", "EUR, log"; empty where none is said.

    A scale with which the name of the output beside these words begins is left out.
    """
    return unit_words(units_of_cube(cube), scale_of_cube(cube), output)


def bracketed(units: str, scale: str) -> str:
    """Units and scale in brackets after a blank, such as " (EUR, log)"; empty without words."""
    said = unit_words(units, scale)
    return f" ({label(said)})" * bool(said)


def scale_sentence(scale: str) -> str:
    """A scale and what a number on it means; empty where the scale is the target's, or unknown."""
    if scale in ("", TARGET):
        return ""
    return f"{label(scale)}: {MEANINGS.get(scale, 'a scale of a later version of dshap.')}"


def without_scale(cubes: Mapping[str, Any]) -> str:
    """A sentence about those of several named cubes that state no scale; empty where all do."""
    unknown = [label(name, 96) for name, cube in cubes.items() if not scale_of_cube(cube)]
    if not unknown:
        return ""
    verb = "states no scale" if len(unknown) == 1 else "state no scale"
    return (
        f"{' and '.join(unknown)} {verb}, as cubes of earlier versions of dshap: scales are not "
        "compared; explain the rows again to be sure of them"
    )
