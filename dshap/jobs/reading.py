"""Reading a job file: TOML, then the schema, and every refusal as one line with its place."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from dshap.errors import InputError, unknown_name
from dshap.jobs.schema import NOT_BUILT, Job
from dshap.jobs.settings import with_settings

__all__ = ["parse_job", "read_job_file"]

SHOWN_PROBLEMS = 3
"""Problems that one message names; the others are counted."""


def read_job_file(path: str | Path, settings: Sequence[str] = ()) -> Job:
    """The job in a TOML file.

    Parameters
    ----------
    path : path
    settings : sequence of str
        Values in the place of the file's, like "source.path=other.parquet"; see `with_settings`.

    Raises
    ------
    InputError
        No file, no TOML, or a table, key or value that is not allowed, with its place.
    """
    try:
        given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"job file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"job file {path} is no TOML: {error}") from error
    given = with_settings(given, settings)
    try:
        return parse_job(given)
    except InputError as error:
        raise InputError(f"job file {path}{' with --set' if settings else ''}: {error}") from error


def parse_job(given: Mapping[str, Any]) -> Job:
    """The job in the tables of a job file."""
    _refuse_not_built(given)
    try:
        return Job.model_validate(dict(given))
    except ValidationError as error:
        problems = [_sentence(problem, given) for problem in error.errors()]
        more = len(problems) - SHOWN_PROBLEMS
        shown = "; ".join(problem.rstrip(".") for problem in problems[:SHOWN_PROBLEMS])
        raise InputError(shown + (f"; and {more} more" if more > 0 else "")) from None


def _members(annotation: Any) -> list[type[BaseModel]]:
    """The records that a field holds one, or one of several, of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    parts = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    return [member for part in parts for member in _members(part)]


TABLES: Mapping[str, list[type[BaseModel]]] = {name: _members(f.annotation) for name, f in Job.model_fields.items()}
TAGS = {name: "value" if name == "explain" else "kind" for name in NOT_BUILT}


def _allowed(record: type[BaseModel], key: str) -> tuple[str, ...]:
    return tuple(map(str, get_args(record.model_fields[key].annotation)))


def _refuse_not_built(given: Mapping[str, Any]) -> None:
    """What the design names and this version does not have is told from what nobody knows."""
    for table, kinds in NOT_BUILT.items():
        entries = given.get(table, {})
        for entry in entries if isinstance(entries, list) else [entries]:
            kind = entry.get(TAGS[table]) if isinstance(entry, dict) else None
            if isinstance(kind, str) and kind in kinds:
                built = [name for record in TABLES[table] for name in _allowed(record, TAGS[table])]
                place = f"[[{table}]]" if table == "explain" else f"[{table}]"
                raise InputError(f'{place} {TAGS[table]} = "{kind}" is not built yet; built: {", ".join(built)}')


def _sentence(problem: Any, given: Mapping[str, Any]) -> str:
    """One problem as "place: what was given, what is allowed"."""
    place, record, key = _place(problem["loc"], given)
    kind, context, value = problem["type"], problem.get("ctx", {}), problem["input"]
    if kind == "extra_forbidden":
        return _unknown(place, record, key)
    if kind in ("missing", "union_tag_not_found"):
        name = key if kind == "missing" else context["discriminator"].strip("'")
        return f"{place} {name} is missing" if name else f"table {place} is missing"
    if kind == "union_tag_invalid":
        tag = context["discriminator"].strip("'")
        return f"{place} {unknown_name(tag, context['tag'], _quoted(context['expected_tags']))}"
    if kind == "literal_error":
        return f"{place} {unknown_name(key, str(value), _quoted(context['expected']))}"
    if kind == "value_error":
        said = str(context["error"])
        return f"{place} {key} = {_shown(value)}: {said}" if key else f"{place} {said}".strip()
    return f"{f'{place} {key}'.strip()} = {_shown(value)}: {_rule(kind, context, problem['msg'], place)}"


def _place(loc: tuple[Any, ...], given: Mapping[str, Any]) -> tuple[str, type[BaseModel], str]:
    """("[model]", its record, "landmarks") of a location like ("model", "kernel_ridge", "landmarks")."""
    if not loc or loc[0] not in TABLES:
        return "", Job, str(loc[0]) if loc else ""
    table, rest = str(loc[0]), list(loc[1:])
    place = f"[{table}]"
    if table == "explain":
        place = "[[explain]]"
        if rest and isinstance(rest[0], int):
            place += _label(given["explain"], rest.pop(0))
    members = TABLES[table]
    if len(members) > 1 and rest:
        tag = rest.pop(0)
        members = [member for member in members if tag in _allowed(member, TAGS[table])] or members
    return place, members[0], ".".join(map(str, rest[:1]))


def _label(entries: Any, index: int) -> str:
    """Which of several, by name where it has one."""
    name = entries[index].get("name") if isinstance(entries[index], dict) else None
    return f" {name}" if isinstance(name, str) and name else f" number {index + 1}"


def _unknown(place: str, record: type[BaseModel], key: str) -> str:
    if record is Job:
        return unknown_name("table", key, TABLES)
    homes = [(table, own) for table, records in TABLES.items() for own in records if key in own.model_fields]
    here = [own for table, own in homes if f"[{table}]" in place]
    said = f"{place} {unknown_name('key', key, record.model_fields)}"
    if here:
        tag = next(name for name in ("kind", "value") if name in here[0].model_fields)
        kinds = " or ".join(f'"{_allowed(own, tag)[0]}"' for own in here)
        return f"{said.rstrip('.')}; {key} goes with {tag} = {kinds}"
    return f"{said.rstrip('.')}; {key} belongs in [{homes[0][0]}]" if homes else said


def _quoted(text: str) -> list[str]:
    """The names in "'a', 'b' or 'c'"."""
    return text.split("'")[1::2]


def _shown(value: Any) -> str:
    text = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


RULES = {
    "int_type": "give a whole number",
    "int_from_float": "give a whole number",
    "float_type": "give a number",
    "string_type": "give text in quotes",
    "bool_type": "give true or false",
    "list_type": "give a list",
    "dict_type": 'give a table like {location = ["lat", "lon"]}',
    "model_type": "give a table",
    "model_attributes_type": "give a table",
    "string_too_short": "give a text that is not empty",
    "string_pattern_mismatch": 'give "package.module:name"',
    "too_short": "give at least one",
}
"""pydantic's kind of error -> what to do."""
BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def _rule(kind: str, context: Mapping[str, Any], message: str, place: str) -> str:
    if place == "[[explain]]":
        return "begin each explanation with [[explain]], in two brackets, and give at least one"
    bounds = [f"{words} {context[name]:g}" for name, words in BOUNDS.items() if name in context]
    return f"give {' and '.join(bounds)}" if bounds else RULES.get(kind, message)
