"""The tables of a job file as TOML gives them, before they are checked, with the field of each key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

from dshap.jobfile.kinds import Kinds
from dshap.jobfile.schema import TABLES


class GivenKey(NamedTuple):
    """A key in the tables of a job."""

    place: str
    """The name of its table in messages, like "[job]"."""
    table: dict[str, Any]
    key: str
    field: FieldInfo | None
    """The field that the key is checked by; None if there is none."""

    @property
    def value(self) -> Any:
        return self.table[self.key]


def keys_of_tables(tables: Mapping[str, Any]) -> Iterator[GivenKey]:
    """Yield the keys of the tables of a job, as far as these are tables."""
    for name, kinds in TABLES.items():
        for place, table in _tables_of(name, tables.get(name)):
            for key in list(table):
                yield GivenKey(place, table, key, _field(kinds, table, key))


def _field(kinds: Kinds, table: Mapping[str, Any], key: str) -> FieldInfo | None:
    """The field of a key; of a [cluster] whose kind its profile sets, of any kind that has one."""
    record = kinds.known_record(str(table.get(kinds.tag, kinds.default)))
    if record is not None:
        return record.model_fields.get(key)
    if "profile" in table:
        return next((kinds.records[kind].model_fields[key] for kind in kinds.with_key(key)), None)
    return None


def _tables_of(name: str, given: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place in messages, table) of a table, or of each [[explain]]."""
    match given:
        case dict():
            yield f"[{name}]", given
        case [*entries]:
            for number, entry in enumerate(entries):
                match entry:
                    case dict():
                        yield f"[[{name}]] {entry.get('name', f'number {number + 1}')}", entry
