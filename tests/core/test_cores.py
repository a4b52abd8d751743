"""Cores of a process: by its affinity, and by the quotas of control groups of both versions."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dshap.core import cores
from dshap.core.cores import n_cores, quota_cores


def machine(root: Path, groups: str, files: dict[str, str]) -> Path:
    """A folder with the files in which Linux tells the control groups of a process."""
    told = {"proc/self/cgroup": groups} | {f"sys/fs/cgroup/{name}": files[name] for name in files}
    for name, text in told.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V1 = "5:memory:/pods/a\n3:cpu,cpuacct:/pods/a\n1:name=systemd:/\n"


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {}, None),  # the topmost group of a machine has no quota
        ("0::/user.slice/job 3\n", {"user.slice/job 3/cpu.max": "200000 100000"}, 2.0),
        # the smallest of all groups above
        (
            "0::/slurm/job/step\n",
            {"slurm/job/step/cpu.max": "max 100000", "slurm/job/cpu.max": "300000 100000"},
            3.0,
        ),
        # a container sees its own group as the topmost one, under a path of the machine
        ("0::/kubepods/pod1/abc\n", {"cpu.max": "50000 100000"}, 0.5),
        (
            V1,
            {"cpu/pods/a/cpu.cfs_quota_us": "400000", "cpu/pods/a/cpu.cfs_period_us": "100000"},
            4,
        ),
        (V1, {"cpu/cpu.cfs_quota_us": "250000", "cpu/cpu.cfs_period_us": "100000"}, 2.5),
        (V1, {"cpu/pods/a/cpu.cfs_quota_us": "-1", "cpu/pods/a/cpu.cfs_period_us": "100000"}, None),
        (
            "2:cpu:/a\n0::/a\n",
            {"cpu/a/cpu.cfs_quota_us": "100000", "cpu/a/cpu.cfs_period_us": "100000"},
            1.0,
        ),
        (
            V1,
            {"cpu,cpuacct/cpu.cfs_quota_us": "700000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            7.0,
        ),
    ],
)
def test_the_quota_of_control_groups(tmp_path, groups, files, quota):
    assert quota_cores(machine(tmp_path, groups, files)) == quota


def test_without_control_groups_there_is_no_quota(tmp_path):
    assert quota_cores(tmp_path) is None


@pytest.mark.parametrize(
    ("quota", "expected"), [(None, 8), (64.0, 8), (8.0, 8), (7.1, 8), (2.0, 2), (1.5, 2), (0.1, 1)]
)
def test_cores_are_those_of_affinity_and_quota(tmp_path, monkeypatch, quota, expected):
    """A part of a core counts as a whole one; there is no more than the affinity gives."""
    files = {} if quota is None else {"cpu.max": f"{int(quota * 100_000)} 100000"}
    monkeypatch.setattr(cores, "ROOT", machine(tmp_path, "0::/\n", files))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(os, "process_cpu_count", lambda: 8, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert n_cores() == expected


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="affinity is of Linux")
def test_affinity_of_this_process_counts(monkeypatch):
    allowed = os.sched_getaffinity(0)
    monkeypatch.setattr(os, "cpu_count", lambda: 1000)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert n_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
