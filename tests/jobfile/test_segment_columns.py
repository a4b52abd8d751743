"""[report] segments: refused before anything runs, or shown and listed at the end of the run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.engine import SilentProgress
from dshap.jobfile.segment_columns import segment_lines
from dshap.jobs import job_summary, parse_job, plan_job, run_job
from tests.jobs.job_files import changed, small_table

ONE = ("explain", [{"name": "one", "value": "kernel_interventional"}])


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = small_table().assign(hr=lambda own: own.hr // 8)
    frame.to_parquet("table.parquet")
    return frame


def job_with(segments, *more):
    return parse_job(changed(ONE, ("report", {"segments": segments}), *more))


def test_a_finished_job_shows_and_lists_its_segments(table):
    """One that cannot be shown, of too many values, hides no other."""
    job = job_with(["hum", "hr", "temp:2"])
    plan = plan_job(job)
    assert str(plan).endswith("\nsegments, at the end: hum, hr, temp:2")
    assert plan.to_dict()["segments"] == ("hum", "hr", "temp:2")
    shown = job_summary(job, run_job(job, SilentProgress()))
    phi = np.abs(dshap.open_cube("out.zarr/one")["attribution"].values[:, :, 0])
    magnitudes = pd.DataFrame(phi, columns=["hr", "temp", "hum"]).groupby(table.hr).mean()
    listed = shown.content["segments"]["hr"]["one"]
    assert list(listed) == ["0", "1", "2"]
    for name, (_, expected) in zip(listed, magnitudes.iterrows(), strict=True):
        assert listed[name]["mean_magnitude"] == pytest.approx(expected.to_dict(), rel=1e-9)
        assert listed[name]["rows"] == (table.hr == float(name)).sum()
    text = "\n".join(shown.lines)
    assert "mean |φ| by hr (one)" in text
    assert "mean |φ| by temp:2 (one)" in text
    first = next(line for line in shown.lines if line.startswith("0  "))
    assert first.split()[1] == str(listed["0"]["rows"])
    assert len(shown.content["segments"]["temp:2"]["one"]) == 2
    (error,) = shown.errors
    assert "segment 'hum' has more than 200 values" in str(error)
    assert "hum:5" in str(error)
    assert shown.content["segments"]["hum"] == {}


def test_a_plan_says_what_the_histograms_of_many_rows_may_take(table):
    ((_, plan),) = plan_job(job_with(["hr"])).explanations
    many = replace(plan, n_rows=1_000_000)
    (_, line) = segment_lines(["hr", "a\x1b"], [many, many])
    assert line.startswith(r"segments, at the end: hr, a\x1b; ")
    assert "4.6 MiB at most" in line


def test_a_column_that_is_not_kept_is_refused_before_anything_runs(table):
    with pytest.raises(InputError, match=r"report.* segments = \['hr'\].*keep_rows = true"):
        job_with(["hr"], ("run.keep_rows", False))
    for segment in ("note", "tmp", "tmp:5"):
        with pytest.raises(InputError, match=r"\[report\] segments: .*column.*explained"):
            plan_job(job_with([segment]))
    with pytest.raises(InputError, match="segments"):
        job_with([])
    with pytest.raises(InputError, match="segments"):
        job_with([3])
