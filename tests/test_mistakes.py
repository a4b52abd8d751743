"""Mistakes: every option of every public function gets arguments of wrong kinds, and says so in one
line.

The sweep is generated from the signatures: a new option without a kind, or a new function without a
place, fails the first test.  An argument of `WRONG` is a mistake in every place that takes such an
option.
"""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import dshap
from dshap import designs, kernels, models, values
from dshap.cli import cli
from dshap.core.errors import DshapError, InputError, unknown_name
from dshap.core.options import RunOptions
from dshap.cube import create_store
from dshap.kernels import (
    RBF,
    Categorical,
    Fourier,
    Laplacian,
    Matern,
    Nystrom,
    Product,
    ProductKernel,
)
from dshap.models import (
    FourierExpansion,
    KernelExpansion,
    KernelLogistic,
    KernelRidge,
    ShapleyPenalty,
)
from tests.jobs.job_files import JOB, changed, small_table, write_job

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
NO_ROWS = X[:0]
Y = X[:, 0] * X[:, 1] + X[:, 2]
NAMES = ["a", "b", "c"]
FRAME = pd.DataFrame(X, columns=NAMES)
COVARIANCE = np.cov(X, rowvar=False)


def predict(rows: Any) -> np.ndarray:
    rows = np.asarray(rows, dtype=float)
    return rows[:, 0] * rows[:, 1] + rows[:, 2]


def probabilities(rows: Any) -> np.ndarray:
    p = 1.0 / (1.0 + np.exp(-predict(rows)))
    return np.column_stack([1.0 - p, p])


def fails(rows: Any) -> np.ndarray:
    raise KeyError("weights")


RIDGE = KernelRidge(RBF(1.0), Nystrom(8), 1e-3).fit(X, Y)
EXPANSION = RIDGE.expansion_
MARGINAL = values.Marginal(predict, X[:5])
EXPLAINED = dshap.explain(MARGINAL, X[:6], progress=False)
LINEAR = LinearRegression().fit(X, Y)
TREE = DecisionTreeRegressor(max_depth=2).fit(X, Y)
CLASS, OBJECT, CUBE, RAGGED = RBF, object(), np.zeros((2, 2, 2)), [[1.0], [1.0, 2.0]]
WITH_NAN = np.where(np.eye(40, 3, dtype=bool), np.nan, X)
TEXT = np.full((5, 3), "a")

WRONG: dict[str, list[Any]] = {
    "whole": ["many", 1.5, -1, True, [1, 2], np.nan, {"a": 1}, X, OBJECT],
    "optional whole": ["many", 1.5, -1, [1, 2], np.nan, X, OBJECT],
    "number": ["much", -1.0, None, [1.0, 2.0], np.nan, np.inf, {"a": 1.0}, X, OBJECT, True],
    "part": ["much", -1.0, 2.0, None, [0.1, 0.2], np.nan, {"a": 1.0}, X, OBJECT],
    "chance": ["much", -1.0, 0, 1.0, [0.1, 0.2], np.nan, {"a": 1.0}, X, OBJECT],
    "scale": ["mean", -1.0, 0, None, [], [1.0, -1.0, 1.0], [1.0, 2.0], np.nan, {"z": 1.0}, X, OBJECT, CLASS, True],
    "penalty": ["auto", -1.0, None, np.logspace(-3, 0, 4), np.nan, np.inf, {"a": 1.0}, X, OBJECT, True],
    "flag": ["yes", 2, None, [], OBJECT, X],
    "optional flag": ["yes", 2, [], OBJECT, X],
    "word": ["nosuch", 3, None, ["a", "b"], OBJECT, X, CLASS],
    "names": ["a", 3, {"a": 1}, OBJECT, X, ["a"], [None, 1.5, 2.5], [["a"], ["b"], ["c"]], True],
    "outputs": ["a", 3, {"a": 1}, OBJECT, X, ["a", "b", "c", "d"], [1.5], True],
    "categories": ["a", 3, ["a"], OBJECT, X, {"a": "xy"}, {"a": 3}, {"a": []}, {"a": ["x", "x"]}, {"a": [None]},
                   {"z": [1]}, {"x0": ["x", 1]}, True],
    "players": ["a", 3, ["a"], OBJECT, {"p": ["z"]}, {"p": 3}, {"p": []}, {"p": None}, {"p": [9]}, {"p": [1.5]}],
    "table": [None, 3, "no/such.parquet", OBJECT, [], np.zeros(3), CUBE, NO_ROWS, X[:, :2], TEXT, RAGGED, {}, predict,
              FRAME[["a", "b"]], CLASS, True],
    "any table": [3, "no/such.parquet", OBJECT, [], np.zeros(3), CUBE, NO_ROWS, TEXT, RAGGED, {}, predict, CLASS, True],
    "table or number": [0, -1, 2.5, True, "no/such.parquet", OBJECT, [], np.zeros(3), CUBE, NO_ROWS, TEXT, RAGGED, {}],
    "numbers": ["text", CUBE, np.array([np.nan, 1.0, 1.0]), RAGGED, OBJECT, TEXT, {}, CLASS],
    "model": [None, 3, "model", OBJECT, [], KernelRidge(), LinearRegression(), X, CLASS],
    "predict": [None, 3, "model", OBJECT, [], fails, lambda rows: "cat", lambda rows: np.zeros(2), CLASS, X],
    "kernel": ["rbf", 3, OBJECT, X, [RBF()], RBF, {"a": RBF()}, True, Product([RBF(1.0)])],
    "kernels": ["rbf", 3, None, OBJECT, X, RBF(), [], [RBF(1.0)], [RBF], {"a": RBF()}, [1.0, 2.0, 3.0]],
    "embedding": ["nystrom", 3, OBJECT, X, [Nystrom(3)], Nystrom, RBF(), True],
    "value": [None, 3, "value", OBJECT, X, predict, RIDGE, values.Marginal],
    "codes": ["a", 3, ["a"], OBJECT, X, {"c": []}, {"c": "x0"}, {"c": None}, {"c": ["x0"], "d": ["x0"]}],
    "explained": [None, 3, "value", OBJECT, X, values.Marginal],  # a model or a function is none
    "design": ["nosuch", 3, None, OBJECT, designs.exact, ["exact"], designs.exact(7), designs.KernelShapDesign,
               designs.local(order=1)],
    "link": ["nosuch", 3, OBJECT, X, values.Logit],
    "stated scale": ["nosuch", OBJECT, X],
    "of": ["nosuch", OBJECT, X],
    "weights": ["a", 3, OBJECT, X, [1.0], -np.ones(40), np.full(40, np.nan), np.zeros(40)],
    "store": [3, OBJECT, ["a"], X, "ftp://host/cube", "s3://me:x@bucket/cube"],
    "folder": [None, 3, OBJECT, ["a"], X, "no/such/folder"],
    "client": [3, OBJECT, "no such host", ["tcp://127.0.0.1:1"], X, CLASS],
    "key": [3, OBJECT, "z", ["z"], {"id": [1, 2]}, {"id": np.zeros(40)}, X],
    "target": ["z", 3, OBJECT, np.zeros(7), CUBE, ["z"], np.full(40, "a")],
    "features": ["a", 3, {"a": 1}, OBJECT, ["z"], [None], X, []],
    "positive list": [3, "a", OBJECT, [0], [1.5], ["many"], X],
    "progress": ["yes", 3, OBJECT, X],
    "bytes": ["much", -1, OBJECT, [1], X],
    "text": [3, None, OBJECT, X],
    "optional text": [3, OBJECT, X],
    "graph": [None, 3, "chain", OBJECT, [], {}, X, CUBE, np.zeros(3), np.triu(np.ones((3, 3))), RAGGED, CLASS],
    "vocabulary": [0, -1, 1.5, OBJECT, "ab", [], ["a", "a"], {}, {"a": -1}, {"a": 1, "b": 1}],
    "token": ["nosuch", -1, 9, 1.5, OBJECT, [1], X],
    "texts": ["a", 3, OBJECT, [], [[]], [[99]], [["a"]], ["a"], [[0]], X, CUBE, {}],
    "tokenizer": ["split", 3, OBJECT, X],
    "column": [3, OBJECT, X, ["a"]],
    "dictionary": [3, "a", OBJECT, X, ["a"], {"z": {}}, {"x0": 3}, {"x0": {"labl": "x"}}, {"x0": {"label": 3}},
                   {"x0": {"format": "€"}}, {"x0": {"direction": "up"}}, {"x0": {"order": "ab"}},
                   {"x0": {"values": ["a"]}}, CLASS, True],
    "card": [3, "a", OBJECT, X, ["a"], {"purpos": "x"}, {"purpose": {"a": 1}}, {"purpose": OBJECT}, CLASS, True],
    "segments": ["a", 3, OBJECT, X, np.zeros((2, 3)), RAGGED, np.zeros((3, 2), int)],
    "positive number": ["much", -1.0, 0.0, None, [1.0, 2.0], np.nan, OBJECT],
    "player": [None, 1.5, OBJECT, [], "z", 9, ["x0", "x0"], {}, X, CLASS, [None]],
    "strengths": [None, 3, "a", OBJECT, [], [-1.0], [np.nan], ["a"], CLASS],
    "shapley": ["x0", 1.0, OBJECT, X, {}, [0], CLASS],
    "numeric table": [None, 3, OBJECT, [], np.zeros(3), CUBE, X[:, :2], TEXT, RAGGED, {}, predict, CLASS, True,
                      np.full((2, 3), np.nan)],
    "amplification": [0.5, "much", OBJECT, np.nan, [1.0, 2.0], X],
    "images": ["a", 3, OBJECT, X, None, [], [np.zeros((2, 2)), np.zeros((2, 3))], [RAGGED], TEXT[None], {}],
}  # fmt: skip
"""kind of option -> arguments that are a mistake wherever such an option is taken."""

