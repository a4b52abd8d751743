"""Cubes as arguments of callers: the path of a store, a mapping name -> cube, or an opened cube."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from dshap.core.duck_typing import has_member
from dshap.core.errors import InputError, shown
from dshap.core.places import BucketPath, Place
from dshap.core.rules import as_place
from dshap.cube.current import cube_at
from dshap.cube.datasets import store_of
from dshap.cube.named_cubes import named_cubes


def given_cubes(given: Any, name: str = "cubes") -> dict[str, Place]:
    """Name -> path of each cube from a caller.

    Parameters
    ----------
    given : a mapping name -> cube; or the path of a store, which has one cube or several; or an
        opened cube, which gets the name of its store
    name : the parameter that a message names

    Raises
    ------
    InputError
        It is none of these, there is no store, it contains no cube, or as `given_cube`.
    """
    if has_member(given, "data_vars"):
        path = given_cube(given, name)
        return {path.name: path}
    match given:
        case Mapping():
            return {
                str(each): given_cube(cube, f"{name}[{each!r}]") for each, cube in given.items()
            }
        case str() | os.PathLike() | BucketPath():
            return named_cubes(as_place(name, given))
    raise InputError(
        f"{name} is {shown(given)}: give the path of a store, an opened cube, or a mapping "
        '{"name": path} of several'
    )


def given_cube(given: Any, name: str = "cube") -> Place:
    """The path of one cube from a caller.

    Parameters
    ----------
    given : the path of a cube, or of the folder of an explanation with a cube for each run, whose
        current one is taken; or a cube that `dshap.open_cube` has opened
    name : the parameter that a message names

    Raises
    ------
    InputError
        It is neither; or a Dataset in memory, or one whose attributions were changed or selected,
        which no store has as they are.
    """
    match given:
        case str() | os.PathLike() | BucketPath():
            return cube_at(as_place(name, given))
    if not has_member(given, "data_vars"):
        raise InputError(
            f"{name} is {shown(given)}: give the path of a cube, or a cube of dshap.open_cube"
        )
    path = store_of(given) if "attribution" in given else None
    if path is None:
        raise InputError(
            f"{name} is a Dataset that was changed, or that does not come from a store: give the "
            "path of its store, or the cube of dshap.open_cube without changes"
        )
    return path
