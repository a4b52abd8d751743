"""Trees through the shap package: scikit-learn's, backgrounds, interactions of LightGBM."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from dshap.core.duck_typing import has_member, of_estimator
from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.core.scales import TARGET
from dshap.predictors.named import fitted_names_of
from dshap.predictors.tree_libraries import Categories, Ensemble, digest_of_bytes, tree_operations
from dshap.predictors.tree_rounds import BoostingRounds, use_all_rounds
from dshap.predictors.tree_scale import own_predictions

LOG_LOSSES = ("poisson", "gamma")
"""Losses of scikit-learn's gradient boosting whose trees add up to the log of the prediction."""


class ThroughShap:
    """A tree ensemble through shap: scikit-learn's trees, or any library's with a background."""

    takes_unseen = False

    def __init__(
        self, model: Any, background: FloatArray | None = None, library: Ensemble | None = None
    ) -> None:
        if library is None and np.any(getattr(model, "is_categorical_", False)):
            raise InputError(
                "shap does not know the categorical splits of this model: use Marginal(predict, "
                "background)"
            )
        if library is None:
            self.names = fitted_names_of(model)
        else:
            self.names = library.names
        self.model = _with_all_rounds(_without_names(model))
        self.background = background
        self.library = library
        if library is None:
            self.factor = _factor_of_sklearn(model)
            self.rounds = BoostingRounds(0, 0)
            self.missing = math.nan
            self.scale_of_margins = TARGET
        else:
            self.factor = library.factor
            self.rounds = library.rounds
            self.missing = library.missing
            self.scale_of_margins = library.scale_of_margins
        self._explainer: Any = self._made()
        self._thresholds: list[FloatArray] = []
        self.how = (
            f"shap's TreeExplainer, {'path-dependent' if background is None else 'interventional'}"
        )
        if library is None:
            self.n_columns = int(model.n_features_in_)
        else:
            self.n_columns = library.n_columns
        if library is None:
            held = _numbers_of(self._explainer)
        else:
            held = library.digest.encode()
        self.digest = digest_of_bytes(held + (b"" if background is None else background.tobytes()))
        self._rank_splits()
        leaves = 1 + (np.asarray(self._explainer.model.children_left) >= 0).sum(axis=1)
        self.row_operations = tree_operations(leaves.tolist()) * (
            1 if background is None else len(background)
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_explainer": None}

    def coded(self, given: Categories) -> Categories:
        """Always empty: shap handles no categories."""
        if given:
            raise InputError(
                f"categories are of XGBoost and LightGBM, not of {type(self.model).__name__}: "
                "leave out"
            )
        return {}

    def with_threads(self, n_threads: int) -> Self:
        """A copy whose library computes margins in `n_threads` threads; shap itself uses one."""
        other = copy.copy(self)
        if self.library is None:
            other.library = None
        else:
            other.library = self.library.with_threads(n_threads)
        return other

    def _made(self) -> Any:
        if self.background is None:
            kind = "tree_path_dependent"
        else:
            kind = "interventional"
        return _explainer_of(self.model, self.background, kind, type(self.model).__name__)

    @property
    def explainer(self) -> Any:
        """The shap explainer; built again after unpickling."""
        if self._explainer is None:
            self._explainer = self._made()
            self._rank_splits()
        return self._explainer

    def predict(self, rows: FloatArray) -> Any:
        if self.library is not None:
            return self.library.predict(rows)
        if hasattr(self.model, "decision_function"):
            return self.factor * self.model.decision_function(rows)
        own = own_predictions(self.model, rows)
        if of_estimator(self.model, "loss") in LOG_LOSSES:
            return np.log(own)
        return own

    def own(self, rows: FloatArray, categories: Categories) -> Any:
        if self.library is not None:
            return self.library.own(rows, categories)
        return own_predictions(self.model, rows)

    def contributions(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        explainer = self.explainer
        phi = np.asarray(
            explainer.shap_values(self._ranked(rows), check_additivity=False), dtype=np.float64
        )
        phi = self.factor * phi
        base = self.factor * np.atleast_1d(np.asarray(explainer.expected_value, np.float64))
        if self.background is not None:
            base = (
                np.asarray(self.predict(self.background), dtype=np.float64)
                .reshape(len(self.background), -1)
                .mean(axis=0)
            )
        return phi.reshape(len(rows), self.n_columns, -1), base

    def pairs(self, rows: FloatArray) -> FloatArray:
        return self.factor * _pairs_by(self.explainer, self._ranked(rows))

    def _rank_splits(self) -> None:
        """Replace thresholds and background by their ranks among the thresholds of each column.

        shap compares with thresholds in single precision, so that rows on or near a threshold can
        go the other way than in the model (shap 0.51; shap's issue 5116). Small integers are exact
        in any precision.
        """
        trees = self._explainer.model
        self._thresholds = []
        is_split = np.asarray(trees.children_left) >= 0
        places = np.zeros_like(trees.thresholds)
        for j in range(self.n_columns):
            here = is_split & (np.asarray(trees.features) == j)
            self._thresholds.append(np.unique(trees.thresholds[here]))
            places[here] = np.searchsorted(self._thresholds[-1], trees.thresholds[here])
        trees.thresholds = places
        if self.background is not None:
            self._explainer.data = self._ranked(self.background)
            self._explainer.data_missing = np.isnan(self._explainer.data)

    def _ranked(self, rows: FloatArray) -> FloatArray:
        given = rows.astype(self.explainer.model.input_dtype)
        is_missing = given == given.dtype.type(self.missing)
        seen = np.where(is_missing, np.nan, given.astype(np.float64))
        return _places(seen, self._thresholds)


class Split(NamedTuple):
    """A LightGBM split by a set of codes."""

    tree: int
    node: int
    column: int
    codes: frozenset[int]
    """Codes that go left; all others, and missing values, go right."""


class LightGBMPairs:
    """Interactions of a LightGBM booster, by shap's algorithm on the booster's trees.

    LightGBM itself has none. shap's splits are thresholds. A split by a set of codes becomes one
    that all rows of a group pass the same way: rows that agree in all their codes are computed
    together.
    """

    how = "shap's TreeExplainer, path-dependent"

    def __init__(self, library: Any) -> None:
        self.booster = library.booster
        self.n_columns = library.n_columns
        self.factor = library.factor
        dump = self.booster.dump_model()
        self.n_outputs = int(dump["num_tree_per_iteration"])
        self.trees, self.splits, self.missing = _trees_of(dump)
        self.thresholds = _thresholds_of(self.trees, self.n_columns)
        for tree in self.trees:
            tree["thresholds"] = _node_places(tree, self.thresholds)
        self._explainer: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_explainer": None}

    @property
    def explainer(self) -> Any:
        """The shap explainer; built again after unpickling."""
        if self._explainer is None:
            self._explainer = _explainer_of(
                {"trees": self.trees}, None, "tree_path_dependent", "LightGBM model"
            )
        return self._explainer

    def with_threads(self, n_threads: int) -> Self:
        """Return this object: shap uses one thread."""
        return self

    def pairs(self, rows: FloatArray) -> FloatArray:
        """Half the interaction index (n, columns, columns, k); main effects on the diagonal."""
        found = np.zeros((len(rows), self.n_columns, self.n_columns, self.n_outputs))
        columns = sorted({split.column for split in self.splits})
        codes = np.where(np.isnan(rows[:, columns]), -1, rows[:, columns]).astype(int)
        seen = _places(self._with_missing(rows), self.thresholds)
        seen[:, columns] = 0.0
        groups, group_of = np.unique(codes, axis=0, return_inverse=True)
        for g, group in enumerate(groups if self.trees else ()):
            self._send(dict(zip(columns, group.tolist(), strict=True)))
            chosen = group_of.ravel() == g
            found[chosen] = self.factor * _pairs_by(self.explainer, seen[chosen])
        return found

    def _send(self, codes: Mapping[int, int]) -> None:
        """Set the thresholds of set splits so that rows with 0 there go the way of these codes."""
        for split in self.splits:
            is_left = codes[split.column] in split.codes
            if is_left:
                self.explainer.model.thresholds[split.tree, split.node] = 1.0
            else:
                self.explainer.model.thresholds[split.tree, split.node] = -1.0

    def _with_missing(self, rows: FloatArray) -> FloatArray:
        """Rows with NaN where LightGBM takes the default branch.

        It reads NaN as 0 in columns that had none in the training data.
        """
        filled = np.where(np.isnan(rows), 0.0, rows)
        kinds = np.array([self.missing.get(j, "NaN") for j in range(self.n_columns)])
        is_zero = np.abs(filled) <= 1e-35  # LightGBM's kZeroThreshold
        return np.where(kinds == "NaN", rows, np.where((kinds == "Zero") & is_zero, np.nan, filled))


def _explainer_of(model: Any, background: FloatArray | None, kind: str, called: str) -> Any:
    try:
        import shap
    except ImportError as error:
        raise InputError("these trees need the shap package: pip install 'dshap[trees]'") from error
    try:
        return shap.TreeExplainer(model, background, feature_perturbation=kind, model_output="raw")
    except Exception as error:
        raise InputError(
            f"shap's TreeExplainer does not take this {called} ({error}): use Marginal, or "
            "ConditionalRegression"
        ) from error


def _pairs_by(explainer: Any, rows: FloatArray) -> FloatArray:
    """Interactions (n, columns, columns, k), also where the model has one output."""
    found = np.asarray(explainer.shap_interaction_values(rows), dtype=np.float64)
    return found.reshape(*found.shape[:3], -1)


def _trees_of(dump: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[Split], dict[int, str]]:
    """LightGBM's dumped trees in shap's form, their set splits, and the missing type per column.

    Trees of a single leaf are left out: they have no interaction.
    """
    n_outputs = int(dump["num_tree_per_iteration"])
    infos = [(i % n_outputs, info["tree_structure"]) for i, info in enumerate(dump["tree_info"])]
    trees: list[dict[str, Any]] = []
    splits: list[Split] = []
    missing: dict[int, str] = {}
    for output, root in infos:
        if "split_feature" not in root:
            continue
        nodes = list(_nodes(root))
        for i, (node, _, _) in enumerate(nodes):
            if "split_feature" in node and node["decision_type"] == "==":
                codes = frozenset(map(int, str(node["threshold"]).split("||")))
                splits.append(Split(len(trees), i, node["split_feature"], codes))
            elif "split_feature" in node:
                missing[node["split_feature"]] = node["missing_type"]
        trees.append(_tree_of(nodes, output, n_outputs))
    return trees, splits, missing


def _nodes(root: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], int, int]]:
    """Yield (node, left, right) in breadth-first order; −1 for the children of a leaf."""
    waiting = [root]
    n = 1
    for node in waiting:
        if "split_feature" not in node:
            yield node, -1, -1
            continue
        waiting += [node["left_child"], node["right_child"]]
        yield node, n, n + 1
        n += 2


