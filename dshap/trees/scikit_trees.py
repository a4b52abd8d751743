"""Trees of scikit-learn: single ones, forests, gradient boosting, histogram boosting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from dshap.core.duck_typing import of_estimator
from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.loops.codes import VALUE
from dshap.trees.coding import CategorySplit
from dshap.trees.ensemble import Tree, TreeEnsemble, Whole

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
        Boosting that starts from a model of the user (init=).
    """
    _refuse_votes(model)
    grown = of_estimator(model, "estimators_")
    if grown is None:
        return TreeEnsemble.of([_grown(model, 1.0)], np.zeros(_width(model)), is_single=True)
    if isinstance(grown, np.ndarray):  # gradient boosting: (rounds, k)
        step = factor * model.learning_rate
        boosted = [
            _grown(tree, step, output) for of_round in grown for output, tree in enumerate(of_round)
        ]
        return _started(model, boosted, margins, is_single=True)
    columns_of = _columns_of(model)
    if any(
        of_estimator(tree, "tree_") is None or tree.n_features_in_ != len(columns)
        for tree, columns in zip(grown, columns_of, strict=True)
    ):
        raise InputError(
            f"the estimators of {type(model).__name__} are not all trees of its columns: use "
            "Marginal(model.predict, background)"
        )
    share = 1.0 / len(grown)
    trees = [
        _grown(tree, share, columns=columns)
        for tree, columns in zip(grown, columns_of, strict=True)
    ]
    return TreeEnsemble.of(trees, np.zeros(trees[0].values.shape[1]), is_single=True)


def _refuse_votes(model: Any) -> None:
    """Raise InputError for a model whose trees do not add up to its predictions."""
    name = type(model).__name__
    if of_estimator(model, "estimator_weights_") is not None:
        raise InputError(
            f"{name} takes a vote of its trees, which do not add up to its predictions: use "
            "Marginal(model.predict, background)"
        )
    if (of_estimator(model, "n_outputs_") or 1) > 1 and of_estimator(model, "classes_") is not None:
        raise InputError(
            f"{name} predicts classes of {model.n_outputs_} targets: fit a model for each target, "
            "or use Marginal(function, background) with the probabilities of one"
        )


def _columns_of(model: Any) -> Sequence[Any]:
    """The columns that each tree of a forest was fitted on."""
    listed: Sequence[Any] | None = of_estimator(model, "estimators_features_")
    if listed is None:
        return [np.arange(model.n_features_in_)] * len(model.estimators_)
    return listed


def histogram_ensemble(
    model: Any, margins: Callable[[FloatArray], FloatArray], listed: Mapping[int, Sequence[float]]
) -> TreeEnsemble:
    """The trees of fitted histogram gradient boosting.

    Parameters
    ----------
    model : estimator
    margins : function from rows (n, columns) to margins (n, k) of the model
    listed : mapping
        Column of categories -> the values that represent them in rows, in the order of the model.
    """
    is_listed = np.isin(np.arange(model.n_features_in_), list(listed))
    # the model puts its columns of categories first
    columns = np.concatenate([np.flatnonzero(is_listed), np.flatnonzero(~is_listed)])
    trees = [
        _histogram_tree(predictor, columns, listed, output)
        for of_round in model._predictors
        for output, predictor in enumerate(of_round)
    ]
    return _started(model, trees, margins, is_single=False, listed=listed)


def isolation_ensemble(model: Any) -> TreeEnsemble:
    """The trees of a fitted isolation forest, whose leaves are path lengths.

    A row that ends among n training rows at depth l has path length l + c(n), c(n) being the mean
    depth of n rows in a random search tree.  Source: Liu, Ting and Zhou, Isolation forest (ICDM
    2008).
    """
    share = 1.0 / len(model.estimators_)
    trees = [
        replace(
            _grown(tree, share, columns=columns), values=share * _path_lengths(tree.tree_)[:, None]
        )
        for tree, columns in zip(model.estimators_, _columns_of(model), strict=True)
    ]
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
    listed: Mapping[int, Sequence[float]] = MappingProxyType({}),
) -> TreeEnsemble:
    """Boosted trees with the margins before any, which are the same for all rows.

    listed : column of categories -> the values that represent them
    """
    n_columns = int(model.n_features_in_)
    # any rows would do, as only a constant may be left; random rows reach many leaves
    rows = np.random.default_rng(0).normal(size=(PROBE_ROWS, n_columns))
    for j, values in listed.items():
        rows[:, j] = next(iter(values), np.nan)
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
    # older versions of scikit-learn store counts of rows, later ones shares: both become shares
    return values[:, 0] / values[:, 0].sum(axis=1, keepdims=True)


def _grown(model: Any, factor: float, output: int = 0, columns: Whole | None = None) -> Tree:
    """One fitted tree on some of the columns, whose leaves are multiplied by a factor."""
    own = model.tree_
    column = np.asarray(own.feature, np.int64)
    if columns is not None:
        column = np.where(column < 0, -1, columns[column])
    missing_left = getattr(own, "missing_go_to_left", None)
    return Tree(
        np.asarray(own.children_left, np.int64),
        np.asarray(own.children_right, np.int64),
        column,
        np.asarray(own.threshold, np.float64),
        np.zeros(own.node_count, bool) if missing_left is None else missing_left.astype(bool),
        np.asarray(own.weighted_n_node_samples, np.float64),
        factor * _leaf_values(model),
        output,
    )


def _histogram_tree(
    predictor: Any, columns: Whole, listed: Mapping[int, Sequence[float]], output: int
) -> Tree:
    """One tree, whose decisions by categories list those that go left as bits."""
    nodes = predictor.nodes
    is_leaf = nodes["is_leaf"].astype(bool)
    column = columns[nodes["feature_idx"]]
    missing_left = nodes["missing_go_to_left"].astype(bool)
    splits = []
    for node in np.flatnonzero(nodes["is_categorical"] & ~is_leaf):
        words = predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]]
        goes_left = np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)
        values = np.asarray(listed[int(column[node])], np.float64)
        goes_left = goes_left[: len(values)]
        other = bool(missing_left[node])  # unknown categories count as missing
        split = CategorySplit(int(node), values[goes_left], values[~goes_left], other, other, VALUE)
        splits.append(split)
    return Tree(
        np.where(is_leaf, -1, nodes["left"].astype(np.int64)),
        np.where(is_leaf, -1, nodes["right"].astype(np.int64)),
        column,
        nodes["num_threshold"].astype(np.float64),
        missing_left,
        nodes["count"].astype(np.float64),
        nodes["value"].astype(np.float64)[:, None],
        output,
        splits=splits,
    )
