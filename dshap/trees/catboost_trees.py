"""CatBoost's trees of numbers, from the JSON of a model."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.trees.ensemble import Tree, TreeEnsemble

NUMBERS = "FloatFeature"
"""The kind of CatBoost's decisions that compare a number."""


def catboost_ensemble(model: Any) -> TreeEnsemble:
    """The trees of a fitted CatBoost model.

    Raises
    ------
    InputError
        Trees that are not symmetric, or decisions on categories, texts or embeddings.
    """
    stored = _stored(model)
    if "oblivious_trees" not in stored:
        raise InputError(
            "trees of this CatBoost model are not symmetric (grow_policy), and only symmetric ones "
            "are read: use Marginal(model.predict, background)"
        )
    columns = {}
    missing_left = {}
    for feature in stored["features_info"].get("float_features", ()):
        columns[feature["feature_index"]] = feature["flat_feature_index"]
        # a decision is `value > border`: "AsTrue" sends missing values right
        missing_left[feature["feature_index"]] = feature["nan_value_treatment"] != "AsTrue"
    factor, base = stored["scale_and_bias"]
    trees = [
        _tree(tree, columns, missing_left, factor, len(base)) for tree in stored["oblivious_trees"]
    ]
    return TreeEnsemble.of(trees, np.array(base, np.float64), is_single=True)


def _stored(model: Any) -> dict[str, Any]:
    """The content of the model's JSON file, which CatBoost writes to disk alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        stored: dict[str, Any] = json.loads(path.read_text())
    return stored


def _tree(
    stored: Mapping[str, Any],
    columns: Mapping[int, int],
    missing_left: Mapping[int, bool],
    factor: float,
    k: int,
) -> Tree:
    """One symmetric tree: all nodes of a level decide alike, the last split at the root."""
    splits = stored["splits"][::-1]
    if strange := {split["split_type"] for split in splits} - {NUMBERS}:
        raise InputError(
            f"decisions of this CatBoost model are on {', '.join(sorted(strange))}, and only those "
            "on numbers are read: use Marginal(model.predict, background)"
        )
    features = [split["float_feature_index"] for split in splits]
    depth = len(splits)
    inner = np.arange(2**depth - 1)
    level = np.log2(inner + 1).astype(int)
    n_leaves = 2**depth
    values = np.array(stored["leaf_values"], np.float64).reshape(n_leaves, k)
    leaf = np.full(n_leaves, -1)
    return Tree(
        np.concatenate([2 * inner + 1, leaf]),
        np.concatenate([2 * inner + 2, leaf]),
        np.concatenate([_by_level([columns[j] for j in features], level), leaf]).astype(np.int64),
        np.concatenate(
            [_by_level([split["border"] for split in splits], level), np.zeros(n_leaves)]
        ),
        np.concatenate(
            [_by_level([missing_left[j] for j in features], level), np.zeros(n_leaves)]
        ).astype(bool),
        _weights(np.array(stored["leaf_weights"], np.float64)),
        np.concatenate([np.zeros((len(inner), k)), factor * values]),
    )


def _by_level(of_level: Sequence[Any], level: Any) -> FloatArray:
    found: FloatArray = np.array(of_level, np.float64)[level]
    return found


def _weights(leaves: FloatArray) -> FloatArray:
    """The training weight at all nodes, level by level from the root, from that of the leaves."""
    levels = [leaves]
    while len(levels[0]) > 1:
        levels.insert(0, levels[0].reshape(-1, 2).sum(axis=1))
    return np.concatenate(levels)
