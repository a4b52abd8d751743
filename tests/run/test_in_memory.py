"""Without a store: the same Dataset, bit for bit, as one that a store gives, and no files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression

import dshap
from dshap import designs
from dshap.core.errors import FailedBlocksError, InputError
from dshap.cube.datasets import loaded
from dshap.cube.reader import ROW_PREFIX
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.run.explanation import Explanation
from dshap.run.in_memory import ExplanationInMemory
from dshap.run.session import open_session
from dshap.storage.memory_records import MemoryRecords
from dshap.values import (
    ConditionalRegression,
    Copula,
    Gaussian,
    KernelInterventional,
    KernelObservational,
    LinearGaussian,
    Marginal,
    Tokens,
    Trees,
)

pytestmark = pytest.mark.usefixtures("in_this_process")

D = 4
N = 70
NAMES = ["a", "b", "c", "größe"]


def f(x):
    a, b, c, d = np.asarray(x, float).T
    return np.sin(a) * b + a * b * c + c**2 * d


def fails_on_some(x):
    x = np.asarray(x, float)
    if (x[:, 0] > 50.0).any():
        raise ValueError("too large")
    return f(x)


RNG = np.random.default_rng(8)
X = RNG.normal(size=(N, D))
X[:, 2] = np.round(X[:, 2])
DATA = RNG.normal(size=(90, D))
WIDE = np.random.default_rng(9).normal(size=(40, 9))
MODEL = KernelRidge(RBF(1.5), Nystrom(30), 1e-5).fit(DATA, f(DATA))
LABELS = np.array(["ja", "nein", "weiß nicht"])[np.digitize(f(DATA), [-0.5, 0.5])]
CLASSES = LogisticRegression().fit(DATA, LABELS)
FOREST = RandomForestRegressor(n_estimators=4, max_depth=4, random_state=0).fit(DATA, f(DATA))
THREE = RandomForestClassifier(n_estimators=4, max_depth=4, random_state=0).fit(DATA, LABELS)
FRAME = pd.DataFrame(X, columns=NAMES).assign(
    laden=[f"straße {i}" for i in range(N)],
    id=np.arange(N) * 3,
    zeit=pd.date_range("2024-02-28T23:00", periods=N, freq="37min"),
)
FAILING = FRAME.assign(a=FRAME["a"].where(FRAME.index % 23 != 5, 99.0))
HOLES = FRAME.assign(a=FRAME["a"].where(FRAME.index % 11 != 3))


def wide(x):
    return x[:, 0] * x[:, 1] + np.sin(x[:, 2:]).prod(axis=1) + x[:, 4]


def of_frame(predict=f, **options):
    return Marginal(predict, pd.DataFrame(DATA[:9], columns=NAMES), **options)


CASES = {
    "marginal": lambda: (of_frame(), FRAME, {"key": ["laden", "zeit", "id"]}),
    "one key": lambda: (of_frame(), FRAME, {"key": "zeit"}),
    "two outputs": lambda: (
        Marginal(lambda x: np.column_stack([f(x), x[:, 0]]), DATA[:9]),
        X,
        {"units": "kW", "dtype": "float32"},
    ),
    "interactions": lambda: (Marginal(f, DATA[:5]), X, {"interactions": True}),
    "skipped rows": lambda: (of_frame(), HOLES, {"key": "id", "missing": "skip"}),
    "all rows of a tile skipped": lambda: (
        of_frame(),
        FRAME.assign(a=FRAME["a"].where(FRAME.index >= 16)),
        {"missing": "skip", "instance_tile": 16},
    ),
    "keys of an array": lambda: (Marginal(f, DATA[:5]), X, {"key": {"größe": np.arange(N)}}),
    "constant column": lambda: (
        Marginal(f, np.column_stack([DATA[:9, :3], np.ones(9)])),
        np.column_stack([X[:, :3], np.ones(N)]),
        {},
    ),
    "tiles and groups": lambda: (
        Marginal(wide, WIDE[:3]),
        WIDE,
        {"instance_tile": 16, "coalition_tile": 16, "coalition_groups": 3, "design": "exact"},
    ),
    "kernelshap": lambda: (
        Marginal(wide, WIDE[:3]),
        WIDE,
        {"design": designs.kernelshap(9, 128), "interactions": False},
    ),
    "kriging": lambda: (Marginal(wide, WIDE[:3]), WIDE, {"design": designs.kriging(9, 128)}),
    "permutation": lambda: (
        Marginal(wide, WIDE[:3]),
        WIDE,
        {"design": designs.permutation(9, 100)},
    ),
    "graph": lambda: (
        Marginal(wide, WIDE[:3]),
        WIDE[:5],
        {"design": designs.local(designs.chain(9), 2)},
    ),
    "tol": lambda: (
        Marginal(wide, WIDE[:3]),
        WIDE,
        {"design": "kernelshap", "tol": 0.1, "max_coalitions": 256},
    ),
    "stochastic": lambda: (Marginal(f, DATA[:3]), X[:20], {"stochastic": True}),
    "sample of a background": lambda: (
        Marginal(f, dshap.choose_background(DATA, 20)),
        X,
        {},
    ),
    "streamed background": lambda: (Marginal(f, pd.DataFrame(DATA)), X[:9], {}),
    "predicted class": lambda: (
        Marginal(CLASSES.predict_proba, DATA[:5], link="log_probability"),
        X,
        {},
    ),
    "base by row": lambda: (
        Marginal(CLASSES.predict_proba, DATA[:5], link="expected_log_probability"),
        X,
        {},
    ),
    "gaussian": lambda: (Gaussian(f, DATA, n_samples=30), X[:20], {}),
    "copula": lambda: (Copula(f, DATA, n_samples=30), X[:20], {}),
    "regression": lambda: (
        ConditionalRegression(f, DATA, RBF(1.5), Nystrom(20), penalty=1e-3),
        X,
        {},
    ),
    "linear": lambda: (
        LinearGaussian(np.arange(4.0), 0.5, DATA.mean(0), np.cov(DATA.T)),
        X,
        {},
    ),
    "kernel": lambda: (KernelInterventional(MODEL, DATA), X, {"coalition_tile": 4}),
    "kernel of the rows": lambda: (KernelInterventional(MODEL, X), X, {}),
    "quadrature": lambda: (
        KernelInterventional(MODEL, DATA, n_background=20),
        X,
        {"design": "quadrature"},
    ),
    "observational": lambda: (KernelObservational(MODEL, DATA, Nystrom(20), penalty=1e-3), X, {}),
    "trees": lambda: (Trees(FOREST), X, {}),
    "trees with interactions": lambda: (Trees(FOREST), X, {"interactions": True}),
    "trees against a background": lambda: (Trees(FOREST, background=DATA), X, {}),
    "three classes": lambda: (Trees(THREE), X, {}),
    "two of three classes": lambda: (THREE, X, {"classes": ["nein", "weiß nicht"]}),
    "texts": lambda: (
        Tokens(lambda texts: np.array([float(len(set(each))) for each in texts])),
        [[1, 2], [3, 3, 2], [4], [2, 1, 1, 5]],
        {},
    ),
    "quality": lambda: (
        KernelObservational(MODEL, DATA, Nystrom(20), penalty=1e-3),
        X,
        {"quality": DATA[:30]},
    ),
    "not computed": lambda: (Marginal(f, DATA[:5]), FRAME[NAMES], {"compute": False}),
}


def assert_same(found: xr.Dataset, wanted: xr.Dataset) -> None:
    """The same variables, axes, values, types and attributes."""
    xr.testing.assert_identical(found, wanted)
    assert list(found.data_vars) == list(wanted.data_vars)
    for name in wanted.variables:
        assert found[name].dtype == wanted[name].dtype, name
        assert found[name].encoding.get("coordinates") == wanted[name].encoding.get("coordinates")
    assert found.encoding == {}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_a_cube_in_memory_is_that_of_a_store(name, tmp_path):
    value, rows, options = CASES[name]()
    dshap.explain(value, rows, store=tmp_path / "cube", progress=False, **options)
    memory = dshap.explain(value, rows, progress=False, **options)
    kept = [each for each in memory.data_vars if str(each).startswith(ROW_PREFIX)]
    assert bool(kept) == (name != "texts")
    assert_same(memory.drop_vars(kept), loaded(tmp_path / "cube"))


@pytest.mark.parametrize("tile", [16, 32])
def test_failed_rows_are_those_of_a_store(tile, tmp_path):
    """The Dataset itself is not given: the call raises, and names the first of the rows."""
    found = {}
    for kind, path in ((ExplanationInMemory, None), (Explanation, tmp_path / "cube")):
        options = {"instance_tile": tile}
        with open_session(path, None, False, options) as (place, session):
            value = of_frame(fails_on_some, arrays=True)
            explanation = kind.of(value, FAILING, place, session, key="laden").run(session)
            with pytest.raises(FailedBlocksError, match=r"too large") as refused:
                explanation.raise_on_failed()
            found[kind] = explanation.dataset({}).load(), str(refused.value)
    memory, said = found[ExplanationInMemory]
    stored, said_of_store = found[Explanation]
    assert (memory.status == 3).any()
    stored.encoding = {}
    xr.testing.assert_identical(memory, stored)
    assert said.partition(". ")[0] == said_of_store.partition(". ")[0]
    assert "There is no store, so nothing is kept" in said


def test_whole_tiles_that_fail_have_no_base_value(tmp_path):
    """Every row of a tile fails: its status says so, and the other rows have their attributions."""

    def fails(x):
        if (np.asarray(x)[:, 0] > 1e5).any():
            raise ValueError("too large")
        return f(x)

    rows = X.copy()
    rows[16:32, 0] += 1e6
    with open_session(None, None, False, {"instance_tile": 16}) as (place, session):
        value = Marginal(fails, DATA[:5])
        explanation = ExplanationInMemory.of(value, rows, place, session).run(session)
        cube = explanation.dataset({})
    assert np.flatnonzero(cube.status == 3).tolist() == list(range(16, 32))
    assert "additivity" not in cube.attrs
    assert np.isfinite(cube.attribution.values[[0, 15, 32, 69]]).all()


def test_nothing_is_written_and_nothing_of_zarr_is_used(monkeypatch, tmp_path):
    """Neither files nor folders; a call that opened an array of Zarr would raise here."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("zarr.open_group", None)
    monkeypatch.setattr("zarr.open_array", None)
    monkeypatch.setattr("dshap.storage.folder.Folder.replace", None)
    monkeypatch.setattr("dshap.storage.folder.Folder.put_new", None)
    for value in (KernelInterventional(MODEL, DATA), Trees(FOREST), of_frame()):
        dshap.explain(value, FRAME[NAMES] if value.model.feature_names else X, progress=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["kernel", "observational", "tiles and groups"])
