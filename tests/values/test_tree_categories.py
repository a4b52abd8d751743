"""Trees on data frames with categories: the library's own contributions on the frame, whatever
table holds the rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.cube import verify_cube
from dshap.tables import ParquetSource
from dshap.trees.tree_categories import kept_categories
from dshap.values import Trees

pytestmark = pytest.mark.usefixtures("in_this_process")

JOBS = ["cook", "nurse", "pilot", "vet", "clerk", "smith"]
NAMES = ["age", "job", "pay", "ward"]


def make_table(n: int, seed: int) -> pd.DataFrame:
    """Text categories in no alphabetical order, and 40 categories that are numbers."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(size=n),
            "job": pd.Categorical(rng.choice(JOBS, n), JOBS),
            "pay": rng.normal(size=n),
            "ward": pd.Categorical(rng.integers(0, 40, n) * 10, range(0, 400, 10)),
        }
    )


def target(table):
    job, ward = table["job"].cat.codes, table["ward"].cat.codes
    return (
        (1 + table["age"]) * (job % 3) * (1 - table["pay"]) + np.sin(ward) * table["age"]
    ).to_numpy()


def with_holes(table):
    job = table["job"].where(np.arange(len(table)) % 5 > 0)
    return table.assign(job=job, pay=table["pay"].where(np.arange(len(table)) % 7 > 0))


def lightgbm_model(x, y, **options):
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    kind = lightgbm.LGBMClassifier if y.dtype.kind == "i" else lightgbm.LGBMRegressor
    model = kind(n_estimators=12, n_jobs=1, verbose=-1).fit(x, y, **options)
    return (
        model,
        lambda rows: model.predict(rows, pred_contrib=True),
        lambda r: model.predict(r, raw_score=True),
    )


def xgboost_model(x, y, **options):
    xgboost = pytest.importorskip(
        "xgboost", minversion="3.1", reason="xgboost 3.1 is not installed"
    )
    kind = xgboost.XGBClassifier if y.dtype.kind == "i" else xgboost.XGBRegressor
    model = kind(n_estimators=12, n_jobs=1, enable_categorical=True, **options).fit(x, y)
    booster = model.get_booster()

    def contributions(rows):
        return booster.predict(xgboost.DMatrix(rows, enable_categorical=True), pred_contribs=True)

    return model, contributions, lambda rows: model.predict(rows, output_margin=True)


LIBRARIES = {"lightgbm": lightgbm_model, "xgboost": xgboost_model}


@pytest.fixture(scope="module")
def table():
    return make_table(1_200, 0)


@pytest.fixture(scope="module")
def rows():
    return make_table(60, 1)


def shuffled(rows, tmp_path):
    job, ward = rows["job"].cat, rows["ward"].cat
    return rows.assign(
        job=job.reorder_categories(sorted(JOBS)), ward=ward.reorder_categories(range(390, -1, -10))
    )


def parquet(rows, tmp_path):
    rows.to_parquet(tmp_path / "dictionary.parquet", row_group_size=13)
    return tmp_path / "dictionary.parquet"


def parquet_of_text(rows, tmp_path):
    rows.astype({"job": object, "ward": "Int64"}).to_parquet(
        tmp_path / "text.parquet", row_group_size=13
    )
    return tmp_path / "text.parquet"


TABLES = {
    "as at the fit": lambda rows, _: rows,
    "categories in another order": shuffled,
    "only those that occur": lambda rows, _: rows.assign(
        job=rows["job"].cat.remove_unused_categories()
    ),
    "more categories": lambda rows, _: rows.assign(
        job=rows["job"].cat.add_categories(["astronaut"])
    ),
    "ordered": lambda rows, _: rows.assign(job=rows["job"].cat.as_ordered()),
    "objects": lambda rows, _: rows.astype({"job": object, "ward": float}),
    "text": lambda rows, _: rows.astype({"job": "string", "ward": "Int16"}),
    "columns in another order": lambda rows, _: rows.assign(other="x")[["other", *NAMES[::-1]]],
    "a dictionary in Parquet": parquet,
    "text in Parquet": parquet_of_text,
    "Arrow": lambda rows, _: pytest.importorskip("pyarrow").Table.from_pandas(rows),
    "Dask": lambda rows, _: pytest.importorskip("dask.dataframe").from_pandas(rows, npartitions=3),
}


