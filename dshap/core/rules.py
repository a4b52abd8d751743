"""One rule for each option: it returns the option in plain form, or raises an `InputError`.

`checked(seed=seed, penalty=penalty)` looks up the rule of each name in `RULES` and returns the values
in that order.  A rule accepts the name of an option and the given value, and returns the value in
plain form: floats, integers, tuples, never an array with one number.  Messages name the
option, describe the given value, and list the allowed values.
"""

from __future__ import annotations

import math
import numbers
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dshap.core.addresses import (
    bucket_fault,
    bucket_shown,
    file_path,
    is_of_bucket,
    masked,
    reason_to_refuse,
)
from dshap.core.duck_typing import has_columns, is_pandas
from dshap.core.errors import InputError, shown, unknown_name
from dshap.core.places import BucketPath, Place, place_of
from dshap.core.records import FloatArray

MAX_NAME_BYTES = 237
"""The most bytes in the name of a store or an explanation: file systems allow 255, and a run adds
18 while it makes a folder."""
OF_STORES = ("keys", "parts", "prepared", "rows", "runs", "state", "zarr.json")
"""Names with a fixed meaning inside a store."""


class Rule(Protocol):
    """The rule of an option: a check that returns its plain form."""

    def __call__(self, name: str, given: Any) -> Any:
        """The option in its plain form, or an InputError."""
        ...


def refused(name: str, given: Any, asked: str) -> InputError:
    """The error for an option with a value that is not allowed."""
    return InputError(f"{name} is {shown(given)}: give {asked}")


def of_kind(name: str, given: Any, kinds: Any, asked: str) -> Any:
    """Give back an object of one of these types; a class itself is refused.

    Raises
    ------
    InputError
        Anything else; its message asks for `asked`.
    """
    if isinstance(given, type) or not isinstance(given, kinds):
        raise refused(name, given, asked)
    return given


def _one(given: Any) -> Any:
    """The number given, or the one element of an array, a list or a Series; else None."""
    try:
        array = np.asarray(given)
    except (TypeError, ValueError):
        return None
    if array.size == 1 and array.dtype.kind in "iuf":
        # clone of scikit-learn requires the identical object
        if type(given) in (int, float):
            return given
        return array.reshape(()).item()
    # numbers that numpy stores as objects, such as fractions; True and False are Real, and no
    # numbers here
    if isinstance(given, numbers.Real) and array.dtype.kind != "b":
        return given
    return None


def _is_word(given: Any, words: tuple[str, ...]) -> bool:
    return isinstance(given, str) and given in words


def _items(given: Any) -> list[Any] | None:
    """The members of a list, an array or the like; None for text, mappings, tables and scalars."""
    if not np.iterable(given) or isinstance(given, str | bytes | Mapping) or has_columns(given):
        return None
    return list(np.asarray(given, dtype=object).tolist())


@dataclass(frozen=True)
class Whole:
    """A rule: an integer of at least `least`, which must be even if `is_even`.

    `hint` ends the message.
    """

    least: int = 0
    hint: str = ""
    is_even: bool = False

    def __call__(self, name: str, given: Any) -> int:
        try:
            number = operator.index(_one(given))
        except TypeError:
            number = self.least - 1
        if number < self.least or (self.is_even and number % 2):
            if self.is_even:
                kind = "an even"
            else:
                kind = "a whole"
            raise refused(name, given, f"{kind} number of at least {self.least}{self.hint}")
        return number


COMPARED = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}
"""Comparison with a bound -> its words."""


