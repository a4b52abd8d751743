"""Queues: the options of dask-jobqueue by its own names, and SLURM for real where it is installed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dshap
from dshap.core.errors import InputError
from dshap.engine import DaskExecutor, shut_down
from dshap.engine.clusters.jobqueue import check_queue_options, queue_client, queue_options
from dshap.engine.clusters.worker import WorkerOptions
from dshap.engine.graph import Call, Reduction
from tests.engine.test_backlog import wait_a_little
from tests.jobs.job_files import changed, small_table, write_job
from tests.pages import ROOT

pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
HERE = ROOT / "cluster" / "slurm_here.sh"
DSHAP = str(Path(sys.executable).with_name("dshap"))
WORKER = WorkerOptions(memory="2GiB")
SLOW_MODEL = """
import time
def predict(x):
    time.sleep(0.15)
    return 3.0 * x[:, 0] * x[:, 1] + x[:, 2]
"""
JOB = changed(
    ("source.target", None),
    ("model", {"kind": "import", "function": "slow_model:predict"}),
    ("explain", [{"name": "marginal", "value": "marginal", "background": 4}]),
    ("run", {"instance_tile": 5}),
)


def needs_slurm() -> None:
    for program in ("slurmctld", "slurmd", "munged", "unshare"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if os.geteuid() != 0:
        pytest.skip("SLURM's daemons are started as root")


def on_slurm(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command on SLURM, in a folder of the test."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [str(HERE), *map(str, words)], cwd=folder, env=environment, capture_output=True, text=True
    )


def chunks_of(store: Path) -> dict[str, bytes]:
    """The bytes of the arrays of a job's cubes, by the names of their files."""
    return {
        path.relative_to(store).as_posix(): path.read_bytes()
        for name in ("attribution", "prediction", "status")
        for path in (store / "marginal" / name).rglob("*")
        if path.is_file() and path.name != "zarr.json"
    }


@pytest.mark.parametrize("kind", ["slurm", "pbs", "sge", "lsf"])
def test_options_are_those_of_dask_jobqueue(kind):
    """Also those of its base classes; what [worker] says is refused with its key."""
    assert {"interface", "log_directory", "job_extra_directives", "queue"} <= queue_options(kind)
    check_queue_options(kind, ["queue", "job_script_prologue", "scheduler_options"])
    with pytest.raises(
        InputError, match=r"unknown option of dask-jobqueue 'queu'; did you mean 'q"
    ):
        check_queue_options(kind, ["queu"])
    with pytest.raises(InputError, match=r"jobqueue\.cores: \[worker\] cores sets it"):
        check_queue_options(kind, ["cores"])


def test_memory_is_asked_for():
    with pytest.raises(InputError, match=r"\[worker\] memory is missing"):
        queue_client("slurm", WorkerOptions(), Path)


@pytest.mark.parametrize("kind", ["pbs", "sge", "lsf"])
def test_a_queue_whose_commands_are_not_here(kind):
    with pytest.raises(InputError, match=r"there is no command \w+ here: run dshap where jobs are"):
        queue_client(kind, WORKER, Path)


