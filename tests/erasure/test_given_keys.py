"""Keys of a command: their types, their files, and one clear line about each mistake."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dshap.core.errors import InputError
from dshap.erasure.given_keys import read_keys

ID = {"id": "int64"}
TWO = {"shop": "string", "day": "datetime64[ns]"}


def test_keys_are_typed_and_each_is_taken_once():
    keys = read_keys(["7", "07", " 8 "], None, ID)
    assert keys.columns["id"].tolist() == [7, 8]
    assert keys.names == ("id",)
    texts = read_keys(["a,b", "ü 🦊", "a,b"], None, {"id": "string"})
    assert texts.texts() == ["a,b", "ü 🦊"]


def test_keys_of_several_columns_are_separated_by_commas():
    keys = read_keys(['"Rome, Italy",2026-11-27'], None, TWO)
    assert keys.columns["shop"].tolist() == ["Rome, Italy"]
    assert keys.columns["day"].tolist() == [pd.Timestamp("2026-11-27").value]
    with pytest.raises(InputError, match="1 values for 2 key columns: give SHOP,DAY"):
        read_keys(["Rome"], None, TWO)


@pytest.mark.parametrize("suffix", ["txt", "csv", "parquet"])
def test_files_of_keys(tmp_path, suffix):
    file = tmp_path / f"keys.{suffix}"
    frame = pd.DataFrame({"other": [1.5, 2.5, 2.5], "id": [3, 1, 3]})
    match suffix:
        case "txt":
            file.write_text("3\n\n1\n3\n")
        case "csv":
            frame.to_csv(file, index=False)
        case "parquet":
            frame.to_parquet(file)
    assert read_keys(["5"], str(file), ID).columns["id"].tolist() == [5, 3, 1]


@pytest.mark.parametrize(
    ("given", "kinds", "said"),
    [
        (["K7"], ID, r"key 'K7': column 'id' has whole numbers, such as 1007"),
        (["7.5"], ID, r"key '7.5': column 'id' has whole numbers"),
        (["9" * 30], ID, r"column 'id' has whole numbers"),
        (["x,NaT"], TWO, r"column 'day' has times, such as"),
        ([], ID, r"no key is given: give --key K, or --keys FILE"),
    ],
)
def test_keys_that_are_refused(given, kinds, said):
    with pytest.raises(InputError, match=said):
        read_keys(given, None, kinds)


def test_files_that_are_refused(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        read_keys([], str(tmp_path / "none.txt"), ID)
    file = tmp_path / "keys.csv"
    file.write_text("key\n1\n")
    with pytest.raises(
        InputError, match="has no column 'id': its first line must name the key columns"
    ):
        read_keys([], str(file), ID)
    (tmp_path / "keys.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not text in UTF-8"):
        read_keys([], str(tmp_path / "keys.txt"), ID)
    (tmp_path / "keys.parquet").write_bytes(b"no table")
    with pytest.raises(InputError, match=r"keys\.parquet"):
        read_keys([], str(tmp_path / "keys.parquet"), ID)
    pd.DataFrame({"key": [1]}).to_parquet(tmp_path / "keys.parquet")
    with pytest.raises(InputError, match="has no column 'id', which is part of the key"):
        read_keys([], str(tmp_path / "keys.parquet"), ID)


def test_digests_need_the_secret_and_tell_columns_apart():
    keys = read_keys(["ab,2026-11-27", "a,2026-11-27"], None, TWO)
    one = keys.digests(b"secret")
    assert one == keys.digests(b"secret")
    assert not set(one) & set(keys.digests(b"another"))
    assert len(set(one)) == 2
    assert all(len(each) == 64 for each in one)
    assert np.array_equal(keys.numbers(keys.columns), [0, 1])
