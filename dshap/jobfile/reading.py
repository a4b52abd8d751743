"""Reading a job file: TOML, then the schema; a refusal is one line that names the place."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from dshap.core.addresses import masked, safe_value
from dshap.core.errors import InputError, shown, unknown_name
from dshap.core.rules import as_path
from dshap.core.user_code import make_importable
from dshap.jobfile.cluster_tables import CLUSTERS, ClusterProfile, WorkerTable
from dshap.jobfile.filling import with_values_of_environment
from dshap.jobfile.kinds import Table
from dshap.jobfile.profiles import read_cluster_profile, with_profile
from dshap.jobfile.rooting import refuse_left_behind, with_paths_from
from dshap.jobfile.schema import SEVERAL, TABLES, Job
from dshap.jobfile.settings import TARGETS, places_of_target, with_settings, with_target

SHOWN_PROBLEMS = 3
"""The most problems that one message names; the others are counted."""


def read_job_file(
    path: str | Path,
    settings: Sequence[str] = (),
    cluster: str | None = None,
    target: str = "",
) -> Job:
    """Read the job in a TOML file.

    Parameters
    ----------
    path : path
    settings : sequence of str
        Values that replace the file's, like "source.path=other.parquet"; see `with_settings`.
    cluster : the profile of a cluster, in the place of the file's [cluster]
    target : the name of a table [targets.NAME] of the file, whose values replace those of its other
        tables; empty for none

    Raises
    ------
    InputError
        No file, no TOML, or a table, key or value that is not allowed, with its place.

    Notes
    -----
    Paths in the file are relative to its folder, those in `settings` to the working directory.  The
    folder is put first in `sys.path`, so that modules beside the file are found.
    """
    file = Path(os.path.normpath(as_path("job file", path, "file")))
    with _naming_file(path):
        written = tomllib.loads(file.read_text(encoding="utf-8"))
        make_importable(file.parent)
        written = _of_target(written, target, f"job file {masked(str(path))}")
        if cluster is not None:
            written = _on_cluster(written, _from_here(cluster), file.parent)
        return job_of_tables(written, settings, file.parent, _said(path, settings, target))


def target_settings(path: str | Path, target: str) -> list[str]:
    """The places that a target of a job file changes, such as "job.store"; none without a target."""
    with _naming_file(path):
        written = tomllib.loads(as_path("job file", path, "file").read_text(encoding="utf-8"))
        return places_of_target(written, target)


def targets_in(path: str | Path) -> list[str]:
    """The names of the targets of a job file; none if it has no [targets]."""
    with _naming_file(path):
        written = tomllib.loads(as_path("job file", path, "file").read_text(encoding="utf-8"))
    match written.get(TARGETS):
        case dict(targets):
            return list(targets)
    return []


def _said(path: str | Path, settings: Sequence[str], target: str) -> str:
    """The beginning of messages about a job: its file, and the options that changed it."""
    said = f"job file {masked(str(path))}"
    if target:
        said += f" with --target {target}"
    if settings:
        said += " with --set"
    return said


def _of_target(written: Mapping[str, Any], target: str, said: str) -> dict[str, Any]:
    """The tables of a job for its target; messages begin with `said`."""
    try:
        return with_target(written, target)
    except InputError as error:
        raise InputError(f"{said}: {error}") from None


@contextlib.contextmanager
def _naming_file(path: str | Path) -> Iterator[None]:
    """Name the job file in the error if it cannot be read, or is no TOML."""
    said = f"job file {masked(str(path))}"
    try:
        yield
    except OSError as error:
        raise InputError(f"{said}: {error.strerror}; give the path of a TOML file") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{said} is not valid TOML: it contains bytes that are not text in UTF-8"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{said} is not valid TOML: {error}") from error
    except RecursionError as error:
        raise InputError(
            f"{said} has lists or tables that are nested too deeply: no key accepts them"
        ) from error


def _from_here(profile: str) -> str:
    """The name of a profile, or the absolute path of its file, from the working directory."""
    if profile.endswith(".toml"):
        return str(as_path("--cluster", profile, "file").absolute())
    return profile


def _on_cluster(written: Mapping[str, Any], profile: str, folder: Path) -> dict[str, Any]:
    """The tables of a job on another cluster: without keys of [worker] that its kind does not use."""
    kind = read_cluster_profile(profile, folder)["cluster"]["kind"]
    tables = {**written, "cluster": {"profile": profile}}
    record = CLUSTERS.known_record(str(kind))
    worker = written.get("worker")
    if record is not None and isinstance(worker, dict):
        unused = WorkerTable.model_fields.keys() - record.worker_keys
        tables["worker"] = {name: value for name, value in worker.items() if name not in unused}
    return tables


def job_of_tables(
    written: Mapping[str, Any], settings: Sequence[str], folder: Path, said: str
) -> Job:
    """The job in the tables of a file in this folder; messages begin with `said`."""
    try:
        rooted, elsewhere = with_paths_from(written, folder)
    except InputError as error:
        raise InputError(f"{said}: {error}") from None
    tables = with_settings(rooted, settings)
    try:
        refuse_left_behind(elsewhere, tables)
        return parse_job(tables, folder)
    except InputError as error:
        raise InputError(f"{said}: {error}") from error


def parse_job(given: Mapping[str, Any], folder: Path | None = None, target: str = "") -> Job:
    """Check the tables of a job file; paths in them are relative to the working directory.

    A profile of a cluster is looked for beside the job in `folder` too.  `target` names a table
    [targets.NAME] whose values replace those of the other tables.
    """
    job: Job = _checked(Job, with_profile(with_target(given, target), folder))
    return job


def read_cluster(name: str) -> tuple[Any, Any]:
    """Read the tables [cluster] and [worker] of a profile, checked as those of a job are.

    Raises
    ------
    InputError
        No such profile, or a table, key or value that is not allowed.
    """
    tables = with_profile({"cluster": {"profile": _from_here(name)}})
    try:
        profile = _checked(ClusterProfile, tables)
    except InputError as error:
        raise InputError(f"profile {name}: {error}") from None
    return profile.cluster, profile.worker


def _checked(record: type[Any], tables: Mapping[str, Any]) -> Any:
    """The tables as a record, or one line about their errors."""
    tables = with_values_of_environment(tables)
    try:
        return record.model_validate(tables)
    except ValidationError as error:
        problems = [_sentence(problem, tables) for problem in error.errors()]
        more = len(problems) - SHOWN_PROBLEMS
        listed = "; ".join(problem.rstrip(".") for problem in problems[:SHOWN_PROBLEMS])
        raise InputError(listed + (f"; and {more} more" if more > 0 else "")) from None


def _sentence(problem: Any, given: Mapping[str, Any]) -> str:
    """A problem that pydantic found, as "place: what was given, what is allowed"."""
    place, record, key = _place(problem["loc"], given)
    kind = problem["type"]
    context = problem.get("ctx", {})
    value = problem["input"]
    if kind == "extra_forbidden":
        return _unknown(place, record, key)
    if kind == "missing":
        if key:
            return f"{place} {key} is missing"
        return f"table {place} is missing"
    if kind == "literal_error":
        allowed = context["expected"].split("'")[1::2]  # expected is like "'a', 'b' or 'c'"
        return f"{place} {unknown_name(key, str(value), allowed)}"
    if kind == "value_error":
        said = str(context["error"])
        if key:
            return f"{place} {key} = {_shown(key, value)}: {said}"
        return f"{place} {said}".strip()
    return f"{f'{place} {key}'.strip()} = {_shown(key, value)}: {_rule(kind, context, problem['msg'], place)}"


def _place(loc: tuple[Any, ...], given: Mapping[str, Any]) -> tuple[str, type[Table], str]:
    """The place, record and key of a location: ("model", "landmarks") -> "[model]", …."""
    if not loc or loc[0] not in TABLES:
        return "", Job, str(loc[0]) if loc else ""
    table = str(loc[0])
    rest = list(loc[1:])
    place = f"[{table}]"
    entry = given.get(table, {})
    kinds = TABLES[table]
    if table in SEVERAL:
        place = f"[[{table}]]"
        if rest:
            place = place + _label(entry, rest[0])
            entry = entry[rest.pop(0)]
    record = kinds.record(entry) if rest else Job
    if not rest:
        return place, record, ""
    return _inner_place(place, record, rest, entry)


def _inner_place(
    place: str, record: type[Table], rest: Sequence[Any], entry: Any
) -> tuple[str, type[Table], str]:
    """The place, record and key of a location in a table, whose keys may be tables themselves."""
    key = str(rest[0])
    inner = _inner_table(record, key)
    below = entry.get(key) if isinstance(entry, Mapping) else None
    match rest[1:]:
        case [int(index), *deeper] if inner is not None:  # a list of tables in the table
            return (
                f"[[{place[1:-1]}.{key}]] number {index + 1}",
                inner,
                "".join(map(str, deeper[:1])),
            )
        case [_, *_] if inner is not None:  # a table in the table, such as [model.shapley]
            return _inner_place(f"{place[:-1]}.{key}]", inner, rest[1:], below)
        case [str(name)] if isinstance(below, Mapping) and name in below:
            return place, record, f"{key}.{name}"  # a key of any name, such as environment.LANG
    return place, record, key


def _inner_table(record: type[Table], key: str) -> type[Table] | None:
    """The record class of a key whose value is a table, or a list of tables; or None."""
    field = record.model_fields.get(key)
    if field is None:
        return None
    kinds = (field.annotation, *get_args(field.annotation))
    return next(
        (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Table)), None
    )


def _label(entries: Any, index: int) -> str:
    """The name of one of several tables, or its number, as the end of its place."""
    match entries[index]:
        case {"name": str(name)} if name:
            return f" {name}"
    return f" number {index + 1}"


def _unknown(place: str, record: type[Table], key: str) -> str:
    if record is Job:
        return unknown_name("table", key, TABLES)
    said = f"{place} {unknown_name('key', key, record.model_fields)}"
    homes = [
        (table, kinds.tag, kind) for table, kinds in TABLES.items() for kind in kinds.with_key(key)
    ]
    if here := [(tag, kind) for table, tag, kind in homes if f"[{table}]" in place]:
        kinds = " or ".join(f'"{kind}"' for _, kind in here)
        return f"{said.rstrip('.')}; {key} goes with {here[0][0]} = {kinds}"
    if homes:
        return f"{said.rstrip('.')}; {key} belongs in [{homes[0][0]}]"
    return said


def _shown(key: str, value: Any) -> str:
    """A refused value of a key, such as "landmarks" or "environment.LANG", without secrets."""
    table, _, name = key.rpartition(".")
    if table:
        hidden = safe_value(table, {name: value})[name]
    else:
        hidden = safe_value(name, value)
    match hidden:
        case str():
            text = f'"{masked(hidden)}"'
        case bool():
            text = str(hidden).lower()
        case _:
            text = shown(hidden)
    if len(text) <= 60:
        return text
    return text[:57] + "..."


RULES = {
    "int_type": "give a whole number",
    "int_from_float": "give a whole number",
    "float_type": "give a number",
    "string_type": "give text in quotes",
    "bool_type": "give true or false",
    "list_type": "give a list",
    "tuple_type": "give a list",
    "dict_type": 'give a table like {location = ["lat", "lon"]}',
    "model_type": "give a table",
    "model_attributes_type": "give a table",
    "string_too_short": "give a text that is not empty",
    "string_pattern_mismatch": 'give "package.module:name"',
    "too_short": "give at least one",
}
"""Pydantic's kind of error -> what to do."""
BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def _rule(kind: str, context: Mapping[str, Any], message: str, place: str) -> str:
    if place.startswith("[["):
        noun = SEVERAL.get(place.strip("[]"))
        if noun == "explanation":
            return f"begin each {noun} with {place}, in two brackets, and give at least one"
        if noun is not None:
            return f"begin each {noun} with {place}, in two brackets"
    bounds = [f"{words} {context[name]:g}" for name, words in BOUNDS.items() if name in context]
    if bounds:
        return f"give {' and '.join(bounds)}"
    return RULES.get(kind, message)
