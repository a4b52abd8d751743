"""Runs in parts: learn, shards in any order and at once, finish; each file is that of a whole run."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner, Result

from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.cube import cube_paths, cube_status, states_of
from dshap.history.run_record import read_records
from dshap.run import explanation
from dshap.steps.shards import FIRST, Shard
from dshap.storage.disk_files import ORPHAN
from dshap.storage.folder import Folder
from dshap.storage.running import alone, beside_others, finishing
from dshap.storage.sealed_files import ReceiptFolder
from tests.buckets import BUCKET
from tests.cube.cubes import bytes_of
from tests.jobs.job_files import changed, nightly_job, small_table, to_toml
from tests.jobs.killed import killed_command, run_command, run_command_with
from tests.processes import forked

N_ROWS = 700
MODEL = """
import os
import time

def predict(x):
    time.sleep(float(os.environ.get("SLOW", 0)) + len(x) * float(os.environ.get("SLOW_ROW", 0)))
    if os.environ.get("HOT") and (x[:, 0] == 6.5).any():
        raise RuntimeError("sensor out of range")
    return x[:, 0] * x[:, 1] + x[:, 2]
"""
SMALL = changed(("explain.0.quality_rows", 50))
"""Two kernel value functions in seven blocks, one with MSE_v."""
PARTIAL = changed(
    ("design", {"kind": "kernelshap", "n_coalitions": 8}),
    ("run.coalition_tile", 2),
    ("run.coalition_groups", 2),
)
"""The tasks of a block share its coalitions: sums of parts lie in the store until the finish."""
CLOSED = changed(
    ("explain", [{"name": "closed", "value": "kernel_interventional", "n_background": 20}]),
    ("design", {"kind": "quadrature"}),
)
"""A closed form, which states numbers of every block."""
BLACK_BOX = changed(
    ("model", {"kind": "import", "function": "my_sharded_model:predict"}),
    ("explain", [{"name": "reasons", "value": "marginal", "background": 5}]),
    ("source.target", None),
)
NIGHT = nightly_job("my_sharded_model:predict", "duckdb:///shop.duckdb", "duckdb:///mart.duckdb")
NIGHT += "[run]\ninstance_tile = 50\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in FIRST:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "my_sharded_model.py").write_text(MODEL)
    small_table(N_ROWS).to_parquet("table.parquet")
    with duckdb.connect("shop.duckdb") as shop:
        shop.execute(
            "create table customers as select i as id, (i % 7)::double as a, (i % 5) + 0.25 as b, "
            "(i % 3) + 0.5 as c from range(240) t(i)"
        )
    yield tmp_path
    sys.modules.pop("my_sharded_model", None)


def written(job: dict | str) -> None:
    Path("job.toml").write_text(job if isinstance(job, str) else to_toml(job))


def run(*options: str) -> Result:
    result = CliRunner().invoke(cli, ["run", "job.toml", *options])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def ran(*options: str) -> Result:
    """The command, which must end well."""
    result = run(*options)
    assert result.exit_code == 0, result.output
    return result


def last_error(result: Result) -> str:
    return result.stderr.splitlines()[-1]


def store_files(store: str) -> dict[str, bytes]:
    """Every file of a store but the records of its runs, and what a killed process was writing."""
    return {
        name: content
        for name, (content, _) in bytes_of(Path(store)).items()
        if not name.startswith(("runs/", "parts/", "keys/"))
        and not ORPHAN.fullmatch(Path(name).name)
    }


def whole_run(job: dict | str, store: str = "out.zarr") -> dict[str, bytes]:
    """The files that one command leaves; the store is removed."""
    written(job)
    ran("-q")
    found = store_files(store)
    shutil.rmtree(store)
    return found


def n_receipts() -> int:
    return sum(cube_status(path).blocks_done for path in cube_paths(Path("out.zarr")))


# --- which blocks ------------------------------------------------------------------------------


@pytest.mark.parametrize("n_tiles", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 11])
def test_shards_share_all_blocks(n_tiles, count):
    """Every block belongs to one shard; sizes differ by one at most."""
    shares = [Shard(number, count).tiles(n_tiles) for number in range(1, count + 1)]
    assert [tile for share in shares for tile in share] == list(range(n_tiles))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(
    ("given", "environment", "number"),
    [
        ("3/8", {}, 3),
        ("8/8", {"SLURM_ARRAY_TASK_ID": "1"}, 8),
        ("auto/8", {"SLURM_ARRAY_TASK_ID": "1"}, 1),
        ("auto/8", {"JOB_COMPLETION_INDEX": "0"}, 1),
        ("auto/8", {"AWS_BATCH_JOB_ARRAY_INDEX": "7"}, 8),
        ("auto/8", {"SLURM_ARRAY_TASK_ID": "", "AWS_BATCH_JOB_ARRAY_INDEX": "2"}, 3),
        ("auto/8", {"SLURM_ARRAY_TASK_ID": "3", "JOB_COMPLETION_INDEX": "2"}, 3),
    ],
)
def test_the_number_of_a_shard(given, environment, number):
    assert Shard.of(given, environment) == Shard(number, 8)


@pytest.mark.parametrize(
    ("given", "environment", "said"),
    [
        ("3", {}, "give I/N"),
        ("a/8", {}, "give I/N"),
        ("-1/8", {}, "give I/N"),
        ("1/", {}, "give I/N"),
        ("0/8", {}, "--shard 0/8: shards are numbered from 1 to N, and N is 8"),
        ("9/8", {}, "numbered from 1 to N, and N is 8"),
        ("1/0", {}, "numbered from 1 to N, and N is 0"),
        (
            "auto/8",
            {},
            "none of SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX, AWS_BATCH_JOB_ARRAY_INDEX is set",
        ),
        (
            "auto/8",
            {"SLURM_ARRAY_TASK_ID": "2", "JOB_COMPLETION_INDEX": "2"},
            "SLURM_ARRAY_TASK_ID=2, JOB_COMPLETION_INDEX=2 contradict each other",
        ),
        (
            "auto/8",
            {"SLURM_ARRAY_TASK_ID": "0"},
            r"\(SLURM_ARRAY_TASK_ID=0; SLURM_ARRAY_TASK_ID begins at 1\): shards are numbered from 1 "
            "to N, and N is 8: submit with --array=1-8$",
        ),
        ("auto/2", {"JOB_COMPLETION_INDEX": "2"}, "JOB_COMPLETION_INDEX begins at 0"),
        ("auto/8", {"SLURM_ARRAY_TASK_ID": "x"}, "not the number of a task"),
    ],
)
def test_no_number_of_a_shard(given, environment, said):
    with pytest.raises(InputError, match=said):
        Shard.of(given, environment)


@pytest.mark.parametrize("part", ["begin", "finish"])
def test_a_shard_neither_begins_nor_finishes(folder, part):
    written(BLACK_BOX)
    refused = run("--only", part, "--shard", "1/2")
    assert refused.exit_code == 2
    assert "leave one of them out" in last_error(refused)
    assert run("--only", "explain").exit_code == 2


def test_a_share_of_the_learning_comes_after_the_begin(folder):
    written(SMALL)
    refused = run("--only", "learn", "--shard", "1/2")
    assert refused.exit_code == 2
    assert "run `dshap run job.toml --only begin` first" in last_error(refused)
    ran("--only", "begin", "-q")
    refused = run("--shard", "1/2")
    assert refused.exit_code == 2
    assert "run `dshap run job.toml --only learn` first" in last_error(refused)
    written(changed(("run.row_span", 40), ("explain.0.quality_rows", 50)))
    assert run("--only", "learn", "--shard", "1/2").exit_code in (2, 4)


@pytest.mark.parametrize("kind", ["small", "partial", "black box", "several sums"])
@pytest.mark.parametrize("count", [1, 3])
def test_learning_in_shares_leaves_the_files_of_one_command(folder, monkeypatch, kind, count):
    """Learned in any order, some twice; then added, explained and finished."""
    if kind == "several sums":
        monkeypatch.setattr("dshap.engine.tiles.KEPT_SUM_SECONDS", 0.0)
    job = {**JOBS, "several sums": changed(("run.row_span", 2))}[kind]
    expected = whole_run(job)
    ran("--only", "begin", "-q")
    # each step of the progress is told
    monkeypatch.setattr("dshap.engine.progress.LineProgress.__init__.__defaults__", (None, 0.0))
    for number in [*range(count, 0, -1), 1]:
        ran("--only", "learn", "--shard", f"{number}/{count}")
    made = states_of_sums()
    assert bool(made) == (kind == "several sums" and count > 1)
    ran("--only", "learn", "-q")
    assert not states_of_sums()
    again = ran("--only", "learn", "--shard", "1/2")
    assert again.stdout.splitlines() == [
        "the learning of shard 1 of 2: nothing of it is left to do",
        "next, after all shares: dshap run job.toml --only learn",
    ]
    for number in range(1, count + 1):
        ran("--shard", f"{number}/{count}", "-q")
    ran("--only", "finish", "-q")
    assert store_files("out.zarr") == expected


def states_of_sums() -> list[str]:
    """The stored sums of passes that are not over."""
    return [path.name for path in Path("out.zarr").rglob("sums-*")]


# --- the same files ------------------------------------------------------------------------------


JOBS = {"small": SMALL, "partial": PARTIAL, "black box": BLACK_BOX}
IN_THE_GATE = {("small", 1), ("black box", 2), ("partial", 4), ("small", 7)}
"""Each kind of job and each number of shards once; the others are slow tests."""


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        pytest.param(*case, marks=[] if case in IN_THE_GATE else [pytest.mark.slow])
        for case in itertools.product(JOBS, (1, 2, 4, 7))
    ],
)
def test_every_file_is_that_of_a_whole_run(folder, kind, count):
    """Shards in any order; the last one finds every block and finishes the run."""
    expected = whole_run(JOBS[kind])
    ran("--only", "learn", "-q")
    numbers = list(range(1, count + 1))
    random.Random(count).shuffle(numbers)
    for number in numbers:
        assert len(read_records(Path("out.zarr"))) == 1  # begun, and not over
        ran("--shard", f"{number}/{count}")
    assert store_files("out.zarr") == expected
    assert [each.is_over for each in read_records(Path("out.zarr"))] == [True]
    assert not Path(".out.zarr.running").exists()


def test_shards_of_different_counts(folder):
    """N is no part of the plan: a share of two and shares of three make a whole."""
    expected = whole_run(SMALL)
    ran("--only", "learn", "-q")
    for given in ("3/3", "1/2", "2/3"):
        ran("--shard", given, "-q")
    assert store_files("out.zarr") == expected


def test_each_part_twice_does_nothing_twice(folder):
    expected = whole_run(SMALL)
    for options in (["--only", "learn"], ["--shard", "2/2"], ["--shard", "1/2"]):
        ran(*options)
        before = bytes_of(Path("out.zarr/observational"))
        shown = ran(*options)
        assert bytes_of(Path("out.zarr/observational")) == before, options
    assert "blocks 0 to 2 of 7 (rows 0 to 299), 3 of them done before" in shown.stdout
    assert len(read_records(Path("out.zarr"))) == 1
    (over,) = read_records(Path("out.zarr"))
    assert f"nothing to do: run {over.run_id} is over" in ran("--only", "finish").stdout
    assert len(read_records(Path("out.zarr"))) == 1
    assert bytes_of(Path("out.zarr/observational")) == before
    assert ran("-q").stdout == ""
    assert store_files("out.zarr") == expected


def test_the_closing_line_of_a_shard_tells_its_share(folder, monkeypatch):
    """Rows, seconds and failed rows of its own blocks; the last one tells those of the run."""
    table = small_table(N_ROWS)
    table.loc[150, "hr"] = 6.5
    table.to_parquet("table.parquet")
    written(BLACK_BOX)
    ran("--only", "learn", "-q")
    monkeypatch.setenv("HOT", "1")
    closing = run("--shard", "1/2", "--log", "json").stderr.splitlines()
    told = next(line for line in map(json.loads, closing) if line["event"] == "run")
    assert told["rows"] == {"reasons": 300}
    assert told["failed"]["reasons"] >= 1
    assert told["seconds"] > 0
    monkeypatch.delenv("HOT")
    told = json.loads(ran("--shard", "1/2", "--log", "json").stderr.splitlines()[-1])
    assert told["rows"] == {"reasons": 300}
    assert told["failed"] == {"reasons": 0}
    told = json.loads(ran("--shard", "2/2", "--log", "json").stderr.splitlines()[-1])
    assert told["rows"] == {"reasons": 700}
    assert told["seconds"] > 0


def test_a_whole_run_goes_on_with_what_shards_did(folder):
    expected = whole_run(SMALL)
    ran("--only", "learn", "-q")
    ran("--shard", "2/3", "-q")
    assert "200 of 700 rows kept from before" in ran().stdout
    assert store_files("out.zarr") == expected


def test_more_shards_than_blocks(folder):
    expected = whole_run(SMALL)
    ran("--only", "learn", "-q")
    idle = [number for number in range(1, 10) if not Shard(number, 9).tiles(7)]
    assert len(idle) == 2
    for number in range(9, 0, -1):
        shown = ran("--shard", f"{number}/9")
        assert ("no block: 7 in all, which other shards have" in shown.stdout) == (number in idle)
    assert store_files("out.zarr") == expected


def test_stored_sums_stay_until_the_finish(folder):
    """Another process may be adding to them: a shard removes none."""

    def n_sums() -> int:
        states = [states_of(path) for path in cube_paths(Path("out.zarr"))]
        return sum(name.startswith("partial-") for each in states for name in each.names())

    written(PARTIAL)
    ran("--only", "learn", "-q")
    assert n_sums() == 0
    ran("--shard", "2/2", "-q")
    assert n_sums() > 0
    ran("--shard", "1/2", "-q")
    assert n_sums() == 0


def test_sums_that_are_stored_after_the_finish_are_removed(folder, monkeypatch):
    """Two processes explain the last blocks; one stores sums after the other has finished."""
    expected = whole_run(PARTIAL)
    ran("--only", "learn", "-q")
    ran("--shard", "2/2", "-q")
    evaluate = explanation.evaluate
    begun: list[bool] = []

    def overtaken(*given: Any) -> Any:
        if begun:
            return evaluate(*given)
        begun.append(True)
        ran("--shard", "1/2", "-q")  # the other process, from its first block to the finish
        late = given[1].store.folder
        assert late.put_new(f"{given[1].part_name(0, 0)}.npz", b"sums")
        return evaluate(*given)

    monkeypatch.setattr(explanation, "evaluate", overtaken)
    ran("--shard", "1/2", "-q")
    assert begun
    assert store_files("out.zarr") == expected


def test_a_closed_form_states_the_numbers_of_all_blocks(folder):
    expected = whole_run(CLOSED)
    ran("--only", "learn", "-q")
    for number in (2, 1):
        ran("--shard", f"{number}/2", "-q")
    assert store_files("out.zarr") == expected
    assert any(name.endswith("notes/closed_form.json") for name in expected)


def test_nothing_is_next_after_the_end(folder):
    """To learn again what is finished names no shard; with rows to explain it names the shards."""
    written(BLACK_BOX)
    assert "next: dshap run job.toml --shard I/N" in ran("--only", "learn").stdout
    again = ran("--only", "learn").stdout
    assert "done: all was learned before" in again
    assert "next:" in again
    ran("--shard", "1/1", "-q")
    again = ran("--only", "learn").stdout
    assert "nothing to do: every explanation is finished" in again
    assert "next:" not in again


def test_as_json(folder):
    written(SMALL)
    learned = json.loads(ran("--only", "learn", "--json", "-q").stdout)
    assert learned["part"] == "learn"
    assert set(learned["cubes"]) == {
        "interventional",
        "observational",
    }
    shard = json.loads(ran("--shard", "2/3", "--json", "-q").stdout)
    assert shard["shard"] == "shard 2 of 3"
    assert shard["run"]["exit_status"] == 0
    assert shard["explanations"]["observational"] == {
        "first_block": 2, "stop_block": 4, "blocks": 7, "first_row": 200, "stop_row": 400, "kept": 0,
    }  # fmt: skip


def test_status_while_shards_run(folder):
    written(SMALL)
    ran("--only", "learn", "-q")
    ran("--shard", "2/3", "-q")
    with beside_others(Path("out.zarr").resolve(), "shard 3 of 3"):
        shown = CliRunner().invoke(cli, ["status", "out.zarr"]).stdout.splitlines()
    assert shown[0].endswith("2 of 7 blocks done")
    assert "interventional: learning is done, shards can explain the rows" in shown
    assert shown[-2].startswith(f"shard 3 of 3 (process {os.getpid()} on ")
    assert "last sign of life 20" in shown[-2]
    assert shown[-1] == "a run is going on"
    told = json.loads(CliRunner().invoke(cli, ["status", "out.zarr", "--json"]).stdout)
    assert told["cubes"]["interventional"]["awaits_shards"]
    assert told["running"] == []


# --- many processes ------------------------------------------------------------------------------


def wait_for(processes) -> list[int]:
    for process in processes:
        process.join(120)
    return [process.exitcode for process in processes]


@pytest.mark.slow
def test_two_at_a_time_and_the_same_twice_at_once(folder):
    """Processes that write the same blocks, and others, at one time."""
    expected = whole_run(PARTIAL)
    ran("--only", "learn", "-q")
    here = (str(folder), "job.toml")
    for first, second in (("1/3", "2/3"), ("2/3", "2/3"), ("3/3", "3/3")):
        with (
            forked(run_command, *here, "-q", "--shard", first) as one,
            forked(run_command, *here, "-q", "--shard", second) as other,
        ):
            assert wait_for([one, other]) == [0, 0]
    ran("--only", "finish", "-q")
    assert store_files("out.zarr") == expected
    assert CliRunner().invoke(cli, ["verify", "out.zarr"]).exit_code == 0


@pytest.mark.slow
def test_two_shards_at_once_in_a_bucket(folder, s3):
    """Cubes and states are those of one run on a disk, byte for byte, and no lease is left."""
    expected = whole_run(SMALL)
    store = f"s3://{BUCKET}/shards/out"
    written(changed(("job.store", store), job=SMALL))
    ran("--only", "learn", "-q")
    here = (s3.environment, str(folder), "job.toml")
    with (
        forked(run_command_with, *here, "-q", "--shard", "1/2") as one,
        forked(run_command_with, *here, "-q", "--shard", "2/2") as other,
    ):
        assert wait_for([one, other]) == [0, 0]
    ran("--only", "finish", "-q")
    there = Folder(store)
    names = [name for name in there.tree() if not name.startswith(("runs/", "parts/", "keys/"))]
    assert {name: there.get(name) for name in names} == expected
    assert Folder(f"s3://{BUCKET}/shards").list() == ["out"]
    assert Folder(f"s3://{BUCKET}/shards/.out.running").list() == []
    assert CliRunner().invoke(cli, ["verify", store]).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", ["receipts/block-00000002", "attribution/c.3", "notes/additivity"]
)
def test_killed_and_run_again(folder, place):
    """SIGKILL before a receipt, at an array and in the finish; the same line does the rest."""
    expected = whole_run(SMALL)
    ran("--only", "learn", "-q")
    here = (str(folder), "job.toml")
    with forked(killed_command, *here, place, 1, "-q", "--shard", "1/1") as process:
        assert wait_for([process]) == [-9]
    shown = CliRunner().invoke(cli, ["status", "out.zarr"]).stdout
    assert shown.splitlines()[-1] == "no run is going on"
    ran("--shard", "1/1", "-q")
    assert store_files("out.zarr") == expected
    assert not Path(".out.zarr.running").exists()


@pytest.mark.slow
def test_a_shard_is_told_to_end(folder, monkeypatch):
    """SIGTERM, as queues send it before SIGKILL: 130, and no lease is left."""
    expected = whole_run(BLACK_BOX)
    ran("--only", "learn", "-q")
    monkeypatch.setenv("SLOW", "0.3")
    with forked(run_command, str(folder), "job.toml", "-q", "--shard", "1/1") as process:
        while not n_receipts():
            process.join(0.05)
        assert process.is_alive()
        process.terminate()
        assert wait_for([process]) == [130]
    monkeypatch.delenv("SLOW")
    assert 0 < n_receipts() < 7
    assert not Path(".out.zarr.running").exists()
    ran("--shard", "1/1", "-q")
    assert store_files("out.zarr") == expected


@pytest.mark.slow
@pytest.mark.parametrize("place", ["interventional/base_value", "state/model-", "learned.json"])
def test_learning_killed_and_run_again(folder, place):
    expected = whole_run(SMALL)
    here = (str(folder), "job.toml")
    with forked(killed_command, *here, place, 1, "-q", "--only", "learn") as process:
        assert wait_for([process]) == [-9]
    refused = run("--shard", "1/1")
    assert refused.exit_code == 2
    assert "`dshap run job.toml --only learn` first" in last_error(refused)
    ran("--only", "learn", "-q")
    ran("--shard", "1/1", "-q")
    assert store_files("out.zarr") == expected


@pytest.mark.slow
@pytest.mark.cluster
def test_a_shard_on_workers(folder):
    """[cluster] of the job file says where a shard runs; the files are the same."""
    expected = whole_run(SMALL)
    written(
        changed(("cluster", {"kind": "local", "workers": 1, "memory_limit": "1GiB"}), job=SMALL)
    )
    ran("--only", "learn", "-q")
    for number in (1, 2):
        ran("--shard", f"{number}/2", "-q")
    assert store_files("out.zarr") == expected


def test_what_a_killed_shard_was_writing(folder):
    """Unfinished files are removed by the finish once nobody can be writing them any more."""
    written(SMALL)
    ran("--only", "learn", "-q")
    new, old = (
        Path("out.zarr/observational", f"attribution/.c.0.0.0.{digit * 12}") for digit in "ab"
    )
    new.parent.mkdir(parents=True, exist_ok=True)
    for each in (new, old):
        each.write_text("unfinished")
    os.utime(old, (1, 1))
    ran("--shard", "1/1", "-q")
    assert new.exists()
    assert not old.exists()


# --- failures --------------------------------------------------------------------------------------


def test_failed_rows(folder, monkeypatch):
    """A shard with failed rows ends with 5, and so does the finish, as a whole run would."""
    table = small_table(N_ROWS)
    table.loc[250, "hr"] = 6.5
    table.to_parquet("table.parquet")
    written(BLACK_BOX)
    ran("--only", "learn", "-q")
    monkeypatch.setenv("HOT", "1")
    failed = run("--shard", "2/3")
    assert failed.exit_code == 5, failed.output
    assert "1 of 700 rows has no attribution" in last_error(failed)
    assert "sensor out of range" in last_error(failed)
    assert last_error(failed).endswith("run the same command again to retry")
    ran("--shard", "1/3", "-q")
    last = run("--shard", "3/3")
    assert last.exit_code == 5
    assert "1 of 700 rows has no attribution" in last_error(last)
    finish = run("--only", "finish", "-q")
    assert finish.exit_code == 5
    assert last_error(last).endswith("run `dshap run job.toml` to retry")
    assert last_error(finish).endswith("run `dshap run job.toml` to retry")
    assert [each.about["exit_status"] for each in read_records(Path("out.zarr"))] == [5, 5]
    with_failure = store_files("out.zarr")
    shutil.rmtree("out.zarr")
    monkeypatch.delenv("HOT")
    ran("--only", "learn", "-q")
    monkeypatch.setenv("HOT", "1")
    assert run("-q").exit_code == 5
    assert store_files("out.zarr") == with_failure
    monkeypatch.delenv("HOT")
    ran("--shard", "2/3", "-q")
    retried = store_files("out.zarr")
    shutil.rmtree("out.zarr")
    assert whole_run(BLACK_BOX) == retried


def test_no_finish_beside_a_shard_that_repeats_failed_rows(folder, monkeypatch):
    """A shard rewrites what the finish reads: each is refused beside the other."""
    table = small_table(N_ROWS)
    table.loc[250, "hr"] = 6.5
    table.to_parquet("table.parquet")
    written(BLACK_BOX)
    ran("--only", "learn", "-q")
    monkeypatch.setenv("HOT", "1")
    assert run("--shard", "1/2", "-q").exit_code == 5
    store = Path("out.zarr").resolve()
    with beside_others(store, "shard 1 of 2"):
        last = ran("--shard", "2/2")
        assert "run --only finish after it" in last.stderr
        finish = run("--only", "finish", "-q")
        assert finish.exit_code == 6
        assert "is locked by shard 1 of 2" in last_error(finish)
    assert not any(each.is_over for each in read_records(store))
    before = bytes_of(store)
    with finishing(store, "the finish", lambda: False):
        again = run("--shard", "1/2", "-q")
        assert again.exit_code == 6
        assert "is locked by the finish" in last_error(again)
        ran("--shard", "2/2", "-q")
    assert bytes_of(store) == before
    assert run("--only", "finish", "-q").exit_code == 5


def test_rows_that_failed_are_explained_after_the_end(folder, monkeypatch):
    """A killed shard had added them: the finish writes the notes of the blocks that are there."""
    table = small_table(N_ROWS)
    table.loc[250, "hr"] = 6.5
    table.to_parquet("table.parquet")
    expected = whole_run(BLACK_BOX)
    ran("--only", "learn", "-q")
    monkeypatch.setenv("HOT", "1")
    assert run("--shard", "1/1", "-q").exit_code == 5
    assert run("--only", "finish", "-q").exit_code == 5
    monkeypatch.delenv("HOT")
    note = Path("out.zarr/reasons/state/notes/additivity.json")
    Path("kept.json").write_bytes(note.read_bytes())
    ReceiptFolder(note.parent).remove("additivity")
    ReceiptFolder(note.parent).put("additivity", {"residual": [7.0]})
    ran("--shard", "1/1", "-q")
    assert store_files("out.zarr") == expected
    assert note.read_bytes() == Path("kept.json").read_bytes()


def test_a_check_that_failed_stays_failed(folder):
    """The finish after the end says so again, and judges nothing against the run itself."""
    job = changed(("check", [{"kind": "row_count", "error": N_ROWS + 1}]), job=BLACK_BOX)
    written(job)
    ran("--only", "learn", "-q")
    assert run("--shard", "1/1", "-q").exit_code == 8
    again = run("--only", "finish", "-q")
    assert again.exit_code == 8
    assert "is over: check row_count" in last_error(again)
    assert len(read_records(Path("out.zarr"))) == 1


@pytest.mark.parametrize("status", [8, 5])
def test_rows_read_once_that_ended_badly_stay_so(folder, monkeypatch, status):
    """A second finish of such a run ended with exit status 0."""
    job = NIGHT
    if status == 8:
        job += '[[check]]\nkind = "row_count"\nerror = 241\n'
    else:
        monkeypatch.setenv("HOT", "1")
        with duckdb.connect("shop.duckdb") as shop:
            shop.execute("update customers set a = 6.5 where id = 7")
    written(job)
    ran("--only", "learn", "-q")
    assert run("--shard", "1/1", "-q").exit_code == status
    if status == 5:  # a shard with failed rows leaves the end to the finish
        assert run("--only", "finish", "-q").exit_code == status
    (record,) = read_records(Path("build/shop"))
    for _ in range(2):
        again = run("--only", "finish", "-q")
        assert again.exit_code == status, again.output
        assert f"run {record.run_id} is over: {record.about['message']}" in last_error(again)
    assert len(read_records(Path("build/shop"))) == 1


def test_blocks_are_missing(folder):
    written(SMALL)
    ran("--only", "learn", "-q")
    ran("--shard", "2/7", "-q")
    ran("--shard", "4/7", "-q")
    unfinished = run("--only", "finish", "-q")
    assert unfinished.exit_code == 130
    assert "5 of 7 blocks of " in last_error(unfinished)
    assert (
        "block 0 (rows 0 to 99), block 2 (rows 200 to 299), blocks 4 to 6 (rows 400 to 699); "
        "run their shards again, or --shard 1/1 for all that is left, then --only finish"
        in last_error(unfinished)
    )
    assert n_receipts() == 4
    assert not any(each.is_over for each in read_records(Path("out.zarr")))
    ran("--shard", "1/1", "-q")
    assert [each.is_over for each in read_records(Path("out.zarr"))] == [True]


@pytest.mark.parametrize("options", [("--only", "learn"), ()], ids=["learn", "whole"])
def test_a_refused_command_keeps_what_shards_explain(folder, options):
    """Exit status 4 touches nothing: the learned run keeps its date and its look at the source."""
    written(BLACK_BOX)
    ran("--only", "learn", "--as-of", "2026-01-01", "-q")
    before = bytes_of(Path("out.zarr"))
    assert any(name.endswith("/run.json") for name in before)
    assert run(*options, "--set", "explain.reasons.background=6", "-q").exit_code == 4
    assert bytes_of(Path("out.zarr")) == before
    other = run("--shard", "1/2", "--as-of", "2020-01-01")
    assert other.exit_code == 2
    assert "learned with --as-of 2026-01-01" in last_error(other)
    ran("--only", "learn", "--as-of", "2026-01-02", "-q")
    assert len(read_records(Path("out.zarr"))) == 1
    ran("--shard", "1/1", "--as-of", "2026-01-02", "-q")
    assert [each.is_over for each in read_records(Path("out.zarr"))] == [True]


@pytest.mark.parametrize("options", [("--shard", "1/2"), ("--only", "finish")])
def test_before_learning(folder, options):
    for job in (SMALL, NIGHT):
        written(job)
        refused = run(*options)
        assert refused.exit_code == 2
        assert last_error(refused).endswith(
            "has not learned anything yet: run `dshap run job.toml --only learn` first"
        )
    left = {path.name for path in folder.iterdir()} - {"__pycache__"}
    assert left == {"job.toml", "my_sharded_model.py", "shop.duckdb", "table.parquet"}


@pytest.mark.parametrize("options", [("--shard", "1/2"), ("--only", "finish")])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("model.penalty", 1e-3), "model.penalty was 0.0001, now 0.001"),
        (("explain.1.landmarks", 10), "landmarks"),
        (("source.missing", "skip"), "missing was refuse, now skip"),
        (("run.instance_tile", 50), "instance_tile was 100, now 50"),
    ],
)
def test_the_job_changed_after_it_was_learned(folder, options, change, said):
    written(SMALL)
    ran("--only", "learn", "-q")
    before = bytes_of(Path("out.zarr"))
    written(changed(change, job=SMALL))
    refused = run(*options)
    assert refused.exit_code == 4, refused.output
    assert said in last_error(refused), refused.output
    assert bytes_of(Path("out.zarr")) == before


def test_the_table_changed_after_it_was_learned(folder):
    written(SMALL)
    ran("--only", "learn", "-q")
    table = small_table(N_ROWS)
    table.loc[5, "hum"] = 9.0
    table.to_parquet("table.parquet")
    refused = run("--shard", "1/2")
    assert refused.exit_code == 4
    assert "rows: " in last_error(refused)
    assert n_receipts() == 0


def test_a_table_that_was_only_touched_is_read_again(folder):
    """Another stamp and the same rows: the census is taken anew, and nothing is refused."""
    written(SMALL)
    ran("--only", "learn", "-q")
    os.utime("table.parquet")
    ran("--shard", "1/2", "-q")
    assert n_receipts() == 6


def test_a_table_without_rows(folder):
    small_table(N_ROWS)[:0].to_parquet("table.parquet")
    written(BLACK_BOX)
    for options in (["--only", "learn"], ["--shard", "1/2"], ["--only", "finish"]):
        assert "nothing to do: the table has no rows" in ran(*options).stdout
    assert not Path("out.zarr").exists()


def test_damaged_and_missing_states(folder):
    """A shard mends nothing: it names the command that does."""
    written(SMALL)
    ran("--only", "learn", "-q")
    states = states_of(Path("out.zarr/observational"))
    name = next(name for name in states.names() if name.startswith("moments"))
    file = states.folder.path / states.file(name)
    content = file.read_bytes()
    file.write_bytes(content[:-40] + bytes(40))
    refused = run("--shard", "1/2")
    assert refused.exit_code == 7
    assert "`dshap run job.toml --only learn` does" in last_error(refused)
    file.unlink()
    refused = run("--shard", "1/2")
    assert refused.exit_code == 2
    assert "lacks a learned state" in last_error(refused)
    assert last_error(refused).endswith("run `dshap run job.toml --only learn` first")
    ran("--only", "learn", "-q")
    assert file.read_bytes() == content
    ran("--shard", "1/2", "-q")


# --- who runs beside whom -----------------------------------------------------------------------


def test_a_run_and_shards_refuse_each_other(folder):
    written(SMALL)
    ran("--only", "learn", "-q")
    store = Path("out.zarr").resolve()
    with beside_others(store, "shard 1 of 2"):
        for options in ([], ["--only", "learn"]):
            refused = run(*options)
            assert refused.exit_code == 6
            assert "is locked by shard 1 of 2 (process" in last_error(refused)
        repair = CliRunner().invoke(cli, ["verify", "out.zarr", "--repair"])
        assert repair.exit_code == 6
        assert "is locked by shard 1 of 2" in last_error(repair)
        cube = CliRunner().invoke(cli, ["verify", "out.zarr/observational", "--repair"])
        assert cube.exit_code == 6
        ran("--shard", "1/2", "-q")
    with alone(store, "a run"):
        for options in (["--shard", "2/2"], ["--only", "finish"]):
            refused = run(*options)
            assert refused.exit_code == 6
            assert "is locked by a run (process" in last_error(refused)
    with beside_others(store, "another finish", finishes=True):
        for options in (["--shard", "2/2"], ["--only", "finish"]):
            refused = run(*options)
            assert refused.exit_code == 6
            assert "locked by another finish" in last_error(refused)
    assert not any(each.is_over for each in read_records(store))
    ran("--shard", "2/2", "-q")
    ran("--only", "finish", "-q")
    assert not Path(".out.zarr.running").exists()


def test_two_shards_find_every_block(folder, monkeypatch):
    """The second comes to the finish when the first is over with it: there is one record."""
    written(SMALL)
    ran("--only", "learn", "-q")

    def after_another(store, what, may_change):
        monkeypatch.setattr("dshap.jobs.store_runs.finishing", finishing)
        ran("--shard", "1/1", "-q")
        return finishing(store, what, may_change)

    monkeypatch.setattr("dshap.jobs.store_runs.finishing", after_another)
    ran("--shard", "1/1", "-q")
    assert [each.is_over for each in read_records(Path("out.zarr"))] == [True]


# --- nights ----------------------------------------------------------------------------------------


def reasons() -> list[tuple]:
    """What the sink holds, without the ids of runs."""
    with duckdb.connect("mart.duckdb", read_only=True) as mart:
        found = mart.execute("select * exclude (run_id, computed_at) from reasons order by all")
        return found.fetchall()


def change_the_shop() -> None:
    with duckdb.connect("shop.duckdb") as shop:
        shop.execute("update customers set a = a + 1 where id in (5, 6, 130)")
        shop.execute("delete from customers where id = 7")
        shop.execute("insert into customers values (900, 1.0, 2.0, 3.0)")


def cubes_of_nights() -> list[dict[str, bytes]]:
    """The arrays of each night's cube."""
    nights = sorted(Path("build/shop/reasons").glob("2*"))
    return [
        {name: content for name, (content, _) in bytes_of(night).items() if "/c." in name}
        for night in nights
    ]


