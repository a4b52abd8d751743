"""Peaks of memory: of this process and of workers, since they were reset."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from dshap.engine import DaskExecutor, LoopExecutor, peaks
from dshap.engine.peaks import PeakMeter, on_workers, peak_bytes, reset_peak

MiB = 1 << 20
HELD = 64 * MiB


def hold() -> None:
    np.ones(HELD // 8)


@pytest.fixture
def has_peaks() -> None:
    if not reset_peak():
        pytest.skip("this system has no /proc/self/clear_refs to write")


def peaks_of_an_array() -> list[int | None]:
    """Before, while and after an array is held."""
    assert reset_peak()
    found = [peak_bytes()]
    hold()
    found.append(peak_bytes())
    assert reset_peak()
    return [*found, peak_bytes()]


@pytest.mark.slow
def test_a_peak_is_that_of_its_stage(has_peaks):
    """In a process of its own: threads of earlier tests may let go of as much as is held."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        before, during, after = pool.submit(peaks_of_an_array).result(timeout=60)
    assert during - before > 0.9 * HELD  # the pages of the array, less what the process had free
    assert after < during - 0.9 * HELD


def test_without_proc_nothing_is_known(monkeypatch, tmp_path):
    monkeypatch.setattr(peaks, "STATUS", tmp_path / "none")
    monkeypatch.setattr(peaks, "CLEAR", tmp_path / "none" / "none")
    meter = PeakMeter()
    meter.reset(LoopExecutor())
    assert (meter.client(), meter.worker(LoopExecutor()), peak_bytes(), reset_peak()) == (
        None,
        None,
        None,
        False,
    )
    (tmp_path / "none").write_text("VmRSS:\t 5 kB\n")
    assert peak_bytes() is None


def test_a_peak_that_was_not_reset_is_not_told(has_peaks, monkeypatch, tmp_path):
    """It would be that of an earlier stage."""
    monkeypatch.setattr(peaks, "CLEAR", tmp_path / "none" / "none")
    meter = PeakMeter()
    meter.reset(LoopExecutor())
    assert meter.client() is None
    assert meter.worker(LoopExecutor()) is None
    assert peak_bytes() is not None


def test_who_the_workers_are(has_peaks):
    assert on_workers(LoopExecutor(), lambda: 3) == [3]
    assert on_workers(None, lambda: 3) == []  # a cluster that has not started
    meter = PeakMeter()
    meter.reset(None)
    assert meter.worker(None) is None
    assert meter.worker(LoopExecutor()) == meter.client() > 10 * MiB


@pytest.mark.cluster
def test_peaks_of_the_workers_of_a_cluster(client, has_peaks):
    executor, meter = DaskExecutor(client), PeakMeter()
    assert len(on_workers(executor, peak_bytes)) == len(client.nthreads())
    client.run(hold)  # whatever the function's module imports is there now
    meter.reset(executor)
    at_rest = meter.worker(executor)
    client.run(hold)
    during = meter.worker(executor)
    meter.reset(executor)
    assert during - at_rest > 0.9 * HELD
    assert during - meter.worker(executor) > 0.9 * HELD
