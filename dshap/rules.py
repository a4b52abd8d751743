"""What an option may be: the kinds of rules that `dshap.checks` is made of.

A rule takes the name of an option and what was given, and gives its plain form: floats, integers, tuples, never an
array that holds one number.  Messages name the option, show what was given in a few words, and say what to give.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dshap.errors import InputError, shown, unknown_name

__all__ = [
    "CategoryLists",
    "Choice",
    "Flag",
    "Names",
    "Number",
    "PerColumn",
    "Rule",
    "Text",
    "Whole",
    "for_columns",
    "refused",
]


class Rule(Protocol):
    """What an option must be."""

    def __call__(self, name: str, given: Any) -> Any:
        """The option in its plain form, or an InputError."""
        ...


def refused(name: str, given: Any, asked: str) -> InputError:
    """The error of an option that is not what is asked for."""
    return InputError(f"{name} is {shown(given)}: give {asked}")


def _one(given: Any) -> Any:
    """The number that this is, or that an array, a list or a Series of one holds; None where it is no single number."""
    try:
        array = np.asarray(given)
    except (TypeError, ValueError):
        return None
    if array.size == 1 and array.dtype.kind in "iuf":
        return array.reshape(()).item()
    return given if isinstance(given, numbers.Real) and array.dtype.kind != "b" else None


def _is_text(given: Any) -> bool:
    return isinstance(given, str)


def _is_word(given: Any, words: tuple[str, ...]) -> bool:
    return _is_text(given) and given in words


def _items(given: Any) -> list[Any] | None:
    """The members of a list, an array or the like; None of text, mappings, tables and what is no list."""
    if not np.iterable(given) or isinstance(given, str | bytes | Mapping) or hasattr(given, "columns"):
        return None
    return list(np.asarray(given, dtype=object).tolist())


@dataclass(frozen=True)
class Whole:
    """An integer of at least `least`, even where `is_even`; `hint` follows the message."""

    least: int = 0
    hint: str = ""
    is_even: bool = False

    def __call__(self, name: str, given: Any) -> int:
        try:
            number = operator.index(_one(given))
        except TypeError:
            number = self.least - 1
        if number < self.least or (self.is_even and number % 2):
            kind = "an even" if self.is_even else "a whole"
            raise refused(name, given, f"{kind} number of at least {self.least}{self.hint}")
        return number


@dataclass(frozen=True)
class Number:
    """A finite float from `low` to `high`, which are in unless `open_low`, `open_high`; or a word."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    words: tuple[str, ...] = ()
    hint: str = ""

    def __call__(self, name: str, given: Any) -> float | str:
        if _is_word(given, self.words):
            return given
        number = _one(given)
        value = math.nan if number is None else float(number)
        is_in = self.low < value if self.open_low else self.low <= value
        is_in &= value < self.high if self.open_high else value <= self.high
        if not (is_in and math.isfinite(value)):
            raise refused(name, given, self.asked)
        return value

    @property
    def asked(self) -> str:
        """What a message asks for."""
        ends = [
            ("above" if self.open_low else "of at least", self.low),
            ("below" if self.open_high else "at most", self.high),
        ]
        limits = " and ".join(f"{word} {end:g}" for word, end in ends if math.isfinite(end))
        words = "".join(f", or {word!r}" for word in self.words)
        return f"a number {limits}".rstrip() + words + self.hint


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def __call__(self, name: str, given: Any) -> bool:
        if not isinstance(given, bool | np.bool_):
            raise refused(name, given, "True or False")
        return bool(given)


@dataclass(frozen=True)
class Choice:
    """One of a few words."""

    allowed: tuple[str, ...]

    def __call__(self, name: str, given: Any) -> str:
        if not _is_text(given):
            raise refused(name, given, " or ".join(map(repr, self.allowed)))
        if given not in self.allowed:
            raise InputError(unknown_name(name, given, self.allowed))
        return given


@dataclass(frozen=True)
class Text:
    """A text."""

    def __call__(self, name: str, given: Any) -> str:
        if not _is_text(given):
            raise refused(name, given, "a text")
        return given


