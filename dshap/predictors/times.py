"""Times as numbers: whole microseconds since 1970 in float64, and back in the unit that a model
takes.

float64 holds each of them from 1684 to 2255.  Times of a zone are counted in UTC.  The kind of a
column of times is one text, whichever library holds the column: "datetime64[us]", "datetime64[ns,
Europe/Berlin]" or "date".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.duck_typing import has_member
from dshap.core.errors import LARGEST_WHOLE, InputError
from dshap.core.records import FloatArray

__all__ = [
    "DATE",
    "from_microseconds",
    "microseconds",
    "misfit",
    "time_kind",
    "times_of",
    "unit_of",
    "zone_of",
]

DATE = "date"
"""The kind of columns of days: `datetime.date` in data frames."""
SPELLINGS = re.compile(
    r"(?:datetime64|timestamp)\[(?P<unit>s|ms|us|ns)(?:, (?:tz=)?(?P<zone>[^\]]+))?\]"
)
"""How numpy, pandas and Arrow write the types of times."""
PER_UNIT: Mapping[str, int] = {"D": 86_400_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
"""Unit of numpy -> its microseconds."""
RANGE = "times from 1684-07-28 to 2255-06-05"
"""The days whose microseconds float64 holds."""


def times_of(given: Any) -> Mapping[str, str]:
    """Column -> its kind, of the columns of times that a model takes or a source gives; empty where
    it knows none."""
    if has_member(given, "times"):
        match given.times:
            case Mapping() as found:  # a data frame may have a column of that name
                return found
    return {}


def time_kind(dtype: Any) -> str:
    """The kind of times of a dtype of numpy or pandas, or of a type of Arrow; empty where it holds
    something else."""
    text = str(dtype)
    if text.startswith(("date32[", "date64[")):
        return DATE
    found = SPELLINGS.match(text)
    if found is None:
        return ""
    parts = [part for part in found.group("unit", "zone") if part]
    return f"datetime64[{', '.join(parts)}]"


def unit_of(kind: str) -> str:
    """The unit of numpy that times of this kind are in."""
    found = SPELLINGS.match(kind)
    if found is None:
        return "D"
    return found["unit"]


def zone_of(kind: str) -> str:
    """The time zone of this kind; empty where it has none."""
    found = SPELLINGS.match(kind)
    if found is None:
        return ""
    return found["zone"] or ""


def misfit(own: str, wanted: str) -> str:
    """Say why times of one kind cannot stand for those of another, and what to do; empty where they
    can."""
    of_model = f"and {wanted} where the model's own rows are"
    if zone_of(own) and not zone_of(wanted):
        take_off = '.dt.tz_convert("UTC").dt.tz_localize(None)'
        return f"times of a zone ({own}) here, {of_model}: take the zone off, {take_off}"
    if zone_of(wanted) and not zone_of(own):
        return f'times without a zone ({own}) here, {of_model}: say theirs, .dt.tz_localize("{zone_of(wanted)}")'
    if wanted == DATE and own != DATE:
        return f"times of the day ({own}) here, and dates where the model's own rows are: cast them to dates, .dt.date"
    return ""


def microseconds(values: NDArray[np.datetime64], name: str) -> FloatArray:
    """The times (n,) of a column as microseconds since 1970, NaT as NaN.

    Raises
    ------
    InputError
        Nanoseconds that are no whole microsecond, or a time that float64 would round.
    """
    unit = np.datetime_data(values.dtype)[0]
    is_known = ~np.isnat(values)
    counts = np.where(is_known, values.view(np.int64), 0)
    if unit == "ns":
        _refuse(
            values[counts % 1_000 != 0],
            name,
            'whole microseconds are taken: round it, column.dt.round("us")',
        )
        counts = counts // 1_000
        unit = "us"
    is_far = np.abs(counts) > LARGEST_WHOLE // PER_UNIT[unit]
    _refuse(
        values[is_far],
        name,
        f"{RANGE} are taken: put a missing value in its place, or leave the column out",
    )
    return np.where(is_known, (counts * PER_UNIT[unit]).astype(np.float64), np.nan)


def _refuse(bad: NDArray[np.datetime64], name: str, why: str) -> None:
    """Raise where there are times that are not taken, with the first of them."""
    if len(bad):
        raise InputError(f"column {name!r} holds the time {bad[0]}, and {why}")


def from_microseconds(numbers: FloatArray, kind: str) -> NDArray[Any]:
    """Times (n,) of the microseconds (n,), NaN as missing; of a zone in UTC.

    In the unit of the kind where it holds all of them, else in microseconds; dates as
    `datetime.date`.
    """
    is_missing = np.isnan(numbers)
    times = np.rint(np.where(is_missing, 0.0, numbers)).astype(np.int64).view("datetime64[us]")
    times[is_missing] = np.datetime64("NaT")
    if kind == DATE:
        return times.astype("datetime64[D]").astype(object)
    in_unit = times.astype(f"datetime64[{unit_of(kind)}]")
    is_same = in_unit.astype(times.dtype) == times
    if (is_same | is_missing).all():
        return in_unit
    return times
