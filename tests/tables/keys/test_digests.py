"""Digests of rows by key: equal rows have equal digests however they are stored, others have not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dshap.core.errors import InputError
from dshap.tables.keys.digests import RowDigests, digest_rows, write_digests

COLUMNS = {
    "number": pa.array([1.5, None, float("nan"), -0.5]),
    "whole": pa.array([1, 2, None, 2**62], pa.int64()),
    "large": pa.array([1, 2, 3, 2**64 - 1], pa.uint64()),
    "flag": pa.array([True, None, False, True]),
    "text": pa.array(["a", "ab", None, ""]),
    "day": pa.array([0, 1, None, 20_000], pa.date32()),
    "moment": pa.array([0, 10**15, None, -5], pa.timestamp("us", tz="UTC")),
    "amount": pa.array(["1.50", "2.00", None, "3.25"]).cast(pa.decimal128(10, 2)),
    "clock": pa.array([0, 1, None, 3], pa.time64("us")),
}
KEY = pa.array([7, 5, 3, 1])


def digests(folder, columns, key=KEY, name="part-000000.parquet"):
    """The digests of a table with these columns, written as one part."""
    part = folder / name
    pq.write_table(pa.table({"id": key, **columns}), part)
    return digested(part, ["id"], list(columns))


def digested(part, key, features):
    """(n, 2): the digests of a part, kept in a file and read again."""
    file = part.with_suffix(".digests")
    write_digests(digest_rows([part], key, features), file)
    batches = list(RowDigests(file).batches())
    assert [each.start for each in batches] == np.cumsum([0, *map(sized, batches)])[:-1].tolist()
    return np.concatenate([each.digests() for each in batches])


def sized(batch):
    return batch.n_rows


def same_rows(one, other):
    """(n,): whether two arrays of digests are equal, row by row."""
    return (one == other).all(axis=1)


@pytest.mark.parametrize("name", COLUMNS)
def test_each_value_counts(tmp_path, name):
    """Every row of a column of any type gets another digest when its value is another row's."""
    column = COLUMNS[name]
    found = digests(tmp_path, {name: column})
    turned = digests(tmp_path, {name: column.take(pa.array([1, 2, 3, 0]))})
    equal = [
        column[i].is_valid == column[j].is_valid and str(column[i]) == str(column[j])
        for i, j in enumerate([1, 2, 3, 0])
    ]
    assert same_rows(found, turned).tolist() == equal


def test_the_way_of_storing_does_not_count(tmp_path):
    """Dictionaries, wider types, other NaN, other parts and row groups give the same digests."""
    plain = digests(tmp_path, {"text": COLUMNS["text"], "number": COLUMNS["number"]})
    other_nan = np.array([1.5, 0, np.nan, -0.5])
    other_nan.view(np.uint64)[2] |= 1
    number = pa.array(other_nan, mask=np.array([False, True, False, False]))
    stored = digests(
        tmp_path, {"text": COLUMNS["text"].dictionary_encode(), "number": number}, name="b.parquet"
    )
    assert same_rows(plain, stored).all()
    small = digests(tmp_path, {"whole": pa.array([1, 2, 3, 4], pa.int8())})
    wide = digests(tmp_path, {"whole": pa.array([1, 2, 3, 4], pa.int64())})
    assert same_rows(small, wide).all()


def test_times_of_the_years_1_to_9999(tmp_path):
    """Each has a digest of its own, whatever the unit; that of ordinary times is the nanoseconds'."""
    days = np.array(["0001-01-01", "1970-01-01", "2026-11-27", "9999-12-31"], "datetime64[s]")
    found = [
        digests(tmp_path, {"t": pa.array(days).cast(pa.timestamp(unit))})
        for unit in ("s", "ms", "us")
    ]
    assert all(same_rows(found[0], other).all() for other in found[1:])
    assert len({tuple(row) for row in found[0].tolist()}) == 4
    ordinary = pa.array(days[1:3].repeat(2)).cast(pa.timestamp("ns"))
    stored = digests(tmp_path, {"t": ordinary})
    assert (stored[[0, 2]] == found[0][1:3]).all()
    as_numbers = digests(tmp_path, {"t": ordinary.cast(pa.int64())})
    assert same_rows(stored, as_numbers).all()


def test_null_is_no_value(tmp_path):
    null = digests(tmp_path, {"x": pa.array([None, 0.0, None, float("nan")])})
    assert len({tuple(row) for row in null.tolist()}) == 3


def test_neighbouring_texts_are_kept_apart(tmp_path):
    one = digests(tmp_path, {"a": pa.array(["ab"] * 4), "b": pa.array(["c"] * 4)})
    other = digests(tmp_path, {"a": pa.array(["a"] * 4), "b": pa.array(["bc"] * 4)})
    assert not same_rows(one, other).any()


def test_missing_keys_are_refused(tmp_path):
    with pytest.raises(InputError, match="id"):
        digests(tmp_path, {"x": COLUMNS["number"]}, key=pa.array([7, None, 5, 3]))


def test_a_table_without_rows(tmp_path):
    file = tmp_path / "none.digests"
    write_digests(digest_rows([], ["id"], ["x"]), file)
    none = RowDigests(file)
    assert len(none) == 0
    assert none.key_kinds == []
    pq.write_table(pa.table({"id": pa.array([], pa.int64()), "x": []}), tmp_path / "a.parquet")
    write_digests(digest_rows([tmp_path / "a.parquet"], ["id"], ["x"]), file)
    assert len(RowDigests(file)) == 0


def test_kinds_of_keys(tmp_path):
    keys = {"n": pa.array([1]), "t": pa.array(["ä"]), "day": pa.array([0], pa.date32())}
    pq.write_table(pa.table(keys), tmp_path / "a.parquet")
    file = tmp_path / "a.digests"
    write_digests(digest_rows([tmp_path / "a.parquet"], ["t", "day", "n"], ["n"]), file)
    assert RowDigests(file).key_kinds == [("t", "T"), ("day", "M"), ("n", "i")]


def test_the_keys_of_some_rows(tmp_path):
    file = tmp_path / "a.digests"
    table = {"id": KEY, "name": pa.array(["a", "ä b", "c", ""]), "flag": COLUMNS["flag"]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    write_digests(digest_rows([tmp_path / "a.parquet"], ["id", "name"], ["flag"]), file)
    (batch,) = RowDigests(file).batches()
    wanted = batch.keys_where(np.array([True, False, False, True]))
    assert wanted.to_pydict() == {"id": [7, 1], "name": ["a", ""]}