@dataclass(frozen=True)
class Number:
    """A rule: a finite number from `low` to `high`, or one of some words.

    The bounds are included unless `open_low` or `open_high`.
    """

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
        if number is None:
            value = math.nan
        else:
            value = float(number)
        is_in = all(getattr(operator, how)(value, end) for how, end in self.ends.items())
        if not (is_in and math.isfinite(value)):
            raise refused(name, given, self.asked)
        return value

    @property
    def ends(self) -> dict[str, Any]:
        """The comparison with each finite bound, by its name in `operator`, and the bound."""
        low = "gt" if self.open_low else "ge"
        high = "lt" if self.open_high else "le"
        return {how: end for how, end in ((low, self.low), (high, self.high)) if math.isfinite(end)}

    @property
    def asked(self) -> str:
        """The description of allowed values, for messages."""
        limits = " and ".join(f"{COMPARED[how]} {end:g}" for how, end in self.ends.items())
        words = "".join(f", or {word!r}" for word in self.words)
        return f"a number {limits}".rstrip() + words + self.hint


@dataclass(frozen=True)
class Flag:
    """A rule: True or False."""

    def __call__(self, name: str, given: Any) -> bool:
        return bool(of_kind(name, given, bool | np.bool_, "True or False"))


@dataclass(frozen=True)
class MaybeFlag(Flag):
    """A rule: True, False, or None if dshap decides."""

    def __call__(self, name: str, given: Any) -> Any:
        if given is None:
            return None
        return super().__call__(name, given)


@dataclass(frozen=True)
class Choice[T: str]:
    """A rule: one of a few words."""

    allowed: tuple[T, ...]

    def __call__(self, name: str, given: Any) -> T:
        word: T = of_kind(name, given, str, " or ".join(map(repr, self.allowed)))
        if word not in self.allowed:
            raise InputError(unknown_name(name, word, self.allowed))
        return word


@dataclass(frozen=True)
class Text:
    """A rule: a text."""

    def __call__(self, name: str, given: Any) -> str:
        text: str = of_kind(name, given, str, "a text")
        return text


@dataclass(frozen=True)
class Names:
    """A rule: a list of names, unchanged; None if none are given."""

    example: tuple[str, ...] = ("age", "hours")
    """The names of a list that messages show."""

    def __call__(self, name: str, given: Any) -> tuple[Any, ...] | None:
        if given is None:
            return None
        names = _items(given)
        if names is None or not all(isinstance(each, str | int) for each in names):
            raise refused(name, given, f"a list of names, such as {list(self.example)}")
        return tuple(names)


@dataclass(frozen=True)
class PerColumn:
    """A rule: a word, one number, one number per column in order, or a mapping by column name.

    A Series whose labels are not 0, 1, … counts as a mapping.
    """

    each: Number
    words: tuple[str, ...]

    def __call__(self, name: str, given: Any) -> str | float | tuple[float, ...] | dict[str, float]:
        if _is_word(given, self.words):
            return given
        pairs = _labelled(given)
        if pairs:
            return {
                str(label): float(self.each(f"{name} of {label!r}", value))
                for label, value in pairs
            }
        try:
            values = np.asarray(given, dtype=float)
        except (TypeError, ValueError):
            values = np.full((0, 0), np.nan)
        if isinstance(given, str | bool | Mapping) or values.ndim > 1 or not values.size:
            words = " or ".join(map(repr, self.words))
            raise refused(
                name,
                given,
                f"a positive number, one for each column, a mapping by column name, {words}",
            )
        if not values.ndim:
            return float(self.each(name, values.item()))
        return tuple(
            float(self.each(f"{name} of column {j}", value))
            for j, value in enumerate(values.tolist())
        )


def _labelled(given: Any) -> list[tuple[Any, Any]]:
    """List (label, value) pairs of a mapping, or of a Series with an explicit index; else none."""
    if isinstance(given, Mapping):
        return list(given.items())
    if np.ndim(given) == 1 and is_pandas(given):
        labels = list(given.index)
    else:
        labels = []
    if labels != list(range(len(labels))):
        return list(zip(labels, given.tolist(), strict=True))
    return []


ASKED_LISTS = "a mapping from column names to lists of different values, in order of codes"