KIND = {
    "d": "whole", "n_coalitions": "whole", "n_permutations": "whole", "n_players": "whole", "seed": "whole",
    "n_replicates": "whole", "max_replicates": "whole", "buffer_rows": "whole", "n_background": "whole",
    "n_samples": "whole", "max_iter": "whole", "sample_size": "whole", "n_landmarks": "whole", "n_features": "whole",
    "max_coalitions": "optional whole", "instance_tile": "optional whole", "coalition_tile": "optional whole",
    "coalition_groups": "optional whole", "micro_rows": "optional whole", "row_span": "optional whole",
    "ridge": "number", "tolerance": "number", "variation": "number", "clip": "number", "rank_tolerance": "part",
    "enough": "penalty",
    "holdout": "part", "rho": "part", "lengthscale": "scale", "penalty": "penalty",
    "sampling": "word", "selection": "word", "unseen": "word", "method": "word", "missing": "word", "kind": "word",
    "precision": "word", "output_scale": "word", "dtype": "word", "nu": "word",
    "paired": "flag", "antithetic": "flag", "orthogonal": "flag", "standardize": "flag", "centred": "flag",
    "with_interventional": "flag", "keep_rows": "flag", "interactions": "flag", "compute": "flag", "index": "flag",
    "stochastic": "flag", "wait": "number", "scratch": "optional text", "arrays": "optional flag",
    "feature_names": "names", "classes": "outputs", "output_names": "outputs", "players": "players",
    "features": "features",
    "data": "table", "background": "table", "rows": "table", "masker": "table", "quality": "table", "sample": "table",
    "landmarks": "numbers", "weights": "numbers", "intercept": "numbers", "frequencies": "numbers",
    "phases": "numbers", "mean": "numbers", "covariance": "numbers", "coef": "numbers", "parameters": "numbers",
    "gram": "numbers", "cross": "numbers",
    "model": "model", "estimator": "model", "predict": "predict", "kernel": "kernel", "kernels": "kernels",
    "embedding": "embedding", "value": "value", "design": "design", "link": "link", "of": "of", "store": "store",
    "scale": "stated scale", "codes": "codes", "undo_codes": "optional flag", "what_if": "flag",
    "client": "client", "key": "key", "target": "target", "progress": "progress", "memory_limit": "bytes",
    "units": "text", "families": "word", "given": "embedding", "decay": "penalty", "shells": "whole",
    "sparse": "word", "tol": "number", "graph": "graph", "order": "optional whole", "outside": "word",
    "coefficients": "word", "height": "whole", "width": "whole", "channels": "whole", "patch": "whole",
    "delta": "positive number", "n_pairs": "whole", "player": "player", "strength": "number",
    "strengths": "strengths", "shapley": "shapley", "others": "numeric table", "amplification": "amplification",
    "segments": "segments", "images": "images", "vocabulary": "vocabulary", "padding": "token", "reference": "token",
    "longest": "optional whole", "tokenizer": "tokenizer", "column": "column", "old": "folder", "new": "folder",
    "explain": "word", "old_run": "word", "new_run": "word", "output": "column",
    "columns": "dictionary", "card": "card", "n_rows": "whole",
    "cube": "folder", "shape": "word", "k": "whole",
    "absent": "word", "max_rows": "optional whole", "sample_of": "optional whole",
}  # fmt: skip
"""option -> its kind; `Place.kinds` says where it is another."""

