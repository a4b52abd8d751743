"""The columns of a table: Arrow types, conversion to numpy, and roles checked by the schema."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError, times_refused, unknown_column, unknown_name
from dshap.core.fixed_words import MissingRule
from dshap.core.floats import LARGEST_WHOLE, rounded_refusal
from dshap.core.late import pa, pc
from dshap.core.options import MISSING_POLICIES
from dshap.core.records import BoolArray, FloatArray
from dshap.predictors.times import DATE, from_microseconds, microseconds, misfit, time_kind, zone_of
from dshap.tables.row_values import words_of_arrow

TEXT = np.dtypes.StringDType(na_object=None)
"""The dtype of text columns that are features."""
TIME = np.dtype("datetime64[us]")
"""The dtype of columns of times; in UTC if they have a zone."""
UNKNOWN = -1.0
"""The code of a category that is not in the list."""

KEY_DTYPES: Mapping[str, np.dtype[Any]] = {
    "int64": np.dtype(np.int64),
    "datetime64[ns]": np.dtype("datetime64[ns]"),
    "string": np.dtypes.StringDType(),
}
KEY_FILL = {"int64": -1, "string": ""}
"""Placeholders for a missing key until the census refuses it; a missing time is NaT."""


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of the values of a column that is stored as a dictionary (a categorical)."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return kind


def _values(column: pa.Array) -> pa.Array:
    """The values of a column, also of one that is stored as a dictionary."""
    kind = column.type
    if pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
        # of polars; Arrow casts the text of a dictionary, and takes none of views
        column = column.cast(pa.dictionary(kind.index_type, pa.large_string()))
    return _cast(column, _plain(column.type))


def _cast(column: pa.Array, kind: pa.DataType, *, safe: bool = True) -> pa.Array:
    """The column in another type; a cast that changes nothing imports pyarrow.compute."""
    if column.type == kind:
        return column
    return column.cast(kind, safe=safe)


def _floats(column: pa.Array) -> FloatArray:
    """A column of numbers as float64 (n,), with null as NaN.

    It is a view of Arrow's buffer: `to_numpy` imports pandas.
    """
    plain = _cast(column, pa.float64(), safe=False)
    if not len(plain):
        return np.empty(0)
    if plain.null_count:
        plain = plain.fill_null(np.nan)
    return np.frombuffer(plain.buffers()[1], np.float64, len(plain), 8 * plain.offset)


def is_number(kind: pa.DataType) -> bool:
    """Whether a column becomes float64.

    True for integers, floats, bools, decimals and columns without any value.
    """
    kind = _plain(kind)
    known = pa.types
    tests = (known.is_integer, known.is_floating, known.is_boolean, known.is_decimal, known.is_null)
    return any(test(kind) for test in tests)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column contains strings, plain or as a dictionary."""
    kind = _plain(kind)
    return any(
        test(kind)
        for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )


def is_boolean(kind: pa.DataType) -> bool:
    """Whether the values of a column are False and True."""
    return bool(pa.types.is_boolean(_plain(kind)))


def is_listed(kind: pa.DataType) -> bool:
    """Whether the values of a column are categories: strings, or values stored as a dictionary."""
    return is_text(kind) or pa.types.is_dictionary(kind)


def key_dtype(kind: pa.DataType) -> str | None:
    """The name in `KEY_DTYPES` for a key of this type; None if it cannot be a key."""
    plain = _plain(kind)
    if pa.types.is_integer(plain):
        return "int64"
    if pa.types.is_date(plain) or pa.types.is_timestamp(plain):
        return "datetime64[ns]"
    if is_text(kind):
        return "string"
    return None


def kept_dtype(kind: pa.DataType, has_nulls: bool) -> np.dtype[Any]:
    """The numpy dtype that stores a column without conversion.

    It is float64 for decimals, and for integers and flags with nulls.
    """
    if is_text(kind):
        return TEXT
    kind = _plain(kind)
    if pa.types.is_floating(kind) or (
        not has_nulls and (pa.types.is_integer(kind) or pa.types.is_boolean(kind))
    ):
        dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return dtype
    return np.dtype(np.float64)


def arrow_array(values: Any, name: str, *, from_pandas: bool = False) -> pa.Array:
    """One Arrow array of numpy or pandas values.

    Bits are preserved; with `from_pandas` NaN becomes null.
    """
    if isinstance(values, np.ndarray):
        values = _arrow_ready(values)
    try:
        column = pa.array(values, from_pandas=from_pandas)
    except (pa.ArrowException, TypeError, UnicodeError) as error:
        reason = words_of_arrow(error).splitlines()[0]
        raise InputError(
            f"column {name!r} ({getattr(values, 'dtype', type(values).__name__)}) contains several "
            f"kinds of values ({reason}): make it all numbers, all text or all times"
        ) from None
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    return column


