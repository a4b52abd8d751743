"""The processor of this process, in words: with another one the last bits of results may differ."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import numpy  # noqa: F401 (so that its BLAS is loaded)

from dshap.core.threads import thread_pools

CPU_INFO = Path("/proc/cpuinfo")
"""The file in which Linux describes its processors."""
_NAME = re.compile(r"^(?:model name|cpu model|Processor)\s*:\s*(.+?)\s*$", re.MULTILINE)


def processor() -> str:
    """Describe the processor, its instruction set, and the kernels of the linear algebra.

    The kernels count as well as the processor: two of one name round alike only with the same ones.

    Examples
    --------
    >>> from dshap.core.processors import processor
    >>> processor()  # doctest: +SKIP
    'AMD EPYC 7763 64-Core Processor, x86_64, openblas Haswell'
    """
    parts = [_processor_name(), platform.machine(), *blas_kernels()]
    return ", ".join(part for part in parts if part)


def _processor_name() -> str:
    """The name of the processor as the operating system shows it; empty if it shows none."""
    try:
        found = _NAME.search(CPU_INFO.read_text(errors="replace"))
    except OSError:
        found = None
    if found is None:
        return platform.processor()
    return " ".join(found[1].split())


def blas_kernels() -> list[str]:
    """The BLAS libraries of this process with the processor that their kernels are made for.

    Libraries that do not show it, such as MKL, are left out.
    """
    pools = [pool for pool in thread_pools().info() if pool.get("architecture")]
    return sorted({f"{pool['internal_api']} {pool['architecture']}" for pool in pools})