DERIVED = {"position", "categories", "budgets", "findings", "is_efficient", "why_no_errors",
           "fingerprint", "transform", "options", "expansions", "names", "members"}  # fmt: skip
"""Parameters that the library fills in itself, and records of its own."""


class Place(NamedTuple):
    """A public callable with arguments that are right."""

    make: Callable[..., Any]
    good: dict[str, Any]
    use: Callable[[Any], Any] = lambda made: made
    """What shows mistakes that the call itself cannot see."""
    kinds: Mapping[str, str] = MappingProxyType({})
    """Where an option is of another kind than elsewhere."""


def fitted(kernel: Any = None, embedding: Any = None) -> Any:
    return KernelRidge(kernel or RBF(1.0), embedding or Nystrom(5), 1e-3).fit(X, Y)


def explained(value: Any) -> Any:
    return dshap.explain(value, X[:6])


def explained_texts(value: Any) -> Any:
    return dshap.explain(value, [[1, 2], [3, 4, 5]])


PENALISED = KernelRidge(RBF(1.0), Nystrom(5), shapley=ShapleyPenalty(0, 1.0))
EMBEDDED = {"embedding": Nystrom(5), "penalty": 1e-3, "kernel": RBF(1.0)}
LANDMARKS = {"landmarks": X[:4], "weights": np.ones((4, 1)), "intercept": np.zeros(1)}

PLACES = {
    "dshap.Explainer": Place(dshap.Explainer, {"model": predict, "masker": X[:5]}, lambda made: made.value,
                             {"model": "predict", "link": "link"}),
    "dshap.choose_background": Place(dshap.choose_background, {"rows": X, "n_background": 5},
                                     kinds={"rows": "any table"}),
    "dshap.diff": Place(dshap.diff, {"old": EXPLAINED, "new": EXPLAINED}, kinds={"n_rows": "whole"}),
    "dshap.mmd_drift": Place(dshap.mmd_drift, {"old": X, "new": X[:20], "n_permutations": 9},
                             kinds={"old": "any table", "new": "any table", "n_rows": "whole"}),
    "dshap.explain": Place(dshap.explain, {"value": MARGINAL, "rows": X[:6]},
                           kinds={"tol": "chance", "quality": "any table", "value": "explained",
                                  "keep_rows": "optional flag"}),
    "dshap.fit": Place(dshap.fit, {"model": KernelRidge(RBF(1.0), Nystrom(5)), "rows": X, "target": Y},
                       kinds={"rows": "any table"}),
    "dshap.fit_path": Place(dshap.fit_path, {"model": PENALISED, "rows": X, "target": Y, "strengths": [0.0, 1.0]},
                            kinds={"rows": "any table"}),
    "dshap.image_players": Place(dshap.image_players, {"height": 2, "width": 3, "patch": 1},
                                 kinds={"segments": "segments"}),
    "dshap.image_rows": Place(dshap.image_rows, {"images": np.zeros((2, 3, 3))}, kinds={"images": "images"}),
    "dshap.mse_v": Place(dshap.mse_v, {"value": values.ConditionalRegression(predict, X, **EMBEDDED), "rows": X},
                         kinds={"tol": "chance"}),
    "dshap.open_cube": Place(dshap.open_cube, {"store": "no/such"}, kinds={"store": "folder"}),
    "dshap.open_prepared": Place(dshap.open_prepared, {"store": "no/such", "value": MARGINAL},
                                 kinds={"store": "folder"}),
    "dshap.prepare": Place(dshap.prepare, {"value": MARGINAL, "rows": X, "store": "unused"},
                           kinds={"tol": "chance", "rows": "any table"}),
    "designs.exact": Place(designs.exact, {"d": 3}),
    "designs.kernelshap": Place(designs.kernelshap, {"d": 6, "n_coalitions": 30}),
    "designs.kriging": Place(designs.kriging, {"d": 6, "n_coalitions": 30}),
    "designs.permutation": Place(designs.permutation, {"d": 6, "n_permutations": 4}),
    "designs.chain": Place(designs.chain, {"d": 3}),
    "designs.grid": Place(designs.grid, {"height": 2, "width": 3}),
    "designs.graph_of": Place(designs.graph_of, {"given": np.zeros((3, 3))}, kinds={"given": "graph"}),
    "designs.local": Place(designs.local, {"graph": designs.chain(5), "order": 1}),
    "designs.connected": Place(designs.connected, {"graph": designs.chain(5), "order": 1}),
    "designs.connected_regression": Place(designs.connected_regression, {"graph": designs.chain(5), "order": 1},
                                          kinds={"weights": "word"}),
    "designs.myerson": Place(designs.myerson, {"graph": designs.chain(5)}),
    "kernels.RBF": Place(RBF, {}, lambda made: made.bind(3, X)),
    "kernels.Laplacian": Place(Laplacian, {}, lambda made: made.bind(3, X)),
    "kernels.Matern": Place(Matern, {}, lambda made: made.bind(3, X)),
    "kernels.Categorical": Place(Categorical, {}, lambda made: made.bind(3, X)),
    "kernels.Product": Place(Product, {"kernels": [RBF(), RBF(), RBF()]}, lambda made: made.bind(3, X)),
    "kernels.ProductKernel": Place(ProductKernel, {"families": ("rbf",) * 3, "parameters": np.ones(3)}),
    "kernels.Nystrom": Place(Nystrom, {"n_landmarks": 5}, lambda made: fitted(embedding=made)),
    "kernels.Fourier": Place(Fourier, {"n_features": 6}, lambda made: fitted(embedding=made)),
    "models.KernelRidge": Place(KernelRidge, {"kernel": RBF(1.0), "embedding": Nystrom(5)},
                                lambda made: made.fit(X, Y)),
    "models.KernelLogistic": Place(KernelLogistic, {"kernel": RBF(1.0), "embedding": Nystrom(5)},
                                   lambda made: made.fit(X, Y > 0)),
    "models.ShapleyPenalty": Place(ShapleyPenalty, {"player": 1, "strength": 1.0, "value": "observational"},
                                   lambda made: made and KernelRidge(RBF(1.0), Nystrom(5), shapley=made).fit(X, Y),
                                   {"value": "word", "n_coalitions": "optional whole"}),
    "models.attribution_bound": Place(models.attribution_bound, {"model": RIDGE, "rows": X, "others": X + 0.1},
                                      kinds={"amplification": "amplification"}),
    "models.conditional_amplification": Place(
        models.conditional_amplification,
        {"model": RIDGE, "data": X, "penalty": ShapleyPenalty(0, 0.0, "observational")},
        kinds={"data": "numeric table", "penalty": "shapley"}),
    "models.mean_squared_attribution": Place(models.mean_squared_attribution,
                                             {"model": RIDGE, "rows": X, "data": X, "penalty": ShapleyPenalty(0, 0.0)},
                                             kinds={"rows": "numeric table", "data": "numeric table",
                                                    "penalty": "shapley"}),
    "models.rkhs_norm": Place(models.rkhs_norm, {"model": RIDGE}),
    "models.robustness": Place(models.robustness, {"model": RIDGE, "rows": X, "data": X, "delta": 0.1, "n_pairs": 4,
                                                   "penalty": ShapleyPenalty(0, 0.0)},
                               kinds={"rows": "numeric table", "data": "numeric table", "penalty": "shapley"}),
    "models.KernelExpansion": Place(KernelExpansion, {"kernel": RBF(1.0), **LANDMARKS}),
    "models.FourierExpansion": Place(FourierExpansion, {"frequencies": X[:4], "phases": np.zeros(4),
                                                        "weights": np.ones((4, 1)), "intercept": np.zeros(1)}),
    "models.from_sklearn": Place(models.from_sklearn, {"estimator": LINEAR}),
    "models.from_gpytorch": Place(models.from_gpytorch, {"model": None}),
    "values.Marginal": Place(values.Marginal, {"predict": predict, "background": X[:5]}, explained,
                             {"weights": "weights"}),
    "values.Gaussian": Place(values.Gaussian, {"predict": predict, "data": X}, explained),
    "values.Copula": Place(values.Copula, {"predict": predict, "data": X}, explained),
    "values.ConditionalRegression": Place(values.ConditionalRegression, {"predict": predict, "data": X, **EMBEDDED},
                                          explained),
    "values.KernelInterventional": Place(values.KernelInterventional, {"model": RIDGE, "background": X}, explained),
    "values.KernelObservational": Place(values.KernelObservational, {"model": RIDGE, "data": X, **EMBEDDED}, explained),
    "values.LinearGaussian": Place(values.LinearGaussian,
                                   {"coef": np.ones(3), "mean": np.zeros(3), "covariance": COVARIANCE},
                                   explained, {"data": "any table"}),
    "values.Tokens": Place(values.Tokens, {"predict": lambda ids: ids.sum(axis=1), "vocabulary": 9}, explained_texts,
                           {"background": "texts"}),
    "values.Trees": Place(values.Trees, {"model": TREE}, explained,
                          {"background": "table or number", "categories": "categories"}),
    "dshap.to_frame": Place(dshap.to_frame, {"cube": EXPLAINED, "shape": "top_k"}, kinds={"rows": "any table"}),
    "dshap.to_shap": Place(dshap.to_shap, {"cube": EXPLAINED}, kinds={"rows": "any table"}),
    "dshap.linear_transform": Place(dshap.linear_transform, {"mean": np.zeros(3), "covariance": COVARIANCE}),
    "values.Logit": Place(values.Logit, {}),
    "values.ExpectedLogProbability": Place(values.ExpectedLogProbability, {}),
    "values.LogOdds": Place(values.LogOdds, {}, lambda link: values.Marginal(probabilities, X[:5], link=link)),
    "values.LogProbability": Place(values.LogProbability, {},
                                   lambda link: values.Marginal(probabilities, X[:5], link=link)),
}  # fmt: skip

