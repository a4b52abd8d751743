"""Axes of column values: linear, or symmetric-log if few values are far from all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dshap.core.records import FloatArray

HEAVY = 5.0
"""How many times as large as the 99 % quantile of |values| the largest must be for a symmetric-log
axis."""
QUANTILE = 0.99
LINEAR_QUANTILE = 0.1
"""The quantile of |values| other than 0 up to which a symmetric-log axis is about linear."""
LEAST_LINEAR = 1e-4
"""The least of it, as a part of the 99 % quantile."""
STEPS_OF_TIME = (
    ("Y", (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)),
    ("M", (1, 3, 6)),
    ("D", (1, 2, 7, 14)),
    ("h", (1, 3, 6, 12)),
    ("m", (1, 5, 10, 30)),
    ("s", (1, 5, 10, 30)),
)
"""Units of time and how many of them are between two names of an axis of times."""


@dataclass(frozen=True)
class AxisScale:
    """The places of values on an axis: at x, or at sign(x) ln(1 + |x| / c)."""

    constant: float | None = None
    """c, about the |value| up to which the axis is linear; None: it is linear throughout."""
    is_time: bool = False
    """Whether the values are times, as microseconds since 1970."""
    is_whole: bool = False
    """Whether all values are whole numbers."""

    @property
    def words(self) -> str:
        """Words that name the axis if it is not linear."""
        if self.constant is None:
            return ""
        return "symmetric log axis"

    def place(self, values: FloatArray) -> FloatArray:
        """The places of values on the axis."""
        if self.constant is None:
            return np.asarray(values, np.float64)
        values = np.asarray(values, np.float64)
        return np.asarray(np.sign(values) * np.log1p(np.abs(values) / self.constant))

    def value(self, places: FloatArray) -> FloatArray:
        """The values at places of the axis: the inverse of `place`."""
        if self.constant is None:
            return np.asarray(places, np.float64)
        places = np.asarray(places, np.float64)
        return np.asarray(np.sign(places) * np.expm1(np.abs(places)) * self.constant)

    def even_edges(self, edges: FloatArray, low: float, high: float, parts: int) -> FloatArray:
        """Edges of bins, and more of them if a bin is wider than one of so many parts of the axis.

        Between whole numbers they are halves.
        """
        if not high > low:
            return edges
        first, last = self.place(np.array([low, high])).tolist()
        places = self.place(np.concatenate([[low], edges, [high]]))
        added = [edges]
        for left, right in pairwise(places.tolist()):
            # 1e-9: rounding of a quotient that is a whole number asks for no further part
            n_parts = int(np.ceil((right - left) / (last - first) * parts - 1e-9))
            if n_parts > 1:
                added.append(self.value(np.linspace(left, right, n_parts + 1)[1:-1]))
        found = np.concatenate(added)
        if self.is_whole:
            found = np.floor(found) + 0.5
        found = np.unique(found)
        return np.asarray(found[(found > low) & (found <= high)])

    def ticks(self, low: float, high: float, most: int) -> list[float]:
        """At most so many round values from the lowest to the highest."""
        if self.is_time:
            return _times(low, high, most)
        if self.constant is None:
            return _round_numbers(low, high, most, self.is_whole)
        span = float(self.place(np.array(high)) - self.place(np.array(low)))
        chosen: list[float] = []
        places: list[float] = []
        for value in _candidates(self.constant, low, high):
            at = float(self.place(np.array(value)))
            if all(abs(at - other) >= span / most for other in places):
                chosen.append(value)
                places.append(at)
        return sorted(chosen)


def axis_scale_of(numbers: FloatArray, low: float, high: float, is_time: bool = False) -> AxisScale:
    """The scale of an axis from the lowest to the highest value, by a sample of them.

    It is symmetric-log if the largest |value| is over five times the 99 % quantile of |values|.
    """
    finite = numbers[np.isfinite(numbers)]
    is_whole = not is_time and len(finite) > 0 and bool((finite == np.rint(finite)).all())
    sizes = np.abs(finite)
    most = float(np.quantile(sizes, QUANTILE)) if len(sizes) else 0.0
    if is_time or max(abs(low), abs(high)) <= HEAVY * most or not sizes.any():
        return AxisScale(None, is_time, is_whole)
    linear = float(np.quantile(sizes[sizes > 0], LINEAR_QUANTILE))
    return AxisScale(max(linear, LEAST_LINEAR * most), is_time, is_whole)


def _candidates(constant: float, low: float, high: float) -> Iterator[float]:
    """Round values of a symmetric-log axis, those that are named first before the others."""
    largest = max(abs(low), abs(high))
    powers = range(
        int(np.floor(np.log10(constant))), int(np.ceil(np.log10(max(largest, constant)))) + 1
    )
    signed = [0.0]
    for step in (1.0, 3.0, 2.0, 5.0):
        for power in reversed(powers):
            # from its digits: the product 3 · 0.1 is 0.30000000000000004
            size = float(f"{step}e{power}")
            signed += [size, -size]
    yield from (value for value in signed if low <= value <= high)


def _round_numbers(low: float, high: float, most: int, is_whole: bool) -> list[float]:
    """Multiples of 1, 2, 2.5 or 5 times a power of ten; of whole numbers whole ones."""
    span = high - low
    if not span > 0:
        return [low]
    power = 10.0 ** np.floor(np.log10(span / most))
    steps = [step * power for step in (1.0, 2.0, 2.5, 5.0, 10.0, 20.0, 25.0, 50.0)]
    if is_whole:
        steps = [step for step in steps if step >= 1.0 and step == np.rint(step)] or [1.0]
    for step in steps:
        # 1e-9: a quotient that is a whole number but for rounding counts as one
        first = np.ceil(low / step - 1e-9)
        last = np.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            break
    return [float(f"{step * place:.12g}") for place in np.arange(first, last + 1)]


def _times(low: float, high: float, most: int) -> list[float]:
    """Beginnings of years, months, days and so on, as microseconds since 1970."""
    first, last = (np.datetime64(int(end), "us") for end in (low, high))
    found: Sequence[float] = [low]
    for unit, steps in STEPS_OF_TIME:
        start = first.astype(f"datetime64[{unit}]")
        n_units = int((last.astype(f"datetime64[{unit}]") - start).astype(int)) + 1
        for step in reversed(steps):
            if n_units / step > most + 1:
                break
            offset = -int(start.astype(int)) % step
            ticks = (start + np.arange(offset, n_units + 1, step)).astype("datetime64[us]")
            ticks = ticks[(ticks >= first) & (ticks <= last)]
            if len(ticks) <= most and len(ticks) > 1:
                found = ticks.astype(np.float64).tolist()
        else:
            continue
        break
    return list(found)
