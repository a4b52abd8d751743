"""Tree ensembles on a page: path-dependent values by quadrature, from the coded nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dshap.attributors.method import Method
from dshap.core.errors import PredictError
from dshap.report.what_if.model_record import (
    LearnedParts,
    NoWhatIf,
    packed_within,
    player_of_columns,
    refuse_more,
)
from dshap.values.trees import INTERVENTIONAL

MAX_TREE_NODES = 5_000
"""The most nodes of all trees, leaves counted."""


def refuse_trees(method: Method, n_data: int) -> None:
    """Raise a `NoWhatIf` for values with a background, and for too many nodes."""
    value = method.value
    if value.how == INTERVENTIONAL:
        raise NoWhatIf(
            "the values are interventional, and a page computes only the values of trees without "
            "a background"
        )
    trees = value.model.trees
    refuse_more(len(trees.column), MAX_TREE_NODES, f"nodes of {len(trees.output):,} trees")


def arrays_of_trees(learned: LearnedParts) -> dict[str, Any]:
    """The nodes of all trees, the coded columns that they compare, and the choice of classes."""
    model = learned.value.model
    trees = model.trees
    own = trees.decisions
    columns = own.columns
    is_leaf = trees.column < 0
    # leaves have no column: the player that column −1 reads is not used
    player = np.where(is_leaf, -1, np.array(player_of_columns(learned.value))[trees.column])
    arrays = {
        "first": trees.first,
        "output": trees.output,
        # counted from the node: small numbers are packed in a small type
        "right": np.where(trees.right < 0, -1, trees.right - np.arange(len(trees.right))),
        "code": own.code,
        "place": own.place,
        "set": own.set_of,
        "sets": own.sets,
        "missingLeft": trees.missing_left,
        "player": player,
        "weight": trees.weight,
        "leaves": trees.values[is_leaf],
        "columns": columns.columns,
        "kinds": columns.kinds,
        "thresholds": columns.thresholds,
        "starts": columns.starts,
        "margins": trees.base,
        "base": learned.base,
    }
    choice = model.choice
    if choice is not None:
        arrays["positions"] = np.array(choice.positions)
        arrays["signs"] = np.array(choice.signs)
    return packed_within(arrays, f"{len(trees.column):,} nodes")


def facts_of_trees(value: Any) -> dict[str, Any]:
    """How the library reads numbers and missing values, and the rounding of its own margins.

    `known` is the number of categories of each column in the fit: others are missing.
    """
    decisions = value.model.trees.decisions
    columns = decisions.columns
    missing = columns.missing
    return {
        "isSingle": bool(columns.is_single),
        "missing": None if np.isnan(missing) else float(missing),
        "known": {str(column): len(kept) for column, kept in value.model.codes.items()},
        "setWidth": int(decisions.sets.shape[1]),
        "rounding": float(value.model.trees.rounding),
        "takesMissing": _takes_missing(value.model),
    }


def columns_of_trees(value: Any) -> list[int]:
    """The positions of the columns that a decision compares."""
    return [int(place) for place in np.unique(value.model.trees.decisions.columns.columns)]


def _takes_missing(model: Any) -> bool:
    """Whether a model predicts for a row whose values are all missing."""
    try:
        return bool(np.isfinite(model(np.full((1, model.n_columns), np.nan))).all())
    except PredictError:
        return False
