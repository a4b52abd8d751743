"""The kinds of a job file's tables: each is something to construct, and a record of options by its
signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, create_model

from dshap.core.errors import InputError, unknown_name
from dshap.core.user_code import import_module
from dshap.jobs.fields import options_of

__all__ = ["CODE", "KindTable", "Kinds", "Made", "Part", "Table", "imported", "one_kind"]

CODE = r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"
""""package.module:name\""""


class Table(BaseModel):
    """Base of every table: frozen, unknown keys refused, numbers are not taken from text."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


@dataclass(frozen=True)
class Part:
    """A parameter that TOML cannot hold: made from keys of the table, and from the rest of the
    job."""

    make: Callable[[Any, Any], Any]
    """(table, rest of the job) -> the argument."""
    keys: type[Table] = Table
    """The keys that it adds to the table."""


class Made(Table):
    """Base of the tables that something is constructed from."""

    making: ClassVar[Callable[..., Any]]
    """A class or a function."""
    parts: ClassVar[Mapping[str, Part]] = {}
    options: ClassVar[Collection[str]] = ()
    """Keys that are arguments as they are."""

    def made(self, rest: Any = None) -> Any:
        """What the table describes, constructed."""
        arguments = {name: part.make(self, rest) for name, part in self.parts.items()}
        return type(self).making(
            **arguments, **{name: value for name, value in self if name in self.options}
        )


class KindTable(Made):
    """Base of the tables whose `kind` says what else they hold."""

    kind: str


@dataclass(frozen=True, eq=False)
class Kinds:
    """The kinds of one table: a pydantic validator, which makes the record of the kind that is
    named.

    A kind is one line in `known`: what is constructed, as "package.module:name", or a table that is
    written out.
    """

    tag: str
    """Key of the table that names the kind; empty where there is one."""
    known: Mapping[str, str | type[Any]]
    base: type[Table]
    """Keys that all kinds have."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    """Parameter -> how it is made."""
    particular: Mapping[str, Mapping[str, Part | None]] = field(default_factory=dict)
    """kind -> its parts that differ; None: the default of the signature."""
    not_built: Collection[str] = ()
    """Kinds of the design that this version knows by name only."""
    default: str | None = None
    """The kind where none is named."""
    takes_others: bool = False
    """A kind may be "package.module:name", of code of the user's."""

    def __call__(self, given: Any) -> Any:
        """The record of a table; a ValueError where its kind is not known, or pydantic's."""
        if not isinstance(given, Mapping):
            return self.base.model_validate(given)
        return self.record(given).model_validate({self.tag: self.default, **given})

    def record(self, given: Mapping[str, Any]) -> type[Any]:
        """The record of the kind that a table names."""
        if given.get(self.tag, self.default) is None:
            raise ValueError(f"{self.tag} is missing")
        kind = str(given.get(self.tag, self.default))
        if kind in self.known:
            return self.records[kind]
        if self.takes_others and ":" in kind:
            return _record(self, kind, imported(kind, self.tag))
        if kind in self.not_built:
            raise ValueError(
                f'{self.tag} = "{kind}" is not built yet; built: {", ".join(self.known)}'
            )
        raise ValueError(unknown_name(self.tag, kind, self.known))

    @cached_property
    def records(self) -> Mapping[str, type[Any]]:
        """kind -> its record, of all that are known."""
        return {
            kind: _record(self, kind, imported(place, self.tag))
            if isinstance(place, str)
            else place
            for kind, place in self.known.items()
        }

    def with_key(self, key: str) -> list[str]:
        """The kinds that have this key."""
        return [kind for kind, record in self.records.items() if key in record.model_fields]


def one_kind(record: type[Table]) -> Kinds:
    """Of a table that is always the same record."""
    return Kinds("", {"": record}, record, default="")


@cache
def _record(kinds: Kinds, kind: str, make: Callable[..., Any]) -> type[Made]:
    """The record of one kind: the keys of its parts, and the options of its signature."""
    differing = kinds.particular.get(kind, {})
    offered = {
        name: differing.get(name, part) for name, part in {**kinds.parts, **differing}.items()
    }
    taken = inspect.signature(make).parameters.keys()
    written = kinds.base.model_fields.keys()
    options = options_of(make, without={*offered, *written})
    parts = {name: part for name, part in offered.items() if part is not None and name in taken}
    bases = tuple(dict.fromkeys(part.keys for part in parts.values() if part.keys is not Table))
    record: type[Made] = create_model(make.__name__, __base__=(*bases, kinds.base), **options)  # type: ignore[call-overload]
    record.making = make
    record.parts = parts
    record.options = {*options, *(written & taken)} - parts.keys()
    return record


def imported(place: str, said: str, noun: str = "") -> Any:
    """Import "package.module:name", of code that is installed or lies beside the job; messages
    begin with `said`.

    Raises
    ------
    InputError
        No such module, one that raises, or no such name in it.
    """
    module, _, name = place.partition(":")
    try:
        found: Any = import_module(module)
    except InputError as error:
        raise InputError(f'{said} = "{place}": {error}') from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise InputError(f'{said} = "{place}": {module} has no {noun}{name!r}')
    return found