def _tree_of(
    nodes: Sequence[tuple[Mapping[str, Any], int, int]], output: int, n_outputs: int
) -> dict[str, Any]:
    """One tree as the dictionary that shap reads."""
    values = np.zeros((len(nodes), n_outputs))
    values[:, output] = [node.get("leaf_value", 0.0) for node, _, _ in nodes]
    is_number = [node.get("decision_type") == "<=" for node, _, _ in nodes]
    return {
        "children_left": np.array([left for _, left, _ in nodes]),
        "children_right": np.array([right for _, _, right in nodes]),
        "children_default": np.array(
            [left if node.get("default_left") else right for node, left, right in nodes]
        ),
        "features": np.array([node.get("split_feature", -1) for node, _, _ in nodes]),
        "thresholds": np.array(
            [
                node["threshold"] if known else 0.0
                for (node, _, _), known in zip(nodes, is_number, strict=True)
            ]
        ),
        "is_number": np.array(is_number),
        "values": values,
        "node_sample_weight": np.array(
            [float(node.get("internal_count", node.get("leaf_count", 0))) for node, _, _ in nodes]
        ),
    }


def _thresholds_of(trees: Sequence[Mapping[str, Any]], n_columns: int) -> list[FloatArray]:
    """The sorted distinct thresholds of every column."""
    features = np.concatenate(
        [np.where(tree["is_number"], tree["features"], -1) for tree in trees] or [np.zeros(0)]
    )
    thresholds = np.concatenate([tree["thresholds"] for tree in trees] or [np.zeros(0)])
    return [np.unique(thresholds[features == j]) for j in range(n_columns)]


