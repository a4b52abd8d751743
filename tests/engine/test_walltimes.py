"""The time that a queue gives to a task: by variables, by squeue, or by [worker] walltime."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dshap.engine.block_time import Deadline
from dshap.engine.clusters.worker import WorkerOptions
from dshap.engine.walltimes import deadline_of, seconds_of

STARTED = 1_800_000_000.0


def with_squeue(folder: Path, monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    """Let the command squeue say this."""
    program = folder / "squeue"
    program.write_text(f'#!/bin/sh\necho "$*" >> {folder}/asked\n{told}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_without_a_limit_there_is_no_deadline():
    assert deadline_of({}, WorkerOptions(), STARTED) is None
    assert deadline_of({"SLURM_JOB_ID": ""}, WorkerOptions(), STARTED) is None


def test_the_walltime_of_the_profile_counts_from_the_start():
    found = deadline_of({}, WorkerOptions(walltime="01:00:00"), STARTED)
    assert found is not None
    assert found.ends_at == STARTED + 3600
    assert found.limit == '[worker] walltime = "01:00:00"'


def test_slurm_gives_the_times_of_a_job_by_variables():
    told = {"SLURM_JOB_START_TIME": "1799999990", "SLURM_JOB_END_TIME": "1800000900"}
    found = deadline_of(told | {"SLURM_JOB_ID": "17"}, WorkerOptions(walltime="01:00:00"), STARTED)
    assert found == Deadline(1800000900.0, "the walltime of SLURM job 17", 10.0)


def test_slurm_is_asked_where_no_variable_says_it(tmp_path, monkeypatch):
    with_squeue(tmp_path, monkeypatch, "echo '2:00    1:30'")
    before = time.time()
    found = deadline_of({"SLURM_JOB_ID": "17"}, WorkerOptions(), STARTED)
    assert found is not None
    assert before + 90 <= found.ends_at <= time.time() + 90
    now = deadline_of({"SLURM_JOB_ID": "17"}, WorkerOptions(), time.time())
    assert now is not None
    assert now.earlier_s == pytest.approx(120, abs=5)
    assert (tmp_path / "asked").read_text() == 2 * "--noheader --jobs 17 --format=%M %L\n"


def test_a_task_of_an_array_is_asked_for_by_both_numbers(tmp_path, monkeypatch):
    """The last task has the number of the array, by which SLURM would list all of its tasks."""
    with_squeue(tmp_path, monkeypatch, "echo 0:05 1:30")
    task = {"SLURM_JOB_ID": "17", "SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "4"}
    found = deadline_of(task, WorkerOptions(), STARTED)
    assert found is not None
    assert found.limit == "the walltime of SLURM job 17_4"
    assert (tmp_path / "asked").read_text() == "--noheader --jobs 17_4 --format=%M %L\n"


@pytest.mark.parametrize(
    "told", ["echo 0:01 UNLIMITED", "echo", "exit 1", "echo INVALID", "echo 0:01 INVALID"]
)
def test_a_job_without_limit_has_no_deadline(tmp_path, monkeypatch, told):
    with_squeue(tmp_path, monkeypatch, told)
    assert deadline_of({"SLURM_JOB_ID": "17"}, WorkerOptions(), STARTED) is None
    of_profile = deadline_of({"SLURM_JOB_ID": "17"}, WorkerOptions(walltime="00:20:00"), STARTED)
    assert of_profile is not None
    assert of_profile.ends_at == STARTED + 1200


def test_without_the_command_there_is_no_deadline(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert deadline_of({"SLURM_JOB_ID": "17"}, WorkerOptions(), STARTED) is None


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("1-02:03:04", 93784.0),
        ("2:03:04", 7384.0),
        ("59:59", 3599.0),
        ("0:05", 5.0),
        ("UNLIMITED", None),
        ("NOT_SET", None),
        ("", None),
    ],
)
def test_times_as_slurm_writes_them(told, seconds):
    assert seconds_of(told) == seconds
