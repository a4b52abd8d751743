"""Reasons in words in the tables of sinks: the sentences of `cube.dshap.sentences`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dshap
from dshap.core.column_dictionary import ColumnDictionary
from dshap.core.errors import InputError
from dshap.core.wordings import Wording
from dshap.cube.described import Description, describe_cube
from dshap.sinks import SingleRun, Sink, load_sink
from dshap.warehouse.databases import Database

FRAME = pd.DataFrame(
    {"a": [0.0, 1.0, 2.0, np.nan], "b": [1.0, 0.0, 1.0, 0.5], "id": ["k", "ü", "z", "q"]}
)


def three(x):
    scores = np.c_[np.nan_to_num(x[:, 0]), x[:, 1], np.full(len(x), 0.7)] + 0.1
    return scores / scores.sum(axis=1, keepdims=True)


@pytest.fixture
def path(tmp_path, in_this_process):
    value = dshap.values.Marginal(three, FRAME[["a", "b"]][:3], scale="probability")
    path = tmp_path / "cube"
    dshap.explain(
        value, FRAME, key="id", store=path, keep_rows=True, missing="pass", progress=False,
        columns={"a": {"label": "Alter"}, "output0": {"label": "Basic"}},
    )  # fmt: skip
    return path


def loaded(path, folder, **options):
    sink = Sink("reasons", path=folder, text=True, write="replace", rows="all", **options)
    load_sink(sink, path, SingleRun("20260101T000000Z", "m"), "job")
    return pq.read_table(folder / "20260101T000000Z").to_pandas()


def test_a_wide_table_has_the_sentence_of_each_row_and_output(path, tmp_path):
    frame = loaded(path, tmp_path / "t", shape="wide")
    cube = dshap.open_cube(path)
    assert len(frame) == 12
    for line in frame.itertuples():
        expected = cube.dshap.sentences(line.id, output=line[2])
        assert [line.reason_text] == expected
    assert frame.reason_text.str.contains("the alter is missing|the missing alter").sum() == 3


def test_some_outputs_alone_are_held_against_the_threshold(path, tmp_path):
    frame = loaded(path, tmp_path / "t", shape="wide", outputs=("output0", "output1"))
    by_key = {(line.id, line[2]): line.reason_text for line in frame.itertuples()}
    assert by_key["z", "output0"].startswith("Basic mainly because the alter is 2 (+")
    assert by_key["k", "output1"].startswith("Output1 mainly")
    assert by_key["ü", "output1"].startswith("Not output1")


def test_lines_of_features_have_a_phrase_each(path, tmp_path):
    describe_cube(
        path,
        Description(
            ColumnDictionary.of({"a": {"label": "Alter"}}),
            sentences=Wording.of({"language": "de", "raised": "{subject} hob ({attribution})"}),
        ),
    )
    frame = loaded(path, tmp_path / "t", shape="top_k", k=1)
    texts = {(line.id, line[2]): line.reason_text for line in frame.itertuples()}
    assert texts["z", "output0"].startswith("Alter 2 hob (+0,")
    assert all(text is None or "Alter" in text or "B " in text for text in texts.values())


def test_a_database_has_the_column_and_no_view_of_a_wide_table(path, tmp_path):
    shop = Database(f"duckdb:///{tmp_path}/w.duckdb")
    sink = Sink("reasons", shop, table="t", shape="wide", text=True)
    load_sink(sink, path, SingleRun("20260101T000000Z", "m"), "job")
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(reason_text) FROM t")
        assert cursor.fetchall() == [(12,)]
        cursor.execute("SELECT count(*) FROM duckdb_views() WHERE view_name = 't_text'")
        assert cursor.fetchall() == [(0,)]
    assert not sink.has_view
    assert "in words" in sink.form


def test_a_folder_has_no_view(tmp_path):
    with pytest.raises(InputError, match="text = true"):
        Sink("reasons", path=tmp_path, shape="long", text=True, write="replace", rows="all")
