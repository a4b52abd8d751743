"""Another run than the one that a store holds: what differs is told in words, and nothing that only
follows from it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dshap
from dshap.core.errors import StoreMismatchError
from dshap.values import Marginal

NAMES = ["a", "b", "c"]


def model(x):
    return x[:, 0] * x[:, 1] + x[:, 2]


def other(x):
    return x[:, 0] * x[:, 1] + 2.0 * x[:, 2]


other.__qualname__ = model.__qualname__  # known by what it predicts alone


@pytest.fixture(autouse=True)
def alone(in_this_process) -> None:
    """No cluster of another test."""


BACKGROUND = np.random.default_rng(1).normal(size=(10, 3))


def explained(rows, store, predict=model, background=BACKGROUND, **options):
    value = Marginal(predict, background, feature_names=NAMES)
    return dshap.explain(
        value, rows, store=store, **{"key": "id", "instance_tile": 64, "progress": False, **options}
    )


def refusal(*given, **options) -> str:
    with pytest.raises(StoreMismatchError) as raised:
        explained(*given, **options)
    said = str(raised.value)
    assert raised.value.exit_status == 4 and said.endswith("; choose another store, or remove it")
    assert not re.search("[0-9a-f]{16}", said) and "\n" not in said
    return said.partition(" holds another run: ")[2].removesuffix(
        "; choose another store, or remove it"
    )


def test_rows_in_another_order_are_not_told_as_another_model(keyed_table, tmp_path):
    """The first rows are others, and so are the predictions that the model is known by."""
    explained(keyed_table, tmp_path / "c.zarr")
    said = refusal(keyed_table.iloc[::-1], tmp_path / "c.zarr")
    assert said == (
        "rows: the same 400 keys in another order (the order is part of a run: sort the rows as "
        "they were)"
    )


def test_rows_without_a_key_are_told_in_plain_words(keyed_table, tmp_path):
    explained(keyed_table, tmp_path / "c.zarr", key=None)
    which = " (with key= the message tells which)"
    said = refusal(keyed_table.iloc[::-1], tmp_path / "c.zarr", key=None)
    assert said == f"rows: 400 as before, with other values or in another order{which}"
    assert (
        refusal(keyed_table.iloc[5:], tmp_path / "c.zarr", key=None)
        == f"rows: 400 before, 395 now{which}"
    )


def test_a_background_is_told_by_its_rows(keyed_table, tmp_path):
    explained(keyed_table, tmp_path / "c.zarr")
    more = np.concatenate([BACKGROUND, BACKGROUND[:2] + 1.0])
    assert (
        refusal(keyed_table, tmp_path / "c.zarr", background=more)
        == "background: 10 rows before, 12 now"
    )
    said = refusal(keyed_table, tmp_path / "c.zarr", background=BACKGROUND + 1.0)
    assert said == "background: 10 rows as before, with other values or in another order"


def test_another_model_is_told_as_one(keyed_table, tmp_path):
    explained(keyed_table, tmp_path / "c.zarr")
    said = refusal(keyed_table, tmp_path / "c.zarr", predict=other)
    assert said == "the model predicts other values than before for the same rows"


def test_several_differences_are_told_together(keyed_table, tmp_path):
    explained(keyed_table, tmp_path / "c.zarr")
    said = refusal(
        keyed_table.iloc[::-1], tmp_path / "c.zarr", background=BACKGROUND[1:], dtype="float32"
    )
    assert re.fullmatch(
        r"rows: the same 400 keys in another order \(.*\); background: 10 rows before, 9 now; "
        "dtype was float64, now float32",
        said,
    )


def test_another_design_or_value_function_is_told_by_its_name(keyed_table, tmp_path):
    """Not by each option that the other has not."""
    explained(keyed_table, tmp_path / "c.zarr")
    assert (
        refusal(keyed_table, tmp_path / "c.zarr", design="permutation")
        == "design was exact, now permutation"
    )
    gaussian = dshap.values.Gaussian(model, BACKGROUND, feature_names=NAMES)
    with pytest.raises(
        StoreMismatchError, match=r"another run: value function was marginal, now gaussian; choose"
    ):
        dshap.explain(gaussian, keyed_table, key="id", instance_tile=64, store=tmp_path / "c.zarr")


def test_other_players_are_told_once(keyed_table, tmp_path):
    explained(keyed_table, tmp_path / "c.zarr")
    grouped = Marginal(model, BACKGROUND, feature_names=NAMES, players={"p": ["a", "b"]})
    with pytest.raises(
        StoreMismatchError,
        match=r"another run: players was \['a', 'b', 'c'\], now \['p', 'c'\]; choose",
    ):
        dshap.explain(grouped, keyed_table, key="id", instance_tile=64, store=tmp_path / "c.zarr")


def test_other_columns_are_not_told_as_other_rows(keyed_table, tmp_path):
    explained(keyed_table, tmp_path / "c.zarr")
    assert refusal(keyed_table, tmp_path / "c.zarr", key=None) == "keys.id was int64, now absent"
