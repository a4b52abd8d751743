"""Kinds of values in a job file: each checks what was given, and says what is allowed."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from dshap.options import parse_bytes

__all__ = [
    "Background",
    "Count",
    "EvenCount",
    "FolderName",
    "InstanceKey",
    "Landmarks",
    "Lengthscale",
    "Memory",
    "Names",
    "OwnLengthscale",
    "Penalty",
    "Place",
    "Seed",
    "Target",
    "Text",
]

RESERVED_NAMES = ("rows", "state")
"""Names inside a store that no explanation can take."""


def _as_names(given: Any) -> Any:
    """One name, or a list of them, as a tuple."""
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError('give a column name, or a list of names like ["hr", "temp"]')
    return tuple(names)


def _one_or_more_names(given: Any) -> Any:
    """A single name stays one: it is one output, (n,)."""
    names = _as_names(given)
    return names[0] if isinstance(given, str) else names


def _number_or(*words: str, or_list: bool = False) -> BeforeValidator:
    """A positive number or one of these words; with `or_list` one number a column too."""
    allowed = ", ".join(f'"{word}"' for word in words) + " or a positive number"
    allowed += ", or a list of one a column" if or_list else ""

    def check(given: Any) -> Any:
        numbers = given if or_list and isinstance(given, list) and given else [given]
        if given in words or all(_is_number(number) and number > 0 for number in numbers):
            return tuple(map(float, numbers)) if numbers is given else given
        raise ValueError(f"give {allowed}")

    return BeforeValidator(check)


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _count_or(word: str, noun: str) -> BeforeValidator:
    """This word, or a whole number of at least 1."""

    def check(given: Any) -> Any:
        if given != word and (not isinstance(given, int) or isinstance(given, bool) or given < 1):
            raise ValueError(f'give "{word}" or a number of {noun} of at least 1')
        return given

    return BeforeValidator(check)


def _even(given: Any) -> Any:
    if not isinstance(given, int) or isinstance(given, bool) or given < 2 or given % 2:
        raise ValueError("give an even number of at least 2")
    return given


def _folder_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise ValueError("it names a folder of the store: letters, digits, '_', '-' and '.', a letter or digit first")
    if name in RESERVED_NAMES:
        raise ValueError(f"{' and '.join(map(repr, RESERVED_NAMES))} belong to the store: choose another name")
    return name


def _as_key(given: Any) -> Any:
    parts = given if isinstance(given, list) else [given]
    if not parts or not all(isinstance(part, str | int) and not isinstance(part, bool) for part in parts):
        raise ValueError('give the key of a row: a number, a text like "2011-01-01", or a list of one a key column')
    return tuple(parts)


def _memory(given: Any) -> Any:
    parse_bytes(given)
    return given


Names = Annotated[tuple[str, ...], BeforeValidator(_as_names)]
Target = Annotated[str | tuple[str, ...], BeforeValidator(_one_or_more_names)]
Lengthscale = Annotated[str | float | tuple[float, ...], _number_or("validate", "median", or_list=True)]
OwnLengthscale = Annotated[str | float | tuple[float, ...], _number_or("median", or_list=True)]
Penalty = Annotated[str | float, _number_or("validate")]
Background = Annotated[str | int, _count_or("all", "rows")]
Landmarks = Annotated[str | int, _count_or("model", "landmarks")]
Memory = Annotated[str | int, BeforeValidator(_memory)]
Count = Annotated[int, Field(ge=1)]
EvenCount = Annotated[int, BeforeValidator(_even)]
Seed = Annotated[int, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]
FolderName = Annotated[str, AfterValidator(_folder_name)]
Place = Annotated[Text, AfterValidator(os.path.expanduser)]
"""A path, in which "~" is the home folder."""
InstanceKey = Annotated[tuple[str | int, ...], BeforeValidator(_as_key)]
