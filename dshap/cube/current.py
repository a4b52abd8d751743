"""The cubes of a job with nights: one for each run in a folder, and a pointer to the one that is read.

The folder of such an explanation is STORE/EXPLAIN.  It contains a cube for each run id, and the
file `current`, which names one of them.
"""

from __future__ import annotations

import re

from dshap.core.errors import DamagedError, InputError, LockedError
from dshap.core.places import Place
from dshap.core.rules import OF_STORES
from dshap.cube.arrays import is_cube_or_job, is_job_store, read_run
from dshap.cube.creation import creation_at
from dshap.storage.folder import Folder

CURRENT = "current"
RUN_ID = re.compile(r"[\w-][\w.-]*")
"""The names that a run may have: names of folders that are not hidden."""
SHOWN_RUNS = 5


def set_current(folder: Place, run_id: str) -> None:
    """Let the cube of this run be the one that is read, in one step that survives a power cut.

    The pointer never goes back to an earlier run, and never over one that was written meanwhile.

    Raises
    ------
    InputError
        There is no such cube.
    LockedError
        The pointer names the cube of a later run, or another process has just written it.
    """
    if not RUN_ID.fullmatch(run_id) or read_run(folder / run_id) is None:
        raise _no_run(folder, run_id)
    files = Folder(folder)
    before = _content(folder)
    named = _run_in(before or b"")
    if named == run_id:
        return
    if named is not None and named > run_id and read_run(folder / named) is not None:
        raise LockedError(
            f"{folder / CURRENT} names the later run {named}, which another process has finished: "
            f"it cannot name {run_id} again; run the same command again"
        )
    if before is not None and not files.has_file(CURRENT):  # a folder or a broken link
        files.clear_way(CURRENT)
        before = None
    # only if nobody has written the pointer since it was read above
    if not files.exchange(CURRENT, before, f"{run_id}\n".encode()):
        raise LockedError(
            f"{folder / CURRENT} was written by another process while this process set it to "
            f"{run_id}: run the same command again"
        )


def current_of(folder: Place) -> str | None:
    """The run whose cube is read; None if none is recorded.

    Raises
    ------
    DamagedError
        The pointer names no cube that is there.
    """
    named, fault = _pointer(folder)
    if fault is not None:
        raise DamagedError(
            f"{folder / CURRENT} {fault}: dshap verify {folder} --repair sets it to the newest "
            "finished run, or give --run"
        )
    return named


def fault_of_current(folder: Place) -> str | None:
    """The fault of the pointer, in words; None if it has none, or there is no pointer."""
    _, fault = _pointer(folder)
    return fault


def _pointer(folder: Place) -> tuple[str | None, str | None]:
    """(run that the pointer names, its fault in words); neither if there is no pointer."""
    content = _content(folder)
    if content is None:
        return None, None
    named = _run_in(content)
    if named is not None and read_run(folder / named) is not None:
        return named, None
    if read_run(folder) is not None:  # a cube, in which nothing is a pointer
        return named, None
    if named is None:
        return None, "names no run"
    return named, f"names the run {named}, whose cube is not there"


def _content(folder: Place) -> bytes | None:
    """The content of the pointer, empty if it is no file; None if there is none."""
    files = Folder(folder)
    content = files.get(CURRENT)
    if content is None and files.has(CURRENT):  # no file, or one that was written just now
        return files.get(CURRENT) or b""
    return content


def _named(folder: Place) -> str | None:
    """The content of the pointer; None if it is missing, or not the name of a run."""
    return _run_in(Folder(folder).get(CURRENT) or b"")


def _run_in(content: bytes) -> str | None:
    """The name of a run that is the content of a pointer; None if it is none."""
    text = content.decode(errors="replace").strip()
    if RUN_ID.fullmatch(text):
        return text
    return None


def runs_of(folder: Place) -> list[str]:
    """The runs that have a cube in this folder, the oldest first."""
    return [name for name in Folder(folder).list() if read_run(folder / name) is not None]


def has_nights(folder: Place) -> bool:
    """Whether this is the folder of an explanation with a cube for each run."""
    if is_cube_or_job(folder):
        return False
    names = Folder(folder).list()
    if CURRENT in names:
        return True
    return is_job_store(folder.parent) and any(
        read_run(folder / name) is not None for name in names
    )


def names_of_cubes(folder: Place) -> list[str]:
    """The names in a folder that cubes may have: in the store of a job those that mean nothing else."""
    names = Folder(folder).list()
    if names and is_job_store(folder):
        return [name for name in names if name not in OF_STORES]
    return names


def cube_at(folder: Place, run_id: str = "") -> Place:
    """The path of the cube that is read here: of this run, else of the current one.

    It is the path itself if it is no folder of nights.  Without a pointer, in the first run,
    it is the newest cube.

    Raises
    ------
    InputError
        There is no cube of this run.
    DamagedError
        The pointer names no cube that is there.
    """
    if has_nights(folder):
        return night_at(folder, run_id)
    if run_id:
        raise InputError(f"{folder} has no cube for each run: leave --run out")
    return folder


def night_at(folder: Place, run_id: str = "") -> Place:
    """The path of a cube as in `cube_at`, in a folder that has one for each run."""
    if run_id and run_id not in runs_of(folder):
        raise _no_run(folder, run_id)
    return folder / (run_id or current_of(folder) or runs_of(folder)[-1])


def _no_run(folder: Place, run_id: str) -> InputError:
    runs = runs_of(folder)
    shown = ", ".join(runs[-SHOWN_RUNS:]) or "none"
    if len(runs) > SHOWN_RUNS:
        shown = f"…, {shown}"
    return InputError(f"{folder} contains no cube of the run {run_id!r}: give one of {shown}")


def remove_run(folder: Place, run_id: str) -> None:
    """Remove the cube of a run, and the rest of a killed removal; nothing if it is gone.

    It goes in one step, by another name, so that no half of it is ever found under its own.  Only
    the holder of the store's lock may ask.

    Raises
    ------
    InputError
        The cube is the one that is read.
    """
    if run_id == _named(folder):
        raise InputError(f"{folder / run_id} is the current cube: it cannot be removed")
    creation = creation_at(folder)
    if run_id in runs_of(folder):
        creation.take_away(run_id)
    creation.clear_taken()
