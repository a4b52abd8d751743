"""The commands of the pods, run by hand: a scheduler, a worker and a job, as the manifest has them."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.engine import make_certificates
from dshap.engine.clusters.kubernetes import BESIDE_BYTES, PER_WORKER_BYTES, service_address
from tests.engine.clusters.servers import PATIENCE_S, processes
from tests.engine.clusters.test_jobqueue import DSHAP, JOB, chunks_of
from tests.jobs.job_files import changed, small_table, write_job

WAIT_S = 30
"""The seconds that run and workers wait for each other."""
MODEL = "def predict(x):\n    return 3.0 * x[:, 0] * x[:, 1] + x[:, 2]\n"


def test_the_service_is_in_its_namespace():
    assert service_address("a", "b") == "tls://a-scheduler.b.svc:8786"


def by_hand(container: dict, files: dict[str, Path]) -> subprocess.Popen:
    """A container's command with its environment; a pod has its files where it mounts them."""
    words = [str(files.get(word, word)) for word in container["command"]]
    if words[0] == "python":
        words[0] = sys.executable
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "OPENBLAS_CORETYPE")
        if name in os.environ
    }
    given = {each["name"]: each["value"] for each in container["env"]}
    return subprocess.Popen(
        words, env={**kept, **given}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def bytes_beside_workers(pid: int) -> int:
    """The memory of the processes of a pod but for its workers, with all libraries that they share."""
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    beside = [each for each in processes if "spawn_main" not in " ".join(each.cmdline())]
    assert len(processes) - len(beside) == 1
    return sum(each.memory_info().rss for each in beside)


@pytest.mark.slow
@pytest.mark.cluster
def test_the_commands_of_the_pods(tmp_path, monkeypatch):
    """Two runs end well, the second on a scheduler made anew, as after an eviction; after both the
    worker ends by itself, with status 0: its Job is done."""
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.chdir(tmp_path)
    make_certificates("tls")
    small_table(200).to_parquet(data / "table.parquet")
    (tmp_path / "slow_model.py").write_text(MODEL)
    places = (("job.store", f"{data}/out"), ("source.path", f"{data}/table.parquet"))
    job = write_job(tmp_path, changed(*places, job=JOB))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (tmp_path / "pods.toml").write_text(
        f'[cluster]\nkind = "kubernetes"\nimage = "i"\nworkers = 1\nwait = {WAIT_S}\n'
        f'address = "tls://127.0.0.1:{port}"\n'
        f'certificates = "{tmp_path}/tls"\nvolumes = {{ "{data}" = "shared" }}\n'
        f'[worker]\nmemory = "2GiB"\nscratch = "{tmp_path}"\nenvironment = {{ PYTHONPATH = "{tmp_path}" }}\n'
    )
    shown = CliRunner().invoke(cli, ["cluster", "manifest", "pods.toml", "job.toml", "--json"])
    assert shown.exit_code == 0, shown.stderr
    _, _, run, workers = json.loads(shown.stdout)["items"]
    pod = run["spec"]["template"]["spec"]
    scheduler = pod["initContainers"][0]
    scheduler["command"][scheduler["command"].index("--port") + 1] = str(port)
    command = pod["containers"][0]
    files = {"dshap": Path(DSHAP), "/etc/dshap/jobs/job.toml": job, "pods": tmp_path / "pods.toml"}
    with processes() as started:
        worker = by_hand(workers["spec"]["template"]["spec"]["containers"][0], files)
        started.append(worker)
        for store in ("out", "again"):
            first = by_hand(scheduler, files)
            started.append(first)
            ran = by_hand(
                {**command, "command": [*command["command"], "--set", f"job.store={data}/{store}"]},
                files,
            )
            started.append(ran)
            said, _ = ran.communicate(timeout=PATIENCE_S * 3)
            assert ran.returncode == 0, said
            assert re.search(r'"event": "run"', said)
            assert worker.poll() is None
            assert bytes_beside_workers(worker.pid) <= BESIDE_BYTES + PER_WORKER_BYTES
            first.kill()
            first.wait(PATIENCE_S)
        assert worker.wait(2 * PATIENCE_S) == 0
    here = [DSHAP, "run", str(job), "-q", "--set", f"job.store={tmp_path}/here.zarr"]
    assert subprocess.run(here).returncode == 0
    alone = chunks_of(tmp_path / "here.zarr")
    assert alone
    assert chunks_of(data / "out") == alone
    assert chunks_of(data / "again") == alone
