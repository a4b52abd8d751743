"""Text, categorical and boolean columns: kept as such up to the model; the oracle mixes data frames
themselves."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.cube import verify_cube
from dshap.designs import exact
from dshap.kernels import RBF, Categorical, Nystrom, Product
from dshap.predictors.frames import Frame
from dshap.values import ConditionalRegression, Copula, Gaussian, Marginal
from tests.values.oracles import shapley

pytestmark = pytest.mark.usefixtures("in_this_process")

NAMES = ["job", "grade", "is_new", "children", "age"]
WORTH = {"cook": 1.0, "nurse": -0.5, "pilot": 2.0, "vet": 0.7}


def make_table(n: int, seed: int, jobs=("cook", "nurse", "pilot")) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "job": rng.choice(list(jobs), n),
            "grade": pd.Categorical(
                rng.choice(["low", "mid", "high"], n), ["low", "mid", "high"], ordered=True
            ),
            "is_new": rng.random(n) < 0.4,
            "children": rng.integers(0, 4, n),
            "age": rng.normal(40, 10, n).round(1),
        }
    )


TEMPLATE = make_table(3, 0)


def predict(frame):
    """Interactions of every order; refuses what is not a frame of the table's own dtypes."""
    assert list(frame.columns) == NAMES
    for name in ("job", "is_new", "children", "age"):
        assert frame[name].dtype == TEMPLATE[name].dtype, (name, frame[name].dtype)
    assert frame["grade"].dtype.categories.tolist()[:3] == ["low", "mid", "high"]
    assert frame["grade"].cat.ordered
    job = frame["job"].map(WORTH).fillna(-9.0).to_numpy()
    grade = frame["grade"].cat.codes.to_numpy()
    return (1 + job) * (2.0 - grade) * np.where(frame["is_new"], 1.5, -0.5) * (
        1 + frame["children"]
    ) + frame["age"] / 9


@pytest.fixture(scope="module")
def background():
    return make_table(12, 1)


@pytest.fixture(scope="module")
def rows():
    """A job that the background does not know."""
    return make_table(30, 2, jobs=("cook", "pilot", "vet"))


def mixed(background, row, coalition):
    out = background.copy()
    for name in coalition:
        if name == "grade":
            out[name] = pd.Categorical([row[name]] * len(out), ["low", "mid", "high"], ordered=True)
        else:
            out[name] = row[name]
    return out


def brute_force(background, row, players):
    """Shapley values (d,) of players, lists of columns, by frames that pandas mixes."""
    return shapley(
        lambda s: np.asarray(
            predict(mixed(background, row, [n for i in sorted(s) for n in players[i]])).mean()
        ),
        len(players),
    )


def test_columns_of_every_kind_against_brute_force(background, rows):
    cube = dshap.explain(Marginal(predict, background), rows, design=exact(5))
    for i in (0, 7, 29):
        wanted = brute_force(background, rows.iloc[i], [[name] for name in NAMES])
        np.testing.assert_allclose(cube.attribution[i, :, 0], wanted, atol=1e-12)
    assert cube.feature.values.tolist() == NAMES


def test_a_group_of_columns_is_one_player(background, rows):
    players = {"who": ["job", "age"], "kind": ["grade", "is_new"]}
    cube = dshap.explain(Marginal(predict, background, players=players), rows)
    assert cube.feature.values.tolist() == ["who", "kind", "children"]
    wanted = brute_force(
        background, rows.iloc[3], [["job", "age"], ["grade", "is_new"], ["children"]]
    )
    np.testing.assert_allclose(cube.attribution[3, :, 0], wanted, atol=1e-12)


@pytest.mark.slow
def test_every_table_gives_the_same(background, rows, tmp_path):
    """A frame, Parquet with text or dictionaries, a Dask dataframe; columns in another order,
    others beside them."""
    dd = pytest.importorskip("dask.dataframe")
    value = Marginal(predict, background)
    wanted = dshap.explain(value, rows).attribution
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=7)
    shuffled = rows.assign(other="x")[["other", *NAMES[::-1]]]
    for given in (
        tmp_path / "rows.parquet",
        shuffled,
        dd.from_pandas(rows, npartitions=3),
        rows.astype({"job": "category"}),
        rows.astype({"job": object}),
    ):
        np.testing.assert_array_equal(dshap.explain(value, given).attribution, wanted)


