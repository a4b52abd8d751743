"""Nights, and rows that are read once, with a store in a bucket: the files of a store in a folder."""

from __future__ import annotations

import importlib
import json
import re
import signal

import duckdb
import pandas as pd
import pytest
from click.testing import CliRunner

import dshap
from dshap.cli import cli
from dshap.core.errors import DamagedError, InputError, LockedError, StaleSourceError
from dshap.core.places import place_of
from dshap.cube import current_of, named_cubes
from dshap.engine import SilentProgress
from dshap.history.run_folders import runs_in_store
from dshap.history.run_record import read_records
from dshap.jobs import Command, parse_job, run_recorded
from dshap.jobs.verification import verify_job_store
from dshap.storage.folder import Folder
from dshap.storage.running import lease_folder
from dshap.storage.workspace import Rooms
from tests.buckets import BUCKET
from tests.jobs.job_files import to_toml
from tests.jobs.killed import killed_in_bucket
from tests.processes import forked
from tests.steps.test_nightly_cubes import (
    FEATURES,
    Shop,
    counts,
    deploy_another,
    killed_at,
    model,
    rows_of,
)

__all__ = ["model"]
TIMED = re.compile(r"runs/.*|.*snapshot\.json|.*/facts/.*")
"""The files that hold times or the path of the store."""
AGE = re.compile(rb'"age": [0-9.]+|"seal": "[0-9a-f]+"')
"""The age of a method, in seconds, and the seal of a record, which counts it and the ids of runs."""


class BucketShop(Shop):
    """The shop with the store of its job in a bucket."""

    @property
    def store(self):
        return place_of(f"s3://{BUCKET}/team/churn")

    def tables(self, **changed):
        tables = super().tables(**changed)
        return {**tables, "job": {**tables["job"], "store": str(self.store)}}

    @property
    def cube(self):
        return dshap.open_cube(f"{self.store}/reasons")


@pytest.fixture
def shop(s3, tmp_path, model):
    yield BucketShop(tmp_path, model)
    Folder(f"s3://{BUCKET}").delete("team")


@pytest.fixture
def beside(shop):
    """The same shop with its store in a folder."""
    return Shop(shop.folder, shop.model)


def files_in(store):
    """The files of a store by their names, with numbers in place of the ids of runs."""
    folder = Folder(store)
    ids = [run.run_id for run in runs_in_store(folder.path)]

    def numbered(text):
        for number, run_id in enumerate(ids):
            text = text.replace(run_id.encode(), b"run-%06d--------" % number)
        return AGE.sub(b"", text)

    return {
        numbered(name.encode()).decode(): numbered(folder.get(name) or b"")
        for name in folder.tree()
    }


def assert_same_files(shop, beside):
    """Both stores hold the same names, and the same bytes where these hold no time."""
    there = files_in(shop.store)
    here = files_in(beside.folder / "store")
    assert there.keys() == here.keys()
    assert [name for name in here if not TIMED.fullmatch(name) and here[name] != there[name]] == []


@pytest.mark.slow
def test_three_nights(shop, beside):
    """All rows; none; those that are new or have changed, while others go: as in a folder."""
    for each in (shop, beside):
        assert counts(each.night()) == (150, 0, 0, 0)
    assert_same_files(shop, beside)
    shop.check()
    made = current_of(shop.store / "reasons")
    assert counts(shop.night()) == counts(beside.night()) == (0, 0, 150, 0)
    assert current_of(shop.store / "reasons") == made
    shop.table = pd.concat([shop.table.iloc[5:], rows_of(20, seed=1, start=1000)])
    shop.table.loc[shop.table["id"].isin([10, 11, 12]), "a"] += 1
    shop.put()
    assert counts(shop.night()) == counts(beside.night()) == (20, 3, 142, 5)
    shop.check()
    assert_same_files(shop, beside)
    assert not any(verify_job_store(shop.store).values())
    assert [run.is_over for run in runs_in_store(shop.store)] == [True] * 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sql", "csv"])