def check(value, given, contributions, margins, **options):
    """1e-6 relative is asked for: XGBoost adds in float32, and both are its own sums."""
    cube = dshap.explain(value, given, **options)
    k = cube.sizes["output"]
    wanted = (
        np.asarray(contributions).reshape(len(contributions), k, len(NAMES) + 1).transpose(0, 2, 1)
    )
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(cube.attribution, wanted[:, :-1], rtol=0, atol=1e-6 * scale)
    np.testing.assert_allclose(cube.base_value, wanted[0, -1], rtol=0, atol=1e-6 * scale)
    np.testing.assert_allclose(
        cube.prediction, np.asarray(margins).reshape(-1, k), rtol=0, atol=1e-6 * scale
    )
    return cube


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", TABLES)
def test_every_table_gives_the_librarys_contributions(kind, library, table, rows, tmp_path):
    model, contributions, margins = LIBRARIES[library](table, target(table))
    cube = check(Trees(model), TABLES[kind](rows, tmp_path), contributions(rows), margins(rows))
    assert cube.feature.values.tolist() == NAMES


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_missing_values_and_classes(library, table, rows, tmp_path):
    """Three classes, fitted with holes and without, explained with holes; the store verifies and
    keeps the text."""
    holes, classes = with_holes(rows), np.digitize(target(table), [0.0, 1.0])
    for i, fitted in enumerate((table, with_holes(table))):
        model, contributions, margins = LIBRARIES[library](fitted, classes)
        store = tmp_path / f"{i}.zarr"
        check(
            Trees(model),
            holes,
            contributions(holes),
            margins(holes),
            missing="pass",
            store=store,
            keep_rows=True,
        )
        assert verify_cube(store) == []
    with pytest.raises(InputError, match=r"19 rows contain NaN or infinity: job 12, pay 9"):
        dshap.explain(Trees(model), holes)


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_on_a_cluster(library, table, rows, client, tmp_path):
    model, contributions, margins = LIBRARIES[library](table, target(table))
    check(Trees(model), parquet(rows, tmp_path), contributions(rows), margins(rows), client=client)


@pytest.mark.slow
def test_a_category_that_lightgbm_does_not_know_is_missing(table, rows):
    """As in its own predictions; ordered categories, which are numbers to it, too."""
    ordered = table.assign(job=table["job"].cat.as_ordered())
    lists = {"job": JOBS, "ward": range(0, 400, 10)}
    new = rows.assign(job=pd.Categorical(["astronaut", "cook"] * 30))
    for fitted, given in ((table, None), (with_holes(table), None), (ordered, lists)):
        model, contributions, margins = lightgbm_model(fitted, target(table))
        check(Trees(model, categories=given), new, contributions(new), margins(new))


@pytest.mark.parametrize("word", ["astronaut", "zoologist"])
def test_a_category_that_xgboost_does_not_know_is_refused(word, table, rows):
    """XGBoost refuses it, or (3.2, where it sorts before all others) takes it for another one."""
    model, _, _ = xgboost_model(table, target(table))
    with pytest.raises(
        InputError,
        match=rf"column 'job' contains '{word}' in 1 row \(a category .*XGBoost refuses: drop these rows",
    ):
        dshap.explain(Trees(model), rows.assign(job=[word, *["cook"] * 59]))


def test_ordered_categories_of_lightgbm_are_given(table, rows):
    """It keeps their lists, and not of which columns."""
    ordered = table.assign(job=table["job"].cat.as_ordered())
    model, contributions, margins = lightgbm_model(ordered, target(table))
    with pytest.raises(
        InputError,
        match=r"categories of 2 columns \(\['cook', 'nurse', 'pilot', …\]; \[0, 10, 20, …\]\)",
    ):
        Trees(model)
    lists = {"ward": list(range(0, 400, 10)), "job": JOBS}
    check(Trees(model, categories=lists), rows, contributions(rows), margins(rows))
    for wrong, message in (
        (
            {"ward": lists["ward"], "job": JOBS[::-1]},
            r"categories of 'job' are \['smith', 'clerk', 'vet', …\], and the ",
        ),
        ({"job": JOBS}, "categories of 2 columns"),
        ({"age": JOBS, "ward": lists["ward"]}, "categories of 2 columns"),
    ):
        with pytest.raises(InputError, match=message):
            Trees(model, categories=wrong)