@pytest.mark.slow
def test_on_a_cluster(background, rows, client):
    value = Marginal(
        lambda frame: frame["job"].map({"cook": 1.0, "vet": 5.0}).fillna(0) * frame["age"],
        background,
    )
    here = dshap.explain(value, rows)
    there = dshap.explain(value, rows, client=client)
    np.testing.assert_array_equal(here.attribution, there.attribution)


def test_rows_are_kept_as_they_were(background, rows, tmp_path):
    store = tmp_path / "cube.zarr"
    dshap.explain(Marginal(predict, background), rows, store=store, keep_rows=True)
    import xarray as xr

    kept = xr.open_zarr(store, group="rows", consolidated=False)
    assert kept["job"].values.tolist() == rows["job"].tolist()
    assert kept["grade"].values.tolist() == rows["grade"].tolist()
    assert kept["is_new"].dtype == bool
    assert verify_cube(store) == []


def test_missing_values_reach_a_model_that_takes_them(background, rows):
    holes = rows.copy()
    holes.loc[0, "job"] = None
    seen = []

    def watch(frame):
        seen.append(frame["job"].isna().any())
        return frame["job"].map(WORTH).fillna(-9.0) + frame["age"]

    cube = dshap.explain(Marginal(watch, background), holes, missing="pass")
    assert any(seen)
    assert float(cube.prediction[0, 0]) == pytest.approx(-9.0 + rows["age"][0])
    with pytest.raises(InputError, match="1 row contains NaN or infinity: job 1"):
        dshap.explain(Marginal(watch, background), holes)


def test_equal_columns_are_skipped_for_text_too(background):
    """A row that is a background row but for one column: two predictions a pair are all."""
    row = background.iloc[[4]].assign(age=77.0)
    counted = []

    def count(frame):
        counted.append(len(frame))
        return predict(frame)

    value = Marginal(count, background.iloc[[4]])
    counted.clear()
    state = value.prepare(exact(5).block(2, 32).masks)
    value.evaluate(state, value.model.frame.codes(row))
    assert sum(counted) == 2


def test_round_trip_of_a_frame(background):
    frame = Frame.of(background)
    pd.testing.assert_frame_equal(frame.rebuilt(frame.codes(background)), background)
    nullable = background.assign(
        children=background["children"].astype("Int64"), job=background["job"].astype(object)
    )
    frame = Frame.of(nullable)
    back = frame.rebuilt(frame.codes(nullable))
    assert back["job"].dtype == object
    assert back["children"].tolist() == nullable["children"].tolist()


def test_frames_of_numbers_are_given_as_arrays(background):
    """As before: predict functions of arrays stay what they are."""
    assert Frame.of(background[["children", "age"]]) is None
    value = Marginal(lambda x: x[:, 0] * x[:, 1], background[["children", "age"]])
    assert value.model.frame is None
    assert value.model.categories == {}


