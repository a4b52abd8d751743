"""Models in files: what is read predicts what was written, and what may not be read is refused."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dshap
from dshap.core.errors import InputError
from dshap.models.adapters.model_files import (
    feature_names_of,
    load_lightgbm,
    load_onnx,
    load_pickle,
    load_skops,
    load_xgboost,
    sha256_of,
)

NAMES = ["age", "hours", "pay"]


def table(n: int = 120) -> tuple[pd.DataFrame, np.ndarray]:
    x = pd.DataFrame(np.random.default_rng(0).normal(size=(n, 3)), columns=NAMES)
    return x, (x["age"] * x["hours"] + x["pay"]).to_numpy()


def classes(n_classes: int) -> tuple[pd.DataFrame, np.ndarray]:
    x, y = table()
    return x, np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))


@pytest.mark.slow
@pytest.mark.parametrize("by_estimator", [True, False])
@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_xgboost_predicts_what_was_saved(by_estimator, suffix, tmp_path):
    """Numbers, and probabilities of two and of three classes; from either of its interfaces."""
    xgboost = pytest.importorskip("xgboost")
    path = tmp_path / f"model.{suffix}"
    for kind, (x, y), own in (
        (xgboost.XGBRegressor, table(), "predict"),
        (xgboost.XGBClassifier, classes(2), "predict_proba"),
        (xgboost.XGBClassifier, classes(3), "predict_proba"),
    ):
        model = kind(n_estimators=5, max_depth=3, n_jobs=1).fit(x, y)
        (model if by_estimator else model.get_booster()).save_model(path)
        loaded = load_xgboost(path)
        np.testing.assert_array_equal(loaded.predict(x), getattr(model, own)(x))
        assert feature_names_of(loaded) == tuple(NAMES)
        assert loaded.file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert loaded.file.version == xgboost.__version__
        of_trees = dshap.explain(dshap.values.Trees(loaded.model), x, progress=False)
        wanted = dshap.explain(dshap.values.Trees(model), x, progress=False)
        np.testing.assert_array_equal(of_trees.attribution, wanted.attribution)


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "multi:softmax", "num_class": 3},
        {"objective": "binary:logitraw"},
        {"objective": "count:poisson"},
        {"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.3},
        {"objective": "reg:squarederror", "booster": "gblinear"},
    ],
    ids=lambda options: options.get("booster", options["objective"]),
)
def test_boosters_of_other_kinds(options, tmp_path):
    """Each is a black box of its own predictions; labels become the probabilities behind them."""
    xgboost = pytest.importorskip("xgboost")
    x, y = classes(options.get("num_class", 2))
    rows = xgboost.DMatrix(x, label=y)
    booster = xgboost.train({"nthread": 1, **options}, rows, 4)
    booster.save_model(tmp_path / "model.json")
    found = load_xgboost(tmp_path / "model.json").predict(x)
    own = booster.predict(rows)
    if "num_class" in options:
        np.testing.assert_array_equal(found.argmax(axis=1), own)
        return
    np.testing.assert_array_equal(found[:, 1] if found.ndim == 2 else found, own)


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_lightgbm_predicts_what_was_saved(n_classes, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    x, y = classes(n_classes) if n_classes else table()
    kind = lightgbm.LGBMClassifier if n_classes else lightgbm.LGBMRegressor
    model = kind(n_estimators=5, n_jobs=1, verbose=-1).fit(x, y)
    model.booster_.save_model(tmp_path / "model.txt")
    loaded = load_lightgbm(tmp_path / "model.txt")
    wanted = model.predict_proba(x) if n_classes else model.predict(x)
    np.testing.assert_array_equal(loaded.predict(x), wanted)
    assert feature_names_of(loaded) == tuple(NAMES)
    again = pickle.loads(pickle.dumps(loaded.predict))  # as it goes to a worker
    np.testing.assert_array_equal(again(x), wanted)


def test_lightgbm_of_arrays_names_no_columns(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    x, y = table()
    model = lightgbm.LGBMRegressor(n_estimators=3, n_jobs=1, verbose=-1).fit(x.to_numpy(), y)
    model.booster_.save_model(tmp_path / "model.txt")
    loaded = load_lightgbm(tmp_path / "model.txt")
    assert feature_names_of(loaded) is None
    np.testing.assert_array_equal(loaded.predict(x.to_numpy()), model.predict(x.to_numpy()))


def saved_by_skops(model, path: Path) -> Path:
    skops = pytest.importorskip("skops.io")
    skops.dump(model, path)
    return path


@pytest.mark.slow
def test_skops_reads_what_it_knows_and_what_is_trusted(tmp_path):
    x, y = classes(2)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)
    loaded = load_skops(saved_by_skops(pipeline, tmp_path / "pipeline.skops"))
    np.testing.assert_array_equal(loaded.predict(x), pipeline.predict_proba(x))
    by_decision = load_skops(tmp_path / "pipeline.skops", method="decision_function")
    np.testing.assert_array_equal(by_decision.predict(x), pipeline.decision_function(x))
    forest = RandomForestClassifier(3, random_state=0).fit(x, y)
    path = saved_by_skops(forest, tmp_path / "forest.skops")
    with pytest.raises(
        InputError, match=r"sklearn\.tree\._tree\.Tree.* give trusted = \["
    ) as error:
        load_skops(path)
    trusted = str(error.value).split("[")[1].rstrip("]").replace('"', "").split(", ")
    np.testing.assert_array_equal(
        load_skops(path, trusted=trusted).predict(x), forest.predict_proba(x)
    )


def test_a_pickle_is_read_where_it_is_allowed_and_named(tmp_path):
    x, y = table()
    model = LinearRegression().fit(x, y)
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(model))
    loaded = load_pickle(path, allow_pickle=True, sha256=sha256_of(path).upper())
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
    assert loaded.file.library == "joblib"


class Spy:
    """An object whose pickle writes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.write_text, (self.path, "read"))


def test_no_byte_of_a_pickle_is_read_before_it_is_allowed(tmp_path):
    path, trace = tmp_path / "model.pkl", tmp_path / "trace"
    path.write_bytes(pickle.dumps(Spy(trace)))
    with pytest.raises(InputError, match=r"runs code when it is read: .* allow_pickle = true"):
        load_pickle(path)
    with pytest.raises(InputError, match="its sha256 is missing"):
        load_pickle(path, allow_pickle=True)
    with pytest.raises(InputError, match="it is another file"):
        load_pickle(path, allow_pickle=True, sha256="0" * 64)
    assert not trace.exists()
    with pytest.raises(InputError, match="which has no predict_proba and no predict"):
        load_pickle(path, allow_pickle=True, sha256=sha256_of(path))
    assert trace.exists()  # the spy would have seen it


@pytest.mark.parametrize(
    ("load", "module"),
    [
        (load_xgboost, "xgboost"),
        (load_lightgbm, "lightgbm"),
        (load_onnx, "onnxruntime"),
        (load_skops, "skops"),
    ],
)
def test_files_that_are_none_are_refused_in_one_line(load, module, tmp_path):
    pytest.importorskip(module)
    with pytest.raises(InputError, match="No such file"):
        load(tmp_path / "none")
    path = tmp_path / "model"
    path.write_bytes(b"\x00 this is no model \xff")
    with pytest.raises(InputError, match=f"cannot be read as .* by {module}") as error:
        load(path)
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match=f"has the sha256 {sha256_of(path)}, and 12ab was given"):
        load(path, sha256="12ab")
