"""Small models of every kind that a page computes, with their rows; no tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.loops.codes import NUMBER

N = 60
"""Rows that are explained."""
N_CHANGED = 100
"""Rows whose values are compared."""
NAMES = ["age", "income", "visits", "north", "east"]
TOWNS = ["Köln", 'Ulm "x" </script>', "Bonn"]


@dataclass(frozen=True)
class Case:
    """A value function, the rows that it explains, and other rows to compare."""

    value: Any
    rows: pd.DataFrame
    changed: pd.DataFrame
    options: Mapping[str, Any]


def numbers(n: int, seed: int, names: list[str] = NAMES) -> pd.DataFrame:
    """Random numbers, of which some are far out."""
    rng = np.random.default_rng(seed)
    found = rng.normal(size=(n, len(names)))
    found[:: max(n // 5, 1)] *= 4.0
    return pd.DataFrame(found, columns=names)


def with_towns(n: int, seed: int) -> pd.DataFrame:
    """Numbers with missing values and zeros, a category and a flag."""
    rng = np.random.default_rng(seed)
    found = numbers(n, seed)
    found["age"] = found["age"].round()
    found.loc[::7, "income"] = np.nan
    found["town"] = pd.Categorical(rng.choice(TOWNS, n), categories=TOWNS)
    found["flag"] = rng.random(n) < 0.5
    return found


def _target(rows: pd.DataFrame) -> np.ndarray:
    filled = rows[NAMES].fillna(0.3).to_numpy()
    return filled[:, 0] * filled[:, 1] + np.sin(filled[:, 2]) + filled[:, 3]


def _classes(rows: pd.DataFrame) -> np.ndarray:
    flag = rows["flag"].to_numpy(float) if "flag" in rows else 0.0
    return np.array([0, 1, 2])[np.digitize(_target(rows) + 3.0 * flag, [-0.5, 2.0])]


def _linear(kind: str, **more: Any) -> Case:
    rng = np.random.default_rng(3)
    rows = numbers(N, 0)
    value = dshap.values.LinearGaussian(
        rng.normal(size=(3, 5)),
        [1.0, -2.0, 0.5],
        data=rows,
        kind=kind,
        output_names=["basic", "gold", "silver"],
        **more,
    )
    return Case(value, rows, numbers(N_CHANGED, 1), {})


def _expansion(rows: pd.DataFrame, families: list[str]) -> Any:
    from dshap.kernels.product import ProductKernel
    from dshap.models.expansion import KernelExpansion

    rng = np.random.default_rng(4)
    parameters = np.array([0.3 if family == "categorical" else 1.5 for family in families])
    kernel = ProductKernel(tuple(families), parameters)
    landmarks = rows.to_numpy(np.float64)[:12]
    weights = rng.normal(size=(len(landmarks), 2))
    intercept = np.array([0.5, -1.0])
    names = tuple(rows.columns)
    return KernelExpansion(kernel, landmarks, weights, intercept, names, ("low", "high"))


FAMILIES = ["rbf", "laplacian", "matern32", "matern52", "categorical"]


def _kernel(n_data: int, **more: Any) -> Case:
    """Every family of kernels, in a sum of two models; the last column has few values."""
    every = pd.concat([numbers(max(N, n_data), 0), numbers(N_CHANGED, 1)])
    every["east"] = np.random.default_rng(5).integers(0, 3, len(every)).astype(float)
    rows, changed = every[:N], every[-N_CHANGED:]
    models = [_expansion(rows, FAMILIES), _expansion(rows[::-1], FAMILIES[:2] * 2 + FAMILIES[4:])]
    value = dshap.values.KernelInterventional(models, every[:n_data], tolerance=1e-13, **more)
    return Case(value, rows, changed, {})


def kernel_subsets() -> Case:
    return _kernel(150)


def kernel_rows() -> Case:
    return _kernel(20, players={"place": ["north", "east"]})


def kernel_quadrature() -> Case:
    case = _kernel(150, n_background=30, players={"place": ["north", "east"]})
    return Case(case.value, case.rows, case.changed, {"design": "quadrature"})


def kernel_constant() -> Case:
    """A column that never varies is no player, and the rows that are compared have it too."""
    case = _kernel(20)
    rows, changed, background = (
        each.assign(visits=0.25) for each in (case.rows, case.changed, case.rows[:20])
    )
    model = _expansion(rows, FAMILIES)
    value = dshap.values.KernelInterventional(model, background)
    return Case(value, rows, changed, {})


def linear_observational() -> Case:
    return _linear("observational", players={"place": ["north", "east"]})


def linear_interventional() -> Case:
    return _linear("interventional")


def _trees(model: Any, rows: pd.DataFrame, changed: pd.DataFrame, **more: Any) -> Case:
    value = dshap.values.Trees(model, **more)
    has_gaps = bool(rows.isna().any(axis=None))
    return Case(value, rows, changed, {"missing": "pass"} if has_gaps else {})


def xgboost_classes() -> Case:
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    rows, changed = with_towns(N, 0), with_towns(N_CHANGED, 1)
    options = {"n_estimators": 5, "max_depth": 4, "max_cat_to_onehot": 1, "n_jobs": 1}
    model = xgboost.XGBClassifier(enable_categorical=True, **options)
    model.fit(rows, _classes(rows))
    return beside_thresholds(_trees(model, rows, changed, classes=["basic", "gold", "silver"]))


def beside_thresholds(case: Case) -> Case:
    """Put values above the thresholds of columns, by less than single precision tells apart."""
    model = case.value.model
    columns = model.trees.decisions.columns
    for place, column in enumerate(columns.columns.tolist()):
        is_float = case.changed[model.column_names[column]].dtype.kind == "f"
        if columns.kinds[place] == NUMBER and is_float:
            own = columns.thresholds[columns.starts[place] : columns.starts[place + 1]]
            above = own + 1e-12 * np.abs(own)
            rows = np.arange(place, N_CHANGED, 2 * len(columns.columns))[: len(own)]
            case.changed.loc[rows, model.column_names[column]] = above[: len(rows)]
    return case


def xgboost_missing_number() -> Case:
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    rows = with_towns(N, 0)[NAMES].fillna(-999.1)
    changed = with_towns(N_CHANGED, 1)[NAMES].fillna(-999.1)
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3, missing=-999.1, n_jobs=1)
    return _trees(model.fit(rows, _target(rows)), rows, changed)


def lightgbm_two_classes() -> Case:
    """Rows that are compared have a category that was not in the fit, which counts as missing."""
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    rows, changed = with_towns(N, 0), with_towns(N_CHANGED, 1)
    options = {"n_estimators": 6, "min_child_samples": 3, "verbose": -1, "n_jobs": 1}
    model = lightgbm.LGBMClassifier(min_data_per_group=1, cat_smooth=1, **options)
    labels = np.array(["no", "yes"])[(_target(rows) + (rows["town"] == "Bonn") > 0).astype(int)]
    model.fit(rows, labels)
    rows, changed = (_with_rome(each) for each in (rows, changed))
    return beside_thresholds(_trees(model, rows, changed))


def _with_rome(rows: pd.DataFrame) -> pd.DataFrame:
    towns = rows["town"].astype(str)
    towns[::5] = "Rome"
    return rows.assign(town=pd.Categorical(towns, categories=[*TOWNS, "Rome"]))


def lightgbm_zero_missing() -> Case:
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    rows, changed = numbers(N, 0).round(), numbers(N_CHANGED, 1).round()
    options = {"n_estimators": 6, "min_child_samples": 3, "verbose": -1, "n_jobs": 1}
    model = lightgbm.LGBMRegressor(zero_as_missing=True, **options)
    return _trees(model.fit(rows, _target(rows)), rows, changed)


def forest_of_classes() -> Case:
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    rows, changed = numbers(N, 0), numbers(N_CHANGED, 1)
    model = ensemble.RandomForestClassifier(4, max_depth=5, random_state=0)
    case = _trees(
        model.fit(rows, _classes(rows)), rows, changed, players={"place": ["north", "east"]}
    )
    beside_thresholds(case)
    return Case(case.value.of_classes([2, 0]), rows, changed, {})


def first_of_two_classes() -> Case:
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    rows = with_towns(N, 0)[NAMES]
    changed = with_towns(N_CHANGED, 1)[NAMES]
    model = ensemble.HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=3)
    labels = np.array(["no", "yes"])[(_target(rows) > 0).astype(int)]
    case = _trees(model.fit(rows, labels), rows, changed)
    return Case(case.value.of_classes(["no"]), rows, changed, case.options)


def deep_tree() -> Case:
    """A tree with a path of more than 30 players, which quadrature takes in Python too."""
    tree = pytest.importorskip("sklearn.tree", reason="scikit-learn is not installed")
    names = [f"c{j}" for j in range(40)]
    rows = pd.DataFrame(np.triu(np.ones((40, 40))), columns=names)
    rng = np.random.default_rng(0)
    model = tree.DecisionTreeRegressor(random_state=0).fit(rows, np.arange(40.0) ** 2)
    rows = pd.DataFrame(rng.integers(0, 2, (N, 40)).astype(float), columns=names)
    changed = pd.DataFrame((rng.random((N_CHANGED, 40)) < 0.95).astype(float), columns=names)
    return _trees(model, rows, changed)


def catboost_numbers() -> Case:
    catboost = pytest.importorskip("catboost", reason="catboost is not installed")
    rows, changed = with_towns(N, 0)[NAMES], with_towns(N_CHANGED, 1)[NAMES]
    options = {"iterations": 5, "depth": 3, "verbose": 0, "allow_writing_files": False}
    model = catboost.CatBoostRegressor(thread_count=1, **options)
    return _trees(model.fit(rows, _target(rows)), rows, changed)


CASES: tuple[Callable[[], Case], ...] = (
    linear_observational,
    linear_interventional,
    kernel_subsets,
    kernel_rows,
    kernel_quadrature,
    kernel_constant,
    xgboost_classes,
    xgboost_missing_number,
    lightgbm_two_classes,
    lightgbm_zero_missing,
    forest_of_classes,
    first_of_two_classes,
    deep_tree,
    catboost_numbers,
)
