"""Rows of a table beside those of a store: told in keys, whatever is known of their content."""

from __future__ import annotations

import functools
import re
import shutil

import numpy as np
import pandas as pd
import pytest

from dshap.core.errors import StoreMismatchError
from tests.run.test_difference import explained, model, refusal
from tests.tables.keys_of_one_hash import keys_of_one_hash

N = 400


@pytest.fixture(autouse=True)
def alone(in_this_process) -> None:
    """No cluster of another test."""


def changed(keyed_table: pd.DataFrame) -> pd.DataFrame:
    """20 keys gone, 5 changed, 100 new; the others, in the order that they had."""
    new = keyed_table.iloc[:100].assign(id=np.arange(100) + 5_000)
    out = pd.concat([keyed_table.iloc[20:], new], ignore_index=True)
    out.loc[[0, 7, 9, 200, 300], "a"] += 1.0
    return out


PARTS = "100 keys new (first 5000, 5001, 5002), 5 keys changed (first 30, 37, 39), 20 keys gone (first 10, 11, 12)"
UNSURE = " (changes that move no prediction are found only if keep_rows=True has stored the rows)"


@pytest.mark.slow
@pytest.mark.parametrize("is_joined_in_parts", [False, True])
@pytest.mark.parametrize("keep_rows", [False, True])
def test_keys_that_are_new_changed_and_gone(
    keyed_table, tmp_path, monkeypatch, keep_rows, is_joined_in_parts
):
    if is_joined_in_parts:
        monkeypatch.setattr("dshap.run.row_difference.JOINED_ROWS", 70)
    explained(keyed_table, tmp_path / "c.zarr", keep_rows=keep_rows)
    said = refusal(changed(keyed_table), tmp_path / "c.zarr", keep_rows=keep_rows)
    assert said == f"rows: {PARTS}{'' if keep_rows else UNSURE}"
    shuffled = changed(keyed_table).sample(frac=1.0, random_state=0)
    counts = r"100 keys new \(.*\), 5 keys changed \(.*\), 20 keys gone \(first 10, 11, 12\)"
    assert re.match(f"rows: {counts}", refusal(shuffled, tmp_path / "c.zarr", keep_rows=keep_rows))


@pytest.mark.slow
def test_what_moves_no_prediction_is_known_from_kept_rows_alone(keyed_table, tmp_path):
    nudged = keyed_table.assign(
        a=np.where(keyed_table.index == 7, np.nextafter(keyed_table.a, 9.0), keyed_table.a)
    )
    for keep_rows, expected in (
        (
            False,
            "rows: the same 400 keys in the same order, with different values in some "
            f"rows{UNSURE}",
        ),
        (True, "rows: 1 key changed (17)"),
    ):
        explained(keyed_table, tmp_path / "c.zarr", keep_rows=keep_rows)
        assert refusal(nudged, tmp_path / "c.zarr", keep_rows=keep_rows) == expected
        shutil.rmtree(tmp_path / "c.zarr")


def test_where_most_predictions_differ_no_rows_are_said_to_have_changed(keyed_table, tmp_path):
    """It may be the model: only its name is the same."""
    explained(keyed_table, tmp_path / "c.zarr")
    said = refusal(keyed_table.assign(c=keyed_table.c + 1.0), tmp_path / "c.zarr")
    assert said == f"rows: 400 keys with different predictions (first 10, 11, 12){UNSURE}"


def test_more_rows_than_are_predicted_for_a_message(keyed_table, tmp_path, monkeypatch):
    monkeypatch.setattr("dshap.run.row_difference.PREDICTED_ROWS", 100)
    explained(keyed_table, tmp_path / "c.zarr")
    said = refusal(changed(keyed_table), tmp_path / "c.zarr")
    assert said == (
        "rows: 100 keys new (first 5000, 5001, 5002), 20 keys gone (first 10, 11, 12) (the "
        "changed values are listed only if keep_rows=True has stored the rows)"
    )


def test_a_model_that_fails_on_the_new_rows(keyed_table, tmp_path):
    def moody(x):
        if (x == 77.0).any():
            raise ValueError("not this one")
        return model(x)

    functools.update_wrapper(moody, model)
    explained(keyed_table, tmp_path / "c.zarr", predict=moody)
    later = keyed_table.assign(a=np.where(keyed_table.index == 300, 77.0, keyed_table.a))
    said = refusal(later, tmp_path / "c.zarr", predict=moody)
    assert said.startswith(
        "rows: the same 400 keys in the same order, with different values in some rows (the "
        "changed values"
    )


def test_of_an_unfinished_run_the_keys_that_are_there(keyed_table, tmp_path):
    """Blocks of 64 rows, of which one has no receipt, with a changed row in it."""
    store = tmp_path / "c.zarr"
    explained(keyed_table, store)
    (store / "state/receipts/block-00000003.json").unlink()
    seen = "of 336 finished keys (400 in all),"
    said = refusal(keyed_table.iloc[::-1], store)
    assert said.startswith(f"rows: {seen} all in a different order (")
    said = refusal(changed(keyed_table), store)
    assert (
        said
        == f"rows: {seen} 4 keys changed (first 30, 37, 39), 20 keys gone (first 10, 11, 12){UNSURE}; "
        + ("400 rows before, 480 now")
    )
    said = refusal(pd.concat([keyed_table, keyed_table.assign(id=keyed_table.id + 9_000)]), store)
    assert said == f"rows: {seen} none is gone; 400 rows before, 800 now"


def test_keys_of_several_columns(keyed_table, tmp_path):
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(keyed_table.index % 7, "D")
    keyed_table = keyed_table.assign(day=day, shop=[f"s{i // 7}" for i in keyed_table.index])
    explained(keyed_table, tmp_path / "c.zarr", key=["shop", "day"])
    said = refusal(keyed_table.iloc[1:], tmp_path / "c.zarr", key=["shop", "day"])
    assert said.startswith("rows: 1 key gone (shop=s0 day=2020-01-01)")


@pytest.mark.parametrize("joined_rows", [70, 2_750_000])
def test_keys_of_one_hash_are_different_keys(keyed_table, tmp_path, monkeypatch, joined_rows):
    """The hash of 64 bits of all keys, before and now, is one."""
    monkeypatch.setattr("dshap.run.row_difference.JOINED_ROWS", joined_rows)
    keys = pd.DataFrame(keys_of_one_hash(N + 2))
    store = tmp_path / "c.zarr"
    named = {"key": ["left", "right"], "keep_rows": True}
    explained(keyed_table.assign(**keys[:N]), store, **named)
    now = keyed_table.assign(**keys[2:].reset_index(drop=True))
    later = keyed_table[2:].reset_index(drop=True)
    now.loc[: N - 3, ["a", "b", "c"]] = later[["a", "b", "c"]]
    now.loc[5, "a"] += 1.0
    with pytest.raises(StoreMismatchError) as raised:
        explained(now, store, **named)
    new = ", ".join(f"left={left} right={right}" for left, right in keys[N:].to_numpy())
    gone = ", ".join(f"left={left} right={right}" for left, right in keys[:2].to_numpy())
    changed_key = f"left=7 right={keys.right[7]}"
    said = f"rows: 2 keys new ({new}), 1 key changed ({changed_key}), 2 keys gone ({gone}); choose"
    assert said in str(raised.value)
