"""Arrays, lists and data frames of numbers as float64: the one conversion of a user's values.

Values that float64 cannot represent are refused: text, times, complex numbers, integers beyond
±2^53.  Missing values, masked or of nullable columns, become NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dshap.core.duck_typing import is_frame, is_pandas, is_sparse, numpy_dtype
from dshap.core.errors import InputError, shown
from dshap.core.records import BoolArray, FloatArray

LARGEST_WHOLE = 2**53
"""The largest integer up to which float64 represents every integer."""


def floats_of(given: Any, what: str, problem: str = "", advice: str = "") -> FloatArray:
    """Convert an array, a list or a data frame of numbers to float64 of the same shape.

    The result may share its memory with the given values.

    Parameters
    ----------
    given : array, list of rows, data frame or series
    what : its name in messages
    problem : the message for text; "WHAT has text where numbers are needed" where empty
    advice : the end of that message

    Raises
    ------
    InputError
        Text, times, complex or sparse numbers, or an integer that float64 would round.
    """
    if is_sparse(given):
        raise InputError("sparse input is not supported: give rows as a dense array, X.toarray()")
    # before the columns become one array of float64, where integers are rounded already
    _refuse_rounded_columns(given, what)
    try:
        plain = plain_array(unmasked(given, what))
        refuse_rounded(plain, what)
        _refuse_complex(plain)
        return np.asarray(plain, dtype=np.float64)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        problem = problem or f"{what} has text where numbers are needed"
        raise InputError(f"{problem}: {error}{advice}") from error


def finite_rows(values: FloatArray) -> BoolArray:
    """(n,): True for the rows whose values (n, …) are all finite."""
    is_finite = np.isfinite(values)
    if is_finite.all():  # one sum over all values takes a tenth of the time of one for each row
        return np.ones(len(values), dtype=bool)
    return np.asarray(is_finite.all(axis=tuple(range(1, values.ndim))))


def plain_array(given: Any) -> Any:
    """The values of a table as an array; missing values of nullable columns become NaN."""
    if not is_pandas(given):
        return np.asarray(given)
    dtypes = given.dtypes if is_frame(given) else [given.dtype]
    if all(kind.kind in "biuf" for kind in dtypes):
        return given.to_numpy(dtype=float, na_value=np.nan)
    return given.to_numpy()


def as_array(name: str, given: Any) -> Any:
    """A list of rows as an array, or an InputError; anything else unchanged."""
    if not isinstance(given, list | tuple):
        return given
    try:
        return np.asarray(given)
    except ValueError as error:
        raise InputError(
            f"{name} is {shown(given)}, rows of different lengths: give (n, columns)"
        ) from error


def unmasked(given: Any, what: str) -> Any:
    """A masked array of numbers as float64, with NaN for masked ones; anything else unchanged."""
    if not isinstance(given, np.ma.MaskedArray):
        return given
    refuse_rounded(given.compressed(), what)
    return np.ma.filled(given.astype(np.float64), np.nan)


def rounded_refusal(name: str, value: int) -> str:
    """The sentence for an integer that float64 would round."""
    return (
        f"{name} contains the integer {value}, and numbers are float64, which rounds integers "
        f"beyond ±2^53 ({LARGEST_WHOLE:,}): leave the column out, name it in key, or divide it"
    )


def refuse_rounded(values: Any, name: str) -> None:
    """Raise if a numpy array contains times, or an integer that float64 would round.

    Integers of less than 8 bytes always fit.
    """
    _refuse_times(values, name)
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8 or not values.size:
        return
    for extreme in (int(values.min()), int(values.max())):
        if abs(extreme) > LARGEST_WHOLE:
            raise InputError(rounded_refusal(name, extreme))


def refuse_rounded_column(column: Any, what: str) -> None:
    """Raise if a column of a data frame, nullable or not, contains times or large integers."""
    _refuse_times(column, what)
    dtype = numpy_dtype(column.dtype)
    if dtype.kind in "iu":
        refuse_rounded(column.dropna().to_numpy(dtype=dtype), what)


def _refuse_rounded_columns(table: Any, what: str) -> None:
    """Raise if a column of a data frame, or a series, contains times or large integers."""
    if is_frame(table):
        for j, name in enumerate(table.columns):
            refuse_rounded_column(table.iloc[:, j], f"column {str(name)!r}")
    elif is_pandas(table):
        refuse_rounded_column(table, what)


def _refuse_times(values: Any, what: str) -> None:
    """Raise if an array or a column contains times: as numbers they could be of any unit."""
    if values.dtype.kind in "mM":
        raise InputError(
            f"{what} contains times ({values.dtype}) where numbers are needed: give them as a "
            "number, such as days since a date, or explain a predict function of data frames by "
            "Marginal"
        )


def _refuse_complex(values: Any) -> None:
    """Raise for complex numbers, whose imaginary parts would be lost."""
    if values.dtype.kind == "c":
        raise InputError(
            "Complex data not supported: give real numbers, such as the real and the imaginary "
            "parts"
        )
