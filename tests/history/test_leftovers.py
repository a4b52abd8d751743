"""What killed nights leave is removed by the next one."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

from dshap.engine import SilentProgress
from dshap.history.leftovers import clear_leftovers
from dshap.jobs import Command, run_recorded
from dshap.storage.running import alone
from dshap.warehouse.snapshot import faults_of_rows
from tests.jobs.job_files import to_toml
from tests.jobs.killed import killed_night
from tests.processes import forked
from tests.said import Said
from tests.steps.test_nightly_cubes import Shop, rows_of
from tests.steps.test_nightly_cubes import model as model  # the fixture

HEX = "0123456789ab"
RUN = "20261110T000000Z"
OTHER = "20261111T000000Z"
UNFINISHED = re.compile(r"\..*\.[0-9a-f]{12}(\.new)?|.*\.(tmp|partial)|\.2.*")
LEFT = (
    f"keys/{RUN}/.reasons.positions.npy.{HEX}",
    f"keys/{RUN}/.rows.parquet.{HEX}",
    f"runs/.reasons.made.{HEX}",
    f"prepared/.reasons.json.{HEX}",
    f"parts/{RUN}/.snapshot.json.{'0f' * 16}.tmp",
)
FOLDERS = (f"reasons/.{RUN}.{HEX}.new", f"keys/{OTHER}", f"parts/{OTHER}")
KEPT = (
    f"runs/{RUN}/run.json",
    f"keys/{RUN}/rows.parquet",
    f"parts/{RUN}/part-000000.parquet",
    f"reasons/{RUN}/zarr.json",
    f"prepared/rows/{RUN}/snapshot.json",
    "reasons/.mine/notes",
    ".DS_Store",
)


def test_only_what_no_run_uses_is_removed(tmp_path):
    for name in (*LEFT, *(f"{folder}/some/file" for folder in FOLDERS), *KEPT):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "reasons" / f".link.{HEX}.new").symlink_to(tmp_path / "reasons" / RUN)
    beside = tmp_path.with_name(f".{tmp_path.name}.{HEX}.new")
    beside.mkdir()
    assert sorted(clear_leftovers(tmp_path)) == sorted((*LEFT, *FOLDERS))
    assert not beside.exists()
    there = {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()}
    assert there == set(KEPT)
    assert clear_leftovers(tmp_path) == [] == clear_leftovers(tmp_path / "none")


def test_half_a_lease_goes_once_it_is_old(tmp_path):
    """It kept the folder of the workspace from being removed."""
    room = tmp_path / ".store.running"
    room.mkdir()
    half = room / f".run-000001.json.{HEX}"
    half.write_text("")
    with alone(tmp_path / "store", "a run"):
        assert half.exists()  # a shard may be writing it
    os.utime(half, times=(time.time() - 100, time.time() - 100))
    with alone(tmp_path / "store", "a run"):
        assert not half.exists()
    assert not room.exists()


def unfinished_in(folder):
    return sorted(each.name for each in folder.rglob("*") if UNFINISHED.fullmatch(each.name))


@pytest.mark.parametrize(
    ("place", "number"),
    [
        ("reasons.positions.npy", 2),
        pytest.param("rows.parquet", 3, marks=pytest.mark.slow),
    ],
)
def test_the_next_night_removes_what_a_killed_one_left(tmp_path, model, place, number):
    """Killed as a file gets its name; the same command then finishes the run."""
    shop = Shop(tmp_path, model)
    shop.table = rows_of(40, seed=0)
    shop.put()
    file = shop.folder / "job.toml"
    file.write_text(to_toml(shop.tables()))
    with forked(killed_night, str(file), place, number) as process:
        process.join()
    assert process.exitcode == -signal.SIGKILL
    assert unfinished_in(shop.folder / "store")
    said = Said()
    run_recorded(shop.job(), said, Command("job.toml"))
    assert not unfinished_in(shop.folder / "store")
    assert any("was left unfinished by a killed run: it is removed" in line for line in said)
    shop.check()


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 3])
def test_rows_that_were_kept_in_part_are_kept_again(tmp_path, model, number):
    """Killed between the parts that a method is learned from and the record of them."""
    shop = Shop(tmp_path, model)
    shop.table = rows_of(40, seed=0)
    shop.put()
    file = shop.folder / "job.toml"
    file.write_text(to_toml(shop.tables()))
    with forked(killed_night, str(file), "prepared/rows/2", number) as process:
        process.join()
    assert process.exitcode == -signal.SIGKILL
    run_recorded(shop.job(), SilentProgress(), Command("job.toml"))
    (kept,) = (shop.folder / "store" / "prepared" / "rows").iterdir()
    assert not list(faults_of_rows(kept))
    assert list(kept.glob("part-*.parquet"))
    shop.check()