def test_rows_that_are_read_once(shop, beside, kind):
    """One cube for all runs: as in a folder, and a second run finds nothing to do."""
    changed = {"incremental": {"strategy": "none"}}
    if kind == "csv":
        shop.table.to_csv(shop.folder / "rows.csv", index=False)
        roles = {"key": ["id"], "features": FEATURES, "missing": "pass"}
        changed["source"] = {"kind": "csv", "path": str(shop.folder / "rows.csv"), **roles}
    for each in (shop, beside):
        assert each.night(**changed).result.has_failed is False
    assert_same_files(shop, beside)
    shop.check()
    again = shop.night(**changed)
    assert again.result.was_complete
    assert not again.facts.has_work
    assert len(Folder(shop.store / "parts").list()) == 1  # the rows of one run are kept


def test_cubes_are_looked_for_where_cubes_may_be(shop, s3):
    """Neither readers nor checks ask the rooms of runs for cubes, however many runs there were."""
    shop.night()
    s3.asked.clear()
    run = current_of(shop.store / "reasons")
    assert s3.asked == {
        "GET team/churn/reasons/current": 1,
        f"GET team/churn/reasons/{run}/zarr.json": 1,
    }
    for look in (named_cubes, verify_job_store):
        s3.asked.clear()
        assert "reasons" in " ".join(look(shop.store))
        for room in ("keys", "parts", "runs"):
            asked = [
                each
                for each in s3.asked
                if re.search(rf"churn/{room}/.+/zarr.json|churn/{room}/.+/state/", each)
            ]
            assert asked == []
    # the list of a finished run: its seal, what it lists, and whether the run's cube is whole
    assert s3.asked[f"GET team/churn/reasons/{run}/state/finished.json"] == 3


def attribution_of_c(shop):
    """The attribution of the column c in the row whose key is 4."""
    cube = shop.cube
    return float(cube["attribution"].values[cube["id"].values == 4, FEATURES.index("c"), 0].item())


@pytest.mark.slow
def test_commands_about_nights(shop, tmp_path):
    shop.night()
    before = attribution_of_c(shop)
    shop.table.loc[shop.table["id"] < 7, "c"] = 0.25
    shop.put()
    shop.night()
    change = f"{before:.4f} → {attribution_of_c(shop):.4f}"
    today = read_records(shop.store)[-1].about["as_of"]
    job = tmp_path / "job.toml"
    job.write_text(to_toml(shop.tables()))
    store = f"{shop.store}"
    other = f"s3://{BUCKET}/team/other"
    for arguments, said in (
        (["status", store], "150 rows: 150 ok"),
        (["show", store], "143 of 150 rows carried"),
        (["runs", store], f"          7       0  {today}  reasons"),
        (["verify", store], "verified: 5 of 5 blocks finished"),
        (["verify", store, "--repair", "--job", str(job)], "verified: 5 of 5 blocks finished"),
        (["diff", store], change),
        (["plan", str(job)], "rows that are as in the current cube are copied from it"),
        (["report", store, "-o", str(tmp_path / "page.html")], "page.html"),
        (["copy", store, other], "each was read back unchanged"),
        (["verify", other], "verified: 5 of 5 blocks finished"),
        (["copy", other, str(tmp_path / "here")], "each was read back unchanged"),
        (["verify", str(tmp_path / "here")], "verified: 5 of 5 blocks finished"),
    ):
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 0, result.output
        assert said in result.output, arguments
    for copy in (other, str(tmp_path / "here")):  # both go on where the first one was copied
        moved = {**shop.tables(), "job": {"name": "churn", "store": copy}}
        ended = run_recorded(parse_job(moved), SilentProgress(), Command("job.toml"))
        assert counts(ended) == (0, 0, 150, 0)


