"""Types of the keys of a job file, from the rule of an option or from a signature."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic.fields import FieldInfo

from dshap.core.errors import InputError
from dshap.core.options import MISSING_POLICIES, parse_bytes
from dshap.core.rules import (
    POSITIVE,
    RULES,
    Choice,
    Flag,
    Number,
    PerColumn,
    Rule,
    Text,
    Whole,
    name_fault,
)
from dshap.core.scales import STATED
from dshap.designs.sampling import SAMPLERS
from dshap.jobfile.paths import FolderPath, TablePath, marks_of
from dshap.values.regression import PRECISIONS


@dataclass(frozen=True)
class Unfilled:
    """Marks the type of a text whose {{ env_var(NAME) }} is not filled in when the job is read.

    A job then contains no value of it, nor does any record.
    """

    refusal: str = ""
    """Why the braces are refused, and what to do instead; empty: they are filled in when the text is
    used."""


def unfilled(field: FieldInfo | None) -> Unfilled | None:
    """The mark in the type of a field; None if it has none."""
    for mark in marks_of(field):
        match mark:
            case Unfilled():
                return mark
    return None


def or_say(message: str) -> WrapValidator:
    """A validator that replaces the message of the type before it by this one."""

    def check(given: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(given)
        except ValidationError:
            raise ValueError(message) from None

    return WrapValidator(check)


def table_like(example: str) -> BeforeValidator:
    """A validator that refuses a value that is no table, and shows one."""

    def check(given: Any) -> Any:
        if not isinstance(given, Mapping):
            raise ValueError(f"give a table like {example}")
        return given

    return BeforeValidator(check)


def unchanged[Given](check: Callable[[Given], object]) -> Callable[[Given], Given]:
    """A validator that returns values that `check` does not refuse."""

    def validate(given: Given) -> Given:
        check(given)
        return given

    return validate


def one_of(words: Collection[str]) -> Any:
    """The type of an option that accepts one of these words."""
    return Literal[tuple(words)]


def _within(rule: Number) -> Any:
    """The type of a number between the bounds of a rule."""
    return Annotated[float, Field(**rule.ends)]


def _number_or_word(rule: Number, or_list: bool = False) -> Any:
    """The type of a number by this rule, or of one of its words.

    With `or_list`, a list of one number per column is allowed too.
    """
    number: Any = _within(rule)
    plain = replace(rule, words=())
    if plain == POSITIVE:
        bounds = "a positive number"
    else:
        bounds = plain.asked
    allowed = ", ".join(f'"{word}"' for word in rule.words) + f" or {bounds}"
    if not or_list:
        return Annotated[one_of(rule.words) | number, or_say(f"give {allowed}")]
    several = Annotated[tuple[number, ...], Field(min_length=1, strict=False)]
    return Annotated[
        one_of(rule.words) | number | several,
        or_say(f"give {allowed}, or a list with one for each column"),
    ]


def _count_or(word: str, noun: str) -> Any:
    """The type of this word, or of a whole number of at least 1."""
    return Annotated[
        one_of([word]) | Count, or_say(f'give "{word}" or a number of {noun} of at least 1')
    ]


def _listed(given: Any) -> Any:
    """Put a single value into a tuple; lists and tuples stay."""
    if isinstance(given, list | tuple):
        return given
    return (given,)


def _one_or_list(kind: str | list[str]) -> WithJsonSchema:
    """The schema of a value of this type of JSON, or of a list of them."""
    one = {"type": kind}
    return WithJsonSchema({"anyOf": [one, {"type": "array", "items": one}]}, mode="validation")


def _folder_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise ValueError(
            "it names a folder of the store: letters, digits, '_', '-' and '.', a letter or digit "
            "first"
        )
    if fault := name_fault(name):
        raise ValueError(fault)
    return name


def _different(names: tuple[str, ...]) -> tuple[str, ...]:
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(f"{name!r} occurs {count} times: name each column once")
    return names


NotEmpty = Annotated[str, Field(min_length=1)]


def type_of(rule: Rule) -> Any:
    """The type of the values that a rule allows; None if TOML has no such type."""
    match rule:
        case Whole(least=least, is_even=True):
            return Annotated[
                int,
                Field(ge=least, multiple_of=2),
                or_say(f"give an even number of at least {least}"),
            ]
        case Whole(least=least):
            return Annotated[int, Field(ge=least)]
        case Number(words=(_, *_)):
            return _number_or_word(rule)
        case Number():
            return _within(rule)
        case PerColumn(each=each, words=words):
            return _number_or_word(replace(each, words=words), or_list=True)
        case Flag():
            return bool
        case Choice(allowed=allowed):
            return one_of(allowed)
        case Text():
            return NotEmpty
    return None


Count = Annotated[int, Field(ge=1)]
EvenCount = type_of(RULES["n_features"])
Seed = type_of(RULES["seed"])
QueryText = Annotated[str, Field(min_length=1), Unfilled()]
FolderName = Annotated[str, AfterValidator(_folder_name)]
Memory = Annotated[str | int, BeforeValidator(unchanged(parse_bytes))]
_SAY_NAMES = or_say('give a column name, or a list of names like ["hr", "temp"]')
_Several = Annotated[tuple[NotEmpty, ...], Field(min_length=1, strict=False)]
Names = Annotated[
    _Several,
    BeforeValidator(_listed),
    _SAY_NAMES,
    _one_or_list("string"),
]
"""The type of one name, or of a list of names, as a tuple."""
Target = Annotated[_Several | NotEmpty, _SAY_NAMES]
"""The type of `Names` in which a single name stays a text: one output, (n,)."""
InstanceKey = Annotated[
    tuple[str | int, ...],
    Field(min_length=1, strict=False),
    BeforeValidator(_listed),
    or_say(
        'give the key of a row: a number, a text like "2011-01-01", or a list with one for each '
        "key column"
    ),
    _one_or_list(["string", "integer"]),
]
Lengthscale = type_of(PerColumn(POSITIVE, ("validate", "median")))
GivenLengthscale = type_of(PerColumn(POSITIVE, ("median",)))
Penalty = type_of(RULES["penalty"])
Holdout = type_of(RULES["holdout"])
Background = _count_or("all", "rows")
_Grid = dict[Literal["grid"], Annotated[tuple[Count, Count], Field(strict=False)]]
PlayerGraph = Annotated[
    Literal["chain"] | Annotated[_Grid, Field(min_length=1)],
    or_say('give "chain", or { grid = [height, width] } of the players in their order, row by row'),
]
Landmarks = _count_or("model", "landmarks")


WORDS: Mapping[str, Any] = {
    "features": Names,
    "key": Annotated[Names, AfterValidator(_different)],
    "memory_limit": Memory,
    "missing": one_of(MISSING_POLICIES),
    "path": TablePath,
    "precision": one_of(PRECISIONS),
    "sampling": one_of(SAMPLERS),
    "scale": one_of(STATED),
    "scratch": FolderPath,
    "target": Target | None,
}
"""Option of dshap's classes -> its type, where no rule defines it: names of columns, a path, words
of a table of the library."""


def options_of(
    make: Callable[..., Any],
    rules: Mapping[str, Rule] = RULES,
    without: Collection[str] = (),
    types: Mapping[str, Any] = WORDS,
) -> dict[str, tuple[Any, Any]]:
    """Option -> (type, default), for all parameters of `make` that a job file can give.

    The type follows from `types` or the option's rule for classes of dshap, and from the signature
    for other code.

    Raises
    ------
    InputError
        A parameter without a default whose type TOML cannot express.
    """
    found = {}
    if make.__module__.startswith("dshap."):
        known = rules
    else:
        known = {}
    named = {**{name: type_of(rule) for name, rule in known.items()}, **(types if known else {})}
    types_of_bases = {}  # the annotations of a dataclass are in the modules of its bases
    if is_dataclass(make):
        types_of_bases = get_type_hints(make, include_extras=True)
    signature = inspect.signature(make, eval_str=not types_of_bases)
    for name, parameter in signature.parameters.items():
        if name in without or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        is_needed = parameter.default is parameter.empty
        default = parameter.default
        if parameter.annotation is parameter.empty:
            given = type(default)
        else:
            given = types_of_bases.get(name, parameter.annotation)
        if named.get(name) is not None:
            kind = named[name]
        elif _is_plain(given):
            kind = given
        else:
            kind = None
        if kind is not None:
            if is_needed:
                found[name] = (kind, ...)
            else:
                found[name] = (kind if default is not None else kind | None, default)
        elif is_needed:
            raise InputError(
                f"{make.__name__} takes {name}, and a job file cannot express its type: give it a type "
                "like int, float, "
                "str or bool, or a default"
            )
    return found


def _is_plain(given: Any) -> bool:
    """Whether TOML has this type: single numbers, words, truth values, or unions of them."""
    if get_origin(given) in (Annotated, Literal):
        return True
    parts = [part for part in get_args(given) or [given] if part is not type(None)]
    return bool(parts) and all(
        part in (int, float, str, bool) or (part != given and _is_plain(part)) for part in parts
    )
