"""The performance report of a cluster: written after a run and after an interrupt, or refused."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.engine import local_client
from dshap.engine.late_cluster import ClusterExecutor
from dshap.engine.performance import PerformanceReport, report_path
from tests.jobs.job_files import changed, small_table, write_job


@pytest.fixture
def job(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    small_table().to_parquet("table.parquet")
    return write_job(tmp_path, changed())


@pytest.mark.parametrize("name", ["report.txt", "none/report.html", "report"])
def test_a_page_that_cannot_be_written(tmp_path, job, name):
    with pytest.raises(InputError, match=r"--performance-report .*: give "):
        report_path(tmp_path / name)
    ended = CliRunner().invoke(cli, ["run", str(job), "--performance-report", name])
    assert ended.exit_code == 2
    assert len(ended.stderr.splitlines()) == 1
    assert not Path("out.zarr").exists()


def test_this_process_has_none(job):
    ended = CliRunner().invoke(cli, ["run", str(job), "--performance-report", "report.html"])
    assert ended.exit_code == 2
    assert not Path("out.zarr").exists()
    (line,) = ended.stderr.splitlines()
    assert (
        "the job runs in this process, and only a cluster makes a performance report: give "
        "--cluster" in line
    )


def test_a_scheduler_without_bokeh_is_refused(tmp_path):
    """Before the first task, with what to install; at the end nothing is written."""
    client = SimpleNamespace(run_on_scheduler=lambda function: False)
    report = PerformanceReport(tmp_path / "report.html", print)
    with pytest.raises(InputError, match=r"needs the package bokeh .*pip install 'dshap\[perform"):
        report.begin(client)
    report.end(client)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError("the scheduler is gone"), "OSError('the scheduler is gone')"),
        (TimeoutError(), "the scheduler took more than 120 s to make it"),
    ],
)
def test_a_page_that_cannot_be_made(tmp_path, error, told):
    """What fails at the end is a line, and no error: the run itself is over."""

    def lost(*_: object, **__: object) -> None:
        raise error

    client = SimpleNamespace(
        run_on_scheduler=lambda function: True,
        as_current=contextlib.nullcontext,
        sync=lambda function: None,
    )
    said: list[str] = []
    report = PerformanceReport(tmp_path / "report.html", said.append)
    report.begin(client)
    client.sync = lost
    report.end(client)
    assert said == [f"the performance report {tmp_path}/report.html is not written: {told}"]


def test_no_cluster_was_needed(tmp_path):
    said: list[str] = []
    report = PerformanceReport(tmp_path / "report.html", said.append)
    with contextlib.closing(ClusterExecutor(local_client, None, 1, report=report)):
        pass
    assert len(said) == 1
    assert "no cluster was started" in said[0]


@pytest.mark.slow
def test_it_is_written_after_an_interrupt_too(tmp_path):
    pytest.importorskip("bokeh")
    path = tmp_path / "report.html"
    said: list[str] = []
    executor = ClusterExecutor(
        lambda: local_client(1, set_as_default=False),
        None,
        1,
        report=PerformanceReport(path, said.append),
    )
    with pytest.raises(KeyboardInterrupt), contextlib.closing(executor):
        executor.start()
        assert executor.started.client.submit(int, 7).result() == 7
        raise KeyboardInterrupt
    assert said == [f"performance report: {path}"]
    page = path.read_text()
    assert "Dask Performance Report" in page
    assert "number of tasks: 1" in page
    assert re.search(r"<script[^>]* src=", page) is None  # it shows itself without the network
