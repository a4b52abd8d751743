"""Nights of a job: what is carried and what is explained, whatever dies when."""

from __future__ import annotations

import importlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
import xgboost
from click.testing import CliRunner

import dshap
from dshap.analysis.column_texts import card_of, texts_of
from dshap.cli import cli
from dshap.core.errors import DamagedError, EmptyTableError, InputError, StoreMismatchError
from dshap.cube import current_of, is_packed, read_run
from dshap.engine import SilentProgress
from dshap.history.key_joins import KeyJoins
from dshap.history.row_history import NightHistory
from dshap.history.run_folders import runs_in_store
from dshap.history.run_record import exit_status, read_records
from dshap.jobs import Command, job_summary, parse_job, run_recorded
from dshap.jobs.runs_in_words import closing_lines, runs_summary
from dshap.jobs.verification import verify_job_store
from dshap.models.adapters.model_files import sha256_of
from dshap.steps.nightly_cubes import Night
from dshap.steps.opened import OpenedJob
from dshap.tables.keys.row_census import RowCensus
from dshap.warehouse.snapshot import Snapshot
from tests.cube.test_packing import in_packs_of
from tests.jobs.job_files import to_toml
from tests.jobs.killed import killed_night
from tests.processes import forked
from tests.said import Said

FEATURES = ["a", "b", "c", "d"]


def rows_of(n, seed, start=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n, 4)), columns=FEATURES)
    table.loc[rng.random(n) < 0.1, "b"] = np.nan
    table.insert(0, "id", np.arange(start, start + n))
    return table


def predictions_of(table):
    x = table[FEATURES].fillna(0).to_numpy()
    return x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2]) + x[:, 3] * (x[:, 0] > 0)


@pytest.fixture
def model(tmp_path):
    """The path of a booster in a file."""
    table = rows_of(400, seed=7)
    fitted = xgboost.XGBRegressor(n_estimators=12, max_depth=3, seed=0)
    fitted.fit(table[FEATURES], predictions_of(table))
    fitted.save_model(tmp_path / "model.json")
    return tmp_path / "model.json"


class Shop:
    """A database with one table, and the job that explains it."""

    def __init__(self, folder, model):
        self.folder = folder
        self.model = model
        self.table = rows_of(150, seed=0)
        self.put()

    def put(self):
        """Replace the table of the database, in another order each time."""
        shuffled = self.table.sample(frac=1.0, random_state=len(self.table))  # noqa: F841 (DuckDB reads it)
        with duckdb.connect(str(self.folder / "shop.duckdb")) as connection:
            connection.execute("create or replace table customers as select * from shuffled")

    def tables(self, **changed):
        """The tables of the job file."""
        uri = f"duckdb:///{self.folder}/shop.duckdb"
        tables = {
            "job": {"name": "churn", "store": str(self.folder / "store")},
            "source": {
                "kind": "sql",
                "uri": uri,
                "table": "customers",
                "key": ["id"],
                "features": FEATURES,
                "missing": "pass",
            },
            "model": {"kind": "xgboost", "path": str(self.model)},
            "explain": [{"name": "reasons", "value": "trees"}],
            "incremental": {"strategy": "digest"},
            "run": {"instance_tile": 32},
        }
        return {**tables, **changed}

    def job(self, **changed):
        return parse_job(self.tables(**changed))

    def night(self, **changed):
        return run_recorded(self.job(**changed), SilentProgress(), Command("job.toml"))

    @property
    def cube(self):
        return dshap.open_cube(self.folder / "store" / "reasons")

    def check(self, value=None):
        """The cube that is read holds tonight's table, explained as if there had been no other."""
        cube = self.cube
        by_key = self.table.set_index("id").loc[cube["id"].to_numpy()]
        assert sorted(cube["id"].to_numpy()) == sorted(self.table["id"])
        value = value or dshap.values.Trees(_booster(self.model))
        alone = dshap.explain(value, by_key[FEATURES], missing="pass")
        for name in ("attribution", "prediction", "base_value"):
            xr.testing.assert_equal(
                cube[name].reset_coords(drop=True), alone[name].reset_coords(drop=True)
            )


def _booster(path):
    booster = xgboost.Booster()
    booster.load_model(path)
    return booster


@pytest.fixture
def shop(tmp_path, model):
    return Shop(tmp_path, model)


def shown(ended, job):
    """The lines that a run prints at its end."""
    closing = closing_lines(ended.facts, ended.result.store)
    return [*job_summary(job, ended.result).lines, *closing]


def counts(result):
    """New, changed, unchanged and deleted keys of a run."""
    keys = result.facts.explanations[0].keys
    return keys.new, keys.changed, keys.unchanged, keys.deleted


