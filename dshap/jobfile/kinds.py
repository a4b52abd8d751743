"""The kinds of a job file's tables, each a record of options derived from a signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, create_model

from dshap.core.addresses import masked, safe_value
from dshap.core.errors import InputError, unknown_name
from dshap.core.user_code import import_module
from dshap.jobfile.fields import options_of

CODE = r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"
"""The pattern of "package.module:name"."""


class Table(BaseModel):
    """The base of every table: frozen, with unknown keys refused, and no numbers read from text."""

    # descriptions for the JSON schema are read from the source when that is asked for
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """The keys and their values for `repr`, without secrets."""
        for name, value in super().__repr_args__():
            shown = safe_value(name or "", value)
            if isinstance(shown, str):
                shown = masked(shown)
            yield name, shown


@dataclass(frozen=True)
class ConstructedArgument:
    """A constructor argument that TOML cannot express.

    It is built from keys of the table and from the rest of the job.
    """

    make: Callable[[Any, Any], Any]
    """Function (table, rest of the job) -> the argument."""
    keys: type[Table] = Table
    """The keys that it adds to the table."""


class Made(Table):
    """The base of tables from which an object is constructed."""

    making: ClassVar[Callable[..., Any]]
    """The class or function that constructs the object."""
    parts: ClassVar[Mapping[str, ConstructedArgument]] = {}
    options: ClassVar[Collection[str]] = ()
    """Keys that are passed as arguments unchanged."""

    def made(self, rest: Any = None) -> Any:
        """Construct the object that the table describes."""
        arguments = {name: part.make(self, rest) for name, part in self.parts.items()}
        return type(self).making(
            **arguments, **{name: value for name, value in self if name in self.options}
        )


class KindTable(Made):
    """The base of tables whose `kind` decides their other keys."""

    kind: str


@dataclass(frozen=True, eq=False)
class Kinds:
    """The kinds of one table; called on a table, it validates it as a record of the named kind.

    A kind is one line in `known`: "package.module:name" of the class or function that constructs
    it, or a table class that is written out.
    """

    tag: str
    """The key of the table that names the kind; empty if there is one kind only."""
    known: Mapping[str, str | type[Any]]
    base: type[Table]
    """The base record, with the keys that all kinds have."""
    parts: Mapping[str, ConstructedArgument] = field(default_factory=dict)
    """Parameter -> how it is built."""
    particular: Mapping[str, Mapping[str, ConstructedArgument | None]] = field(default_factory=dict)
    """Kind -> its parts that differ; None: the default of the signature."""
    bases: Mapping[str, type[Any]] = field(default_factory=dict)
    """Kind -> its base record, for kinds with keys that other kinds do not have."""
    not_built: Collection[str] = ()
    """Kinds that this version does not support yet; a message says so."""
    default: str | None = None
    """The kind of a table that does not name one; empty if its record has no such key."""
    takes_others: bool = False
    """Whether a kind may be "package.module:name", of the user's code."""

    def __call__(self, given: Any) -> Any:
        """Validate a table as a record; a ValueError for an unknown kind, or pydantic's error."""
        if not isinstance(given, Mapping):
            return self.base.model_validate(given)
        if self.tag in given or self.default == "":
            return self.record(given).model_validate(given)
        record = self.record(given).model_validate({self.tag: self.default, **given})
        # the listing of a job distinguishes defaults from the keys of the file
        record.model_fields_set.discard(self.tag)
        return record

    def record(self, given: Mapping[str, Any]) -> type[Any]:
        """The record class of the kind that a table names."""
        if given.get(self.tag, self.default) is None:
            raise ValueError(f"{self.tag} is missing")
        kind = str(given.get(self.tag, self.default))
        if kind in self.known:
            return self.record_of(kind)
        if self.takes_others and ":" in kind:
            return _record(self, kind, imported(kind, self.tag))
        if kind in self.not_built:
            raise ValueError(
                f'{self.tag} = "{kind}" is not available yet; available: {", ".join(self.known)}'
            )
        raise ValueError(unknown_name(self.tag, kind, self.known))

    @cached_property
    def records(self) -> Mapping[str, type[Any]]:
        """Kind -> its record class, for all known kinds."""
        return {kind: self.record_of(kind) for kind in self.known}

    def record_of(self, kind: str) -> type[Any]:
        """The record class of a known kind."""
        place = self.known[kind]
        if isinstance(place, str):
            return _record(self, kind, imported(place, self.tag))
        return place

    def known_record(self, kind: str) -> type[Any] | None:
        """The record class of a kind; None if it is not known."""
        if kind in self.known:
            return self.record_of(kind)
        return None

    def with_key(self, key: str) -> list[str]:
        """The kinds that have this key."""
        return [kind for kind, record in self.records.items() if key in record.model_fields]


def record_of(name: str, bases: tuple[type[Any], ...], options: Mapping[str, Any]) -> type[Any]:
    """Create the record class `name` with the fields `options` beside those of its bases."""
    record: type[Any] = create_model(name, __base__=bases, **options)
    return record


def one_kind(record: type[Table]) -> Kinds:
    """The `Kinds` of a table that has one record only."""
    return Kinds("", {"": record}, record, default="")


@cache
def _record(kinds: Kinds, kind: str, make: Callable[..., Any]) -> type[Made]:
    """The record class of one kind: the keys of its parts, and the options of its signature."""
    base = kinds.bases.get(kind, kinds.base)
    differing = kinds.particular.get(kind, {})
    offered = {
        name: differing.get(name, part) for name, part in {**kinds.parts, **differing}.items()
    }
    taken = inspect.signature(make).parameters.keys()
    written = base.model_fields.keys()
    options = options_of(make, without={*offered, *written})
    parts = {name: part for name, part in offered.items() if part is not None and name in taken}
    bases = tuple(dict.fromkeys(part.keys for part in parts.values() if part.keys is not Table))
    record: type[Made] = record_of(make.__name__, (*bases, base), options)
    record.making = make
    record.parts = parts
    record.options = {*options, *(written & taken)} - parts.keys()
    return record


def imported(place: str, said: str, noun: str = "") -> Any:
    """Import "package.module:name" from installed code or a file beside the job.

    Messages begin with `said`.

    Raises
    ------
    InputError
        No such module, one that raises, or no such name in it.
    """
    module, _, name = place.partition(":")
    try:
        found: Any = import_module(module)
    except InputError as error:
        raise InputError(f'{said} = "{masked(place)}": {error}') from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise InputError(f'{said} = "{masked(place)}": {module} has no {noun}{name!r}')
    return found