RECORDS = {
    "dshap.Attributor", "dshap.Design", "dshap.ValueFunction",
    "designs.ExactDesign", "designs.KernelShapDesign", "designs.KrigingDesign",
    "designs.PermutationDesign", "designs.restored_design", "designs.Graph", "designs.LocalDesign",
    "designs.ConnectedDesign", "designs.ConnectedRegressionDesign", "designs.MyersonDesign",
    "kernels.Basis", "kernels.Embedding", "kernels.FourierBasis", "kernels.FourierFeatures", "kernels.Kernel",
    "kernels.Expressed", "kernels.ExpressedLandmarks",
    "kernels.KeptLandmarks", "kernels.NystromBasis", "kernels.SubsetFeatures", "kernels.bound_kernel",
    "kernels.checked_embedding", "kernels.checked_kernel", "kernels.median_lengthscale", "kernels.pivoted_cholesky",
    "kernels.ridge_solve",
    "models.Convergence", "models.ExpansionSum", "models.FitReport", "models.KernelModel", "models.LogisticStep",
    "models.PlayerReport", "models.Robustness", "models.TunedRidge",
    "values.Background", "values.LinearTransform", "values.Players", "values.SubsetTable",
}  # fmt: skip
"""What the library makes itself: records, protocols and numerics on arrays of its own."""


def public() -> Iterator[tuple[str, Any]]:
    """Name and callable of everything that is public, errors apart."""
    for module in (dshap, designs, kernels, models, values):
        for name in module.__all__:
            member = getattr(module, name)
            is_error = inspect.isclass(member) and issubclass(member, Exception)
            if callable(member) and not is_error:
                yield f"{module.__name__.removeprefix('dshap.')}.{name}", member


