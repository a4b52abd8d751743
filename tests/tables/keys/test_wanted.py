"""Keys that are looked for are found in any rows, and no other key is."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dshap.tables.keys.digests import RowDigests, digest_rows, write_digests
from dshap.tables.keys.wanted import NO_KEY, WantedKeys
from dshap.tables.parts_without import SeenTexts, erase_in_digests, erase_in_part, note_part


def texts(*values: str) -> np.ndarray:
    return np.array(values, dtype=np.dtypes.StringDType())


def test_numbers_of_keys_against_brute_force():
    rng = np.random.default_rng(0)
    rows = {"a": rng.integers(0, 30, 500), "b": texts(*rng.choice(["x", "y", ""], 500))}
    wanted = WantedKeys({"a": np.array([3, 3, 29, 100]), "b": texts("x", "", "y", "x")})
    listed = list(zip([3, 3, 29, 100], ["x", "", "y", "x"], strict=True))
    expected = [
        listed.index(row) if row in listed else NO_KEY
        for row in zip(rows["a"].tolist(), rows["b"].tolist(), strict=True)
    ]
    assert wanted.numbers(rows).tolist() == expected
    assert NO_KEY in expected
    assert len({*expected}) > 2
    assert len(wanted) == 4
    assert wanted.only(np.array([True, False, False, True])).texts() == ["3, x", "100, x"]


def test_a_part_without_keys_and_its_digests(tmp_path):
    frame = pd.DataFrame({"id": np.arange(10), "city": [*"abcdefghij"]})
    frame.loc[5, "city"] = "a"
    part = tmp_path / "part-000000.parquet"
    frame.to_parquet(part, index=False)
    wanted = WantedKeys({"id": np.array([0, 7, 70])})
    seen = SeenTexts()
    assert note_part(part, wanted, seen) == [0, 1]
    assert seen.only_gone == {"h"}  # row 5 has the text of row 0 too
    file = tmp_path / "rows.parquet"
    write_digests(digest_rows([part], ["id"], ["city"]), file)
    rows = RowDigests(file)
    before = next(batch.digests() for batch in rows.batches())
    assert erase_in_digests(rows, wanted) == 2
    assert erase_in_digests(rows, wanted) == 0
    now = RowDigests(file)
    assert len(now) == 10
    assert now.count_erased() == 2
    (batch,) = now.batches()
    assert np.flatnonzero(batch.is_erased).tolist() == [0, 7]
    assert not batch.digests()[[0, 7]].any()
    assert np.array_equal(batch.digests()[1:7], before[1:7])
    done = erase_in_part(part, wanted)
    assert (done.n_rows, done.n_gone) == (8, 2)
    again = erase_in_part(part, wanted)
    assert (again.n_rows, again.n_gone, again.digest) == (8, 0, done.digest)
    assert pd.read_parquet(part).id.tolist() == [1, 2, 3, 4, 5, 6, 8, 9]
