"""Columns of sinks, and blocks as batches of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.cube.blocks import CubeArrays
from dshap.sinks import CubeFacts, SingleRun, Sink, shapes
from dshap.sinks.line_forms import LineForm
from dshap.sinks.shapes import batches_of, value_numbers, value_texts
from dshap.sinks.table_columns import key_columns, table_schema
from dshap.values import Marginal, Tokens
from dshap.warehouse.databases import Database
from tests.sinks.nights import lines_of, ordered, random_nights

DATABASE = Database("duckdb:///w.duckdb")
TAIL = [
    "prediction", "base_value", "scale", "status", "model_version", "computed_at", "as_of", "run_id"
]  # fmt: skip
WIDE, LONG, TOP_K = map(LineForm, ("wide", "long", "top_k"))


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["wide", "long", "top_k"])
@pytest.mark.parametrize("outputs", [("y",), ("no", "yes")])
@pytest.mark.parametrize("batch_lines", [1, 5, 1_000])
def test_batches_are_the_lines_of_the_cube_in_its_order(
    tmp_path, monkeypatch, shape, outputs, batch_lines
):
    """However many lines a batch has; all rows, and chosen ones."""
    monkeypatch.setattr(shapes, "BATCH_LINES", batch_lines)
    night = random_nights(tmp_path, 5, 1, outputs)[0]
    sink = Sink("reasons", DATABASE, table="t", shape=shape, k=2)
    lines = lines_of(sink, night)
    found = [
        tuple(line.values())
        for batch in batches_of(sink, night.path, night)
        for line in batch.to_pylist()
    ]
    assert [line[:2] for line in found] == [line[:2] for line in lines]
    assert ordered(found) == ordered(lines)
    chosen = np.arange(len(night.rows)) % 3 == 1
    some = list(batches_of(sink, night.path, night, chosen))
    keys = {tuple(key) for key, is_chosen in zip(night.rows, chosen, strict=True) if is_chosen}
    assert {(line["id"], line["shop"]) for batch in some for line in batch.to_pylist()} == keys


def test_columns():
    facts = CubeFacts({"id": "int64", "when": "datetime64[ns]"}, ("a", "b"), ("y",))
    wide = table_schema(WIDE, facts)
    assert wide.names == ["id", "when", "class", "phi_a", "phi_b", *TAIL]
    assert wide.field("when").type == pa.timestamp("us")
    assert wide.field("computed_at").type == pa.timestamp("us", "UTC")
    several = CubeFacts({"id": "string"}, ("a",), ("no", "yes"), has_errors=True)
    assert table_schema(WIDE, several).names == ["id", "class", "phi_a", "std_error_a", *TAIL]
    of_features = ["feature", "value", "value_number", "attribution", "std_error"]
    assert table_schema(LONG, facts).names == ["id", "when", "class", *of_features, *TAIL]
    assert table_schema(TOP_K, facts).names == ["id", "when", "class", "rank", *of_features, *TAIL]


def test_a_key_with_a_name_of_the_table_is_told_apart():
    facts = CubeFacts({"Status": "int64", "feature": "string"}, ("a",), ("y",))
    assert key_columns(WIDE, facts) == {"Status": "key_Status", "feature": "feature"}
    assert key_columns(LONG, facts) == {"Status": "key_Status", "feature": "key_feature"}


def test_a_column_that_a_key_has_already_is_left_out():
    """A table with a line a key and date keeps its own date, which says more."""
    facts = CubeFacts({"id": "int64", "As_Of": "datetime64[ns]"}, ("a",), ("y",))
    names = table_schema(WIDE, facts).names
    assert names == ["id", "As_Of", "class", "phi_a", *(name for name in TAIL if name != "as_of")]


@pytest.mark.parametrize(
    ("values", "texts", "numbers"),
    [
        ([3.0, 0.1, np.nan, 1e20], ["3", "0.1", None, "1e+20"], [3.0, 0.1, None, 1e20]),
        (np.array([0.1], np.float32), ["0.1"], [float(np.float32(0.1))]),
        (np.array([2**53 + 1, -1]), ["9007199254740993", "-1"], [2.0**53, -1.0]),
        ([True, False], ["true", "false"], [None, None]),
        (np.array(["a", "", "ü"], np.dtypes.StringDType()), ["a", None, "ü"], [None] * 3),
        (
            np.array(["2024-02-29", "2024-02-29T10:00:00.5", "NaT"], "datetime64[us]"),
            ["2024-02-29", "2024-02-29T10:00:00.500000", None],
            [None] * 3,
        ),
    ],
)
def test_values_as_text_and_as_numbers(values, texts, numbers):
    values = np.asarray(values)
    assert value_texts(values).to_pylist() == texts
    assert value_numbers(values).to_pylist() == numbers


@pytest.mark.slow
def test_standard_errors_players_of_several_columns_and_the_explained_class(
    tmp_path, in_this_process
):
    """From a real cube: sampled coalitions, a group of columns, the class predicted for each row."""
    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(11)]
    frame = pd.DataFrame(rng.normal(size=(12, 11)), columns=names).assign(id=range(12))

    def predict(x):
        odds = np.exp(x[:, 0] + x[:, 1] * x[:, 2] + np.sin(x[:, 3]))
        return np.column_stack([odds, np.ones(len(x))]) / (1 + odds)[:, None]

    value = Marginal(
        predict,
        frame[names].to_numpy()[:4],
        feature_names=names,
        players={"place": ["x1", "x2"]},
        output_names=["no", "yes"],
        link="log_odds",
    )
    store = tmp_path / "cube"
    design = dshap.designs.kernelshap(10, n_coalitions=200)
    dshap.explain(
        value, frame, design=design, store=store, key="id", keep_rows=True, progress=False
    )
    cube = dshap.open_cube(store)
    facts = CubeFacts.of_cube(CubeArrays(store))
    assert facts.has_errors
    assert facts.keys == {"id": "int64"}
    sink = Sink("reasons", DATABASE, table="t", shape="long")
    table = pa.Table.from_batches(batches_of(sink, store, SingleRun("r", "m")))
    lines = table.to_pandas().set_index(["id", "class", "feature"])
    for i, feature in enumerate(cube.feature.values):
        line = lines.loc[5].xs(feature, level="feature").iloc[0]
        assert line.attribution == cube.attribution[5, i, 0]
        assert line.std_error == cube.std_error[5, i, 0] > 0
    chosen = np.where(predict(frame[names].to_numpy())[:, 0] > 0.5, "no", "yes")
    outputs = table.to_pandas().groupby("id")["class"]
    assert outputs.nunique().eq(1).all()
    assert outputs.first().tolist() == chosen.tolist()
    shown = lines.loc[(5, chosen[5], "place")]
    assert shown.value == f"x1 = {frame.x1[5]}, x2 = {frame.x2[5]}"
    assert np.isnan(shown.value_number)
    assert lines.loc[(5, chosen[5], "x0")].value_number == frame.x0[5]
    wide = Sink("reasons", DATABASE, table="t")
    (batch,) = batches_of(wide, store, SingleRun("r", "m"))
    errors = cube.std_error.sel(feature="place").values[:, 0]
    np.testing.assert_array_equal(batch["std_error_place"].to_numpy(), errors)


def test_blocks_that_are_not_finished_are_no_table(tmp_path):
    night = random_nights(tmp_path, 5, 1, ("y",))[0]
    receipt = night.path / "state" / "receipts" / "block-00000001.json"
    receipt.unlink()
    with pytest.raises(InputError, match="rows 8 to 15 are not finished"):
        list(batches_of(Sink("reasons", DATABASE, table="t"), night.path, night))


def test_a_cube_without_rows_is_an_empty_table(tmp_path):
    night = random_nights(tmp_path, 5, 1, ("y",))[0]
    nobody = np.zeros(len(night.rows), bool)
    sink = Sink("reasons", DATABASE, table="t")
    assert list(batches_of(sink, night.path, night, nobody)) == []


def predict_two_of_four(rows):
    """Columns 2 and 3 are ignored; rows with a first column of 0 are predicted as all 0."""
    return 1_000.0 + rows[:, 0] * (1.0 + np.exp(rows[:, 1]))


@pytest.mark.parametrize("design", ["exact", "kernelshap", "permutation"])
def test_a_feature_whose_attribution_is_0_is_no_reason(design):
    """Rounding leaves 1e-13 for the columns that the model ignores; a row of 0 alone keeps a line."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6, 4))
    rows[2] = 0.0
    background = np.zeros((1, 4))
    cube = dshap.explain(Marginal(predict_two_of_four, background), rows, design=design)
    lines = dshap.to_frame(cube, "top_k", k=3)
    assert lines.groupby("row").size().tolist() == [2, 2, 1, 2, 2, 2]
    reasons = lines[lines["row"] != 2]
    assert set(reasons["feature"]) == {"x0", "x1"}
    assert reasons["rank"].tolist() == [1, 2] * 5
    unmoved = lines[lines["row"] == 2].iloc[0]
    assert unmoved["status"] == "ok"
    assert unmoved["prediction"] == 1_000.0
    assert unmoved["rank"] == 0  # a whole number in every line
    assert pd.isna(unmoved[["feature", "attribution"]]).all()
    assert len(dshap.to_frame(cube, "long")) == 24


def test_small_attributions_are_reasons():
    """A billionth of the prediction is more than rounding."""
    value = Marginal(lambda rows: 1.0 + 1e-9 * rows[:, 0] + 0.0 * rows[:, 1], np.zeros((1, 2)))
    lines = dshap.to_frame(dshap.explain(value, np.ones((1, 2))), "top_k")
    assert lines["feature"].tolist() == ["x0"]


def test_the_reasons_of_a_text_end_with_it():
    """NaN beyond the end of a text hides no token, and a token that the model ignores is left out."""
    value = Tokens(lambda texts: np.array([float(7 in each) for each in texts]))
    lines = dshap.to_frame(dshap.explain(value, [[7, 2], [3, 3, 7]], progress=False), "top_k")
    assert lines[["row", "value"]].values.tolist() == [[0, "7"], [1, "7"]]
