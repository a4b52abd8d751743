"""The arrays of a block as a cube has them, from the attributions of its rows, and its summary."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dshap.core.blocks import Attribution, RowBlock, Status
from dshap.core.records import FloatArray
from dshap.core.vocabulary import Vocabulary
from dshap.cube.code_arrays import code_arrays
from dshap.cube.layout import TEXT, TIME_UNITS, CubeLayout
from dshap.cube.summary import block_sums

SUMMARIES = ("blocks/attribution", "blocks/count", "blocks/residual")
"""The arrays with one entry for each block."""


def arrays_of_block(
    layout: CubeLayout, block: RowBlock, attribution: Attribution
) -> dict[str, np.ndarray]:
    """variable -> stored values of the whole block; the status comes last."""
    stored = {
        "attribution": _in_place(block, attribution.phi).astype(layout.dtype, copy=False),
        "prediction": _in_place(block, attribution.prediction),
    }
    errors = attribution.std_error
    if errors is not None:
        stored["std_error"] = _in_place(block, errors).astype(layout.dtype, copy=False)
    if attribution.interaction is not None:
        stored["interaction"] = _in_place(block, attribution.interaction).astype(
            layout.dtype, copy=False
        )
    for name, of_codes in code_arrays(layout, attribution).items():
        stored[name] = _in_place(block, of_codes).astype(layout.dtype, copy=False)
    if attribution.n_coalitions is not None and attribution.relative_error is not None:
        stored["n_coalitions"] = _in_place(block, attribution.n_coalitions, fill=0)
        stored["relative_error"] = _in_place(block, attribution.relative_error)
    if layout.is_base_by_row:
        stored["base_value"] = _in_place(
            block, np.broadcast_to(attribution.base, attribution.prediction.shape)
        )
    if attribution.classes is not None:
        stored["explained_class"] = _in_place(block, attribution.classes, fill=-1)
    for column, values in block.keys.items():
        if values.dtype.kind == "M":
            as_stored = values.astype(np.int64)
        else:
            as_stored = values
        stored[layout.key_variables[column]] = as_stored
    for column, values in block.columns.items():
        stored[f"rows/{layout.row_variables[column]}"] = _as_stored(values, layout.columns[column])
    if layout.vocabulary is not None:
        stored |= _of_texts(block.x, stored, layout.vocabulary)
    status = np.full(len(block.x), Status.SKIPPED, np.int8)
    status[block.is_ok] = attribution.status
    return stored | {"status": status}


def summary_of_block(attribution: Attribution) -> dict[str, np.ndarray]:
    """variable -> its entry of a block whose explained rows have these attributions."""
    count = np.array(len(attribution.phi))
    parts = (block_sums(attribution), count, residual_of(attribution))
    return dict(zip(SUMMARIES, parts, strict=True))


def residual_of(attribution: Attribution) -> FloatArray:
    """(k,): the largest |Σφ + base value − prediction| of rows that are explained."""
    gap = np.abs(attribution.phi.sum(axis=1) + attribution.base - attribution.prediction)
    return np.asarray(gap.max(axis=0, initial=0.0))


def _in_place(block: RowBlock, values: np.ndarray, fill: float = np.nan) -> np.ndarray:
    """Values (n, …) of the whole block from the values of its good rows; `fill` elsewhere."""
    if block.is_ok.all():
        return values
    out = np.full((len(block.x), *values.shape[1:]), fill, values.dtype)
    out[block.is_ok] = values
    return out


def _of_texts(
    ids: FloatArray, stored: Mapping[str, np.ndarray], vocabulary: Vocabulary
) -> dict[str, np.ndarray]:
    """Lengths and tokens of texts, and their attributions as NaN beyond the end of each.

    `ids` (n, longest) is NaN beyond the end of a text.
    """
    inside = ~np.isnan(ids)
    of_features = {name: stored[name] for name in ("attribution", "std_error") if name in stored}
    cut = {
        name: np.where(inside[..., None], values, np.nan).astype(values.dtype)
        for name, values in of_features.items()
    }
    return {**cut, "length": inside.sum(axis=1).astype(np.int32), "token": vocabulary.shown(ids)}


def _as_stored(values: np.ndarray, dtype: str) -> np.ndarray:
    """A stored column in the type of its array; missing text is empty, times are integers."""
    if dtype in TIME_UNITS:
        return values.view(np.int64)
    if dtype != TEXT:
        return values.astype(dtype, copy=False)
    return np.array([text or "" for text in values.tolist()], dtype=np.dtypes.StringDType())
