"""Losses in the store of a job with nights: each is made good by the next run, or told as damage."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xgboost
from click.testing import CliRunner

from dshap.cli import cli
from dshap.core.errors import DamagedError
from dshap.cube import current_of, is_finished, is_left, read_notes
from dshap.cube.reference_copy import copied_files
from dshap.history.run_folders import runs_in_store
from dshap.jobs.verification import repair_job_store, verify_job_store
from tests.steps.test_nightly_cubes import FEATURES, Shop, counts, predictions_of, rows_of

N_ROWS = 150


@pytest.fixture(scope="module")
def two_nights(tmp_path_factory):
    """A shop whose store has two nights; a third row has changed since the second."""
    folder = tmp_path_factory.mktemp("nights")
    table = rows_of(400, seed=7)
    fitted = xgboost.XGBRegressor(n_estimators=12, max_depth=3, seed=0)
    fitted.fit(table[FEATURES], predictions_of(table)).save_model(folder / "model.json")
    shop = Shop(folder, folder / "model.json")
    for row in (3, 4):
        shop.night()
        shop.table.loc[row, "a"] = 9.0
        shop.put()
    (folder / "store").rename(folder / "whole")
    return shop


@pytest.fixture
def shop(two_nights):
    """The shop, its store as after the two nights."""
    shutil.rmtree(two_nights.folder / "store", ignore_errors=True)
    shutil.copytree(two_nights.folder / "whole", two_nights.folder / "store")
    return two_nights


def last_of(shop):
    return runs_in_store(shop.folder / "store")[-1].run_id


def damages(store):
    return [str(each) for found in verify_job_store(store).values() for each in found]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lost", "named", "is_carried"),
    [
        ("reasons/current", "reasons/current: is missing: the newest", True),
        ("runs/{run}/run_results.json", "", True),
        ("runs/{run}/run.json", "", True),
        ("parts/{run}", "", True),
        ("keys/{run}", "keys/{run}: is missing: the next run explains all", False),
        ("keys/{run}/rows.parquet", "keys/{run}/rows.parquet: cannot be read", False),
        ("keys/{run}/reasons.computed.npy", "keys/{run}/reasons.json: has files beside it", False),
        ("prepared/reasons.json", "prepared/reasons.json: is missing or damaged", True),
    ],
)
def test_a_run_makes_good_what_was_lost(shop, lost, named, is_carried):
    store = shop.folder / "store"
    run_id = last_of(shop)
    place = store / lost.format(run=run_id)
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()
    found = damages(store)
    assert bool(found) == bool(named), found
    assert named == "" or found[0].startswith(named.format(run=run_id))
    tonight = shop.night()
    assert counts(tonight)[2] == (0 if lost.startswith("keys") else N_ROWS - 1)
    assert tonight.facts.explanations[0].prepared["reused"] == (not lost.startswith("prepared"))
    history = json.loads((store / "keys" / tonight.facts.run_id / "reasons.json").read_text())
    assert history["carried"] == (N_ROWS - 1 if is_carried else 0)
    shop.check()
    repair_job_store(store)  # what is left damaged of an earlier run is removed
    assert damages(store) == []


@pytest.mark.slow
def test_a_store_that_lost_its_root_is_damaged_and_repaired(shop):
    """It ended as a store of something else, with exit status 4."""
    store = shop.folder / "store"
    (store / "zarr.json").unlink()
    shown = CliRunner().invoke(cli, ["status", str(store)])
    assert shown.exit_code == 0
    assert f"{N_ROWS} ok" in shown.stdout
    checked = CliRunner().invoke(cli, ["verify", str(store)])
    assert checked.exit_code == 7
    assert "zarr.json: is missing" in checked.stdout
    assert "reasons/" in checked.stdout  # the cubes are checked too
    with pytest.raises(DamagedError, match=r"zarr\.json is not what .* verify .* --repair"):
        shop.night()
    repaired = CliRunner().invoke(cli, ["verify", str(store), "--repair"])
    assert repaired.exit_code == 0, repaired.output
    assert counts(shop.night()) == (0, 1, N_ROWS - 1, 0)
    shutil.rmtree(store / "state")  # the copy of the root goes too
    (store / "zarr.json").unlink()
    assert counts(shop.night()) == (0, 0, N_ROWS, 0)
    assert damages(store) == []


def test_ids_methods_and_rows_agree(shop):
    """Each file is changed alone; what is damaged is named, and removed by a repair."""
    store = shop.folder / "store"
    run_id = last_of(shop)
    assert damages(store) == []
    assert current_of(store / "reasons") == run_id
    keys, parts, record = (store / room / run_id for room in ("keys", "parts", "runs"))
    part = next(parts.glob("part-*.parquet"))
    prepared = json.loads((store / "prepared" / "reasons.json").read_text())

    def rows_of_keys():
        pq.write_table(pq.read_table(keys / "rows.parquet").slice(1), keys / "rows.parquet")
        (keys / "rows.json").unlink()

    def a_key_twice():
        table = pq.read_table(keys / "rows.parquet")
        pq.write_table(pa.concat_tables([table[:1], table[:149]]), keys / "rows.parquet")
        (keys / "rows.json").unlink()

    def other_content():
        table = pq.read_table(keys / "rows.parquet")
        pq.write_table(table, keys / "rows.parquet", compression="zstd")

    def said(file, **changed):
        def change():
            content = {**json.loads(file.read_text()), **changed}
            del content["seal"]  # as an earlier version wrote it
            file.write_text(json.dumps(content))

        return change

    def plain(file, **changed):
        return lambda: file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))

    def recorded(before, after, *, is_sealed=False):
        def change():
            file = record / "run_results.json"
            text = file.read_text()
            assert before in text
            content = json.loads(text.replace(before, after))
            if not is_sealed:
                del content["args"]["dshap"]["seal"]  # as an earlier version wrote it
            file.write_text(json.dumps(content))

        return change

    other_run = recorded(f'"run_id": "{run_id}"', '"run_id": "other"')
    fewer_rows = recorded('"rows_affected": 150', '"rows_affected": 9')
    altered = recorded('"rows_affected": 150', '"rows_affected": 9', is_sealed=True)

    changes = {
        rows_of_keys: f"keys/{run_id}/rows.parquet: has 149 rows, and 150 were read",
        a_key_twice: f"keys/{run_id}/rows.parquet: repeats the key of another row in 1 of 150",
        other_content: f"keys/{run_id}/rows.parquet: cannot be read (rows.parquet: its content is",
        said(keys / "reasons.json", method="x"): "reasons.json: has the method x, and its cube",
        said(keys / "reasons.json", carried=7): "reasons.json: counts 7 carried rows, but 149 are",
        said(keys / "reasons.json", runs=[run_id]): "names runs that reasons.json does not list",
        lambda: np.save(keys / "reasons.positions.npy", np.zeros(3)): "has files beside it that",
        plain(keys / "reasons.json", method="x"): "reasons.json: is damaged (its content is not",
        plain(parts / "snapshot.json", n_rows=9): "snapshot.json: is damaged (its content is not",
        said(parts / "snapshot.json", n_rows=9, parts={}): "snapshot.json: has 9 rows, and its pa",
        said(parts / "snapshot.json", schema={}): "snapshot.json: has other columns than",
        lambda: part.write_bytes(b"half"): f"{part.name}: is damaged (its content is not what was",
        said(record / "run.json", run_id="x"): "run.json: is about the run x",
        plain(record / "run.json", run_id="x"): "run.json: does not describe the run, or",
        lambda: (record / "run.json").write_text("{"): "run.json: does not describe the run",
        lambda: (record / "run_results.json").write_text(
            "{}"
        ): "run_results.json: is not the record",
        altered: "run_results.json: is not the record of a run, or was altered",
        other_run: "run_results.json: is the record of the run other",
        fewer_rows: "run_results.json: reasons has 9 rows, and its cube 150",
        plain(store / "prepared" / "reasons.json", method="x"): "reasons.json: is missing or damag",
        said(store / "prepared" / "reasons.json", method="x"): "names the method x, which is not",
        lambda: shutil.rmtree(store / "prepared" / "rows" / prepared["run_id"]): (
            f"prepared/rows/{prepared['run_id']}/snapshot.json: is missing"
        ),
    }
    for change, message in changes.items():
        shutil.rmtree(store)
        shutil.copytree(shop.folder / "whole", store)
        change()
        found = damages(store)
        assert any(message in each for each in found), (message, found)
        assert len(repair_job_store(store)["runs"]) == len(found)
        assert all("the next run" in each or "rows/" in each for each in damages(store))


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize(
    "lost", ["state/notes/additivity*", "state/finished.json", "state/created/*"]
)
def test_a_cube_of_a_run_that_is_over_is_mended_without_a_run(shop, number, lost):
    """No later run comes back to it: an older one stayed damaged for good."""
    store = shop.folder / "store"
    run = runs_in_store(store)[number]
    cube = store / "reasons" / run.run_id
    whole = (read_notes(cube), copied_files(cube))
    (file,) = cube.glob(lost)
    file.unlink()
    assert damages(store)
    repaired = repair_job_store(store)
    assert not damages(store)
    assert (read_notes(cube), copied_files(cube)) == whole
    assert not is_left([each for found in repaired.values() for each in found])


def test_a_block_of_an_older_run_that_is_lost_stays_lost(shop):
    """Its rows count as not explained; nothing is said to be whole that is not."""
    store = shop.folder / "store"
    cube = store / "reasons" / runs_in_store(store)[0].run_id
    (file,) = cube.glob("attribution/c.0.0.0")
    file.unlink()
    repair_job_store(store)
    assert not damages(store)
    assert not is_finished(cube)


def test_a_cube_of_an_older_run_without_its_base_value_is_not_whole(shop):
    """No block has it: all receipts are there, and one value of every row is lost."""
    store = shop.folder / "store"
    cube = store / "reasons" / runs_in_store(store)[0].run_id
    (cube / "base_value/c/0").unlink()
    repair_job_store(store)
    assert damages(store)
    assert not is_finished(cube)
