"""Stores of an earlier version of dshap: what stays, what is refused, and what is explained anew."""

from __future__ import annotations

import contextlib
import copy
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import dshap
from dshap.cli import cli
from dshap.core.errors import StoreMismatchError
from dshap.cube import read_run
from dshap.history.run_record import RunRecord, read_records
from dshap.run.versions import NUMERICS_VERSION
from tests.jobs.job_files import changed, nightly_job, small_table, write_job

MODEL = """
import os

def predict(x):
    if (x[:, 0] == 2.5).any():
        if os.environ.get("STOP"):
            raise KeyboardInterrupt
        if os.environ.get("FAIL"):
            raise RuntimeError("out of range")
    return x[:, 0] * x[:, 1] + x[:, 2]
"""
BLACK_BOX = (
    ("model", {"kind": "import", "function": "my_upgraded_model:predict"}),
    ("source.target", None),
    ("explain", [{"name": "reasons", "value": "marginal", "background": 5}]),
)
EARLIER = "dshap 0.2.0 (numerics 19)"
HERE = f"dshap {dshap.__version__} (numerics {NUMERICS_VERSION})"
STORES = Path(__file__).parent / "stores"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    small_table().to_parquet("table.parquet")
    Path("my_upgraded_model.py").write_text(MODEL)
    yield tmp_path
    sys.modules.pop("my_upgraded_model", None)


@pytest.fixture
def earlier(monkeypatch):
    """A context in which this process is an earlier version, with other numerics."""

    @contextlib.contextmanager
    def earlier() -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr("dshap.run.versions.NUMERICS_VERSION", 19)
            for module in (
                "run.versions",
                "run.identity",
                "run.learned_method",
                "history.job_store",
            ):
                patch.setattr(f"dshap.{module}.__version__", "0.2.0")
            yield

    return earlier


def run(*changes: Any, options: tuple[str, ...] = ()) -> Result:
    path = write_job(Path.cwd(), changed(*copy.deepcopy(changes)))
    sys.modules.pop("my_upgraded_model", None)
    return CliRunner().invoke(cli, ["run", str(path), *options])


def contents(store: Path) -> dict[str, bytes]:
    """Every file of a store, but those of the runs, which each command adds to."""
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in store.rglob("*")
        if path.is_file() and "runs" not in path.parts and not path.name.startswith("census-")
    }


def without_mark(files: dict[str, bytes]) -> dict[str, bytes]:
    """Without the list of what the store of a job holds, which has the census of each version."""
    return {name: content for name, content in files.items() if not name.startswith("state/")}


def last_record(store: Path) -> RunRecord:
    return read_records(store)[-1]


@pytest.mark.parametrize(
    ("changes", "name"), [(BLACK_BOX, "reasons"), ((), "observational")], ids=["given", "fitted"]
)
def test_a_finished_job_stays_finished(folder, earlier, changes, name):
    with earlier():
        assert run(*changes).exit_code == 0
    before = without_mark(contents(folder / "out.zarr"))
    again = run(*changes, options=("--skip-code", "99"))
    assert again.exit_code == 99, again.output
    first = again.stdout.splitlines()[0]
    assert first == f"nothing to do: every explanation is finished, by {EARLIER}"
    assert f"{folder}/out.zarr/{name} was finished by {EARLIER}: it stays as it is" in again.stderr
    assert without_mark(contents(folder / "out.zarr")) == before
    result = last_record(folder / "out.zarr").explanation(name)
    assert result["status"] == "no-op"
    assert result["message"] == f"finished by {EARLIER}: it stays as it is"
    for command in ("verify", "show", "status", "runs"):
        assert CliRunner().invoke(cli, [command, "out.zarr"]).exit_code == 0, command
    assert CliRunner().invoke(cli, ["plan", "job.toml"]).exit_code == 0


