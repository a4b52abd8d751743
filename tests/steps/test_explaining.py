"""The blocks of an explanation are packed at the end of a run, and unpacked where some are left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.cube import cube_status, is_packed, packing, verify_store
from dshap.storage.running import beside_others
from tests.cube.cubes import bytes_of
from tests.cube.test_packing import damage, in_packs_of
from tests.jobs.job_files import changed, small_table, write_job

MODEL = """
from pathlib import Path
import numpy as np

def linear(x):
    if Path("broken").exists() and (x[:, 1] > 90).any():
        raise RuntimeError("sensor out of range")
    return x @ np.arange(1.0, x.shape[1] + 1)
"""
JOB = (
    ("model", {"kind": "import", "function": "my_packed_models:linear"}),
    ("source.target", None),
    ("explain", [{"name": "reasons", "value": "marginal", "background": 5}]),
    ("run.instance_tile", 32),
)
CUBE = Path("out.zarr/reasons")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    table = small_table()
    table.loc[100:102, "temp"] = 99.0
    table.to_parquet("table.parquet")
    Path("my_packed_models.py").write_text(MODEL)
    in_packs_of(4, monkeypatch)
    yield tmp_path
    sys.modules.pop("my_packed_models", None)


def run(*options):
    path = write_job(Path(), changed(*JOB))
    return CliRunner().invoke(cli, ["run", str(path), *options])


def values():
    return {name: content for name, (content, _) in bytes_of(CUBE).items() if "/c/" in name}


def test_a_second_run_has_nothing_to_do(folder):
    first = run()
    assert first.exit_code == 0
    assert f"{CUBE}: 10 blocks are packed into fewer files" in first.output
    assert is_packed(CUBE)
    before = bytes_of(CUBE)
    again = run()
    assert (again.exit_code, "are packed" in again.output) == (0, False)
    assert bytes_of(CUBE) == before


def test_rows_that_failed_are_tried_again(folder):
    Path("broken").touch()
    assert run().exit_code == 5
    assert is_packed(CUBE)
    assert cube_status(CUBE).failed == 3
    Path("broken").unlink()
    assert run().exit_code == 0
    assert is_packed(CUBE)
    assert cube_status(CUBE).ok == 300
    assert verify_store(Path("out.zarr")) == {"out.zarr": [], "reasons": []}


def test_shards_of_a_packed_cube_that_lost_a_file(folder):
    """A shard cannot unpack beside others, and says who can."""
    assert run().exit_code == 0
    before = values()
    damage(CUBE / "attribution/c/1/0/0", "cut")
    shard = run("--shard", "1/2")
    assert shard.exit_code == 2
    assert f"{CUBE} is packed, and blocks of it are left: run `dshap run" in shard.output
    assert "--only learn` first" in shard.output
    for options in (("--only", "learn"), ("--shard", "1/2"), ("--shard", "2/2")):
        assert run(*options).exit_code == 0
    assert run("--only", "finish").exit_code == 0
    assert values() == before


def test_one_process_packs_at_a_time(folder, monkeypatch):
    """Shards explain; while one process finishes, another one is told so, and waits for nobody."""
    monkeypatch.setattr(packing, "LEAST_BLOCKS", 1_000)
    assert run().exit_code == 0
    monkeypatch.setattr(packing, "LEAST_BLOCKS", 2)
    before = bytes_of(CUBE)
    with beside_others(Path("out.zarr").absolute(), "--only finish", finishes=True):
        for options in ([], ["--only", "finish"]):
            refused = subprocess.run(
                [sys.executable, "-m", "dshap", "run", "job.toml", *options],
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert refused.returncode == 6
            assert "out.zarr is locked by --only finish" in refused.stderr
            assert "wait for it" in refused.stderr
    assert bytes_of(CUBE) == before
    assert run("--only", "finish").exit_code == 0
    assert is_packed(CUBE)
