"""Lines over runs are the means of each night's cube."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dshap
from dshap.analysis.importance_history import importance_history
from dshap.core.errors import InputError
from dshap.cube import set_current
from dshap.cube.arrays import create_store
from dshap.report import over_runs
from dshap.report.pictures.over_runs import kept_apart
from tests.cube.cubes import make_cube

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")

RUNS = ("20260226T031500Z", "20260227T031500Z", "20260228T031500Z")


@pytest.fixture(autouse=True)
def closed():
    """No figure is left open."""
    yield
    plt.close("all")


def nights(path, runs=RUNS):
    """A job's store with a cube for each run, and one that is not finished."""
    create_store(path, {"name": "churn", "units": "kW"})
    for i, run in enumerate(runs):
        make_cube(path / "reasons" / run, n_rows=21 + 8 * i)
    make_cube(path / "reasons" / "20260301T031500Z", tiles=[0])
    set_current(path / "reasons", runs[-1])
    return path


def test_lines_are_the_means_of_each_finished_run(tmp_path):
    store = nights(tmp_path / "churn")
    with pytest.warns(UserWarning, match="1 runs of .* are not finished and left out: 20260301"):
        found = importance_history(store, output="z")
    assert found.runs == RUNS
    assert found.rows.tolist() == [21, 29, 37]
    assert found.names == ["2026-02-26", "2026-02-27", "2026-02-28"]
    np.testing.assert_allclose(np.diff(found.times), 1.0)
    with pytest.warns(UserWarning, match="not finished"):
        axes = over_runs(store / "reasons", output="z")
    cubes = [dshap.open_cube(store / "reasons" / run).sel(output="z") for run in RUNS]
    phi = [np.abs(cube["attribution"]).mean("instance") for cube in cubes]
    for line, feature in zip(axes.get_lines(), found.features, strict=True):
        means = [float(each.sel(feature=feature)) for each in phi]
        np.testing.assert_allclose(line.get_ydata(), means, rtol=1e-9)
    assert [text.get_text() for text in axes.texts] == list(found.features)
    assert axes.get_ylabel() == "mean |attribution| for z (kW)"
    axes.figure.canvas.draw()


def test_a_run_for_an_earlier_day_stands_at_that_day(tmp_path):
    """A backfill stood at the time at which it ran, beside the nights after it."""
    backfill = "20260228T101500Z"
    store = nights(tmp_path / "churn", (*RUNS, backfill))
    days = dict(zip(RUNS, ("2026-02-26", "2026-02-27", "2026-02-28"), strict=True))
    for run, day in {**days, backfill: "2026-02-27"}.items():
        (store / "runs" / run).mkdir(parents=True)
        record = {"results": [], "args": {"dshap": {"job": "churn", "as_of": day}}}
        (store / "runs" / run / "run_results.json").write_text(json.dumps(record))
    with pytest.warns(UserWarning, match="not finished"):
        found = importance_history(store, output="z")
    assert found.runs == (RUNS[0], RUNS[1], backfill, RUNS[2])
    assert found.rows.tolist() == [21, 29, 45, 37]
    assert found.names == [
        "2026-02-26 03:15", "2026-02-27 03:15", "2026-02-27 10:15", "2026-02-28 03:15",
    ]  # fmt: skip
    assert (np.diff(found.times) > 0).all()
    (store / "runs" / backfill / "run_results.json").write_text("{")  # damaged: as if it said none
    with pytest.warns(UserWarning, match="not finished"):
        assert importance_history(store, output="z").runs == (*RUNS, backfill)


def test_runs_of_other_names_stand_in_their_order(tmp_path):
    with pytest.warns(UserWarning, match="not finished"):
        found = importance_history(nights(tmp_path / "churn", ("a", "b")), "reasons", 0)
    assert found.names == ["a", "b"]
    assert found.times.tolist() == [0.0, 1.0]


def test_names_beside_lines_are_kept_apart():
    found = kept_apart(np.array([0.99, 0.5, 1.0, 0.5, 0.1]), 0.1)
    np.testing.assert_allclose(found, [0.9, 0.5, 1.0, 0.6, 0.1])


def test_stores_without_runs_are_told(tmp_path):
    make_cube(tmp_path / "s")
    with pytest.raises(InputError, match=r"s has no cube for each run, which a job with \[incr"):
        over_runs(tmp_path / "s")
    store = nights(tmp_path / "churn")
    make_cube(store / "other" / RUNS[0])
    set_current(store / "other", RUNS[0])
    with pytest.raises(
        InputError, match="contains 2 explanations: give explain, one of other, reasons"
    ):
        over_runs(store)
    with pytest.raises(InputError, match="unknown explain 'reason'; did you mean 'reasons'"):
        over_runs(store, "reason")
