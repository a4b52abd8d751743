"""The dictionary of columns: the labels, units, formats and meanings that people read.

It is no part of a fingerprint: no number of a cube depends on it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from dshap.core.duck_typing import column_names, has_columns, has_member
from dshap.core.errors import InputError, near_names, shown, unknown_name
from dshap.core.printing import one_line

COLUMNS = "columns"
"""The name of the dictionary: a table of a job file, an option, and an attribute of a cube."""
ENTRIES = "entries"
"""The entry of that attribute's record, whose other entries belong to the store."""
DIRECTIONS = ("higher is better", "lower is better")
YEAR = "year"
"""The format of years, which have no mark of thousands: 1976."""
TEXTS = ("label", "unit", "format", "description", "direction")
"""The fields that are texts."""
LONG_NUMBER = re.compile(r"\d{3}")
"""A width or precision in a format that would fill a page."""
EXAMPLE = 'columns={"debt_ratio": {"label": "Debt-to-income ratio", "format": ".0%"}}'


@dataclass(frozen=True)
class ColumnEntry:
    """The words of people for one column; each field is empty if they wrote nothing."""

    label: str = ""
    """The name that people read in place of the column's."""
    unit: str = ""
    """The unit of its values, such as "EUR"."""
    format: str = ""
    """A format of Python for its numbers or times, such as ".0%", ",.2f" or "%d.%m.%Y"; "year" for
    years."""
    description: str = ""
    """A sentence about the column."""
    order: tuple[str, ...] = ()
    """Its categories in their order; others follow them."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Value -> the text that people read in place of it, such as "1" -> "spring"."""
    direction: str = ""
    """"higher is better" or "lower is better"."""

    @classmethod
    def of(cls, given: Any, place: str) -> ColumnEntry:
        """The entry in a mapping of fields; messages begin with `place`.

        Raises
        ------
        InputError
            An unknown field, or a value that the field does not accept.
        """
        match given:
            case ColumnEntry():
                return given
            case Mapping():
                known = [each.name for each in fields(cls)]
                for name in given:
                    if name not in known:
                        raise InputError(f"{place}: {unknown_name('field', str(name), known)}")
                return cls(**{name: _checked(name, value, place) for name, value in given.items()})
        raise InputError(f"{place} is {shown(given)}: give a mapping of fields, like {EXAMPLE}")

    def to_dict(self) -> dict[str, Any]:
        """The fields that are not empty, as plain values."""
        plain = {**vars(self), "order": list(self.order), "values": dict(self.values)}
        return {name: value for name, value in plain.items() if value}


NO_ENTRY = ColumnEntry()
"""The entry of a column that has none."""


