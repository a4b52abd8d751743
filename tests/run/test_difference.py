"""Another run than the one that a store holds: what differs is told in words, and nothing that only
follows from it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dshap
from dshap.core.errors import FailedBlocksError, StoreMismatchError
from dshap.cube import states_of
from dshap.run.probes import rounding_of
from dshap.values import Marginal
from tests.cube.cubes import bytes_of

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
    assert raised.value.exit_status == 4
    assert said.endswith("; choose another store, or remove it")
    assert not re.search("[0-9a-f]{16}", said)
    assert "\n" not in said
    return said.partition(" contains a different run: ")[2].removesuffix(
        "; choose another store, or remove it"
    )


def test_rows_in_another_order_are_not_told_as_another_model(keyed_table, tmp_path):
    """The first rows are others, and so are the predictions that the model is known by."""
    explained(keyed_table, tmp_path / "c.zarr")
    said = refusal(keyed_table.iloc[::-1], tmp_path / "c.zarr")
    assert said == (
        "rows: the same 400 keys in a different order (the order is part of a run: sort the rows as "
        "they were)"
    )


def test_rows_without_a_key_are_told_in_plain_words(keyed_table, tmp_path):
    explained(keyed_table, tmp_path / "c.zarr", key=None)
    which = " (with key= the message lists them)"
    said = refusal(keyed_table.iloc[::-1], tmp_path / "c.zarr", key=None)
    assert said == f"rows: 400 as before, with different values or in a different order{which}"
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
    assert said == "background: 10 rows as before, with different values or in a different order"


def test_another_model_is_told_as_one(keyed_table, tmp_path):
    explained(keyed_table, tmp_path / "c.zarr")
    said = refusal(keyed_table, tmp_path / "c.zarr", predict=other)
    assert re.fullmatch(
        r"the model predicts different values than before for the same rows \(by [\d.]+, where "
        r"rounding explains \d\.\d+e-10\)",
        said,
    )


def test_several_differences_are_told_together(keyed_table, tmp_path):
    explained(keyed_table, tmp_path / "c.zarr")
    said = refusal(
        keyed_table.iloc[::-1], tmp_path / "c.zarr", background=BACKGROUND[1:], dtype="float32"
    )
    assert re.fullmatch(
        r"rows: the same 400 keys in a different order \(.*\); background: 10 rows before, 9 now; "
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
        StoreMismatchError,
        match=r"a different run: value function was marginal, now gaussian; choose",
    ):
        dshap.explain(gaussian, keyed_table, key="id", instance_tile=64, store=tmp_path / "c.zarr")


def test_other_players_are_told_once(keyed_table, tmp_path):
    explained(keyed_table, tmp_path / "c.zarr")
    grouped = Marginal(model, BACKGROUND, feature_names=NAMES, players={"p": ["a", "b"]})
    with pytest.raises(
        StoreMismatchError,
        match=r"a different run: players was \['a', 'b', 'c'\], now \['p', 'c'\]; choose",
    ):
        dshap.explain(grouped, keyed_table, key="id", instance_tile=64, store=tmp_path / "c.zarr")


def test_other_columns_are_not_told_as_other_rows(keyed_table, tmp_path):
    explained(keyed_table, tmp_path / "c.zarr")
    assert refusal(keyed_table, tmp_path / "c.zarr", key=None) == "keys.id was int64, now absent"


# --- another processor ---------------------------------------------------------------------------


def as_model(predict):
    """A function under the name of `model`: it is known by what it predicts alone."""
    predict.__qualname__ = model.__qualname__
    predict.__module__ = model.__module__
    return predict


def in_float32(steps=0):
    """The model in float32, with each prediction so many numbers further."""

    def predict(x):
        found = model(x).astype(np.float32)
        for _ in range(steps):
            found = np.nextafter(found, np.float32(np.inf))
        return found

    return as_model(predict)


PAIRS = {"float64": (model, as_model(lambda x: np.nextafter(model(x), np.inf)))}
PAIRS["float32"] = (in_float32(), in_float32(1))


@pytest.mark.parametrize("dtype", PAIRS)
def test_a_run_goes_on_where_the_last_digit_differs(
    keyed_table, tmp_path, monkeypatch, capsys, dtype
):
    """The blocks of the first processor stay as they are; one line says what differs."""
    first, second = PAIRS[dtype]
    store = tmp_path / "umlaut ü.zarr"

    @as_model
    def failing(x):
        if (x[:, 0] == keyed_table["a"].iloc[300]).any():
            raise ValueError("out of memory")
        return first(x)

    with monkeypatch.context() as there:
        there.setattr("dshap.run.identity.processor", lambda: "Old 1")
        with pytest.raises(FailedBlocksError):
            explained(keyed_table, store, predict=failing)
    before = bytes_of(store)
    capsys.readouterr()
    cube = explained(keyed_table, store, predict=second, progress=True)
    assert (cube.status == 1).all()
    said = capsys.readouterr().err
    assert "the model predicts the same but for rounding: " in said
    assert "another processor (then Old 1; now " in said
    assert said.count("another processor") == 1
    after = bytes_of(store)
    receipts = [name for name in before if "receipts" in name]
    assert len(receipts) >= 6
    kept = [name for name in receipts if not name.endswith("000004.json")]
    assert [after[name] for name in kept] == [before[name] for name in kept]
    assert cube.attrs["dshap_run"] == dshap.open_cube(store).attrs["dshap_run"]
    explained(keyed_table, store, predict=first)  # finished, for either processor
    explained(keyed_table, store, predict=second)
    assert bytes_of(store) == after


@pytest.mark.parametrize("dtype", PAIRS)
def test_both_sides_of_the_bound(keyed_table, tmp_path, dtype):
    first, _ = PAIRS[dtype]
    explained(keyed_table, tmp_path / "c.zarr", predict=first)
    predictions = first(keyed_table[NAMES].to_numpy()[:64]).astype(float)[:, None]
    (bound,) = rounding_of(predictions)

    def moved(by):
        return as_model(lambda x: first(x).astype(float) + by * (np.arange(len(x)) == 3))

    explained(keyed_table, tmp_path / "c.zarr", predict=moved(0.5 * bound))
    for by in (2 * bound, 1e-3 * predictions.std()):
        said = refusal(keyed_table, tmp_path / "c.zarr", predict=moved(by))
        assert said.startswith(
            "the model predicts different values than before for the same rows (by "
        )
        assert "processor" not in said


def test_a_change_on_another_processor_names_both(keyed_table, tmp_path, monkeypatch):
    with monkeypatch.context() as there:
        there.setattr("dshap.run.identity.processor", lambda: "Old 1")
        explained(keyed_table, tmp_path / "c.zarr")
    said = refusal(keyed_table, tmp_path / "c.zarr", predict=other)
    assert "; another processor (then Old 1; now " in said


def test_margins_of_xgboost_in_float32(keyed_table, tmp_path):
    """One unit in the last place of a float32 is 1e-7; another round of boosting is refused."""
    xgboost = pytest.importorskip("xgboost", reason="it is not installed")
    rows = keyed_table[NAMES].to_numpy()
    trained = xgboost.train(
        {"max_depth": 3, "nthread": 1, "seed": 1}, xgboost.DMatrix(rows, model(rows)), 20
    )

    def margins(steps, rounds):
        def predict(x):
            found = trained.predict(
                xgboost.DMatrix(x), output_margin=True, iteration_range=(0, rounds)
            )
            for _ in range(steps):
                found = np.nextafter(found, np.float32(np.inf))
            return found

        return as_model(predict)

    explained(keyed_table, tmp_path / "c.zarr", predict=margins(0, 20))
    explained(keyed_table, tmp_path / "c.zarr", predict=margins(2, 20))
    assert "the model predicts different values" in refusal(
        keyed_table, tmp_path / "c.zarr", predict=margins(0, 19)
    )


def test_three_classes_each_have_a_bound(keyed_table, tmp_path):
    def classes(by):
        def predict(x):
            raw = np.exp(np.stack([model(x), x[:, 0], by + x[:, 1]], axis=1))
            return raw / raw.sum(axis=1, keepdims=True)

        return as_model(predict)

    explained(keyed_table, tmp_path / "c.zarr", predict=classes(0.0))
    explained(keyed_table, tmp_path / "c.zarr", predict=classes(1e-15))
    said = refusal(keyed_table, tmp_path / "c.zarr", predict=classes(1e-3))
    assert "the model predicts different values" in said


def test_rounding_is_not_told_beside_another_difference(keyed_table, tmp_path):
    explained(keyed_table, tmp_path / "c.zarr")
    said = refusal(keyed_table, tmp_path / "c.zarr", predict=PAIRS["float64"][1], dtype="float32")
    assert said == "dtype was float64, now float32"


def test_without_the_stored_predictions_their_digest_decides(keyed_table, tmp_path):
    """As in stores of earlier versions; the same processor goes on, and keeps them."""
    explained(keyed_table, tmp_path / "c.zarr")
    states = states_of(tmp_path / "c.zarr")
    (name,) = (name for name in states.names() if name.startswith("probe-"))
    states.remove(name)
    said = refusal(keyed_table, tmp_path / "c.zarr", predict=PAIRS["float64"][1])
    assert said == "the model predicts different values than before for the same rows"
    explained(keyed_table, tmp_path / "c.zarr")
