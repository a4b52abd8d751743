"""A cube as a `shap.Explanation`, for the plots of the shap package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.view import output_of
from dshap.core.annotations import CubeLike, TableLike
from dshap.core.errors import DoesNotFitError, InputError
from dshap.core.options import RULES
from dshap.core.printing import format_bytes
from dshap.core.records import FloatArray
from dshap.cube.columns import columns_of
from dshap.cube.datasets import as_cube, names_along, rows_of

if TYPE_CHECKING:
    import shap

IN_EXPLANATION_BYTES = 2 << 30
"""The most bytes of attributions and values of columns that `to_shap` has in memory."""


def to_shap(
    cube: CubeLike,
    rows: TableLike | None = None,
    output: str | int | None = None,
    *,
    interactions: bool = False,
) -> shap.Explanation:
    """Convert a cube to a `shap.Explanation`, which the functions of `shap.plots` draw.

    Parameters
    ----------
    cube : xarray.Dataset, str or Path
        The result of `dshap.explain` or `dshap.open_cube`, or the path of its store.
    rows : data frame, table or array, optional
        The explained rows, in the order of the cube.  None: the rows in the cube or its store.
    output : str or int, optional
        The name or the position of one output.  None: all outputs.
    interactions : bool
        Whether the values are the interactions of pairs of features, with main effects on the
        diagonal.  The cube must have them: ``explain(..., interactions=True)``.

    Returns
    -------
    shap.Explanation
        For n rows, d features and k outputs; the axis of outputs is left out if k = 1:

        - `values` (n, d, k), or (n, d, d, k) with interactions;
        - `base_values` (n, k);
        - `data` (n, d), the values of the columns or the tokens of texts; None if the values were
          not stored, or a feature is made of several columns;
        - `feature_names` and `output_names`;
        - `error_std` (n, d, k), the standard errors, if attributions have them.

    Raises
    ------
    InputError
        The shap package is not installed; `rows` are not the rows of the cube; or `interactions` is
        True and the cube has none.
    DoesNotFitError
        The arrays would need more than 2 GiB: take fewer rows.

    Examples
    --------
    >>> import pandas as pd
    >>> import dshap
    >>> houses = pd.DataFrame({"rooms": [1.0, 3.0], "age": [10.0, 20.0]})
    >>> value = dshap.values.Marginal(lambda x: 50 * x[:, 0] - x[:, 1], houses)
    >>> explanation = dshap.to_shap(dshap.explain(value, houses))
    >>> explanation.feature_names
    ['rooms', 'age']
    >>> explanation.values.round(9).tolist(), explanation.base_values.tolist()
    ([[-50.0, 5.0], [50.0, -5.0]], [85.0, 85.0])
    """
    interactions = RULES["interactions"]("interactions", interactions)
    cube = as_cube(cube)
    if output is not None:
        cube = cube.isel(output=[output_of(cube, output)])
    if interactions and "interaction" not in cube:
        raise InputError(
            "the cube has no interactions: explain the rows with interactions=True, or leave "
            "interactions out"
        )
    _refuse_large(cube, interactions)
    return explanation_of(cube, _data_of(cube, rows), interactions)


def explanation_of(cube: Any, data: NDArray[Any] | None, interactions: bool = False) -> Any:
    """The `shap.Explanation` of all rows of a Dataset, with the values of their columns (n, d).

    Its values are the attributions, or the interactions of all pairs of features.
    """
    shap = require_shap()
    if interactions:
        name = "interaction"
    else:
        name = "attribution"
    every = slice(0, cube.sizes["instance"])
    outputs: list[str] | None = names_along(cube, "output")
    if cube.sizes["output"] == 1:
        outputs = None
    base = np.broadcast_to(cube["base_value"].values, cube["prediction"].shape)
    errors = None
    if "std_error" in cube and not interactions:
        errors = by_output(rows_of(cube, "std_error", every))
    return shap.Explanation(
        values=by_output(rows_of(cube, name, every)),
        # a copy, as an array of broadcast_to cannot be written to
        base_values=np.array(by_output(base)),
        data=data,
        feature_names=names_along(cube, "feature"),
        output_names=outputs,
        error_std=errors,
    )


def by_output(values: FloatArray) -> FloatArray:
    """Drop the last axis of values (…, k) if there is one output, as shap does."""
    if values.shape[-1] == 1:
        return values[..., 0]
    return values


def require_shap() -> Any:
    """The shap package.

    Raises
    ------
    InputError
        It is not installed.
    """
    try:
        import shap
    except ImportError as error:
        raise InputError(
            "a shap.Explanation needs the shap package: pip install 'dshap[shap]'"
        ) from error
    return shap


def _refuse_large(cube: Any, interactions: bool) -> None:
    """Raise a `DoesNotFitError` if the arrays would be larger than `IN_EXPLANATION_BYTES`."""
    # the last one is that of the columns' values
    n_arrays = cube.sizes["output"] * (1 + ("std_error" in cube)) + 1
    if interactions:
        n_arrays = cube.sizes["output"] * cube.sizes["feature"] + 1
    size = 8 * cube.sizes["instance"] * cube.sizes["feature"] * n_arrays
    if size > IN_EXPLANATION_BYTES:
        raise DoesNotFitError(
            f"a shap.Explanation of {cube.sizes['instance']:,} rows takes {format_bytes(size)}, "
            f"and to_shap allows {format_bytes(IN_EXPLANATION_BYTES)}: give fewer rows, such as "
            "cube.isel(instance=slice(1_000)); dshap.report draws all of them"
        )


def _data_of(cube: Any, rows: Any) -> NDArray[Any] | None:
    """The values (n, d) of the features' columns; None if one is not known."""
    every = slice(0, cube.sizes["instance"])
    if "token" in cube and rows is None:
        return np.asarray(cube["token"].values)
    columns = columns_of(cube, rows)
    features = names_along(cube, "feature")
    if not set(features) <= set(columns):
        return None
    values = [columns[name](every) for name in features]
    # one array has one type: a single column of texts makes all of them objects
    if all(each.dtype.kind in "biuf" for each in values):
        return np.stack([each.astype(np.float64) for each in values], axis=1)
    return np.stack([each.astype(object) for each in values], axis=1)
