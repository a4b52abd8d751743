"""Values that replace those of a job file: the texts of --set, and the tables [targets.NAME]."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dshap.core.errors import InputError, shown, unknown_name
from dshap.jobfile.listing import shown_setting
from dshap.jobfile.schema import SEVERAL, name_of_one

FORM = "write --set TABLE.KEY=VALUE, like --set model.landmarks=300"
TARGETS = "targets"
"""The table of a job file that has a table for each target."""
TARGET_FORM = 'write "TABLE.KEY" = VALUE, like "job.store" = "build/dev"'


class _Change(NamedTuple):
    """A value for a key of a job file."""

    said: str
    """The text that messages begin with, such as "--set job.seed=3"."""
    form: str
    """The advice on how to write one."""
    place: str
    """TABLE.KEY, TABLE.KEY.INNER, or explain.NAME.KEY."""
    value: Any


def with_settings(given: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """Put values in place of, or beside, those of a job file's tables.

    `given` is not changed.

    Parameters
    ----------
    given : the tables
    settings : "TABLE.KEY=VALUE", "TABLE.KEY.INNER=VALUE" for a key whose value is a table itself, or
        "explain.NAME.KEY=VALUE" for the explanation of that name, and so for checks; of two for one
        key the last counts.  A value is read as TOML where it is TOML
        (300, 1e-4, true, ["hr", "temp"], "all"), else as text.

    Raises
    ------
    InputError
        Not of this form, or no explanation of that name.  Whether a table, a key and a value are
        allowed is left to the schema.
    """
    tables = copy.deepcopy(dict(given))
    for setting in settings:
        place, equals, text = setting.partition("=")
        said = f"--set {shown_setting(setting)}"
        if not equals:
            raise InputError(f"{said}: {FORM}")
        change = _Change(said, FORM, place.strip(), _value(text.strip()))
        table, key = _addressed(tables, change)
        table[key] = change.value
    return tables


def with_target(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The tables of a job file for one of its targets, without [targets].

    Parameters
    ----------
    given : the tables of a job file, which are not changed
    name : the name of a table [targets.NAME]; empty for the job as it is without a target

    Raises
    ------
    InputError
        No such target, or a key of it that has no place in the job file.

    Notes
    -----
    The keys of a target are those that `with_settings` accepts.  Names of explanations, checks and
    sinks are those of the file, also where the target changes the table that a sink is named by.
    """
    tables = copy.deepcopy(dict(given))
    targets = tables.pop(TARGETS, {})
    _refuse_no_tables(targets)
    if not name:
        return tables
    changes = list(_changes_of(targets, name))
    places = [_addressed(tables, change) for change in changes]
    for (table, key), change in zip(places, changes, strict=True):
        table[key] = change.value
    return tables


def places_of_target(given: Mapping[str, Any], name: str) -> list[str]:
    """The places that a target changes, such as "job.store"; none if no target is named."""
    if not name:
        return []
    return [change.place for change in _changes_of(given.get(TARGETS, {}), name)]


def _refuse_no_tables(targets: Any) -> None:
    """Raise an `InputError` if [targets] contains something else than tables."""
    if not isinstance(targets, dict):
        raise InputError(f"{TARGETS} = {shown(targets)}: write a table [{TARGETS}.NAME] for each")
    for name, held in targets.items():
        if not isinstance(held, dict):
            raise InputError(
                f"[{TARGETS}] {name} = {shown(held)}: write a table [{TARGETS}.NAME] for each target"
            )


def _changes_of(targets: Mapping[str, Any], name: str) -> Iterator[_Change]:
    """The changes of one target."""
    if not targets:
        raise InputError(
            f"--target {name}: the job file has no target: write a table [{TARGETS}.{name}] with "
            'keys like "job.store" = "build/dev"'
        )
    if name not in targets:
        raise InputError(unknown_name("target", name, targets))
    for place, value in _places_in(targets[name]):
        said = f'[{TARGETS}.{name}] "{place}"'
        if place.partition(".")[0] == TARGETS:
            raise InputError(f"{said}: a target changes no other target: {TARGET_FORM}")
        yield _Change(said, TARGET_FORM, place, value)


def _places_in(target: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(place, value) of the keys of a target, with or without quotes around "TABLE.KEY".

    TOML reads `job.store = "build/dev"` without quotes as a table `job` with the key `store`.
    """
    for key, value in target.items():
        depth = 2 if key in SEVERAL else 1
        if "." in key or not isinstance(value, dict):
            depth = 0
        yield from _within(key, value, depth)


def _within(place: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """The places below a table, down to so many levels of tables; else the place itself."""
    if depth == 0 or not isinstance(value, dict):
        yield place, value
        return
    for key, inner in value.items():
        yield from _within(f"{place}.{key}", inner, depth - 1)


def _addressed(tables: dict[str, Any], change: _Change) -> tuple[dict[str, Any], str]:
    """The table and the key that a change is about; tables that are not there are made."""
    name, dot, key = change.place.partition(".")
    if not (dot and name and key):
        raise InputError(f"{change.said}: {change.form}")
    if name in SEVERAL:
        table = _one_of_several(tables, name, change, key)
        rooms = []
    else:
        table = tables
        rooms = [name, *key.split(".")[:-1]]
    for room in rooms:
        table = _inside(table, room)
    key = key.rpartition(".")[2]
    if not isinstance(table, dict) or not key:
        raise InputError(f"{change.said}: it names no key of a table; {change.form}")
    return table, key


def _inside(table: Any, name: str) -> Any:
    """The table of a name in a table, made if it is not there; None if there is none to make."""
    if isinstance(table, dict) and name:
        return table.setdefault(name, {})
    return None


def _one_of_several(tables: Mapping[str, Any], kind: str, change: _Change, place: str) -> Any:
    """The table [[kind]], such as [[explain]], named before the key in "NAME.KEY"."""
    entries = tables.get(kind)
    named: dict[str, list[Any]] = {}
    if isinstance(entries, list):
        for entry in entries:
            if isinstance(entry, dict) and (own := name_of_one(entry)):
                named.setdefault(own, []).append(entry)
    name, dot, _ = place.rpartition(".")
    if not dot:
        raise InputError(
            f"{change.said}: [[{kind}]] is a list of tables, so name one: "
            f"{kind}.NAME.{place}=…, NAME one of "
            f"{', '.join(named) or 'none'}{_hint(kind)}"
        )
    if name not in named:
        hint = _hint(kind)
        unknown = unknown_name(SEVERAL[kind], name, named)
        if hint:
            unknown = unknown.rstrip(".")
        raise InputError(f"{change.said}: {unknown}{hint}")
    if len(named[name]) > 1:
        raise InputError(
            f"{change.said}: {len(named[name])} of the [[{kind}]] are named {name!r}: give each a "
            "name of its own, as in name = …"
        )
    return named[name][0]


def _hint(kind: str) -> str:
    """How one of several tables gets its name, where it needs none, after the names there are."""
    match kind:
        case "sink":
            return "; a [[sink]] is named by its key name, and without one by its table or path"
        case "check":
            return "; a [[check]] is named by its key name: give it one"
    return ""


def _value(text: str) -> Any:
    """The value of a text read as TOML, where it is TOML; else the text itself."""
    try:
        read = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    value = read.get("value")
    if len(read) == 1 and isinstance(value, str | int | float | list | dict):
        return value
    return text