@dataclass(frozen=True)
class CategoryLists:
    """A rule: a mapping from column names to lists of different values, text or numbers.

    None is allowed.
    """

    def __call__(self, name: str, given: Any) -> dict[str, tuple[Any, ...]] | None:
        if given is None:
            return None
        lists = of_kind(name, given, Mapping, ASKED_LISTS)
        return {str(label): self._list(name, given, values) for label, values in lists.items()}

    @staticmethod
    def _list(name: str, given: Any, values: Any) -> tuple[Any, ...]:
        plain = tuple(_items(values) or ())
        is_known = all(isinstance(value, str | numbers.Real) for value in plain)
        if not plain or not is_known or len(set(plain)) < len(plain):
            raise refused(name, given, ASKED_LISTS)
        return plain


def for_columns(
    name: str, given: Any, n_columns: int, names: Sequence[str] | None
) -> tuple[Any, ...]:
    """One entry of `given` per column: from a single value, a list, or a mapping by name.

    Raises
    ------
    InputError
        A list of another length, a name that is no column, a column without a value, or a mapping
        if the columns have no names.
    """
    match given:
        case Mapping():
            return _by_name(name, given, n_columns, names)
        case [*each]:
            if len(each) != n_columns:
                raise InputError(
                    f"{name} has {len(each)} values for {n_columns} columns: give one, or one for "
                    "each column"
                )
            return tuple(each)
    return (given,) * n_columns


def _by_name(
    name: str, given: Mapping[str, Any], n_columns: int, names: Sequence[str] | None
) -> tuple[Any, ...]:
    if names is None:
        raise InputError(
            f"{name} is given by column name, and the columns have no names here: give a list of "
            f"{n_columns}, in their order, or data with names"
        )
    if unknown := [label for label in given if label not in names]:
        raise InputError(f"{name}: {unknown_name('column', unknown[0], names)}")
    if missing := [label for label in names if label not in given]:
        raise InputError(
            f"{name} has no entry for column {missing[0]!r}: give one for each of "
            f"{', '.join(names)}"
        )
    return tuple(given[label] for label in names)


def as_path(name: str, given: Any, noun: str = "store", folder: Path | None = None) -> Path:
    """The absolute path that a text names; "~" is the home folder, file:// is accepted.

    Parameters
    ----------
    name : the option that a message names
    given : a path
    noun : the kind of thing at the path, "store", "table" or "file"
    folder : the folder that a path is relative to; the working directory if None
    """
    text = os.fsdecode(of_kind(name, given, str | os.PathLike, "a path"))
    if not text.strip():
        raise refused(name, given, "a path")
    if reason := reason_to_refuse(text, noun):
        raise InputError(f"{name} {masked(text)!r}: {reason}")
    try:
        return Path(folder or "", Path(file_path(text)).expanduser()).absolute()
    except RuntimeError as error:  # "~somebody" has no home folder
        raise InputError(
            f"{name} {masked(text)!r}: there is no such home folder; give the path in full"
        ) from error


def as_place(name: str, given: Any, noun: str = "store", folder: Path | None = None) -> Place:
    """The place that a text names: an absolute path, or an address such as s3://bucket/name.

    The parameters are described in `as_path`.
    """
    match given:
        case BucketPath():
            return given
        case str() if is_of_bucket(given):
            if reason := bucket_fault(given, noun):
                raise InputError(f"{name} {bucket_shown(given)!r}: {reason}")
            return place_of(given)
    return as_path(name, given, noun, folder)


def name_fault(name: str) -> str:
    """The reason why no folder in a store can have this name; empty if one can."""
    n_bytes = len(os.fsencode(name))
    if n_bytes > MAX_NAME_BYTES:
        return f"the name takes {n_bytes} bytes, at most {MAX_NAME_BYTES} allowed: choose a shorter one"
    if name in OF_STORES:
        return f"{', '.join(map(repr, OF_STORES[:-1]))} and {OF_STORES[-1]!r} belong to the store: choose another name"
    return ""


