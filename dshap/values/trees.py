"""Tree ensembles by the exact TreeSHAP of their own libraries: XGBoost, LightGBM, scikit-learn (through shap)."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import numpy as np

from dshap.checks import checked
from dshap.designs import exact
from dshap.errors import InputError
from dshap.types import FULL, BoolArray, Checked, FloatArray, Moments, State
from dshap.values.frames import floats_of
from dshap.values.table_value import (
    TableValue,
    checked_predict,
    classes_of,
    columns_by_name,
    fitted_names_of,
    names_of,
)

__all__ = ["Trees"]

CATEGORIES = (
    "the model was fitted on pandas categories, whose codes {} keeps to itself: fit it on numbers, or use "
    "Marginal(model.predict, background), which gives it data frames"
)
PROBE_ROWS = 64
"""Rows that a library is tried on."""
TOLERANCE = 1e-3
"""Largest |Σφ + base − margin| over the largest margin: float32 sums of a thousand trees stay far below."""
PROBE_PLAYERS, PROBED_MIXES = 8, 8
"""Columns, and rows, whose contributions are compared with all coalitions where there is a background."""
MAX_BACKGROUND = 1_000
"""Rows: every tree is walked once for each pair of a row and one of these."""


class Trees(TableValue):
    """TreeSHAP of a fitted ensemble: a closed form, no coalition is listed.

    Without a background v_S(x) follows the trees: where the column of a split is absent, both branches count by the
    training rows that went there (path-dependent).  With one it is interventional, the values of `Marginal` exactly.

    Parameters
    ----------
    model : xgboost.Booster or its scikit-learn classes; lightgbm.Booster or its classes; scikit-learn trees and forests
        Margins are explained: log-odds of boosted classifiers, the probabilities of forests.
    background : array (b, columns) or data frame, optional
        Up to 1,000 rows.
    feature_names : sequence of str, optional
        Of the columns, where the library changed them (LightGBM turns blanks into "_").
    output_names : sequence of str, optional
        The classes of a classifier where not given.

    Raises
    ------
    InputError
        No tree ensemble; one whose contributions do not add up to its margins; pandas categories, which the library
        keeps to itself; too large a background; or a package that is missing: models of scikit-learn, and backgrounds,
        need the shap package.

    Notes
    -----
    Source: Lundberg et al., From local explanations to global understanding with explainable AI for trees (Nature
    Machine Intelligence 2, 2020).  One thread a task.  XGBoost adds in float32: the additivity residual in the cube
    says how far off.  Groups of columns are no players here: the value of a group is not the sum of its columns'.
    """

    is_closed_form = True
    prefers_closed_form = True
    n_replicates = 0

    def __init__(
        self,
        model: Any,
        background: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        (feature_names,) = checked(feature_names=feature_names)
        own: _Ensemble = _kind_of(model)(model)
        names = names_of(feature_names, own.names or fitted_names_of(model), background)
        if background is not None:
            rows = columns_by_name(background, names) if names and hasattr(background, "columns") else background
            own = _ThroughShap(model, _checked_background(rows, own.n_columns), own)
        self._ensemble = own
        probe = np.random.default_rng(0).normal(size=(PROBE_ROWS, own.n_columns))
        if isinstance(own, _ThroughShap) and own.background is not None:
            probe = np.concatenate([probe, own.background[:PROBE_ROWS]])
        margins = checked_predict(own.predict, probe)
        n_outputs = margins.shape[1]
        _check_sums(own, probe, margins)
        if isinstance(own, _ThroughShap) and own.background is not None:
            _check_values(own)
        super().__init__(
            np.stack([np.full(own.n_columns, -1.0), np.full(own.n_columns, 1.0)]),  # no column of it is constant
            n_columns=own.n_columns,
            n_outputs=n_outputs,
            feature_names=names,
            players=None,
            output_names=output_names if output_names is not None else classes_of(model, n_outputs),
        )

    def closed_form(self) -> Self:
        return self

    def base(self, mean: FloatArray, state: Callable[[], State]) -> FloatArray:
        """What the attributions and the prediction differ by."""
        return state()["base"]

    def predict(self, rows: FloatArray) -> FloatArray:
        """Margins (n, k)."""
        if not len(rows):
            return np.empty((0, self.n_outputs))
        return checked_predict(self._ensemble.predict, rows, self.n_outputs)

    def moments(self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None) -> Moments:
        """Nothing is summed beforehand."""
        return Moments()

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """`base` (k,): the value of no column at all."""
        _, base = self._ensemble.contributions(np.zeros((1, self.n_columns)))
        return State({"base": base})

    def settled(self, state: State, rows: FloatArray, prediction: FloatArray) -> State:
        """Nothing depends on the rows."""
        return state

    def attribute(self, state: State, rows: FloatArray) -> FloatArray:
        """φ (n, d, k)."""
        phi = _check_sums(self._ensemble, rows, self.predict(rows))
        return phi[:, self.players.members.argmax(axis=1)]

    def checked(self, state: State, rows: FloatArray, phi: FloatArray, gap: FloatArray) -> Checked:
        """The gap of float32 sums of many trees, which `attribute` found to be small beside the margins."""
        margins = phi.sum(axis=1) + state["base"] - gap
        scale = np.abs(margins).max(axis=0, initial=0.0) + np.abs(phi).sum(axis=1).max(axis=0, initial=0.0)
        return Checked(TOLERANCE * scale, {"largest_gap": np.abs(gap).max(axis=0, initial=0.0).tolist()})

    def replicates(self, state: State, rows: FloatArray) -> FloatArray:
        """None: (0, n, d, k)."""
        return np.zeros((0, len(rows), self.n_players, self.n_outputs))

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """No coalition is listed: (n, 0, k)."""
        return np.empty((len(rows), 0, self.n_outputs))

    def describe_form(self) -> str:
        return self._ensemble.how

    def stated_error(self, state: State) -> dict[str, Any]:
        """Who computes it."""
        return {"kind": "trees", "by": self._ensemble.how}

    def state_bytes(self, m: int) -> int:
        return 8 * self.n_outputs

    def moment_bytes(self, m: int) -> int:
        return 0

    def prepare_bytes(self, m: int) -> int:
        return self.task_bytes(1, 0)

    def moment_task_bytes(self, n: int, m: int) -> int:
        return 0

    def task_bytes(self, n: int, m: int) -> int:
        """The library's own memory is not known here: contributions are counted three times."""
        return 8 * n * (3 * self.n_columns * self.n_outputs + self.n_columns)

    def moment_operations(self, n: int, m: int) -> float:
        return 0.0

    def operations(self, n: int, m: int) -> float:
        """Not known: the library's."""
        return float("inf")

    def fingerprint(self) -> dict[str, Any]:
        return {"value": "trees", "by": self._ensemble.how, "model": self._ensemble.digest}


