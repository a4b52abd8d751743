"""What the keys of a job file may hold: of an option of the library by its rule, or by its type in the signature."""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import AfterValidator, BeforeValidator, Field

from dshap import checks
from dshap.designs.sampling import SAMPLERS
from dshap.errors import InputError
from dshap.options import parse_bytes
from dshap.rules import Choice, Flag, Number, Rule, Text, Whole
from dshap.values.regression import PRECISIONS

__all__ = [
    "Background",
    "Count",
    "EvenCount",
    "FolderName",
    "GivenLengthscale",
    "InstanceKey",
    "Landmarks",
    "Lengthscale",
    "Memory",
    "Names",
    "Penalty",
    "Place",
    "Seed",
    "Target",
    "NotEmpty",
    "one_of",
    "options_of",
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


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _number_or(rule: Number, or_list: bool = False) -> BeforeValidator:
    """A number by this rule, or one of its words; with `or_list` one number a column too."""
    bounds = (
        "a positive number" if rule == Number(0.0, open_low=True, words=rule.words) else replace(rule, words=()).asked
    )
    allowed = ", ".join(f'"{word}"' for word in rule.words) + f" or {bounds}"
    allowed += ", or a list of one a column" if or_list else ""

    def check(given: Any) -> Any:
        numbers = given if or_list and isinstance(given, list) and given else [given]
        if given in rule.words:
            return given
        try:
            found = tuple(rule("", number) if _is_number(number) else rule("", None) for number in numbers)
        except InputError:
            raise ValueError(f"give {allowed}") from None
        return found if numbers is given else given

    return BeforeValidator(check)


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


def _scale(*words: str) -> Number:
    """A positive number, or one of these words."""
    return Number(0.0, open_low=True, words=words)


def _memory(given: Any) -> Any:
    parse_bytes(given)
    return given


Names = Annotated[tuple[str, ...], BeforeValidator(_as_names)]
Target = Annotated[str | tuple[str, ...], BeforeValidator(_one_or_more_names)]
Lengthscale = Annotated[str | float | tuple[float, ...], _number_or(_scale("validate", "median"), or_list=True)]
GivenLengthscale = Annotated[str | float | tuple[float, ...], _number_or(_scale("median"), or_list=True)]
Penalty = Annotated[str | float, _number_or(_scale("validate"))]
Background = Annotated[str | int, _count_or("all", "rows")]
Landmarks = Annotated[str | int, _count_or("model", "landmarks")]
Memory = Annotated[str | int, BeforeValidator(_memory)]
Count = Annotated[int, Field(ge=1)]
EvenCount = Annotated[int, BeforeValidator(_even)]
Seed = Annotated[int, Field(ge=0)]
NotEmpty = Annotated[str, Field(min_length=1)]
FolderName = Annotated[str, AfterValidator(_folder_name)]
Place = Annotated[NotEmpty, AfterValidator(os.path.expanduser)]
"""A path, in which "~" is the home folder."""
InstanceKey = Annotated[tuple[str | int, ...], BeforeValidator(_as_key)]


def one_of(words: Collection[str]) -> Any:
    """The type of an option that is one of these words."""
    return Literal[tuple(words)]


def _of_rule(rule: Rule) -> Any:
    """The type of what a rule lets through; None where TOML has no such thing."""
    match rule:
        case Whole(is_even=True):
            return EvenCount
        case Whole(least=least):
            return Annotated[int, Field(ge=least)]
        case Number(words=(_, *_)):
            return Annotated[float | str, _number_or(rule)]
        case Number(low=low, high=high):
            bounds: dict[str, Any] = {"gt" if rule.open_low else "ge": low, "lt" if rule.open_high else "le": high}
            return Annotated[float, Field(**{name: end for name, end in bounds.items() if math.isfinite(end)})]
        case Flag():
            return bool
        case Choice(allowed=allowed):
            return one_of(allowed)
        case Text():
            return NotEmpty
    return None


WORDS: Mapping[str, Any] = {"memory_limit": Memory, "precision": one_of(PRECISIONS), "sampling": one_of(SAMPLERS)}
"""Option -> its type, where a table of the library says what may be given."""


def options_of(
    make: Callable[..., Any], rules: Mapping[str, Rule] = checks.RULES, without: Collection[str] = ()
) -> dict[str, tuple[Any, Any]]:
    """Option -> its type and its default, of all that a job file can say of the parameters of `make`.

    Of what is the library's own by its rule; of other code by the types in its signature.

    Raises
    ------
    InputError
        A parameter without a default that a job file has no words for.
    """
    found, known = {}, rules if make.__module__.startswith("dshap.") else {}
    types = {**{name: _of_rule(rule) for name, rule in known.items()}, **(WORDS if known else {})}
    for name, parameter in inspect.signature(make, eval_str=True).parameters.items():
        if name in without or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        is_needed, default = parameter.default is parameter.empty, parameter.default
        given = type(default) if parameter.annotation is parameter.empty else parameter.annotation
        kind = types[name] if types.get(name) is not None else given if _is_plain(given) else None
        if kind is not None:
            found[name] = (kind, ...) if is_needed else (kind if default is not None else kind | None, default)
        elif is_needed:
            raise InputError(
                f"{make.__name__} takes {name}, and a job file has no words for it: give it a type like int, float, "
                "str or bool, or a default"
            )
    return found


def _is_plain(given: Any) -> bool:
    """A type of single numbers, words and truth values, which TOML has."""
    if get_origin(given) in (Annotated, Literal):
        return True
    parts = [part for part in get_args(given) or [given] if part is not type(None)]
    return bool(parts) and all(part in (int, float, str, bool) or (part != given and _is_plain(part)) for part in parts)
