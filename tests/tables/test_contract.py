"""The contract of a source: columns and types from run to run, one row a key."""

from __future__ import annotations

import pandas as pd
import pytest

from dshap.core.errors import InputError
from dshap.tables.contract import Contract, check_keys
from dshap.tables.spool import write_part

BEFORE = {"id": "int64", "spend": "double", "plan": "string"}


def test_a_frozen_contract_names_what_came_went_and_changed():
    Contract().check_schema(BEFORE, dict(reversed(BEFORE.items())))
    now = {"id": "int64", "spend": "string", "age": "int64"}
    with pytest.raises(
        InputError, match=r"new: 'age'; gone: 'plan': .* --set source.contract.columns=evolve"
    ):
        Contract().check_schema(BEFORE, now)
    with pytest.raises(InputError, match=r"'spend' from double to string: mend the source, or"):
        Contract(columns="evolve").check_schema(BEFORE, now)
    with pytest.raises(InputError, match="new: 'age'; gone: 'plan'"):
        Contract(types="evolve").check_schema(BEFORE, now)
    Contract(columns="evolve", types="evolve").check_schema(BEFORE, now)


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


def test_a_missing_key_is_counted_with_examples(tmp_path):
    ids = pd.array([1, None, 3, None, None, None], dtype="Int64")
    write_part(tmp_path, 0, pd.DataFrame({"id": ids, "x": 0.5}))
    with pytest.raises(
        InputError, match=r"key id: missing in 4 of 6 rows, for example in row 1, 3, 4"
    ):
        check_keys(tmp_path, ["id"])
