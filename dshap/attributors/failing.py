"""Rows that the model fails for: found by bisection, left out, and stored with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import Attribution, Status
from dshap.core.errors import PredictError
from dshap.core.floats import finite_rows
from dshap.core.records import BoolArray, FloatArray

TRIED = 32
"""Evenly spaced rows tried one by one first: if all of them fail, the model itself is at fault."""
REPEATS = 8
"""How often an attributor is called again without the rows that failed."""

RowCall = Callable[[FloatArray], FloatArray]
"""Function of rows (n, columns) with a result of shape (n, …)."""


class RowsError(PredictError):
    """Some of the rows of a call cannot be explained.

    Parameters
    ----------
    reasons : position among these rows -> reason
    """

    def __init__(self, reasons: Mapping[int, str]) -> None:
        self.reasons = dict(reasons)
        super().__init__(next(iter(self.reasons.values())))

    # an exception is pickled by its message, which is not what the constructor takes
    def __reduce__(self) -> tuple[Any, ...]:
        return RowsError, (self.reasons,)


def is_of_rows(error: Exception) -> bool:
    """Whether the error may depend on the choice of rows: true of all errors but lack of memory."""
    return not isinstance(error, MemoryError)


def bad_rows(values: FloatArray, what: str = "") -> dict[int, str]:
    """position -> reason, of the rows whose values (n, …) are not all finite."""
    is_bad = ~finite_rows(values)
    return dict.fromkeys(np.flatnonzero(is_bad).tolist(), f"the model gave NaN or infinity{what}")


def kept_rows(n: int, failed: Mapping[int, str]) -> BoolArray:
    """(n,): True for the rows that did not fail."""
    kept = np.ones(n, dtype=bool)
    kept[list(failed)] = False
    return kept


@dataclass
class Spared:
    """Calls functions of the rows of a tile, and leaves out rows that fail.

    If a call fails, its rows are halved until the failing rows are known: at most 2 n calls for n
    rows, and each row is in 1 + log2 n of them.  All remaining rows get their values.
    """

    rows: FloatArray
    """(n, columns) of the tile."""
    failed: dict[int, str] = field(default_factory=dict)
    """position in the tile -> reason"""
    has_good: bool = False
    """Whether the function itself has been ruled out as the cause."""

    def __call__(self, function: RowCall, chosen: slice, shape: tuple[int, ...]) -> FloatArray:
        """function(rows[chosen]) (n, *shape), NaN for the rows that fail."""
        try:
            return function(self.rows[chosen])
        except Exception as error:
            return self.after(error, function, chosen, shape)

    def after(
        self, error: Exception, function: RowCall, chosen: slice, shape: tuple[int, ...]
    ) -> FloatArray:
        """Repeat function(rows[chosen]) (n, *shape), which raised `error`; failing rows are NaN."""
        if not is_of_rows(error):
            raise error
        # a function that fails for every row would be called twice a row: it is ruled out first
        if not self.has_good and len(self.rows) > TRIED and not _any_succeeds(function, self.rows):
            raise error
        self.has_good = True
        at = np.arange(*chosen.indices(len(self.rows)))
        left = np.array([i for i in at if i not in self.failed], np.intp)
        values = np.full((len(at), *shape), np.nan)
        self._fill(values, function, left, chosen.start)
        return values

    def _fill(
        self, values: FloatArray, function: RowCall, at: NDArray[np.intp], first: int
    ) -> None:
        """Write function(rows[at]) into `values`, whose row 0 is the position `first`."""
        if not len(at):
            return
        try:
            values[at - first] = function(self.rows[at])
        except Exception as error:
            if not is_of_rows(error):
                raise
            if len(at) == 1:
                self.failed[int(at[0])] = text_of(error)
                return
            half = len(at) // 2
            self._fill(values, function, at[:half], first)
            self._fill(values, function, at[half:], first)


def _any_succeeds(function: Callable[[FloatArray], object], rows: FloatArray) -> bool:
    """Whether the function succeeds for any of `TRIED` single rows."""
    for i in np.linspace(0, len(rows) - 1, TRIED).round().astype(int):
        try:
            function(rows[i : i + 1])
        except Exception:
            continue
        return True
    return False


def answers(function: RowCall, rows: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """function(rows) (n, *shape), NaN for failing rows; its error if all of them fail."""
    spared = Spared(rows)
    values = spared(function, slice(0, len(rows)), shape)
    if spared.failed and len(spared.failed) == len(rows):
        raise PredictError(next(iter(spared.failed.values())))
    return values


def answered(function: RowCall, rows: FloatArray) -> BoolArray:
    """(n,): True for rows that the function succeeds for; its error if all of them fail."""
    return ~np.isnan(answers(_tried(function), rows, ()))


def _tried(function: Callable[[FloatArray], object]) -> RowCall:
    """A function that calls `function` and returns zeros (n,)."""

    def zeros(rows: FloatArray) -> FloatArray:
        function(rows)
        return np.zeros(len(rows))

    return zeros


def sparing(
    error: Exception, attribute: Callable[[FloatArray], Attribution], rows: FloatArray
) -> Attribution:
    """Repeat attribute(rows), which raised `error`, without the rows that fail.

    `reasons` of the result has the reason for each. The other rows are attributed by one call, as
    if the table did not contain the rows that fail.

    Raises
    ------
    Exception
        The error of `attribute`, where no row can be explained.
    """
    at = np.arange(len(rows))
    failed = dict[int, str]()
    for _ in range(REPEATS):
        reasons = _reasons(attribute, rows[at], error)
        failed |= {int(at[i]): reason for i, reason in reasons.items()}
        at = at[kept_rows(len(at), reasons)]
        try:
            return attribute(rows[at]).placed(len(rows), at, failed)
        except Exception as another:
            error = another
    raise error


def not_all_failed(found: Attribution) -> Attribution:
    """The attributions, or a `PredictError` if every row failed."""
    if found.reasons and not found.is_ok.any():
        raise PredictError(next(iter(found.reasons.values())))
    return found


def _reasons(
    attribute: Callable[[FloatArray], Attribution], rows: FloatArray, error: Exception
) -> dict[int, str]:
    """position -> reason, of the rows that an attributor fails for; the error if all fail."""
    if isinstance(error, RowsError):
        if len(error.reasons) == len(rows):
            raise error
        return error.reasons
    if not is_of_rows(error) or (len(rows) > TRIED and not _any_succeeds(attribute, rows)):
        raise error
    spared = Spared(rows, has_good=True)
    spared(_tried(attribute), slice(0, len(rows)), ())
    if not spared.failed or len(spared.failed) == len(rows):
        raise error
    return spared.failed


def with_bad_rows(found: Attribution) -> Attribution:
    """The attributions, with rows that contain NaN or infinity marked as failed."""
    is_bad = ~(finite_rows(found.phi) & finite_rows(found.prediction))
    is_bad &= found.is_ok
    if not is_bad.any():
        return found
    reasons = dict.fromkeys(np.flatnonzero(is_bad).tolist(), "attributions are NaN or infinity")
    status = np.where(is_bad, np.int8(Status.FAILED), found.status)
    return replace(found, status=status, reasons={**found.reasons, **reasons})


def text_of(error: Exception) -> str:
    """The message of the error, or its type if that is empty."""
    return f"{error}" or type(error).__name__
