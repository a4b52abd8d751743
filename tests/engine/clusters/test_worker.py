"""What one worker is: its processes, memory, and the end that it gives itself."""

from __future__ import annotations

import pytest

from dshap.core.errors import InputError
from dshap.engine.clusters.worker import WorkerOptions, clock, seconds_of_walltime


def test_processes_share_the_memory():
    worker = WorkerOptions(cores=8, memory="8GiB", threads=2)
    assert (worker.n_processes, worker.process_memory) == (4, 2 << 30)
    assert WorkerOptions().process_memory is None
    with pytest.raises(InputError, match=r"cores = 3 is not a multiple of threads = 2"):
        WorkerOptions(cores=3, threads=2)


@pytest.mark.parametrize(
    ("text", "seconds"), [("04:00:00", 14_400), ("1-12:00:30", 129_630), ("100:00:00", 360_000)]
)
def test_walltimes(text, seconds):
    assert seconds_of_walltime(text) == seconds
    assert seconds_of_walltime(clock(seconds)) == seconds


@pytest.mark.parametrize("text", ["4h", "04:00", "", "1-1-01:00:00", "-1:00:00"])
def test_what_is_no_walltime(text):
    with pytest.raises(InputError, match=r'write hours, minutes and seconds like "04:00:00"'):
        WorkerOptions(walltime=text)


def test_a_worker_ends_itself_before_its_walltime():
    worker = WorkerOptions(walltime="01:00:00")
    assert worker.lifetime_arguments == ["--lifetime", "3300s", "--lifetime-stagger", "60s"]
    shortest = WorkerOptions(walltime="00:10:00")
    assert shortest.lifetime_arguments == ["--lifetime", "300s", "--lifetime-stagger", "30s"]
    assert WorkerOptions().lifetime_arguments == []
    with pytest.raises(InputError, match=r'walltime = "00:09:59" is too short.* at least 00:10:00'):
        WorkerOptions(walltime="00:09:59")


def test_the_environment(monkeypatch):
    """Variables that decide the last bits are those of the client."""
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert WorkerOptions().variables["OPENBLAS_CORETYPE"] == "Haswell"
    own = WorkerOptions(environment={"OPENBLAS_CORETYPE": "Zen"})
    assert own.variables["OPENBLAS_CORETYPE"] == "Zen"
    variables = WorkerOptions(environment={"A": "b"}).variables
    assert variables["A"] == "b"
    assert variables["DASK_DISTRIBUTED__WORKER__HTTP__ROUTES"] == "[]"
