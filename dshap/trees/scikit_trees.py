"""Trees of scikit-learn: single ones, forests, gradient boosting, histogram boosting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dshap.core.duck_typing import of_estimator
from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.trees.ensemble import Tree, TreeEnsemble

PROBE_ROWS = 16
"""Rows on which margins before any tree must be the same."""


def scikit_ensemble(
    model: Any, margins: Callable[[FloatArray], FloatArray], factor: float
) -> TreeEnsemble:
    """The trees of a fitted model of scikit-learn.

    Parameters
    ----------
    model : estimator
    margins : function from rows (n, columns) to margins (n, k) of the model
    factor : float
        From the model's own margins to those explained.

    Raises
    ------
    InputError
        Boosting that starts from a model of the user (init=), or decisions by categories.
    """
    if of_estimator(model, "_predictors") is not None:
        return _started(model, _histogram_trees(model), margins, is_single=False)
    grown = of_estimator(model, "estimators_")
    if grown is None:
        return TreeEnsemble.of([_grown(model, 1.0)], np.zeros(_width(model)), is_single=True)
    if isinstance(grown, np.ndarray):  # gradient boosting: (rounds, k)
        step = factor * model.learning_rate
        boosted = [
            _grown(tree, step, output) for of_round in grown for output, tree in enumerate(of_round)
        ]
        return _started(model, boosted, margins, is_single=True)
    if any(
        of_estimator(tree, "tree_") is None or tree.n_features_in_ != model.n_features_in_
        for tree in grown
    ):
        raise InputError(
            f"the estimators of {type(model).__name__} are not trees of all its columns: use "
            "Marginal(model.predict, background)"
        )
    share = 1.0 / len(grown)
    trees = [_grown(tree, share) for tree in grown]
    return TreeEnsemble.of(trees, np.zeros(trees[0].values.shape[1]), is_single=True)


def isolation_ensemble(model: Any) -> TreeEnsemble:
    """The trees of a fitted isolation forest, whose leaves are path lengths.

    A row that ends among n training rows at depth l has path length l + c(n), c(n) being the mean
    depth of n rows in a random search tree.  Source: Liu, Ting and Zhou, Isolation forest (ICDM
    2008).
    """
    share = 1.0 / len(model.estimators_)
    trees = []
    for tree, columns in zip(model.estimators_, model.estimators_features_, strict=True):
        own = _grown(tree, share)
        trees.append(
            replace(
                own,
                column=np.where(own.left < 0, -1, np.asarray(columns)[own.column]),
                values=share * _path_lengths(tree.tree_)[:, None],
            )
        )
    return TreeEnsemble.of(trees, np.zeros(1), is_single=True)


def mean_depth(n: FloatArray) -> FloatArray:
    """c(n): the mean depth of n rows in a random search tree, 0 for one row."""
    many = np.maximum(n, 3.0)
    harmonic = np.log(many - 1.0) + np.euler_gamma
    return np.where(n > 2, 2.0 * harmonic - 2.0 * (many - 1.0) / many, np.where(n == 2, 1.0, 0.0))


def _path_lengths(tree: Any) -> FloatArray:
    """(nodes,): the depth of a node, and the mean depth of its training rows below."""
    depth = np.zeros(tree.node_count)
    for node in range(tree.node_count):  # parents come first
        if tree.children_left[node] >= 0:
            depth[[tree.children_left[node], tree.children_right[node]]] = depth[node] + 1
    return depth + mean_depth(tree.n_node_samples.astype(np.float64))


def _started(
    model: Any,
    trees: Sequence[Tree],
    margins: Callable[[FloatArray], FloatArray],
    *,
    is_single: bool,
) -> TreeEnsemble:
    """Boosted trees with the margins before any, which are the same for all rows."""
    n_columns = int(model.n_features_in_)
    rows = np.random.default_rng(0).normal(size=(PROBE_ROWS, n_columns))
    found = margins(rows)
    alone = TreeEnsemble.of(trees, np.zeros(found.shape[1]), is_single=is_single)
    before = found - alone.margins(rows)
    off = np.abs(before - before[0]).max()
    if not off <= 1e-9 * max(np.abs(found).max(), np.abs(before).max()):
        raise InputError(
            f"{type(model).__name__} starts from a model of its own (init=), whose predictions "
            "are not in the trees: use Marginal(model.predict, background)"
        )
    return TreeEnsemble.of(trees, before.mean(axis=0), is_single=is_single)


def _width(model: Any) -> int:
    return int(np.prod(_leaf_values(model).shape[1:]))


def _leaf_values(model: Any) -> FloatArray:
    """The predictions of all nodes (nodes, w): numbers, or shares of classes."""
    values = np.asarray(model.tree_.value, np.float64)  # (nodes, outputs, classes)
    if of_estimator(model, "classes_") is None:
        return values[:, :, 0]
    return values[:, 0] / values[:, 0].sum(axis=1, keepdims=True)


def _grown(model: Any, factor: float, output: int = 0) -> Tree:
    """One fitted tree, whose leaves are taken times a factor."""
    own = model.tree_
    missing_left = getattr(own, "missing_go_to_left", None)
    return Tree(
        np.asarray(own.children_left, np.int64),
        np.asarray(own.children_right, np.int64),
        np.asarray(own.feature, np.int64),
        np.asarray(own.threshold, np.float64),
        np.zeros(own.node_count, bool) if missing_left is None else missing_left.astype(bool),
        np.asarray(own.weighted_n_node_samples, np.float64),
        factor * _leaf_values(model),
        output,
    )


def _histogram_trees(model: Any) -> list[Tree]:
    if np.any(model.is_categorical_ if model.is_categorical_ is not None else False):
        raise InputError(
            "decisions by categories of scikit-learn's histogram boosting are not read: use "
            "Marginal(predict, background)"
        )
    return [
        _histogram_tree(predictor.nodes, output)
        for of_round in model._predictors
        for output, predictor in enumerate(of_round)
    ]


def _histogram_tree(nodes: Any, output: int) -> Tree:
    is_leaf = nodes["is_leaf"].astype(bool)
    return Tree(
        np.where(is_leaf, -1, nodes["left"].astype(np.int64)),
        np.where(is_leaf, -1, nodes["right"].astype(np.int64)),
        nodes["feature_idx"].astype(np.int64),
        nodes["num_threshold"].astype(np.float64),
        nodes["missing_go_to_left"].astype(bool),
        nodes["count"].astype(np.float64),
        nodes["value"].astype(np.float64)[:, None],
        output,
    )