def test_three_nights(shop):
    """All rows; none; those that are new or have changed, while others go."""
    first = shop.night()
    assert counts(first) == (150, 0, 0, 0)
    shop.check()
    made = current_of(shop.folder / "store" / "reasons")
    shop.put()
    second = shop.night()
    assert counts(second) == (0, 0, 150, 0)
    assert not second.facts.has_work
    assert current_of(shop.folder / "store" / "reasons") == made
    assert shown(second, shop.job()) == [
        f"nothing to do: no row is new, changed or deleted since run {made}",
        f"cube: {shop.folder}/store/reasons/{made} (reasons)",
    ]
    shop.table = pd.concat([shop.table.iloc[5:], rows_of(20, seed=1, start=1000)])
    shop.table.loc[shop.table["id"].isin([10, 11, 12]), "a"] += 1
    shop.put()
    third = shop.night()
    assert counts(third) == (20, 3, 142, 5)
    assert any(line.startswith("attributions, over 165 rows") for line in shown(third, shop.job()))
    shop.check()
    assert [run.is_over for run in runs_in_store(shop.folder / "store")] == [True] * 3


def test_rows_are_carried_from_packed_cubes(shop, monkeypatch):
    """The same three nights, each of which packs its blocks by two."""
    in_packs_of(2, monkeypatch)
    test_three_nights(shop)
    cubes = [run for run in (shop.folder / "store" / "reasons").iterdir() if run.is_dir()]
    assert [*map(is_packed, cubes)] == [True, True]


def test_the_first_nights_after_the_digests_have_changed(shop, monkeypatch):
    """Rows are compared by the kind of digests that the store has; no row is explained anew.

    The first night as an earlier version carried it out: digests of its kind, and no census.
    """
    with monkeypatch.context() as patch:
        patch.setattr(Night, "kinds_of_digests", lambda self: {"row digest"})
        patch.setattr(RowCensus, "to_dict", lambda self: {})
        shop.night()
    kinds = [("row digest",)]
    for changed in (7, 8, 9):
        shop.table.loc[shop.table["id"] == changed, "c"] += 0.25
        shop.put()
        night = shop.night()
        assert counts(night) == (0, 1, 149, 0)
        shop.check()
        run = runs_in_store(shop.folder / "store")[-1]
        kinds.append(run.digests.kinds)
    new = ("row digest 2",)
    assert kinds == [("row digest",), (*new, "row digest"), new, new]
    assert not any(verify_job_store(shop.folder / "store").values())


def test_a_night_has_one_census_which_is_taken_while_rows_are_digested(shop, monkeypatch):
    def refused(*_, **__):
        raise AssertionError("no pass over the rows")

    monkeypatch.setattr("dshap.steps.opened.take_census", refused)
    shop.night()
    shop.table.loc[shop.table["id"] == 3, "c"] += 0.25
    shop.put()
    assert counts(shop.night()) == (0, 1, 149, 0)
    shop.check()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows.parquet", "reasons.computed.npy"])
def test_a_history_that_a_power_cut_emptied_counts_as_none(shop, name):
    """All rows are explained, which a line and the record say; the night after is as ever."""
    shop.night()
    store = shop.folder / "store"
    made = current_of(store / "reasons")
    (store / "keys" / made / name).write_bytes(b"")
    shop.table.loc[shop.table["id"] < 7, "c"] = 0.25
    shop.put()
    said = Said()
    second = run_recorded(shop.job(), said, Command("job.toml"))
    assert counts(second) == (150, 0, 0, 0)
    shop.check()
    message = second.facts.explanations[0].message
    assert f"all rows are explained: the digests that run {made} left" in message
    assert [line for line in said if message in line] == [f"explanation reasons: {message}"]
    assert "all rows are explained" in second.record.read_text()
    shop.table.loc[shop.table["id"] == 9, "c"] = 0.25
    shop.put()
    assert counts(shop.night()) == (0, 1, 149, 0)


@pytest.mark.slow
def test_rows_to_learn_from_that_a_kill_left_in_part_are_kept_anew(shop, monkeypatch):
    """A first night is killed while it throws away what it learned; its rows are still whole."""

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dshap.steps.nightly_cubes.Night.cube_steps", stopped)  # once all is learned
        with pytest.raises(KeyboardInterrupt):
            shop.night()
    store = shop.folder / "store"
    (run,) = runs_in_store(store)
    kept = store / "prepared" / "rows" / run.run_id
    assert Snapshot.read(kept) == Snapshot.read(run.parts)
    (store / "prepared" / "reasons.json").unlink()
    for part in kept.glob("*.parquet"):
        part.unlink()
    shop.night()
    assert Snapshot.read(kept).n_rows == 150
    assert runs_in_store(store)[0].is_over
    shop.check()


def flip(file, at, bit=2):
    """Change one bit of a file, of which several rooms may have the name."""
    content = bytearray(file.read_bytes())
    content[at % len(content)] ^= 1 << bit
    file.unlink()
    file.write_bytes(content)


def night_after(shop, files, at, bit=2):
    """The same command after one bit was flipped: (the error or None, the lines that it said)."""
    store = shop.folder / "store"
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(shop.folder / "killed", store)
    (file,) = store.glob(files)
    flip(file, at, bit)
    said = Said()
    try:
        run_recorded(shop.job(), said, Command("job.toml"))
    except DamagedError as error:
        return str(error), said
    return None, said


@pytest.fixture
def killed(shop, monkeypatch):
    """A shop whose first night was killed once its rows are digested and its method is learned."""
    shop.table = rows_of(64, seed=0)
    shop.put()
    killed_at(monkeypatch, "dshap.steps.nightly_cubes.Night.cube_steps", shop)
    (shop.folder / "store").rename(shop.folder / "killed")
    return shop


