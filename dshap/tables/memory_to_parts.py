"""Spooling: rows in memory are written as Parquet parts, which workers read by path.

Every float64 comes back bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dshap.core.annotations import MatrixLike
from dshap.core.errors import InputError
from dshap.core.late import pa
from dshap.core.types import RowReader
from dshap.storage.disk import whole_file
from dshap.tables.arrays import ArraySource
from dshap.tables.checksums import KEPT, write_parquet
from dshap.tables.columns import Names, arrow_array, as_names, repeats, spooled_times
from dshap.tables.parquet import ParquetSource

ROW_GROUP_ROWS = 65_536
"""Rows of a row group: one span of the census, two evaluation tiles."""
SPOOL_ROWS = 1_048_576
"""Rows of one part."""
TARGET = "dshap target "
"""The column name of a spooled target, which had no name."""


def write_partition(folder: Path, names: Sequence[str] | None, partition: Any, index: int) -> int:
    """Write a partition as a part, unless it is empty; return its number of rows."""
    if len(partition):
        write_part(folder, index, partition, names=names)
    return len(partition)


def spool_source(source: ArraySource, folder: Path) -> RowReader:
    """Write rows in memory as Parquet parts, and open these with the same keys and target."""
    targets: list[str] = []
    for index, start in enumerate(range(0, source.n_rows, SPOOL_ROWS)):
        block = source.read(
            start, min(start + SPOOL_ROWS, source.n_rows), keys=True, target=True, columns=True
        )
        times = {
            name: spooled_times(block.columns[name], kind) for name, kind in source.times.items()
        }
        columns = {**block.columns, **block.keys, **times}
        if block.target is not None:
            outputs = block.target.reshape(len(block.x), -1).T
            targets = [f"{TARGET}{j}" for j in range(len(outputs))]
            columns |= dict(zip(targets, outputs, strict=True))
        write_part(folder, index, columns)
    return ParquetSource(
        folder,
        features=source.feature_names,
        key=source.key_names,
        target=targets[0] if len(targets) == 1 else targets or None,
        missing=source.missing,
        categories=source.categories,
        times=source.times,
    )


def write_part(
    directory: str | Path,
    index: int,
    table_like: MatrixLike | Mapping[str, ArrayLike],
    *,
    names: Names = None,
) -> Path:
    """Write rows to a file ``part-<index>.parquet``, which appears whole or not at all.

    Parameters
    ----------
    directory : path
        Made if it does not exist.  `ParquetSource(directory, ...)` reads the parts in the order of
        their index.
    index : int
        The number of the part, 0 to 999,999.  A part that is there is replaced; two processes may
        write the same one.
    table_like : pandas DataFrame, array (n, columns) or mapping of name -> (n,)
        A frame's index is not written.
    names : names, optional
        The columns of an array; required there, refused for other tables.

    Returns
    -------
    Path
        The path of the part.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dshap.sources import ParquetSource, write_part
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in range(3):
    ...         path = write_part(folder, part, {"rooms": np.array([part, part + 0.5])})
    ...     n_rows = ParquetSource(folder).n_rows
    >>> path.name, n_rows
    ('part-000002.parquet', 6)
    """
    table = _arrow_table(table_like, names)
    part = Path(directory) / f"part-{index:06d}.parquet"
    with whole_file(part) as private:
        write_parquet(table, private, row_group_size=ROW_GROUP_ROWS, **KEPT)
    return part


def _arrow_table(table_like: Any, names: Names) -> pa.Table:
    columns: Mapping[str, Any]
    match table_like:
        case np.ndarray():
            columns = _by_name(table_like, names)
        case _ if names is not None:
            raise InputError("names was given for a table that has names: give it for arrays only")
        case Mapping():
            columns = table_like
        case _:
            columns = _frame_columns(table_like)
    arrays = {
        name: arrow_array(values, name, from_pandas=_is_pandas(values))
        for name, values in columns.items()
    }
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        raise InputError(f"columns of lengths {lengths}: give all of them one length")
    return pa.table(arrays)


def _by_name(x: np.ndarray[Any, Any], names: Names) -> dict[str, Any]:
    """The columns of an array (n, columns) by name."""
    given = as_names(names)
    if x.ndim != 2 or x.shape[1] != len(given):
        raise InputError(
            f"{len(given)} names for an array of shape {x.shape}: give (rows, columns) and a name "
            "a column"
        )
    if twice := repeats(given):
        raise InputError(
            f"names contain {', '.join(map(repr, twice))} more than once: name each column once"
        )
    return dict(zip(given, x.T, strict=True))


def _frame_columns(frame: Any) -> dict[str, Any]:
    """The columns of a pandas DataFrame by name.

    Plain numpy columns are numpy arrays, because Arrow would turn their NaN into nulls.
    """
    names = [str(name) for name in frame.columns]
    if twice := repeats(names):
        raise InputError(
            f"the frame contains columns {', '.join(map(repr, twice))} more than once: rename all "
            "but one"
        )
    columns = (frame.iloc[:, position] for position in range(len(names)))
    return {
        name: column.to_numpy()
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf"
        else column
        for name, column in zip(names, columns, strict=True)
    }


def _is_pandas(values: Any) -> bool:
    return type(values).__module__.split(".")[0] == "pandas"