def two_nights(parts: list[list[str]]) -> tuple[list, list]:
    written(NIGHT)
    tables = []
    for night in range(2):
        if night:
            change_the_shop()
            time.sleep(1.1)
        for options in parts:
            ran(*options, "-q")
        tables.append(reasons())
    return tables, cubes_of_nights()


@pytest.mark.slow
def test_nights(folder):
    """Two nights by shards load the sink and write the arrays that two whole runs do."""
    database = Path("shop.duckdb").read_bytes()
    expected = two_nights([[]])
    shutil.rmtree("build")
    Path("mart.duckdb").unlink()
    Path("shop.duckdb").write_bytes(database)
    parts = [["--only", "learn"], ["--shard", "2/3"], ["--shard", "1/3"], ["--shard", "3/3"]]
    found = two_nights(parts)
    assert found == expected
    records = read_records(Path("build/shop"))
    assert [each.about["exit_status"] for each in records] == [0, 0]
    response = records[1].explanation("reasons")["adapter_response"]
    assert response["keys"] == {
        "new": 1, "changed": 3, "unchanged": 236, "deleted": 1, "failed": 0, "damaged": 0,
    }  # fmt: skip
    assert not list(Path("build/shop/parts").glob("*/facts"))
    assert CliRunner().invoke(cli, ["verify", "build/shop"]).exit_code == 0


