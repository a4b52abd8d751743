"""XGBoost's trees, from the JSON of a booster."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.trees.coding import CategorySplit
from dshap.trees.ensemble import Tree, TreeEnsemble


def _log_odds(share: float) -> float:
    return math.log(share / (1.0 - share))


MARGIN_OF: Mapping[str, Callable[[float], float]] = {
    "reg:logistic": _log_odds,
    "binary:logistic": _log_odds,
    "count:poisson": math.log,
    "reg:gamma": math.log,
    "reg:tweedie": math.log,
    "survival:cox": math.log,
    "survival:aft": math.log,
}
"""Objective -> the margin of a `base_score`; for others they are the same."""


def xgboost_ensemble(booster: Any, n_rounds: int, missing: float = math.nan) -> TreeEnsemble:
    """The trees of the first rounds of a booster; InputError for boosters without trees."""
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    boosted = learner["gradient_booster"]
    dropped = boosted.get("weight_drop")
    if "gbtree" in boosted:  # dart before version 3.4
        boosted = boosted["gbtree"]
    model = boosted.get("model", {})
    if "trees" not in model:
        raise InputError(
            f"XGBoost's booster {boosted['name']!r} has no trees: use "
            "Marginal(model.predict, background)"
        )
    parameters = learner["learner_model_param"]
    k = max(int(parameters["num_class"]), int(parameters.get("num_target", 1)), 1)
    n_trees = _n_trees(model, n_rounds, k)
    factors = model.get("weight_drop", dropped) or [1.0] * n_trees
    trees = [
        _tree(stored, output, factor)
        for stored, output, factor in zip(
            model["trees"][:n_trees], model["tree_info"][:n_trees], factors[:n_trees], strict=True
        )
    ]
    return TreeEnsemble.of(
        trees, _base(learner, k), is_single=True, missing=missing, sums_single=True
    )


def _n_trees(model: Mapping[str, Any], n_rounds: int, k: int) -> int:
    """The number of trees of the first rounds."""
    ends = model.get("iteration_indptr")
    if ends is not None:
        return int(ends[n_rounds])
    at_once = int(model["gbtree_model_param"]["num_parallel_tree"])
    return n_rounds * at_once * k


def _base(learner: Mapping[str, Any], k: int) -> FloatArray:
    """The margins (k,) before any tree."""
    stored = str(learner["learner_model_param"]["base_score"]).strip("[]")
    # XGBoost stores `base_score` on the scale of predictions
    to_margin = MARGIN_OF.get(learner["objective"]["name"], float)
    base = [to_margin(float(score)) for score in stored.split(",")]
    return np.broadcast_to(np.array(base), k).astype(np.float64)


def _tree(stored: Mapping[str, Any], output: int, factor: float) -> Tree:
    left = np.array(stored["left_children"], np.int64)
    right = np.array(stored["right_children"], np.int64)
    condition = np.array(stored["split_conditions"], np.float32)
    width = int(stored["tree_param"]["size_leaf_vector"])
    return Tree(
        left,
        right,
        np.array(stored["split_indices"], np.int64),
        # x < t for the numbers of single precision is x <= the number before t
        np.nextafter(condition, np.float32(-np.inf)).astype(np.float64),
        np.array(stored["default_left"], dtype=bool),
        np.array(stored["sum_hessian"], np.float64),
        factor * _values(stored, left, right, condition, width),
        0 if width > 1 else int(output),
        splits=_category_splits(stored),
    )


def _values(
    stored: Mapping[str, Any],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    condition: NDArray[np.float32],
    width: int,
) -> FloatArray:
    """The numbers that leaves add to the margins (nodes, w)."""
    if width <= 1:
        return condition.astype(np.float64)[:, None]
    is_leaf = left < 0
    values = np.zeros((len(left), width))
    if stored.get("leaf_weights"):  # from version 3.1 on, a leaf has its number as right child
        held = np.array(stored["leaf_weights"], np.float32).reshape(-1, width)
        values[is_leaf] = held[right[is_leaf]]
    else:
        held = np.array(stored["base_weights"], np.float32).reshape(-1, width)
        values[is_leaf] = held[is_leaf]
    return values


def _category_splits(stored: Mapping[str, Any]) -> Sequence[CategorySplit]:
    """The decisions by categories: those listed go right."""
    return [
        CategorySplit(
            node, (), stored["categories"][start : start + size], True, bool(missing_left)
        )
        for node, start, size in zip(
            stored["categories_nodes"],
            stored["categories_segments"],
            stored["categories_sizes"],
            strict=True,
        )
        for missing_left in [stored["default_left"][node]]
    ]
