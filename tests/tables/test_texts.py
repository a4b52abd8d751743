"""Texts from lists, arrays and tables, as rows of positions; what is no text is refused with its row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

import dshap
from dshap.cube import Workspace
from dshap.engine import LoopExecutor
from dshap.errors import DshapError, InputError
from dshap.session import Session
from dshap.tables import Inputs, TextFiles, TextSource, open_for
from dshap.values import Tokens
from tests.attributors.texts import N_TOKENS, padded, texts_of, two_outputs

pytestmark = pytest.mark.usefixtures("in_this_process")

TEXTS = texts_of([3, 1, 4, 2])
WORDS = [f"w{j}" for j in range(N_TOKENS)]
STRINGS = [" ".join(WORDS[token] for token in text) for text in TEXTS]


def value(**given) -> Tokens:
    return Tokens(two_outputs, **{"vocabulary": WORDS, **given})


@pytest.fixture
def site(tmp_path):
    with Workspace(tmp_path / "store") as workspace:
        yield Session(LoopExecutor(), workspace)


def table() -> pd.DataFrame:
    """Texts, their strings, a key and a number."""
    return pd.DataFrame({"id": [7, 8, 9, 10], "ids": TEXTS, "x": [0.0, 1.0, 2.0, 3.0]})


def rows_of(tmp_path: Path) -> dict[str, tuple[object, dict]]:
    """kind -> rows that hold the same texts, and the options of the value function."""
    pq.write_table(pa.Table.from_pandas(table()[:2]), tmp_path / "a.parquet")
    pq.write_table(pa.Table.from_pandas(table()[2:]), tmp_path / "b.parquet")
    strings = pd.DataFrame({"text": STRINGS, "title": STRINGS})
    return {
        "lists": (TEXTS, {}),
        "tuples": (tuple(map(tuple, TEXTS)), {}),
        "lists with padding": ([padded(text, 5).tolist() for text in TEXTS], {}),
        "array": (np.array([padded(text, 5) for text in TEXTS]), {}),
        "array of floats": (np.array([[*text, *[np.nan] * (5 - len(text))] for text in TEXTS]), {}),
        "series": (pd.Series(TEXTS), {}),
        "words": ([[WORDS[token] for token in text] for text in TEXTS], {}),
        "strings": (STRINGS, {"tokenizer": str.split}),
        "frame": (table(), {}),
        "arrow": (pa.Table.from_pandas(table()), {}),
        "column of strings": (strings, {"tokenizer": str.split, "column": "text"}),
        "path": (tmp_path, {"column": "ids"}),
        "path alone": (str(tmp_path / "*.parquet"), {}),
    }


@pytest.mark.parametrize("kind", [
    "lists", "tuples", "lists with padding", "array", "array of floats", "series", "words", "strings", "frame",
    "arrow", "column of strings", "path", "path alone",
])  # fmt: skip
def test_anything_that_holds_texts(kind, tmp_path, site):
    rows, given = rows_of(tmp_path)[kind]
    reader = open_for(value(**given), rows, site)
    wanted = [[*text, *[np.nan] * (4 - len(text))] for text in TEXTS]
    block = reader.read(0, 4)
    assert_array_equal(block.x, wanted)
    assert block.x.dtype == np.float64 and block.is_ok.all()
    assert reader.feature_names == ("0", "1", "2", "3")
    assert_array_equal(reader.read(1, 3).x, wanted[1:3])


def test_keys_of_tables_and_of_lists(site):
    for rows, key in ((table(), "id"), (TEXTS, {"id": [7, 8, 9, 10]})):
        block = open_for(value(), rows, site, key=key).read(1, 3, keys=True)
        assert block.keys["id"].tolist() == [8, 9]
    cube = dshap.explain(value(), table(), key="id", progress=False)
    assert cube.id.values.tolist() == [7, 8, 9, 10]


def test_keys_named_as_what_a_cube_of_texts_has():
    frame = table().rename(columns={"id": "length"})
    cube = dshap.explain(value(), frame, key="length", progress=False)
    assert cube.key_length.values.tolist() == [7, 8, 9, 10] and cube.length.values.tolist() == [3, 1, 4, 2]


def test_keys_named_so_keep_their_names_where_rows_are_no_texts():
    frame = pd.DataFrame({"length": [1, 2], "a": [0.5, 1.5], "b": [1.0, 3.0]})
    marginal = dshap.values.Marginal(lambda rows: rows[:, 0] * rows[:, 1], np.zeros((1, 2)), feature_names=["a", "b"])
    cube = dshap.explain(marginal, frame, key="length", progress=False)
    assert cube["length"].values.tolist() == [1, 2] and "token" not in cube


def test_the_value_function_takes_the_longest_of_the_rows(site):
    inputs = Inputs.open(value(longest=9), TEXTS, site, reads_data=False)
    assert inputs.value.model.n_columns == 4 and len(inputs.value.players) == 4


def test_ids_too_large_for_four_bytes_are_kept_whole(site):
    ids = [[(1 << 24) + 1, 3], [(1 << 24) + 3]]
    reader = open_for(Tokens(lambda ids: ids[:, 0] * 1.0), ids, site)
    assert_array_equal(reader.read(0, 2).x, [[(1 << 24) + 1, 3], [(1 << 24) + 3, np.nan]])


def test_other_processes_get_them_by_path(client, tmp_path):
    cube = dshap.explain(value(), table(), key="id", client=client, store=tmp_path / "cube.zarr", instance_tile=2)
    here = dshap.explain(value(), table(), key="id", progress=False, instance_tile=2)
    assert cube.load().drop_attrs().equals(here.drop_attrs())
    assert cube.token[0].values.tolist() == [*[WORDS[token] for token in TEXTS[0]], ""]


def test_texts_of_files(tmp_path):
    rows_of(tmp_path)
    source = TextFiles(str(tmp_path), "ids", key="id")
    assert [ids.tolist() for ids in source.texts] == TEXTS and source.key_names == ("id",)
    assert source.describe().endswith("4 texts of up to 4 tokens")
    cube = dshap.explain(value(), source, progress=False)
    assert cube.id.values.tolist() == [7, 8, 9, 10]
    again = dshap.explain(value(), TextSource(source.texts, source.keys), progress=False)
    assert again.equals(cube)


@pytest.mark.parametrize(
    ("rows", "given", "message"),
    [
        ([[1], [2, 99]], {}, "row 1: token id 99 is outside the vocabulary: ids are 0 to 11"),
        ([[1], []], {}, "row 1: the text is empty: leave it out"),
        ([[1], None], {}, "row 1: it is None"),
        ([[1], [0, 2]], {}, "row 1: the padding id 0 stands at position 0"),
        ([[1], [1, 2, 3]], {"longest": 2}, "row 1: the text has 3 tokens, and predict takes 2"),
        (["w1 w2", "w1 none"], {"tokenizer": str.split}, "row 1: 'none' is no word of the vocabulary"),
        (["w1"], {}, "row 0: it is a string, and there is no tokenizer"),
        ([], {}, "there are no texts"),
        (7, {}, "rows are 7: give a list of texts"),
        (pd.DataFrame({"a": [[1]], "b": [[2]]}), {}, "columns that can hold texts: a, b; name one"),
        (pd.DataFrame({"x": [1.0]}), {}, "columns that can hold texts: none"),
        (pd.DataFrame({"a": [[1]]}), {"column": "b"}, "'b'"),
        ("nowhere.parquet", {}, "no Parquet file at nowhere.parquet"),
    ],
)
def test_what_is_no_text_is_refused(rows, given, message, tmp_path):
    with pytest.raises(DshapError, match=message):
        dshap.explain(value(**given), rows, store=tmp_path / "cube.zarr", progress=False)
    assert not (tmp_path / "cube.zarr").exists()


def test_a_key_by_name_needs_a_table(site):
    with pytest.raises(InputError, match=r"give key = \{name: values\}"):
        open_for(value(), TEXTS, site, key="id")


def test_a_missing_column_of_a_path_is_named(tmp_path, site):
    rows_of(tmp_path)
    with pytest.raises(InputError, match="'idz'"):
        open_for(value(column="idz"), tmp_path, site)