def _arrow_ready(values: NDArray[Any]) -> NDArray[Any]:
    """These values in a numpy dtype that Arrow accepts."""
    if values.dtype.kind == "T":
        return values.astype(object)
    if values.dtype.kind == "M":
        if np.datetime_data(values.dtype)[0] not in ("s", "ms", "us"):
            return values.astype("datetime64[ns]")
        return values
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def number_array(column: pa.Array, name: str) -> FloatArray:
    """The column as float64 (n,), with null as NaN; integers beyond ±2^53 are refused."""
    plain = _values(column)
    # integers of 32 bits and fewer always fit in a float64
    if pa.types.is_int64(plain.type) or pa.types.is_uint64(plain.type):
        for extreme in pc.min_max(plain).as_py().values():
            if extreme is not None and abs(extreme) > LARGEST_WHOLE:
                raise InputError(rounded_refusal(f"column {name!r}", extreme))
    return _floats(plain)


def code_array(column: pa.Array, categories: Sequence[Any], unknown: float = UNKNOWN) -> FloatArray:
    """Positions (n,) of the values in the list of categories, as float64.

    `unknown` replaces a value that is not in the list, NaN for null.
    """
    plain = _values(column)
    is_missing = plain.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if is_missing.all():  # of any type, which need not be that of the categories
        return np.full(len(plain), np.nan)
    if is_text(plain.type):
        plain = plain.cast(pa.large_string())
        known = pa.array([str(value) for value in categories], type=pa.large_string())
    else:
        plain = plain.cast(pa.float64(), safe=False)
        known = pa.array(list(map(float, categories)), type=pa.float64())
    codes = pc.index_in(plain, value_set=known).fill_null(int(UNKNOWN)).cast(pa.float64())
    # a copy, because the buffers of Arrow are read-only
    codes = np.array(codes.to_numpy(zero_copy_only=False))
    codes[codes == UNKNOWN] = unknown
    codes[is_missing] = np.nan
    return codes


def time_array(column: pa.Array, name: str) -> FloatArray:
    """A column of times or dates as microseconds since 1970 (n,) in float64, NaN for null.

    See `microseconds`.
    """
    if pa.types.is_null(column.type):  # only missing values
        return np.full(len(column), np.nan)
    return microseconds(_values(column).to_numpy(zero_copy_only=False), name)


def spooled_times(values: NDArray[Any], kind: str) -> pa.Array:
    """Times (n,) in the dtype `TIME` as Arrow times of this kind, to be read back by its rules."""
    if kind == DATE:
        return pa.array(values.astype("datetime64[D]"))
    return pa.array(values, pa.timestamp("us", tz=zone_of(kind) or None))


