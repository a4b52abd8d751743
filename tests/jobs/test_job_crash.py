"""SIGKILL of a job on the command line: the same command finishes it, and neither refits nor
recomputes."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.cube import open_cube
from tests.engine.test_executors import assert_same_bits
from tests.jobs.killed import run_command
from tests.processes import forked

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

JOB = """
[job]
name = "crash"
store = "{store}"
[source]
kind = "parquet"
path = "table.parquet"
key = ["id"]
target = "y"
[model]
kind = "kernel_ridge"
landmarks = 150
lengthscale = "median"
penalty = "validate"
[[explain]]
name = "interventional"
value = "kernel_interventional"
[[explain]]
name = "observational"
value = "kernel_observational"
landmarks = 120
penalty = 1e-3
[design]
kind = "kernelshap"
n_coalitions = 100
[cluster]
kind = "{cluster}"
{workers}
[run]
coalition_tile = 8
instance_tile = 64
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(1_000, 9)), columns=list("abcdefghi"))
    frame["y"] = np.sin(frame["a"]) * frame["b"] + frame["c"]
    frame["id"] = [f"row {i}" for i in range(len(frame))]
    frame.to_parquet(tmp_path / "table.parquet")
    for name, store, cluster in (
        ("killed", "killed", "none"),
        ("killed_with_its_worker", "killed", "local"),
        ("calm", "calm", "none"),
    ):
        workers = "workers = 1" if cluster == "local" else ""
        (tmp_path / f"{name}.toml").write_text(
            JOB.format(store=f"{store}.zarr", cluster=cluster, workers=workers)
        )
    return tmp_path


def run_here(job: str) -> str:
    """The same command in this process, where it starts no cluster."""
    result = CliRunner().invoke(cli, ["run", job])
    assert result.exit_code == 0, result.output
    return result.output


def kill_when(folder: Path, job: str, pattern: str, count: int) -> None:
    """Start the job, and kill its whole process group once so many files are there."""
    end = time.monotonic() + 300
    with forked(run_command, str(folder), job) as process:
        while len(list(folder.glob(f"killed.zarr/{pattern}"))) < count:
            if process.exitcode is not None or time.monotonic() > end:
                pytest.fail(f"the job never came that far; its exit status is {process.exitcode}")
            time.sleep(0.002)


def finished(folder: Path) -> dict[str, tuple[int, int]]:
    files = [
        *folder.glob("killed.zarr/**/state/*.npz"),
        *folder.glob("killed.zarr/**/receipts/*.json"),
    ]
    return {str(file): (file.stat().st_ino, file.stat().st_mtime_ns) for file in files}


def test_three_kills_and_the_same_command(folder, monkeypatch):
    """After the fit, during the moments, among the blocks: each piece is made once, the second kill
    is of a cluster too."""
    monkeypatch.chdir(folder)
    run_here("calm.toml")
    pieces: dict[str, tuple[int, int]] = {}
    moments = (
        ("killed.toml", "state/model-*", 1),
        ("killed_with_its_worker.toml", "observational/state/moments-*", 3),
        ("killed.toml", "observational/state/receipts/*", 2),
    )
    for job, pattern, count in moments:
        kill_when(folder, job, pattern, count)
        now = finished(folder)
        assert {name: now[name] for name in pieces} == pieces, pattern
        pieces = now
    output = run_here("killed.toml")
    now = finished(folder)
    assert {name: now[name] for name in pieces} == pieces
    assert "fit:" not in output
    assert "moments:" not in output
    assert "kept from before" in output
    for name in ("interventional", "observational"):
        assert_same_bits(
            open_cube(folder / "calm.zarr" / name), open_cube(folder / "killed.zarr" / name)
        )
    assert "nothing to do" in run_here("killed.toml")
    assert finished(folder) == now
