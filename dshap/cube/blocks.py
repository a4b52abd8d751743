"""Iteration over the finished blocks of a cube, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from dshap.core.records import FloatArray
from dshap.cube.layout import decoded, reading
from dshap.cube.reader import kept_arrays, key_arrays
from dshap.cube.reference_copy import receipts_of
from dshap.cube.writer import lost_files


@dataclass(frozen=True)
class FinishedBlock:
    """The stored rows of one block that has a receipt."""

    start: int
    keys: Mapping[str, NDArray[Any]]
    """key column -> values (n,) as int64, text or datetime64[ns]."""
    columns: Mapping[str, NDArray[Any]]
    """kept column -> values (n,); empty if the cube keeps no columns."""
    prediction: FloatArray
    """Predictions (n, k); NaN where a row was skipped."""


def finished_blocks(path: Path) -> Iterator[FinishedBlock]:
    """The finished blocks of the cube at `path`, in row order; blocks that lost files are left out.

    Raises
    ------
    DamagedError
        A chunk cannot be read.
    """
    with reading(path):
        keys = key_arrays(path)
        columns = kept_arrays(path)
        prediction = zarr.open_array(path / "prediction", mode="r")
    for _, receipt in sorted(receipts_of(path).whole()):
        if lost_files(path, receipt):
            continue
        rows = slice(int(receipt["start"]), int(receipt["stop"]))
        with reading(path):
            yield FinishedBlock(
                rows.start,
                {name: decoded(np.asarray(array[rows]), array) for name, array in keys.items()},
                {name: decoded(np.asarray(array[rows]), array) for name, array in columns.items()},
                np.asarray(prediction[rows], dtype=np.float64),
            )
