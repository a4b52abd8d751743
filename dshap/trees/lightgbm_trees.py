"""LightGBM's trees, from the dump of a booster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dshap.core.errors import InputError
from dshap.loops.codes import NEAR_ZERO, NEVER_MISSING, ZERO_MISSING
from dshap.trees.coding import CategorySplit
from dshap.trees.ensemble import Tree, TreeEnsemble

KINDS = {"NaN": NEAR_ZERO, "Zero": ZERO_MISSING, "None": NEVER_MISSING}
"""LightGBM's missing type -> how a decision reads its column."""


def lightgbm_ensemble(booster: Any, n_rounds: int, factor: float) -> TreeEnsemble:
    """The trees of the first rounds of a booster.

    Parameters
    ----------
    booster : lightgbm.Booster
    n_rounds : int
    factor : float
        From sums of leaves to margins.

    Raises
    ------
    InputError
        Leaves that are linear models.
    """
    dump = booster.dump_model(num_iteration=n_rounds)
    k = int(dump["num_tree_per_iteration"])
    trees = [
        _tree(info["tree_structure"], position % k, factor)
        for position, info in enumerate(dump["tree_info"])
    ]
    return TreeEnsemble.of(trees, np.zeros(k), is_single=False)


def _tree(root: Mapping[str, Any], output: int, factor: float) -> Tree:
    nodes = list(_nodes(root))
    n = len(nodes)
    left, right, column, kind = np.full((4, n), -1)
    threshold, weight, values = np.zeros((3, n))
    missing_left = np.zeros(n, dtype=bool)
    splits = []
    for i, (node, children) in enumerate(nodes):
        if "split_feature" not in node:
            if "leaf_coeff" in node:
                raise InputError(
                    "leaves of this LightGBM model are linear (linear_tree), and trees have a "
                    "number at each leaf: use Marginal(model.predict, background)"
                )
            values[i] = factor * node["leaf_value"]
            # a tree of one leaf has no count
            weight[i] = node.get("leaf_count", 1.0)
            continue
        left[i] = children
        right[i] = children + 1
        column[i] = node["split_feature"]
        weight[i] = node["internal_count"]
        missing_left[i] = node["default_left"]
        if node["decision_type"] == "==":
            # missing categories go right, whatever the default
            codes = [int(code) for code in str(node["threshold"]).split("||")]
            splits.append(CategorySplit(i, codes, (), others_left=False, missing_left=False))
        else:
            kind[i] = KINDS[node["missing_type"]]
            threshold[i] = node["threshold"]
    return Tree(
        left,
        right,
        column,
        threshold,
        missing_left,
        weight,
        values[:, None],
        output,
        kind,
        splits,
    )


def _nodes(root: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yield (node, position of its left child) in breadth-first order; right follows left."""
    waiting = [root]
    n = 1
    for node in waiting:
        yield node, n
        if "split_feature" in node:
            waiting += [node["left_child"], node["right_child"]]
            n += 2