def test_columns_of_codes_that_lightgbm_was_told_of_are_not_mistaken(table):
    """categorical_feature= names a column of numbers, and the one list is that of another column:
    40 codes, 3 words."""
    x = table.assign(
        job=pd.Categorical(np.arange(1_200) % 3).rename_categories(list("uvw")).as_ordered()
    )
    x = x.assign(ward=x["ward"].cat.codes.astype(int))
    model, _, _ = lightgbm_model(x, target(table), categorical_feature=["ward"])
    with pytest.raises(InputError, match="keeps the categories of 1 columns"):
        Trees(model)


def test_codes_that_lightgbm_was_fitted_on(table, rows):
    """categorical_feature= of an array: codes, as they are, in arrays and in frames; interactions
    too."""
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")

    def coded(frame):
        return frame.assign(job=frame["job"].cat.codes, ward=frame["ward"].cat.codes).astype(float)

    data = lightgbm.Dataset(coded(table), target(table), categorical_feature=["job", "ward"])
    booster = lightgbm.train({"verbose": -1, "num_threads": 1}, data, 9)
    wanted = (
        booster.predict(coded(rows), pred_contrib=True),
        booster.predict(coded(rows), raw_score=True),
    )
    assert Trees(booster).model.categories == {}
    for given in (coded(rows), coded(rows).to_numpy()):
        cube = check(Trees(booster), given, *wanted, interactions=True)
        np.testing.assert_allclose(
            cube.interaction.sum("feature_other"), cube.attribution, atol=1e-12
        )


@pytest.mark.slow
def test_codes_that_xgboost_was_fitted_on(table, rows):
    """Without names: arrays of codes. With names: their lists must be given, since frames may have
    had categories."""
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")

    def coded(frame):
        return np.column_stack(
            [frame["age"], frame["job"].cat.codes, frame["pay"], frame["ward"].cat.codes]
        ).astype(float)

    types = ["q", "c", "q", "c"]
    plain = xgboost.DMatrix(
        coded(table), target(table), feature_types=types, enable_categorical=True
    )
    asked = xgboost.DMatrix(coded(rows), feature_types=types, enable_categorical=True)
    booster = xgboost.train({"nthread": 1}, plain, 5)
    wanted = booster.predict(asked, pred_contribs=True), booster.predict(asked, output_margin=True)
    check(Trees(booster), coded(rows), *wanted)
    booster.feature_names = NAMES
    with pytest.raises(
        InputError,
        match=r"did not keep the categories of 'job' .*give categories=\{'job': \[\.\.\.\]\}",
    ):
        Trees(booster)
    lists = {"job": JOBS, "ward": range(0, 400, 10)}
    check(Trees(booster, categories=lists), shuffled(rows, None), *wanted)
    numbers = Trees(booster, categories={"job": range(6), "ward": range(40)})
    check(numbers, pd.DataFrame(coded(rows), columns=NAMES), *wanted)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "values", [None, pd.NA, pd.Categorical([np.nan] * 60)], ids=["None", "NA", "no category"]
)
def test_a_column_of_nothing_but_missing_values(values, library, table, rows):
    """It has no kind, text or number."""
    model, contributions, margins = LIBRARIES[library](with_holes(table), target(table))
    empty = rows.assign(job=rows["job"].where(rows["age"] > 99))
    check(
        Trees(model), rows.assign(job=values), contributions(empty), margins(empty), missing="pass"
    )


def test_other_lists_are_another_run(table, rows, tmp_path):
    """The same codes under other names are not resumed."""
    model, _, _ = lightgbm_model(table, target(table))
    dshap.explain(Trees(model), rows, store=tmp_path / "cube.zarr")
    renamed = {job: job.upper() for job in JOBS}
    other, _, _ = lightgbm_model(
        table.assign(job=table["job"].cat.rename_categories(renamed)), target(table)
    )
    capital = rows.assign(job=rows["job"].cat.rename_categories(renamed))
    with pytest.raises(dshap.DshapError, match="contains a different run"):
        dshap.explain(Trees(other), capital, store=tmp_path / "cube.zarr")