@pytest.mark.slow
@pytest.mark.cluster
def test_a_cancelled_worker_is_replaced_and_the_arrays_are_those_of_one_process(tmp_path):
    """The module beside the job is found by the workers; nothing of SLURM is left.

    Certificates of the run stand in its workspace, which others cannot read, and end with it.
    """
    needs_slurm()
    (tmp_path / "slow_model.py").write_text(SLOW_MODEL)
    small_table(200).to_parquet(tmp_path / "table.parquet")
    job = write_job(tmp_path, JOB)
    profile = ROOT / "cluster" / "slurm_here.toml"
    said = tmp_path / "said.json"
    story = [sys.executable, "-m", "tests.engine.clusters.slurm_story", str(tmp_path / "out.zarr")]
    command = [DSHAP, "run", str(job), "--cluster", str(profile), "-q"]
    done = on_slurm(*story, said, *command, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(said.read_text())
    assert found["status"] == 0
    assert len(found["before"]) == len(found["after"]) == 2
    assert found["before"][0] not in found["after"], found
    assert found["put_here"] == []
    (key,) = found["keys"]
    assert re.fullmatch(r"\.out\.zarr\.running/certificates-[0-9a-f]+-\d+/key\.pem", key)
    assert list(tmp_path.rglob("*.pem")) == []
    here = subprocess.run(
        [DSHAP, "run", str(job), "-q", "--set", f"job.store={tmp_path}/here.zarr"]
    )
    assert here.returncode == 0
    assert (dshap.open_cube(tmp_path / "out.zarr" / "marginal").status == 1).all()
    there = chunks_of(tmp_path / "out.zarr")
    assert there
    assert there == chunks_of(tmp_path / "here.zarr")
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert re.search(r"^(slurmctld|slurmd|munged) ", left, re.MULTILINE) is None


@pytest.mark.slow
@pytest.mark.cluster
def test_a_queue_that_takes_no_worker(tmp_path):
    """The words of its own command are in the line."""
    needs_slurm()
    small_table(100).to_parquet(tmp_path / "table.parquet")
    job = write_job(tmp_path, changed())
    profile = (ROOT / "cluster" / "slurm_here.toml").read_text()
    (tmp_path / "bad.toml").write_text(profile.replace('queue = "here"', 'queue = "none"'))
    command = [DSHAP, "run", str(job), "--cluster", str(tmp_path / "bad.toml"), "-q"]
    done = on_slurm(*command, folder=tmp_path)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert "the queue did not accept a worker: " in line
    assert "invalid partition name specified" in line.lower(), line


@pytest.mark.slow
@pytest.mark.cluster
def test_cancelled_shards_of_an_array_job_are_made_by_the_same_line(tmp_path):
    """Two of four are cancelled while they run; the arrays are those of one undisturbed run."""
    needs_slurm()
    (tmp_path / "slow_model.py").write_text(SLOW_MODEL)
    small_table(200).to_parquet(tmp_path / "table.parquet")
    job = write_job(tmp_path, JOB)
    script = ROOT / "tests" / "engine" / "clusters" / "slurm_array.sh"
    done = on_slurm(script, DSHAP, job, tmp_path / "out.zarr", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    first, finish, last = (int(line.rpartition(": ")[2]) for line in done.stdout.splitlines())
    assert 3 <= first < 40, done.stdout
    assert finish == 130, done.stdout
    assert last == 40, done.stdout
    whole = [DSHAP, "run", str(job), "-q", "--set", f"job.store={tmp_path}/here.zarr"]
    assert subprocess.run(whole).returncode == 0
    there = chunks_of(tmp_path / "out.zarr")
    assert there
    assert there == chunks_of(tmp_path / "here.zarr")


@pytest.mark.slow
@pytest.mark.cluster
def test_a_shard_whose_block_does_not_fit_the_walltime(tmp_path):
    """A part of a block takes more than ten minutes: each task ends at once with status 3."""
    needs_slurm()
    asleep = 'sleep(0.05 * len(x) * ("SLURM_JOB_ID" in os.environ))'
    slow_rows = "import os\n" + SLOW_MODEL.replace("sleep(0.15)", asleep)
    (tmp_path / "slow_model.py").write_text(slow_rows)
    small_table(6_000).to_parquet(tmp_path / "table.parquet")
    job = write_job(tmp_path, {**JOB, "run": {"instance_tile": 3_000}})
    assert subprocess.run([DSHAP, "run", str(job), "--only", "learn", "-q"]).returncode == 0
    shard = f"{DSHAP} run {job} --shard auto/2 -q"
    tasks = ["--array=1-2", f"--output={tmp_path}/said-%a.txt", "--wrap", shard]
    done = on_slurm("sbatch", "--wait", "--time=10", *tasks, folder=tmp_path)
    assert done.returncode == 3, done.stderr
    for number, rows in ((1, "0 to 2,999"), (2, "3,000 to 5,999")):
        (line,) = (tmp_path / f"said-{number}.txt").read_text().splitlines()
        found = re.search(r"\(rows (.*)\) takes about ([\d,]+) s here.* leaves (\d+) s", line)
        assert found is not None, line
        assert found[1] == rows, line
        assert "the walltime of SLURM job " in line
        seconds, left = (int(text.replace(",", "")) for text in found.groups()[1:])
        assert seconds > 600 >= left
    assert not list((tmp_path / "out.zarr").rglob("receipts/*.json"))


FAKE = {
    "sbatch": """#!/bin/sh
cp "$1" "$JOBS.script"
setsid bash "$JOBS.script" >>"$JOBS.log" 2>&1 &
echo $! >> "$JOBS"
echo "Submitted batch job $!"
""",
    "scancel": """#!/bin/sh
for job in "$@"; do kill -TERM -- "-$job" 2>/dev/null; done
exit 0
""",
}
"""A queue of this machine that runs every job at once, in a process group of its own."""


@pytest.mark.slow
@pytest.mark.cluster
def test_jobs_that_follow_the_tasks(tmp_path, monkeypatch):
    """The queue has no job at first; one that is cancelled is replaced, and none is left."""
    for name, text in FAKE.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    jobs = tmp_path / "jobs"
    jobs.touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("JOBS", str(jobs))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    folder = tmp_path / "certificates"
    client = queue_client("slurm", WORKER, lambda: folder, jobqueue={"interface": "lo"}, maximum=2)
    try:
        assert not client.nthreads()
        assert jobs.read_text() == ""
        executor = DaskExecutor(client, wait_s=60)
        done = []

        def count(reduction, result):
            done.append(len(client.nthreads()))
            if len(done) == 3:
                first = int(jobs.read_text().split()[0])
                os.killpg(first, signal.SIGKILL)

        reductions = [Reduction(str(number), (), Call(wait_a_little, ())) for number in range(100)]
        executor.run(None, reductions, count)
        assert len(done) == 100
        assert max(done) == 2
        assert len(jobs.read_text().split()) >= 3
    finally:
        shut_down(client)
        for group in jobs.read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(group), signal.SIGKILL)
