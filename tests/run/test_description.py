"""What a call says of its columns and model: checked, stored, and no part of the fingerprint."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.analysis.column_texts import card_of, texts_of
from dshap.core.errors import InputError

FRAME = pd.DataFrame(
    {
        "area": np.arange(30.0) % 7,
        "rooms": np.arange(30.0) % 3,
        "plan": ["gold", "silver", "x"] * 10,
    }
)


def predict(frame):
    return frame["area"] * frame["rooms"] + (frame["plan"] == "gold")


VALUE = dshap.values.Marginal(predict, FRAME, players={"size": ["area", "rooms"]})


def explained(store=None, **given):
    return dshap.explain(VALUE, FRAME, store=store, **given)


def test_another_dictionary_and_card_explain_nothing_anew(tmp_path, monkeypatch):
    store = tmp_path / "c.zarr"
    first = explained(store, columns={"size": {"label": "Größe"}}, card={"owner": "Ann"})
    assert texts_of(first).label_of("size") == "Größe"
    written = {path: path.stat().st_mtime_ns for path in store.rglob("*") if "c" in path.parts}
    again = explained(store, columns={"plan": {"label": "Tarif"}}, card={"owner": "Ben"})
    assert texts_of(again).label_of("plan") == "Tarif"
    assert texts_of(again).label_of("size") == "size"
    assert card_of(again) == {"owner": "Ben"}
    assert {
        path: path.stat().st_mtime_ns for path in store.rglob("*") if "c" in path.parts
    } == written
    assert again.attrs["dshap_run"] == first.attrs["dshap_run"]
    kept = explained(store)
    assert texts_of(kept).label_of("plan") == "Tarif", (
        "a call that says nothing leaves what is there"
    )


def test_a_cube_that_is_only_created_has_its_labels(tmp_path):
    cube = explained(tmp_path / "c.zarr", columns={"area": {"label": "A"}}, compute=False)
    assert texts_of(cube).label_of("area") == "A"


def test_a_frame_brings_its_dictionary_and_the_option_counts_first():
    frame = FRAME.copy()
    frame.attrs["columns"] = {"area": {"label": "of frame"}, "rooms": {"label": "Zimmer"}}
    cube = dshap.explain(VALUE, frame, columns={"area": {"label": "of option"}})
    texts = texts_of(cube)
    assert [texts.label_of(name) for name in ("area", "rooms")] == ["of option", "Zimmer"]


def test_a_frame_may_describe_columns_that_the_model_does_not_take(tmp_path):
    frame = FRAME.assign(price=1.0)
    frame.attrs["columns"] = {"price": {"label": "Preis"}, "area": {"label": "Fläche"}}
    cube = dshap.explain(VALUE, frame, store=tmp_path / "c.zarr")
    assert texts_of(cube).label_of("area") == "Fläche"
    assert texts_of(cube).label_of("price") == "price"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"aera": {}}, r"columns: unknown column 'aera'; did you mean 'area'\?"),
        ({"plan": {"order": ["gold", "silber"]}}, "'plan' order: unknown category 'silber'"),
        ({"area": {"format": "x"}}, None),
        ({"area": {"format": "€"}}, "give a format of Python"),
    ],
)
def test_a_bad_dictionary_leaves_no_store(tmp_path, columns, message):
    if message is None:
        assert explained(columns=columns) is not None
        return
    with pytest.raises(InputError, match=message):
        explained(tmp_path / "c.zarr", columns=columns)
    assert not (tmp_path / "c.zarr").exists()


def test_keys_outputs_and_groups_may_be_described():
    frame = FRAME.assign(id=range(30))
    named = {"id": {"label": "Nummer"}, "size": {}, "output": {"label": "Preis"}}
    texts = texts_of(dshap.explain(VALUE, frame, key="id", columns=named))
    assert texts.label_of("output") == "Preis"
