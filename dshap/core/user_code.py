"""Import modules of the user's, and name the file and line of theirs that raised an error."""

from __future__ import annotations

import importlib
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from dshap.core.errors import InputError

SHOWN_CHARACTERS = 300
"""The most characters of another program's message that are quoted."""
_PYTHON = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
INSTALLED = tuple(str(Path(place).resolve()) for place in (*_PYTHON, os.path.dirname(__file__)))
"""Folders whose files are Python's, installed packages, or dshap itself."""
JOB_FOLDERS: list[str] = []
"""Folders of the job files in this process, in the order they were added; the last one is first in
`sys.path`."""


def make_importable(folder: Path) -> None:
    """Put the folder of a job first in `sys.path`, as Python does with a script's.

    Local workers inherit it.
    """
    name = str(folder)
    if name in sys.path:
        sys.path.remove(name)
    sys.path.insert(0, name)
    importlib.invalidate_caches()
    JOB_FOLDERS.append(name)


def job_path(variables: Mapping[str, str]) -> dict[str, str]:
    """The variable PYTHONPATH of workers elsewhere, with the folder of the job file first.

    It is empty if no job file was read.  `variables` may have a PYTHONPATH of their own.
    """
    folders = JOB_FOLDERS[-1:]
    if not folders:
        return {}
    given = variables.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    return {"PYTHONPATH": os.pathsep.join([*folders, *filter(None, [given])])}


def import_module(name: str) -> ModuleType:
    """Import the module of this name.

    Raises
    ------
    InputError
        No such module, one that raises while it is imported, or one whose name is another file in
        this process.
    """
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if f"{name}.".startswith(f"{error.name}."):
            raise InputError(f"there is no module {error.name}: {_looked()}") from error
        raise _failed(name, error) from error
    except (Exception, SystemExit) as error:
        raise _failed(name, error) from error
    _refuse_another(name.partition(".")[0])
    return module


def _failed(name: str, error: BaseException) -> InputError:
    return InputError(raised_by_import(error) or f"importing {name} failed: {_told(error)}")


def _looked() -> str:
    """The end of a message: the places where modules were looked for, and the advice."""
    folders = [folder for folder in JOB_FOLDERS[-1:] if folder in sys.path]
    if folders:
        beside = f"in {folders[0]} (the folder of the job file), "
    else:
        beside = ""
    return (
        f"looked {beside}on PYTHONPATH and in the installed packages; put its file there, or its "
        "folder on PYTHONPATH"
    )


def told_by_workers(error: BaseException) -> str:
    """Explain why a worker could not unpickle its task; for a missing module, where it looked."""
    found = re.search(r"No module named '([\w.]+)'", str(error))
    if found is None:
        return _told(error)
    folder = next((folder for folder in JOB_FOLDERS[-1:] if folder in sys.path), os.getcwd())
    return (
        f"there is no module {found.group(1)} there; workers that dshap did not start search the "
        "PYTHONPATH that they were started with, and the installed packages: start them with "
        f"PYTHONPATH={folder}"
    )


def _refuse_another(name: str) -> None:
    """Raise if a module came from another file than the one first on the path now."""
    first = PathFinder.find_spec(name)
    taken = sys.modules[name].__spec__
    if first is None or taken is None or first.origin == taken.origin or first.origin is None:
        return
    if not any(Path(folder) in Path(first.origin).parents for folder in JOB_FOLDERS[-1:]):
        return
    raise InputError(
        f"module {name} is {taken.origin or 'a part of Python'} in this process, not "
        f"{first.origin}: rename the file, or run the jobs in two processes"
    )


def raised_by_import(error: BaseException) -> str:
    """The sentence naming the user's file and line that raised during an import; else empty."""
    match error:
        case SyntaxError(filename=str(file)) if _is_users(file):
            return f"{Path(file).name} is not valid Python: {error.msg}, in {file}:{error.lineno}"
    frames = list(_frames_of_import(error))
    if not frames:
        return ""
    file, line = frames[-1]
    return (
        f"{Path(frames[0][0]).name} raised while it was imported: {_told(error)}, in {file}:{line}"
    )


def _frames_of_import(error: BaseException) -> Iterator[tuple[str, int]]:
    """Yield (file, line) in the user's files, from the module whose import raised downwards."""
    is_importing = was_machinery = False
    for frame in traceback.extract_tb(error.__traceback__):
        is_users = _is_users(frame.filename)
        # the machinery of imports runs the body of a module, a frame of this name
        is_importing |= was_machinery and is_users and frame.name == "<module>"
        was_machinery = frame.filename.startswith("<frozen importlib")
        if is_importing and is_users:
            yield frame.filename, frame.lineno or 0


def _is_users(file: str) -> bool:
    """Whether a file is the user's: neither Python's, nor installed, nor dshap's."""
    return not file.startswith("<") and not str(Path(file).resolve()).startswith(INSTALLED)


def _told(error: BaseException) -> str:
    """The type of an error and the first line of its message, shortened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else ""
    if len(text) <= SHOWN_CHARACTERS:
        shown = text
    else:
        shown = text[: SHOWN_CHARACTERS - 1] + "…"
    if shown:
        return f"{type(error).__name__}: {shown}"
    return type(error).__name__
