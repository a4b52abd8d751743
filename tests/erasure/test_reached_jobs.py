"""An erasure reaches the tables and pages of every target, and signs statements as they were signed."""

from __future__ import annotations

import shutil

import duckdb
import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.core.places import place_of
from dshap.erasure.forgetting import forget_keys
from dshap.erasure.reached_jobs import jobs_of_store
from dshap.jobs.attesting import AttestedSinks, attest_store
from dshap.seals.attestations import read_envelope, sealed_runs
from tests.jobs.sealed_jobs import new_key, of_trees


def of_targets(folder, **targets):
    """A job whose tables and pages are other ones for each target."""
    sink = {"uri": f"duckdb:///{folder}/nowhere/none.duckdb", "table": "reasons"}
    job = of_trees(
        folder, sink=[sink], report={"page": "none.html"}, incremental={"strategy": "digest"}
    )
    job.tables["targets"] = {
        name: {
            "job.store": store,
            "report.page": f"{name}.html",
            "sink.reasons.uri": f"duckdb:///{folder}/{name}.duckdb",
        }
        for name, store in targets.items()
    }
    return job


def keys_in(folder, name):
    """The keys of the lines of a target."""
    with duckdb.connect(str(folder / f"{name}.duckdb"), read_only=True) as connection:
        return {key for (key,) in connection.execute("SELECT DISTINCT id FROM reasons").fetchall()}


def put_page(folder, name):
    """A page that has the key; `dshap run` writes one, and a run in this process does not."""
    (folder / f"{name}.html").write_text('["7",0.5]')


def page_of(folder, name):
    return (folder / f"{name}.html").read_text()


def signed_runs(store):
    return [each for each in sealed_runs(store) if read_envelope(store, each).is_signed]


def contents(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_target_of_the_last_run_is_reached_and_signatures_stay_as_they_were(tmp_path):
    """One run without a key, one with a key; the key is away, and is there again."""
    private, public = new_key(tmp_path)
    job = of_targets(tmp_path / "job", prod="store")
    job.run(target="prod")
    job.tables["seal"] = {"key": str(private)}
    job.put(job.table.iloc[1:])
    last = job.run(target="prod").facts.run_id
    assert signed_runs(job.store) == [last]
    assert 7 in keys_in(job.folder, "prod")
    put_page(job.folder, "prod")

    private.rename(tmp_path / "away.pem")
    before = contents(job.folder)
    command = ["forget", str(job.store), "--key", "7"]
    found = CliRunner().invoke(cli, command)
    assert found.exit_code == 2
    assert "which signed 1 run of" in found.stderr
    assert "is not here: nothing is erased; with --job JOB.toml give the job" in found.stderr
    assert contents(job.folder) == before
    (tmp_path / "away.pem").rename(private)

    found = CliRunner().invoke(cli, command)
    assert found.exit_code == 0, found.stderr
    assert "warning" not in found.stdout
    assert 7 not in keys_in(job.folder, "prod")
    assert '["7",' not in page_of(job.folder, "prod")
    assert signed_runs(job.store) == [last]
    check = attest_store(job.store, None, "", AttestedSinks())
    check.refuse_faults()
    assert attest_store(job.store, str(public), last, AttestedSinks()).seals.faults == []

    other, _ = new_key(tmp_path, "other")
    job.file.write_text(job.file.read_text().replace(str(private), str(other)))
    private.unlink()
    done = forget_keys(job.store, ["8"], job_file=str(job.file), target="prod")
    (line,) = done.warnings
    assert line.startswith("warning: the key ")
    assert ", which signed 1 run, is not here: signed again with the key " in line
    assert line in str(done)
    assert signed_runs(job.store) == [last]

    other.unlink()
    with pytest.raises(InputError, match="nothing is erased"):
        forget_keys(job.store, ["9"])
    done = forget_keys(job.store, ["9"], unsigned=True)
    assert "sealed again without a signature" in done.warnings[0]
    assert signed_runs(job.store) == []
    attest_store(job.store, None, "", AttestedSinks()).refuse_faults()


def test_targets_with_one_store_and_a_copy_of_it(tmp_path):
    """Each target that has loaded from the store is reached; from a copy none is."""
    job = of_targets(tmp_path / "job", dev="store", prod="store", elsewhere="other")
    job.run(target="dev")
    job.put(job.table.iloc[1:].assign(a=lambda table: table.a + 1.0))
    job.run(target="prod")
    put_page(job.folder, "dev")
    put_page(job.folder, "prod")
    copy = tmp_path / "copy"
    shutil.copytree(job.store, copy, symlinks=True)
    done = forget_keys(copy, ["7"])
    assert len(done.erasure.left) == 2
    assert "dev.duckdb" in str(done.failure)
    assert "prod.duckdb" in str(done.failure)
    for name in ("dev", "prod"):
        assert 7 in keys_in(job.folder, name)
        assert '["7",' in page_of(job.folder, name)

    store = place_of(job.store)
    with pytest.raises(InputError, match="unknown target 'prot'; did you mean 'prod'"):
        jobs_of_store(store, str(job.file), "prot")
    with pytest.raises(InputError, match=r"with --target elsewhere has .* give --target dev"):
        jobs_of_store(store, str(job.file), "elsewhere")
    assert jobs_of_store(store, None, "dev").given.report.page.endswith("dev.html")

    done = forget_keys(job.store, ["7"])
    assert done.failure is None
    assert done.counts["pages"] == 2
    assert len(done.erasure.sinks) == 2
    for name in ("dev", "prod"):
        assert 7 not in keys_in(job.folder, name)
        assert '["7",' not in page_of(job.folder, name)


def test_a_target_without_a_job_file(tmp_path):
    with pytest.raises(InputError, match="give the job file that defines it, with --job"):
        jobs_of_store(place_of(tmp_path), None, "prod")
    with pytest.raises(InputError, match=r"--target prod belongs to a job file: give --job"):
        attest_store(place_of(tmp_path), None, "", AttestedSinks(target="prod"))
