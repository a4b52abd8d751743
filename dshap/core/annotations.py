"""Types of parameters that many functions share, under one readable name each.

A signature shows the name, such as `TableLike`, and this page lists what you may give.  Use the
names in annotations of your own, too: ``from dshap.core.annotations import TableLike``.  `ArrayLike`
is the type of `numpy.typing`: an array, a number, or a list of numbers or of rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dshap.core.places import BucketPath

if TYPE_CHECKING:
    import catboost
    import dask.array
    import dask.dataframe
    import datasets
    import deltalake
    import distributed
    import lightgbm
    import pandas as pd
    import polars as pl
    import pyarrow.dataset
    import scipy.sparse
    import sklearn.base
    import xarray as xr
    import xgboost

    from dshap.core.types import RowReader


class HasPredict(Protocol):
    """A fitted model of any library: an object with `predict`.

    Estimators and pipelines of scikit-learn, tree ensembles of XGBoost, LightGBM and CatBoost, and
    models that MLflow has loaded are such objects.
    """

    @property
    def predict(self) -> Callable[..., ArrayLike]:
        """The function from rows to predictions, (n,) or (n, k)."""
        ...


class HasCoefficients(Protocol):
    """A fitted linear model of any library: an object with `coef_` and `intercept_`."""

    @property
    def coef_(self) -> ArrayLike:
        """The coefficients, (columns,) or (k, columns)."""
        ...

    @property
    def intercept_(self) -> ArrayLike:
        """The constant of each output, () or (k,)."""
        ...


class ArrowStream(Protocol):
    """A table with Arrow's C stream protocol.

    Tables of pyarrow, data frames of polars and pandas, and relations of DuckDB are such objects.
    """

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream of record batches, as a capsule."""
        ...


type PathLike = str | os.PathLike[str]
"""A path, as text or as a path of `pathlib`; for a store or a table also its address in a bucket, such
as "s3://bucket/name"."""

type MatrixLike = ArrayLike | pd.DataFrame
"""Rows in memory, (n, columns): an array, a list of rows, or a data frame, whose columns are found
by their names."""

type RowBlocks = (
    Iterable[tuple[MatrixLike, ArrayLike]] | Callable[[], Iterable[tuple[MatrixLike, ArrayLike]]]
)
"""A table in blocks, as pairs of rows and targets: a list of them, or a function that returns them
from the start at each call."""

type TableLike = (
    PathLike
    | Sequence[PathLike]
    | MatrixLike
    | ArrowStream
    | dask.array.Array
    | dask.dataframe.DataFrame
    | xr.Dataset
    | xr.DataArray
    | pyarrow.dataset.Dataset
    | pl.LazyFrame
    | deltalake.DeltaTable
    | datasets.Dataset
    | RowReader
)
"""Rows in any form that `explain` accepts: the path of Parquet files (a file, a folder, a glob, or
a list of them), an array, a data frame, a table of any library in memory, on a disk or on a cluster,
or a source of `dshap.sources`."""

type DeltaTableLike = PathLike | deltalake.DeltaTable
"""A Delta table: its folder, the address of the folder in a bucket, or an opened table, which is
read at its version."""

type KeyLike = str | Iterable[str] | Mapping[str, ArrayLike] | pd.Index
"""The key of the rows: one key column or several, by their names; for an array a mapping from the
name of a key column to its values (n,); for a data frame also an index of pandas."""

type RowKey = KeyValue | tuple[KeyValue, ...]
"""The key of one row, such as 17 or "ada": a tuple if the key has several columns.  In a cube
without a key it is the position of the row."""

type KeyValue = str | int | np.integer | date | np.datetime64
"""The value of a key column in one row: a text, an integer or a time."""

type TargetLike = str | Iterable[str] | ArrayLike
"""The target of a fit: its column, or several columns, by their names; or its values, (n,) or
(n, k)."""

type CubeLike = xr.Dataset | PathLike | BucketPath
"""A cube: the Dataset that `explain` and `open_cube` return, or the path of its store."""

type CubesLike = Mapping[str, CubeLike] | CubeLike
"""Several cubes by their names, or the store of one or more; a single cube has its store's name."""

type ClientLike = distributed.Client | str
"""A cluster of Dask: a client, or the address of a scheduler, such as "tls://10.0.0.5:8786"."""

type Predict = Callable[[np.ndarray], ArrayLike] | Callable[[pd.DataFrame], ArrayLike]
"""A function from rows (n, columns), an array or a data frame, to predictions, (n,) or (n, k)."""

type Adjacency = ArrayLike | scipy.sparse.sparray | scipy.sparse.spmatrix
"""The edges of a graph as an array (d, d), dense or sparse: each entry that is not 0 is an edge."""

type TreeEnsemble = (
    xgboost.Booster
    | xgboost.XGBModel
    | lightgbm.Booster
    | lightgbm.LGBMModel
    | catboost.CatBoost
    | sklearn.base.BaseEstimator
)
"""A fitted tree ensemble: a booster or a model of XGBoost, LightGBM or CatBoost, or the trees,
forests and gradient boosting of scikit-learn."""

type TextLike = str | Sequence[int | str] | NDArray[np.int64]
"""A text: its tokens as ids or as words, or a string, which a tokenizer cuts into tokens."""

type LengthScale = str | ArrayLike | Mapping[str, float]
"""The length-scale of a kernel: a number, one number a column in its units, a mapping from the names
of columns to numbers, "median" (the median heuristic) or "validate" (a fit of a model chooses it)."""
