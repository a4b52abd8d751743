"""Workers by SSH, on two hosts that are there for the test."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import ClassVar

import psutil
import pytest
from distributed.deploy.spec import ProcessInterface

from dshap.core.errors import InputError
from dshap.engine import make_certificates, shut_down
from dshap.engine.clusters.ssh import check_connect_options, host_options, ssh_client
from dshap.engine.clusters.worker import WorkerOptions
from tests.engine.clusters.ssh_hosts import Hosts, two_hosts
from tests.engine.clusters.test_jobqueue import DSHAP, JOB, chunks_of
from tests.jobs.job_files import small_table, write_job

pytest.importorskip("asyncssh", reason="asyncssh is not installed")
MODEL = "def predict(x):\n    return 3.0 * x[:, 0] * x[:, 1] + x[:, 2]\n"


def profile_of(folder: Path, hosts: Hosts) -> Path:
    path = folder / "hosts.toml"
    path.write_text(
        f"""
[cluster]
kind = "ssh"
hosts = {list(hosts.names)}
host = "127.0.0.1"
certificates = "tls"
[cluster.connect]
client_keys = "{hosts.client_key}"
known_hosts = "{hosts.known_hosts}"
[worker]
memory = "2GiB"
environment = {{ PLACE = "it's there" }}
"""
    )
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("node1", ("node1", {})),
        ("me@node1:2222", ("node1", {"username": "me", "port": 2222})),
        ("node1:22", ("node1", {"port": 22})),
    ],
)
def test_hosts(text, found):
    assert host_options(text) == found


def test_options_are_those_of_asyncssh():
    check_connect_options({"client_keys": "a", "known_hosts": "b"})
    with pytest.raises(InputError, match=r"unknown option of asyncssh 'client_key'; did you mean"):
        check_connect_options({"client_key": "a"})
    with pytest.raises(
        InputError, match=r"connect\.password would be readable in the file: use a key"
    ):
        check_connect_options({"password": "secret"})


def workers_left(folder: Path) -> list[str]:
    """Processes of workers whose certificates are in a folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or [])
        if "dask_spec" in words and process.pid != os.getpid():
            found.append(words)
    return found


@pytest.mark.slow
@pytest.mark.cluster
def test_a_job_on_two_hosts(tmp_path):
    """A worker on each; the arrays are those of one process, and no worker is left."""
    (tmp_path / "slow_model.py").write_text(MODEL)
    small_table(200).to_parquet(tmp_path / "table.parquet")
    job = write_job(tmp_path, JOB)
    make_certificates(tmp_path / "tls")
    before = workers_left(tmp_path)
    with two_hosts(tmp_path) as hosts:
        profile = profile_of(tmp_path, hosts)
        command = [DSHAP, "run", str(job), "--cluster", str(profile), "-q"]
        quiet = os.environ | {"DASK_LOGGING__DISTRIBUTED": "error"}  # a user may have it so
        done = subprocess.run(command, capture_output=True, text=True, env=quiet, timeout=240)
        assert done.returncode == 0, done.stderr
        end = time.monotonic() + 45
        while workers_left(tmp_path) != before and time.monotonic() < end:
            time.sleep(0.2)
        assert workers_left(tmp_path) == before
        foreign = str(profile).replace("hosts.toml", "wrong.toml")
        Path(foreign).write_text(profile.read_text().replace('known_hosts"', 'host_key.pub"'))
        refused = subprocess.run(
            [DSHAP, "cluster", "check", foreign], capture_output=True, text=True
        )
    assert refused.returncode == 2
    assert "no worker starts on " in refused.stderr
    here = [DSHAP, "run", str(job), "-q", "--set", f"job.store={tmp_path}/here.zarr"]
    assert subprocess.run(here).returncode == 0
    there = chunks_of(tmp_path / "out.zarr")
    assert there
    assert there == chunks_of(tmp_path / "here.zarr")


def test_a_host_that_does_not_answer(tmp_path):
    make_certificates(tmp_path / "tls")
    with pytest.raises(InputError, match=r"no worker starts on 127\.0\.0\.1:1 by SSH: "):
        ssh_client(WorkerOptions(), ["127.0.0.1:1"], str(tmp_path / "tls"), host="127.0.0.1")


class OnHost(ProcessInterface):
    """A worker on a host, by its name: it starts nothing, and some do not answer."""

    closed: ClassVar[list[str]] = []

    def __init__(self, scheduler, address, connect_options, kwargs, remote_python, name):
        super().__init__()
        self.host = address
        self.connect_options = connect_options

    async def start(self):
        if self.host.startswith("dead"):
            raise OSError(f"{self.host} does not answer")
        await super().start()

    async def close(self):
        self.closed.append(self.host)
        await super().close()


def test_hosts_that_are_dead_are_named_and_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr("distributed.deploy.ssh.Worker", OnHost)
    monkeypatch.setattr(OnHost, "closed", [])
    make_certificates(tmp_path / "tls")
    said = []
    hosts = ["dead1", "me@node1:2222", "dead2", "node2"]
    given = {"host": "127.0.0.1", "say": said.append}
    client = ssh_client(WorkerOptions(), hosts, str(tmp_path / "tls"), **given)
    try:
        assert list(client.cluster.workers) == ["me@node1:2222", "node2"]
        assert said == [
            f"no worker starts on {host} by SSH (OSError: {host} does not answer): the run goes on "
            "with 2 of 4 hosts"
            for host in ("dead1", "dead2")
        ]
        started = client.cluster.workers["me@node1:2222"]
        assert started.connect_options == {"connect_timeout": 30, "username": "me", "port": 2222}
        assert OnHost.closed == ["dead1", "dead2"]
    finally:
        shut_down(client)
    assert sorted(OnHost.closed) == ["dead1", "dead2", "node1", "node2"]


def test_all_hosts_are_dead(tmp_path, monkeypatch):
    monkeypatch.setattr("distributed.deploy.ssh.Worker", OnHost)
    make_certificates(tmp_path / "tls")
    with pytest.raises(
        InputError, match=r"no worker starts on dead1, dead2 by SSH: OSError: dead1"
    ):
        ssh_client(WorkerOptions(), ["dead1", "dead2"], str(tmp_path / "tls"), host="127.0.0.1")
