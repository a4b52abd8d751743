"""The processor in words, as systems of several kinds tell it."""

from __future__ import annotations

import platform

import pytest
import threadpoolctl

from dshap.core import processors
from dshap.core.processors import processor


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("processor\t: 0\nmodel name\t: AMD  EPYC 7763 \nflags\t: avx2\n", "AMD EPYC 7763"),
        ("processor\t: 0\nBogoMIPS\t: 50.00\nCPU part\t: 0xd40\n", ""),  # as on arm64
        ("", ""),
    ],
)  # fmt: skip
def test_the_name_is_that_of_the_system(tmp_path, monkeypatch, told, name):
    (tmp_path / "cpuinfo").write_text(told)
    monkeypatch.setattr(processors, "CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(platform, "processor", lambda: "")
    parts = processor().split(", ")
    assert parts[0] == (name or platform.machine())
    assert platform.machine() in parts


def test_a_system_without_the_file_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(processors, "CPU_INFO", tmp_path / "nothing")
    monkeypatch.setattr(platform, "processor", lambda: "arm")
    assert processor().startswith("arm, ")


def test_the_kernels_of_the_linear_algebra_are_named():
    """OPENBLAS_CORETYPE changes them, and with them the last bits."""
    kernels = {
        pool["architecture"] for pool in threadpoolctl.threadpool_info() if "architecture" in pool
    }
    assert all(kernel in processor() for kernel in kernels)