class _Ensemble(Protocol):
    """A tree ensemble, met through its library."""

    n_columns: int
    names: tuple[str, ...] | None
    digest: str
    how: str

    def predict(self, rows: FloatArray) -> Any:
        """What the contributions add up to: (n,) or (n, k)."""
        ...

    def contributions(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """φ (n, columns, k) and v(empty) (k,)."""
        ...


class _XGBoost:
    how = "XGBoost's pred_contribs, path-dependent"

    def __init__(self, model: Any) -> None:
        booster = model.get_booster() if hasattr(model, "get_booster") else model
        self.rounds = (0, getattr(model, "best_iteration", -1) + 1) if booster is not model else (0, 0)
        self.booster = booster.copy()
        self.booster.set_param({"nthread": 1})
        self.names = None if booster.feature_names is None else tuple(booster.feature_names)
        self.n_columns = int(booster.num_features())
        self.digest = _digest(bytes(booster.save_raw("json")))
        if "c" in (booster.feature_types or ()):
            raise InputError(CATEGORIES.format("XGBoost"))

    def _asked(self, rows: FloatArray, **what: bool) -> FloatArray:
        import xgboost

        matrix = xgboost.DMatrix(rows, feature_names=None if self.names is None else list(self.names), nthread=1)
        return np.asarray(self.booster.predict(matrix, iteration_range=self.rounds, **what), dtype=np.float64)

    def predict(self, rows: FloatArray) -> FloatArray:
        return self._asked(rows, output_margin=True)

    def contributions(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        found = self._asked(rows, pred_contribs=True)
        return _split(found.reshape(len(rows), -1, self.n_columns + 1))


class _LightGBM:
    how = "LightGBM's pred_contrib, path-dependent"

    def __init__(self, model: Any) -> None:
        self.booster = getattr(model, "booster_", model)
        names = tuple(self.booster.feature_name())
        self.n_columns = len(names)
        self.names = None if all(name == f"Column_{j}" for j, name in enumerate(names)) else names
        self.digest = _digest(self.booster.model_to_string().encode())
        if any(getattr(self.booster, "pandas_categorical", None) or ()):
            raise InputError(CATEGORIES.format("LightGBM"))

    def predict(self, rows: FloatArray) -> FloatArray:
        return np.asarray(self.booster.predict(rows, raw_score=True, num_threads=1), dtype=np.float64)

    def contributions(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        found = np.asarray(self.booster.predict(rows, pred_contrib=True, num_threads=1), dtype=np.float64)
        return _split(found.reshape(len(rows), -1, self.n_columns + 1))


class _ThroughShap:
    """scikit-learn's trees, and any with a background."""

    def __init__(self, model: Any, background: FloatArray | None = None, library: _Ensemble | None = None) -> None:
        if library is None and np.any(getattr(model, "is_categorical_", False)):
            raise InputError(
                "shap does not know the categorical splits of this model: use Marginal(predict, background)"
            )
        self.names = fitted_names_of(model) if library is None else library.names
        self.model, self.background, self.library = _without_names(model), background, library
        self._explainer: Any = None
        self._thresholds: list[FloatArray] = []
        self.how = f"shap's TreeExplainer, {'path-dependent' if background is None else 'interventional'}"
        self.n_columns = int(model.n_features_in_) if library is None else library.n_columns
        held = _numbers_of(self._made()) if library is None else library.digest.encode()
        self.digest = _digest(held + (b"" if background is None else background.tobytes()))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_explainer": None}

    def _made(self) -> Any:
        """The explainer, made where it is used."""
        if self._explainer is None:
            try:
                import shap
            except ImportError as error:
                raise InputError("these trees need the shap package: pip install 'dshap[trees]'") from error
            kind = "tree_path_dependent" if self.background is None else "interventional"
            try:
                self._explainer = shap.TreeExplainer(
                    self.model, self.background, feature_perturbation=kind, model_output="raw"
                )
            except Exception as error:
                raise InputError(
                    f"shap's TreeExplainer does not take this {type(self.model).__name__} ({error}): use Marginal, or "
                    "ConditionalRegression"
                ) from error
            if self.background is not None:
                self._rank_splits()
        return self._explainer

    def predict(self, rows: FloatArray) -> Any:
        if self.library is not None and not isinstance(self.library, _ThroughShap):
            return self.library.predict(rows)
        if hasattr(self.model, "decision_function"):
            return self.model.decision_function(rows)
        return (self.model.predict_proba if hasattr(self.model, "predict_proba") else self.model.predict)(rows)

    def contributions(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        explainer = self._made()
        seen = rows if self.background is None else self._ranked(rows)
        phi = np.asarray(explainer.shap_values(seen, check_additivity=False), dtype=np.float64)
        base = np.atleast_1d(np.asarray(explainer.expected_value, dtype=np.float64))
        if self.background is not None:
            base = (
                np.asarray(self.predict(self.background), dtype=np.float64)
                .reshape(len(self.background), -1)
                .mean(axis=0)
            )
        return phi.reshape(len(rows), self.n_columns, -1), base

    def _rank_splits(self) -> None:
        """Thresholds of the explainer, and its background, as positions among the thresholds of their column.

        shap compares with thresholds in single precision where there is a background, so that rows on a threshold, or
        near one, go the other way than in the model (shap 0.51; shap's issue 5116): small integers are exact in any.
        """
        assert self.background is not None
        trees, self._thresholds = self._explainer.model, []
        is_split = np.asarray(trees.children_left) >= 0
        places = np.zeros_like(trees.thresholds)
        for j in range(self.n_columns):
            own = is_split & (np.asarray(trees.features) == j)
            self._thresholds.append(np.unique(trees.thresholds[own]))
            places[own] = np.searchsorted(self._thresholds[-1], trees.thresholds[own])
        trees.thresholds = places
        self._explainer.data = self._ranked(self.background)
        self._explainer.data_missing = np.isnan(self._explainer.data)

    def _ranked(self, rows: FloatArray) -> FloatArray:
        """Rows (n, columns) as how many thresholds of the column lie below: x ≤ t_k where that is at most k."""
        seen = rows.astype(self._explainer.model.input_dtype).astype(np.float64)
        places = (np.searchsorted(own, column) for own, column in zip(self._thresholds, seen.T, strict=True))
        return np.where(np.isnan(seen), np.nan, np.stack([own.astype(np.float64) for own in places], axis=1))


def _numbers_of(explainer: Any) -> bytes:
    """The trees as shap reads them: the same after a model was stored and read again, as its pickle is not."""
    parts = ("children_left", "children_right", "children_default", "features", "thresholds", "values",
             "node_sample_weight")  # fmt: skip
    return b"".join(np.ascontiguousarray(getattr(explainer.model, name)).tobytes() for name in parts)


def _check_sums(ensemble: _Ensemble, rows: FloatArray, margins: FloatArray) -> FloatArray:
    """φ (n, columns, k), or an InputError where they do not add up to the margins (n, k)."""
    phi, base = ensemble.contributions(rows)
    off = np.nan if phi.shape[2] != margins.shape[1] else np.abs(phi.sum(axis=1) + base - margins).max(initial=0.0)
    scale = np.abs(margins).max(initial=0.0) + np.abs(phi).sum(axis=1).max(initial=0.0)
    if not off <= TOLERANCE * scale:
        raise InputError(
            f"contributions by {ensemble.how} miss the model's margins by {off:.3g} (they reach {scale:.3g}): they "
            "are not those of this model; use Marginal(predict, background)"
        )
    return phi


def _check_values(ensemble: _ThroughShap) -> None:
    """An InputError where contributions of a few mixes of rows of the background are not what predictions of all
    their coalitions give: sums that are right say nothing of the parts.

    With one row b as the background, rows that differ from it in a few columns have players in these alone.
    """
    assert ensemble.background is not None
    rng, rows = np.random.default_rng(0), ensemble.background
    d = min(PROBE_PLAYERS, ensemble.n_columns)
    design = exact(d)
    chosen = [rng.permutation(ensemble.n_columns)[:d] for _ in range(PROBED_MIXES)]
    mixes = np.repeat(rows[:1], PROBED_MIXES * design.n_coalitions, axis=0)
    mixes = mixes.reshape(PROBED_MIXES, design.n_coalitions, ensemble.n_columns)
    for j, columns in enumerate(chosen):
        other = rows[(1 + j) % len(rows), columns]
        mixes[j][:, columns] = np.where(design.masks, other, rows[0, columns])
    margins = checked_predict(ensemble.predict, mixes.reshape(-1, ensemble.n_columns))
    wanted = np.einsum("sd,jsk->jdk", design.operator, margins.reshape(*mixes.shape[:2], -1))
    library = _ThroughShap(ensemble.model, rows[:1], ensemble.library)
    found, _ = library.contributions(mixes[:, FULL])
    found = np.stack([own[columns] for own, columns in zip(found, chosen, strict=True)])
    off, scale = np.abs(found - wanted).max(), np.abs(margins).max() + np.abs(wanted).sum(axis=1).max()
    if not off <= TOLERANCE * scale:
        raise InputError(
            f"contributions by {ensemble.how} miss those of all coalitions by {off:.3g} (margins reach "
            f"{np.abs(margins).max():.3g}): use Marginal(predict, background)"
        )


def _without_names(model: Any) -> Any:
    """A copy that takes arrays without a warning: columns were put in its order by their names before."""
    if type(model).__module__.split(".")[0] != "sklearn" or not hasattr(model, "feature_names_in_"):
        return model
    plain = copy.copy(model)
    del plain.feature_names_in_
    return plain


def _split(found: FloatArray) -> tuple[FloatArray, FloatArray]:
    """φ (n, columns, k) and v(empty) (k,) of contributions (n, k, columns + 1)."""
    return np.ascontiguousarray(found[:, :, :-1].transpose(0, 2, 1)), found[0, :, -1].copy()


def _kind_of(model: Any) -> Any:
    """The class that meets this model."""
    package = type(model).__module__.split(".")[0]
    if package == "xgboost":
        return _XGBoost
    if package == "lightgbm":
        return _LightGBM
    if package == "sklearn" and (
        hasattr(model, "tree_") or hasattr(model, "estimators_") or hasattr(model, "_predictors")
    ):
        return _ThroughShap
    raise InputError(
        f"{type(model).__name__} is no fitted tree ensemble of XGBoost, LightGBM or scikit-learn: fit it first, or use "
        "Marginal(model.predict, background), which takes any model"
    )


def _checked_background(given: Any, n_columns: int) -> FloatArray:
    rows = floats_of(given, "background")
    if rows.ndim != 2 or not 0 < len(rows) <= MAX_BACKGROUND or rows.shape[1] != n_columns:
        raise InputError(
            f"background has shape {rows.shape}: give 1 to {MAX_BACKGROUND:,} rows of {n_columns} columns, such as "
            "those of dshap.choose_background"
        )
    return rows


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
