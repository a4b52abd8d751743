"""Kernel models on a page: product games by quadrature, or all coalitions by their table.

Both compute the interventional values over the cube's own background.  Quadrature uses the rows of
the background, the table of subsets their mean factors: it serves backgrounds of any number of
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dshap.attributors.method import Method
from dshap.core.records import FloatArray, State
from dshap.core.types import RowReader
from dshap.kernels.product import FAMILIES, ProductKernel
from dshap.report.what_if.model_record import (
    LearnedParts,
    NoWhatIf,
    is_listed_whole,
    packed_within,
    refuse_more,
)

MAX_LANDMARKS = 500
MAX_COLUMNS = 20
MAX_BACKGROUND = 100
"""The largest model and background by quadrature: an update takes about a tenth of a second."""
MAX_SUBSET_COLUMNS = 10
"""The most players for which a table of all coalitions is stored."""


def refuse_kernel(method: Method, n_data: int) -> None:
    """Raise a `NoWhatIf` if a method of kernel values is not computed on a page."""
    value = method.value
    expansion = value.expansion
    if not all(isinstance(part.kernel, ProductKernel) for part in expansion.parts) or (
        np.iscomplexobj(expansion.coefficients)
    ):
        raise NoWhatIf(
            "the model has random Fourier features, but a page computes only kernels with landmarks"
        )
    refuse_more(expansion.size, MAX_LANDMARKS, "landmarks")
    is_small = n_data <= MAX_BACKGROUND
    if method.work().is_closed_form:
        refuse_more(expansion.n_columns, MAX_COLUMNS, "columns")
        if not is_small:
            remedy = f": give the value function n_background = {MAX_BACKGROUND}"
            refuse_more(value.n_background, MAX_BACKGROUND, "background rows", remedy)
        return
    if not is_listed_whole(method):
        raise NoWhatIf(
            f"{method.info.n_coalitions:,} coalitions were sampled, but a page computes exact "
            'values: explain with design = "quadrature"'
        )
    if is_small:
        refuse_more(expansion.n_columns, MAX_COLUMNS, "columns")
    else:
        refuse_more(method.info.n_players, MAX_SUBSET_COLUMNS, "players of a table of subsets")


def arrays_of_kernel(learned: LearnedParts) -> dict[str, Any]:
    """The terms of the model, with the background rows, or the table of subsets."""
    value = learned.value
    arrays: dict[str, Any] = {
        "parts": [_terms(part) for part in value.expansion.parts],
        "intercept": value.expansion.intercept,
        "base": learned.base,
    }
    background = _background(learned)
    if background is not None:
        what = f"{value.expansion.size:,} landmarks and {len(background):,} background rows"
        return packed_within({**arrays, "background": background}, what)
    refuse_more(len(value.players), MAX_SUBSET_COLUMNS, "players of a table of subsets")
    means = _mean_factors(learned.states, value)
    what = f"means of {value.expansion.size:,} landmarks for {len(means):,} coalitions"
    return packed_within({**arrays, "means": means}, what)


def _terms(part: Any) -> dict[str, FloatArray]:
    """Landmarks (r, columns), weights (r, k), and kind and rate of each column's factor."""
    kernel: ProductKernel = part.kernel
    families = [FAMILIES[family] for family in kernel.families]
    rates = [each.rate(at) for each, at in zip(families, kernel.parameters.tolist(), strict=True)]
    return {
        "landmarks": part.landmarks,
        "weights": part.weights,
        "kinds": np.array([each.kind for each in families], np.float64),
        "rates": np.array(rates),
    }


def _background(learned: LearnedParts) -> FloatArray | None:
    """The rows (b, columns) of the background; None if they are many, or not at hand."""
    first = learned.states[0] if learned.states else State({})
    if "background" in first.arrays:
        return first["background"]
    data: RowReader | None = learned.data
    if data is None or data.n_rows > MAX_BACKGROUND:
        return None
    return data.read(0, data.n_rows).good


def _mean_factors(states: Sequence[State], value: Any) -> FloatArray:
    """(2^d, r): mean over the background of the factors of absent players, by the present ones.

    Player i is bit i of a coalition's number.  The state has these means times a weight of each
    landmark: the largest one is divided by, so that no digit is lost.
    """
    weights = value.expansion.coefficients  # (r, k)
    largest = np.abs(weights).argmax(axis=1)
    weight = weights[np.arange(len(weights)), largest]
    means = np.ones((1 << len(value.players), len(weights)))
    # all columns of a player are present together, so one column of each player is enough
    first_column = value.players.members.argmax(axis=1)
    bits = 1 << np.arange(len(value.players))
    for state in states:
        numbers = state["columns"][:, first_column] @ bits
        table = state["table"][:, largest, np.arange(len(weights))]  # (m, r)
        means[numbers] = np.divide(table, weight, out=np.zeros_like(table), where=weight != 0.0)
    return means
