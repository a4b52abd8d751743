"""The accuracy of finished cubes: measurements of their runs, and standard errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dshap.core.annotations import CubeLike, CubesLike
from dshap.core.blocks import Status
from dshap.core.records import JSON, FloatArray
from dshap.cube import finished_blocks, largest_residual, read_notes
from dshap.cube.given_cubes import given_cube, given_cubes

NOTED = ("mse_v", "learning_error", "fold_error", "pilot", "carried", "counted")
"""The notes of a run that are about its accuracy."""


def accuracy(cubes: CubesLike) -> dict[str, dict[str, JSON]]:
    """Report the accuracy of each explanation: its largest residual, and what its run measured.

    Parameters
    ----------
    cubes : mapping, path or xarray.Dataset
        Name -> path of a cube or an opened cube; or the path of a store, with all of its cubes; or
        one opened cube.

    Returns
    -------
    dict
        Name of an explanation -> its `residual`, the largest |Σφ + base value − prediction| of each
        output over the finished blocks, and those of the notes `mse_v`, `learning_error`,
        `fold_error`, `pilot`, `carried` and `counted` that its run wrote.

    Raises
    ------
    InputError
        `cubes` is none of these, there is no such store, or the attributions of a Dataset are not
        exactly those of its store.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import dshap
    >>> rows = np.array([[1.0, 10.0], [3.0, 20.0]])
    >>> value = dshap.values.Marginal(lambda x: 50 * x[:, 0] - x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Path(folder, "cube")
    ...     cube = dshap.explain(value, rows, store=store, progress=False)
    ...     found = dshap.report.accuracy({"prices": store})
    >>> max(found["prices"]["residual"]) < 1e-9
    True
    """
    found = {}
    for name, path in given_cubes(cubes).items():
        notes = read_notes(path)
        residual = largest_residual(path)
        measured = {key: notes[key] for key in NOTED if key in notes}
        found[name] = {"residual": residual[~np.isnan(residual)].tolist()} | measured
    return found


BINS_AN_OCTAVE = 64
"""Bins of the median between a size and its double: it is right to within 1 %."""
LEAST_EXPONENT = -1_074
MOST_EXPONENT = 1_024
"""The exponents of powers of two that bound all numbers of float64."""


@dataclass(frozen=True)
class ErrorSizes:
    """How large the standard errors of a cube are.

    Each row counts, for each output, by the largest error of its features.

    Examples
    --------
    >>> from dshap.report import ErrorSizes
    >>> sizes = ErrorSizes(largest=0.2, median=0.1, rows=100, unknown=0)
    >>> sizes.has_some
    True
    """

    largest: float
    """The largest of all rows; NaN if no row has a known error."""
    median: float
    """The median over the rows, right to within 1 %; NaN if no row has a known error."""
    rows: int
    """The number of rows with attributions."""
    unknown: int
    """The number of these rows that have a standard error of NaN, which is left out."""

    @property
    def has_some(self) -> bool:
        """Whether any row has a known error."""
        return not np.isnan(self.largest)


def error_sizes(path: CubeLike) -> ErrorSizes | None:
    """Summarise the standard errors of a cube: the largest and the median, in units of its output.

    The cube is read block by block.

    Parameters
    ----------
    path : str, Path or xarray.Dataset
        The path of a cube, or an opened cube.

    Returns
    -------
    ErrorSizes or None
        None if the cube has no standard errors, because its values are exact.

    Raises
    ------
    InputError
        `path` is neither, or the attributions of the Dataset are not exactly those of its store.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import dshap
    >>> rows = np.random.default_rng(0).normal(size=(8, 2))
    >>> value = dshap.values.Gaussian(lambda x: x[:, 0] * x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Path(folder, "cube")
    ...     cube = dshap.explain(value, rows, store=store, progress=False)
    ...     sizes = dshap.report.error_sizes(store)
    >>> sizes.rows, bool(0 < sizes.median <= sizes.largest)
    (8, True)
    """
    largest = 0.0
    rows = 0
    unknown = 0
    counts = np.zeros((MOST_EXPONENT - LEAST_EXPONENT) * BINS_AN_OCTAVE + 1, np.int64)
    for block in finished_blocks(given_cube(path)):
        errors = block.std_error
        if errors is None:
            return None
        is_explained = block.read("status") == Status.OK
        sizes = errors[is_explained].max(axis=1)  # (n, k), NaN if an error is not known
        is_known = np.isfinite(sizes)
        rows += len(sizes)
        unknown += int(np.count_nonzero(~is_known.all(axis=1)))
        known = sizes[is_known]
        largest = max(largest, float(known.max(initial=0.0)))
        counts += np.bincount(_bins(known), minlength=len(counts))
    total = int(counts.sum())
    if not total:
        return ErrorSizes(np.nan, np.nan, rows, unknown)
    place = int(np.searchsorted(np.cumsum(counts), (total + 1) // 2))
    # the middle of a bin may be above the largest size in it
    return ErrorSizes(largest, min(_middle(place), largest), rows, unknown)


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