def test_a_night_is_finished_by_the_run_that_learned(folder):
    """The run id is that of --only learn; a part after the end does nothing, and a night without
    changes is over with --only learn."""
    written(NIGHT)
    ran("--only", "learn", "-q")
    (begun,) = read_records(Path("build/shop"))
    unfinished = run("--only", "finish", "-q")
    assert unfinished.exit_code == 130
    assert "5 of 5 blocks" in last_error(unfinished)
    ran("--shard", "1/1", "-q")
    assert [each.run_id for each in read_records(Path("build/shop"))] == [begun.run_id]
    for options in (["--shard", "1/1"], ["--only", "finish"]):
        assert f"nothing to do: run {begun.run_id} is over" in ran(*options).stdout
    assert "nothing to do: no row is new" in ran("--only", "learn").stdout
    assert "is over" in ran("--shard", "1/1").stdout
    assert [each.is_over for each in read_records(Path("build/shop"))] == [True, True]


def test_a_night_that_was_not_finished_is_learned_again(folder):
    """The rows are those of the night that began; the next one reads the source."""
    written(NIGHT)
    ran("--only", "learn", "-q")
    change_the_shop()
    again = ran("--only", "learn")
    assert "was not finished: the shards explain the rows" in again.stderr
    ran("--shard", "1/1", "-q")
    assert len(reasons()) == 240
    assert len(read_records(Path("build/shop"))) == 1
    ran("--only", "learn", "-q")
    ran("--shard", "1/1", "-q")
    assert 900 in {line[0] for line in reasons()}


