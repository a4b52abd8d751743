"""Workers that cannot do the tasks are refused before one runs: other versions, paths not seen."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.engine import DaskExecutor, connect, local_client, make_certificates, shut_down
from dshap.engine.certificates import Certificates
from dshap.engine.clients import SENT_AWAY
from dshap.engine.clusters.inspection import (
    ended_on_purpose,
    refuse_other_versions_than,
    refuse_unseen,
    round_trip_s,
    unseen_places,
    versions_here,
    versions_of_workers,
)
from dshap.values import Marginal
from tests.buckets import BUCKET
from tests.engine.clusters.servers import (
    PATIENCE_S,
    dask,
    processes,
    running_scheduler,
    tls_arguments,
)

pytestmark = pytest.mark.cluster


def with_version(folder: Path, package: str, version: str) -> None:
    """Let a Python with this folder first on its path find another version of a package."""
    info = folder / f"{package}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")


@pytest.mark.slow
def test_all_versions_that_differ_are_named_and_no_task_runs(tmp_path):
    make_certificates(tmp_path / "tls")
    with_version(tmp_path / "other", "numpy", "1.0.1")
    with_version(tmp_path / "other", "dshap", "0.0.7")
    environment = {"PYTHONPATH": str(tmp_path / "other")}
    security = Certificates.of_folder(tmp_path / "tls").security()
    rows = np.zeros((4, 2))
    ran = tmp_path / "ran"
    here = os.getpid()

    def predict(x):
        if os.getpid() != here:
            ran.touch()
        return x[:, 0]

    with running_scheduler(tmp_path, tmp_path / "tls", environment=environment) as address:
        client = connect(address, security=security, set_as_default=False)
        try:
            with pytest.raises(InputError, match="the workers have different versions") as refused:
                dshap.explain(Marginal(predict, rows), rows, client=client, progress=False)
        finally:
            shut_down(client)
    own = versions_here()
    said = str(refused.value)
    assert f"dshap {own['dshap']} here and 0.0.7 on tls://127.0.0.1:" in said
    assert f"numpy {own['numpy']} here and 1.0.1 on tls://127.0.0.1:" in said
    assert "distributed" not in said
    assert "python" not in said
    assert not ran.exists()


def test_a_late_worker_refuses_itself():
    refuse_other_versions_than(versions_here())
    with pytest.raises(InputError, match=r"numpy 1\.0 there and .* here$"):
        refuse_other_versions_than({**versions_here(), "numpy": "1.0"})


@pytest.mark.slow
def test_a_late_worker_with_another_version_is_sent_away(tmp_path):
    """The blocks that it was given are done by the others, and none fails."""
    make_certificates(tmp_path / "tls")
    with_version(tmp_path / "other", "numpy", "1.0.1")
    security = Certificates.of_folder(tmp_path / "tls").security()
    rows = np.arange(400.0).reshape(200, 2)
    said: list[str] = []

    def predict(x):
        time.sleep(0.05)
        return x[:, 0]

    with running_scheduler(tmp_path, tmp_path / "tls") as address, processes() as started:
        client = connect(address, security=security, set_as_default=False)
        given = [address, "--nthreads", "1", "--no-dashboard"]
        given += ["--local-directory", str(tmp_path), *tls_arguments(tmp_path / "tls")]
        try:
            executor = DaskExecutor(client, say=lambda text, **facts: said.append(text))
            started.append(dask("worker", given, {"PYTHONPATH": str(tmp_path / "other")}))
            client.wait_for_workers(2, timeout=PATIENCE_S)
            executor.tell_lost(set(client.nthreads()))
            assert len(client.get_metadata(SENT_AWAY)) == 1
            assert len(client.nthreads()) == 1, (
                said,
                client.get_versions(packages=["numpy"])["workers"].keys(),
            )
            cube = dshap.explain(
                Marginal(predict, rows[:3]), rows, client=client, instance_tile=20, progress=False
            )
        finally:
            shut_down(client)
    assert [line.partition(" has ")[2] for line in said][:1] == [
        "different versions from this process: it is not used"
    ]
    assert (cube.status == 1).all()


def test_workers_that_the_cluster_ends_are_not_lost():
    """One is retired, as an adaptive cluster does; one is killed."""
    client = local_client(3, memory_limit="1GiB", set_as_default=False)
    said: list[str] = []
    try:
        client.wait_for_workers(3)
        executor = DaskExecutor(client, say=lambda text, **facts: said.append(text))
        retired, killed, _ = sorted(client.nthreads())
        client.retire_workers([retired], close_workers=True, remove=True)
        wait_until(lambda: retired not in client.nthreads())
        executor.tell_lost(set(client.nthreads()))
        assert said == []
        assert ended_on_purpose(client, {retired}) == {retired}
        pids = client.run(os.getpid, workers=[killed])
        os.kill(pids[killed], signal.SIGKILL)
        wait_until(lambda: killed not in client.nthreads())
        assert ended_on_purpose(client, {retired, killed}) == {retired}
        executor.tell_lost(set(client.nthreads()))
    finally:
        shut_down(client)
    assert len(said) == 1
    assert f"worker {killed} is lost (workers lost: 1, left: " in said[0]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_versions_and_round_trip(client):
    assert list(versions_of_workers(client).values()) == [versions_here()] * 2
    assert 0.0 < round_trip_s(client) < 10.0


def test_places_that_this_process_does_not_see(s3, tmp_path):
    """A path that is not there, and a bucket by the error of a listing."""
    seen = {"folder": str(tmp_path), "store": f"s3://{BUCKET}/not/made/yet"}
    assert unseen_places(seen) == {}
    found = unseen_places({**seen, "table": "/none/a", "rows": "s3://none-such/a"})
    assert found["table"] == ""
    assert "there is no bucket 'none-such'" in found["rows"]
    assert list(found) == ["table", "rows"]


def test_a_path_that_workers_do_not_see(client, tmp_path):
    """A run says so before its first task."""
    refuse_unseen(client, {"table": tmp_path})
    with pytest.raises(InputError, match=r"the table, /none/a, is not seen by tls://.*, tls://"):
        refuse_unseen(client, {"store": tmp_path, "table": Path("/none/a")})
    executor = DaskExecutor(client, seen={"folder of the store": Path("/none/b")})
    with pytest.raises(InputError, match="the folder of the store, /none/b, is not seen by"):
        executor.run(None, [], lambda reduction, result: None)