def shared(library, table):
    return LIBRARIES[library](table, target(table))[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda m, r: dshap.explain(Trees(m), r.assign(job=1.0)),
            "column 'job' contains double here, and text in",
        ),
        (
            lambda m, r: dshap.explain(Trees(m), r.assign(ward="ten")),
            "'ward' contains .*string here, and categories that",
        ),
        (
            lambda m, r: dshap.explain(Trees(m), np.zeros((3, 4))),
            "takes text columns .*: give a data frame or a path",
        ),
        (
            lambda m, r: dshap.explain(Trees(m), r.drop(columns="job")),
            "lacks a column of the model: .*'job'",
        ),
        (
            lambda m, r: Trees(m, categories={"jobs": JOBS}),
            "categories: unknown column 'jobs'.*job",
        ),
        (
            lambda m, r: Trees(m, categories={"job": JOBS, "ward": [1, 2]}),
            "categories of 'ward' are .*the model keeps",
        ),
        (
            lambda m, r: Trees(m, categories={"job": JOBS + JOBS}),
            "categories is .*lists of different values",
        ),
    ],
)
@pytest.mark.parametrize("library", LIBRARIES)
def test_bad_input_is_refused(library, make, message, table, rows):
    with pytest.raises(InputError, match=message) as caught:
        make(shared(library, table), rows)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_source_that_reads_categories_as_numbers_is_refused(library, table, rows, tmp_path):
    """Its numbers would be taken for codes."""
    x = table[["age", "ward"]]
    model, contributions, _ = LIBRARIES[library](x, target(table))
    rows[["age", "ward"]].astype({"ward": int}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(
        InputError, match="takes the categories of column 'ward', and the source was opened without"
    ):
        dshap.explain(Trees(model), ParquetSource(tmp_path / "t.parquet"))
    opened = ParquetSource(tmp_path / "t.parquet", categories=Trees(model).model.categories)
    found = dshap.explain(Trees(model), opened).attribution[..., 0]
    np.testing.assert_allclose(found, contributions(rows[["age", "ward"]])[:, :-1], atol=1e-6)


@pytest.mark.parametrize(
    ("values", "message"),
    [([2**60, 2**60 + 1, 5], "rounds integers beyond"), (["a", 1, 2], "are text and numbers")],
)
def test_categories_that_cannot_be_told_apart_are_refused(values, message, table):
    x = table[["age"]].assign(who=pd.Categorical([values[i % 3] for i in range(len(table))]))
    model, _, _ = lightgbm_model(x, target(table))
    with pytest.raises(InputError, match=message):
        Trees(model)


CITIES = ["Köln", "Zürich", "a – b", "Ærø", "東京", "Berlin", "ß" * 50, ""]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("n_classes", [0, 3])
def test_categories_beyond_ascii(n_classes, library, tmp_path):
    """Umlauts, dashes and other scripts, on the rows of the fit and read from a file again."""
    if library == "xgboost":
        pytest.importorskip("xgboost", minversion="3.4")  # 3.2 cuts these names
    rng = np.random.default_rng(0)
    n = 300
    x = pd.DataFrame(
        {
            "Straße": pd.Categorical(rng.choice(CITIES, n), CITIES),
            "pay": rng.normal(size=n),
            'Größe – "cats":{': pd.Categorical(rng.integers(0, 4, n) - 1, [2, 0, 1, -1]),
        }
    )
    y = (x["Straße"].cat.codes % 3 * (1 + x["pay"]) + x.iloc[:, 2].cat.codes).to_numpy()
    if n_classes:
        y = np.digitize(y, [0.5, 2.0])
    if library == "lightgbm":
        x = x.rename(columns={x.columns[2]: "Größe"})  # LightGBM refuses JSON in names
    model, contributions, margins = LIBRARIES[library](x, y)
    rows = x[:40].astype(object)
    cube = dshap.explain(Trees(model), rows)
    k = cube.sizes["output"]
    wanted = np.reshape(margins(x[:40]), (40, k))
    np.testing.assert_allclose(cube.prediction, wanted, rtol=0, atol=1e-5)
    found = contributions(x[:40])
    phi = np.reshape(found, (40, k, 4)).transpose(0, 2, 1)[:, :-1]
    np.testing.assert_allclose(cube.attribution, phi, rtol=0, atol=1e-5)


def test_categories_that_the_library_exports_wrongly_are_not_believed(monkeypatch, table, rows):
    """`get_categories` of XGBoost 3.2 cuts names of more bytes than characters."""
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    model, contributions, margins = xgboost_model(table, target(table))

    def get_categories(self, export_to_arrow=False):
        raise UnicodeDecodeError("utf-8", b"K\xc3", 1, 2, "unexpected end of data")

    monkeypatch.setattr(xgboost.Booster, "get_categories", get_categories)
    check(Trees(model), rows, contributions(rows), margins(rows))


@pytest.mark.parametrize("version", ["3.2.0", "3.3.1"])
def test_names_are_not_read_where_xgboost_cuts_them(version, monkeypatch):
    """The first bytes, as many as there are characters, and the offsets of characters: all decode."""
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    names = ["Köln", "Zürich", "a–b", "Bonn"]
    whole = "".join(names)
    encoded = {"offsets": [0, 4, 10, 13, 17], "values": list(whole.encode()[: len(whole)])}
    content = {"learner": {"cats": {"enc": [encoded]}}}

    class Booster:
        def save_raw(self, raw_format):
            return bytearray(json.dumps(content, separators=(",", ":")).encode())

    monkeypatch.setattr(xgboost, "__version__", version)
    with pytest.raises(
        InputError, match=r"XGBoost before 3\.4 cuts names .* fit it again"
    ) as caught:
        kept_categories(Booster())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda names: (names[1], names[0], *names[2:]), "they predict otherwise than their codes"),
        (
            lambda names: (names[0][:-1], *names[1:]),
            "cannot be read .*: give categories as numbers",
        ),
    ],
)
def test_categories_are_checked_against_their_codes(wrong, message, monkeypatch, table):
    from dshap.trees import tree_categories

    model, _, _ = xgboost_model(table, target(table))
    plain = tree_categories.unpacked

    def names(encoded):
        found = plain(encoded)
        return wrong(found) if "cook" in found else found

    monkeypatch.setattr(tree_categories, "unpacked", names)
    with pytest.raises(InputError, match=message) as caught:
        Trees(model)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("n", [1, 4_095, 4_096, 4_097])