def test_bad_parts_of_nights(folder):
    written(NIGHT)
    ran("--only", "learn", "-q", "--as-of", "2026-11-27")
    other_day = run("--shard", "1/2", "--as-of", "2026-11-28")
    assert other_day.exit_code == 2
    assert "was learned with --as-of 2026-11-27" in last_error(other_day)
    ran("--shard", "1/2", "-q", "--as-of", "2026-11-27")
    written(NIGHT.replace("background = 5", "background = 6"))
    other_job = run("--shard", "2/2")
    assert other_job.exit_code == 4
    assert "[[explain]] reasons of the job changed after run" in last_error(other_job)


def test_a_sink_that_is_not_loaded(folder):
    """The finish ends with 10, and again; the next night loads what is missing."""
    written(NIGHT)
    ran("--only", "learn", "-q")
    Path("mart.duckdb").mkdir()
    assert run("--shard", "1/1", "-q").exit_code == 10
    again = run("--only", "finish", "-q")
    assert again.exit_code == 10
    assert "--only learn` loads it if no row has changed" in last_error(again)
    Path("mart.duckdb").rmdir()
    ran("--only", "learn", "-q")
    assert len(reasons()) == 240


def test_rows_read_once_into_one_cube(folder):
    """Without [incremental]: rows of a query, one cube."""
    job = NIGHT.replace('[incremental]\nstrategy = "digest"\n', "")
    expected = whole_run(job, "build/shop")
    Path("mart.duckdb").unlink()
    ran("--only", "learn", "-q")
    for number in (2, 1):
        ran("--shard", f"{number}/2", "-q")
    assert store_files("build/shop") == expected
    assert len(reasons()) == 240