@dataclass(frozen=True)
class Names:
    """A list of names, as they are; None where none are given."""

    def __call__(self, name: str, given: Any) -> tuple[Any, ...] | None:
        if given is None:
            return None
        names = _items(given)
        if names is None or not all(isinstance(each, str | int) for each in names):
            raise refused(name, given, "a list of names, such as ['age', 'hours']")
        return tuple(names)


@dataclass(frozen=True)
class PerColumn:
    """A word, one number, one number a column in their order, or a mapping from the names of the columns.

    A Series whose labels are not 0, 1, … counts as a mapping.
    """

    each: Number
    words: tuple[str, ...]

    def __call__(self, name: str, given: Any) -> str | float | tuple[float, ...] | dict[str, float]:
        if _is_word(given, self.words):
            return given
        pairs = _labelled(given)
        if pairs:
            return {str(label): float(self.each(f"{name} of {label!r}", value)) for label, value in pairs}
        try:
            values = np.asarray(given, dtype=float)
        except (TypeError, ValueError):
            values = np.full((0, 0), np.nan)
        if isinstance(given, str | bool | Mapping) or values.ndim > 1 or not values.size:
            words = " or ".join(map(repr, self.words))
            raise refused(name, given, f"a positive number, one a column, a mapping by column name, {words}")
        if not values.ndim:
            return float(self.each(name, values.item()))
        return tuple(float(self.each(f"{name} of column {j}", value)) for j, value in enumerate(values.tolist()))


def _labelled(given: Any) -> list[tuple[Any, Any]]:
    """(label, value) pairs of a mapping, or of a Series with labels of its own; none of anything else."""
    if isinstance(given, Mapping):
        return list(given.items())
    labels = list(getattr(given, "index", ())) if np.ndim(given) == 1 and hasattr(given, "iloc") else []
    return list(zip(labels, given.tolist(), strict=True)) if labels != list(range(len(labels))) else []


ASKED_LISTS = "a mapping from column names to lists of different values, in order of codes"


@dataclass(frozen=True)
class CategoryLists:
    """A mapping from column names to lists of different values, text or numbers; None where none are given."""

    def __call__(self, name: str, given: Any) -> dict[str, tuple[Any, ...]] | None:
        if given is None:
            return None
        if not isinstance(given, Mapping):
            raise refused(name, given, ASKED_LISTS)
        return {str(label): self._list(name, given, values) for label, values in given.items()}

    @staticmethod
    def _list(name: str, given: Any, values: Any) -> tuple[Any, ...]:
        plain = tuple(_items(values) or ())
        is_known = all(isinstance(value, str | numbers.Real) for value in plain)
        if not plain or not is_known or len(set(plain)) < len(plain):
            raise refused(name, given, ASKED_LISTS)
        return plain


def for_columns(name: str, given: Any, n_columns: int, names: Sequence[str] | None) -> tuple[Any, ...]:
    """One entry of `given` a column, in the order of the columns: of a single one, of as many, or by their names.

    Raises
    ------
    InputError
        Another number of them, a name that is no column, a column that is not named, or names where the columns have
        none.
    """
    if isinstance(given, Mapping):
        return _by_name(name, given, n_columns, names)
    if not isinstance(given, Sequence) or isinstance(given, str):
        return (given,) * n_columns
    if len(given) != n_columns:
        raise InputError(f"{name} has {len(given)} values for {n_columns} columns: give one, or one each")
    return tuple(given)


def _by_name(name: str, given: Mapping[str, Any], n_columns: int, names: Sequence[str] | None) -> tuple[Any, ...]:
    if names is None:
        raise InputError(
            f"{name} goes by column name, and the columns have no names here: give a list of {n_columns}, in their "
            "order, or data with names"
        )
    if unknown := [label for label in given if label not in names]:
        raise InputError(f"{name}: {unknown_name('column', unknown[0], names)}")
    if missing := [label for label in names if label not in given]:
        raise InputError(f"{name} has no entry for column {missing[0]!r}: give one for each of {', '.join(names)}")
    return tuple(given[label] for label in names)
