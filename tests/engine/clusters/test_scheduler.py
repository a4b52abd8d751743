"""A scheduler with certificates: the job that has them runs there, others are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import dshap
from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.engine import connect, make_certificates
from dshap.engine.clients import checked_client, is_on_loopback
from dshap.engine.clusters.scheduler import at_scheduler
from tests.engine.clusters.servers import running_scheduler
from tests.engine.test_cluster import met_by
from tests.jobs.job_files import changed, small_table, write_job

pytestmark = pytest.mark.cluster


@pytest.mark.slow
def test_a_job_by_a_profile_with_certificates(tmp_path, monkeypatch):
    """The same arrays as in this process; a plain client and another authority's are refused."""
    monkeypatch.chdir(tmp_path)
    small_table().to_parquet("table.parquet")
    make_certificates(tmp_path / "clusters" / "tls")
    make_certificates(tmp_path / "other")
    job = str(write_job(tmp_path, changed()))
    with running_scheduler(tmp_path, tmp_path / "clusters" / "tls") as address:
        profile = f'[cluster]\nkind = "scheduler"\naddress = "{address}"\ncertificates = "tls"\n'
        (tmp_path / "clusters" / "office.toml").write_text(profile)
        done = CliRunner().invoke(cli, ["run", job, "--cluster", "office", "-q", "--json"])
        assert done.exit_code == 0, done.stderr
        assert [met_by(address, "no"), met_by(address, "other")] == ["refused"] * 2
        with pytest.raises(InputError, match=r"within 2 s, or its certificates are of another"):
            connect(address, 2, security=_security(tmp_path / "other"))
        with pytest.raises(InputError, match="requires certificates: name their folder"):
            connect(address, 2)
    record = json.loads(next(tmp_path.glob("out.zarr/runs/*/run_results.json")).read_text())
    assert record["args"]["cluster"] == "office"
    here = CliRunner().invoke(cli, ["run", job, "-q", "--set", "job.store=here.zarr"])
    assert here.exit_code == 0, here.stderr
    for name in ("interventional", "observational"):
        there = dshap.open_cube(tmp_path / "out.zarr" / name).attribution.values
        np.testing.assert_array_equal(
            there, dshap.open_cube(tmp_path / "here.zarr" / name).attribution.values
        )


def _security(folder):
    from dshap.engine import Certificates

    return Certificates.of_folder(folder).security()


@pytest.mark.parametrize("address", ["tcp://192.0.2.1:1", "192.0.2.1:1", "tcp://[2001:db8::1]:1"])
def test_an_address_without_encryption_that_leaves_this_machine(address):
    """Nothing is connected; these addresses are of no network."""
    with pytest.raises(InputError, match=r"leaves this machine without encryption.*\"none\""):
        at_scheduler(address)
    with pytest.raises(InputError, match="leaves this machine without encryption"):
        checked_client(address)


def test_it_is_taken_where_the_profile_says_so(monkeypatch):
    asked = []
    monkeypatch.setattr("distributed.Client", lambda *given, **_: asked.append(given))
    at_scheduler("tcp://192.0.2.1:1", security="none")
    assert asked == [("tcp://192.0.2.1:1",)]
    with pytest.raises(InputError, match="is encrypted: leave one of them out"):
        at_scheduler("tls://192.0.2.1:1", security="none")


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:8786", "127.0.0.2:1", "tcp://localhost:1", "tcp://[::1]:1", "inproc://a/1"],
)
def test_addresses_of_this_machine(address):
    assert is_on_loopback(address)


def test_bad_addresses_and_certificates(tmp_path):
    with pytest.raises(InputError, match=r"TLS: there is no file .*none/ca\.pem"):
        at_scheduler("tls://127.0.0.1:1", str(tmp_path / "none"))
    make_certificates(tmp_path / "tls")
    with pytest.raises(InputError, match="an address without encryption, and certificates are"):
        at_scheduler("tcp://127.0.0.1:1", str(tmp_path / "tls"))