@pytest.mark.parametrize(
    ("files", "repairs", "n_runs"),
    [
        ("parts/*/part-000000.parquet", "the same command then reads the source again", 1),
        ("parts/*/snapshot.json", "the same command then reads the source again", 1),
        ("prepared/rows/*/part-*.parquet", "then learns the method again", 2),
        ("prepared/rows/*/snapshot.json", "then learns the method again", 2),
    ],
)
def test_rows_that_were_altered_after_a_kill_are_refused(killed, files, repairs, n_runs):
    """A run that is finished from its rows reads their digests; a repair removes these rows."""
    store = killed.folder / "store"
    error, _ = night_after(killed, files, 700)
    (file,) = store.glob(files)
    assert error.startswith(
        f"{file} is damaged (its content is not what was written): dshap verify"
    )
    assert f"dshap verify {store} --repair removes" in error
    assert repairs in error
    checked = CliRunner().invoke(cli, ["verify", str(store)])
    assert checked.exit_code == 7
    assert f"{file.relative_to(store)}: is damaged" in checked.stdout
    assert CliRunner().invoke(cli, ["verify", str(store), "--repair"]).exit_code == 7
    killed.night()
    killed.check()
    assert len(runs_in_store(store)) == n_runs  # the one that was killed is finished, or dropped
    assert CliRunner().invoke(cli, ["verify", str(store)]).exit_code == 0


def test_a_run_whose_facts_were_altered_after_a_kill_is_refused(killed):
    """Its date, one digit off, was that of the run that was finished."""
    store = killed.folder / "store"
    error, _ = night_after(killed, "runs/*/run.json", -30)
    assert re.search(r"run\.json is damaged .*dshap verify .* --repair removes it", error)
    assert CliRunner().invoke(cli, ["verify", str(store), "--repair"]).exit_code == 7
    killed.night()
    killed.check()
    assert CliRunner().invoke(cli, ["verify", str(store)]).exit_code == 0


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ("keys/*/rows.parquet", "rows.parquet: its content is not what was written under this nam"),
        ("keys/*/rows.json", "rows.json: its content is not what was written under this name"),
        ("keys/*/reasons.json", "reasons.json: its content is not what was written under this nam"),
        ("keys/*/reasons.positions.npy", "the rows to carry are chosen again"),
    ],
)
def test_keys_that_were_altered_after_a_kill_are_made_again(killed, files, said):
    """They follow from the rows, which have digests of their own: a line names the file."""
    error, lines = night_after(killed, files, -9)
    assert error is None, lines
    assert any("warning" in line and said in line for line in lines), lines
    killed.check()
    assert not any(verify_job_store(killed.folder / "store").values())


