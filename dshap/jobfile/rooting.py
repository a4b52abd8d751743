"""Paths of a job file are relative to its folder, not to the working directory."""

from __future__ import annotations

import copy
import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dshap.core.addresses import masked
from dshap.core.errors import InputError
from dshap.cube import read_job
from dshap.cube.arrays import RUNS
from dshap.jobfile.given_tables import keys_of_tables
from dshap.jobfile.paths import PathKey, path_key, path_of
from dshap.jobfile.schema import Job
from dshap.storage.folder import Folder


class _Path(NamedTuple):
    """A path in the tables of a job."""

    place: str
    """The name of its table, like "[job]"."""
    table: dict[str, Any]
    key: str
    noun: str
    """The kind of thing at the path: see `PathKey`."""


@dataclass(frozen=True)
class Elsewhere:
    """A relative path of a job file that would be a different file from the working directory."""

    place: str
    key: str
    noun: str
    text: str
    """The path as the file has it."""
    folder: Path
    """The folder of the file."""
    path: str
    """The absolute path, from the folder of the file."""
    from_here: str
    """The absolute path that it would be from the working directory."""

    def is_left_behind(self, job_name: Any) -> bool:
        """Whether there is something at the path from the working directory alone.

        A store with records of runs is not left behind: a version that writes such records reads
        paths from the folder of the job file, so that another copy of the job file made it.
        """
        if self.noun == "picture" or _is_there(self.path):
            return False
        if self.noun == "store":
            store = Path(self.from_here)
            stored = read_job(store)
            is_of_job = stored is not None and stored.get("name") == job_name
            return is_of_job and not Folder(store).has_room(RUNS)
        return _is_there(self.from_here)

    def __str__(self) -> str:
        better = Path(os.path.relpath(self.from_here, self.folder)).as_posix()
        where = f"{self.place} {self.key}".strip()
        said = f'{where} = "{self.text}": paths in a job file are relative to its folder'
        move = f'write {self.key} = "{better}", or move it there'
        if self.noun != "store":
            return f"{said}, and a {self.noun} is at {self.from_here}, not at {self.path}: {move}"
        return (
            f"{said}, and a store of a job of this name, which Python or dshap before version 0.2 "
            f"made, is at {self.from_here}, not at {self.path}: to continue with it, {move}; to "
            "begin a new store, give this job a different [job] name or store"
        )


def with_paths_from(
    written: Mapping[str, Any], folder: Path
) -> tuple[dict[str, Any], list[Elsewhere]]:
    """Make the paths in the tables of a job file absolute, from the folder of the file.

    Gives the tables, and the paths that mean another place from the working directory.

    Raises
    ------
    InputError
        A text that is no path of a file system, or names a variable that is not set.
    """
    tables = copy.deepcopy(dict(written))
    elsewhere = []
    for place, table, key, noun in _paths(tables):
        text = table[key]
        try:
            path = path_of(text, noun, folder)
            from_here = path_of(text, noun)
        except ValueError as error:
            where = f"{place} {key}".strip()
            raise InputError(f'{where} = "{masked(text)}": {error}') from None
        table[key] = path
        if path != from_here and noun not in ("database", "profile", "folder"):
            elsewhere.append(Elsewhere(place, key, noun, text, folder, path, from_here))
    return tables, elsewhere


def refuse_left_behind(elsewhere: Sequence[Elsewhere], tables: dict[str, Any]) -> None:
    """Raise an error if a table, file or store is at its path from the working directory.

    `tables` are those of the job after --set, which may name other paths.
    """
    meant = {(path.place, path.key): path.table[path.key] for path in _paths(tables)}
    match tables:
        case {"job": {"name": name}}:
            job_name = name
        case _:
            job_name = None
    for each in elsewhere:
        if meant.get((each.place, each.key)) == each.path and each.is_left_behind(job_name):
            raise InputError(str(each))


def _is_there(path: str) -> bool:
    """Whether a path or glob leads to a file or folder."""
    return os.path.exists(path) or next(glob.iglob(path, recursive=True), None) is not None


def _paths(tables: dict[str, Any]) -> Iterator[_Path]:
    """Yield the paths in the tables of a job, as far as they are texts."""
    for given in keys_of_tables(tables):
        match given.value, path_key(given.field):
            case str(text), PathKey(noun=noun) if text:
                yield _Path(given.place, given.table, given.key, noun)
    for key, field in Job.model_fields.items():  # a file may replace a table
        match tables.get(key), path_key(field):
            case str(text), PathKey(noun=noun) if text:
                yield _Path("", tables, key, noun)
