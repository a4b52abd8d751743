"""The cubes that are compared: opened by store, explanation and run, and checked."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dshap.analysis.difference.row_pairs import CubeRows
from dshap.analysis.measures import scale_of_cube, scales_differ, without_scale
from dshap.analysis.view import refuse_infinities
from dshap.core.duck_typing import has_member
from dshap.core.errors import InputError, unknown_name
from dshap.core.places import Place
from dshap.core.printing import label
from dshap.core.rules import as_place
from dshap.cube import named_cubes, open_cube, read_run, runs_of
from dshap.cube.current import has_nights
from dshap.cube.datasets import as_cube, names_along, origin_of

SHOWN_NAMES = 8
"""The most names of features that a message lists."""


@dataclass(frozen=True)
class OpenedCube:
    """One of the two cubes."""

    name: str
    """The path of the cube, or another description."""
    cube: Any


def sides_of(
    old: Any, new: Any, explain: str, old_run: str, new_run: str
) -> tuple[OpenedCube, OpenedCube]:
    """Open the old and the new cube from the arguments of `diff`.

    Raises
    ------
    InputError
        There is no such store, explanation or run.
    """
    if explain and all(has_member(each, "data_vars") for each in (old, new)):
        raise InputError(f"old and new are Datasets: leave explain out (now {explain!r})")
    if new is not None:
        return _side("old", old, explain, old_run), _side("new", new, explain, new_run)
    if has_member(old, "data_vars"):
        raise InputError(
            "new is missing, and old is a Dataset: give the store of a job, or give both old and "
            "new"
        )
    now = _cube_path("old", old, explain, new_run)
    before = now.with_name(old_run or _run_before(now))
    if read_run(before) is None:
        raise InputError(f"old_run {unknown_name('run', old_run, runs_of(now.parent))}")
    return cube_at_path(before), cube_at_path(now)


def _run_before(cube: Place) -> str:
    """The id of the run before the run that wrote a night's cube."""
    if not has_nights(cube.parent):
        raise InputError(f"{cube} is a single cube without an earlier run: give both OLD and NEW")
    earlier = earlier_runs(cube)
    if not earlier:
        raise InputError(
            f"{cube} is the first run that the store has: there is no earlier run to compare with"
        )
    return earlier[-1]


def earlier_runs(cube: Place) -> list[str]:
    """The ids of stored runs before the run that wrote a night's cube, the oldest first.

    Empty if the store does not have a cube for each run.
    """
    if not has_nights(cube.parent):
        return []
    return [run_id for run_id in runs_of(cube.parent) if run_id < cube.name]


def _side(which: str, given: Any, explain: str, run_id: str) -> OpenedCube:
    if not has_member(given, "data_vars"):
        return cube_at_path(_cube_path(which, given, explain, run_id))
    if run_id:
        raise InputError(f"{which} is a Dataset, which has no runs: leave {which}_run out")
    origin = origin_of(given)
    name = "a Dataset in memory"
    if origin is not None and given.chunksizes:
        name = str(origin)
    cube = as_cube(given)
    if missing := {"prediction", "base_value"} - set(map(str, cube.data_vars)):
        raise InputError(f"{which} is a Dataset without {' and '.join(sorted(missing))}")
    refuse_infinities(which, cube)
    return OpenedCube(name, cube)


def cube_at_path(path: str | Place) -> OpenedCube:
    """Open the cube at a path."""
    return OpenedCube(str(path), open_cube(path))


def _cube_path(which: str, given: Any, explain: str, run_id: str) -> Place:
    """The path of the cube in a store, by explanation and run."""
    store = as_place(which, given)
    if run_id and not any(has_nights(path.parent) for path in named_cubes(store).values()):
        raise InputError(f"{store} has no cube for each run: leave {which}_run out")
    cubes = named_cubes(store, run_id)
    if explain and explain in cubes:
        return cubes[explain]
    if len(cubes) == 1 and not explain:
        return next(iter(cubes.values()))
    if explain:
        raise InputError(f"{store}: {unknown_name('explain', explain, cubes)}")
    raise InputError(
        f"{store} contains {len(cubes)} explanations: give explain, one of {', '.join(cubes)}"
    )


def comparable(old: OpenedCube, new: OpenedCube, output: str | None) -> tuple[CubeRows, CubeRows]:
    """The rows of both cubes, with the features and outputs of the old one in its order.

    Raises
    ------
    InputError
        The cubes differ in features, outputs, units, link or scale.

    Warns
    -----
    RuntimeWarning
        One of the cubes has no scale, so that their scales are not compared.
    """
    features = [names_along(side.cube, "feature") for side in (old, new)]
    outputs = [names_along(side.cube, "output") for side in (old, new)]
    wanted = outputs[0]
    if output is not None:
        wanted = [output]
        for side, held in zip((old, new), outputs, strict=True):
            if output not in held:
                raise InputError(f"{side.name}: {unknown_name('output', output, held)}")
    differences = [*_names_differ("feature", *features), *_texts_differ(old, new)]
    if output is None:
        differences += _names_differ("output", *outputs)
    unknown = without_scale({f"{old.name} (old)": old.cube, f"{new.name} (new)": new.cube})
    if differences:
        said = "; ".join([*differences, *filter(None, [unknown])])
        raise InputError(f"{old.name} and {new.name} cannot be compared: {said}")
    if unknown:
        warnings.warn(unknown, RuntimeWarning, stacklevel=4)
    first, second = (
        CubeRows(
            side.name,
            side.cube,
            tuple(map(held.index, features[0])),
            tuple(map(shown.index, wanted)),
        )
        for side, held, shown in zip((old, new), features, outputs, strict=True)
    )
    return first, second


def _names_differ(kind: str, old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """The names that only one of the cubes has, in words."""
    known = set(old)
    held = set(new)
    gone = [name for name in old if name not in held]
    come = [name for name in new if name not in known]
    if gone:
        yield f"the new one lacks the {kind} {_listed(gone)}"
    if come:
        yield f"the old one lacks the {kind} {_listed(come)}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(label, names[:SHOWN_NAMES]))
    if len(names) > SHOWN_NAMES:
        return f"{shown} and {len(names) - SHOWN_NAMES:,} more"
    return shown


def _texts_differ(old: OpenedCube, new: OpenedCube) -> Iterator[str]:
    """The differences of units, links and scales of the attributions, in words."""
    for name in ("units", "link"):
        texts = [str(side.cube["attribution"].attrs.get(name) or "1") for side in (old, new)]
        if texts[0] != texts[1]:
            yield f"{name} {label(texts[0])} of the old one, {label(texts[1])} of the new one"
    scales = [scale_of_cube(side.cube) for side in (old, new)]
    if scales_differ(scales):
        yield f"scale {label(scales[0])} of the old one, {label(scales[1])} of the new one"