def finite_array(name: str, given: Any, ndims: Sequence[int], shape: str) -> FloatArray:
    """A float64 copy of an array of finite numbers; `shape` is quoted in messages.

    Raises
    ------
    InputError
        Text, other dimensions, NaN or infinity.
    """
    try:
        array = np.array(given, dtype=float)
    except (TypeError, ValueError):
        # no option has 9 axes, so that the check below refuses it
        array = np.empty((0,) * 9)
    if array.ndim not in ndims:
        raise refused(name, given, f"numbers of shape {shape}")
    if not np.isfinite(array).all():
        raise InputError(
            f"{name} of shape {array.shape} contains NaN or infinity: drop such rows, or fit again"
        )
    return array


POSITIVE = Number(0.0, open_low=True)
MODEL_PENALTY = Number(0.0, words=("validate",))
"""The rule of a kernel model's penalty, which may be 0: the model then interpolates its points."""
RULES: Mapping[str, Rule] = {
    "antithetic": Flag(),
    "arrays": MaybeFlag(),
    "buffer_rows": Whole(1),
    "categories": CategoryLists(),
    "centred": Flag(),
    "column": Text(),
    "compute": Flag(),
    "decay": Number(0.0, 1.0, open_low=True, words=("pilot",)),
    "enough": Number(
        0.0,
        1.0,
        open_low=True,
        words=("all",),
        hint=": the largest error of learning, in standard deviations of the predictions",
    ),
    "features": Names(),
    "feature_names": Names(),
    "holdout": Number(0.0, 1.0, open_high=True, hint=", the part of the rows to hold out"),
    "lengthscale": PerColumn(POSITIVE, ("median", "validate")),
    "longest": Whole(1),
    "all_rows": Flag(),
    "what_if": Flag(),
    "force": Flag(),
    "index": Flag(),
    "max_iter": Whole(1),
    "max_replicates": Whole(0),
    "missing_value": Number(),
    "n_background": Whole(1),
    "n_coalitions": Whole(1),
    "n_features": Whole(2, ", a cosine and a sine for each frequency", is_even=True),
    "n_landmarks": Whole(1, "; landmarks of your own go in landmarks="),
    "n_permutations": Whole(1),
    "n_players": Whole(1),
    "n_replicates": Whole(0),
    "sample_of": Whole(1),
    "n_samples": Whole(2, ", draws come in pairs z, −z", is_even=True),
    "order": Whole(1),
    "orthogonal": Flag(),
    "classes": Names(("gold", "silver")),
    "output_names": Names(("price", "demand")),
    "paired": Flag(),
    "penalty": Number(0.0, open_low=True, words=("validate",)),
    "rank_tolerance": Number(
        0.0, 1.0, open_low=True, open_high=True, hint=", well below the penalty"
    ),
    "rho": Number(0.0, 1.0, open_high=True),
    "ridge": Number(0.0),
    "sample_size": Whole(1),
    "seed": Whole(0),
    "snapshot": Whole(0),
    "standardize": Flag(),
    "strength": Number(0.0),
    "tol": Number(0.0),
    "tolerance": Number(0.0, open_low=True, hint=" (1e-6 is a good start)"),
    "variation": Number(0.0),
    "version": Whole(0),
    "with_interventional": Flag(),
}
"""Option -> its rule, the same wherever the option is used."""


def checked(**options: Any) -> list[Any]:
    """Check options by their rules; returns their plain forms in the order given.

    Raises
    ------
    InputError
        One that breaks its rule.
    """
    return [RULES[name](name, given) for name, given in options.items()]


def check_fields(record: Any, *names: str) -> None:
    """Replace these fields of a frozen record by their plain forms, each by its own rule.

    Raises
    ------
    InputError
        One that breaks its rule.
    """
    for name in names:
        object.__setattr__(record, name, RULES[name](name, vars(record)[name]))
