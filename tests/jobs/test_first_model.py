"""The kind of a first model, by its first bytes and its name; no pickle is read unasked."""

from __future__ import annotations

import pickle
import sys

import joblib
import lightgbm
import pytest
import xgboost
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from dshap.core.errors import InputError
from dshap.jobs.first_model import FirstModel, PickleError
from tests.jobs.job_files import small_table

NAMES = ["hr", "temp", "hum"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = small_table(100)
    x = table[NAMES]
    data = lightgbm.Dataset(x, table["y"])
    lightgbm.train({"verbose": -1}, data, 2).save_model("lightgbm.anything")
    xgboost.XGBRegressor(n_estimators=2).fit(x, table["y"]).save_model("x.ubj")
    (tmp_path / "tree.pkl").write_bytes(
        pickle.dumps(DecisionTreeRegressor(max_depth=2).fit(x, table["y"]))
    )
    joblib.dump(LinearRegression().fit(x.to_numpy(), table["y"]), "linear.joblib")
    (tmp_path / "my_first_model.py").write_text("def predict(x):\n    return x[:, 0]\n")
    (tmp_path / "model.cbm").write_bytes(b"CBM1 and more")
    yield tmp_path
    sys.modules.pop("my_first_model", None)


@pytest.mark.parametrize(
    ("text", "kind", "names", "is_of_trees", "missing"),
    [
        ("lightgbm.anything", "lightgbm", NAMES, True, "pass"),
        ("x.ubj", "xgboost", NAMES, True, "pass"),
        ("tree.pkl", "pickle", NAMES, True, "refuse"),
        ("linear.joblib", "pickle", None, False, "refuse"),
        ("my_first_model:predict", "import", None, False, "refuse"),
    ],
)
def test_kinds(folder, text, kind, names, is_of_trees, missing):
    found = FirstModel.of(text, folder, allow_pickle=True)
    assert found.kind == kind
    assert (None if found.names is None else list(found.names)) == names
    assert (found.is_of_trees, found.missing) == (is_of_trees, missing)
    if kind == "pickle":
        assert found.width == 3
        assert found.written(folder)["path"] == text
        assert set(found.written(folder)) == {"kind", "path", "allow_pickle", "sha256"}


def test_a_pickle_is_not_read_unasked(folder):
    class Bomb:
        def __reduce__(self):
            return exec, ("open('ran', 'w')",)

    (folder / "bomb").write_bytes(pickle.dumps(Bomb()))  # without the name of one
    for name in ("bomb", "tree.pkl"):
        with pytest.raises(PickleError, match="is a pickle, which runs code"):
            FirstModel.of(name, folder)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("none.json", "there is no such file: give a file of XGBoost"),
        ("model.cbm", "is of no known kind: give a file of XGBoost"),
        (".", "there is no such file"),
    ],
)
def test_no_model(folder, text, said):
    with pytest.raises(InputError, match=said):
        FirstModel.of(text, folder)
    with pytest.raises(InputError, match=r"cannot be read as onnx|needs onnxruntime"):
        (folder / "m.onnx").write_text("x")
        _ = FirstModel.of("m.onnx", folder).loaded
