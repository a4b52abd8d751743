"""Histograms in one pass over a cube, and none where they are kept beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.analysis import tallies
from dshap.analysis.column_values import binned, columns_of
from dshap.analysis.dependences import dependence_of
from dshap.analysis.swarms import swarms_of
from dshap.analysis.tallies import Tally, tallied
from dshap.analysis.view import view_of
from dshap.core.errors import DamagedError
from dshap.core.histograms import OTHERS
from dshap.core.records import Record
from dshap.cube import histograms
from dshap.values import LinearGaussian

ROWS = 3_000


def explained(path) -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 2)), columns=["a", "b"])
    value = LinearGaussian([1.0, -2.0], 0.0, [0.0, 0.0], np.eye(2), feature_names=["a", "b"])
    dshap.explain(value, frame, store=path, keep_rows=True, instance_tile=1024, progress=False)


@pytest.fixture
def store(tmp_path, monkeypatch, in_this_process):
    monkeypatch.setattr(histograms, "LEAST_ROWS", ROWS)
    monkeypatch.setattr(histograms, "SHARE", 10.0)
    explained(tmp_path / "s")
    return tmp_path / "s"


def kept_files(store) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (store / "state/histograms").iterdir()}


def no_pass(*_):
    raise AssertionError("a pass over the cube")


def test_a_second_picture_makes_no_pass(store, monkeypatch):
    first = swarms_of(store)
    dependence_of(store, "a", "b")
    monkeypatch.setattr(tallies, "counted_anew", no_pass)
    for one, two in zip(first.features, swarms_of(dshap.open_cube(store)).features, strict=True):
        assert one.feature == two.feature
        assert one.histogram.digest() == two.histogram.digest()
    assert dependence_of(store, "a", "b").counts.sum() == ROWS
    with pytest.raises(AssertionError, match="a pass"):
        dependence_of(store, "a", "")  # it counts something else


def test_another_dataset_or_other_rows_are_counted_anew(store, monkeypatch):
    swarms_of(store)
    cube = dshap.open_cube(store)
    monkeypatch.setattr(tallies, "counted_anew", no_pass)
    given = pd.DataFrame({"a": np.zeros(ROWS), "b": np.ones(ROWS)})
    for change in (
        {"cube": 2 * cube.attribution, "rows": None},
        {"cube": cube.attribution, "rows": given},
    ):
        with pytest.raises(AssertionError, match="a pass"):
            swarms_of(cube.assign(attribution=change["cube"]), change["rows"])


@pytest.mark.parametrize(
    "values",
    [
        np.array(["b", None, "a", "", "rare", "b", np.nan], object),
        np.array(["b", "a", "", "rare", "b"], np.dtypes.StringDType()),
        np.array([1, "1", True, 1.0, None, 2, ""], object),
        np.array([], object),
    ],
)
def test_texts_lie_in_the_bins_of_their_names(values):
    """Empty ones, by which stores keep missing ones, with the missing."""
    bins = Record({"categories": np.array(["", "1", "True", "a", "b", OTHERS])})
    names = bins["categories"].tolist()
    expected = []
    for value in values.tolist():
        text = str(value)
        place = names.index(text if text in names else OTHERS)
        expected.append(6 if value is None or text in ("nan", "") else place)
    assert binned(bins, values).tolist() == expected


def test_a_damaged_block_is_refused(store):
    file = store / "attribution/c.1.0.0"
    file.write_bytes(file.read_bytes()[:-9] + b"nonsense!")
    with pytest.raises(DamagedError, match="dshap verify"):
        swarms_of(store)


def test_histograms_come_in_the_order_in_which_they_are_wanted(store):
    """Kept ones too: callers pair them with their features by it."""
    view = view_of(store)
    columns = columns_of(view.cube)
    names = [f"feature {i}" for i in range(40)]
    for some in (names[10:20], names):
        wanted = {name: Tally(0) for name in some}
        assert list(tallied(view, columns, wanted)) == some


def test_the_same_values_keep_the_same_bytes_whatever_became_of_the_run(store, tmp_path):
    """A second store has the same; a run that was killed and went on still has those it kept."""
    swarms_of(store)
    before = kept_files(store)
    explained(tmp_path / "other")
    swarms_of(tmp_path / "other")
    assert kept_files(tmp_path / "other") == before
    assert len(before) == 2
    (store / "state/receipts/block-00000001.json").unlink()
    (store / "state/finished.json").unlink()
    swarms_of(store)  # of a cube that is not finished none is kept, and none is read
    explained(store)
    swarms_of(store)
    assert kept_files(store) == before