def parameters(place: Place) -> list[str]:
    """Options of a place, those of the run where it takes ``**options``."""
    given = inspect.signature(place.make).parameters
    names = [name for name, own in given.items() if own.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [own.name for own in fields(RunOptions)] if len(names) < len(given) else []
    return [*names, *(name for name in options if name not in names)]


def mistakes(where: str, option: str) -> list[Any]:
    """The arguments that are a mistake for an option of a place."""
    place = PLACES[where]
    wrong = WRONG.get(place.kinds.get(option, KIND.get(option, "")), [])
    if (where, option) == ("dshap.explain", "rows"):
        return [each for each in wrong if each is not NO_ROWS]  # nothing to do, which is no mistake
    return wrong


OPTIONS = {
    where: options
    for where, place in PLACES.items()
    if (options := [option for option in parameters(place) if mistakes(where, option)])
}
"""place -> its options that can be given a mistake"""


def test_every_public_option_has_a_kind_and_every_function_a_place():
    assert {name for name, _ in public()} == set(PLACES) | RECORDS
    unknown = {f"{where}({option})" for where, place in PLACES.items() for option in parameters(place)
               if option not in KIND and option not in DERIVED}  # fmt: skip
    assert not unknown
    assert sum(len(mistakes(where, own)) for where in OPTIONS for own in OPTIONS[where]) >= 2_500


@pytest.fixture(scope="module")
def empty_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mistakes")


@pytest.mark.parametrize("where", OPTIONS)
def test_a_mistake_is_one_line(where, empty_folder, monkeypatch, subtests):
    monkeypatch.chdir(empty_folder)
    for option in OPTIONS[where]:
        found = {f"{i}: {wrong!r}": complaint(where, option, wrong, empty_folder)
                 for i, wrong in enumerate(mistakes(where, option))}  # fmt: skip
        with subtests.test(option=option):
            assert {wrong: said for wrong, said in found.items() if said} == {}


def complaint(where: str, option: str, wrong: Any, folder: Path) -> str:
    """What is wrong with the answer to a mistake; empty where it is one line, and nothing is left
    in the folder where a store was to be."""
    place = PLACES[where]
    try:
        place.use(place.make(**{**place.good, option: wrong}))
    except InputError as error:
        message = str(error)
        is_short = 0 < len(message) < 600 and "\n" not in message
        if not is_short or "this is a bug" in message:
            return f"the message {message}"
        return f"it left {left}" if (left := sorted(folder.iterdir())) else ""
    except Exception as error:
        return f"it raised {error!r}"
    return "it was taken"


@pytest.mark.slow
@pytest.mark.parametrize("where", sorted(PLACES))
def test_the_arguments_that_are_no_mistake_are_taken(where, tmp_path, monkeypatch):
    """Else a function that refuses everything would pass."""
    if where in ("dshap.open_cube", "dshap.open_prepared", "dshap.prepare", "models.from_gpytorch"):
        pytest.skip("needs a store that is there, or another package")
    place = PLACES[where]
    if where == "models.from_sklearn":
        from sklearn.kernel_ridge import KernelRidge as OtherRidge

        place = place._replace(good={"estimator": OtherRidge(kernel="rbf").fit(X, Y)})
    assert place.use(place.make(**place.good)) is not None


FIRST_STEPS: dict[str, tuple[Callable[[], Any], str]] = {
    "values of keys beside a data frame": (
        lambda: dshap.explain(MARGINAL, FRAME, key={"id": np.arange(40)}),
        "key is a mapping with values for 'id', which is for an array: these rows have named "
        "columns, so add the values as a column and give its name as key=",
    ),
    "a column twice": (
        lambda: values.Marginal(predict, pd.DataFrame(X, columns=["a", "a", "c"])),
        "column 'a' occurs 2 times among the names: rename all but one",
    ),
    "less memory than a worker takes": (
        lambda: dshap.explain(MARGINAL, X, memory_limit="1MB"),
        r"stage evaluation does not fit, however small its tasks: a worker of 1 thread needs 328.0 MiB throughout, and "
        r"workers have 976.6 KiB: give workers at least \d+ MiB (memory_limit)",
    ),
    "a background that is not there": (
        lambda: values.Marginal(predict, "none.parquet"),
        "there is no file none.parquet: give the path of Parquet files, or the rows themselves as "
        "an array or a data "
        "frame",
    ),
    "a number of rows for quality": (
        lambda: dshap.explain(MARGINAL, X, quality=100),
        "quality is 100: give rows that were not used for learning, as a path, a data frame, an "
        "array or a source",
    ),
    "arguments in the other order": (
        lambda: values.Marginal(X, predict),
        "predict is a ndarray of shape (40, 3): give a function of rows, such as model.predict, "
        "and the rows after it",
    ),
    "a regressor in the place of its predict": (
        lambda: values.Marginal(LINEAR, X),
        "predict is a LinearRegression: give its predict",
    ),
    "the predict of trees": (
        lambda: values.Trees(TREE.predict),
        "Trees takes the model, not its predict: give Trees(model)",
    ),
    "a function in the place of trees": (
        lambda: values.Trees(predict),
        "Trees takes a fitted tree ensemble, not a function: use Marginal(function, background)",
    ),
    "no model": (
        lambda: values.Marginal(None, X),
        "predict is None: give a function of rows, such as model.predict",
    ),
    "one row as a series": (
        lambda: dshap.explain(MARGINAL, FRAME.iloc[0]),
        "rows of type Series: give a data frame, such as series.to_frame().T for one row, "
        "series.to_frame() for one column",
    ),
    "a mapping of columns": (
        lambda: dshap.explain(MARGINAL, {"a": [1.0], "b": [2.0], "c": [3.0]}),
        "rows of type dict: give a data frame, such as pandas.DataFrame(rows)",
    ),
    "a list of records": (
        lambda: dshap.explain(MARGINAL, [{"a": 1.0, "b": 2.0, "c": 3.0}]),
        "rows is a list of mappings: give a data frame, such as pandas.DataFrame(rows)",
    ),
    "keys of two dimensions": (
        lambda: dshap.explain(MARGINAL, X, key={"id": X}),
        "key 'id' is a ndarray of shape (40, 3): give one value for each row, (n,)",
    ),
    "no name of a store": (
        lambda: dshap.explain(MARGINAL, X, store=""),
        "store is '': give a path",
    ),
}
"""What a new user does -> the whole message; ``\\d+`` stands for a number."""


def test_what_new_users_do_is_answered(in_this_process, subtests):
    for mistake, (call, expected) in FIRST_STEPS.items():
        pattern = re.escape(expected).replace(re.escape(r"\d+"), r"\d+")
        with subtests.test(mistake=mistake):
            with pytest.raises(DshapError) as caught:
                call()
            assert re.fullmatch(pattern, str(caught.value)), caught.value


OF_ELSEWHERE = {
    "nsamples": "Coalitions are max_coalitions, or those of a design: design=dshap.designs.kernelshap(d, 512).",
    "seed": "It belongs to a design: design=dshap.designs.kernelshap(d, 512, seed=1).",
    "n_jobs": "Processes are those of a cluster: give client= a Dask client.",
    "batch_size": "Rows of a task are instance_tile, rows of a call of the model buffer_rows of the value function.",
    "link": "It belongs to the value function: give it there.",
    "overwrite": "A store is never written over: remove it, or give another store=.",
    "silent": "Progress is hidden by progress=False.",
    "check_additivity": "Every row is checked.",
}
"""An option of another program, or of another place -> the last words of the message."""


def test_options_of_other_programs_say_what_to_do_here(in_this_process, subtests):
    """And not all options that there are."""
    for option, advice in OF_ELSEWHERE.items():
        with subtests.test(option=option):
            with pytest.raises(InputError) as caught:
                dshap.explain(MARGINAL, X, **{option: 1})
            assert str(caught.value) == f"unknown option '{option}'. {advice}"


def test_an_argument_that_is_written_wrong_is_named(in_this_process):
    with pytest.raises(
        InputError,
        match=r"^unknown option 'desing'; did you mean 'design'\? Allowed: coalition_groups, ",
    ):
        dshap.explain(MARGINAL, X, desing="exact")


class Typed(NamedTuple):
    """A command that is a mistake, with changes of the job of `tests.jobs.job_files`."""

    words: str
    said: str
    """The whole line, after "dshap: "; FOLDER stands for the working directory."""
    changes: tuple[tuple[str, Any], ...] = ()
    status: int = 2


WRITE_RUN = "write `dshap run [OPTIONS] JOB.toml`"
SHOP = {
    "kind": "sql",
    "uri": "duckdb:///shop.duckdb",
    "table": "customers",
    "key": ["id"],
    "target": "y",
    "features": ["hr", "temp", "hum"],
}
"""A source of rows that are loaded in the future, by its own column."""


def on_shop(**keys: Any) -> tuple[tuple[str, Any], ...]:
    """The change of a job that reads its rows from a database, with other keys; None takes one out."""
    given = {name: value for name, value in {**SHOP, **keys}.items() if value is not None}
    return (("source", given),)


SINKS = [{"uri": "duckdb:///shop.duckdb", "table": "reasons", "explain": "observational"}]
ON_THE_COMMAND_LINE = {
    "no such command": Typed(
        "rnu job.toml",
        "unknown command 'rnu'; did you mean 'run'? Allowed: attest, check, cluster, copy, diff, drift, "
        "export, forget, init, job, plan, replay, report, run, runs, schema, show, status, verify.",
    ),
    "an option before the command": Typed(
        "-q run job.toml",
        "unknown option '-q'. Allowed: --help, --version. Options of a command follow its name, as "
        "in `dshap run "
        "JOB.toml -q`.",
    ),
    "no such option": Typed(
        "show out.zarr --jason",
        "show: unknown option '--jason'; did you mean '--json'? Allowed: --help, --json, --quiet, "
        "--run, --verbose.",
    ),
    "no job": Typed("run", f"run: missing argument 'JOB.toml'; {WRITE_RUN}"),
    "two jobs": Typed("run a.toml b.toml", f"run: got unexpected extra argument (b.toml); {WRITE_RUN}"),
    "a wait that is no number": Typed(
        "run job.toml --wait nan",
        "--wait is nan: give a number of at least 0, the seconds that a cluster may be without a "
        "worker",
    ),
    "no such job file": Typed(
        "run none.toml", "job file none.toml: No such file or directory; give the path of a TOML file"
    ),
    "a folder as job": Typed("run .", "job file .: Is a directory; give the path of a TOML file"),
    "a table as job": Typed(
        "run table.parquet", "job file table.parquet is not valid TOML: it contains bytes that are not text in UTF-8"
    ),
    "no store": Typed("status none.zarr", "FOLDER/none.zarr does not exist: give the store of a run"),
    "a file as store": Typed(
        "show job.toml", "FOLDER/job.toml contains no attribution cube: give the store of a run"
    ),
    "a key far from all": Typed(
        "plan job.toml",
        "job file job.toml: [model] unknown key 'alpha'. Allowed: embedding, features, holdout, "
        "kernel, kind, "
        "landmarks, lengthscale, penalty, sample_size, selection, shapley, standardize, unseen",
        (("model.alpha", 3),),
    ),
    "a picture of another kind": Typed(
        "run job.toml",
        'job file job.toml: [report] picture = "/a.svg": pictures are PNG files: give a path that '
        'ends in .png',
        (("report", {"picture": "/a.svg"}),),
    ),
    "a long name of a store": Typed(
        "plan job.toml",
        f"store '{'x' * 23}…{'x' * 24}': the name takes 238 bytes, at most 237 allowed: choose a "
        "shorter one",
        (("job.store", "x" * 238),),
    ),
    "this folder as store": Typed(
        "plan job.toml",
        "FOLDER exists and is not the store of a job: choose another [job] store",
        (("job.store", "."),),
        4,
    ),
    "a table as store": Typed(
        "plan job.toml",
        "FOLDER/table.parquet exists and is not the store of a job: choose another [job] store",
        (("job.store", "table.parquet"),),
        4,
    ),
    "a store below a file": Typed(
        "plan job.toml",
        "cannot write FOLDER/table.parquet: it is not a folder; choose another store",
        (("job.store", "table.parquet/out.zarr"),),
    ),
    "a limit that is none": Typed(
        "diff a b --fail-above psi",
        "diff: invalid value for '--fail-above': 'psi' is not METRIC=VALUE: give one like psi=0.2; write `dshap diff "
        "[OPTIONS] OLD [NEW]`",
    ),
    "a limit of nothing": Typed(
        "diff a b --fail-above spi=0.2",
        "unknown metric 'spi'; did you mean 'psi'? Allowed: changed, ndcg_loss, psi, spearman_loss, wasserstein.",
    ),
    "a level that is none": Typed(
        "drift table.parquet table.parquet --level 5",
        "level is 5.0: give a number of at least 0 and at most 1",
    ),
    "a level that no p-value reaches": Typed(
        "drift table.parquet table.parquet --permutations 5 --level 0.01",
        "level is 0.01, and 5 permutations give no p-value below 0.1667: take 99 permutations or "
        "more, or a higher level",
    ),
    "no table to compare": Typed(
        "drift table.parquet none.csv",
        "new: no CSV file at none.csv: give a file, a folder that contains *.csv files, or a glob",
    ),
    "no such column to compare": Typed(
        "drift table.parquet table.parquet --column humm",
        "old: unknown column 'humm'; did you mean 'hum'? Allowed: hr, hum, id, note, temp, y.",
    ),
    "no store to compare": Typed("diff a b", "FOLDER/a does not exist: give the store of a run"),
    "a key that is no key": Typed(
        "run job.toml",
        "1 row repeats the key of an earlier row, for example id=1298 (row 299): give a key that "
        "names each row once, "
        "or none",
    ),
    "two statements in a query": Typed(
        "run job.toml",
        "job file job.toml: [source] query: it contains 2 statements, and one is read: give one SELECT "
        "statement, and run the others before the job",
        on_shop(table=None, query="select 1; drop table customers"),
    ),
    "what Airflow fills in": Typed(
        "run job.toml",
        "job file job.toml: [source] query: {{ ds }} is not known: write {{ env_var(NAME) }}, or {{ "
        'env_var(NAME, "default") }}; templates of Airflow and dbt are not filled in here; {as_of} is the '
        "date of the run, which --as-of sets (if braces belong to SQL, as in '{{1, 2}, {3, 4}}', "
        "write { { with a blank between)",
        on_shop(table=None, query="select * from customers where day = '{{ ds }}'"),
    ),
    "a table of a variable that is not set": Typed(
        "run job.toml",
        'job file job.toml: [source] table = "{{ env_var(NO_SUCH_SCHEMA) }}.customers": the environment '
        "variable NO_SUCH_SCHEMA is not set: set it, or give a default, {{ env_var(NO_SUCH_SCHEMA, "
        '"default") }}',
        on_shop(table="{{ env_var(NO_SUCH_SCHEMA) }}.customers"),
    ),
    "a sink of a variable that is not set": Typed(
        "run job.toml",
        'job file job.toml: [[sink]] number 1 table = "{{ env_var(NO_SUCH_TABLE) }}": the environment '
        "variable NO_SUCH_TABLE is not set: set it, or give a default, {{ env_var(NO_SUCH_TABLE, "
        '"default") }}',
        (("sink", [{**SINKS[0], "table": "{{ env_var(NO_SUCH_TABLE) }}"}]),),
    ),
    "an address of JDBC": Typed(
        "run job.toml",
        'job file job.toml: [source] uri = "jdbc:***": uri is an address of JDBC, which Java reads: leave '
        "jdbc: out, and write postgresql://user@host/database, with the password as in "
        "postgresql://user:{{ env_var(NAME) }}@host/database; other databases are named by connection, an "
        "ADBC connection profile",
        on_shop(uri="jdbc:postgresql://db/shop?user=me&pass=SECRET/SECRET@host"),
    ),
    "rows that are loaded in the future": Typed(
        "run job.toml -q",
        '[source] freshness: the newest "loaded_at" is 2999-01-01T03:00:00Z, DAYS days after now, NOW, so '
        "that no age is known: correct that row or the clock, or give the time zone (a time without one "
        "counts as UTC), as in loaded_at AT TIME ZONE 'Europe/Berlin' AS loaded_at in [source] query",
        on_shop(freshness={"column": "loaded_at", "error_after": "48h"}),
    ),
    "a sink without a name": Typed(
        "run job.toml --set sink.contract.k=3",
        "--set sink.contract.k=3: unknown sink 'contract'. Allowed: reasons; a [[sink]] is named by its "
        "key name, and without one by its table or path",
        (("sink", SINKS),),
    ),
}  # fmt: skip
"""What is typed -> the line on standard error; nothing is written, and the exit status is 2 where
none is given."""


def shop_with(rows: pd.DataFrame) -> None:
    """A database whose table of customers says that its rows were loaded in the future."""
    with duckdb.connect("shop.duckdb") as connection:
        connection.execute(
            "create table customers as select *, timestamp '2999-01-01 03:00:00' as loaded_at from rows"
        )


def test_a_mistake_on_the_command_line_is_one_line(tmp_path, monkeypatch, subtests):
    monkeypatch.chdir(tmp_path)
    table = small_table()
    table.loc[299, "id"] = 1298
    table.to_parquet("table.parquet")
    shop_with(table)
    for mistake, typed in ON_THE_COMMAND_LINE.items():
        write_job(tmp_path, changed(*typed.changes))
        before = {path.name for path in tmp_path.iterdir()}
        result = CliRunner().invoke(cli, typed.words.split(), prog_name="dshap")
        with subtests.test(mistake=mistake):
            assert result.exit_code == typed.status
            assert result.stdout == ""
            (line,) = result.stderr.splitlines()
            time, _, said = line.partition(" dshap: ")
            expected = re.escape(typed.said.replace("FOLDER", str(tmp_path)))
            expected = expected.replace("DAYS", r"\d+\.\d").replace("NOW", r"\S+Z")
            assert re.fullmatch(expected, said), said
            assert re.fullmatch(r"\S+T\S+", time)
            assert {path.name for path in tmp_path.iterdir()} == before


def typed_line(*words: str) -> tuple[int, str]:
    """The exit status of a command, and its one line on standard error without the time."""
    result = CliRunner().invoke(cli, list(words), prog_name="dshap")
    (line,) = result.stderr.splitlines()
    return result.exit_code, line.partition(" dshap: ")[2]


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_two_jobs_in_one_store(tmp_path, monkeypatch):
    """The second would go on with what the first has made, under another name."""
    monkeypatch.chdir(tmp_path)
    small_table().to_parquet("table.parquet")
    write_job(tmp_path, JOB)
    assert CliRunner().invoke(cli, ["run", "job.toml", "-q"]).exit_code == 0
    before = names_in(tmp_path)
    for command in ("run", "plan"):
        assert typed_line(command, "job.toml", "--set", "job.name=größer und neu", "-q") == (
            4,
            f"{tmp_path}/out.zarr is the store of the job 'small', and this job has the name 'größer und "
            "neu': choose another [job] store, or write name = 'small' to continue with it",
        )
        assert names_in(tmp_path) == before
    assert CliRunner().invoke(cli, ["run", "job.toml", "-q"]).exit_code == 0


def test_a_table_that_postgresql_does_not_have(tmp_path, monkeypatch, postgresql):
    monkeypatch.chdir(tmp_path)
    with postgresql.database.connect() as connection, connection.cursor() as cursor:
        for statement in (
            "CREATE TABLE customers (id BIGINT)",
            'CREATE SCHEMA "märz"',
            'CREATE TABLE "märz"."big orders" (id BIGINT)',
        ):
            cursor.execute(statement)
        connection.commit()
    monkeypatch.setenv("SHOP", postgresql.uri())
    shown = f"postgresql://dshap:***@127.0.0.1:{postgresql.port}/{postgresql.name}"
    for table, near in {"custumers": "customers", "märz.big order": "märz.big orders"}.items():
        write_job(tmp_path, changed(*on_shop(uri="{{ env_var(SHOP) }}", table=table)))
        before = names_in(tmp_path)
        for command in ("run", "plan"):
            assert typed_line(command, "job.toml", "-q") == (
                2,
                f"{shown}: unknown table {table!r}; did you mean {near!r}? Allowed: customers, "
                "märz.big orders.",
            )
            assert names_in(tmp_path) == before


@pytest.mark.parametrize("features", [None, ["hr", "temp"]])
def test_a_model_of_three_columns_without_names(features, tmp_path, monkeypatch):
    """As one in ONNX with an input of three columns: its library spoke of indices and dimensions."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    monkeypatch.chdir(tmp_path)
    small_table().to_parquet("table.parquet")
    types = [("X", skl2onnx.common.data_types.FloatTensorType([None, 3]))]
    Path("model.onnx").write_bytes(
        skl2onnx.convert_sklearn(LINEAR, initial_types=types).SerializeToString()
    )
    marginal = [{"name": "a", "value": "marginal", "background": 5}]
    model = ("model", {"kind": "onnx", "path": "model.onnx"})
    source = ("source.features", features)
    write_job(tmp_path, changed(model, ("explain", marginal), ("source.target", None), source))
    takes = (
        f'the model of [model] path = "{tmp_path}/model.onnx" takes 3, and has no names for them: '
        "name those of the fit, in their order"
    )
    if features is None:
        said = "[source] features is left out, so that all 4 columns of numbers are features (hr, temp, hum, y)"
    else:
        said = "[source] features names 2 columns (hr, temp)"
    before = names_in(tmp_path)
    for command in ("run", "plan"):
        assert typed_line(command, "job.toml", "-q") == (2, f"{said}, and {takes}")
        assert names_in(tmp_path) == before


NO_ROWS_TO_EXPLAIN = {
    "a table": changed(
        ("model", {"kind": "import", "function": "math:fsum"}),
        ("explain", [{"name": "a", "value": "marginal"}]),
        ("source.target", None),
    ),
    "texts": {
        "job": {"name": "small", "store": "out.zarr"},
        "source": {"kind": "texts", "path": "table.parquet", "column": "ids"},
        "model": {"kind": "import", "function": "math:fsum"},
        "explain": [{"name": "a", "value": "tokens", "vocabulary": 9}],
    },
}


@pytest.mark.parametrize("rows", NO_ROWS_TO_EXPLAIN)
def test_no_rows_are_planned_and_run_as_none(rows, tmp_path, monkeypatch):
    """Tonight nothing is new: the plan says so, as the run does."""
    monkeypatch.chdir(tmp_path)
    ids = pa.array([], pa.list_(pa.int64()))
    pq.write_table(
        pa.Table.from_pandas(small_table()[:0]).append_column("ids", ids), "table.parquet"
    )
    write_job(tmp_path, NO_ROWS_TO_EXPLAIN[rows])
    planned, run = (CliRunner().invoke(cli, [command, "job.toml"]) for command in ("plan", "run"))
    assert planned.exit_code == 0, planned.output
    assert planned.stdout == f"{tmp_path / 'table.parquet'}: no rows; a run has nothing to do\n"
    assert run.exit_code == 0
    assert run.output == "nothing to do: the table has no rows\n"
    assert {path.name for path in tmp_path.iterdir()} == {"job.toml", "table.parquet"}


def test_no_texts_are_explained_by_none(in_this_process):
    tokens = values.Tokens(lambda ids: ids.sum(axis=1), vocabulary=9)
    cube = dshap.explain(tokens, [])
    assert dict(cube.sizes) == {"instance": 0, "feature": 0, "output": 1}


def test_folders_of_stores_name_them(tmp_path, monkeypatch):
    """A folder that holds stores of jobs is none: its `verify` passed, and said nothing."""
    monkeypatch.chdir(tmp_path)
    dshap.explain(MARGINAL, X, store="jobs/a.zarr/cube", progress=False)
    create_store(tmp_path / "whole.zarr", {"name": "b", "units": "", "fingerprint": {}})
    shutil.move("jobs/a.zarr/cube", "whole.zarr/cube")
    for command in ("status", "show", "verify"):
        result = CliRunner().invoke(cli, [command, "."])
        assert result.exit_code == 2
        assert result.stderr.endswith("cube: give one of the stores in it, whole.zarr\n")
    small_table().to_parquet("table.parquet")
    write_job(tmp_path, changed(("job.store", "whole.zarr/new")))
    inside = CliRunner().invoke(cli, ["run", "job.toml"])
    assert inside.exit_code == 4
    assert "whole.zarr is a store, and" in inside.stderr
    assert not (tmp_path / "whole.zarr" / "new").exists()


NEAR = {"id": "", "hour": "", "tmp": "temp", "TEMP": "temp", "hun": "hum", "temperature": "temp"}
"""A name that is no column -> the one that may be meant; "" where all are far from it."""


def test_only_near_names_are_meant(subtests):
    """At most a third of the letters differ, or one begins with the other; "id" was taken for
    "d"."""
    for name, near in NEAR.items():
        hint = f"; did you mean '{near}'?" if near else "."
        with subtests.test(name=name):
            assert unknown_name("column", name, ["temp", "hum", "d", "hr"]) == (
                f"unknown column {name!r}{hint} Allowed: d, hr, hum, temp."
            )
