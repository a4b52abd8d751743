"""Datasets of pyarrow and queries of polars as rows: written once for a run, never collected."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as pa_ds
import pyarrow.parquet as pq
import pytest

import dshap
from dshap.core.duck_typing import is_scanned
from dshap.core.errors import EmptyTableError, InputError
from dshap.tables import open_source
from dshap.tables.parquet import ParquetSource
from tests.lakes import rows, write_delta
from tests.tables.hugging_face import OfHuggingFace


@pytest.fixture
def parquet(tmp_path: Path) -> str:
    for part in range(3):
        pq.write_table(rows(100 * part, 100 * part + 100), tmp_path / f"part-{part}.parquet")
    return str(tmp_path)


def of_kind(kind: str, parquet: str) -> Any:
    match kind:
        case "dataset":
            return pa_ds.dataset(parquet)
        case "csv dataset":
            pa_csv.write_csv(rows(0, 300).drop(["at"]), f"{parquet}/rows.csv")
            return pa_ds.dataset(f"{parquet}/rows.csv", format="csv")
        case "memory dataset":
            return pa_ds.dataset(rows(0, 300))
        case "frame":
            return pl.read_parquet(f"{parquet}/*.parquet")
    return pl.scan_parquet(f"{parquet}/*.parquet")


KINDS = ["dataset", "csv dataset", "memory dataset", "query", "frame"]


def model(x: np.ndarray) -> np.ndarray:
    return x[:, 0] * x[:, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_rows(kind, parquet):
    frame = rows(0, 300).to_pandas()
    given = of_kind(kind, parquet)
    assert is_scanned(given) == (kind != "frame")

    value = dshap.values.Marginal(model, frame[["x", "y"]].iloc[:20])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # polars warns of a query whose columns are asked for
        cube = dshap.explain(value, given, key="id")
    wanted = dshap.explain(value, frame, key="id")
    np.testing.assert_allclose(cube.attribution.values, wanted.attribution.values, atol=1e-12)
    np.testing.assert_array_equal(cube.id.values, frame["id"])


@pytest.mark.parametrize("kind", ["dataset", "query"])
def test_data_and_backgrounds(kind, parquet):
    frame = rows(0, 300).to_pandas()
    given = of_kind(kind, parquet)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by_rows = dshap.values.Marginal(model, given, feature_names=["x", "y"])
        of_data = dshap.explain(by_rows, frame[:5])
    of_frame = dshap.explain(dshap.values.Marginal(model, frame[["x", "y"]]), frame[:5])
    np.testing.assert_allclose(of_data.attribution.values, of_frame.attribution.values, atol=1e-9)
    chosen = dshap.choose_background(given, 4, features=["x", "y"])
    np.testing.assert_allclose(
        chosen.rows, dshap.choose_background(frame, 4, features=["x", "y"]).rows, atol=1e-12
    )


@pytest.mark.parametrize("kind", ["dataset", "query"])
def test_pages_of_the_parts_carry_checksums(kind, parquet, monkeypatch):
    """One bit of a value that is flipped after it was written is told when it is read."""
    given = of_kind(kind, parquet)
    value = dshap.values.Marginal(model, rows(0, 9).to_pandas()[["x", "y"]])
    read = ParquetSource.__init__

    def flipped(self, path, *args, **options):
        part = next(Path(path).glob("part-*.parquet"))
        place = pq.ParquetFile(part).metadata.row_group(0).column(0).data_page_offset
        content = bytearray(part.read_bytes())
        content[place + 200] ^= 4
        part.write_bytes(content)
        read(self, path, *args, **options)

    monkeypatch.setattr(ParquetSource, "__init__", flipped)
    with pytest.raises(dshap.DshapError, match=r"cannot be read .*checksum"):
        dshap.explain(value, given)


def test_filters_are_kept(parquet):
    value = dshap.values.Marginal(lambda x: x[:, 0], rows(0, 9).to_pandas()[["x"]])
    dataset = pa_ds.dataset(parquet).filter(pa_ds.field("id") > 250)
    query = pl.scan_parquet(f"{parquet}/*.parquet").filter(pl.col("id") > 250)
    for given in (dataset, query):
        assert dshap.explain(value, given, key="id").id.values.tolist() == list(range(251, 300))


def test_columns_of_text_times_and_odd_names(tmp_path):
    """A name that polars would take for a pattern is a name."""
    names = ["^.*$", "Größe – x.y[0]"]
    table = pa.table({names[0]: [1.0, 2.0], names[1]: [0.5, 1.5], "id": ["ä", "b"]})
    pq.write_table(table, tmp_path / "a.parquet")
    value = dshap.values.Marginal(lambda x: x.sum(axis=1), np.ones((3, 2)), feature_names=names)
    for given in (pa_ds.dataset(tmp_path), pl.scan_parquet(tmp_path / "a.parquet")):
        cube = dshap.explain(value, given, key="id")
        assert cube.id.values.tolist() == ["ä", "b"]
        assert cube.prediction.values[:, 0].tolist() == [1.5, 3.5]
    cities = rows(0, 60).to_pandas()
    of_text = dshap.values.Marginal(
        lambda d: d["x"] * (d["city"] == "Köln"), cities[["x", "city"]].dropna()[:9]
    )
    full = cities.dropna()
    wanted = dshap.explain(of_text, full, key="id").attribution.values
    lazy = pl.from_pandas(full).lazy()
    found = dshap.explain(of_text, lazy, key="id").attribution.values
    np.testing.assert_array_equal(found, wanted)


def test_drift_of_such_tables(parquet, tmp_path_factory):
    frame = rows(0, 300).to_pandas()
    delta = write_delta(tmp_path_factory.mktemp("delta"))
    wanted = dshap.mmd_drift(frame, frame.assign(x=frame["x"] + 1), key="id").to_dict()
    for old in (
        of_kind("dataset", parquet),
        of_kind("query", parquet),
        deltalake.DeltaTable(delta),
    ):
        found = dshap.mmd_drift(old, deltalake.DeltaTable(delta, version=0), key="id").to_dict()
        assert found["mmd2"] == pytest.approx(wanted["mmd2"], rel=1e-9)


def test_what_is_refused(parquet):
    value = dshap.values.Marginal(lambda x: x[:, 0], rows(0, 9).to_pandas()[["x"]])
    empty = pa_ds.dataset(rows(0, 0))
    assert dshap.explain(value, empty).sizes["instance"] == 0  # as of an empty frame
    none = pl.scan_parquet(f"{parquet}/*.parquet").filter(pl.col("id") < 0)
    with pytest.raises(EmptyTableError, match="empty table"):
        dshap.choose_background(none, 3, features=["x"])
    for kind in ("dataset", "query"):
        given = of_kind(kind, parquet)
        with pytest.raises(InputError, match="unknown column 'nope'"):
            dshap.explain(value, given, key="nope")
        other = dshap.values.Marginal(
            lambda x: x[:, 0], rows(0, 9).to_pandas()[["x"]].rename(columns={"x": "z"})
        )
        with pytest.raises(InputError, match="the table lacks a column of the model"):
            dshap.explain(other, given)
        with pytest.raises(InputError, match="can only be read by a run"):
            open_source(given)
    broken = pl.scan_parquet(f"{parquet}/*.parquet").with_columns(x=pl.col("absent") + 1)
    with pytest.raises(InputError, match=r"the LazyFrame cannot be collected .*absent"):
        dshap.explain(value, broken)


def test_a_dataset_of_hugging_face():
    table = rows(0, 300)
    frame = table.to_pandas()
    value = dshap.values.Marginal(model, frame[["x", "y"]].iloc[:20])
    cube = dshap.explain(value, OfHuggingFace(table), key="id")
    same = dshap.explain(value, frame, key="id")
    np.testing.assert_array_equal(cube.attribution.values, same.attribution.values)
    with pytest.raises(InputError, match="unknown column 'nope'"):
        dshap.explain(value, OfHuggingFace(table), key="nope")


def test_a_dataset_of_the_library():
    datasets = pytest.importorskip("datasets")
    frame = rows(0, 300).to_pandas()
    value = dshap.values.Marginal(model, frame[["x", "y"]].iloc[:20])
    given = datasets.Dataset.from_pandas(frame).select(range(250))
    cube = dshap.explain(value, given, key="id")
    assert cube.id.values.tolist() == frame["id"][:250].tolist()