def test_a_finished_job_that_was_changed_is_another_job(folder, earlier):
    with earlier():
        run(*BLACK_BOX)
    before = contents(folder / "out.zarr")
    other = run(*BLACK_BOX, ("explain.0.background", 6))
    assert other.exit_code == 4
    assert (
        f"contains a different run, which {EARLIER} finished (this is {HERE}): background: 5 rows "
        in (other.stderr)
    )
    assert contents(folder / "out.zarr") == before
    added = run(*BLACK_BOX, ("explain", [{"name": "more", "value": "marginal", "background": 5}]))
    assert added.exit_code == 4
    assert f"was begun by {EARLIER} and is not finished" in added.stderr


def with_a_hot_row() -> None:
    """A row of the last block that the model stops or fails for."""
    table = small_table()
    table.loc[250, "temp"] = 2.5
    table.to_parquet("table.parquet")


@pytest.mark.parametrize("half", ["killed", "failed"])
def test_an_unfinished_job_is_left_to_the_version_that_began_it(folder, earlier, monkeypatch, half):
    name, status = {"killed": ("STOP", 130), "failed": ("FAIL", 5)}[half]
    changes = (*BLACK_BOX, ("source.features", ["temp", "hr", "hum"]))
    with_a_hot_row()
    with earlier(), monkeypatch.context() as patch:
        patch.setenv(name, "1")
        assert run(*changes).exit_code == status
    before = contents(folder / "out.zarr")
    refused = run(*changes)
    assert refused.exit_code == 4
    (line,) = [line for line in refused.stderr.splitlines() if "was begun by" in line]
    assert (
        f"was begun by {EARLIER} and is not finished, and this is {HERE}; changed since: " in line
    )
    assert "standard errors of values that are means over draws" in line
    assert "(19)" not in line[-300:]
    assert line.endswith("finish it with dshap 0.2.0, or choose another store, or remove it")
    assert without_mark(contents(folder / "out.zarr")) == without_mark(before)
    with earlier():
        assert run(*changes).exit_code == 0
    assert run(*changes).exit_code == 0


