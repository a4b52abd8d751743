"""Texts from lists, arrays and tables, as rows of positions; what is no text is refused with its
row."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

import dshap
from dshap.core.errors import DshapError, InputError
from dshap.core.types import RowReader
from dshap.engine import LoopExecutor
from dshap.run.session import Session
from dshap.storage.running import alone
from dshap.tables import Inputs, TextFiles, open_for
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
    with alone(tmp_path / "store", "a run") as workspace:
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
    assert block.x.dtype == np.float64
    assert block.is_ok.all()
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
    assert cube.key_length.values.tolist() == [7, 8, 9, 10]
    assert cube.length.values.tolist() == [
        3,
        1,
        4,
        2,
    ]


def test_keys_named_so_keep_their_names_where_rows_are_no_texts():
    frame = pd.DataFrame({"length": [1, 2], "a": [0.5, 1.5], "b": [1.0, 3.0]})
    marginal = dshap.values.Marginal(
        lambda rows: rows[:, 0] * rows[:, 1], np.zeros((1, 2)), feature_names=["a", "b"]
    )
    cube = dshap.explain(marginal, frame, key="length", progress=False)
    assert cube["length"].values.tolist() == [1, 2]
    assert "token" not in cube


def test_the_value_function_takes_the_longest_of_the_rows(site):
    inputs = Inputs.open(value(longest=9), TEXTS, site, reads_data=False)
    assert inputs.value.model.n_columns == 4
    assert len(inputs.value.players) == 4


def test_ids_too_large_for_four_bytes_are_kept_whole(site):
    ids = [[(1 << 24) + 1, 3], [(1 << 24) + 3]]
    reader = open_for(Tokens(lambda ids: ids[:, 0] * 1.0), ids, site)
    assert_array_equal(reader.read(0, 2).x, [[(1 << 24) + 1, 3], [(1 << 24) + 3, np.nan]])


@pytest.mark.slow
def test_other_processes_get_them_by_path(client, tmp_path):
    cube = dshap.explain(
        value(), table(), key="id", client=client, store=tmp_path / "cube.zarr", instance_tile=2
    )
    here = dshap.explain(value(), table(), key="id", progress=False, instance_tile=2)
    assert cube.load().drop_attrs().equals(here.drop_attrs())
    assert cube.token[0].values.tolist() == [*[WORDS[token] for token in TEXTS[0]], ""]


@pytest.mark.slow
def test_what_is_spooled_is_as_long_as_the_texts(tmp_path):
    """In several parts, with keys of every kind; one long text makes none of the others longer."""
    texts, n = (
        texts_of([*np.random.default_rng(3).integers(1, 6, 19_999).tolist(), 900], seed=4),
        20_000,
    )
    when = np.datetime64("2020-01-01", "ns") + np.arange(n)
    keys = {"id": np.arange(n) + 5, "name": [f"t{j}" for j in range(n)], "when": when}
    elsewhere = SimpleNamespace(is_local=False, folder=lambda name: tmp_path / name)
    reader = pickle.loads(pickle.dumps(open_for(value(), texts, elsewhere, key=keys)))
    assert (reader.n_rows, len(reader.feature_names)) == (n, 900)
    assert reader.key_dtypes["when"] == "datetime64[ns]"
    for start, stop in ((8_190, 8_195), (19_998, 20_000)):
        block = reader.read(start, stop, keys=True)
        wanted = [[*text, *[np.nan] * (900 - len(text))] for text in texts[start:stop]]
        assert_array_equal(block.x, wanted)
        assert block.keys["name"].tolist() == keys["name"][start:stop]
        assert (block.keys["when"] == when[start:stop]).all()
    assert reader.read_bytes(9) == open_for(
        value(), texts, SimpleNamespace(is_local=True), key=keys
    ).read_bytes(9)
    stored = sum(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    assert stored < 2 * (8 * sum(map(len, texts)) + n * 32)


def test_texts_of_files(tmp_path):
    """Opened by themselves, for any value function of their ids."""
    rows_of(tmp_path)
    source = TextFiles(str(tmp_path), "ids", key="id")
    assert isinstance(source, RowReader)
    assert source.key_names == ("id",)
    assert [ids.tolist() for ids in source.texts(np.array([0, 2, 3]))] == [
        TEXTS[0],
        TEXTS[2],
        TEXTS[3],
    ]
    assert [ids.tolist() for ids in source.texts(np.array([1, 3]))] == [TEXTS[1], TEXTS[3]]
    assert source.texts(np.array([], dtype=int)) == []
    assert source.describe().endswith("4 texts of up to 4 tokens")
    cube = dshap.explain(value(), source, progress=False)
    assert cube.id.values.tolist() == [7, 8, 9, 10]
    assert cube.equals(dshap.explain(value(), table(), key="id", progress=False))
    with pytest.raises(InputError, match="row 0: the text has 3 tokens, and predict takes 2"):
        dshap.explain(value(longest=2), source, progress=False)


@pytest.fixture(params=["ids", "large", "fixed", "words", "strings", "dictionary"])
def files(request, tmp_path) -> tuple[Path, Tokens, list[list[int]]]:
    """3,000 texts of up to 30 tokens in two files, row groups of 700, and what explains them."""
    fixed = request.param == "fixed"
    texts = texts_of(
        [5] * 3_000 if fixed else np.random.default_rng(3).integers(1, 31, 3_000).tolist(), seed=4
    )
    words = [[WORDS[token] for token in text] for text in texts]
    column, given = {
        "ids": (pa.array(texts, pa.list_(pa.int32())), {}),
        "large": (pa.array(texts, pa.large_list(pa.float64())), {}),
        "fixed": (pa.array(texts, pa.list_(pa.int64(), 5)) if fixed else None, {}),
        "words": (pa.array(words), {}),
        "strings": (pa.array(map(" ".join, words)), {"tokenizer": str.split}),
        "dictionary": (
            pa.array(map(" ".join, words)).dictionary_encode(),
            {"tokenizer": str.split},
        ),
    }[request.param]
    whole = pa.table({"text": column, "id": np.arange(3_000) + 7})
    for name, part in (("a", whole[:1_100]), ("b", whole[1_100:])):
        pq.write_table(part, tmp_path / f"{name}.parquet", row_group_size=700)
    return tmp_path, value(**given), texts


def test_files_are_read_by_the_block(files, site):
    """Any rows in any order, keys beside them; a reader that was pickled too."""
    path, explained, texts = files
    reader = pickle.loads(pickle.dumps(open_for(explained, path, site, key="id")))
    whole = open_for(explained, texts, site).read(0, 3_000).x
    assert (reader.n_rows, len(reader.feature_names)) == whole.shape
    for start, stop in ((2_990, 3_000), (0, 3), (1_050, 1_200), (0, 3_000), (7, 7)):
        block = reader.read(start, stop, keys=True)
        assert_array_equal(block.x, whole[start:stop])
        assert block.keys["id"].tolist() == list(range(start + 7, stop + 7))
        assert block.is_ok.all()
    assert not reader.read(0, 5).keys
    assert list(reader.read(0, 5, columns=True).columns) == list(reader.feature_names)


@pytest.mark.slow
def test_workers_read_files_themselves(tmp_path, client):
    """Strings are cut into tokens there; nothing is spooled."""
    pd.DataFrame({"text": STRINGS, "id": [7, 8, 9, 10]}).to_parquet(tmp_path / "texts.parquet")
    explained, options = (
        value(tokenizer=str.split),
        {"key": "id", "instance_tile": 2, "progress": False},
    )
    path, store = tmp_path / "texts.parquet", tmp_path / "cube.zarr"
    cube = dshap.explain(explained, path, client=client, store=store, **options)
    assert cube.load().drop_attrs().equals(dshap.explain(explained, path, **options).drop_attrs())


def test_a_tokenizer_that_changes_its_mind_is_refused(tmp_path):
    """What it gives is known again by a checksum; here the second time it is asked for the third
    text."""
    pd.DataFrame({"text": STRINGS}).to_parquet(tmp_path / "texts.parquet")
    seen: set[str] = set()

    def moody(text: str) -> list[str]:
        again = text in seen and text == STRINGS[2]
        seen.add(text)
        return text.split()[:-1] if again else text.split()

    with pytest.raises(
        InputError, match="row 2: the text has other tokens than before: do not change the table"
    ):
        dshap.explain(
            value(tokenizer=moody),
            tmp_path / "texts.parquet",
            store=tmp_path / "cube",
            progress=False,
        )
    assert not (tmp_path / "cube").exists()


def peak_bytes(work) -> int:
    """What Python and Arrow hold at most while it works."""
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] + pool.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)


@pytest.mark.slow
@pytest.mark.parametrize("group_rows", [1_000, 12_000])
def test_memory_does_not_grow_with_the_files(group_rows, tmp_path):
    """Eight times the texts take nothing more to open and to read but what each is known by; what a
    read takes is what the reader says."""
    opened = []
    for n in (1_500, 12_000):
        ids = np.random.default_rng(0).integers(1, N_TOKENS, n * 40)
        texts = pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32) * 40, ids)
        pq.write_table(
            pa.table({"ids": texts}), tmp_path / f"{n}.parquet", row_group_size=group_rows
        )
        reader = TextFiles(tmp_path / f"{n}.parquet")
        opened.append(peak_bytes(lambda n=n: TextFiles(tmp_path / f"{n}.parquet")) - 4 * n)
        # a handle keeps the pool that it was opened with
        fresh = pickle.loads(pickle.dumps(reader))
        measured = (
            peak_bytes(lambda n=n, fresh=fresh: fresh.read(n // 2, n // 2 + 100)) - 100 * 40 * 8
        )
        print(
            f"{n:,} texts: {opened[-1]:,} bytes to open, {measured:,} to read, "
            f"{reader.read_bytes(100):,} projected"
        )
        assert max(opened[-1], measured) <= reader.read_bytes(100)
    assert opened[1] < 2 * opened[0]


@pytest.mark.parametrize(
    ("rows", "given", "message"),
    [
        ([[1], [2, 99]], {}, "row 1: token id 99 is outside the vocabulary: ids are 0 to 11"),
        ([[1], []], {}, "row 1: the text is empty: leave it out"),
        ([[1], None], {}, "row 1: it is None"),
        ([[1], [0, 2]], {}, "row 1: the padding id 0 is at position 0"),
        ([[1], [1, 2, 3]], {"longest": 2}, "row 1: the text has 3 tokens, and predict takes 2"),
        (
            ["w1 w2", "w1 none"],
            {"tokenizer": str.split},
            "row 1: 'none' is not a word of the vocabulary",
        ),
        (["w1"], {}, "row 0: it is a string, and there is no tokenizer"),
        (7, {}, "rows are 7: give a list of texts"),
        (
            pd.DataFrame({"a": [[1]], "b": [[2]]}),
            {},
            "columns that can contain texts: a, b; name one",
        ),
        (pd.DataFrame({"x": [1.0]}), {}, "columns that can contain texts: none"),
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
