"""Times as whole microseconds since 1970 in float64, and back to the unit that a model accepts.

float64 is exact for them from 1684 to 2255. Zoned times are counted in UTC. The kind of a column of
times is one string, for every library: "datetime64[us]", "datetime64[ns, Europe/Berlin]" or "date".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.duck_typing import has_member
from dshap.core.errors import InputError
from dshap.core.floats import LARGEST_WHOLE
from dshap.core.records import FloatArray

DATE = "date"
"""The kind of columns of dates: `datetime.date` in data frames."""
SPELLINGS = re.compile(
    r"(?:datetime64|timestamp)\[(?P<unit>s|ms|us|ns)(?:, (?:tz=)?(?P<zone>[^\]]+))?\]"
)
"""Pattern of the types of times as numpy, pandas and Arrow write them."""
PER_UNIT: Mapping[str, int] = {"D": 86_400_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
"""Unit of numpy -> its length in microseconds."""
RANGE = "times from 1684-07-28 to 2255-06-05"
"""The range, in words, whose microseconds float64 represents exactly."""


def times_of(given: Any) -> Mapping[str, str]:
    """Column -> kind, for the columns of times of a model or source; empty if unknown."""
    if has_member(given, "times"):
        match given.times:
            case Mapping() as found:  # a data frame may have a column named "times"
                return found
    return {}


def time_kind(dtype: Any) -> str:
    """The kind of times of a numpy, pandas or Arrow type; empty for other types."""
    text = str(dtype)
    if text.startswith(("date32[", "date64[")):
        return DATE
    found = SPELLINGS.match(text)
    if found is None:
        return ""
    parts = [part for part in found.group("unit", "zone") if part]
    return f"datetime64[{', '.join(parts)}]"


def unit_of(kind: str) -> str:
    """The numpy unit of times of this kind."""
    found = SPELLINGS.match(kind)
    if found is None:
        return "D"
    return found["unit"]


def zone_of(kind: str) -> str:
    """The time zone of this kind; empty if it has none."""
    found = SPELLINGS.match(kind)
    if found is None:
        return ""
    return found["zone"] or ""


def misfit(own: str, wanted: str) -> str:
    """Why times of kind `own` cannot replace those of kind `wanted`; empty if they can.

    The message names the remedy.
    """
    of_model = f"and {wanted} in the rows that the model was made with"
    if zone_of(own) and not zone_of(wanted):
        take_off = '.dt.tz_convert("UTC").dt.tz_localize(None)'
        return f"times of a zone ({own}) here, {of_model}: remove the zone, {take_off}"
    if zone_of(wanted) and not zone_of(own):
        return (
            f"times without a zone ({own}) here, {of_model}: give them the zone, "
            f'.dt.tz_localize("{zone_of(wanted)}")'
        )
    if wanted == DATE and own != DATE:
        return (
            f"times of the day ({own}) here, and dates in the rows that the model was made with: "
            "cast them to dates, .dt.date"
        )
    return ""


def microseconds(values: NDArray[np.datetime64], name: str) -> FloatArray:
    """Convert the times (n,) of a column to microseconds since 1970; NaT becomes NaN.

    Raises
    ------
    InputError
        Times that are no whole microseconds, or that float64 would round.
    """
    unit = np.datetime_data(values.dtype)[0]
    is_known = ~np.isnat(values)
    counts = np.where(is_known, values.view(np.int64), 0)
    if unit == "ns":
        _refuse(
            values[counts % 1_000 != 0],
            name,
            'only whole microseconds are accepted: round it, column.dt.round("us")',
        )
        counts = counts // 1_000
        unit = "us"
    is_far = np.abs(counts) > LARGEST_WHOLE // PER_UNIT[unit]
    _refuse(
        values[is_far],
        name,
        f"only {RANGE} are accepted: put a missing value in its place, or leave the column out",
    )
    return np.where(is_known, (counts * PER_UNIT[unit]).astype(np.float64), np.nan)


def _refuse(bad: NDArray[np.datetime64], name: str, why: str) -> None:
    """Raise InputError with the first of these times, if there are any."""
    if len(bad):
        raise InputError(f"column {name!r} contains the time {bad[0]}, and {why}")


def from_microseconds(numbers: FloatArray, kind: str) -> NDArray[Any]:
    """Convert microseconds (n,) to times (n,), NaN to missing; zoned times in UTC.

    They are in the unit of the kind if it represents all of them, else in microseconds; dates
    are `datetime.date`.
    """
    is_missing = np.isnan(numbers)
    times = np.rint(np.where(is_missing, 0.0, numbers)).astype(np.int64).view("datetime64[us]")
    times[is_missing] = np.datetime64("NaT", "us")
    if kind == DATE:
        return times.astype("datetime64[D]").astype(object)
    in_unit = times.astype(f"datetime64[{unit_of(kind)}]")
    is_same = in_unit.astype(times.dtype) == times
    if (is_same | is_missing).all():
        return in_unit
    return times