def _node_places(tree: dict[str, Any], thresholds: Sequence[FloatArray]) -> FloatArray:
    """Thresholds of a tree as ranks among those of their column."""
    is_number = tree.pop("is_number")
    places = np.zeros(len(is_number))
    for i in np.flatnonzero(is_number):
        places[i] = np.searchsorted(thresholds[tree["features"][i]], tree["thresholds"][i])
    return places


def _places(rows: FloatArray, thresholds: Sequence[FloatArray]) -> FloatArray:
    """Rows (n, columns) as ranks: how many thresholds of the column are smaller.

    x ≤ t_k holds where the rank is at most k.
    """
    places = [
        np.searchsorted(held, x).astype(np.float64)
        for held, x in zip(thresholds, rows.T, strict=True)
    ]
    return np.where(np.isnan(rows), np.nan, np.stack(places, axis=1))


def _numbers_of(explainer: Any) -> bytes:
    """The bytes of the trees as shap reads them, for the digest.

    They do not change when a model is stored and read again, unlike its pickle.
    """
    parts = (
        "children_left",
        "children_right",
        "children_default",
        "features",
        "thresholds",
        "values",
        "node_sample_weight",
    )
    return b"".join(
        np.ascontiguousarray(getattr(explainer.model, name)).tobytes() for name in parts
    )


def _factor_of_sklearn(model: Any) -> float:
    """The factor from `decision_function` to margins: 2 for the exponential loss, else 1.

    With that loss it gives half the log-odds.
    """
    if of_estimator(model, "loss") == "exponential":
        return 2.0
    return 1.0


def _with_all_rounds(model: Any) -> Any:
    """A booster of XGBoost as it predicts; other models unchanged.

    shap would take the best rounds of early stopping, which a booster does not do.
    """
    if not has_member(model, "num_boosted_rounds"):
        return model
    copied = model.copy()
    use_all_rounds(copied)
    return copied


def _without_names(model: Any) -> Any:
    """A copy of a scikit-learn model that takes arrays without a warning about names.

    The columns have been put in its order before.
    """
    if type(model).__module__.split(".")[0] != "sklearn" or not hasattr(model, "feature_names_in_"):
        return model
    plain = copy.copy(model)
    del plain.feature_names_in_
    return plain