def test_keys_are_counted_after_the_digests(killed, monkeypatch):
    """Rows of an earlier version without digests, one of which has got the key of another."""
    part = next((killed.folder / "killed").glob("parts/*/part-*.parquet"))
    table = pq.read_table(part)
    keys = table["id"].to_numpy().copy()
    keys[0] = keys[1]
    part.unlink()
    pq.write_table(table.set_column(0, "id", pa.array(keys)), part)
    snapshot = part.parent / "snapshot.json"
    old = {**json.loads(snapshot.read_text()), "parts": {}}
    del old["seal"]
    snapshot.write_text(json.dumps(old))
    error, lines = night_after(killed, "keys/*/rows.parquet", 200)
    (run,) = runs_in_store(killed.folder / "store")
    words = f"{run.parts}: 1 of 64 rows repeat the key of another row, and none did when the source"
    assert error.startswith(words)
    shutil.rmtree(run.parts)  # as it says
    killed.night()
    killed.check()
    assert any(
        "earlier version of dshap, without digests: only their number is" in x for x in lines
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_no_flipped_bit_changes_an_attribution(shop, monkeypatch, seed):
    """26 bits of all files of rows and keys, the second night of which was killed."""
    shop.table = rows_of(40, seed=0)
    shop.put()
    shop.night()
    shop.table.loc[shop.table["id"] % 9 == 0, "d"] = -1.5
    shop.table = shop.table[shop.table["id"] % 25 != 3]
    shop.put()
    killed_at(monkeypatch, "dshap.steps.nightly_cubes.Night.cube_steps", shop)
    root = shop.folder / "killed"
    (shop.folder / "store").rename(root)
    files = [
        file.relative_to(root)
        for room in ("parts", "keys", "prepared/rows")
        for file in sorted((root / room).rglob("*"))
        if file.is_file()
    ]
    assert len(files) == 16
    rng = random.Random(seed)
    n_refused = 0
    for number in range(26):
        file = files[(number + 10 * seed) % len(files)]
        error, said = night_after(shop, str(file), rng.randrange(10_000), rng.randrange(8))
        if error is None:
            shop.check()
        else:
            n_refused += 1
            assert str(file) in error, (file, error, said)
    assert n_refused >= 3


@pytest.mark.slow
def test_only_changed_rows_reach_the_model(shop, monkeypatch):
    """The rows that are predicted on the second night are those that changed."""
    shop.night()
    shop.table.loc[shop.table["id"] < 7, "c"] = 0.25
    shop.put()
    seen = []
    from dshap.attributors.trees import TreeForm

    plain = TreeForm.phi

    def counted(self, state, rows):
        seen.append(len(rows))
        return plain(self, state, rows)

    monkeypatch.setattr(TreeForm, "phi", counted)
    shop.night()
    assert sum(seen) == 7
    shop.check()


def deploy_another(shop):
    """Replace the model in the job's file."""
    table = rows_of(300, seed=8)
    other = xgboost.XGBRegressor(n_estimators=5, max_depth=2, seed=0)
    other.fit(table[FEATURES], predictions_of(table))
    other.save_model(shop.model)


def models_in_records(shop):
    """The SHA-256 of the model that each record names."""
    records = read_records(shop.folder / "store")
    return [each.explanation("reasons")["adapter_response"]["model"]["sha256"] for each in records]


@pytest.mark.slow
def test_another_model_explains_all_rows_anew(shop):
    shop.night()
    deploy_another(shop)
    second = shop.night()
    assert second.facts.has_work
    assert not second.facts.explanations[0].prepared["reused"]
    shop.check()


@pytest.mark.slow
def test_what_was_learned_gets_old(shop):
    """`every` is over at once with a second's age."""
    shop.night()
    again = shop.night(prepare={"every": "1s"})
    assert "[prepare] every" in again.facts.explanations[0].prepared["reason"]
    assert shop.night(prepare={"every": "30d"}).facts.explanations[0].prepared["reused"]


@pytest.mark.slow
def test_the_method_of_a_learned_background_stays(shop):
    """Values over a chosen background are those of the first night's background for ever."""
    explain = [{"name": "reasons", "value": "marginal", "background": 20}]
    shop.night(explain=explain)
    first = shop.cube
    shop.table = pd.concat([shop.table.iloc[:100], rows_of(60, seed=3, start=500)])
    shop.put()
    second = shop.night(explain=explain)
    assert second.facts.explanations[0].prepared["reused"]
    kept = shop.table["id"].iloc[:100].to_numpy()
    late = shop.cube
    at_first = pd.Index(first["id"].to_numpy()).get_indexer(kept)
    at_late = pd.Index(late["id"].to_numpy()).get_indexer(kept)
    assert np.array_equal(first["attribution"][at_first], late["attribution"][at_late])
    residual = late["attribution"].sum("feature") + late["base_value"] - late["prediction"]
    assert np.abs(residual).max() < 1e-9
    assert np.array_equal(first["base_value"], late["base_value"])


@pytest.mark.slow
def test_old_runs_go(shop):
    """`keep_runs` cubes stay, and the record of every run."""
    store = shop.folder / "store"
    for night in range(4):
        shop.table.loc[night, "a"] = 9.0
        shop.put()
        shop.night(job={"name": "churn", "store": str(store), "keep_runs": 2})
    runs = [run.run_id for run in runs_in_store(store)]
    assert len(runs) == 4
    cubes = sorted(path.name for path in (store / "reasons").iterdir() if path.is_dir())
    assert cubes == runs[-2:]
    shop.check()


def loaded(shop, table="reasons", database="shop"):
    """Lines of the sink's table: key -> (status, run)."""
    with duckdb.connect(str(shop.folder / f"{database}.duckdb"), read_only=True) as connection:
        lines = connection.execute(f"select id, status, run_id from {table}").fetchall()
    assert len(lines) == len({key for key, *_ in lines})
    return {key: (status, run) for key, status, run in lines}


@pytest.mark.slow
def test_a_sink_that_was_down_misses_nothing(shop):
    """Two nights without the sink, one of which takes keys away; then one with it."""
    sink = {"uri": f"duckdb:///{shop.folder}/shop.duckdb", "table": "reasons"}
    down = [{**sink, "uri": f"duckdb:///{shop.folder}/no/such/folder.duckdb"}]
    marks = {"strategy": "digest", "deletes": "mark"}
    shop.night(sink=[sink], incremental=marks)
    first = current_of(shop.folder / "store" / "reasons")
    for night in range(2):
        shop.table.loc[shop.table["id"] == 20 + night, "a"] = 4.0
        shop.table = shop.table[shop.table["id"] != 100 + night]
        shop.put()
        failed = shop.night(sink=down, incremental=marks)
        assert exit_status(failed.facts) == 10
        assert len(shop.cube["id"]) == len(shop.table)
    last = current_of(shop.folder / "store" / "reasons")
    caught_up = shop.night(sink=[sink], incremental=marks)
    assert exit_status(caught_up.facts) == 0
    lines = loaded(shop)
    deleted = {key for key, (status, _) in lines.items() if status == "deleted"}
    assert deleted == {100, 101}
    assert lines[100][1] == last
    assert lines[0] == ("ok", first)
    assert lines[21] == ("ok", last)
    assert {key for key, (status, _) in lines.items() if status == "ok"} == set(shop.table["id"])
    assert sum(run == first for _, run in lines.values()) == 150 - 4


@pytest.mark.slow
def test_a_check_that_blocks_the_sinks(shop):
    sink = [{"uri": f"duckdb:///{shop.folder}/shop.duckdb", "table": "reasons"}]
    check = [{"kind": "row_count", "error": 1000, "blocks_sinks": True}]
    ended = shop.night(sink=sink, check=check)
    assert exit_status(ended.facts) == 8
    assert ended.facts.sinks[0].status == "skipped"
    with duckdb.connect(str(shop.folder / "shop.duckdb")) as connection:
        tables = [name for (name,) in connection.execute("show tables").fetchall()]
    assert tables == ["customers"]
    assert exit_status(shop.night(sink=sink).facts) == 0
    assert len(loaded(shop)) == 150


@pytest.mark.slow
def test_old_runs_stay_while_a_sink_is_not_loaded(shop):
    """A sink that a check keeps waiting still learns what changed since its last load."""
    sink = [sink_of(shop)]
    job = {**shop.tables()["job"], "keep_runs": 1}
    shop.night(sink=sink, job=job)
    first = current_of(shop.folder / "store" / "reasons")
    for night in range(2):
        shop.table.loc[night, "a"] = 9.0
        shop.put()
        blocking = [{"kind": "row_count", "error": 1000, "blocks_sinks": True}]
        waiting = shop.night(sink=sink, job=job, check=blocking)
        assert waiting.facts.sinks[0].status == "skipped"
    done = shop.night(sink=sink, job=job)
    assert done.facts.sinks[0].details["since"] == first
    assert done.facts.sinks[0].rows == 2
    assert len(os.listdir(shop.folder / "store" / "keys")) == 1


def test_a_column_that_nobody_uses_stops_no_night(shop):
    """It is told once, on the terminal and in the record; a used column that goes still stops."""
    shop.night()
    shop.table["note"] = "new"
    shop.put()
    told = Said()
    ended = run_recorded(shop.job(), told, Command("job.toml"))
    assert not ended.facts.has_work
    (warning,) = [line for line in told if "contract" in line]
    assert "columns that the job does not use differ from the run before, new: 'note'" in warning
    record = read_records(shop.folder / "store")[-1].explanation("reasons")
    assert record["adapter_response"]["source"]["snapshot"]["changes"] == {"new": ["note"]}
    again = Said()
    run_recorded(shop.job(), again, Command("job.toml"))
    assert not [line for line in again if "contract" in line]
    shop.table = shop.table.rename(columns={"c": "visits"})
    shop.put()
    with pytest.raises(
        InputError, match=r"features names a column that .* lacks: unknown column 'c'"
    ):
        shop.night()


def test_a_wider_type_carries_every_row(shop):
    """An id of 32 bits that becomes one of 64, a float that becomes a double."""
    small = shop.table.astype({"id": "int32", "a": "float32"})
    shop.table = small
    shop.put()
    shop.night()
    shop.table = small.astype({"id": "int64", "a": "float64"})
    shop.put()
    assert counts(shop.night()) == (0, 0, 150, 0)
    shop.table = small
    shop.put()
    with pytest.raises(InputError, match=r"other types than in the run before, .*'id' from int64"):
        shop.night()
    source = {**shop.tables()["source"], "contract": {"types": "evolve"}}
    assert not shop.night(source=source).facts.has_work
    assert not shop.night().facts.has_work


def test_a_table_without_rows_is_refused_by_its_name(shop):
    """The night before stays."""
    shop.night()
    shop.table = shop.table.iloc[:0]
    shop.put()
    with pytest.raises(EmptyTableError, match=r"empty table: .*shop.duckdb.*, table customers; "):
        shop.night()
    assert len(shop.cube["id"]) == 150
    assert len(runs_in_store(shop.folder / "store")) == 1


def test_a_stale_source_does_nothing(shop):
    """Exit status 9 and a record; the night after goes on."""
    shop.table["loaded_at"] = pd.Timestamp("2020-01-01")
    shop.put()
    source = shop.tables()["source"]
    freshness = {"column": "loaded_at", "error_after": "48h"}
    stale = shop.night(source={**source, "freshness": freshness})
    assert exit_status(stale.facts) == 9
    assert stale.record.exists()
    assert len(runs_summary(shop.folder / "store")[1]["runs"]) == 1
    assert not (shop.folder / "store" / "parts").exists() or not os.listdir(
        shop.folder / "store" / "parts"
    )
    assert counts(shop.night()) == (150, 0, 0, 0)


@pytest.mark.slow
def test_a_refused_night_leaves_the_one_before(shop):
    """A repeated key: one line, nothing half-written, and the next night goes on."""
    shop.night()
    before = current_of(shop.folder / "store" / "reasons")
    good = shop.table
    shop.table = pd.concat([good, good.iloc[:2]])
    shop.put()
    with pytest.raises(InputError, match="key"):
        shop.night()
    assert current_of(shop.folder / "store" / "reasons") == before
    assert len(runs_in_store(shop.folder / "store")) == 1
    shop.table = good
    shop.put()
    assert not shop.night().facts.has_work


def test_a_first_night_that_is_refused_leaves_nothing(shop):
    shop.table = pd.concat([shop.table, shop.table.iloc[:2]])
    shop.put()
    with pytest.raises(InputError, match="key"):
        shop.night()
    assert not (shop.folder / "store").exists()


@pytest.mark.slow
@pytest.mark.parametrize("incremental", ["digest", "none"])
def test_a_table_of_another_shape_is_told_before_rows_are_explained(shop, incremental):
    """Exit status 2, the SQL that would mend it, and nothing half-written."""
    with duckdb.connect(str(shop.folder / "shop.duckdb")) as connection:
        connection.execute("create table reasons (id bigint, phi_a text)")
    sink = {"uri": f"duckdb:///{shop.folder}/shop.duckdb", "table": "reasons"}
    with pytest.raises(InputError, match="reasons"):
        shop.night(sink=[sink], incremental={"strategy": incremental})
    assert not (shop.folder / "store" / "reasons").exists()
    assert not runs_in_store(shop.folder / "store")


def test_a_sink_that_is_another_jobs_is_told_before_rows_are_explained(shop):
    sink = [{"uri": f"duckdb:///{shop.folder}/shop.duckdb", "table": "reasons"}]
    shop.night(sink=sink)
    other = {"name": "other", "store": str(shop.folder / "other")}
    with pytest.raises(InputError, match="churn"):
        shop.night(job=other, sink=sink)
    assert not runs_in_store(shop.folder / "other")


def test_a_refused_first_night_leaves_nothing_that_the_next_one_uses(shop):
    """Times where numbers are wanted, told once the rows are read; then another table and columns."""
    good = shop.table
    shop.table = good.assign(a=pd.Timestamp("2020-01-01"))
    shop.put()
    with pytest.raises(InputError, match="'a'"):
        shop.night()
    assert not list((shop.folder / "store" / "prepared").glob("*.json"))
    shop.table = good
    shop.put()
    assert counts(shop.night()) == (150, 0, 0, 0)
    shop.check()


def test_text_where_the_model_takes_numbers_is_refused(shop):
    """One odd cell makes a column of a CSV file text: its positions among the texts are no values."""
    file = shop.folder / "shop.csv"
    cells = ["abc", *map(str, shop.table["a"][1:])]
    shop.table.assign(a=cells).to_csv(file, index=False)
    source = {**shop.tables()["source"], "kind": "csv", "path": str(file)}
    del source["uri"], source["table"]
    with pytest.raises(InputError, match="column 'a' of the source contains text"):
        shop.night(source=source)
    shop.table.to_csv(file, index=False)
    assert counts(shop.night(source=source)) == (150, 0, 0, 0)


def test_a_model_of_other_columns_explains_all_rows_anew(shop):
    shop.night()
    table = rows_of(300, seed=8).assign(e=lambda rows: rows["a"] ** 2)
    other = xgboost.XGBRegressor(n_estimators=5, max_depth=2, seed=0)
    other.fit(table[["a", "e"]], predictions_of(table))
    other.save_model(shop.model)
    shop.table = shop.table.assign(e=shop.table["a"] ** 2)
    shop.put()
    source = {**shop.tables()["source"], "features": ["a", "e"]}
    ended = shop.night(source=source)
    assert not ended.facts.explanations[0].prepared["reused"]
    assert shop.cube["feature"].to_numpy().tolist() == ["a", "e"]


def test_stores_of_one_cube_and_of_nights_are_not_mixed(shop):
    shop.night()
    with pytest.raises(StoreMismatchError, match="a cube for each night"):
        shop.night(incremental={"strategy": "none"})
    other = {"name": "churn", "store": str(shop.folder / "other")}
    shop.night(job=other, incremental={"strategy": "none"})
    with pytest.raises(StoreMismatchError, match="one cube of each explanation"):
        shop.night(job=other)


@pytest.mark.slow
def test_rows_that_failed_are_tried_again(shop, tmp_path, monkeypatch):
    """Night after night, and no other row."""
    (tmp_path / "my_nightly_model.py").write_text(
        "import numpy as np\n"
        "def predict(rows):\n"
        "    if (rows[:, 0] > 99).any():\n"
        "        raise RuntimeError('out of range')\n"
        "    return rows[:, 0] * rows[:, 2] + rows[:, 3]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    changed = {
        "model": {"kind": "import", "function": "my_nightly_model:predict"},
        "explain": [{"name": "reasons", "value": "marginal", "background": 10}],
    }
    shop.table["b"] = 0.5
    shop.put()
    shop.night(**changed)
    shop.table.loc[shop.table["id"].isin([3, 4]), "a"] = 100.0
    shop.put()
    assert exit_status(shop.night(**changed).facts) == 5
    again = shop.night(**changed)
    assert exit_status(again.facts) == 5
    assert counts(again) == (0, 0, 150, 0)
    shop.table.loc[shop.table["id"] == 3, "a"] = 1.0
    shop.put()
    shop.night(**changed)
    cube = shop.cube
    failed = cube["id"].to_numpy()[cube["status"].to_numpy() == 3]
    assert failed.tolist() == [4]


@pytest.fixture
def moody(shop, monkeypatch):
    """A model that fails for row 7 as long as its `is_down` says so."""
    shop.table["d"] = shop.table["id"].astype(float)
    shop.put()
    (shop.folder / "my_moody_model.py").write_text(
        "is_down = True\n"
        "def predict(rows):\n"
        "    if is_down and (rows[:, 3] == 7).any():\n"
        "        raise RuntimeError('service down')\n"
        "    return rows[:, 0] * rows[:, 2] + rows[:, 3]\n"
    )
    monkeypatch.syspath_prepend(str(shop.folder))
    yield importlib.import_module("my_moody_model")
    sys.modules.pop("my_moody_model")


@pytest.mark.slow
def test_rows_that_are_tried_again_reach_the_sink_of_one_cube(shop, moody, monkeypatch):
    """Without [incremental] one cube stays: what a later run adds to it is loaded all the same, by
    the run after where that one was killed."""
    changed = {
        "model": {"kind": "import", "function": "my_moody_model:predict"},
        "explain": [{"name": "reasons", "value": "marginal", "background": 10}],
        "incremental": {"strategy": "none"},
        "sink": [sink_of(shop)],
    }
    assert exit_status(shop.night(**changed).facts) == 5
    assert loaded(shop, database="sink")[7][0] == "failed"
    moody.is_down = False
    killed_at(monkeypatch, "dshap.steps.endings.load_sink", shop, **changed)
    assert exit_status(shop.night(**changed).facts) == 0
    assert {status for status, _ in loaded(shop, database="sink").values()} == {"ok"}
    assert not shop.night(**changed).facts.has_work


@pytest.mark.slow
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_model_is_deployed_after_a_night_was_killed(shop, monkeypatch, is_whole):
    """A cube that was whole is loaded as it is; else that night is explained by the new model."""
    shop.night(sink=[sink_of(shop)])
    before = sha256_of(shop.model)
    shop.table.loc[:5, "a"] = 7.0
    shop.put()
    place = "dshap.steps.nightly_cubes.Night.cube_steps"
    if is_whole:
        place = "dshap.steps.endings.load_sink"
    killed_at(monkeypatch, place, shop, sink=[sink_of(shop)])
    deploy_another(shop)
    shop.table.loc[6:9, "a"] = 7.0
    shop.put()
    last = shop.night(sink=[sink_of(shop)])
    shop.check()
    now = sha256_of(shop.model)
    assert models_in_records(shop) == [before, before if is_whole else now, now]
    for run in runs_in_store(shop.folder / "store"):
        history = NightHistory(run, "reasons", KeyJoins(tempfile.mkdtemp))
        assert run.is_over
        assert history.method == read_run(shop.folder / "store/reasons" / run.run_id)["method"]
    assert last.facts.sinks[0].status == "success"
    assert {status for status, _ in loaded(shop, database="sink").values()} == {"ok"}


@pytest.mark.slow
@pytest.mark.parametrize("is_whole", [False, True])
def test_a_job_is_edited_after_a_night_was_killed(shop, monkeypatch, is_whole):
    """Its rows lack the column that the job takes now: unless its cube is whole and read, the night
    is dropped, and said to be."""
    (shop.folder / "my_wide_model.py").write_text(
        "def predict(rows):\n    return rows[:, 0] * rows[:, -1]\n"
    )
    monkeypatch.syspath_prepend(str(shop.folder))
    said = Said()
    monkeypatch.setattr(SilentProgress, "__call__", lambda self, event: said(event))
    source = {**shop.tables()["source"], "features": ["a", "c"]}
    changed = {
        "model": {"kind": "import", "function": "my_wide_model:predict"},
        "explain": [{"name": "reasons", "value": "marginal", "background": 10}],
    }
    place = "dshap.steps.nightly_cubes.set_current"
    if is_whole:
        place = "dshap.steps.endings.judge"
    killed_at(monkeypatch, place, shop, source=source, **changed)
    (killed,) = runs_in_store(shop.folder / "store")
    time.sleep(1.0)  # the id of a run that is dropped is free again in its second
    shop.night(source={**source, "features": ["a", "c", "d"]}, **changed)
    *earlier, run = runs_in_store(shop.folder / "store")
    ids = [each.run_id for each in (*earlier, run)]
    assert (killed.run_id in ids) == is_whole
    assert all(each.is_over for each in earlier)
    is_said = any(f"run {killed.run_id} was not finished, and [source]" in line for line in said)
    assert is_said != is_whole
    assert shop.cube["feature"].to_numpy().tolist() == ["a", "c", "d"]
    assert sorted(os.listdir(shop.folder / "store/reasons")) == [*ids, "current"]


@pytest.mark.slow
def test_another_treatment_of_nan_and_another_key_explain_all_rows(shop):
    """On nights on which no row changed: the method is the same, and the record says why."""
    shop.table["branch"] = shop.table["id"] % 3
    shop.put()
    source = shop.tables()["source"]
    shop.night(source={**source, "missing": "skip"})
    assert (shop.cube["status"] == 2).any()
    for changed, word in (({}, "missing"), ({"key": ["id", "branch"]}, "key")):
        night = shop.night(source={**source, **changed})
        told = night.facts.explanations[0].prepared
        assert f"[source] {word}: not as in run" in told["reason"]
        shop.check()
        assert not shop.night(source={**source, **changed}).facts.has_work


@pytest.mark.slow
def test_a_model_that_is_replaced_meanwhile_explains_no_row(shop, monkeypatch):
    before = sha256_of(shop.model)
    value = dshap.values.Trees(_booster(shop.model))
    plain = OpenedJob.census

    def census(self):
        deploy_another(shop)
        return plain(self)

    with monkeypatch.context() as patch:
        patch.setattr(OpenedJob, "census", census)
        shop.night()
    shop.check(value)
    shop.night()
    shop.check()
    assert models_in_records(shop) == [before, sha256_of(shop.model)]
    assert before != sha256_of(shop.model)


def sink_of(shop):
    return {"uri": f"duckdb:///{shop.folder}/sink.duckdb", "table": "reasons"}


def killed_at(monkeypatch, place, shop, **changed):
    """Carry out a night that ends, with all that it has done, where it would call a function."""

    def killed(*arguments, **options):
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(place, killed)
        shop.night(**changed)


class Killed(BaseException):
    """The end of a process, which nothing handles."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "number"),
    [
        ("parts/", 1),
        ("parts/", 3),
        ("snapshot.json", 1),
        ("keys/", 1),
        ("keys/", 4),
        ("prepared/", 2),
        ("reasons/2", 3),
        ("receipts", 2),
        ("receipts", 4),
        ("current", 1),
        ("run_results.json", 1),
    ],
)
def test_a_killed_night_is_finished(shop, place, number):
    """Killed as it opens, links or renames the n-th file of a kind; then the same command."""
    shop.night()
    shop.table.loc[shop.table["id"] % 9 == 0, "d"] = -1.5
    shop.table = shop.table[shop.table["id"] % 25 != 3]
    shop.put()
    file = shop.folder / "job.toml"
    file.write_text(to_toml(shop.tables()))
    with forked(killed_night, str(file), place, number) as process:
        process.join()
    assert process.exitcode in (-signal.SIGKILL, 0)
    shop.night()
    shop.check()
    assert all(run.is_over for run in runs_in_store(shop.folder / "store"))
    assert len(os.listdir(shop.folder / "store" / "reasons")) >= 2


def flagged(x):
    """Additive where the first column is 0; with a product of all others where it is 1."""
    x = np.asarray(x)
    return x[:, 1:].sum(axis=1) + x[:, 0] * np.prod(1 + 0.5 * x[:, 1:], axis=1)


def test_rows_unlike_those_of_the_pilot_are_counted_and_their_errors_are_checked(tmp_path):
    """In the record, the last lines and the summary; a check judges the standard errors."""
    names = [f"c{j}" for j in range(14)]
    rng = np.random.default_rng(0)

    def put(n_new):
        table = pd.DataFrame(rng.normal(size=(12, 14)), columns=names)
        table["c0"] = (np.arange(12) < n_new) * 1.0
        table.insert(0, "id", np.arange(12))
        table.to_parquet(tmp_path / "table.parquet")

    tables = {
        "job": {"name": "shop", "store": str(tmp_path / "store")},
        "source": {
            "kind": "parquet",
            "path": str(tmp_path / "table.parquet"),
            "key": ["id"],
            "features": names,
        },
        "model": {"kind": "import", "function": "tests.steps.test_nightly_cubes:flagged"},
        "explain": [{"name": "reasons", "value": "marginal", "background": "all"}],
        "design": {"kind": "kriging", "n_coalitions": 200},
        "incremental": {"strategy": "digest"},
        "check": [{"kind": "std_error", "warn": 1e-6, "error": 1e6}],
    }

    def night():
        job = parse_job(tables)
        ended = run_recorded(job, SilentProgress(), Command("job.toml"))
        return ended.facts, "\n".join(shown(ended, job))

    put(0)
    facts, _ = night()
    assert facts.explanations[0].accuracy["counted"] == {"not_served": 0}
    assert facts.checks[0].status == "pass"
    assert facts.checks[0].value < 1e-6
    put(3)
    facts, lines = night()
    assert facts.explanations[0].accuracy["counted"] == {"not_served": 3}
    assert "3 unlike the pilot's" in lines
    assert facts.checks[0].status == "warn"
    assert "the largest std_error is" in lines
    assert "warn = 1e-06 allows at most 1e-06" in lines
    newest = max(read_records(tmp_path / "store"), key=lambda each: each.run_id)
    record = newest.explanation("reasons")
    assert record["adapter_response"]["accuracy"]["counted"] == {"not_served": 3}
    importance = "\n".join(
        dshap.report.accuracy_lines(dshap.report.accuracy({"reasons": facts.explanations[0].cube}))
    )
    assert "3 rows are unlike the rows of the pilot" in importance


def test_an_idle_night_takes_over_another_dictionary(shop):
    """No row has changed: the cube that is read gets tonight's words."""
    shop.night(columns={"a": {"label": "first"}})
    ended = shop.night(columns={"a": {"label": "second"}}, card={"owner": "Ann"})
    assert counts(ended) == (0, 0, 150, 0)
    store = shop.folder / "store" / "reasons"
    assert texts_of(store).label_of("a") == "second"
    assert card_of(store) == {"owner": "Ann"}
    with pytest.raises(InputError, match=r"\[columns\]: unknown column 'aa'"):
        shop.night(columns={"aa": {"label": "third"}})
