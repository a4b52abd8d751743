"""Predictions for the first rows, by which a later run recognises the model, on any processor.

Processors, and versions of linear algebra libraries, round differently.  The predictions of one
model then differ in their last digits, while those of a different model differ in the first ones.
The bound between the two is the geometric mean of the rounding and of the smallest change of a
model that must be noticed: half way between them, in orders of magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dshap.core.records import BoolArray, FloatArray, Record

NOTICED = 1e-3
"""The smallest change of a model that must be noticed, as a share of the standard deviation of its
predictions."""


def rounding_of(predictions: FloatArray, noise: FloatArray | float = 0.0) -> FloatArray:
    """Bound the differences (k,) that rounding explains, from predictions (n, k).

    With s the largest size and σ the standard deviation of the predictions of an output,

        bound = max(r, √(r · NOTICED · σ)),   r = max(ε · s, noise)

    ε is the spacing of the numbers that the predictions were made in: 1.2e-7 if all of them are
    numbers of float32, as of XGBoost or most models in ONNX, else 2.2e-16.

    Parameters
    ----------
    predictions : (n, k)
    noise : (k,)
        The largest difference of two predictions of one row in the same process, alone and with
        other rows (`determinism.check_steady`).  It exceeds one ε if sums cancel.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.run.probes import rounding_of
    >>> predictions = np.array([[-1.0], [0.3], [1.0]])
    >>> rounding_of(predictions).round(10)
    array([4.e-10])
    >>> rounding_of(predictions.astype(np.float32).astype(float)).round(6)
    array([1.e-05])
    """
    if not len(predictions):
        return np.broadcast_to(np.asarray(noise, np.float64), predictions.shape[1:]).copy()
    known = np.where(np.isfinite(predictions), predictions, 0.0)
    size = np.abs(known).max(axis=0)  # (k,)
    rounding = np.maximum(_spacing(known) * size, noise)
    return np.maximum(rounding, np.sqrt(rounding * NOTICED * _spread(predictions, size)))


def _spacing(known: FloatArray) -> float:
    """The distance from 1 to the next number of the type that predictions were made in."""
    largest = np.finfo(np.float32).max
    in_range = np.clip(known, -largest, largest)
    if np.array_equal(in_range.astype(np.float32), known):
        return float(np.finfo(np.float32).eps)
    return float(np.finfo(np.float64).eps)


def _spread(predictions: FloatArray, size: FloatArray) -> FloatArray:
    """The standard deviation (k,) of predictions; their size if all of them are equal."""
    finite = np.ma.masked_invalid(predictions)
    spread = np.ma.filled(finite.std(axis=0), 0.0)  # (k,)
    return np.where(spread > 0.0, spread, size)


def differ(before: FloatArray, now: FloatArray) -> BoolArray:
    """(n,): True for rows whose predictions (n, k) differ by more than rounding explains."""
    return np.asarray((_gaps(before, now) > rounding_of(before)).any(axis=1))


def _gaps(before: FloatArray, now: FloatArray) -> FloatArray:
    """The differences (n, k) of predictions; 0 of two NaN, and infinity of one."""
    is_same = (now == before) | (np.isnan(now) & np.isnan(before))
    with np.errstate(invalid="ignore"):  # infinity less infinity
        gaps = np.nan_to_num(np.abs(now - before), nan=np.inf)
    return np.where(is_same, 0.0, gaps)


@dataclass(frozen=True)
class Probes:
    """The predictions of a model for the first rows of a run, and of its background."""

    rows: FloatArray
    """(n, k): for the first rows to explain."""
    data: FloatArray
    """(n, k): for the first rows of the background or data; none if the model has tried none."""
    noise: FloatArray
    """(k,): see `rounding_of`."""

    @classmethod
    def of(cls, record: Record) -> Probes:
        """Read the probes that `record` has stored."""
        return cls(**{name: record[name] for name in ("rows", "data", "noise")})

    @property
    def record(self) -> Record:
        return Record({"rows": self.rows, "data": self.data, "noise": self.noise})

    def difference(self, now: Probes) -> tuple[float, float]:
        """(difference, bound) of the output whose predictions then and now differ most.

        They are predictions of one model if the difference is at most the bound.
        """
        found = (0.0, np.inf)
        for before, after in ((self.rows, now.rows), (self.data, now.data)):
            if before.shape != after.shape:
                return np.inf, 0.0
            gaps = _gaps(before, after).max(axis=0, initial=0.0)  # (k,)
            bounds = rounding_of(before, self.noise)  # (k,)
            pairs = zip(gaps.tolist(), bounds.tolist(), strict=True)
            found = max((found, *pairs), key=_in_bounds)
        return found


def _in_bounds(pair: tuple[float, float]) -> float:
    """A difference in units of its bound."""
    gap, bound = pair
    if gap == 0.0:
        return 0.0
    if bound == 0.0:
        return np.inf
    return gap / bound
