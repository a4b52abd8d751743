"""Paths of a job file: relative to its folder, as other tools have it, and not to where the command
runs."""

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
from dshap.jobs.paths import PathKey, path_key, path_of
from dshap.jobs.schema import TABLES

__all__ = ["Elsewhere", "refuse_left_behind", "with_paths_from"]


class _Path(NamedTuple):
    """A path in the tables of a job."""

    place: str
    """Its table, like "[job]"."""
    table: dict[str, Any]
    key: str
    noun: str
    """The kind of thing that lies there: see `PathKey`."""


@dataclass(frozen=True)
class Elsewhere:
    """A relative path of a job file that leads to another place from the working directory."""

    place: str
    key: str
    noun: str
    text: str
    """The path as the file has it."""
    folder: Path
    """The folder of the file."""
    path: str
    """Where the path leads from there."""
    from_here: str
    """Where it leads from the working directory."""

    def is_left_behind(self, job_name: Any) -> bool:
        """Whether something stands in the other place, and nothing where the path leads."""
        if self.noun == "picture" or _is_there(self.path):
            return False
        if self.noun == "store":
            stored = read_job(Path(self.from_here))
            return stored is not None and stored.get("name") == job_name
        return _is_there(self.from_here)

    def __str__(self) -> str:
        better = Path(os.path.relpath(self.from_here, self.folder)).as_posix()
        if self.noun == "store":
            what = "the store of this job"
        else:
            what = f"a {self.noun}"
        return (
            f'{self.place} {self.key} = "{self.text}": paths in a job file are relative to its '
            f"folder, and {what} "
            f'stands at {self.from_here}, not at {self.path}: write {self.key} = "{better}", or '
            "move it there"
        )


def with_paths_from(
    written: Mapping[str, Any], folder: Path
) -> tuple[dict[str, Any], list[Elsewhere]]:
    """The tables of a job file in this folder with absolute paths, and those that lead elsewhere
    from where this runs.

    Raises
    ------
    InputError
        What is no path of a file system, or names a variable that is not set.
    """
    tables = copy.deepcopy(dict(written))
    elsewhere = []
    for place, table, key, noun in _paths(tables):
        text = table[key]
        try:
            path = path_of(text, noun, folder)
            from_here = path_of(text, noun)
        except ValueError as error:
            raise InputError(f'{place} {key} = "{masked(text)}": {error}') from None
        table[key] = path
        if path != from_here:
            elsewhere.append(Elsewhere(place, key, noun, text, folder, path, from_here))
    return tables, elsewhere


def refuse_left_behind(elsewhere: Sequence[Elsewhere], tables: Mapping[str, Any]) -> None:
    """Raise where a table, a file or the store of the job stands where its path led from the
    working directory.

    `tables` are those of the job, in which --set may have named other places.
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
    """A file or folder, or one that a glob finds."""
    return os.path.exists(path) or next(glob.iglob(path, recursive=True), None) is not None


def _paths(tables: Mapping[str, Any]) -> Iterator[_Path]:
    """The paths in the tables of a job, as far as they are texts."""
    for name, kinds in TABLES.items():
        for place, table in _tables_of(name, tables.get(name)):
            record = kinds.records.get(str(table.get(kinds.tag, kinds.default)))
            if record is None:
                fields = {}
            else:
                fields = record.model_fields
            for key, given in list(table.items()):
                match given, path_key(fields.get(key)):
                    case str(text), PathKey(noun=noun) if text:
                        yield _Path(place, table, key, noun)


def _tables_of(name: str, given: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place in messages, table) of a table, or of each [[explain]]."""
    match given:
        case dict():
            yield f"[{name}]", given
        case [*entries]:
            for number, entry in enumerate(entries):
                match entry:
                    case dict():
                        yield f"[[{name}]] {entry.get('name', f'number {number + 1}')}", entry