@pytest.mark.slow
def test_damage_beside_the_cubes_is_named_and_mended(shop, tmp_path):
    shop.night()
    (run,) = runs_in_store(shop.store)
    store = Folder(shop.store)
    store.replace(f"keys/{run.run_id}/rows.parquet", b"nonsense")
    store.delete(f"parts/{run.run_id}/part-000000.parquet")
    places = [each.place for each in verify_job_store(shop.store)["runs"]]
    assert places == [
        f"parts/{run.run_id}/part-000000.parquet",
        f"keys/{run.run_id}/rows.parquet",
    ]
    job = tmp_path / "job.toml"
    job.write_text(to_toml(shop.tables()))
    result = CliRunner().invoke(cli, ["verify", str(shop.store), "--repair", "--job", str(job)])
    assert result.exit_code == 0, result.output
    assert counts(shop.night()) == (0, 0, 150, 0)
    assert not any(verify_job_store(shop.store).values())


def test_rows_that_were_altered_after_a_kill_are_refused(shop, monkeypatch):
    killed_at(monkeypatch, "dshap.steps.nightly_cubes.Night.cube_steps", shop)
    (run,) = runs_in_store(shop.store)
    store = Folder(shop.store)
    for room in ("parts", "prepared/rows"):
        name = f"{room}/{run.run_id}/part-000000.parquet"
        content = store.get(name)
        flipped = bytearray(content)
        flipped[len(content) // 2] ^= 1
        store.replace(name, bytes(flipped))
        with pytest.raises(
            DamagedError, match=f"{name} is damaged .* dshap verify {shop.store} --re"
        ):
            shop.night()
        assert [each.place for each in verify_job_store(shop.store)["runs"]] == [name]
        store.replace(name, content)
    shop.night()
    shop.check()


def test_a_first_night_that_is_refused_leaves_nothing(shop):
    shop.table["id"] = 7
    shop.put()
    with pytest.raises(InputError, match="repeat the key of another row"):
        shop.night()
    assert Folder(f"s3://{BUCKET}/team").list() == []


@pytest.mark.slow
def test_a_stale_source_and_other_columns(shop):
    """Both are judged before any row is put into the bucket; the night before stays."""
    shop.table["loaded_at"] = pd.Timestamp.now("UTC").tz_localize(None)
    shop.put()
    source = {
        **shop.tables()["source"],
        "query": "select * from customers where {as_of} >= date '2026-01-01'",
        "freshness": {"column": "loaded_at", "error_after": "48h"},
        "contract": {"columns": "freeze"},
    }
    del source["table"]
    shop.night(source=source)
    numbers = shop.table["a"]
    shop.table["a"] = numbers.map(str)
    shop.put()
    with pytest.raises(InputError, match="'a' from double to string"):
        shop.night(source=source)
    shop.table["a"] = numbers
    shop.table["loaded_at"] -= pd.Timedelta("3d")
    shop.put()
    stale = shop.night(source=source)
    assert isinstance(stale.facts.failure, StaleSourceError)
    (_, run) = runs_in_store(shop.store)
    assert run.is_over
    assert not (run.has_rows)
    assert not (run.has_keys)
    shop.check()


@pytest.mark.slow
def test_old_runs_go_and_checks_see_earlier_ones(shop):
    """Rows, keys and cubes of the runs beyond `keep_runs` are removed; drift looks at the others."""
    changed = {
        "check": [{"kind": "drift", "metric": "ndcg", "error": 0.1}],
        "sink": [{"uri": f"duckdb:///{shop.folder}/sink.duckdb", "table": "reasons"}],
    }
    job = {**shop.tables()["job"], "keep_runs": 2}
    for number in range(4):
        shop.table.loc[shop.table["id"] == number, "c"] = 0.25
        shop.put()
        ended = run_recorded(
            parse_job({**shop.tables(**changed), "job": job}), SilentProgress(), Command("job.toml")
        )
    assert ended.facts.checks[0].status == "pass"
    ids = [run.run_id for run in runs_in_store(shop.store)]
    assert len(ids) == 4
    for room in ("reasons", "parts", "keys"):
        assert Folder(shop.store / room).list()[:2] == ids[2:]
    assert Folder(shop.store / "prepared" / "rows").list() == ids[:1]
    with duckdb.connect(str(shop.folder / "sink.duckdb"), read_only=True) as sink:
        assert sink.execute("select count(distinct id) from reasons").fetchall() == [(150,)]
    shop.check()


@pytest.mark.slow
def test_another_model_removes_what_the_first_one_learned(shop):
    """The method and its rows are those of the second night; all rows are explained anew."""
    shop.night()
    deploy_another(shop)
    shop.night()
    shop.check()
    (_, second) = runs_in_store(shop.store)
    prepared = Folder(shop.store / "prepared")
    assert len(prepared.list()) == 3
    assert {"reasons.json", "rows"} < {*prepared.list()}
    assert Folder(shop.store / "prepared" / "rows").list() == [second.run_id]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("run.json", 1),
        ("parts/", 1),
        ("snapshot.json", 1),
        ("snapshot.json", 2),
        ("keys/", 1),
        ("keys/", 3),
        ("prepared/rows", 2),
        ("prepared/", 5),
        ("zarr.json", 4),
        ("churn/state/", 1),
        ("churn/state/", 2),
        ("churn/zarr.json", 1),
        ("state/plan.json", 1),
        ("status/zarr.json", 1),
        (".creating", 2),
        (".creating", 3),
        ("receipts", 3),
        ("current", 1),
        ("run_results.json", 1),
    ],
)
@pytest.mark.parametrize("night", [1, 2])
def test_a_killed_night_is_finished(shop, beside, s3, night, word, number):
    """Killed before the n-th object of a kind is written or removed; then the same command."""
    if night == 2:
        shop.night()
        shop.table.loc[shop.table["id"] % 9 == 0, "d"] = -1.5
        shop.table = shop.table[shop.table["id"] % 25 != 3]
        shop.put()
    file = shop.folder / "job.toml"
    file.write_text(to_toml(shop.tables()))
    with forked(killed_in_bucket, s3.environment, str(file), word, number) as process:
        process.join(120)
    assert process.exitcode in (-signal.SIGKILL, 0)
    shop.night()
    shop.check()
    runs = runs_in_store(shop.store)
    assert all(run.is_over for run in runs)
    ids = {run.run_id for run in runs}
    assert set(Folder(shop.store / "parts").list()) <= ids
    assert set(Folder(shop.store / "keys").list()) <= ids
    assert not any(verify_job_store(shop.store).values())
    assert not any(name.endswith(".creating") for name in Folder(shop.store).tree())


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["digest", "none"])
def test_shards(shop, beside, strategy):
    """Two runs in parts write the files of two whole runs in a folder."""
    changed = {"incremental": {"strategy": strategy}}
    file = shop.folder / "job.toml"
    file.write_text(to_toml(shop.tables(**changed)))
    for _ in range(2 if strategy == "digest" else 1):
        for part in (["--only", "learn"], ["--shard", "2/2"], ["--shard", "1/2"]):
            result = CliRunner().invoke(cli, ["run", str(file), "-q", *part])
            assert result.exit_code == 0, result.output
        beside.night(**changed)
        assert_same_files(shop, beside)
        shop.table.loc[shop.table["id"] < 40, "c"] = 0.25
        shop.put()
    assert not any(verify_job_store(shop.store).values())


