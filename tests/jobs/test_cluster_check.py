"""`dshap cluster check`: what one worker has and sees, and what a run would be refused for."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import dask
import pytest
from click.testing import CliRunner, Result

from dshap.cli import cli
from dshap.core.processors import processor
from dshap.engine import make_certificates
from dshap.engine.clusters.inspection import versions_here
from dshap.jobs.cluster_check import ClusterCheck
from tests.buckets import BUCKET
from tests.engine.clusters.servers import running_scheduler
from tests.engine.clusters.test_inspection import with_version
from tests.jobs.job_files import changed, small_table, write_job

pytestmark = pytest.mark.cluster


def dshap_(*words: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, words)))


@pytest.fixture
def places(tmp_path, monkeypatch) -> dict[str, Path]:
    """A folder of jobs, and one of certificates and scratch beside it."""
    places = {name: tmp_path / name for name in ("jobs", "site")}
    for place in places.values():
        place.mkdir()
    small_table().to_parquet(places["jobs"] / "table.parquet")
    write_job(places["jobs"], changed())
    make_certificates(places["site"] / "tls")
    monkeypatch.chdir(places["jobs"])
    return places


def profile_of(places: dict[str, Path], address: str) -> Path:
    path = places["site"] / "there.toml"
    path.write_text(f'[cluster]\nkind = "scheduler"\naddress = "{address}"\ncertificates = "tls"\n')
    return path


@pytest.mark.slow
def test_a_worker_of_this_machine(places):
    done = dshap_("cluster", "check", "local", "--job", "job.toml", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["n_workers"] == 1
    assert found["seen"] == {
        "folder of the store": True,
        "table": True,
    }
    assert found["versions_here"] == found["versions_there"] == versions_here()
    assert {path.name for path in Path().iterdir()} == {"job.toml", "table.parquet"}


@pytest.mark.slow
def test_the_processor_of_the_worker_is_told(places):
    """Other kernels of the linear algebra round otherwise, as another processor does; no fault."""
    environment = {"OPENBLAS_CORETYPE": "Nehalem"}
    write_job(Path(), changed(("worker", {"environment": environment})))
    with dask.config.set(
        {"distributed.worker.multiprocessing-method": "spawn"}
    ):  # as outside tests
        done = dshap_("cluster", "check", "local", "--job", "job.toml")
    assert done.exit_code == 0, done.stderr
    if "openblas" not in processor() or "openblas Nehalem" in processor():
        pytest.skip("NumPy has another BLAS here, or these kernels")
    assert f"processor here: {processor()}\n" in done.stdout
    assert re.search("processor of the worker: .*openblas Nehalem\n", done.stdout)
    assert "the processors differ: the last digits of values may differ" in done.stdout


@pytest.mark.parametrize(
    ("there", "lines"),
    [
        ("Old 1", ["processor, on both sides: Old 1"]),
        (
            "New 2",
            [
                "processor here: Old 1",
                "processor of the worker: New 2",
                "  the processors differ: the last digits of values may differ",
            ],
        ),
        ("", ["processor here: Old 1", "processor of the worker: not asked"]),
    ],
)
def test_the_lines_on_processors(there, lines):
    found = ClusterCheck(
        profile="p",
        kind="ssh",
        address="tls://a:1",
        n_workers=1,
        threads=1,
        memory_limit=None,
        start_s=1.0,
        round_trip_s=0.001,
        versions_here={"dshap": "1"},
        versions_there={"dshap": "1"},
        processor_here="Old 1",
        processor_there=there,
        seen={},
        unseen={},
        lifetime_s=None,
    )
    assert str(found).splitlines()[-len(lines) :] == lines
    assert found.to_dict()["processor_there"] == there


@pytest.mark.slow
def test_a_store_in_a_bucket_is_looked_at(places, s3):
    """By the worker with what it has in its environment; what is wrong there is told."""
    store = ("job.store", f"s3://{BUCKET}/out")
    # the process that starts others may be older than the service
    write_job(Path(), changed(store, ("worker", {"environment": s3.environment})))
    done = dshap_("cluster", "check", "local", "--job", "job.toml", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["seen"] == {
        "store": True,
        "folder of [run] scratch": True,
        "table": True,
    }
    bad = {**s3.environment, "AWS_ENDPOINT_URL": "nonsense"}
    write_job(Path(), changed(store, ("worker", {"environment": bad})))
    done = dshap_("cluster", "check", "local", "--job", "job.toml")
    assert done.exit_code == 2
    assert "the store: not seen by the worker" in done.stdout
    assert "the store is not seen by the worker: s3://" in done.stderr
    assert "AWS_ENDPOINT_URL of the environment is not the address of a service" in done.stderr
    ran = dshap_("run", "job.toml", "--cluster", "local", "-q")
    assert ran.exit_code == 2
    assert "the store is not seen by tls://127.0.0.1:" in ran.stderr
    write_job(Path(), changed(("job.store", "s3://none-such/out")))
    none = dshap_("cluster", "check", "local", "--job", "job.toml")
    assert none.exit_code == 2
    assert "there is no bucket 'none-such'" in none.stderr


@pytest.mark.slow
def test_another_version_is_told(places):
    with_version(places["site"] / "other", "numpy", "1.0.1")
    environment = {"PYTHONPATH": str(places["site"] / "other")}
    with running_scheduler(
        places["site"], places["site"] / "tls", environment=environment
    ) as address:
        done = dshap_("cluster", "check", profile_of(places, address))
    assert done.exit_code == 2
    assert f"numpy is {versions_here()['numpy']} here and 1.0.1 there" in (done.stderr)
    assert "numpy        " in done.stdout
    assert "differs" in done.stdout


@pytest.mark.slow
def test_a_worker_that_does_not_see_store_and_table(places):
    """A run says so in one line before its first task, and leaves nothing."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a worker that sees other folders is started as root, by unshare")
    with running_scheduler(
        places["site"], places["site"] / "tls", hidden=places["jobs"]
    ) as address:
        profile = profile_of(places, address)
        checked = dshap_("cluster", "check", profile, "--job", "job.toml")
        ran = dshap_("run", "job.toml", "--cluster", profile, "-q")
    assert checked.exit_code == 2
    assert "the table: not seen by the worker" in checked.stdout
    assert "the folder of the store is not seen by the worker; the table is not" in checked.stderr
    (line,) = ran.stderr.splitlines()
    assert ran.exit_code == 2
    assert "the folder of the store, " in line
    assert "is not seen by tls://127.0.0.1:" in line
    assert not Path("out.zarr").exists()


def test_this_process_has_no_worker(places):
    done = dshap_("cluster", "check", "none")
    assert done.exit_code == 2
    assert "is this process: there is no worker" in done.stderr
    bad = places["site"] / "bad.toml"
    bad.write_text('[cluster]\nkind = "local"\nworker = 2\n')
    done = dshap_("cluster", "check", bad)
    assert done.exit_code == 2
    assert "unknown key 'worker'; did you mean 'workers'?" in done.stderr


def test_the_places_of_a_target(places):
    """The target is read before a worker is waited for."""
    job = places["jobs"] / "job.toml"
    job.write_text(job.read_text() + '\n[targets.dev.job]\nstore = "elsewhere"\n')
    done = dshap_("cluster", "check", "none", "--job", "job.toml", "--target", "prod")
    assert done.exit_code == 2
    assert "with --target prod" in done.stderr or "'prod'" in done.stderr
    done = dshap_("cluster", "check", "none", "--target", "dev")
    assert done.exit_code == 2
    assert "--target dev is of a job: give --job too" in done.stderr
