"""`--log json` is JSON alone, each line with a level: of runs, of errors in options, of a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.job_files import JOB, changed, small_table, write_job

LEVELS = {"debug", "info", "warning", "error"}


def lines_of(folder, *arguments):
    """The lines on standard error of a command, each as JSON."""
    command = [sys.executable, "-m", "dshap", "run", *arguments]
    root = str(Path(__file__).parents[1])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, env=environment
    )
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert all(set(each) >= {"time", "level", "event"} for each in found)
    assert {each["level"] for each in found} <= LEVELS
    return done.returncode, found


@pytest.fixture
def job(tmp_path):
    small_table().to_parquet(tmp_path / "table.parquet")
    write_job(tmp_path, changed(("explain", JOB["explain"][:1])))
    return tmp_path


def test_a_run(job):
    status, lines = lines_of(job, "job.toml", "--log", "json", "-v")
    assert status == 0
    assert lines[0]["event"] == "started"
    assert {each["level"] for each in lines} <= {"info", "debug"}
    assert lines[-1]["event"] == "run"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("job.toml", "--log", "json", "--rowz"), "unknown option '--rowz'"),
        (("--log=json",), "missing argument 'JOB.toml'"),
        (("none.toml", "--log", "json"), "No such file"),
        (("job.toml", "--log", "json", "--metrics", "x.txt"), "end in .prom"),
    ],
)
def test_errors(job, arguments, said):
    status, lines = lines_of(job, *arguments)
    assert status == 2
    assert (lines[-1]["level"], lines[-1]["exit_status"]) == ("error", 2)
    assert said in lines[-1]["message"]


@pytest.mark.slow
@pytest.mark.cluster
def test_a_cluster(job):
    """Schedulers and workers have logs of their own."""
    status, lines = lines_of(job, "job.toml", "--log", "json", "-v", "--cluster", "local")
    assert status == 0
    assert lines[-1]["event"] == "run"