def test_a_store_of_a_later_version(folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("dshap.run.versions.NUMERICS_VERSION", 1_000)
        patch.setenv("STOP", "1")
        with_a_hot_row()
        features = ("source.features", ["temp", "hr", "hum"])
        assert run(*BLACK_BOX, features).exit_code == 130
    refused = run(*BLACK_BOX, features)
    assert refused.exit_code == 4
    assert "its numerics are those of a later version" in refused.stderr


ROWS = np.random.default_rng(0).normal(size=(40, 3))


def of_all(x):
    return x[:, 0] * x[:, 1] + x[:, 2]


def test_cubes_of_python(tmp_path, earlier, in_this_process):
    value = dshap.values.Marginal(of_all, ROWS[:5])
    with earlier():
        then = dshap.explain(value, ROWS, store=tmp_path / "a.zarr", progress=False).load()
    now = dshap.explain(value, ROWS, store=tmp_path / "a.zarr", progress=False)
    assert json.loads(now.attrs["dshap_run"])["fingerprint"]["numerics"] == 19
    np.testing.assert_array_equal(now.attribution, then.attribution)
    fresh = dshap.explain(value, ROWS, store=tmp_path / "b.zarr", progress=False)
    found = dshap.diff(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert (found.to_dict() and "differ" in str(found)) or str(found)
    dshap.report.compare({"then": now, "now": fresh})
    (tmp_path / "a.zarr" / "state" / "receipts").rename(tmp_path / "receipts")
    with pytest.raises(StoreMismatchError, match=r"was begun by dshap 0\.2\.0 \(numerics 19\) and"):
        dshap.explain(value, ROWS, store=tmp_path / "a.zarr", progress=False)


def test_prepared_states_are_those_of_one_version(tmp_path, earlier, in_this_process):
    value = dshap.values.Gaussian(of_all, ROWS, n_samples=8)
    with earlier():
        dshap.prepare(value, store=tmp_path / "states", progress=False)
    message = r"was prepared by dshap 0\.2\.0 \(numerics 19\), and this is .*: prepare into another"
    with pytest.raises(StoreMismatchError, match=message):
        dshap.open_prepared(tmp_path / "states", value)
    with pytest.raises(StoreMismatchError, match=message):
        dshap.prepare(value, store=tmp_path / "states", progress=False)


def shop_of(rows: pd.DataFrame) -> None:
    with duckdb.connect("shop.duckdb") as connection:
        connection.execute("create or replace table customers as select * from rows")


def shop_rows() -> pd.DataFrame:
    table = pd.DataFrame(np.random.default_rng(1).normal(size=(60, 3)), columns=["a", "b", "c"])
    table.insert(0, "id", np.arange(60))
    return table


@pytest.fixture
def nights(folder):
    """The job of a shop, whose nights are run one after the other."""
    shop_of(shop_rows())
    address = "duckdb:///shop.duckdb"
    text = nightly_job(
        "my_upgraded_model:predict", address, address, more="[run]\ninstance_tile = 16"
    )
    Path("job.toml").write_text(text.replace("[incremental]", "[incremental]"))

    def night(*options: str) -> Result:
        sys.modules.pop("my_upgraded_model", None)
        return CliRunner().invoke(cli, ["run", "job.toml", *options])

    return night


def in_sink(run_id: str = "") -> int:
    with duckdb.connect("shop.duckdb", read_only=True) as connection:
        where = f" where run_id = '{run_id}'" * bool(run_id)
        return connection.execute(f"select count(*) from reasons{where}").fetchone()[0]


def test_the_night_after_an_upgrade_explains_all_rows_in_the_same_store(nights, earlier):
    store = Path("build/shop").absolute()
    with earlier():
        assert nights().exit_code == 0
        assert not last_record(store).explanation("reasons")["adapter_response"]["prepared"][
            "reused"
        ]
    learned_from = next(store.glob("prepared/rows/*/part-*"))
    learned_from.unlink()  # the part of the run is the same file
    learned_from.write_bytes(b"damaged")  # no row that an earlier version learned from is read
    upgraded = nights()
    assert upgraded.exit_code == 0, upgraded.output
    said = f"was learned by {EARLIER}, and this is {HERE}; changed since: "
    assert (
        f"explanation reasons: all rows are explained by a new method: the method in {store}"
        in upgraded.stderr
    )
    assert said in upgraded.stderr
    record = last_record(store)
    prepared = record.explanation("reasons")["adapter_response"]["prepared"]
    assert said in prepared["reason"]
    assert not prepared["reused"]
    assert in_sink(record.run_id) == in_sink() == 60
    run_of = read_run(store / "reasons" / record.run_id)
    assert run_of["fingerprint"]["numerics"] == NUMERICS_VERSION
    again = nights()
    assert again.exit_code == 0
    assert "nothing to do: no row is new" in again.stdout
    for command in ("verify", "show", "status", "runs", "diff"):
        assert CliRunner().invoke(cli, [command, str(store)]).exit_code == 0, command
    changed_rows = shop_rows()
    changed_rows.loc[0, "a"] = 9.0
    shop_of(changed_rows)
    assert "1 rows to explain, 59 carried" in nights().stderr


def test_a_night_that_an_earlier_version_left_half_way_is_finished(nights, earlier, monkeypatch):
    store = Path("build/shop").absolute()
    with earlier():
        assert nights().exit_code == 0
        rows = shop_rows()
        rows["a"] += 1.0
        rows.loc[50, "a"] = 2.5
        shop_of(rows)
        with monkeypatch.context() as patch:
            patch.setenv("STOP", "1")
            assert nights().exit_code == 130
    finished = nights()
    assert finished.exit_code == 0, finished.output
    assert "was not finished: it is finished from its rows" in finished.stderr
    _, half, last = read_records(store)
    assert half.is_over
    assert last.is_over
    assert not last.about["has_work"]
    assert read_run(store / "reasons" / half.run_id)["fingerprint"]["numerics"] == NUMERICS_VERSION
    assert in_sink(half.run_id) == in_sink() == 60
    assert CliRunner().invoke(cli, ["verify", str(store)]).exit_code == 0
    cube = dshap.open_cube(store / "reasons")
    total = cube.attribution.sum("feature") + cube.base_value
    np.testing.assert_allclose(total, cube.prediction, atol=1e-9)


def test_a_shard_of_another_version_is_refused(folder, earlier):
    with earlier():
        assert run(*BLACK_BOX, options=("--only", "learn")).exit_code == 0
    shard = run(*BLACK_BOX, options=("--shard", "1/2"))
    assert shard.exit_code == 4
    assert f"was begun by {EARLIER} and is not finished" in shard.stderr


def unpacked(number: int) -> None:
    """Put what a version wrote into the working directory, in place of the model of other tests."""
    with tarfile.open(STORES / f"numerics_{number}.tar.gz") as packed:
        packed.extractall(filter="data")
    sys.modules.pop("my_upgraded_model", None)


OF_STORES = {"given": "reasons", "fitted": "interventional"}


@pytest.mark.parametrize("name", OF_STORES)
@pytest.mark.parametrize("number", [18, 19])
def test_stores_that_earlier_versions_wrote(folder, number, name):
    """By the commits before the numerics went up to 19 and 20, on tables of 24 rows."""
    unpacked(number)
    writer = f"dshap 0.2.0 (numerics {number})"
    store = folder / f"{name}.zarr"
    before = without_mark(contents(store))
    again = CliRunner().invoke(cli, ["run", f"{name}.toml", "--skip-code", "99"])
    assert again.exit_code == 99, again.output
    assert f"nothing to do: every explanation is finished, by {writer}" in again.stdout
    assert without_mark(contents(store)) == before
    for command in ("verify", "show", "status", "runs"):
        shown = CliRunner().invoke(cli, [command, str(store)])
        assert shown.exit_code == 0, shown.output
    fresh = CliRunner().invoke(cli, ["run", f"{name}.toml", "--set", "job.store=new.zarr"])
    assert fresh.exit_code == 0, fresh.output
    places = [store / OF_STORES[name], folder / "new.zarr" / OF_STORES[name]]
    compared = CliRunner().invoke(cli, ["diff", *map(str, places)])
    assert compared.exit_code == 0, compared.output
    then, now = map(dshap.open_cube, places)
    dshap.report.compare({"then": then, "now": now})
    np.testing.assert_allclose(then.attribution, now.attribution, rtol=1e-7, atol=1e-9)
    (places[0] / "state" / "receipts").rename(folder / "receipts")
    refused = CliRunner().invoke(cli, ["run", f"{name}.toml"])
    assert refused.exit_code == 4
    assert f"was begun by {writer} and is not finished" in refused.stderr


def test_nights_that_an_earlier_version_wrote(folder):
    unpacked(19)
    backfill = ["run", "nights.toml", "--as-of", "2026-01-01", "--backfill"]
    assert CliRunner().invoke(cli, backfill).exit_code == 2
    night = CliRunner().invoke(cli, ["run", "nights.toml"])
    assert night.exit_code == 0, night.output
    assert f"was learned by {EARLIER}, and this is {HERE}; changed since: " in night.stderr
    first, second = read_records(folder / "nights")
    prepared = second.explanation("reasons")["adapter_response"]["prepared"]
    assert f"was learned by {EARLIER}" in prepared["reason"]
    assert not prepared["reused"]
    for command in ("verify", "show", "status", "runs", "diff"):
        shown = CliRunner().invoke(cli, [command, "nights"])
        assert shown.exit_code == 0, shown.output
    again = CliRunner().invoke(cli, ["run", "nights.toml"])
    assert again.exit_code == 0
    assert "nothing to do: no row is new" in again.stdout
    assert first.run_id != second.run_id
