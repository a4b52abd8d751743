"""Two tables as samples: the same columns, one list of categories, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.run.session import open_session
from dshap.warehouse.paired_samples import paired_samples


def frame(n: int = 6, **columns) -> pd.DataFrame:
    made = {
        "id": np.arange(n) + 100,
        "age": np.linspace(0, 1, n),
        "city": ["Bern", "Ulm", None] * (n // 3),
        "when": pd.date_range("2026-01-01", periods=n),
        "is_new": np.arange(n) % 2 == 0,
    }
    return pd.DataFrame(made | columns)


def read(old, new, **options):
    with open_session(None, None, False, {}) as (_, session):
        return paired_samples(old, new, session, **options)


def test_columns_of_every_kind_are_read_with_one_list_of_categories():
    new = frame(3, city=["Ulm", "Aarau", "Bern"])[["city", "when", "is_new", "age", "id"]]
    found = read(frame(), new, key="id")
    assert found.names == ("age", "city", "when", "is_new")
    assert found.is_categorical.tolist() == [False, True, False, False]
    np.testing.assert_array_equal(found.old.x[:3, 1], [1.0, 2.0, np.nan])  # Aarau, Bern, Ulm
    assert found.new.x[:, 1].tolist() == [2.0, 0.0, 1.0]
    assert found.new.x[0, 2] == found.old.x[0, 2] == 1767225600e6
    assert found.old.key_of(4) == {"id": "104"}
    assert found.new.key_of(0) == {"id": "100"}


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "arrow", "source"])
def test_every_kind_of_table_gives_the_same_samples(kind, tmp_path):
    rows = frame()[["age", "city"]]
    expected = read(rows, rows)
    if kind == "csv":
        rows.to_csv(tmp_path / "rows.csv", index=False)
        given = str(tmp_path / "rows.csv")
    elif kind == "tsv":
        rows.to_csv(tmp_path / "rows.tsv", index=False, sep="\t")
        given = str(tmp_path / "rows.tsv")
    elif kind == "arrow":
        given = pa.Table.from_pandas(rows)
    else:
        rows.to_parquet(tmp_path / "rows.parquet")
        given = tmp_path / "rows.parquet"
    if kind == "source":
        options = {"features": ["age", "city"], "categories": {"city": ["?"]}, "missing": "pass"}
        given = dshap.sources.ParquetSource(given, **options)
    found = read(rows, given)
    np.testing.assert_array_equal(found.new.x, expected.old.x)
    assert found.names == ("age", "city")


def test_arrays_have_numbers():
    found = read(np.eye(3), np.zeros((2, 3)))
    assert found.names == ("x0", "x1", "x2")
    assert found.new.x.shape == (2, 3)
    assert found.old.key_of(2) == {"row": "2"}


def test_a_table_of_text_alone():
    rows = frame()[["city"]]
    assert read(rows, rows).is_categorical.tolist() == [True]


def test_a_sample_is_seeded_and_knows_its_rows():
    rows = pd.DataFrame({"a": np.arange(1_000.0)})
    one, two, other = (read(rows, rows, max_rows=50, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.old.x, two.old.x)
    assert not np.array_equal(one.old.x, other.old.x)
    assert len(one.old.x) == 50
    assert (one.old.x[:, 0] == one.old.positions).all()
    assert one.new.key_of(7) == {"row": str(one.new.positions[7])}


def nested(n: int = 6) -> pd.DataFrame:
    return frame(n, tags=[[1, 2]] * n)


def zoned(n: int = 6) -> pd.DataFrame:
    return frame(n, when=pd.date_range("2026-01-01", periods=n, tz="Europe/Berlin"))


REFUSED = {
    "a column less": (
        frame(),
        frame().drop(columns="age"),
        {},
        "new has no column 'age', which old has: give both the same columns, or name those to "
        "compare (features, or --column on the command line)",
    ),
    "columns more": (
        frame(),
        frame(b=1.0, c=2.0),
        {},
        "old has no column 'b' and 1 more, which new has: give both the same columns, or name "
        "those to compare (features, or --column on the command line)",
    ),
    "an unknown feature": (
        frame(),
        frame(),
        {"features": ["agee"]},
        "old: unknown column 'agee'; did you mean 'age'? Allowed: age, city, id, is_new, when.",
    ),
    "text here and numbers there": (
        frame(),
        frame(city=1.0),
        {},
        "column 'city' contains text in old and numbers in new: cast one of them",
    ),
    "lists": (
        nested(),
        nested(),
        {},
        "column 'tags' contains list<item: int64>, and numbers, text and times are compared: leave it "
        "out by naming the others (features, or --column on the command line)",
    ),
    "times of a zone": (
        frame(),
        zoned(),
        {},
        "column 'when' contains datetime64[us] in old and datetime64[us, Europe/Berlin] in new: give "
        "both a zone, or none",
    ),
    "no rows": (frame(), frame()[:0], {}, "new: empty table: the frame has no rows; give a table"),
    "contain only the key": (
        frame()[["id"]],
        frame()[["id"]],
        {"key": "id"},
        "no column is left to compare: the tables contain only the key",
    ),
    "no such key": (frame(), frame(), {"key": "nr"}, "old: unknown column 'nr'."),
    "no such file": ("none.csv", frame(), {}, "old: no CSV file at none.csv"),
    "infinity": (
        frame(),
        frame(age=[0.0, 1, 2, np.inf, 4, 5]),
        {"key": "id"},
        "column 'age' of new contains infinity (id 103): make it a missing value or a number",
    ),
    "infinity without a key": (
        frame(age=[0.0, 1, 2, -np.inf, 4, np.inf]),
        frame(),
        {},
        "column 'age' of old contains infinity (2 times, first at row 3): make it a missing value or ",
    ),
    "a program": (
        frame(),
        __file__,
        {},
        f"new: {__file__} is not a table: tables are Parquet or CSV files by their endings, .parquet, "
        ".csv, .csv.gz, .tsv, .tsv.gz; give one of these",
    ),
    "no table": (frame(), 3, {}, "new: rows of type int: give a path"),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_what_is_refused_says_which_table(mistake):
    old, new, options, said = REFUSED[mistake]
    with pytest.raises(InputError) as caught:
        read(old, new, **options)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("column", ["age", "city", "when"])
def test_a_column_without_any_value_is_missing(column, tmp_path):
    """Of no type in memory and in a file, on either side; on both it holds missing numbers."""
    rows = frame()
    nothing = frame(**{column: None})
    nothing.to_parquet(tmp_path / "nothing.parquet")
    for given in (nothing, tmp_path / "nothing.parquet"):
        there = read(rows, given, features=[column])
        assert np.isnan(there.new.x).all()
        assert not np.isnan(there.old.x).all()
        np.testing.assert_array_equal(read(given, rows, features=[column]).new.x, there.old.x)
        assert np.isnan(read(given, given, features=[column]).old.x).all()


def test_parquet_files_may_have_any_ending(tmp_path):
    frame().to_parquet(tmp_path / "rows.data")
    assert read(frame(), tmp_path / "rows.data").names == ("id", "age", "city", "when", "is_new")


def test_too_many_categories(monkeypatch):
    monkeypatch.setattr("dshap.tables.categories.MAX_CATEGORIES", 1)
    with pytest.raises(InputError, match="column 'city' contains 2 different values, at most 1 "):
        read(frame()[["city"]], frame()[["city"]])
