"""The roles of a table's columns, checked against its schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from dshap.errors import InputError, unknown_name
from dshap.options import MISSING_POLICIES
from dshap.tables.arrow import is_number, is_text, key_dtype

__all__ = ["Layout", "Names", "as_names", "check_missing", "key_refusal", "layout_of", "null_key_refusal", "repeats"]

Names = str | Iterable[str] | None


@dataclass(frozen=True)
class Layout:
    """Which columns of a table play which role."""

    features: tuple[str, ...]
    key_dtypes: Mapping[str, str]
    targets: tuple[str, ...]
    is_single_target: bool
    """True where the target was given as one name: it is read as (n,), else as (n, k)."""
    missing: str
    categories: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """feature -> its categories: it is read as their positions, -1 for others, NaN where null."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """column that no role was given to, since it holds no numbers -> what it holds; where features are not named."""

    def names(self, keys: bool = True, target: bool = True) -> list[str]:
        """The columns to read, each once."""
        wanted = self.features + (tuple(self.key_dtypes) if keys else ()) + (self.targets if target else ())
        return list(dict.fromkeys(wanted))

    def to_dict(self) -> dict[str, Any]:
        """Everything that changes what is read."""
        return {
            "features": list(self.features),
            "keys": dict(self.key_dtypes),
            "targets": list(self.targets),
            "missing": self.missing,
            "categories": {name: list(values) for name, values in self.categories.items()},
        }


def as_names(given: Names) -> tuple[str, ...]:
    """A name, names or None as a tuple of names."""
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(map(str, given))


def check_missing(missing: str) -> None:
    """Raise unless `missing` is one of the three policies."""
    if missing not in MISSING_POLICIES:
        raise InputError(unknown_name("missing", missing, MISSING_POLICIES))


def repeats(names: Iterable[str]) -> list[str]:
    """The names that occur more than once."""
    names = list(names)
    return sorted({name for name in names if names.count(name) > 1})


def layout_of(
    schema: pa.Schema,
    *,
    features: Names = None,
    target: Names = None,
    key: Names = (),
    missing: str = "refuse",
    categories: Mapping[str, tuple[Any, ...]] | None = None,
) -> Layout:
    """Give every column its role; `features=None` takes every number column that is neither key nor target.

    Features that have `categories` hold text or numbers, and are read as codes.

    Raises
    ------
    InputError
        An unknown or repeated column, a target that is also a feature or a key, a feature or target that holds no
        numbers, a key that is neither integer, text nor time.
    """
    check_missing(missing)
    keys, targets = as_names(key), as_names(target)
    for name in keys + targets:
        _require(schema, name)
    chosen = _numbers(schema, keys + targets) if features is None else as_names(features)
    for option, names in (("features", chosen), ("target", targets)):
        for name in names:
            _require_number(schema, name, option, (categories or {}).get(name) if option == "features" else None)
    _check_roles(chosen, keys, targets)
    key_dtypes = {name: _require_key(schema, name) for name in keys}
    left_out = {} if features is not None else _no_numbers(schema, keys + targets)
    return Layout(chosen, key_dtypes, targets, isinstance(target, str), missing, dict(categories or {}), left_out)


def _numbers(schema: pa.Schema, taken: tuple[str, ...]) -> tuple[str, ...]:
    """Every number column that has no role yet, in the order of the schema."""
    return tuple(entry.name for entry in schema if is_number(entry.type) and entry.name not in taken)


def _no_numbers(schema: pa.Schema, taken: tuple[str, ...]) -> dict[str, str]:
    """The columns that hold something else, and what."""
    others = [entry for entry in schema if not is_number(entry.type) and entry.name not in taken]
    return {entry.name: "text" if is_text(entry.type) else str(entry.type) for entry in others}


def said_left_out(left_out: Mapping[str, str]) -> str:
    """ "city (text), when (timestamp[ns])", eight at most."""
    shown = [f"{name} ({kind})" for name, kind in left_out.items()]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")


def _check_roles(features: tuple[str, ...], keys: tuple[str, ...], targets: tuple[str, ...]) -> None:
    """Raise where a column is named twice, or is target and something else too."""
    if not features:
        raise InputError("no feature column: the table has no number column besides key and target; name features")
    for option, names in (("features", features), ("key", keys), ("target", targets)):
        if twice := repeats(names):
            raise InputError(f"{option} holds {', '.join(map(repr, twice))} more than once: name each column once")
    for option, names in (("features", features), ("key", keys)):
        if both := sorted(set(names) & set(targets)):
            raise InputError(f"target {', '.join(map(repr, both))} is also in {option}: take it out of one of them")


def _require(schema: pa.Schema, name: str, kind: str = "column") -> pa.DataType:
    """The type of a column that must be there, once."""
    positions = schema.get_all_field_indices(name)
    if not positions:
        raise InputError(unknown_name(kind, name, schema.names))
    if len(positions) > 1:
        raise InputError(f"the table holds {len(positions)} columns named {name!r}: rename all but one")
    return schema.field(positions[0]).type


def _require_number(schema: pa.Schema, name: str, option: str, categories: tuple[Any, ...] | None) -> None:
    """Raise unless a column holds numbers, or values of the kind of its categories."""
    kind = _require(schema, name)
    if categories is not None:
        is_empty = pa.types.is_null(kind)  # nothing but missing values
        has_text = any(isinstance(value, str) for value in categories[:1])
        if categories and not is_empty and is_text(kind) != has_text:
            expected = "text" if has_text else "categories that are numbers"
            raise InputError(
                f"column {name!r} holds {kind} here, and {expected} where the model's own rows are: cast it"
            )
        return
    if is_text(kind):
        raise InputError(
            f"column {name!r} holds text ({kind}) where numbers are needed: encode it as numbers, or take it out of "
            f"{option}"
        )
    if not is_number(kind):
        raise InputError(
            f"column {name!r} holds {kind}, but {option} take integers, floats, bools or decimals: convert it, or take "
            f"it out of {option}"
        )


def _require_key(schema: pa.Schema, name: str) -> str:
    kind = _require(schema, name)
    dtype = key_dtype(kind)
    if dtype is None:
        raise InputError(key_refusal(name, kind))
    return dtype


def key_refusal(name: str, kind: pa.DataType) -> str:
    """The sentence for a column that cannot be a key."""
    return f"key {name!r} holds {kind}, but a key is integer, text, date or timestamp: cast it, or name another column"


def null_key_refusal(null_keys: Mapping[str, int]) -> str:
    """The sentence for rows without a key: key column -> how many."""
    counts = ", ".join(f"{name} {count}" for name, count in null_keys.items())
    return f"rows hold no key ({counts}): fill them, drop these rows, or take the column out of key"
