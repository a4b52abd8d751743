"""The units and the scale of a cube, in words: for axes, tables, pages and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dshap.core.printing import label
from dshap.core.scales import MEANINGS, UNSTATED, has_no_word, is_known, unit_words


def units_of_cube(cube: Any) -> str:
    """The units that the user gave for the attributions; "1" if none were given."""
    return str(cube["attribution"].attrs.get("units", "1"))


def scale_of_cube(cube: Any) -> str:
    """The scale of the attributions; empty in a cube of an earlier version, which states none."""
    return str(cube["attribution"].attrs.get("scale", ""))


def measure_of_cube(cube: Any, output: str = "") -> str:
    """Units and scale of a cube in words: "EUR", "log-odds", "EUR, log"; empty if none is given.

    A scale with which the name of the output beside these words begins is left out.
    """
    return unit_words(units_of_cube(cube), scale_of_cube(cube), output)


def bracketed(units: str, scale: str) -> str:
    """Units and scale in brackets after a blank, such as " (EUR, log)"; empty without words."""
    said = unit_words(units, scale)
    return f" ({label(said)})" * bool(said)


def scale_sentence(scale: str) -> str:
    """A scale and the meaning of its numbers; empty if it is the target's, or unknown."""
    if has_no_word(scale):
        return ""
    return f"{label(scale)}: {MEANINGS.get(scale, 'a scale of a later version of dshap.')}"


def stated_scale(cubes: Sequence[Any]) -> str:
    """The scale of the first of these cubes that has a scale; else the scale of the first."""
    scales = [scale_of_cube(cube) for cube in cubes]
    return next(filter(is_known, scales), scales[0])


def scales_differ(scales: Sequence[str]) -> bool:
    """Whether two scales are stated and are not the same, so that nothing compares."""
    return len({scale for scale in scales if is_known(scale)}) > 1


def without_scale(cubes: Mapping[str, Any]) -> str:
    """A sentence about those of several named cubes that have no scale; empty if all have one.

    Empty also if none has one because all are of functions whose scale was not stated.
    """
    scales = {label(name, 96): scale_of_cube(cube) for name, cube in cubes.items()}
    old = [name for name, scale in scales.items() if not scale]
    unstated = [name for name, scale in scales.items() if scale == UNSTATED]
    if old:
        return (
            f"{_states_no(old)}, because an earlier version of dshap wrote the cube: scales are "
            "not compared; explain the rows again to compare them"
        )
    if 0 < len(unstated) < len(scales):
        return (
            f"{_states_no(unstated)}, because the model is a function: scales are not compared; "
            "give the scale of the function, like Marginal(predict, background, scale='log-odds')"
        )
    return ""


def _states_no(names: Sequence[str]) -> str:
    verb = "has no scale" if len(names) == 1 else "have no scale"
    return f"{' and '.join(names)} {verb}"


def measure_in_brackets(units: str, scales: Sequence[str]) -> str:
    """The units, and the scale if there is only one, in brackets after a blank."""
    if len(scales) == 1:
        return bracketed(units, scales[0])
    return bracketed(units, "")
