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
        with pytest.raises(InputError, match=r"within 2 s, or one with certificates of another"):
            connect(address, 2, security=_security(tmp_path / "other"))
        with pytest.raises(InputError, match="asks for certificates: name their folder"):
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


def test_bad_addresses_and_certificates(tmp_path):
    with pytest.raises(InputError, match=r"TLS: there is no file .*none/ca\.pem"):
        at_scheduler("tls://127.0.0.1:1", str(tmp_path / "none"))
    make_certificates(tmp_path / "tls")
    with pytest.raises(InputError, match="an address without encryption, and certificates are"):
        at_scheduler("tcp://127.0.0.1:1", str(tmp_path / "tls"))