def test_numbers_that_the_first_dtype_cannot_hold_are_kept(background):
    """A background of whole numbers, small ones: rows between and beyond them are neither cut nor
    wrapped."""
    frame = Frame.of(background.assign(children=np.int8(3)))
    rows = background.assign(children=[1.75, 300.0] * (len(background) // 2))
    np.testing.assert_array_equal(
        frame.rebuilt(Frame.of(rows).codes(rows))["children"], rows["children"]
    )
    whole = frame.rebuilt(frame.codes(background.assign(children=np.int8(7))))
    assert whole["children"].dtype == np.int8


def test_fractions_of_a_nullable_column_of_whole_numbers():
    """They stay fractions; whole ones, and missing ones, keep its dtype."""
    frame = Frame.of(
        pd.DataFrame({"i": pd.array([1, None], "Int64"), "b": pd.array([True, None], "boolean")})
    )
    assert frame.rebuilt(np.array([[1.75, 0.5]])).dtypes.eq(float).all()
    assert frame.rebuilt(np.array([[2.0, np.nan]])).dtypes.astype(str).tolist() == [
        "Int64",
        "boolean",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Gaussian, Copula])
def test_draws_are_handed_in_the_form_of_the_data(kind):
    """A function of columns by name gets data frames, one of places arrays: the same numbers."""
    table = NUMBERS.assign(a=np.round(NUMBERS["a"]))
    cubes = [
        dshap.explain(kind(predict, table, n_samples=20, **options), table[:3])
        for predict, options in ((by_names, {}), (by_places, {}), (by_places, {"arrays": True}))
    ]
    for cube in cubes[1:]:
        np.testing.assert_array_equal(cube.attribution, cubes[0].attribution)
    assert "gets data frames" in cubes[0].attrs["predict"]
    assert "predict" not in cubes[2].attrs


def test_numbers_of_nullable_dtypes_keep_them():
    """Int64, boolean and Float64, which know a missing value of their own; text beside them."""
    table = pd.DataFrame(
        {
            "i": [1, 2, None, 4],
            "b": [True, None, False, True],
            "x": [0.5, None, 1.5, 2.0],
            "t": ["a", "b", "a", None],
        }
    ).convert_dtypes()
    seen = []

    def counted(frame):
        seen.append(frame.dtypes)
        is_a = (frame["t"] == "a").fillna(False).to_numpy(dtype=float)
        return (
            frame["i"].fillna(0).to_numpy(dtype=float)
            + 2 * frame["b"].fillna(False).to_numpy(dtype=float) * is_a
        )

    cube = dshap.explain(Marginal(counted, table[:2]), table, missing="pass")
    assert all(own.equals(table.dtypes) for own in seen)
    np.testing.assert_allclose(cube.prediction[:, 0], counted(table))


@pytest.mark.slow
def test_estimators_that_were_fitted_on_frames_get_them_from_any_background(background, tmp_path):
    compose = pytest.importorskip("sklearn.compose", reason="scikit-learn is not installed")
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline

    numbers = background[["children", "age"]].astype(float)
    model = make_pipeline(
        compose.ColumnTransformer([("as it is", "passthrough", ["age"])]), LinearRegression()
    )
    model.fit(numbers, numbers["age"] * 2.0)
    numbers.to_parquet(tmp_path / "b.parquet")
    wanted = dshap.explain(Marginal(model.predict, numbers), numbers).attribution
    chosen = dshap.choose_background(numbers, len(numbers), method="random")
    for other in (numbers.to_numpy(), tmp_path / "b.parquet", chosen):
        found = dshap.explain(Marginal(model.predict, other), numbers).attribution
        np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_quality_and_prepared_values_of_text(background, rows, tmp_path):
    """Held-out rows with a category of their own are told to the model; rows to learn from may hold
    none."""
    kernel = Product([Categorical(), Categorical(), Categorical(), RBF(2.0), RBF(15.0)])
    value = ConditionalRegression(predict, background, kernel, Nystrom(10), penalty=1e-3)
    cube = dshap.explain(value, background, quality=rows)
    f = predict(rows)
    found = json.loads(cube.attrs["mse_v"])
    assert found["mse"][0] / found["share_of_variance"][0] == pytest.approx(np.var(f), rel=1e-6)
    assert dshap.mse_v(value, rows).mse == pytest.approx(found["mse"])
    prepared = dshap.prepare(value, rows=make_table(40, 9), store=tmp_path / "one")
    assert dshap.explain(prepared, rows).prediction.values[:, 0] == pytest.approx(f)
    with pytest.raises(
        InputError,
        match="column 'job' contains 'vet', which is not in the data of the value function",
    ):
        dshap.prepare(value, rows=rows, store=tmp_path / "two")


def test_estimators_that_were_fitted_on_frames_get_frames(background):
    """Columns that a pipeline selects by name are found, and nothing warns."""
    compose = pytest.importorskip("sklearn.compose", reason="scikit-learn is not installed")
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    numbers = background[["children", "age"]]
    model = make_pipeline(
        compose.ColumnTransformer([("scaled", StandardScaler(), ["age"])]), LinearRegression()
    )
    model.fit(numbers, background["age"] * 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cube = dshap.explain(Marginal(model.predict, numbers), numbers)
    np.testing.assert_allclose(
        cube.attribution[:, 1, 0], 2 * (numbers.age - numbers.age.mean()), atol=1e-9
    )


def test_regression_with_categorical_factors(background):
    """The model is called with frames; codes are compared, never subtracted."""
    table = make_table(300, 5)
    kernel = Product([Categorical(), Categorical(), Categorical(), RBF(2.0), RBF(15.0)])
    value = ConditionalRegression(predict, table, kernel, Nystrom(100), penalty=1e-5)
    cube = dshap.explain(value, table.iloc[:40])
    np.testing.assert_allclose(cube.prediction[:, 0], predict(table.iloc[:40]), rtol=1e-12)
    renamed = table.assign(job=table["job"].map({"cook": "z", "nurse": "m", "pilot": "a"}))

    def same(frame):
        return predict(
            frame.assign(job=frame["job"].map({"z": "cook", "m": "nurse", "a": "pilot"}))
        )

    other = dshap.explain(
        ConditionalRegression(same, renamed, kernel, Nystrom(100), penalty=1e-5), renamed.iloc[:40]
    )
    # other codes only move the k-means++ seeds of the landmarks
    gap = np.abs(other.attribution - cube.attribution).max() / np.abs(cube.attribution).max()
    assert float(gap) < 0.15


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda b, r: Gaussian(predict, b),
            "column 'job' contains text or categories, which Gaussian cannot draw",
        ),
        (
            lambda b, r: ConditionalRegression(predict, b, RBF(), Nystrom(5)),
            r"column 'job' contains categories, whose codes have no distances: .*Categorical\(\) for this one",
        ),
        (
            lambda b, r: dshap.explain(
                ConditionalRegression(predict, b, Product([Categorical()] * 3), Nystrom(5)), r
            ),
            "Product has 3 values for 5 columns: give one, or one for each column",
        ),
        (
            lambda b, r: Marginal(predict, b.assign(age=["x", 1] * (len(b) // 2))),
            r"column 'age' contains 1 \(int\)",
        ),
        (
            lambda b, r: Marginal(predict, b.assign(age=pd.Period("2020"))),
            r"column 'age' contains Period.*convert it",
        ),
        (
            lambda b, r: dshap.explain(Marginal(predict, b), r.to_numpy()),
            "text columns.*give a data frame or a path",
        ),
        (
            lambda b, r: dshap.explain(Marginal(predict, b), r.assign(job=1.0)),
            "column 'job' contains double here, and text",
        ),
        (
            lambda b, r: dshap.explain(Marginal(predict, b), r.assign(age="x")),
            "column 'age' contains text",
        ),
        (
            lambda b, r: dshap.explain(Marginal(predict, b), r.drop(columns="job")),
            "unknown column 'job'",
        ),
        (lambda b, r: dshap.choose_background(b, 3, features=NAMES), "column 'job' contains text"),
    ],
)
def test_bad_frames_are_refused(make, message, background, rows):
    with pytest.raises(InputError, match=message):
        make(background, rows)


def test_too_many_categories_are_refused(background, monkeypatch):
    monkeypatch.setattr("dshap.tables.categories.MAX_CATEGORIES", 50)
    rows = make_table(80, 3).assign(job=[f"job {i}" for i in range(80)])
    with pytest.raises(
        InputError,
        match="column 'job' contains 83 different values, at most 50 categories are taken",
    ):
        dshap.explain(Marginal(predict, background), rows)


def test_another_model_of_the_same_codes_is_another_run(background, rows, tmp_path):
    """Categories are in the fingerprint: the same numbers under other names are not resumed."""
    store = tmp_path / "cube.zarr"
    dshap.explain(Marginal(lambda f: f["age"], background), rows, store=store)
    renamed = background.assign(job=background["job"].str.upper())
    with pytest.raises(dshap.DshapError, match="contains a different run"):
        dshap.explain(
            Marginal(lambda f: f["age"], renamed),
            rows.assign(job=rows["job"].str.upper()),
            store=store,
        )


NUMBERS = pd.DataFrame(np.random.default_rng(3).normal(size=(20, 3)), columns=["a", "b", "c"])


def by_names(frame):
    return frame["a"] * (1 + frame["b"])


def by_places(rows):
    return rows[:, 0] * (1 + rows[:, 1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("predict", "options", "is_framed", "said"),
    [
        (by_names, {}, True, "gets data frames, which it took first"),
        (by_places, {}, False, r"gets arrays, as a data frame gave no numbers"),
        (lambda rows: by_places(np.asarray(rows)), {}, True, "gets data frames"),
        (by_names, {"arrays": False}, True, None),
        (by_places, {"arrays": True}, False, None),
    ],
)
def test_a_frame_of_numbers_is_tried_then_an_array(predict, options, is_framed, said, tmp_path):
    """The same numbers either way; the plan and the cube say what was taken where it was found
    out."""
    value = Marginal(predict, NUMBERS, **options)
    assert (value.model.frame is not None) == is_framed
    cube = dshap.explain(value, NUMBERS[:4], store=tmp_path / "cube.zarr")
    wanted = dshap.explain(Marginal(by_places, NUMBERS.to_numpy()), NUMBERS[:4].to_numpy())
    np.testing.assert_allclose(cube.attribution, wanted.attribution, atol=1e-12)
    reasons = dict(json.loads((tmp_path / "cube.zarr/state/plan.json").read_text())["reasons"])
    if said is None:
        assert "predict" not in reasons
        assert "predict" not in cube.attrs
    else:
        assert re.match(said, reasons["predict"])
        assert re.match(said, json.loads(cube.attrs["predict"])["rows"])


@pytest.mark.slow
@pytest.mark.parametrize("on_frame", [True, False])
def test_a_function_around_an_estimator_gets_what_it_was_fitted_on(on_frame):
    """scikit-learn warns of names that it was not fitted on, and of none where it was."""
    linear = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")
    rows = NUMBERS if on_frame else NUMBERS.to_numpy()
    model = linear.LinearRegression().fit(rows, by_names(NUMBERS))
    for predict in (model.predict, lambda rows: model.predict(rows)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value = Marginal(predict, NUMBERS)
            assert (value.model.frame is not None) == on_frame
            dshap.explain(value, NUMBERS[:3])


def test_a_warning_of_a_function_that_takes_frames_alone():
    def predict(frame):
        warnings.warn("beware", UserWarning, stacklevel=1)
        return by_names(frame)

    with pytest.warns(UserWarning, match="beware"):
        assert Marginal(predict, NUMBERS).model.frame is not None


def test_frames_of_an_array_with_names():
    value = Marginal(by_names, NUMBERS.to_numpy(), feature_names=["a", "b", "c"], arrays=False)
    wanted = dshap.explain(Marginal(by_names, NUMBERS), NUMBERS[:3])
    np.testing.assert_allclose(dshap.explain(value, NUMBERS[:3]).attribution, wanted.attribution)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Marginal(by_names, NUMBERS, arrays=True),
            r"failed: IndexError: .*; predict was given an array \(20, 3\): give arrays=False for frames$",
        ),
        (
            lambda: Marginal(by_names, NUMBERS.to_numpy(), feature_names=["a", "b", "c"]),
            r"predict was given an array \(20, 3\): give arrays=False for frames$",
        ),
        (
            lambda: Marginal(lambda rows: rows["z"], NUMBERS),
            r"KeyError: 'z' \(given a data frame\); predict was given an array \(20, 3\) too: failed: IndexError",
        ),
        (
            lambda: Marginal(by_names, NUMBERS.to_numpy(), arrays=False),
            "have no names: give feature_names",
        ),
        (
            lambda: Marginal(predict, make_table(9, 0), arrays=True),
            "arrays=True, and column 'job' contains text",
        ),
        (lambda: Marginal(by_names, NUMBERS, arrays="no"), "arrays is 'no': give True or False"),
        (
            lambda: Marginal(lambda rows: rows[:, 0] + 1j, NUMBERS.to_numpy()),
            "gives complex numbers: give real ones$",
        ),
    ],
)
def test_forms_that_do_not_go(make, message):
    with pytest.raises(InputError, match=message):
        make()
