"""The census counts right, and its digest sees values and their order only; what a plan tells of
missing values."""

import itertools
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dshap.core.errors import InputError
from dshap.core.options import MISSING_POLICIES
from dshap.core.rows import spans
from dshap.engine import LoopExecutor
from dshap.engine.learn import run_pass
from dshap.tables import (
    SPAN_ROWS,
    ArraySource,
    CensusPass,
    ParquetSource,
    SyntheticTable,
    from_pandas,
    missing_values,
    write_part,
)
from dshap.tables.census import LOOKS
from dshap.tables.reader import BATCH_ROWS

N_ROWS = SPAN_ROWS + 1_000
TEXT = np.dtypes.StringDType()


def take(reader, keys: Path | None = None, width: int = SPAN_ROWS):
    cut = spans(0, reader.n_rows, width)
    return run_pass(LoopExecutor(), CensusPass(reader.feature_names, keys), reader, cut)


def make_columns(n_rows=N_ROWS):
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=n_rows) for name in ("a", "b", "y")}
    columns["a"][[3, 500]] = np.nan
    return columns | {
        "id": np.arange(n_rows),
        "name": np.array([f"ü{i}" for i in range(n_rows)], dtype=TEXT),
    }


def spool(directory, columns, cuts):
    edges = [0, *cuts, len(columns["a"])]
    for index, (start, stop) in enumerate(itertools.pairwise(edges)):
        write_part(directory, index, {name: values[start:stop] for name, values in columns.items()})
    return ParquetSource(
        directory, features=["a", "b"], key=["id", "name"], target="y", missing="skip"
    )


def in_memory(columns, **changes):
    columns = columns | changes
    keys = {"id": columns["id"], "name": columns["name"]}
    x = np.column_stack([columns["a"], columns["b"]])
    return ArraySource(x, feature_names=["a", "b"], keys=keys, target=columns["y"], missing="skip")


def test_digest_does_not_see_the_chunks(tmp_path):
    columns = make_columns()
    expected = take(in_memory(columns))
    assert take(spool(tmp_path / "one", columns, [])) == expected
    assert take(spool(tmp_path / "many", columns, [1, 40_000, SPAN_ROWS + 1])) == expected
    frame = pd.DataFrame(
        {name: values.tolist() if name == "name" else values for name, values in columns.items()}
    )
    assert take(from_pandas(frame, ["a", "b"], ["id", "name"], "y", "skip")) == expected
    # NaN stored as null, another writer
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=777)
    reader = ParquetSource(
        tmp_path / "t.parquet", features=["a", "b"], key=["id", "name"], target="y", missing="skip"
    )
    assert take(reader) == expected


def changed(values, position, value):
    values = values.copy()
    values[position] = value
    return values


def test_digest_sees_every_value():
    columns = make_columns(2_000)
    changes = [
        {},
        {"a": changed(columns["a"], 7, np.nextafter(columns["a"][7], 9))},
        {"a": columns["b"], "b": columns["a"]},
        {"a": columns["a"][::-1]},
        {"y": changed(columns["y"], 0, 0.0)},
        {"y": changed(columns["y"], 0, -0.0)},
        {"id": changed(columns["id"], 5, -5)},
        {"name": changed(columns["name"], 5, "u5")},
    ]
    assert len({take(in_memory(columns, **change)).fingerprint for change in changes}) == len(
        changes
    )


def test_digest_sees_where_one_text_ends():
    texts = [["ab", "c"], ["a", "bc"], ["abc", ""]]
    assert (
        len({take(ArraySource(np.ones((2, 1)), keys={"k": each})).fingerprint for each in texts})
        == 3
    )


def test_digest_takes_every_nan_as_one_value():
    other = np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)
    assert take(ArraySource(other.reshape(1, 1))) == take(ArraySource([[np.nan]]))


def test_counts():
    x = np.array([[1.0, np.nan, 5], [np.inf, np.nan, 5], [3.0, 2.0, 5]])
    reader = ArraySource(
        x, feature_names=["hum", "temp", "same"], target=[1.0, np.nan, 2.0], missing="pass"
    )
    census = take(reader)
    assert (census.n_rows, census.n_bad, census.n_bad_targets) == (3, 2, 1)
    assert census.bad == {"hum": 1, "temp": 2}
    assert (census.low, census.high) == ((1.0, 2.0, 5.0), (3.0, 2.0, 5.0))
    assert census.constant_columns(reader) == ("same",)
    assert take(ArraySource([[np.nan]])).low == (np.inf,)


