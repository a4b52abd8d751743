"""The contract of a source: columns and types from run to run, one row a key."""

from __future__ import annotations

import functools
import re
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dshap.core.errors import InputError
from dshap.tables.keys.repeated import repeated_keys
from dshap.tables.memory_to_parts import write_part
from dshap.warehouse import contract
from dshap.warehouse.contract import Contract, UsedColumns, check_keys
from tests.tables.keys_of_one_hash import keys_of_one_hash

BEFORE = {"id": "int64", "spend": "double", "plan": "string"}


def used(*names, takes_numbers=False):
    return UsedColumns(names, takes_numbers)


def test_a_frozen_contract_names_used_columns_that_went_and_changed():
    """A column that is renamed is one that went."""
    all_of_them = used("id", "spend", "plan")
    Contract().check_schema(BEFORE, dict(reversed(BEFORE.items())), all_of_them)
    now = {"id": "int64", "spend": "string", "age": "int64"}
    with pytest.raises(
        InputError,
        match=r"contract: other columns than in the run before, gone: 'plan': correct the source, or "
        "accept them once with --set source.contract.columns=evolve",
    ):
        Contract().check_schema(BEFORE, now, all_of_them)
    with pytest.raises(InputError, match=r"'spend' from double to string: correct the source, or"):
        Contract(columns="evolve").check_schema(BEFORE, now, all_of_them)
    with pytest.raises(InputError, match="gone: 'plan'"):
        Contract(types="evolve").check_schema(BEFORE, now, all_of_them)
    Contract(columns="evolve", types="evolve").check_schema(BEFORE, now, all_of_them)


def test_columns_that_nobody_uses_are_told_and_stop_nothing():
    now = {"id": "int64", "spend": "string", "age": "int64"}
    changes = Contract().check_schema(BEFORE, now, used("id"))
    assert changes.to_dict() == {
        "new": ["age"],
        "gone": ["plan"],
        "types": {"spend": "double to string"},
    }
    assert changes.warning() == (
        "warning: [source] contract: columns that the job does not use differ from the run "
        "before, new: 'age'; gone: 'plan'; 'spend' from double to string: the run goes on"
    )
    unchanged = Contract().check_schema(now, now, used("id"))
    assert unchanged.to_dict() == {}
    assert unchanged.warning() == ""


def test_what_may_evolve_is_not_told():
    now = {"id": "int64", "spend": "string", "age": "int64"}
    columns = Contract(columns="evolve").check_schema(BEFORE, now, used("id"))
    assert columns.to_dict() == {"types": {"spend": "double to string"}}
    types = Contract(types="evolve").check_schema(BEFORE, now, used("id"))
    assert types.to_dict() == {"new": ["age"], "gone": ["plan"]}


def test_a_new_column_that_the_job_names_is_no_change_of_the_source():
    """Whoever added it to [source] features has read that it came."""
    now = {**BEFORE, "age": "int64"}
    assert Contract().check_schema(BEFORE, now, used("id", "age")).to_dict() == {}


def test_new_numbers_are_features_where_none_are_named():
    """They would change what is explained; a text that comes is not read."""
    numbers = used("id", takes_numbers=True)
    for kind in ("int64", "double", "bool", "decimal128(10, 2)"):
        with pytest.raises(
            InputError,
            match=r"new: 'age': columns of numbers are features, as \[source\] features is left "
            "out: name the features, correct the source, or accept them once",
        ):
            Contract().check_schema(BEFORE, {**BEFORE, "age": kind}, numbers)
    changes = Contract().check_schema(BEFORE, {**BEFORE, "note": "string"}, numbers)
    assert changes.to_dict() == {"new": ["note"]}
    without = {"id": "int64", "plan": "string"}
    with pytest.raises(InputError, match="gone: 'spend': correct the source"):
        Contract().check_schema(BEFORE, without, numbers)
    with pytest.raises(InputError, match="'plan' from string to double"):
        Contract().check_schema(BEFORE, {**BEFORE, "plan": "double"}, numbers)


def test_a_wider_type_is_no_change():
    before = {"id": "int32", "spend": "float", "price": "decimal128(8, 2)", "plan": "string"}
    wider = {
        "id": "int64",
        "spend": "double",
        "price": "decimal128(12, 2)",
        "plan": "large_string",
    }
    everything = used(*before)
    assert Contract().check_schema(before, wider, everything).to_dict() == {}
    with pytest.raises(InputError, match="other types than in the run before, 'id' from int64 to"):
        Contract().check_schema(wider, before, everything)