def kept_array(column: pa.Array, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The column (n,) in the dtype that `Layout.kept_dtype` gave."""
    if dtype.kind == "M":
        return from_microseconds(time_array(column, name), str(dtype))
    if dtype.kind == "T":
        return np.array(_values(column).cast(pa.large_string()).to_pylist(), dtype=TEXT)
    if dtype.kind == "f":
        return number_array(column, name).astype(dtype, copy=False)
    return np.asarray(_values(column).to_numpy(zero_copy_only=False), dtype=dtype)


def key_array(column: pa.Array, name: str, dtype: str) -> tuple[NDArray[Any], BoolArray | None]:
    """The key (n,) in `KEY_DTYPES[dtype]` and its null flags (n,), None if it has no null."""
    plain = _values(column)
    kinds = {"int64": pa.int64(), "string": pa.large_string()}
    kind = kinds.get(dtype) or pa.timestamp("ns", tz=getattr(plain.type, "tz", None))
    try:
        values = plain.cast(kind)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"key {name!r} ({plain.type}) does not fit {dtype}: {words_of_arrow(error)}; store it as text"
        ) from None
    if column.null_count:
        is_null = column.is_null().to_numpy(zero_copy_only=False)
    else:
        is_null = None
    # numpy has no null here: without a placeholder whole numbers would become floats
    if is_null is not None and dtype in KEY_FILL:
        values = values.fill_null(KEY_FILL[dtype])
    return values.to_numpy(zero_copy_only=False).astype(KEY_DTYPES[dtype], copy=False), is_null


Names = str | Iterable[str] | None
"""The name of a column, or the names of several; None: the default."""
Times = Mapping[str, str] | Names
"""Names of columns of times, or column -> the kind of times that the model accepts, "" for any.

See `dshap.predictors.times`.
"""


@dataclass(frozen=True)
class Layout:
    """The roles of the columns of a table."""

    features: tuple[str, ...]
    key_dtypes: Mapping[str, str]
    targets: tuple[str, ...]
    is_single_target: bool
    """Whether the target was given as one name: it is then read as (n,), else as (n, k)."""
    missing: MissingRule
    categories: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """feature -> its categories: it is read as their positions, -1 for others, NaN for null."""
    flags: tuple[str, ...] = ()
    """The features that contain False and True, read as 0 and 1."""
    times: Mapping[str, str] = field(default_factory=dict)
    """feature -> the kind of times that the model accepts.

    Such a feature is read as microseconds since 1970, NaN for null.
    """
    others_are_missing: bool = False
    """Whether values outside of the lists of categories are read as NaN, not as -1."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """column without a role, as it has no numbers -> its type.

    Empty if features were named.
    """

    @property
    def unknown_code(self) -> float:
        """The code of a value that is in no list of categories."""
        if self.others_are_missing:
            return np.nan
        return UNKNOWN

    def names(self, keys: bool = True, target: bool = True) -> list[str]:
        """The names of the columns to read, each once."""
        wanted = (
            self.features
            + (tuple(self.key_dtypes) if keys else ())
            + (self.targets if target else ())
        )
        return list(dict.fromkeys(wanted))

    def kept_dtype(self, name: str, kind: pa.DataType, has_nulls: bool) -> np.dtype[Any]:
        """The numpy dtype that stores a feature of this type without conversion."""
        if name in self.times:
            return TIME
        return kept_dtype(kind, has_nulls)

    def to_dict(self) -> dict[str, Any]:
        """Everything that changes the values read.

        Without times it has no entry for them, so that earlier fingerprints stay valid.
        """
        roles: dict[str, Any] = {
            "features": list(self.features),
            "keys": dict(self.key_dtypes),
            "targets": list(self.targets),
            "missing": self.missing,
            "categories": {name: list(values) for name, values in self.categories.items()},
        }
        if self.times:
            roles["times"] = dict(self.times)
        return roles


def as_names(given: Names) -> tuple[str, ...]:
    """A name, names or None as a tuple of names."""
    if given is None:
        return ()
    if isinstance(given, str):
        return (given,)
    return tuple(map(str, given))


def check_missing(missing: MissingRule) -> None:
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
    missing: MissingRule = "refuse",
    categories: Mapping[str, tuple[Any, ...]] | None = None,
    times: Times = None,
) -> Layout:
    """Give every column its role.

    `features=None` reads every number column that is neither key nor target, and the columns in
    `times`.  Features in `categories` contain text or numbers and are read as codes; features in
    `times` contain times or dates and are read as microseconds.

    Raises
    ------
    InputError
        A column is unknown or repeated, a target is also a feature or a key, a feature or target
        has no numbers, or a key is neither integer, text nor time.
    """
    check_missing(missing)
    keys = as_names(key)
    targets = as_names(target)
    for name in keys + targets:
        _require(schema, name)
    asked = as_times(times)
    if features is None:
        chosen = _numbers(schema, keys + targets, asked)
    else:
        chosen = as_names(features)
    kinds = {
        name: kind
        for name in chosen
        if name in asked and (kind := _required_time(schema, name, asked[name]))
    }
    for name in chosen:
        if name not in kinds:
            _require_number(schema, name, "features", (categories or {}).get(name))
    for name in targets:
        _require_number(schema, name, "target", None)
    _check_roles(chosen, keys, targets)
    return Layout(
        chosen,
        key_dtypes={name: kind_of_key(schema, name) for name in keys},
        targets=targets,
        is_single_target=isinstance(target, str),
        missing=missing,
        categories=dict(categories or {}),
        flags=tuple(name for name in chosen if is_boolean(schema.field(name).type)),
        times=kinds,
        left_out={} if features is not None else _no_numbers(schema, (*keys, *targets, *chosen)),
    )


def as_times(given: Times) -> dict[str, str]:
    """column that may contain times -> the kind that is wanted, "" for any."""
    match given:
        case Mapping():
            return dict(given)
    return dict.fromkeys(as_names(given), "")


def _numbers(schema: pa.Schema, taken: tuple[str, ...], times: Collection[str]) -> tuple[str, ...]:
    """Number columns without a role, and the columns of times, in the order of the schema."""
    return tuple(
        entry.name
        for entry in schema
        if entry.name not in taken and (is_number(entry.type) or entry.name in times)
    )


def _no_numbers(schema: pa.Schema, taken: tuple[str, ...]) -> dict[str, str]:
    """column without a role and without numbers -> its type."""
    others = [entry for entry in schema if not is_number(entry.type) and entry.name not in taken]
    return {entry.name: "text" if is_text(entry.type) else str(entry.type) for entry in others}


def said_left_out(left_out: Mapping[str, str]) -> str:
    """These columns as text: "city (text), when (timestamp[ns])", eight at most.

    Examples
    --------
    >>> from dshap.sources import said_left_out
    >>> said_left_out({"city": "text", "when": "timestamp[ns]"})
    'city (text), when (timestamp[ns])'
    """
    shown = [f"{name} ({kind})" for name, kind in left_out.items()]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")


def _check_roles(
    features: tuple[str, ...], keys: tuple[str, ...], targets: tuple[str, ...]
) -> None:
    """Raise if a column is named twice, or is both target and something else."""
    if not features:
        raise InputError(
            "no feature column: the table has no number column besides key and target; name "
            "features"
        )
    for option, names in (("features", features), ("key", keys), ("target", targets)):
        if twice := repeats(names):
            raise InputError(
                f"{option} contains {', '.join(map(repr, twice))} more than once: name each column "
                "once"
            )
    for option, names in (("features", features), ("key", keys)):
        if both := sorted(set(names) & set(targets)):
            raise InputError(
                f"target {', '.join(map(repr, both))} is also in {option}: take it out of one of "
                "them"
            )


def _require(schema: pa.Schema, name: str) -> pa.DataType:
    """The type of a column, which must exist exactly once."""
    positions = schema.get_all_field_indices(name)
    if not positions:
        raise unknown_column(name, schema.names)
    if len(positions) > 1:
        raise InputError(
            f"the table contains {len(positions)} columns named {name!r}: rename all but one"
        )
    return schema.field(positions[0]).type


def _require_number(
    schema: pa.Schema, name: str, option: str, categories: tuple[Any, ...] | None
) -> None:
    """Raise unless a column contains numbers, or values of the same kind as its categories."""
    kind = _require(schema, name)
    if categories is not None:
        is_empty = pa.types.is_null(kind)  # only missing values
        has_text = any(isinstance(value, str) for value in categories[:1])
        if categories and not is_empty and is_text(kind) != has_text:
            if has_text:
                expected = "text"
            else:
                expected = "categories that are numbers"
            raise InputError(
                f"column {name!r} contains {kind} here, and {expected} in the rows that the model "
                "was made with: cast it"
            )
        return
    if is_text(kind):
        raise InputError(
            f"column {name!r} contains text ({kind}) where numbers are needed: encode it as "
            f"numbers, or take it out of {option}"
        )
    if option == "features" and time_kind(kind):
        raise times_refused(
            name,
            str(kind),
            f"column {name!r} contains times ({kind}), which a predict function of data frames "
            "takes: explain it by Marginal with a data frame that has them as its background; for "
            "other models give them as a number, such as days since a date, or take the column out "
            f"of {option}",
        )
    if not is_number(kind):
        raise InputError(
            f"column {name!r} contains {kind}, but {option} take integers, floats, bools or "
            f"decimals: convert it, or take it out of {option}"
        )


def _required_time(schema: pa.Schema, name: str, wanted: str) -> str:
    """The kind of times that a column is read as, "" if it has none.

    Raises an `InputError` if the column does not fit the kind that is wanted.
    """
    kind = _require(schema, name)
    own = time_kind(_plain(kind))
    if not wanted or pa.types.is_null(kind):
        return wanted or own
    if not own:
        raise InputError(
            f"column {name!r} contains {kind} here, and {wanted} in the rows that the model was "
            "made with: cast it"
        )
    if why := misfit(own, wanted):
        raise InputError(f"column {name!r} contains {why}")
    return wanted


def kind_of_key(schema: pa.Schema, name: str) -> str:
    """The name in `KEY_DTYPES` for a key column; an InputError if it cannot be a key."""
    kind = _require(schema, name)
    dtype = key_dtype(kind)
    if dtype is None:
        raise InputError(key_refusal(name, kind))
    return dtype


def key_refusal(name: str, kind: pa.DataType) -> str:
    """The message about a column that cannot be a key."""
    return (
        f"key {name!r} contains {kind}, but a key is integer, text, date or timestamp: cast it, or "
        "name another column"
    )


def null_key_refusal(null_keys: Mapping[str, int]) -> str:
    """The message about rows without a key: key column -> number of rows."""
    counts = ", ".join(f"{name} {count}" for name, count in null_keys.items())
    return (
        f"rows contain no key ({counts}): fill them, drop these rows, or take the column out of key"
    )