def test_a_promise_of_the_source_is_kept_for_the_record(folder):
    """The look at a table that is read in place happens in --only learn; the finish records it."""
    table = small_table(N_ROWS).assign(loaded_at=np.datetime64("now"))
    table.to_parquet("table.parquet")
    source = {**SMALL["source"], "freshness": {"column": "loaded_at", "error_after": "24h"}}
    written(changed(("source", source), job=SMALL))
    ran("--only", "learn", "-q")
    ran("--shard", "1/1", "-q")
    (record,) = read_records(Path("out.zarr"))
    told = record.explanation("interventional")["adapter_response"]["source"]
    assert "loaded_at" in told["snapshot"]["schema"]
    assert told["freshness"]


# --- processors and walltimes ------------------------------------------------------------------


def test_shards_on_another_processor(folder):
    """One unit in the last place of a prediction is rounding; a thousandth is another model."""
    written(BLACK_BOX)
    ran("--only", "learn", "-q")

    def predicts(words: str) -> None:
        sys.modules.pop("my_sharded_model", None)
        changed_model = MODEL.replace("return x[:, 0]", "import numpy as np\n    return " + words)
        Path("my_sharded_model.py").write_text(changed_model)

    predicts("1.001 * x[:, 0]")
    refused = run("--shard", "1/2")
    assert refused.exit_code == 4
    assert (
        "the model predicts different values than before for the same rows (by " in refused.stderr
    )
    predicts("(1 + 2 * np.finfo(float).eps) * x[:, 0]")
    shown = ran("--shard", "1/2")
    assert "the model predicts the same but for rounding: " in shown.stderr
    ran("--shard", "2/2")
    assert [each.is_over for each in read_records(Path("out.zarr"))] == [True]
    assert cube_status(Path("out.zarr/reasons")).ok == N_ROWS


def test_a_block_that_does_not_fit_the_walltime(folder, monkeypatch):
    """It ends at once with a final exit status; with more time the same shard is explained."""
    written(BLACK_BOX)
    ran("--only", "learn", "-q")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 20))
    monkeypatch.setenv("SLOW_ROW", "0.02")  # 40 predictions of a row: 80 s a block
    refused = run("--shard", "2/7")
    assert refused.exit_code == 3
    (line,) = refused.stderr.splitlines()[-1:]
    assert re.search(r"block 1 \(rows 100 to 199\) takes about \d+ s here", line)
    assert "the walltime of SLURM job 17 leaves " in line
    assert n_receipts() == 0
    monkeypatch.setenv("SLOW_ROW", "0")
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 600))
    ran("--shard", "2/7", "-q")
    assert n_receipts() == 1
