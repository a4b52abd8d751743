"""How large the standard errors of a finished cube are, over all of its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dshap.core.places import Place
from dshap.core.records import FloatArray
from dshap.cube import finished_blocks

BINS_AN_OCTAVE = 64
"""Bins of the median between a size and its double: it is right to within 1 %."""
LEAST_EXPONENT = -1_074
MOST_EXPONENT = 1_024
"""Powers of two between which all numbers of float64 lie."""


@dataclass(frozen=True)
class ErrorSizes:
    """The standard errors of a cube, one number for each row and output: that of its largest."""

    largest: float
    median: float
    """Right to within 1 %."""


def error_sizes(path: Place) -> ErrorSizes | None:
    """The sizes of the standard errors of a cube, in units of its output; read block by block.

    None where it has no standard errors, or where they are not known for any row.
    """
    largest = 0.0
    counts = np.zeros((MOST_EXPONENT - LEAST_EXPONENT) * BINS_AN_OCTAVE + 1, np.int64)
    for block in finished_blocks(path):
        errors = block.std_error
        if errors is None:
            return None
        sizes = errors.max(axis=1)  # (n, k), NaN for rows without attributions
        sizes = sizes[np.isfinite(sizes)].astype(np.float64)
        largest = max(largest, float(sizes.max(initial=0.0)))
        counts += np.bincount(_bins(sizes), minlength=len(counts))
    total = int(counts.sum())
    if not total:
        return None
    place = int(np.searchsorted(np.cumsum(counts), (total + 1) // 2))
    return ErrorSizes(largest, min(_middle(place), largest))


def _bins(sizes: FloatArray) -> np.ndarray:
    """The bin of each size (n,): 0 for 0, then by the logarithm."""
    is_some = sizes > 0
    logarithm = np.log2(sizes, out=np.full_like(sizes, LEAST_EXPONENT), where=is_some)
    place = np.floor((logarithm - LEAST_EXPONENT) * BINS_AN_OCTAVE).astype(np.int64)
    return np.where(is_some, 1 + place, 0)


def _middle(place: int) -> float:
    """The size in the middle of a bin."""
    if not place:
        return 0.0
    return float(2.0 ** (LEAST_EXPONENT + (place - 0.5) / BINS_AN_OCTAVE))