def test_states_beyond_the_limit_are_in_files_of_the_call(name, monkeypatch, tmp_path):
    """The numbers are the same, and the files are removed with the call."""
    value, rows, options = CASES[name]()
    cube = dshap.explain(value, rows, progress=False, **options)
    put = []
    own = MemoryRecords.put

    def noted(self, name, record):
        own(self, name, record)
        put.append(self.files.has(name))

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("dshap.run.homes.RECORD_BYTES", 1000)
    monkeypatch.setattr(MemoryRecords, "put", noted)
    xr.testing.assert_identical(cube, dshap.explain(value, rows, progress=False, **options))
    assert any(put)
    assert list(tmp_path.iterdir()) == []


def test_prepared_states_are_read_and_not_copied(tmp_path):
    value = KernelInterventional(MODEL, DATA)
    prepared = dshap.prepare(value, store=tmp_path / "prepared")
    before = sorted(tmp_path.rglob("*"))
    memory = dshap.explain(prepared, X, keep_rows=False)
    assert sorted(tmp_path.rglob("*")) == before
    dshap.explain(prepared, X, store=tmp_path / "cube")
    assert_same(memory, loaded(tmp_path / "cube"))


def test_a_model_that_changes_its_answers_is_refused_without_a_store():
    answers = np.random.default_rng(0)
    with pytest.raises(InputError, match="gives different predictions when it is called again"):
        dshap.explain(Marginal(lambda x: f(x) + answers.normal(), DATA[:5]), X)


def test_the_dataset_of_a_call_does_not_change_with_the_next_one():
    value = Marginal(f, DATA[:5])
    first = dshap.explain(value, X)
    kept = first.copy(deep=True)
    dshap.explain(value, X[::-1])
    first["attribution"][...] += 0.0
    xr.testing.assert_identical(first, kept)


def test_pictures_reports_and_tables_take_a_cube_in_memory(tmp_path):
    memory = dshap.explain(Trees(FOREST), FRAME[NAMES].to_numpy())
    dshap.explain(Trees(FOREST), FRAME[NAMES].to_numpy(), store=tmp_path / "cube")
    stored = dshap.open_cube(tmp_path / "cube")
    assert repr(memory.dshap) == repr(stored.dshap)
    assert dshap.to_frame(memory).equals(dshap.to_frame(stored))
    assert memory.dshap.bar() is not None
    assert np.array_equal(memory.dshap.to_shap().values, stored.dshap.to_shap().values)
