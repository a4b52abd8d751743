"""Cubes as data frames and files: the columns and lines of a sink."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import dshap
from dshap.core.errors import DoesNotFitError, InputError
from dshap.sinks import Sink
from dshap.sinks.frames import OF_LOADS, CubeTable, export_file, to_frame
from dshap.sinks.shapes import batches_of
from dshap.values import Marginal, Tokens
from dshap.warehouse.databases import Database
from tests.cube.cubes import make_cube
from tests.sinks.nights import random_nights

SHAPES = ("wide", "long", "top_k")
NAMES = ["age", "lat", "lon", "plan"]
rng = np.random.default_rng(0)
FRAME = pd.DataFrame(rng.normal(size=(30, 3)), columns=NAMES[:3]).assign(
    plan=["free", "paid", "trial"] * 10, id=range(100, 130)
)
GROUPS = {"place": ["lat", "lon"]}


def predict(rows):
    odds = np.exp(rows["age"] * rows["lat"] + (rows["plan"] == "paid"))
    return np.column_stack([odds, np.ones(len(rows))]) / (1 + odds).to_numpy()[:, None]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A cube whose rows have one class each, two columns as one player, and text."""
    path = tmp_path_factory.mktemp("frames") / "cube"
    names = ["no", "yes"]
    value = Marginal(predict, FRAME[NAMES][:5], players=GROUPS, output_names=names, link="log_odds")
    dshap.explain(value, FRAME, key="id", store=path, keep_rows=True, progress=False)
    return path


@pytest.mark.parametrize("outputs", [("y",), ("no", "yes")])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_table_has_the_lines_of_a_sink(tmp_path, shape, outputs):
    """All but what a warehouse keeps of loads, from the blocks of a cube and from its Dataset."""
    night = random_nights(tmp_path, 5, 1, outputs)[0]
    sink = Sink("reasons", Database("duckdb:///w.duckdb"), table="t", shape=shape, k=2)
    wanted = pa.Table.from_batches(batches_of(sink, night.path, night)).drop_columns([*OF_LOADS])
    if len(outputs) == 1:
        wanted = wanted.drop_columns(["class"])
    else:
        names = ["output" if name == "class" else name for name in wanted.column_names]
        wanted = wanted.rename_columns(names)
    table = CubeTable.of(dshap.open_cube(night.path), shape, 2)
    found = pa.Table.from_batches(table.batches(), table.schema)
    assert found.schema.equals(wanted.schema)
    assert found.equals(wanted)
    assert table.n_lines >= len(wanted)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_dataset_in_memory_and_a_part_of_it_have_the_lines_of_the_store(store, shape):
    whole = to_frame(store, shape)
    cube = dshap.open_cube(store)
    loaded = cube.load()
    columns = FRAME[NAMES]
    pd.testing.assert_frame_equal(to_frame(loaded, shape, rows=columns), whole)
    chosen = np.array([3, 17, 5])
    part = to_frame(loaded.isel(instance=chosen), shape, rows=columns.iloc[chosen])
    wanted = pd.concat([whole[whole["id"] == 100 + row] for row in chosen])
    pd.testing.assert_frame_equal(part, wanted.reset_index(drop=True))
    pd.testing.assert_frame_equal(to_frame(cube.isel(instance=chosen), shape), part)
    if shape != "wide":
        bare = cube[["attribution", "prediction", "base_value", "status"]]
        with pytest.raises(InputError, match=r"has other rows than .* give rows="):
            to_frame(bare.isel(instance=chosen), shape)


def test_a_frame_states_the_scale(store):
    assert to_frame(store).attrs["scale"] == "log-odds"


def test_the_lines_of_a_row(store):
    """One class, the columns of a player of two in words, and all of it adding up."""
    cube = dshap.open_cube(store)
    lines = to_frame(store, "long").set_index(["id", "feature"]).loc[107]
    assert lines.loc["place", "value"] == f"lat = {FRAME.lat[7]}, lon = {FRAME.lon[7]}"
    assert lines.loc["plan", "value"] == "paid"
    assert np.isnan(lines.loc["plan", "value_number"])
    assert lines.loc["age", "value_number"] == FRAME.age[7]
    chosen = "no" if predict(FRAME)[7, 0] > 0.5 else "yes"
    assert set(lines["output"]) == {chosen}
    assert set(lines["status"]) == {"ok"}
    np.testing.assert_array_equal(lines["attribution"], cube.attribution[7, :, 0])
    total = lines["attribution"].sum() + lines["base_value"].iloc[0]
    assert total == pytest.approx(lines["prediction"].iloc[0], abs=1e-12)


def test_rows_without_a_key_have_their_position():
    cube = dshap.explain(Marginal(lambda x: x[:, 0] * x[:, 1], np.eye(2)), np.eye(2))
    assert to_frame(cube).columns[:3].tolist() == ["row", "phi_x0", "phi_x1"]
    assert to_frame(cube, "top_k", k=1)["row"].tolist() == [0, 1]
    assert len(to_frame(cube.isel(instance=slice(0)))) == 0


def test_texts_have_a_line_for_each_token():
    value = Tokens(lambda texts: np.array([float(len(set(each))) for each in texts]))
    cube = dshap.explain(value, [[1, 2], [3, 3, 2]], progress=False)
    lines = to_frame(cube, "long")
    assert lines["row"].tolist() == [0, 0, 1, 1, 1]
    assert lines["value"].tolist() == ["1", "2", "3", "3", "2"]


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_a_file_holds_the_lines(store, tmp_path, ending):
    path = tmp_path / f"new folder/x{ending}"
    done = export_file(store, path, "long")
    table = CubeTable.of(dshap.open_cube(store), "long")
    options = csv.ConvertOptions(column_types=table.schema, strings_can_be_null=True)
    read = {".parquet": parquet.read_table, ".csv": partial(csv.read_csv, convert_options=options)}
    assert read[ending](path).equals(pa.Table.from_batches(table.batches()))
    assert str(done).startswith(f"{path}: 30 rows, 90 lines of 10 columns, ")
    with pytest.raises(InputError, match="exists: give another name, or --force"):
        export_file(store, path)
    assert export_file(store, path, replaces=True).n_lines == 30


def test_a_cube_that_grows_is_written_with_the_rows_that_are_left(tmp_path):
    make_cube(tmp_path / "cube", tiles=[0, 1], skipped=(2,))
    done = export_file(tmp_path / "cube", tmp_path / "x.parquet")
    assert "21 rows (5 pending, 2 skipped), 42 lines" in str(done)
    counts = parquet.read_table(tmp_path / "x.parquet").to_pandas()["status"].value_counts()
    assert counts.to_dict() == {"ok": 28, "pending": 10, "skipped": 4}


def test_a_file_that_is_not_whole_has_no_name(store, tmp_path, monkeypatch):
    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_batch", broken)
    with pytest.raises(OSError, match="disk full"):
        export_file(store, tmp_path / "x.parquet")
    assert [*tmp_path.iterdir()] == []


def test_what_is_refused(store, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"ends in \.parquet or \.csv"):
        export_file(store, tmp_path / "x.json")
    with pytest.raises(InputError, match="shape"):
        to_frame(store, "tall")
    with pytest.raises(InputError, match="k is 0"):
        to_frame(store, "top_k", k=0)
    monkeypatch.setattr("dshap.sinks.frames.IN_FRAME_BYTES", 100)
    with pytest.raises(DoesNotFitError, match=r"30 lines takes .* by dshap export STORE"):
        to_frame(store)