@pytest.mark.slow
@pytest.mark.parametrize("explain", [{}, {"background": 20}])
@pytest.mark.parametrize("strategy", ["digest", "none"])
def test_no_task_takes_a_folder_of_this_machine(shop, monkeypatch, strategy, explain):
    """Parts are made in one; all that tasks read and write lies in the bucket."""
    asked = []
    plain = Rooms.folder

    def folder(self, name):
        asked.append(name)
        return plain(self, name)

    monkeypatch.setattr(Rooms, "folder", folder)
    changed = {
        "incremental": {"strategy": strategy},
        "explain": [{"name": "reasons", "value": "trees", **explain}],
    }
    shop.night(**changed)
    if strategy == "digest":
        shop.table.loc[shop.table["id"] < 40, "c"] = 0.25
        shop.put()
    shop.night(**changed)
    read = [name for name in asked if name != "keys"]  # this process alone joins keys
    assert read == ["rows", "rows"]


class Stopped(BaseException):
    """The end of a run at the start of its cluster."""


def test_what_every_worker_must_see(shop, beside, monkeypatch):
    """Nothing of this machine where rows and store are in a bucket."""
    required = []

    def stopped(*given, grows):
        required.append(next(sorted(each) for each in given if isinstance(each, dict)))
        raise Stopped

    monkeypatch.setattr("dshap.steps.holding.ClusterExecutor", stopped)
    shop.table.to_parquet(shop.folder / "rows.parquet")
    roles = {"key": ["id"], "features": FEATURES, "missing": "pass"}
    in_place = {
        "source": {"kind": "parquet", "path": str(shop.folder / "rows.parquet"), **roles},
        "incremental": {"strategy": "none"},
    }
    csv = {"source": {"kind": "csv", "path": str(shop.folder / "rows.csv"), **roles}}
    for each, changed in ((shop, {}), (beside, {}), (beside, csv), (shop, csv), (shop, in_place)):
        with pytest.raises(Stopped):
            each.night(**changed, cluster={"kind": "local", "workers": 1, "memory_limit": "1GiB"})
    assert required == [
        ["store"],
        ["folder of the store"],
        ["folder of the store"],
        ["store"],
        ["folder of [run] scratch", "store", "table"],
    ]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["digest", "none"])
