"""States made once and used by many runs; and MSE_v, which says how good they are."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestRegressor

import dshap
from dshap import designs
from dshap.core.blocks import Status
from dshap.core.errors import DshapError, InputError, StoreMismatchError
from dshap.designs.exact import ExactDesign
from dshap.designs.kernelshap import KernelShapDesign
from dshap.kernels import RBF, Categorical, Fourier, Nystrom, Product
from dshap.models import KernelRidge
from dshap.values import (
    ConditionalRegression,
    Gaussian,
    KernelInterventional,
    KernelObservational,
    LinearGaussian,
    Marginal,
    Trees,
)


def target(x):
    return x[:, 0] * x[:, 1] + np.sin(x[:, 2]) * x[:, 3]


def other(x):
    return target(x) + x[:, 0]


def table(seed, n):
    x = np.random.default_rng(seed).normal(size=(n, 4))
    x[:, 1] += x[:, 0]
    return x


@pytest.fixture(scope="module")
def data():
    return table(0, 600)


@pytest.fixture(scope="module")
def rows():
    return table(1, 90)


@pytest.fixture(scope="module")
def model(data):
    return KernelRidge(RBF(1.5), Nystrom(60), 1e-6).fit(data, target(data))


VALUES = {
    "interventional": lambda model, data: KernelInterventional(model, data),
    "observational": lambda model, data: KernelObservational(model, data, Nystrom(20), 1e-3),
    "centred": lambda model, data: KernelObservational(
        model, data, Nystrom(20), 1e-3, centred=True
    ),
    "fourier": lambda model, data: KernelObservational(model, data, Fourier(40), 1e-2),
    "regression": lambda model, data: ConditionalRegression(
        model.expansion_.predict, data, RBF(1.5), Nystrom(60), "validate"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VALUES)
def test_new_rows_from_prepared_states_are_those_of_one_run(name, model, data, rows, tmp_path):
    value = VALUES[name](model, data)
    prepared = dshap.prepare(value, store=tmp_path / "prepared")
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "prepared").rglob("*.*")}
    cube = dshap.explain(prepared, rows, store=tmp_path / "cube.zarr")
    assert_array_equal(cube.attribution, dshap.explain(value, rows).attribution)
    made = {path.name.split("-")[0] for path in (tmp_path / "cube.zarr" / "state").glob("*.npz")}
    assert made == {"probe"}, "nothing is learnt again"
    again = dshap.open_prepared(tmp_path / "prepared", VALUES[name](model, data))
    assert_allclose(dshap.explain(again, rows[:7]).attribution, cube.attribution[:7], atol=1e-12)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "prepared").rglob("*.*")} == files


def groups(x):
    return target(x)


AT_ONCE = {
    **{name: (make, "auto") for name, make in VALUES.items()},
    "quadrature": (VALUES["interventional"], "quadrature"),
    "sampled": (VALUES["regression"], designs.kernelshap(4, 12)),
    "groups of columns": (
        lambda model, data: ConditionalRegression(
            groups, data, RBF(1.5), Nystrom(40), 1e-3, players={"both": [0, 1]}
        ),
        "auto",
    ),
    "fitted normal": (lambda model, data: Gaussian(target, data, n_samples=16), "auto"),
}
"""name -> the value function of a model and data, and the design that states are prepared for."""


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_ONCE)
def test_an_attributor_gives_the_bits_that_explain_writes(name, model, data, rows, tmp_path):
    make, design = AT_ONCE[name]
    prepared = dshap.prepare(make(model, data), design=design, store=tmp_path / "p")
    files = sorted((tmp_path / "p").rglob("*"))
    attributor = dshap.open_prepared(tmp_path / "p", make(model, data)).attributor()
    for n in (len(rows), 1):
        cube = dshap.explain(prepared, rows[:n])
        found = attributor.attribute(rows[:n])
        assert_array_equal(found.phi, cube.attribution)
        assert_array_equal(found.base, cube.base_value)
        assert_array_equal(found.prediction, cube.prediction)
        assert found.is_ok.all()
        assert not found.reasons
        if "std_error" in cube:
            assert_array_equal(found.std_error, cube.std_error)
    assert sorted((tmp_path / "p").rglob("*")) == files, "nothing is written"


FOREST = RandomForestRegressor(n_estimators=3, max_depth=3, random_state=0)


def wide(x):
    return np.sin(x).prod(axis=1) + x[:, 0] * x[:, 1]


def wide_table(seed, n):
    return np.random.default_rng(seed).normal(size=(n, 8))


def fitted_forest():
    x = wide_table(0, 80)
    return FOREST.fit(x, wide(x))


FEW_ROWS = {
    "exact": lambda data: (Marginal(wide, data[:6]), "exact"),
    "kernelshap": lambda data: (Marginal(wide, data[:6]), designs.kernelshap(8, 100)),
    "permutation": lambda data: (Marginal(wide, data[:6]), designs.permutation(8, 60)),
    "sample of a background": lambda data: (
        Marginal(wide, dshap.choose_background(data, 20)),
        designs.kernelshap(8, 100),
    ),
    "normal": lambda data: (Gaussian(wide, data, n_samples=8), designs.kernelshap(8, 100)),
    "linear": lambda data: (
        LinearGaussian(np.arange(8.0), 0.5, data.mean(0), np.cov(data.T)),
        "auto",
    ),
    "kernel": lambda data: (
        KernelInterventional(KernelRidge(RBF(2.0), Nystrom(20), 1e-4).fit(data, wide(data)), data),
        "auto",
    ),
    "trees": lambda data: (Trees(fitted_forest(), background=data), "auto"),
}
"""name -> the value function of wide data, and the design that states are prepared for."""


@pytest.mark.parametrize("name", FEW_ROWS)
def test_one_row_again_and_again_has_the_bits_of_explain(name, tmp_path):
    """What no row changes is made once, in the first call: no call changes it for the next one."""
    data = wide_table(1, 120)
    value, design = FEW_ROWS[name](data)
    prepared = dshap.prepare(value, design=design, store=tmp_path / "p")
    attributor = prepared.attributor()
    rows = wide_table(2, 40)
    for n in (1, 3, 1, 40, 1):
        cube = dshap.explain(prepared, rows[:n], keep_rows=False)
        for given in (rows[:n], np.asfortranarray(rows[:n]), rows[:n].astype(object).astype(float)):
            found = attributor.attribute(given)
            assert_array_equal(found.phi, cube.attribution)
            assert_array_equal(found.prediction, cube.prediction)
            assert_array_equal(found.base, cube.base_value)
            if "std_error" in cube:
                assert_array_equal(found.std_error, cube.std_error)


@pytest.mark.parametrize("name", ["kernelshap", "kernel", "normal"])
def test_a_second_row_asks_the_design_and_the_value_function_for_nothing(
    name, monkeypatch, tmp_path
):
    value, design = FEW_ROWS[name](wide_table(1, 120))
    attributor = dshap.prepare(value, design=design, store=tmp_path / "p").attributor()
    rows = wide_table(2, 2)
    attributor.attribute(rows[:1])

    def refused(*_):
        raise AssertionError("made anew")

    for kind in (ExactDesign, KernelShapDesign):
        monkeypatch.setattr(kind, "block", refused)
    for kind in (Gaussian, Marginal, KernelInterventional):
        monkeypatch.setattr(kind, "prepare", refused)
    monkeypatch.setattr("dshap.engine.tiles.cut_tiles", refused)
    monkeypatch.setattr("dshap.loops.MemberSums.of", refused)
    monkeypatch.setattr("dshap.run.prepared_states.open_for", refused)
    assert attributor.attribute(rows[1:]).is_ok.all()


def test_an_attributor_of_many_sizes_forgets_the_oldest(monkeypatch, tmp_path):
    monkeypatch.setattr("dshap.run.prepared_states.MOST_SIZES", 3)
    value, design = FEW_ROWS["linear"](wide_table(1, 120))
    attributor = dshap.prepare(value, design=design, store=tmp_path / "p").attributor()
    rows = wide_table(2, 9)
    for n in range(1, 10):
        assert_allclose(attributor.attribute(rows[:n]).phi[0], attributor.attribute(rows).phi[0])
        assert len(attributor.made) <= 3


@pytest.mark.slow
def test_the_design_of_an_attributor_chooses_by_the_data(data, tmp_path):
    """Kriging of nine players: no row depends on the others of its call, and the choices are those
    that `explain` makes for the first rows of the data."""
    x = np.random.default_rng(5).normal(size=(400, 9))
    value = ConditionalRegression(target, x, RBF(2.0), Nystrom(30), 1e-3)
    prepared = dshap.prepare(value, design=designs.kriging(9, 120), store=tmp_path / "p")
    attributor = prepared.attributor()
    assert not attributor.method.pilot_coalitions
    assert prepared.method.pilot_coalitions
    found = attributor.attribute(x[:12])
    alone = attributor.attribute(x[3:4])
    assert_allclose(alone.phi[0], found.phi[3], atol=1e-12)
    assert_allclose(found.phi.sum(axis=1) + found.base, found.prediction, atol=1e-12)
    exact = dshap.explain(value, x[:12], design="exact").attribution
    near = dshap.explain(prepared, x[:12]).attribution
    assert abs(found.phi - exact).max() < 2 * abs(near - exact).max() + 1e-6


def test_an_attributor_reads_its_states_once(model, data, rows, tmp_path):
    """Whatever the number of rows of a call: the folder may even be gone."""
    value = VALUES["observational"](model, data)
    attributor = dshap.prepare(value, store=tmp_path / "p").attributor()
    first = attributor.attribute(rows[:1])
    shutil.rmtree(tmp_path / "p")
    for n in (1, 2, len(rows)):
        assert_allclose(attributor.attribute(rows[:n]).phi[:1], first.phi, atol=1e-12)


def test_an_attributor_tiles_many_rows_as_explain_does(model, data, tmp_path):
    value = VALUES["interventional"](model, data)
    prepared = dshap.prepare(value, store=tmp_path / "p")
    many = table(3, 1_000)
    many[7, 2] = np.nan
    cube = dshap.explain(prepared, many, missing="skip")
    found = prepared.attributor().attribute(many)
    assert_array_equal(found.phi, cube.attribution)
    assert np.flatnonzero(~found.is_ok).tolist() == [7]
    assert np.isnan(found.phi[7]).all()
    assert found.reasons == {7: "the row contains NaN or infinity"}


def test_an_attributor_fails_single_rows_and_refuses_what_is_no_table_of_its_model(
    data, rows, tmp_path
):
    def picky(x):
        if (np.asarray(x)[:, 0] > 50).any():
            raise ValueError("too large")
        return target(x)

    names = list("abcd")
    value = ConditionalRegression(picky, data, RBF(1.0), Nystrom(15), 1e-3, feature_names=names)
    attributor = dshap.prepare(value, store=tmp_path / "p").attributor()
    wanted = attributor.attribute(rows[:3])
    frame = pd.DataFrame(rows[:3], columns=names)[["d", "b", "a", "c"]]
    assert_array_equal(attributor.attribute(frame).phi, wanted.phi)
    wrong = rows[:3].copy()
    wrong[0, 0] = 99.0
    wrong[1] = np.inf
    found = attributor.attribute(wrong)
    assert found.status.tolist() == [Status.FAILED, Status.FAILED, Status.OK]
    assert "too large" in found.reasons[0]
    assert "infinity" in found.reasons[1]
    assert attributor.attribute(np.full((2, 4), np.nan)).reasons.keys() == {0, 1}
    for given, message in (
        (rows[:2, :3], "3 columns"),
        (frame[["a", "b"]], "'c'"),
        (frame.astype({"a": str}), "a"),
        (rows[0], "use x.reshape"),
        ("rows.parquet", "give an array of numbers .* or call dshap.explain"),
        ([1.0, 2.0], "give an array of numbers"),
    ):
        with pytest.raises(InputError, match=message):
            attributor.attribute(given)
    with pytest.raises(DshapError, match="too large"):
        attributor.attribute(wrong[:1])


def test_an_attributor_of_rows_with_text(tmp_path):
    frame = pd.DataFrame({"a": np.arange(40.0), "b": ["x", "y", "z", "x"] * 10})

    def predict(table):
        return table["a"] * (table["b"] == "x") + table["a"]

    kernel = Product([RBF(10.0), Categorical()])
    value = ConditionalRegression(predict, frame, kernel, Nystrom(10), 1e-3)
    prepared = dshap.prepare(value, store=tmp_path / "p")
    cube = dshap.explain(prepared, frame[:5])
    assert_array_equal(prepared.attributor().attribute(frame[:5]).phi, cube.attribution)
    with pytest.raises(
        InputError, match="contains 'new', which is not in the data of the value function"
    ):
        prepared.attributor().attribute(pd.DataFrame({"a": [1.0], "b": ["new"]}))


def test_the_data_are_not_needed_any_more(data, rows, tmp_path):
    path = tmp_path / "data.parquet"
    pd.DataFrame(data, columns=list("abcd")).to_parquet(path)
    value = ConditionalRegression(
        target, str(path), RBF(1.0), Nystrom(15), 1e-3, feature_names=list("abcd")
    )
    dshap.prepare(value, store=tmp_path / "prepared")
    os.remove(path)
    frame = pd.DataFrame(rows, columns=list("abcd"))[["d", "c", "b", "a"]]
    cube = dshap.explain(dshap.open_prepared(tmp_path / "prepared", value), frame)
    assert_allclose(cube.attribution.sum("feature") + cube.base_value, cube.prediction, atol=1e-12)


def test_a_second_prepare_computes_nothing(data, tmp_path):
    calls = []

    def counting(x):
        calls.append(len(x))
        return target(x)

    value = ConditionalRegression(counting, data, RBF(1.0), Nystrom(15), 1e-3)
    dshap.prepare(value, store=tmp_path / "p")
    assert sum(calls) >= len(data)
    calls.clear()
    dshap.prepare(value, store=tmp_path / "p")
    assert sum(calls) <= 64  # the probe


def test_a_column_that_is_constant_in_the_data_may_vary_in_new_rows(rows, tmp_path):
    data = table(0, 300)
    data[:, 3] = 1.0
    value = ConditionalRegression(target, data, RBF(1.0), Nystrom(15), 1e-2)
    cube = dshap.explain(dshap.prepare(value, store=tmp_path / "p"), rows)
    assert (np.abs(cube.attribution.sel(feature="x3")) > 1e-3).any()
    assert_allclose(cube.attribution.sum("feature") + cube.base_value, cube.prediction, atol=1e-12)


def test_what_was_prepared_otherwise_is_refused(model, data, rows, tmp_path):
    value = ConditionalRegression(target, data, RBF(1.0), Nystrom(15), 1e-3)
    store = tmp_path / "p"
    prepared = dshap.prepare(value, design=designs.exact(4), store=store)
    with pytest.raises(StoreMismatchError, match=r"differs in penalty"):
        dshap.open_prepared(store, ConditionalRegression(target, data, RBF(1.0), Nystrom(15), 1e-2))
    other.__qualname__ = target.__qualname__
    with pytest.raises(
        StoreMismatchError, match="its predictions for the first rows of the data differ"
    ):
        dshap.open_prepared(store, ConditionalRegression(other, data, RBF(1.0), Nystrom(15), 1e-3))
    with pytest.raises(InputError, match=r"prepared with another table \(data: "):
        dshap.prepare(value, data[:-1], store=store)
    with pytest.raises(InputError, match="by another design: leave design at"):
        dshap.explain(prepared, rows, design=designs.kernelshap(4, 12))
    with pytest.raises(InputError, match="contains no prepared value function"):
        dshap.open_prepared(tmp_path / "nowhere", value)
    with pytest.raises(InputError, match="prepare needs store="):
        dshap.prepare(value)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    with pytest.raises(StoreMismatchError, match="contains something else"):
        dshap.prepare(value, store=tmp_path / "full")


@pytest.mark.parametrize("name", ["observational", "regression"])
def test_a_gram_matrix_that_cannot_be_factored_leaves_nothing_behind(name, model, data, tmp_path):
    values = {
        "observational": KernelObservational(
            model, data[:50], Fourier(120), 1e-22, kernel=RBF(1.5)
        ),
        "regression": ConditionalRegression(
            model.predict, data[:50], RBF(1.5), Fourier(120), 1e-22
        ),
    }
    message = (
        r"too small for the Fourier features \(120 weights, rank \d+, smallest eigenvalue -?\d.*e-\d+\): "
        r"make it \de-\d+ or more"
    )
    for carry_out in (
        dshap.prepare,
        lambda value, store: dshap.explain(value, data[:5], store=store),
    ):
        with pytest.raises(InputError, match=message):
            carry_out(values[name], store=tmp_path / "new")
        assert not list(tmp_path.iterdir())


def test_mse_v_wants_coalitions(model, data, rows):
    with pytest.raises(InputError, match="a closed form has none"):
        dshap.mse_v(KernelInterventional(model, data), rows, design="quadrature")


@pytest.mark.cluster
def test_a_cluster_prepares_the_same_states(data, rows, tmp_path, client):
    value = ConditionalRegression(target, data, RBF(1.0), Nystrom(15), "validate")
    here = dshap.prepare(value, store=tmp_path / "here", row_span=100)
    there = dshap.prepare(value, store=tmp_path / "there", row_span=100, client=client)
    cube = dshap.explain(there, rows, client=client)
    assert here.follows_from == there.follows_from
    for path in (tmp_path / "here" / "state").glob("*.npz"):
        with np.load(path) as left, np.load(tmp_path / "there" / "state" / path.name) as right:
            for name in left.files:
                assert_array_equal(left[name], right[name])
    assert_array_equal(cube.attribution, dshap.explain(here, rows).attribution)


def test_mse_v_is_its_definition(model, data, rows):
    """Mean over rows and proper coalitions of (f − v_S)², coalition by coalition, by the value
    function alone."""
    value = KernelObservational(model, data, Nystrom(20), 1e-3)
    chosen = value.chosen(value.choose(data))
    quality = dshap.mse_v(value, rows, coalition_tile=4)
    masks = designs.exact(4).masks[2:]
    values = chosen.evaluate(chosen.prepare(masks, chosen.moments(masks, data)), rows)
    f = model.expansion_.predict(rows)
    expected = np.square(f[:, None] - values).mean(axis=0)
    assert_array_equal(quality.masks, masks)
    assert_allclose(quality.mse_of_coalitions, expected, rtol=1e-6)
    assert_allclose(quality.mse, expected.mean(axis=0), rtol=1e-6)
    assert_allclose(quality.variance, f.var(axis=0), rtol=1e-9)
    assert_allclose(
        quality.by_size[:, 0],
        [expected[masks.sum(axis=1) == size].mean() for size in (1, 2, 3)],
        rtol=1e-6,
    )
    assert f"over 14 coalitions and {len(rows)} rows" in str(quality)


def test_mse_v_ranks_what_is_closer_to_the_conditional_expectation(model, data, rows):
    """Columns 0 and 1 go together: observational values beat interventional ones, and noise in them
    shows."""
    mse = {name: dshap.mse_v(make(model, data), rows).mse[0] for name, make in VALUES.items()}
    assert (
        max(mse["observational"], mse["regression"], mse["centred"], mse["fourier"])
        < 0.9 * mse["interventional"]
    )
    marginal = dshap.mse_v(Marginal(model.expansion_.predict, data), rows)
    assert_allclose(marginal.mse[0], mse["interventional"], rtol=1e-9)