@dataclass(frozen=True)
class ColumnDictionary(Mapping[str, ColumnEntry]):
    """The entries of the columns of a table, by their names."""

    entries: Mapping[str, ColumnEntry] = field(default_factory=dict)

    def __getitem__(self, column: str) -> ColumnEntry:
        return self.entries[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @classmethod
    def of(cls, given: Any, place: str = COLUMNS) -> ColumnDictionary:
        """The dictionary in a mapping of columns to mappings of fields; None is an empty one.

        Messages begin with `place`.

        Raises
        ------
        InputError
            No such mapping, an unknown field, or a value that a field does not accept.
        """
        match given:
            case None:
                return cls()
            case ColumnDictionary():
                return given
            case Mapping():
                entries = {
                    str(column): ColumnEntry.of(entry, _place_of(place, column))
                    for column, entry in given.items()
                }
                return cls(entries)
        raise InputError(f"{place} = {shown(given)}: give a dictionary of columns, like {EXAMPLE}")

    @classmethod
    def of_attributes(cls, attributes: Mapping[str, Any]) -> ColumnDictionary:
        """The dictionary in the attributes of a cube; an empty one if they have none."""
        try:
            return cls.of_note(json.loads(attributes[COLUMNS]))
        except (KeyError, TypeError, ValueError):
            return cls()

    @classmethod
    def of_note(cls, note: Any) -> ColumnDictionary:
        """The dictionary in the note of a cube; empty if there is none that this version reads."""
        try:
            return cls.of(note[ENTRIES])
        except (InputError, KeyError, TypeError):
            return cls()

    def entry(self, column: str) -> ColumnEntry:
        """The entry of a column; an empty one if it has none."""
        return self.entries.get(column, NO_ENTRY)

    def label_of(self, column: str) -> str:
        """The label of a column; its name if it has none."""
        return self.entry(column).label or column

    def over(self, other: ColumnDictionary) -> ColumnDictionary:
        """Add the columns of another dictionary that are not in this one."""
        return ColumnDictionary({**other.entries, **self.entries})

    def only(self, columns: Collection[str]) -> ColumnDictionary:
        """The entries of these columns."""
        return ColumnDictionary({name: self[name] for name in self if name in columns})

    def refuse_unknown(self, known: Collection[str], place: str = COLUMNS) -> None:
        """Raise an `InputError` if a column is none of those that are known."""
        for column in self.entries:
            if column not in known:
                raise InputError(f"{place}: {unknown_name('column', column, known)}")

    def refuse_mistyped(self, known: Collection[str], place: str = COLUMNS) -> None:
        """Raise an `InputError` if a column seems to be one of those that are known, mistyped.

        Such a name is similar to a column without an entry.  All other unknown columns belong to
        jobs that share the dictionary.
        """
        bare = [name for name in known if name not in self.entries]
        for column in self.entries:
            if column not in known and near_names(column, bare):
                raise InputError(f"{place}: {unknown_name('column', column, bare)}")

    def refuse_categories(
        self, categories: Mapping[str, Sequence[str]], place: str = COLUMNS
    ) -> None:
        """Raise if `order` or `values` name a category that a column does not have.

        `categories` are those of the columns of texts.

        Raises
        ------
        InputError
            There is such a category; the message names those that are near.
        """
        for column in self.entries.keys() & categories.keys():
            entry = self[column]
            named = [("order", entry.order), ("values", tuple(entry.values))]
            for key, texts in named:
                for text in texts:
                    if text not in categories[column]:
                        said = unknown_name("category", text, categories[column])
                        raise InputError(f"{_place_of(place, column)} {key}: {said}")

    def refuse_texts_of_numbers(self, numbers: Collection[str], place: str = COLUMNS) -> None:
        """Raise an `InputError` if `values` of a column of numbers name something else.

        `numbers` are the columns whose values are numbers, and neither flags nor categories.
        """
        for column in numbers:
            for key in self.entry(column).values:
                if not _is_number(key):
                    raise InputError(
                        f"{_place_of(place, column)} values: {key!r} is no number, and the column "
                        'contains numbers: name them, such as "1", or leave values out'
                    )

    def to_note(self) -> dict[str, Any]:
        """The note to store in a cube; empty for an empty dictionary."""
        if not self.entries:
            return {}
        return {ENTRIES: self.to_dict()}

    def to_dict(self) -> dict[str, Any]:
        """Column -> the fields of its entry that are not empty, as plain values."""
        return {column: entry.to_dict() for column, entry in self.entries.items()}


def dictionary_of_frame(rows: Any) -> ColumnDictionary:
    """The dictionary in `attrs["columns"]` of a data frame, of the columns that it has now.

    It is empty for another table, and if another program has put something else there.

    Raises
    ------
    InputError
        An unknown field, or a value that a field does not accept.
    """
    if not (has_columns(rows) and has_member(rows, "attrs")):
        return ColumnDictionary()
    match rows.attrs:
        case {"columns": {**given}} if all(has_member(each, "keys") for each in given.values()):
            named = column_names(rows) or ()
            here = {column: entry for column, entry in given.items() if str(column) in named}
            return ColumnDictionary.of(here, 'attrs["columns"]')
    return ColumnDictionary()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _place_of(place: str, column: Any) -> str:
    """The place of an entry in messages: [columns.debt_ratio], or columns 'debt_ratio'."""
    name = one_line(str(column))
    if place.startswith("["):
        return f"{place[:-1]}.{name}]"
    if place:
        return f"{place} {name!r}"
    return name


def _checked(name: str, value: Any, place: str) -> Any:
    """The value of a field, of the type that it has."""
    if name == "order":
        return _order(value, place)
    if name == "values":
        return _values(value, place)
    match value:
        case str():
            text = one_line(value)
        case _:
            raise InputError(f"{place} {name} = {shown(value)}: give a text")
    if name == "direction" and text not in ("", *DIRECTIONS):
        raise InputError(f"{place} {unknown_name('direction', text, DIRECTIONS)}")
    if name == "format":
        _check_format(text, place)
    return text


def _order(value: Any, place: str) -> tuple[str, ...]:
    match value:
        case [*_]:
            order = tuple(map(str, value))
            if len(set(order)) == len(order):
                return order
            twice = next(each for each in order if order.count(each) > 1)
            raise InputError(f"{place} order names {twice!r} twice: name each category once")
    raise InputError(
        f'{place} order = {shown(value)}: give a list of categories, like ["low", "middle", "high"]'
    )


def _values(value: Any, place: str) -> dict[str, str]:
    match value:
        case Mapping():
            return {str(each): one_line(str(text)) for each, text in value.items()}
    raise InputError(
        f'{place} values = {shown(value)}: give a text for each value, like {{"1": "spring"}}'
    )


def _check_format(text: str, place: str) -> None:
    """Raise an `InputError` if Python can format no number and no time with a format."""
    said = (
        f'{place} format = {text!r}: give a format of Python such as ".0%", ",.2f" or "d", '
        '"%d.%m.%Y" for times, or "year"'
    )
    if LONG_NUMBER.search(text):
        raise InputError(f"{said}, with widths and decimals below 100")
    if not is_year_format(text) and not is_time_format(text):
        try:
            formatted(1.0, text)
        except ValueError as error:
            raise InputError(f"{said} ({error})") from None


def is_year_format(text: str) -> bool:
    """Whether a format is "year"."""
    return text == YEAR


def is_time_format(text: str) -> bool:
    """Whether a format is one of times: it has a directive such as %Y, which no format of numbers has."""
    return re.search(r"%[A-Za-z]", text) is not None


def formatted(value: float, text: str) -> str:
    """A number in a format of Python; whole numbers if a format needs them, such as "d".

    Raises
    ------
    ValueError
        Python cannot format this number so.
    """
    try:
        return format(value, text)
    except ValueError:
        if value == int(value):
            return format(int(value), text)
        raise


def formatted_time(microseconds: int, text: str) -> str:
    """A time, in microseconds since 1970, in a format of `strftime`."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest).strftime(text)
