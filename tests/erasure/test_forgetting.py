"""Forgotten rows leave every file: a search that decodes all of them finds none of their values."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner

import dshap
from dshap import diff as difference
from dshap import open_cube, to_frame
from dshap.cli import cli
from dshap.core.errors import InputError, LockedError, NotLearnedError, SinkError
from dshap.core.places import place_of
from dshap.cube import cube_status, current_of, read_notes, stored_importance
from dshap.cube.blocks import CubeArrays, finished_blocks
from dshap.cube.erased_note import erased_rows
from dshap.erasure.forgetting import forget_keys
from dshap.erasure.job_facts import JobFacts
from dshap.erasure.journal import Journal, erased_of_cube
from dshap.erasure.key_files import KeyFiles
from dshap.erasure.kinds_of_places import PLACES
from dshap.erasure.read_rows import LearnedRows, ReadParts
from dshap.erasure.run_texts import sealed_document
from dshap.erasure.stored_cubes import StoredCubes, all_cubes_in
from dshap.history.run_record import document_in, read_record
from dshap.jobfile.reading import read_job_file
from dshap.jobs.replay import replay_run
from dshap.jobs.replay_outcome import WantedRows
from dshap.jobs.verification import verify_job_store
from dshap.report import page
from dshap.report.store_progress import status_lines
from dshap.sinks.frames import export_file
from dshap.steps.outlook import night_lines, nights_of, read_learned
from dshap.storage.folder import Folder
from dshap.storage.running import alone
from tests.buckets import BUCKET
from tests.databases import PASSWORD
from tests.erasure.canaries import Canaries, found_in
from tests.erasure.shops import NIGHTLY, SINKS, Shop, canaries, has_canary, importable, table
from tests.jobs.sealed_jobs import numbers, of_kernel, of_trees


@pytest.fixture(scope="module")
def nights(tmp_path_factory) -> Shop:
    """Three nights whose cubes are packed: tests must not change it."""
    shop = Shop(tmp_path_factory.mktemp("nights"), tile=5)
    for night in range(3):
        shop.night(table(shop.n_rows, night))
    return shop


@pytest.fixture
def shop(nights, tmp_path) -> Shop:
    """A copy of the three nights."""
    shutil.copytree(nights.folder, tmp_path / "shop")
    copy = Shop(tmp_path / "shop", tile=5)
    assert (copy.cube() / "state" / "packed.json").is_file()
    return copy


def keys_of_canaries(shop: Shop) -> list[str]:
    frame = table(shop.n_rows)
    return frame[has_canary(frame)].id.tolist()


def arrays_of(store: Path) -> dict[str, dict[str, Any]]:
    """Cube -> variable -> values of all rows."""
    found = {}
    for name, path in all_cubes_in(place_of(store)).items():
        cube = CubeArrays(path)
        rows = slice(0, cube.n_rows)
        names = ("attribution", "prediction", "status", "std_error")
        values = {each: cube.read_rows(each, rows) for each in names if cube.has(each)}
        values |= cube.rows(cube.keys, rows) | cube.rows(cube.columns, rows)
        found[name] = values
    return found


def _bits(values: Any) -> Any:
    """What is compared of values: the bytes of numbers, and texts."""
    if values.dtype.kind == "T":
        return values.tolist()
    return values.tobytes()


def is_clean(shop: Shop) -> bool:
    return not any(verify_job_store(place_of(shop.store)).values())


def test_the_search_decodes_files_of_each_kind(tmp_path):
    """A key, a text and a number, each in a file of its own, as its kind stores it."""
    wanted = Canaries(
        frozenset(["KEYCANARY1"]), frozenset(["TEXTCANARY2"]), frozenset([5.12345678])
    )
    others = [0.5, 5.12345679, 1e300, -5.12345678]
    numbers = np.array([*others, 5.12345678])
    texts = np.array(["Köln", "KEYCANARY11", "TEXTCANARY2"], dtype=np.dtypes.StringDType())
    frame = pd.DataFrame({"a": numbers[2:], "b": ["x", None, "KEYCANARY1"]})
    frame.to_parquet(tmp_path / "rows.parquet")
    pd.DataFrame({"d": [b"\xff\xfeKEYCANARY1\xff", b""]}).to_parquet(tmp_path / "digests.parquet")
    np.save(tmp_path / "numbers.npy", numbers.astype(np.float32))
    np.savez(tmp_path / "record.npz", a=numbers)
    (tmp_path / "document.json").write_text(json.dumps({"a": [1, {"KEYCANARY1": 5.12345678}]}))
    (tmp_path / "page.html").write_text("<p>TEXTCANARY2, 5.12345678</p>")
    (tmp_path / "odd").write_bytes(b"abc" + numbers.tobytes() + b"KEYCANARY11 15.12345678")
    zarr.create_array(tmp_path / "texts", data=texts)
    zarr.create_array(tmp_path / "values", data=numbers)
    found = {name: seen for name, seen in found_in(tmp_path, wanted).items() if "/c/" not in name}
    assert np.float32(5.12345679) == np.float32(5.12345678)  # and still another number
    assert found == {
        "digests.parquet": {"KEYCANARY1"},
        "document.json": {"KEYCANARY1", 5.12345678, "5.12345678"},
        "numbers.npy": {float(np.float32(5.12345678))},
        "odd": {5.12345678},
        "page.html": {"TEXTCANARY2", "5.12345678"},
        "record.npz": {5.12345678},
        "rows.parquet": {"KEYCANARY1", 5.12345678},
        "texts/ (values)": {"TEXTCANARY2"},
        "values/ (values)": {5.12345678},
    }
    assert found_in(tmp_path, Canaries(frozenset(["KEYCANARY3"]), frozenset(), frozenset())) == {}


def test_a_search_of_every_file_finds_canaries_before_and_none_after(tmp_path):
    shop = Shop(tmp_path, NIGHTLY + SINKS)
    for night in range(2):
        frame = table(shop.n_rows, night)
        shop.night(frame)
    wanted = canaries(frame)
    (tmp_path / "table.parquet").unlink()  # the source is not dshap's
    page(shop.store, tmp_path / "page.html", segments=["city", "a:3"], force=True)
    before = found_in(tmp_path, wanted)
    everything = wanted.keys | wanted.texts | wanted.numbers
    for place in ("parts", "keys", "prepared", "reasons"):
        inside = [seen for name, seen in before.items() if name.startswith(f"build/shop/{place}")]
        assert inside, place
    assert set().union(*before.values()) >= everything
    for name in ("sink.duckdb", "sink.sqlite", "page.html"):
        assert before[name] & wanted.keys, name
    done = forget_keys(shop.store, sorted(wanted.keys), job_file=str(shop.job))
    assert done.failure is None
    assert done.n_keys == len(wanted.keys) == 20
    assert found_in(tmp_path, wanted) == {}
    assert is_clean(shop)
    assert done.counts["rows of cubes"] == 40
    assert done.counts["lines of sinks"] == 20 * (4 + 3 + 2)  # long, top 3, two folders

    # the next night: nobody came back, nobody counts as gone, and the sinks stay as they are
    left = frame[~has_canary(frame)]
    run_id = shop.night(left)
    record = (shop.store / "runs" / run_id / "run_results.json").read_text()
    assert '"deleted": 0' in record
    assert '"new": 0' in record
    assert found_in(tmp_path, wanted) == {}
    assert is_clean(shop)


def test_other_rows_keep_their_bits_and_sums_are_those_of_the_rows_left(shop):
    before = arrays_of(shop.store)
    keys = keys_of_canaries(shop)
    forget_keys(shop.store, keys)
    after = arrays_of(shop.store)
    assert len(before) == 3
    for name, old in before.items():
        is_gone = np.isin(old["id"].tolist(), keys)
        assert is_gone.sum() == len(keys)
        for variable, values in old.items():
            left = after[name][variable][~is_gone]
            assert _bits(left) == _bits(values[~is_gone]), variable
        assert (after[name]["status"][is_gone] == 2).all()
        assert np.isnan(after[name]["attribution"][is_gone]).all()
        assert (after[name]["id"][is_gone] == "").all()
        path = all_cubes_in(place_of(shop.store))[name]
        assert erased_rows(path).tolist() == np.flatnonzero(is_gone).tolist()
        assert erased_of_cube(place_of(shop.store), name) == len(keys)
        for block in finished_blocks(path):
            phi = block.attribution[~is_gone[block.start : block.stop]]
            assert block.summary["count"] == len(phi)
            np.testing.assert_allclose(
                block.summary["attribution"][0, 0], phi.sum(axis=0), rtol=1e-13
            )
            sums = np.abs(phi).sum(axis=0)
            np.testing.assert_allclose(block.summary["attribution"][0, 1], sums, rtol=1e-13)
        mean = np.abs(old["attribution"][~is_gone]).mean(axis=0)
        means = stored_importance(path).means["mean_magnitude"].value
        np.testing.assert_allclose(means, mean, rtol=1e-12)


def test_the_method_is_withdrawn_and_learned_anew_from_the_rows_left(shop, tmp_path):
    room = place_of(shop.store) / "prepared"
    before = read_learned(room, "reasons")
    done = forget_keys(shop.store, keys_of_canaries(shop))
    assert done.erasure.withdrawn == ("reasons",)
    assert read_learned(room, "reasons") is None
    assert not (shop.store / "prepared" / before.method).exists()
    with importable(shop.folder):
        lines = night_lines(nights_of(read_job_file(shop.job)))
    assert any("withdrawn" in line and "explains every row" in line for line in lines)
    frame = table(shop.n_rows, 2)
    left = frame[~has_canary(frame)]
    run_id = shop.night(left)
    record = (shop.store / "runs" / run_id / "run_results.json").read_text()
    assert "withdrawn" in record
    now = read_learned(room, "reasons")
    assert now.run_id == before.run_id
    assert now.method != before.method
    # the method of a store that never had these rows is the same one
    (tmp_path / "other").mkdir()
    other = Shop(tmp_path / "other", tile=5)
    first = table(shop.n_rows, 0)
    other.night(first[~has_canary(first)])
    assert read_learned(place_of(other.store) / "prepared", "reasons").method == now.method


def test_a_method_without_such_a_row_stays_and_rows_are_carried(tmp_path):
    shop = Shop(tmp_path)
    first = table(shop.n_rows, 0)
    shop.night(first[~has_canary(first)])
    second = table(shop.n_rows, 0)
    shop.night(second)
    room = place_of(shop.store) / "prepared"
    before = read_learned(room, "reasons")
    done = forget_keys(shop.store, keys_of_canaries(shop))
    assert done.erasure.withdrawn == ()
    assert read_learned(room, "reasons") == before
    assert is_clean(shop)
    third = second[~has_canary(second)].copy()
    third.loc[third.index[0], "b"] += 1.0
    run_id = shop.night(third)
    assert current_of(place_of(shop.store) / "reasons") == run_id
    cube = all_cubes_in(place_of(shop.store))[f"reasons/{run_id}"]
    assert read_notes(cube)["carried"]["rows"] == len(third) - 1
    record = (shop.store / "runs" / run_id / "run_results.json").read_text()
    assert '"deleted": 0' in record
    assert '"changed": 1' in record


def test_readers_leave_erased_rows_out(shop, tmp_path):
    keys = keys_of_canaries(shop)
    forget_keys(shop.store, keys)
    first, *_, last = shop.runs()
    frame = table(shop.n_rows, 2)
    run_id = shop.night(frame[~has_canary(frame)])  # its rows stand at other places
    found = difference(shop.store / "reasons" / last, shop.store / "reasons" / run_id)
    assert "180 rows in both" in str(found)
    assert "0 only in old, 0 only in new" in str(found)
    status = cube_status(place_of(shop.store) / "reasons" / first)
    assert (status.ok, status.skipped, status.erased, status.pending) == (180, 0, 20, 0)
    lines = status_lines({"reasons": status})
    assert lines == ["reasons: 200 rows: 180 ok, 20 erased, 0 pending; 40 of 40 blocks done"]
    page(shop.store, tmp_path / "page.html", run=first)
    text = (tmp_path / "page.html").read_text()
    assert "20 rows were erased on request" in text
    assert "were skipped, because they have missing values" not in text


@pytest.mark.parametrize("shape", ["wide", "long", "top_k"])
def test_tables_of_a_cube_have_no_line_of_an_erased_row(shop, tmp_path, shape):
    """Neither its key nor its empty place, whether the Dataset is as stored, cut or turned."""
    path = shop.store / "reasons" / shop.runs()[-1]
    before = to_frame(path, shape)
    wanted = before[~before["id"].isin(keys_of_canaries(shop))].reset_index(drop=True)
    forget_keys(shop.store, keys_of_canaries(shop))
    pd.testing.assert_frame_equal(to_frame(path, shape), wanted)
    cube = open_cube(path)
    for other in (cube.load(), cube.isel(instance=slice(None, None, -1))):
        found = to_frame(other, shape)
        assert sorted(found["id"].unique()) == sorted(wanted["id"].unique())
        assert set(found["status"]) == {"ok"}
    done = export_file(path, tmp_path / "out.parquet", shape)
    assert (done.n_rows, done.n_lines, done.without_attribution) == (180, len(wanted), "20 erased")
    assert len(pd.read_parquet(tmp_path / "out.parquet")) == len(wanted)


def test_a_skipped_row_with_the_key_of_erased_ones_stays(tmp_path):
    """The note of the store lists the erased rows: −1 is a key like others."""
    rows = pd.DataFrame({"a": [1.0, np.nan, 3.0, 4.0], "b": [1.0, 2.0, 3.0, 5.0]})
    rows.index = pd.Index([4, -1, 7, 9], name="id")
    value = dshap.values.Marginal(lambda x: x[:, 0] * x[:, 1], rows.dropna())
    options = {"missing": "skip", "store": tmp_path / "cube", "progress": False}
    dshap.explain(value, rows, **options)
    forget_keys(tmp_path / "cube", ["7"])
    frame = to_frame(tmp_path / "cube")
    assert frame["id"].tolist() == [4, -1, 9]
    assert frame["status"].tolist() == ["ok", "skipped", "ok"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [StoredCubes, JobFacts, LearnedRows, ReadParts, KeyFiles])
def test_without_a_kind_of_place_the_search_finds_what_it_holds(shop, monkeypatch, kind):
    others = tuple(each for each in PLACES if type(each) is not kind)
    assert len(others) == len(PLACES) - 1
    monkeypatch.setattr("dshap.erasure.forgetting.PLACES", others)
    forget_keys(shop.store, keys_of_canaries(shop))
    assert found_in(shop.store, canaries(table(shop.n_rows, 2)))


def test_words_about_a_row_leave_records_and_others_stay(shop):
    keys = keys_of_canaries(shop)
    said = f"2 rows failed, first row 0 (id {keys[0]}): could not read 'TEXTCANARY00000'"
    other = "1 row failed, first row 1 (id k00001): could not read 'Rome'"
    run_id = shop.runs()[0]
    record = shop.store / "runs" / run_id / "run_results.json"
    document = dict(document_in(record.read_bytes()))
    document["results"][0]["message"] = said
    document["results"].append({**document["results"][0], "message": other})
    record.write_bytes(sealed_document(document))
    assert read_record(place_of(shop.store), run_id).is_over
    done = forget_keys(shop.store, keys)
    assert done.counts["records"] == 1
    results = read_record(place_of(shop.store), run_id).results
    assert results[0]["message"] == "2 rows failed, first row 0 (erased): could not read '(erased)'"
    assert results[-1]["message"] == other


def test_a_sample_beside_the_store_goes(shop):
    sample = shop.store.with_name("shop.sample")
    (sample / "rows").mkdir(parents=True)
    (sample / "sample.json").write_text("{}")
    table(shop.n_rows).to_parquet(sample / "rows" / "part-000000.parquet")
    done = forget_keys(shop.store, keys_of_canaries(shop)[:1])
    assert done.counts["samples"] == 1
    assert not sample.exists()
    sample.mkdir()  # of the user
    (sample / "notes.txt").write_text("mine")
    forget_keys(shop.store, keys_of_canaries(shop)[1:2])
    assert (sample / "notes.txt").exists()


def test_unknown_keys_are_counted_and_nothing_is_erased(shop):
    before = {file: file.read_bytes() for file in shop.store.rglob("*") if file.is_file()}
    keys = keys_of_canaries(shop)[:3]
    with pytest.raises(InputError, match=r"does not have 2 of the keys \(3 of 5 keys were found\)"):
        forget_keys(shop.store, [*keys, "nobody", "no one"])
    assert {
        file: content
        for file, content in before.items()
        if not file.exists() or file.read_bytes() != content
    } == {}
    with pytest.raises(InputError, match=r"nothing is erased; correct the keys$"):
        forget_keys(shop.store, ["nobody"])  # --known-only would forget nobody either
    done = forget_keys(shop.store, [*keys, "nobody"], known_only=True)
    assert done.n_keys == 3
    again = forget_keys(shop.store, keys)  # known by their digests
    assert again.erasure.erasure_id == done.erasure.erasure_id
    assert again.erasure.rows == done.erasure.rows
    assert len(list(Journal(place_of(shop.store)))) == 1
    with pytest.raises(InputError, match="0 of 1 keys were found"):
        forget_keys(shop.store, ["nobody"])


def test_a_store_without_keys_and_a_place_without_a_store(tmp_path):
    import dshap
    from dshap.values import Marginal

    x = np.random.default_rng(0).normal(size=(20, 3))
    dshap.explain(Marginal(lambda a: a.sum(axis=1), x[:5]), x, store=tmp_path / "cube.zarr")
    with pytest.raises(InputError, match="has no keys"):
        forget_keys(tmp_path / "cube.zarr", ["1"])
    with pytest.raises(InputError, match="is not a store of dshap"):
        forget_keys(tmp_path / "nothing", ["1"])


KERNELS = """
[job]
name = "kernels"
store = "build/shop"
[source]
kind = "parquet"
path = "table.parquet"
key = ["id", "city"]
target = "c"
features = ["a", "b"]
[model]
kind = "kernel_ridge"
landmarks = 40
lengthscale = [1.0, 1.0]
penalty = 1e-3
[[explain]]
name = "interventional"
value = "kernel_interventional"
[[explain]]
name = "observational"
value = "kernel_observational"
landmarks = 30
[run]
instance_tile = 50
keep_rows = true
[report]
what_if = true
page = "page.html"
"""


def test_a_job_with_one_cube_loses_its_fit_and_what_it_learned(tmp_path):
    shop = Shop(tmp_path)
    frame = table(150)
    shop.job.write_text(KERNELS)
    shop.night(frame)
    wanted = canaries(frame)
    (tmp_path / "table.parquet").unlink()
    page(shop.store, tmp_path / "page.html", all_rows=True, what_if=True)
    before = found_in(shop.store, wanted)
    assert any(name.startswith("state/model-") for name in before)
    assert any(name.startswith("observational/state/landmarks-") for name in before)
    chosen = frame[has_canary(frame)]
    file = tmp_path / "keys.csv"
    chosen[["city", "id"]].to_csv(file, index=False)
    done = forget_keys(shop.store, file=str(file), job_file=str(shop.job))
    file.unlink()
    assert done.failure is None
    assert done.n_keys == 15
    assert done.counts["pages"] == 1
    assert found_in(tmp_path, wanted) == {}
    assert (tmp_path / "page_rows").is_dir()
    assert is_clean(shop)


def test_a_killed_run_is_dropped_with_its_rows(shop):
    runs = shop.runs()
    last = runs[-1]
    (shop.store / "runs" / last / "run_results.json").unlink()
    (shop.store / "reasons" / "current").write_text(f"{runs[-2]}\n")
    done = forget_keys(shop.store, keys_of_canaries(shop))
    assert done.dropped == (last,)
    assert found_in(shop.store, canaries(table(shop.n_rows, 2))) == {}
    assert last not in shop.runs()
    assert is_clean(shop)


def test_a_cube_that_is_not_finished_is_refused(tmp_path):
    import dshap
    from dshap.cube.reference_copy import FINISHED, mark_of
    from dshap.values import Marginal

    rows = table(60)
    value = Marginal(lambda x: x.sum(axis=1), rows[["a", "b"]].to_numpy()[:5])
    store = tmp_path / "cube.zarr"
    dshap.explain(value, rows[["id", "a", "b"]], key="id", store=store, keep_rows=True)
    mark_of(place_of(store)).remove(FINISHED)
    with pytest.raises(InputError, match="is not finished, and contains rows of these keys"):
        forget_keys(store, ["KEYCANARY00000"])


def test_a_store_of_one_cube(tmp_path):
    import dshap
    from dshap.values import Marginal

    rows = table(60)
    value = Marginal(lambda x: x.sum(axis=1), rows[["a", "b"]].to_numpy())
    store = tmp_path / "cube.zarr"
    dshap.explain(value, rows[["id", "a", "b"]], key="id", store=store, keep_rows=True)
    wanted = canaries(rows)
    assert found_in(store, wanted)
    forget_keys(store, sorted(wanted.keys))
    assert found_in(store, wanted) == {}
    cube = dshap.open_cube(store)
    assert int((cube["status"] == 2).sum()) == len(wanted.keys)
    frame = dshap.to_frame(cube)
    assert frame.status.tolist() == ["ok"] * (60 - len(wanted.keys))


def test_the_command(shop, monkeypatch):
    keys = keys_of_canaries(shop)
    monkeypatch.chdir(shop.folder)
    monkeypatch.syspath_prepend(str(shop.folder))
    run = CliRunner().invoke
    found = run(cli, ["forget", "build/shop", "--key", "nobody"])
    assert found.exit_code == 2
    assert "(0 of 1 keys were found): nothing is erased" in found.stderr
    found = run(cli, ["forget", "build/shop", "--key", keys[0], "--key", keys[1], "--json"])
    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["keys"] == 2
    with alone(place_of("build/shop"), "a run"):
        assert run(cli, ["forget", "build/shop", "--key", keys[2]]).exit_code == 6
    with importable(shop.folder):
        planned = run(cli, ["plan", "job.toml"])
    assert "withdrawn" in planned.stdout, planned.stderr


def test_counts_are_those_that_are_learned_without_the_rows(tmp_path):
    """Counts of the patterns of a background of all rows: integers, equal to the last bit."""
    pytest.importorskip("xgboost")
    jobs = []
    whole = numbers(120)
    left = whole.drop(index=[3, 50, 51, 119])
    for name, first in (("forgotten", whole), ("never", left)):
        job = of_trees(tmp_path / name, incremental={"strategy": "digest"})
        job.tables["explain"] = [{"name": "reasons", "value": "trees", "background": "all"}]
        job.put(first)
        job.run()
        jobs.append(job)
    forgotten = jobs[0]
    done = forget_keys(forgotten.store, ["3", "50", "51", "119"], job_file=str(forgotten.file))
    assert done.erasure.withdrawn == ("reasons",)
    forgotten.put(left)
    forgotten.run()
    states = [states_in(job.store) for job in jobs]
    assert states[0].keys() == states[1].keys()
    assert any(name.startswith(("moments", "base")) for name in states[0])
    for name, arrays in states[0].items():
        for key, values in arrays.items():
            assert values.tobytes() == states[1][name][key].tobytes(), (name, key)


def test_a_method_that_has_read_no_row_stays(tmp_path):
    """Path-dependent values of trees: nothing is announced, and the next night carries its rows."""
    job = of_trees(tmp_path / "job", incremental={"strategy": "digest"})
    job.run()
    room = place_of(job.store) / "prepared"
    before = read_learned(room, "reasons")
    done = forget_keys(job.store, ["3", "50"], job_file=str(job.file))
    assert done.erasure.withdrawn == ()
    assert "learned" not in str(done)
    assert read_learned(room, "reasons") == before
    left = job.table.drop(index=[3, 50])
    job.put(left.assign(a=left.a.where(left.id != 7, 9.0)))
    facts = job.run().facts.explanations[0]
    assert facts.accuracy["carried"]["rows"] == len(left) - 1
    assert read_learned(room, "reasons").method == before.method
    # of no row that is left the method is learned from those of the next night
    everyone = [str(key) for key in left.id]
    assert forget_keys(job.store, everyone).erasure.withdrawn == ("reasons",)
    job.put(numbers(20, 1, 700))
    job.run()
    assert read_learned(room, "reasons").run_id != before.run_id


def states_in(store: Path) -> dict[str, dict[str, Any]]:
    """Name -> arrays, of the states of the one method of a store."""
    (room,) = [each for each in (store / "prepared").iterdir() if (each / "state").is_dir()]
    found = {}
    for file in sorted((room / "state").glob("*.npz")):
        with np.load(file) as record:
            found[file.stem] = {name: record[name] for name in record.files}
    return found


def test_a_replay_says_how_many_rows_were_erased(tmp_path):
    job = of_kernel(tmp_path / "job", incremental={"strategy": "digest"})
    first = job.run().facts.run_id
    done = forget_keys(job.store, ["7", "9", "10"], job_file=str(job.file))
    assert done.resealed == (first,)
    with pytest.raises(NotLearnedError, match=rf"run {first} is not replayable: 3 rows erased"):
        replay_run(job.store, WantedRows(5))


def test_a_running_job_locks_the_store(shop):
    with alone(place_of(shop.store), "a run"), pytest.raises(LockedError, match="locked by"):
        forget_keys(shop.store, keys_of_canaries(shop)[:1])


def test_a_sink_that_cannot_be_reached_is_named_and_done_later(tmp_path):
    sink = '[[sink]]\nuri = "duckdb:///sinks/sink.duckdb"\ntable = "reasons"\n'
    (tmp_path / "sinks").mkdir()
    shop = Shop(tmp_path, NIGHTLY + sink)
    frame = table(shop.n_rows)
    shop.night(frame)
    wanted = canaries(frame)
    (tmp_path / "sinks").rename(tmp_path / "away")
    (tmp_path / "sinks").write_text("no folder")
    done = forget_keys(shop.store, sorted(wanted.keys), job_file=str(shop.job))
    assert isinstance(done.failure, SinkError)
    assert done.failure.exit_status == 10
    assert "[[sink]] reasons" in str(done.failure)
    assert found_in(shop.store, wanted) == {}
    (tmp_path / "sinks").unlink()
    (tmp_path / "away").rename(tmp_path / "sinks")
    assert found_in(tmp_path / "sinks", wanted)
    done = forget_keys(shop.store, sorted(wanted.keys), job_file=str(shop.job))
    assert done.failure is None
    assert done.counts["lines of sinks"] == len(wanted.keys)
    assert found_in(tmp_path / "sinks", wanted) == {}


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["wide", "reasons"])
def test_tables_of_postgresql_and_their_views(tmp_path, postgresql, monkeypatch, shape):
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    uri = postgresql.uri(password=None)
    text = 'shape = "top_k"\ntext = true' if shape == "reasons" else f'shape = "{shape}"'
    sink = f'[[sink]]\nuri = "{uri}"\ntable = "of_{shape}"\nwrite = "append"\ndeletes = "mark"\n{text}\n'
    shop = Shop(tmp_path, NIGHTLY + sink)
    for night in range(2):
        frame = table(shop.n_rows, night)
        shop.night(frame)
    keys = sorted(canaries(frame).keys)
    done = forget_keys(shop.store, keys, job_file=str(shop.job))
    assert done.failure is None
    assert done.counts["lines of sinks"] >= len(keys)
    with postgresql.database.connect() as connection, connection.cursor() as cursor:
        views = ["of_reasons_text"] if shape == "reasons" else []
        for name in [f"of_{shape}", *views]:
            cursor.execute(f"SELECT COUNT(*) FROM {name} WHERE id LIKE 'KEYCANARY%'")
            assert cursor.fetchone() == (0,)
            cursor.execute(f"SELECT COUNT(DISTINCT id) FROM {name}")
            assert cursor.fetchone() == (shop.n_rows - len(keys),)
    left = frame[~has_canary(frame)].copy()
    run_id = shop.night(left)
    record = (shop.store / "runs" / run_id / "run_results.json").read_text()
    assert '"status": "error"' not in record
    assert "the table has" not in record  # it is not taken for an altered one


@pytest.mark.parametrize(
    "place", ['uri = "duckdb:///s.duckdb"', 'uri = "sqlite:///s.sqlite"', 'path = "folder"']
)
def test_a_key_that_only_a_sink_has_is_known(tmp_path, place):
    rows = "" if "path" in place else 'table = "reasons"\nwrite = "append"\ndeletes = "keep"\n'
    shop = Shop(tmp_path, f"{NIGHTLY}[[sink]]\n{place}\n{rows}", key='"id", "city"')
    frame = table(shop.n_rows)
    shop.night(frame)
    gone = frame[has_canary(frame)].iloc[:2]
    keys = [f"{row.id},{row.city}" for row in gone.itertuples()]
    shop.night(frame.drop(index=gone.index))
    wanted = Canaries(frozenset(gone.id), frozenset(gone.city), frozenset(gone.a))
    for room in ("parts", "keys", "reasons", "prepared", "state"):  # as after [retention] days
        for each in (shop.store / room).glob("2*"):
            if each.name < shop.runs()[-1]:
                shutil.rmtree(each)
    assert any(name.startswith(("s.", "folder")) for name in found_in(tmp_path, wanted))
    with pytest.raises(InputError, match="2 of 3 keys were found"):
        forget_keys(shop.store, [*keys, "nobody,nowhere"], job_file=str(shop.job))
    done = forget_keys(shop.store, keys, job_file=str(shop.job))
    assert done.counts["lines of sinks"] == 2
    assert not [name for name in found_in(tmp_path, wanted) if name.startswith(("s.", "folder"))]


def test_loads_that_no_job_names_are_named(tmp_path):
    sink = '[[sink]]\nuri = "duckdb:///sink.duckdb"\ntable = "reasons"\n'
    shop = Shop(tmp_path, NIGHTLY + sink)
    shop.night(table(shop.n_rows))
    shop.job.unlink()
    keys = keys_of_canaries(shop)
    done = forget_keys(shop.store, keys[1:])  # by the job that the run has recorded
    assert done.failure is None
    assert done.counts["lines of sinks"] == len(keys) - 1
    for each in shop.store.glob("runs/*/job.json"):
        each.unlink()
    done = forget_keys(shop.store, keys[:1])
    assert "sink.duckdb" in str(done.failure)
    assert "earlier runs have loaded" in str(done.failure)


QUICK = (4,)
KILLED_AT = (1, 2, 20, 836, 839, 1_500, 2_475, 2_490, 2_493, 2_495, 2_496, 2_505)
"""Numbers of renames and links, of 2,510 in all: of blocks that are unpacked, rewritten and packed,
of their documents, of the method, of parts, of keys, and of the record."""


@pytest.mark.parametrize(
    "number", [*QUICK, *(pytest.param(each, marks=pytest.mark.slow) for each in KILLED_AT)]
)
def test_a_killed_erasure_loses_nothing_and_is_finished_by_the_same_command(shop, number):
    keys = keys_of_canaries(shop)
    before = arrays_of(shop.store)
    was_killed = _killed_at(shop, keys, number)
    if was_killed:
        unfinished = Journal(place_of(shop.store)).unfinished
        if unfinished is not None:
            assert not is_clean(shop)
            with pytest.raises(InputError, match="was not finished"):
                forget_keys(shop.store, ["k00001"])
    forget_keys(shop.store, keys)
    frame = table(shop.n_rows, 2)
    assert found_in(shop.store, canaries(frame)) == {}
    assert is_clean(shop)
    after = arrays_of(shop.store)
    for name, old in before.items():
        is_gone = np.isin(old["id"].tolist(), keys)
        left = after[name]["attribution"][~is_gone]
        assert left.tobytes() == old["attribution"][~is_gone].tobytes()
        assert after[name]["id"][~is_gone].tolist() == old["id"][~is_gone].tolist()
    listed = list(all_cubes_in(place_of(shop.store)).values())
    assert [len(erased_rows(path)) for path in listed] == [20, 20, 20]


def _killed_at(shop: Shop, keys: list[str], number: int) -> bool:
    """Forget keys in a process of its own, killed as it renames its n-th file; whether it was."""
    child = os.fork()
    if child == 0:
        calls = 0

        def count(event: str, given: tuple[Any, ...]) -> None:
            nonlocal calls
            if event in ("os.rename", "os.link") and str(shop.store) in str(given[1]):
                calls += 1
                if calls == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            forget_keys(shop.store, keys)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.slow
def test_a_store_in_a_bucket(s3, tmp_path):
    store = place_of(f"s3://{BUCKET}/team/shop")
    shop = Shop(tmp_path, tile=5)
    shop.job.write_text(shop.job.read_text().replace("build/shop", str(store)))
    try:
        for night in range(2):
            frame = table(shop.n_rows, night)
            shop.night(frame)
        wanted = canaries(frame)
        assert found_in(_fetched(store, tmp_path / "before"), wanted)
        done = forget_keys(store, sorted(wanted.keys), job_file=str(shop.job))
        assert done.failure is None
        assert done.counts["rows of cubes"] == 40
        assert found_in(_fetched(store, tmp_path / "after"), wanted) == {}
        assert not any(verify_job_store(store).values())
    finally:
        Folder(f"s3://{BUCKET}").delete("team")


def _fetched(store: Any, folder: Path) -> Path:
    """A copy of all objects of a store in a folder."""
    room = Folder(store)
    for name in room.tree():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(room.get(name) or b"")
    return folder
