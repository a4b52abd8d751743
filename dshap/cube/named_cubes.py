"""The cubes at a place and their names, of one cube, of a job, or of the nights of one."""

from __future__ import annotations

from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.cube.arrays import read_job, read_run
from dshap.cube.current import cube_at, has_nights, names_of_cubes, night_at, runs_of
from dshap.storage.folder import Folder

SHOWN_STORES = 4
"""The most stores in a folder that a message names."""


def cube_paths(store: Place) -> list[Place]:
    """The paths of the cubes that are read at a store or directly below it."""
    return [*cubes_in(store).values()]


def cubes_in(store: Place, run_id: str = "") -> dict[str, Place]:
    """Name -> path of each cube that is read at a store or directly below it."""
    if read_run(store) is not None:
        return {store.name: cube_at(store, run_id)}
    if has_nights(store):
        return {store.name: night_at(store, run_id)}
    found = {}
    for name in names_of_cubes(store):
        place = store / name
        if has_nights(place):
            if not run_id or run_id in runs_of(place):
                found[name] = night_at(place, run_id)
        elif not run_id and read_run(place) is not None:
            found[name] = place
    return found


def named_cubes(store: Place, run_id: str = "") -> dict[str, Place]:
    """Name -> path of each cube of a store, which is one cube or contains several.

    Of an explanation with a cube for each run it is the current one, or that of `run_id`.

    Raises
    ------
    InputError
        There is no store, or it contains no cube; the message names stores inside the folder.
    DamagedError
        The pointer to the current cube names none that is there.
    """
    if not Folder(store).is_there():
        raise InputError(f"{store} does not exist: give the store of a run")
    paths = cubes_in(store, run_id)
    if not paths and run_id:
        runs = sorted({run for name in Folder(store).list() for run in runs_of(store / name)})
        raise InputError(
            f"{store} contains no cube of the run {run_id!r}: give one of "
            f"{', '.join(runs) or 'none'}"
        )
    if not paths and read_job(store) is not None:
        raise InputError(
            f"{store} contains no attribution cube yet: no run of its job has begun to explain rows"
        )
    if not paths:
        raise InputError(f"{store} contains no attribution cube: {_instead(store)}")
    return paths


def _instead(folder: Place) -> str:
    """Advice on what to give instead of a folder that is no store, such as stores inside it."""
    stores = [name for name in Folder(folder).list() if cube_paths(folder / name)]
    if not stores:
        return "give the store of a run"
    return f"give one of the stores in it, {', '.join(stores[:SHOWN_STORES])}{', …' * (len(stores) > SHOWN_STORES)}"
