"""Parquet: any way of cutting a table into files, row groups and reads gives the same rows."""

import datetime
import decimal
import os
import pickle
import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dshap.core.errors import InputError
from dshap.core.types import RowReader
from dshap.tables import ParquetSource, from_pandas, open_source
from dshap.tables.reader import BATCH_ROWS

N_ROWS = 1000


def make_table(n_rows=N_ROWS, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(n_rows) + 2**52,
            "a": rng.normal(size=n_rows),
            "b": rng.integers(0, 9, size=n_rows).astype(np.int32),
            "flag": rng.random(n_rows) < 0.5,
            "city": [f"stadt-ü{i % 7}" for i in range(n_rows)],
            "y": rng.normal(size=n_rows),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files in two folders, with other orders of columns and odd row groups."""
    root, table = tmp_path_factory.mktemp("table"), make_table()
    (root / "deep").mkdir()
    cuts = [
        ("a.parquet", 0, 333, 97),
        ("b.parquet", 333, 334, 10),
        ("deep/c.parquet", 334, N_ROWS, 171),
    ]
    for turn, (name, start, stop, group) in enumerate(cuts):
        names = table.column_names[turn:] + table.column_names[:turn]
        pq.write_table(
            table.slice(start, stop - start).select(names), root / name, row_group_size=group
        )
    return root


def whole():
    table = make_table()
    return np.column_stack([table[name].to_numpy().astype(float) for name in ("a", "b", "flag")])


def open_folder(path):
    return ParquetSource(path, features=["a", "b", "flag"], key=["id", "city"], target="y")


def one_column(tmp_path, values, name="x", **options):
    pq.write_table(pa.table({name: values, "one": np.ones(len(values))}), tmp_path / "t.parquet")
    return ParquetSource(tmp_path / "t.parquet", **options)


@settings(max_examples=60, deadline=None)
@given(span=st.tuples(st.integers(0, N_ROWS), st.integers(0, N_ROWS)).map(sorted))
def test_any_span_equals_the_whole(folder, span):
    start, stop = span
    table = make_table()
    block = open_folder(folder).read(start, stop, keys=True, target=True, columns=True)
    assert (block.start, block.stop) == (start, stop)
    np.testing.assert_array_equal(block.x, whole()[start:stop])
    np.testing.assert_array_equal(block.keys["id"], table["id"].to_numpy()[start:stop])
    assert block.keys["city"].tolist() == table["city"].to_pylist()[start:stop]
    np.testing.assert_array_equal(block.target, table["y"].to_numpy()[start:stop])
    assert {name: values.dtype.str for name, values in block.columns.items()} == {
        "a": "<f8",
        "b": "<i4",
        "flag": "|b1",
    }
    np.testing.assert_array_equal(block.columns["b"], table["b"].to_numpy()[start:stop])


def test_reads_across_decoded_batches(tmp_path):
    n_rows = 2 * BATCH_ROWS + 500
    x = np.arange(n_rows, dtype=float)
    source = one_column(tmp_path, x, features="x")
    for start, stop in [
        (0, n_rows),
        (BATCH_ROWS - 1, BATCH_ROWS + 1),
        (n_rows - 1, n_rows),
        (17, 2 * BATCH_ROWS),
    ]:
        np.testing.assert_array_equal(source.read(start, stop).x[:, 0], x[start:stop])


def test_folder_file_and_glob(folder):
    source = open_folder(folder)
    assert isinstance(source, RowReader)
    assert [path[len(str(folder)) + 1 :] for path in source.paths] == [
        "a.parquet",
        "b.parquet",
        "deep/c.parquet",
    ]
    assert open_folder(folder / "a.parquet").n_rows == 333
    assert open_folder(str(folder / "**" / "*.parquet")).n_rows == N_ROWS
    assert open_folder(folder / "[ab].parquet").n_rows == 334
    assert open_source(folder, features="a").feature_names == ("a",)
    assert source.describe() == (
        f"parquet {folder} (3 files): 1,000 rows, 3 features (a, b, flag), key id, city, target y"
    )


def test_paths_of_other_types(folder):
    """What `os.scandir` gives, and a list of them; its text is no path."""
    (entry,) = (each for each in os.scandir(folder.parent) if each.name == folder.name)
    wanted = ParquetSource(folder, key="id")
    assert ParquetSource(entry, key="id").paths == wanted.paths
    files = sorted(os.scandir(folder), key=lambda each: each.name)
    assert open_source(files, key="id").n_rows == wanted.n_rows
    assert open_source(entry, key="id").n_rows == wanted.n_rows
    with pytest.raises(InputError, match=r"^path is 5: give a path$"):
        ParquetSource(5)


def test_features_default_to_every_number_column_left(folder):
    assert ParquetSource(folder, key="id", target="y").feature_names == ("a", "b", "flag")
    assert ParquetSource(folder, features=["b", "id"], key="id").read(0, 3, keys=True).x[
        :, 1
    ].tolist() == [2.0**52 + row for row in range(3)]


def test_only_needed_columns_and_row_groups_are_read(folder, monkeypatch):
    seen = []
    plain = pq.ParquetFile.iter_batches

    def spy(self, batch_size, row_groups, columns, use_threads):
        seen.append((row_groups, columns))
        return plain(
            self, batch_size, row_groups=row_groups, columns=columns, use_threads=use_threads
        )

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    open_folder(folder).read(100, 194)
    assert seen == [([1], ["a", "b", "flag"])]


def test_targets(folder):
    source = ParquetSource(folder, features="a", target=["y", "b"])
    assert source.read(0, 5, target=True).target.shape == (5, 2)
    assert source.target_names == ("y", "b")
    assert source.read(0, 5).target is None
    assert ParquetSource(folder).read(0, 5, target=True).target is None


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (pa.array([1, 2], pa.uint8()), "int64", [1, 2]),
        (pa.array([2**53 + 1, -(2**62)]), "int64", [2**53 + 1, -(2**62)]),
        (pa.array(["a", "ü\U0001f600"]), "string", ["a", "ü\U0001f600"]),
        (pa.array(["a", ""], pa.large_string()), "string", ["a", ""]),
        (pa.array(["a", "a"]).dictionary_encode(), "string", ["a", "a"]),
        (
            pa.array([datetime.date(2024, 2, 29)] * 2),
            "datetime64[ns]",
            np.array(["2024-02-29"] * 2, "M8[ns]").tolist(),
        ),
        (pa.array([0, 1], pa.timestamp("us", tz="Asia/Tokyo")), "datetime64[ns]", [0, 1000]),
    ],
)
def test_key_types(tmp_path, values, dtype, expected):
    source = one_column(tmp_path, values, key="x", features="one")
    key = source.read(0, 2, keys=True).keys["x"]
    assert source.key_dtypes == {"x": dtype}
    assert key.dtype == (np.dtypes.StringDType() if dtype == "string" else np.dtype(dtype))
    assert key.tolist() == expected


@pytest.mark.parametrize(
    ("values", "fill"),
    [
        (pa.array([5, None]), -1),
        (pa.array(["a", None]), ""),
        (pa.array([5, None], pa.timestamp("ns")), np.datetime64("NaT", "ns")),
    ],
)
def test_null_keys_are_marked(tmp_path, values, fill):
    block = one_column(tmp_path, values, key="x", features="one").read(0, 2, keys=True)
    assert block.null_keys["x"].tolist() == [False, True]
    assert block.keys["x"][1] == fill or np.isnat(block.keys["x"][1])


@pytest.mark.parametrize(
    ("values", "expected", "dtype"),
    [
        # integers with nulls have no integer dtype
        (pa.array([1, None, 3]), [1, np.nan, 3], "float64"),
        (pa.array([1, 2, 3], pa.int16()), [1, 2, 3], "int16"),
        (pa.array([True, None, False]), [1, np.nan, 0], "float64"),
        (pa.array([True, True, False]), [1, 1, 0], "bool"),
        (pa.array([1.5, None, np.nan], pa.float32()), [1.5, np.nan, np.nan], "float32"),
        (
            pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-3")]),
            [1.25, np.nan, -3],
            "float64",
        ),
        (pa.array([2**53, 0, 1], pa.uint64()), [2.0**53, 0, 1], "uint64"),
        (pa.array([7, 8, 7]).dictionary_encode(), [7, 8, 7], "int64"),
        (pa.nulls(3), [np.nan] * 3, "float64"),
    ],
)
def test_number_types(tmp_path, values, expected, dtype):
    source = one_column(tmp_path, values, missing="pass")
    block = source.read(0, 3, columns=True)
    np.testing.assert_array_equal(block.x[:, 0], expected)
    assert source.column_dtypes["x"] == block.columns["x"].dtype == np.dtype(dtype)


def test_column_dtype_is_one_for_all_files(tmp_path):
    pq.write_table(pa.table({"x": np.array([1, 2], np.int32)}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": pa.array([3, None])}), tmp_path / "b.parquet")
    assert ParquetSource(tmp_path).read(0, 2, columns=True).columns["x"].dtype == np.float64


@pytest.mark.parametrize(
    ("missing", "is_ok"), [("refuse", [1, 0, 0]), ("skip", [1, 0, 0]), ("pass", [1, 1, 1])]
)
def test_missing_policies(tmp_path, missing, is_ok):
    source = one_column(tmp_path, pa.array([1.0, None, np.inf]), missing=missing)
    assert source.missing == missing
    assert source.read(0, 3).is_ok.tolist() == list(map(bool, is_ok))


def test_a_missing_target_leaves_the_row_ok(tmp_path):
    block = one_column(tmp_path, pa.array([1.0, None]), target="x", features="one").read(
        0, 2, target=True
    )
    assert np.isnan(block.target[1])
    assert block.is_ok.all()


BAD = [
    ({"features": ["a", "ctiy"]}, "unknown column 'ctiy'; did you mean 'city'"),
    ({"features": ["a"], "target": "z"}, "unknown column 'z'"),
    ({"features": ["a"], "key": "idd"}, "unknown column 'idd'; did you mean 'id'"),
    (
        {"features": ["a", "city"]},
        "column 'city' contains text .string. where numbers are needed: encode it",
    ),
    ({"target": "city"}, "column 'city' contains text .string. where numbers are needed.*target"),
    ({"features": ["a", "a"]}, "features contains 'a' more than once"),
    ({"features": ["a", "y"], "target": "y"}, "target 'y' is also in features"),
    ({"features": ["a"], "key": "y", "target": "y"}, "target 'y' is also in key"),
    ({"features": []}, "no feature column"),
    ({"key": "a"}, "key 'a' contains double, but a key is integer, text, date or timestamp"),
    ({"key": "flag"}, "key 'flag' contains bool"),
    ({"missing": "drop"}, "unknown missing 'drop'.*pass, refuse, skip"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options(folder, options, message):
    with pytest.raises(InputError, match=message) as caught:
        ParquetSource(folder, **options)
    assert "\n" not in str(caught.value)


def test_bad_files(tmp_path):
    with pytest.raises(
        InputError, match=r"no Parquet file at .*: give a file, a folder .* or a glob"
    ):
        ParquetSource(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(InputError, match=r"a\.parquet is not a Parquet file"):
        ParquetSource(tmp_path)
    pq.write_table(make_table(0), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"empty table: .* contains 1 file"):
        ParquetSource(tmp_path)
    pq.write_table(
        make_table(5).rename_columns(["id", "a", "a", "flag", "city", "y"]), tmp_path / "a.parquet"
    )
    with pytest.raises(InputError, match="contains 2 columns named 'a'"):
        ParquetSource(tmp_path, features="a")


def test_files_that_do_not_agree(tmp_path):
    table = make_table(5)
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.drop_columns("b"), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"in file b\.parquet: unknown column 'b'"):
        ParquetSource(tmp_path)
    pq.write_table(table.set_column(0, "id", table["id"].cast(pa.string())), tmp_path / "b.parquet")
    with pytest.raises(
        InputError, match=r"key 'id' is string in file b\.parquet and int64 in the first"
    ):
        ParquetSource(tmp_path, features="a", key="id")


def test_spans_and_times_out_of_range(tmp_path, folder):
    with pytest.raises(InputError, match=r"rows 0\.\.1001 asked of a table of 1000 rows"):
        open_folder(folder).read(0, 1001)
    late = one_column(tmp_path, pa.array([10**11], pa.timestamp("s")), key="x", features="one")
    with pytest.raises(InputError, match=r"key 'x' .* does not fit datetime64"):
        late.read(0, 1, keys=True)


def five_rows(path, first: float):
    """Five rows in a file that has the same size whatever numbers they hold."""
    table = pa.table({"x": np.arange(5.0) + first})
    pq.write_table(table, path, compression=None, use_dictionary=False)
    return path


def other_file(path, size: int) -> None:
    """A table of other numbers in a file of so many bytes, in the place of another."""
    new = five_rows(path.with_suffix(".new"), 1.0)
    assert new.stat().st_size == size
    new.replace(path)


def rewritten(path) -> None:
    pq.write_table(pa.table({"x": np.arange(6.0)}), path)


def cut(path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def same_size(path) -> None:
    other_file(path, path.stat().st_size)


def same_size_and_time(path) -> None:
    told = path.stat()
    other_file(path, told.st_size)
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (rewritten, r"changed during the run \(.*it was written .* and again 2"),
        (cut, r"changed during the run \(it had [\d,]+ bytes and has [\d,]+ now"),
        (same_size, r"changed during the run \(it was written "),
        (same_size_and_time, "another file of the same size and time has replaced it"),
        (
            os.remove,
            "was removed during the run: rows of two tables .* put this file back and run the "
            "same command again",
        ),
    ],
)
def test_a_file_that_changed_is_refused(tmp_path, change, said, is_open):
    """Also where its handle is kept from an earlier read, and by a reader that was sent
    elsewhere."""
    source = ParquetSource(five_rows(tmp_path / "t.parquet", 0.0))
    if is_open:
        source.read(0, 2)
    sent = pickle.dumps(source)
    change(tmp_path / "t.parquet")
    for reader in (source, pickle.loads(sent)):
        with pytest.raises(InputError, match=said):
            reader.read(0, 5)
        with pytest.raises(InputError, match=said):
            reader.check_unchanged(4, 5)


def test_only_the_files_of_the_rows_are_looked_at(tmp_path):
    for name in "abc":
        pq.write_table(make_table(5), tmp_path / f"{name}.parquet")
    source = ParquetSource(tmp_path, features="a")
    (tmp_path / "b.parquet").unlink()
    for start, stop in [(0, 5), (10, 15), (3, 3)]:
        assert len(source.read(start, stop).x) == stop - start
        source.check_unchanged(start, stop)
    for start, stop in [(4, 6), (0, 15), (9, 10)]:
        with pytest.raises(InputError, match=r"b\.parquet was removed"):
            source.check_unchanged(start, stop)


def test_inodes_of_another_host_are_not_compared(tmp_path, monkeypatch):
    """Network file systems may number them by host: there the footer tells a file of the same size
    and time."""
    path = five_rows(tmp_path / "t.parquet", 0.0)
    source = ParquetSource(path)
    told = path.stat()
    copy = path.with_suffix(".copy")
    copy.write_bytes(path.read_bytes())
    path.rename(path.with_suffix(".first"))  # so that no file gets its inode
    copy.replace(path)
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))
    with pytest.raises(InputError, match="another file of the same size and time"):
        source.read(0, 5)
    monkeypatch.setattr("platform.node", lambda: "another host")
    assert len(source.read(0, 5).x) == 5
    same_size_and_time(path)
    with pytest.raises(InputError, match="another file of the same size and time"):
        source.read(0, 5)


def test_pickle_is_small_and_works_in_a_fresh_process(folder, tmp_path):
    source = open_folder(folder)
    source.read(0, 10)
    sent = pickle.dumps(source)
    assert len(sent) < 10_000
    (tmp_path / "source.pickle").write_bytes(sent)
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).read(300, 400).x.sum().hex())"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "source.pickle")],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    assert float.fromhex(done.stdout.strip()) == source.read(300, 400).x.sum()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group_rows", "key_length"), [(10_000, 10), (65_536, 10), (300_000, 10), (300_000, 64)]
)
def test_read_bytes_covers_what_arrow_holds(tmp_path, group_rows, key_length):
    """Never less than is held, and at most twice that where row groups are as large as writers make
    them."""
    rng = np.random.default_rng(0)
    n_rows, names = 300_000, [f"x{j}" for j in range(10)]
    columns = {name: rng.normal(size=n_rows) for name in names} | {
        "key": [str(i).zfill(key_length) for i in range(n_rows)]
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=group_rows)
    source = ParquetSource(tmp_path, key="key")
    # imports; a handle keeps the pool that it was opened with
    pickle.loads(pickle.dumps(source)).read(0, 1, keys=True)
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        block = source.read(190_000, 255_536, keys=True)
        in_python = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    measured = (
        pool.max_memory()
        + in_python
        - sum(each.nbytes for each in (block.x, block.is_ok, block.keys["key"]))
    )
    print(
        f"row groups of {group_rows}: {measured:,} bytes measured, {source.read_bytes(65_536):,} "
        "projected"
    )
    assert measured <= source.read_bytes(65_536)
    assert group_rows < n_rows or source.read_bytes(65_536) <= 2 * measured


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [N_ROWS, 40_000])
def test_read_bytes_follow_from_shapes_alone(tmp_path, n_rows):
    """One file, many files, tiny row groups, memory: one table, one plan."""
    table = make_table(n_rows)
    cuts = [(n_rows, 1 << 20), (n_rows, 7), (n_rows // 5 + 1, 100)]
    for turn, (file_rows, group_rows) in enumerate(cuts):
        (tmp_path / str(turn)).mkdir()
        for start in range(0, n_rows, file_rows):
            path = tmp_path / str(turn) / f"{start:09d}.parquet"
            pq.write_table(table.slice(start, file_rows), path, row_group_size=group_rows)
    for roles in (
        {"features": ["a", "b", "flag"], "key": ["id", "city"], "target": "y"},
        {"features": ["a", "id"], "key": "id", "target": ["b", "y"]},
        {"features": "a"},
    ):
        sources = [ParquetSource(tmp_path / str(turn), **roles) for turn in range(len(cuts))]
        sources.append(from_pandas(table.to_pandas(), **roles))
        for n in (1, N_ROWS, n_rows):
            assert len({source.read_bytes(n) for source in sources}) == 1


def test_pandas_files_read_alike(tmp_path):
    frame = pd.DataFrame(
        {"x": [1.0, 2.0], "when": pd.to_datetime(["2024-01-01", "2024-01-02"])}, index=[7, 8]
    )
    frame.to_parquet(tmp_path / "t.parquet")
    source = ParquetSource(tmp_path, features="x", key="when")
    assert (
        source.read(0, 2, keys=True).keys["when"].tolist()
        == frame["when"].to_numpy("M8[ns]").tolist()
    )