def test_lists_of_any_length_are_checked(n):
    """One category, and lists around the rows of one call of the check."""
    xgboost = pytest.importorskip("xgboost", minversion="3.4")  # 3.2 cuts these names
    listed = [f"é{j}" for j in range(n)]
    codes = np.arange(max(n, 20)) % n
    x = pd.DataFrame({"city": pd.Categorical.from_codes(codes, listed)})
    y = np.sin(np.arange(len(x)))
    model = xgboost.XGBRegressor(n_estimators=2, enable_categorical=True, n_jobs=1).fit(x, y)
    assert Trees(model).model.categories == {"city": tuple(listed)}


def test_categories_beside_whole_numbers_and_truth_values(table, rows):
    """XGBoost keeps the types of all columns."""
    pytest.importorskip("xgboost", reason="xgboost is not installed")

    def typed(frame):
        return frame.assign(age=frame["age"].round().astype(int), pay=frame["pay"] > 0)

    x = typed(table)
    model, _, margins = xgboost_model(x, target(table))
    cube = dshap.explain(Trees(model), typed(rows))
    np.testing.assert_allclose(cube.prediction[:, 0], margins(typed(rows)), atol=1e-5)


def test_names_of_one_column_and_codes_of_another(table):
    """The codes have no names: their list must be given."""
    xgboost = pytest.importorskip("xgboost", minversion="3.1", reason="xgboost 3.1 is needed")
    x = table.assign(ward=table["ward"].cat.codes.astype(int))
    rows = xgboost.DMatrix(
        x, target(table), feature_types=["q", "c", "q", "c"], enable_categorical=True
    )
    booster = xgboost.train({"nthread": 1}, rows, 3)
    with pytest.raises(InputError, match=r"did not keep the categories of '(job|ward)'"):
        Trees(booster)