def test_messages_by_policy():
    x = np.array([[1.0, np.nan], [np.inf, np.nan], [3.0, 2.0]])
    readers = {
        name: ArraySource(x, feature_names=["hum", "temp"], missing=name)
        for name in MISSING_POLICIES
    }
    census = take(readers["refuse"])
    with pytest.raises(
        InputError,
        match=r'^2 rows contain NaN or infinity: temp 2, hum 1; set missing = "skip" .*pass',
    ):
        census.raise_on_bad(readers["refuse"])
    census.raise_on_bad(readers["skip"])
    census.raise_on_bad(readers["pass"])
    alone = take(ArraySource(x[:2], feature_names=["hum", "temp"], missing="skip"))
    with pytest.raises(
        InputError, match="temp 2, hum 1, and there is no other row to explain: fill"
    ):
        alone.raise_on_bad(readers["skip"])
    wide = ArraySource(np.vstack([np.full(12, np.nan), np.ones(12)]))
    with pytest.raises(
        InputError, match=r"^1 row contains NaN or infinity: x0 1, .*x7 1 and 4 more columns; set"
    ):
        take(wide).raise_on_bad(wide)


@pytest.mark.parametrize("missing", ["refuse", "skip", "pass"])
def test_rows_without_a_key_are_refused(tmp_path, missing):
    frame = pd.DataFrame(
        {
            "x": [1.0, 2.0, 3.0],
            "id": pd.array([1, None, None], dtype="Int64"),
            "u": ["a", None, "c"],
        }
    )
    write_part(tmp_path, 0, frame)
    reader = ParquetSource(tmp_path, features=["x"], key=["id", "u"], missing=missing)
    with pytest.raises(InputError, match=r"^rows contain no key \(id 2, u 1\): fill them"):
        take(reader).raise_on_bad(reader)


def test_a_receipt_is_small():
    reader = ArraySource(np.random.default_rng(0).normal(size=(100, 12)))
    (span,) = CensusPass(reader.feature_names).partial(reader.read(0, 100))
    assert len(pickle.dumps(span)) < 700
    assert pickle.loads(pickle.dumps(span)) == span


def test_the_order_of_the_spans_counts():
    reader = ArraySource(np.arange(10.0)[:, None])
    one = CensusPass(reader.feature_names)
    parts = [one.partial(reader.read(start, start + 5))[0] for start in (0, 5)]
    there, back = one.finish(tuple(parts)), one.finish(tuple(parts[::-1]))
    assert there == take(reader, width=5)
    assert there.fingerprint != back.fingerprint
    assert (
        (there.n_rows, there.low, there.high)
        == (10, (0.0,), (9.0,))
        == (back.n_rows, back.low, back.high)
    )


# --- before a plan: nulls of all rows by the footers, NaN and infinity by a look


def with_nulls(folder, values, name="t", **options):
    table = pa.table(
        {"x": pa.array(values), "one": np.ones(len(values)), "id": np.arange(len(values))}
    )
    pq.write_table(table, folder / f"{name}.parquet", **options)
    return ParquetSource(folder, features=["x", "one"], key="id", missing="skip")


def test_nulls_of_all_files_are_counted_without_a_row(tmp_path, monkeypatch):
    with_nulls(tmp_path, [1.0, None, None], "a")
    with_nulls(tmp_path, [None, 2.0], "b", row_group_size=1)
    source = with_nulls(tmp_path, [1, 2], "c")  # of another type
    monkeypatch.setattr(
        pq.ParquetFile, "iter_batches", lambda *_, **__: pytest.fail("a row is read")
    )
    assert source.null_counts == {"x": 3, "one": 0, "id": 0}


def test_a_file_that_counts_no_nulls_is_said(tmp_path):
    source = with_nulls(tmp_path, [1.0, None, np.nan], write_statistics=False)
    found = missing_values(source)
    assert source.null_counts == {"x": None, "one": None, "id": None}
    assert found.nulls == {}
    assert found.uncounted == ("x", "one", "id")
    assert found.seen == {"x": 2}
    assert str(found) == (
        "nulls: none; not counted by the files: x, one, id; NaN or infinity: x 2 in all rows; "
        'missing = "skip": such rows are skipped'
    )
    with_nulls(tmp_path, [1.0], "b")
    assert ParquetSource(tmp_path, features="x").null_counts == {"x": None}  # one file of two


@pytest.mark.parametrize(
    "n_rows", [1, BATCH_ROWS, LOOKS * BATCH_ROWS, LOOKS * BATCH_ROWS + LOOKS, 6 * BATCH_ROWS + 5]
)
def test_a_few_batches_are_looked_at(tmp_path, n_rows):
    """The first row of the table, and where that is small all of it; never more than four
    batches."""
    values = np.ones(n_rows)
    values[0] = values[-1] = np.nan
    source = with_nulls(tmp_path, values, row_group_size=5_000)
    found = missing_values(source)
    is_whole = n_rows <= LOOKS * BATCH_ROWS
    assert found.rows_seen == min(n_rows, LOOKS * BATCH_ROWS)
    assert found.n_rows == n_rows
    assert found.seen == {"x": 1 if n_rows == 1 or not is_whole else 2}
    assert (" in all rows;" in str(found)) is is_whole
    assert is_whole or f" in 65,536 of {n_rows:,} rows looked at;" in str(found)


def test_a_made_up_table_lacks_nothing():
    found = missing_values(SyntheticTable("powerlifting", 500))
    assert str(found) == "nulls: none; NaN or infinity: none in all rows"
    assert found.missing == "refuse"