def test_workers_read_rows_and_history_in_the_bucket(shop, beside, s3, strategy):
    """Workers of a cluster see the rows of the night, and those that are carried."""
    changed = {
        "incremental": {"strategy": strategy},
        "cluster": {"kind": "local", "workers": 1, "memory_limit": "1GiB"},
        # the process that starts others may be older than the service
        "worker": {"environment": s3.environment},
    }
    for _ in range(2 if strategy == "digest" else 1):
        shop.night(**changed)
        beside.night(incremental=changed["incremental"])
        assert_same_files(shop, beside)
        shop.table.loc[shop.table["id"] < 40, "c"] = 0.25
        shop.put()


@pytest.mark.slow
def test_errors_and_delays_change_nothing(shop, beside, s3):
    """One request in ten is late, is refused, or is done and answered by an error."""
    s3.rate = 0.1
    s3.delay_s = 0.02
    for _ in range(2):
        assert counts(shop.night()) == counts(beside.night())
        shop.table.loc[shop.table["id"] < 40, "c"] = 0.25
        shop.put()
    s3.rate = 0.0
    assert s3.n_faults
    assert_same_files(shop, beside)


def lease_taken_by_another(store):
    """Let a process of another machine have the lease of a store, as after a long sleep of this one."""
    folder = lease_folder(store)
    (name,) = folder.list()
    holder = json.loads(folder.get(name))
    other = {**holder, "token": "other", "machine": "another", "host": "node7", "pid": 1}
    folder.delete(name)
    folder.put_new("run-000099.json", json.dumps(other).encode())


@pytest.mark.parametrize(
    "moment",
    [
        "nightly_cubes.is_finished",
        "nightly_cubes.digest_rows",
        "endings.judge",
        "job_cubes.runs_with_rows",
    ],
)
def test_a_holder_that_slept_changes_nothing_in_a_bucket(shop, monkeypatch, moment):
    """It slept just before a pointer, a record or a removal, and another machine has its lease."""
    before = {}
    module, name = moment.split(".")
    step = getattr(importlib.import_module(f"dshap.steps.{module}"), name)

    def asleep(*given):
        found = step(*given)
        if not before:
            lease_taken_by_another(shop.store)
            before.update({each: Folder(shop.store).version(each) for each in files_of(shop)})
        return found

    with monkeypatch.context() as patch:
        patch.setattr(f"dshap.steps.{module}.{name}", asleep)
        with pytest.raises(LockedError, match=r"no longer locked by this process: .*node7\) has"):
            shop.night()
    assert {each: Folder(shop.store).version(each) for each in files_of(shop)} == before
    lease_folder(shop.store).delete("run-000099.json")
    shop.night()
    shop.check()


def files_of(shop):
    """The names of all files of the store."""
    return list(Folder(shop.store).tree())