def test_a_key_stands_in_one_row(tmp_path):
    frame = pd.DataFrame({"shop": ["a", "a", "b", "b"], "id": [1, 2, 1, 2], "x": 0.5})
    write_part(tmp_path, 0, frame)
    check_keys(tmp_path, ["shop", "id"])
    write_part(tmp_path, 1, frame)  # every key again, in another part
    with pytest.raises(
        InputError, match=r"key shop, id: 4 of 8 rows repeat .* shop '[ab]', id [12] in 2 rows; "
    ):
        check_keys(tmp_path, ["shop", "id"])
    with pytest.raises(InputError, match=r"key shop: 6 of 8 rows repeat .* in 4 rows"):
        check_keys(tmp_path, ["shop"])
    with pytest.raises(InputError, match=r"key 'x' is double: a key is a whole number, text"):
        check_keys(tmp_path, ["x"])


def parts_of(folder, keys: dict, rows: int = 1_000) -> None:
    """Rows with these keys, as parts of so many."""
    frame = pd.DataFrame({**keys, "x": 0.5})
    for part in range(-(-len(frame) // rows)):
        write_part(folder, part, frame.iloc[part * rows : (part + 1) * rows])


@pytest.mark.parametrize("hashed_rows", [1, 3_000, 1 << 20])
def test_keys_of_one_hash_are_different_keys(tmp_path, monkeypatch, hashed_rows):
    """Only keys that are equal repeat one another, wherever their rows and their hashes lie."""
    monkeypatch.setattr(contract, "HASHED_ROWS", hashed_rows)
    keys = keys_of_one_hash(200)
    alike = keys_of_one_hash(60, place=1)
    parts_of(tmp_path, {name: np.r_[keys[name], alike[name]] for name in keys}, 30)
    check_keys(tmp_path, ["left", "right"])
    again = {name: np.r_[keys[name], alike[name], keys[name][[7, 9, 7]]] for name in keys}
    parts_of(tmp_path, again, 30)
    seven, nine = (
        f"left {keys['left'][row]}, right {keys['right'][row]} in {n} rows"
        for row, n in ((7, 3), (9, 2))
    )
    said = f"key left, right: 3 of 263 rows repeat the key of another row, for example {seven}; {nine}: keep"
    with pytest.raises(InputError, match=re.escape(said)):
        check_keys(tmp_path, ["left", "right"])
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".parquet"]


@pytest.mark.parametrize("hashed_rows", [7_000, 1 << 20])
def test_one_key_in_all_rows(tmp_path, monkeypatch, hashed_rows):
    monkeypatch.setattr(contract, "HASHED_ROWS", hashed_rows)
    parts_of(tmp_path, {"shop": np.full(100_000, "süd"), "id": 4}, 30_000)
    with pytest.raises(
        InputError,
        match=r"99,999 of 100,000 rows repeat .* for example shop 'süd', id 4 in 100,000 rows: ",
    ):
        check_keys(tmp_path, ["shop", "id"])


def test_the_hashes_of_few_rows_are_held_at_once(tmp_path, monkeypatch):
    """Those of 1,000,000 rows would be 8 MB, and were twice in memory."""
    monkeypatch.setattr(contract, "HASHED_ROWS", 50_000)
    ids = np.arange(1_000_000)
    pq.write_table(pa.table({"id": ids}), tmp_path / "part-000000.parquet", row_group_size=65_536)
    search = functools.partial(repeated_keys, together=50_000)
    monkeypatch.setattr(contract, "repeated_keys", search)
    tracemalloc.start()
    try:
        check_keys(tmp_path, ["id"])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000, peak


def test_no_row_has_no_key(tmp_path):
    pq.write_table(
        pa.table({"id": pa.array([], type=pa.int64())}), tmp_path / "part-000000.parquet"
    )
    check_keys(tmp_path, ["id"])


def test_a_missing_key_is_counted_with_examples(tmp_path):
    ids = pd.array([1, None, 3, None, None, None], dtype="Int64")
    write_part(tmp_path, 0, pd.DataFrame({"id": ids, "x": 0.5}))
    with pytest.raises(
        InputError, match=r"key id: missing in 4 of 6 rows, for example in row 1, 3, 4"
    ):
        check_keys(tmp_path, ["id"])
