"""What an Arrow type is to dshap, and Arrow columns as numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dshap.errors import LARGEST_WHOLE, InputError, rounded_refusal
from dshap.records import BoolArray, FloatArray

__all__ = ["KEY_DTYPES", "TEXT", "arrow_array", "code_array", "is_number", "is_text", "key_array", "key_dtype"]
__all__ += ["number_array", "kept_array", "kept_dtype"]

TEXT = np.dtypes.StringDType(na_object=None)
"""Of text columns that are features."""
UNKNOWN = -1.0
"""Code of a category that is not in the list."""

KEY_DTYPES: Mapping[str, np.dtype[Any]] = {
    "int64": np.dtype(np.int64),
    "datetime64[ns]": np.dtype("datetime64[ns]"),
    "string": np.dtypes.StringDType(),
}
KEY_ARROW = {"int64": pa.int64(), "string": pa.large_string()}
KEY_FILL = {"int64": -1, "string": ""}
"""What stands for a missing key until the census refuses it; a missing time is NaT already."""


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of the values, where they are stored as a dictionary (a categorical)."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_number(kind: pa.DataType) -> bool:
    """True for what becomes float64: integers, floats, bools, decimals, and a column that holds nothing at all."""
    kind, known = _plain(kind), pa.types
    tests = (known.is_integer, known.is_floating, known.is_boolean, known.is_decimal, known.is_null)
    return any(test(kind) for test in tests)


def is_text(kind: pa.DataType) -> bool:
    """True for strings, plain or as a dictionary."""
    kind = _plain(kind)
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def key_dtype(kind: pa.DataType) -> str | None:
    """The name in `KEY_DTYPES` that a key of this type becomes, None where it cannot be a key."""
    plain = _plain(kind)
    if pa.types.is_integer(plain):
        return "int64"
    if pa.types.is_date(plain) or pa.types.is_timestamp(plain):
        return "datetime64[ns]"
    return "string" if is_text(kind) else None


def kept_dtype(kind: pa.DataType, has_nulls: bool) -> np.dtype[Any]:
    """The numpy dtype that keeps a column as it is; float64 for decimals, and for integers with nulls."""
    if is_text(kind):
        return TEXT
    kind = _plain(kind)
    if pa.types.is_floating(kind) or (not has_nulls and (pa.types.is_integer(kind) or pa.types.is_boolean(kind))):
        dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return dtype
    return np.dtype(np.float64)


def arrow_array(values: Any, name: str, *, from_pandas: bool = False) -> pa.Array:
    """One Arrow array of numpy or pandas values; bits are kept, unless `from_pandas` makes NaN a null."""
    if isinstance(values, np.ndarray):
        values = _arrow_ready(values)
    try:
        column = pa.array(values, from_pandas=from_pandas)
    except (pa.ArrowException, TypeError, UnicodeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"column {name!r} ({getattr(values, 'dtype', type(values).__name__)}) does not hold one kind of value "
            f"({reason}): make it all numbers, all text or all times"
        ) from None
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _arrow_ready(values: NDArray[Any]) -> NDArray[Any]:
    """The same values in a numpy dtype that Arrow takes."""
    if values.dtype.kind == "T":
        return values.astype(object)
    if values.dtype.kind == "M":
        return values.astype("datetime64[ns]") if np.datetime_data(values.dtype)[0] not in ("s", "ms", "us") else values
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def number_array(column: pa.Array, name: str) -> FloatArray:
    """The column as float64 (n,), null as NaN; integers beyond ±2^53 are refused."""
    plain = column.cast(_plain(column.type))
    if pa.types.is_int64(plain.type) or pa.types.is_uint64(plain.type):
        for extreme in pc.min_max(plain).as_py().values():
            if extreme is not None and abs(extreme) > LARGEST_WHOLE:
                raise InputError(rounded_refusal(f"column {name!r}", extreme))
    return np.asarray(plain.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def code_array(column: pa.Array, categories: Sequence[Any]) -> FloatArray:
    """Positions (n,) of the values in the list of categories as float64: `UNKNOWN` where absent, NaN where null."""
    plain = column.cast(_plain(column.type))
    if pa.types.is_null(plain.type):  # nothing but missing values
        return np.full(len(plain), np.nan)
    if is_text(plain.type):
        plain = plain.cast(pa.large_string())
        known = pa.array([str(value) for value in categories], type=pa.large_string())
    else:
        plain, known = plain.cast(pa.float64(), safe=False), pa.array(list(map(float, categories)), type=pa.float64())
    codes = pc.index_in(plain, value_set=known).fill_null(int(UNKNOWN)).cast(pa.float64())
    codes = np.array(codes.to_numpy(zero_copy_only=False))
    codes[plain.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)] = np.nan
    return codes


def kept_array(column: pa.Array, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The column (n,) in the dtype that `kept_dtype` gave."""
    if dtype.kind == "T":
        return np.array(column.cast(pa.large_string()).to_pylist(), dtype=TEXT)
    if dtype.kind == "f":
        return number_array(column, name).astype(dtype, copy=False)
    return np.asarray(column.cast(_plain(column.type)).to_numpy(zero_copy_only=False), dtype=dtype)


def key_array(column: pa.Array, name: str, dtype: str) -> tuple[NDArray[Any], BoolArray | None]:
    """The key (n,) in `KEY_DTYPES[dtype]` and where it is null (n,), None where it never is."""
    plain = column.cast(_plain(column.type))
    kind = KEY_ARROW.get(dtype) or pa.timestamp("ns", tz=getattr(plain.type, "tz", None))
    try:
        values = plain.cast(kind)
    except pa.ArrowInvalid as error:
        raise InputError(f"key {name!r} ({plain.type}) does not fit {dtype}: {error}; store it as text") from None
    is_null = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    if is_null is not None and dtype in KEY_FILL:
        values = values.fill_null(KEY_FILL[dtype])
    return values.to_numpy(zero_copy_only=False).astype(KEY_DTYPES[dtype], copy=False), is_null
