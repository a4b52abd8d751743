"""Dask dataframes that are Parquet files are read where they lie, in the order that Dask has."""

from __future__ import annotations

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.engine.graph import LoopExecutor
from dshap.run.session import Session
from dshap.storage.running import alone
from dshap.tables.dask_parquet import plain_files_of
from dshap.tables.opener import open_rows
from dshap.values import Marginal


@pytest.fixture
def folder(tmp_path):
    """Twelve files, the third of two row groups: sorted as texts, part.10 comes before part.2."""
    (tmp_path / "rows").mkdir()
    for number in range(12):
        frame = pd.DataFrame({"a": [number, number + 0.5], "b": [1, -1], "name": ["ä", None]})
        groups = 1 if number == 2 else 2
        frame.to_parquet(tmp_path / "rows" / f"part.{number}.parquet", row_group_size=groups)
    return tmp_path / "rows"


@pytest.fixture
def site(tmp_path):
    with alone(tmp_path / "store", "a run") as workspace:
        yield Session(LoopExecutor(), workspace)


WHOLE = {
    "all": lambda frame: frame,
    "columns": lambda frame: frame[["b", "a"]],
    "persisted columns": lambda frame: frame[["b", "name", "a"]][["a", "b"]],
}
OTHERS = {
    "filter": lambda frame: frame[frame.a > 3],
    "sum": lambda frame: frame[["a", "b"]] + 1,
    "rename": lambda frame: frame.rename(columns={"a": "b", "b": "a"}),
    "partitions": lambda frame: frame.partitions[2:4],
    "sorted": lambda frame: frame.sort_values("a", ascending=False),
    "persisted": lambda frame: frame.persist(),
}


@pytest.mark.parametrize("split", [False, "infer", True])
@pytest.mark.parametrize("kind", WHOLE)
def test_files_are_read_where_they_lie(folder, site, kind, split, monkeypatch):
    monkeypatch.setattr(Session, "each_partition", lambda *_: pytest.fail("rows are written"))
    frame = WHOLE[kind](dd.read_parquet(folder, split_row_groups=split))
    assert len(plain_files_of(frame)) == 12
    reader = open_rows(frame, site, features=["a", "b"], n_columns=2)
    expected = frame.compute()[["a", "b"]].to_numpy(float)
    np.testing.assert_array_equal(reader.read(0, 24).x, expected)


@pytest.mark.parametrize("kind", OTHERS)
def test_what_dask_computes_is_written_first(folder, site, kind):
    frame = OTHERS[kind](dd.read_parquet(folder)[["a", "b"]])
    assert plain_files_of(frame) is None
    reader = open_rows(frame, site, features=["a", "b"], n_columns=2)
    expected = frame.compute()[["a", "b"]].to_numpy(float)
    np.testing.assert_array_equal(reader.read(0, len(expected)).x, expected)


def test_filters_and_keys_of_folders_are_written_first(tmp_path, folder):
    assert plain_files_of(dd.read_parquet(folder, filters=[("a", ">", 3)])) is None
    pd.DataFrame({"year": [1, 2], "a": [1.0, 2.0]}).to_parquet(
        tmp_path / "by_year", partition_cols=["year"]
    )
    assert plain_files_of(dd.read_parquet(tmp_path / "by_year")) is None
    assert plain_files_of(dd.from_pandas(pd.DataFrame({"a": [1.0]}), npartitions=1)) is None
    assert plain_files_of("rows") is None


def test_the_explanation_is_that_of_the_frame(folder):
    frame = dd.read_parquet(folder)[["a", "b"]]
    value = Marginal(lambda rows: rows[:, 0] * rows[:, 1], np.ones((2, 2)))
    own = dshap.explain(value, frame)
    np.testing.assert_array_equal(
        own.attribution, dshap.explain(value, frame.compute()).attribution
    )
