"""Every key of a job, with its value and the source of this value."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dshap.core.addresses import (
    ENVIRONMENT,
    MASK,
    is_secret,
    masked,
    safe_value,
    without_quoted_secrets,
)
from dshap.jobfile.kinds import Table
from dshap.jobfile.schema import SEVERAL, Job, name_of_one

_PLACE = re.compile(r"\s*\w[\w -]*(\.[\w -]+)+")
"""Pattern of the place of a key, like model.landmarks."""
BARE = re.compile(r"[A-Za-z0-9_-]+")
"""Pattern of the keys that TOML accepts without quotes."""
Origin = Literal["job file", "--target", "--set", "default"]


@dataclass(frozen=True)
class Key:
    """A key of a job."""

    table: str
    """The table, as a job file writes it: "[job]", "[[explain]]"."""
    index: int
    """The position among several tables of this name."""
    name: str
    value: Any
    """The value, as JSON has it, without secrets; None if there is none."""
    origin: Origin


def keys_of(job: Job, settings: Sequence[str] = (), target: Sequence[str] = ()) -> Iterator[Key]:
    """Yield every key of a job, those that it leaves out too, in the order of its tables.

    `settings` are the texts of --set that the job was read with, and `target` the places that its
    target changed.
    """
    replaced: dict[str, Origin] = dict.fromkeys(target, "--target")
    replaced |= {setting.partition("=")[0].strip(): "--set" for setting in settings}
    for table in Job.model_fields:
        held = getattr(job, table)
        if table not in SEVERAL:
            written: Collection[str] = ()
            if table in job.model_fields_set:
                written = held.model_fields_set
            yield from _keys_of_table(f"[{table}]", 0, held, written, table, replaced)
            continue
        for index, record in enumerate(held):
            within = f"{table}.{name_of_one(dict(record))}"
            written = record.model_fields_set
            yield from _keys_of_table(f"[[{table}]]", index, record, written, within, replaced)


def _keys_of_table(
    place: str,
    index: int,
    record: Table,
    written: Collection[str],
    within: str,
    replaced: Mapping[str, Origin],
) -> Iterator[Key]:
    """The keys of one table, of which the job file and --set have those in `written`."""
    for name, value in record.model_dump(mode="json").items():
        origin: Origin = "default"
        if name in written:
            origin = "job file"
        whole = f"{within}.{name}"
        for changed, by in replaced.items():
            if changed == whole or changed.startswith(f"{whole}."):
                origin = by
        yield Key(place, index, name, safe_value(name, value), origin)


def as_toml(keys: Sequence[Key], *, with_defaults: bool) -> str:
    """The keys as TOML; with defaults, each line names the source of its value.

    A key without a value is a comment, as TOML has no word for it.  Secrets are masked.
    """
    lines: list[str] = []
    shown = [key for key in keys if with_defaults or key.origin != "default"]
    at: tuple[str, int] | None = None
    for key in shown:
        if at != (key.table, key.index):
            at = (key.table, key.index)
            lines += ["", key.table]
        line = _line(key)
        if with_defaults:
            line = f"{line:<48}  # {key.origin}"
        lines.append(line)
    return "\n".join(lines).strip()


def _line(key: Key) -> str:
    if key.value is None:
        return f"# {key.name}"
    name = key.name
    if not BARE.fullmatch(name):
        name = json.dumps(name, ensure_ascii=False)
    return f"{name} = {_toml(key.value)}"


def _toml(value: Any) -> str:
    """A value of JSON as TOML."""
    match value:
        case dict():
            inside = ", ".join(
                f"{json.dumps(name)} = {_toml(each)}"
                for name, each in value.items()
                if each is not None
            )
            return f"{{ {inside} }}"
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case str():
            return json.dumps(masked(value), ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


def shown_setting(setting: str) -> str:
    """A text of --set without its secrets."""
    place, equals, text = setting.partition("=")
    table, _, name = place.strip().rpartition(".")
    if not (equals and _PLACE.fullmatch(place)):
        return masked(setting)
    if table.endswith(f".{ENVIRONMENT}"):
        return f"{place}={safe_value(ENVIRONMENT, {name: text})[name]}"
    if name == ENVIRONMENT:
        return f"{place}={_toml(safe_value(name, _table_in(text)))}"
    if is_secret(name):
        return f"{place}={MASK}"
    return f"{place}={masked(without_quoted_secrets(text))}"


def _table_in(text: str) -> Any:
    """The table in a text of TOML; the text itself if there is none."""
    try:
        return tomllib.loads(f"table = {text}")["table"]
    except tomllib.TOMLDecodeError:
        return text
