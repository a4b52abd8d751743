"""Learning from as many rows as attributions need: whole runs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dshap
from dshap.attributors.enough import FIRST_ROWS
from dshap.core.errors import InputError
from dshap.core.records import Record
from dshap.core.spread import SpreadOrder
from dshap.cube import read_notes
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.run import learning
from dshap.run.enough import KeptRows
from dshap.run.identity import stored_plan
from dshap.storage.sealed_files import StateFolder
from dshap.values import ConditionalRegression, KernelObservational

N = 40_000


def model(x):
    return x[:, 0] * x[:, 1] + np.sin(x[:, 2])


@pytest.fixture(scope="module")
def table():
    x = np.random.default_rng(0).normal(size=(N, 3))
    x[:, 1] += 0.6 * x[:, 0]
    return x


def regression(data, enough):
    landmarks = Nystrom(landmarks=np.random.default_rng(1).normal(size=(20, 3)))
    return ConditionalRegression(model, data, RBF(1.5), landmarks, 1e-3, enough=enough)


def attributions(cube):
    return cube["attribution"].values


def test_a_run_learns_from_the_first_rows_of_the_order(table, tmp_path):
    cube = dshap.explain(regression(table, 0.05), table[:50], store=tmp_path / "part.zarr")
    note = json.loads(cube.attrs["learning_error"])
    assert note["rows"] == FIRST_ROWS
    assert note["of"] == N
    first = table[SpreadOrder(N).positions(0, FIRST_ROWS)]
    same = dshap.explain(regression(first, "all"), table[:50])
    np.testing.assert_allclose(attributions(cube), attributions(same), rtol=1e-9, atol=1e-9)


def test_the_error_is_in_the_cube_for_each_feature(table, tmp_path):
    cube = dshap.explain(regression(table, 0.05), table[:50], store=tmp_path / "part.zarr")
    note = json.loads(cube.attrs["learning_error"])
    errors = cube["learning_error"]
    assert errors.dims == ("feature", "output")
    np.testing.assert_array_equal(errors.values, note["errors"])
    deviation = model(table).std()
    assert np.sqrt((errors.values**2).mean()) / deviation == pytest.approx(
        note["in_deviations"], rel=0.02
    )
    whole = attributions(dshap.explain(regression(table, "all"), table[:50]))
    true = np.sqrt(np.mean((attributions(cube) - whole) ** 2)) / deviation
    # all rows hold those of the part: the error against them is √(1 − 8,192/40,000) of the stated
    assert 0.5 < true / (note["in_deviations"] * np.sqrt(1 - FIRST_ROWS / N)) < 1.6


def test_where_no_part_is_enough_all_rows_are_read_with_the_same_bits(table, tmp_path):
    cube = dshap.explain(regression(table, 1e-5), table[:50], store=tmp_path / "all.zarr")
    note = json.loads(cube.attrs["learning_error"])
    assert note["rows"] == note["of"] == N
    assert 0.0 < note["in_deviations"] < note["tried"][0][1]
    whole = dshap.explain(regression(table, "all"), table[:50])
    np.testing.assert_array_equal(attributions(cube), attributions(whole))
    assert "learning_error" not in whole


def test_no_row_stays_in_the_store(table, tmp_path):
    dshap.explain(regression(table, 0.05), table[:50], store=tmp_path / "part.zarr")
    names = [path.name for path in (tmp_path / "part.zarr" / "state").iterdir()]
    assert [name for name in names if name.startswith("enough-")]
    assert not [name for name in names if name.startswith("rows-")]


def test_a_run_that_was_killed_goes_on_with_the_same_bits(table, tmp_path, monkeypatch):
    value = regression(table, 0.05)
    whole = dshap.explain(value, table[:50], store=tmp_path / "whole.zarr")
    real = learning.learn_tiles

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(learning, "learn_tiles", killed)
    with pytest.raises(KeyboardInterrupt):
        dshap.explain(value, table[:50], store=tmp_path / "killed.zarr")
    monkeypatch.setattr(learning, "learn_tiles", real)
    folder = tmp_path / "killed.zarr" / "state"
    assert [path for path in folder.iterdir() if path.name.startswith("rows-")]
    cube = dshap.explain(value, table[:50], store=tmp_path / "killed.zarr")
    np.testing.assert_array_equal(attributions(cube), attributions(whole))


@pytest.mark.parametrize("count", [1, 3])
def test_shares_learn_the_same_bits(table, tmp_path, monkeypatch, count):
    value = regression(table, 0.05)
    options = {"coalition_tile": 2}
    whole = dshap.explain(value, table[:50], store=tmp_path / "whole.zarr", **options)
    real = learning.learn_states

    def shared(session, run):
        learning.begin_states(session, run)
        for i in range(count):
            learning.learn_part(
                session, run, lambda n, i=i: range(i * n // count, (i + 1) * n // count)
            )
        monkeypatch.setattr(learning, "learn", None)  # nothing is left to learn
        return real(session, run)

    monkeypatch.setattr(learning, "learn_states", shared)
    cube = dshap.explain(value, table[:50], store=tmp_path / "shared.zarr", **options)
    np.testing.assert_array_equal(attributions(cube), attributions(whole))


def test_workers_learn_the_same_bits(table, tmp_path, client):
    value = regression(table, 0.05)
    here = dshap.explain(value, table[:50], store=tmp_path / "here.zarr", client=None)
    there = dshap.explain(value, table[:50], store=tmp_path / "there.zarr", client=client)
    np.testing.assert_array_equal(attributions(there), attributions(here))
    assert there.attrs["learning_error"] == here.attrs["learning_error"]


def test_prepared_states_state_the_error_too(table, tmp_path):
    value = regression(table, 0.05)
    prepared = dshap.prepare(value, store=tmp_path / "prepared")
    cube = dshap.explain(prepared, table[:50], store=tmp_path / "a.zarr")
    once = dshap.explain(value, table[:50], store=tmp_path / "b.zarr")
    np.testing.assert_array_equal(attributions(cube), attributions(once))
    assert cube.attrs["learning_error"] == once.attrs["learning_error"]


def test_embeddings_learn_from_a_part(table, tmp_path):
    y = model(table)
    fitted = KernelRidge(RBF(1.5), Nystrom(30), penalty=1e-5).fit(table[:3_000], y[:3_000])
    value = KernelObservational(
        fitted, table, Nystrom(landmarks=fitted.expansion_.landmarks), 1e-4, enough=0.05
    )
    dshap.explain(value, table[:50], store=tmp_path / "part.zarr")
    assert read_notes(tmp_path / "part.zarr")["learning_error"]["rows"] == FIRST_ROWS


def test_a_short_table_is_read_whole_and_the_plan_says_so(table, tmp_path):
    cube = dshap.explain(regression(table[:1_000], 0.05), table[:50], store=tmp_path / "a.zarr")
    assert "learning_error" not in cube
    plan = str(stored_plan(tmp_path / "a.zarr"))
    assert (
        "enough: all 1,000 rows are read: a part of them is tried only in tables of 32,768 rows or more"
        in plan
    )


def test_rows_with_missing_values_are_left_out(table, tmp_path):
    holes = table.copy()
    holes[::3, 0] = np.nan
    value = regression(holes, 0.05)
    cube = dshap.explain(value, table[:50], store=tmp_path / "a.zarr", missing="skip")
    note = json.loads(cube.attrs["learning_error"])
    assert 0.6 * FIRST_ROWS < note["rows"] < 0.72 * FIRST_ROWS


@pytest.mark.parametrize("given", [0, -0.1, 1.5, "some", None])
def test_a_wrong_tolerance_is_refused_in_one_line(table, given):
    with pytest.raises(InputError, match=r"^enough .*, or 'all'") as error:
        regression(table, given)
    assert "\n" not in str(error.value)


def test_rows_are_read_across_records(tmp_path):
    store = StateFolder(tmp_path)
    x = np.arange(20.0).reshape(10, 2)
    for name, part in (("a", slice(0, 3)), ("b", slice(3, 4)), ("c", slice(4, 10))):
        record = Record({"x": x[part], "prediction": x[part, :1]})
        store.put(name, record)
    rows = KeptRows(store, ("a", "b", "c"), (3, 1, 6), ("u", "v"))
    assert rows.n_rows == 10
    for start in range(10):
        for stop in range(start + 1, 11):
            block = rows.read(start, stop)
            np.testing.assert_array_equal(block.x, x[start:stop])
            np.testing.assert_array_equal(block.predictions, x[start:stop, :1])
