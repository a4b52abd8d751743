"""The cores that this process may use: the cores of its affinity, limited by its quota."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path("/")
"""The folder under which Linux shows control groups."""
GROUPS = Path("sys/fs/cgroup")
"""The folder of control groups of version 2, whose parts have a folder each in version 1."""
OF_V1 = ("cpu", "cpu,cpuacct")
"""The folders of the controller with the quotas of cores, in version 1."""


def n_cores() -> int:
    """Count the cores that this process may use, at least 1.

    A container, a job of a queue or `taskset` gives a process some cores of a machine: by its
    affinity, or by a quota of processor time.  A quota of 1.5 cores counts as 2.
    """
    quota = quota_cores(ROOT)
    if quota is None:
        return _affine_cores()
    return max(1, min(_affine_cores(), math.ceil(quota)))


def _affine_cores() -> int:
    """The cores of the affinity of this process; of the machine if it has none."""
    if sys.version_info >= (3, 13):
        return os.process_cpu_count() or 1
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def quota_cores(root: Path) -> float | None:
    """The smallest quota of the control groups of this process, in cores; None if none is set.

    `root` is the folder that contains `proc` and `sys`.  A group has the quotas of all groups above
    it.
    """
    found = [_of_v2(group) for group in _groups(root, "", GROUPS)]
    for name in OF_V1:
        found += [_of_v1(group) for group in _groups(root, name, GROUPS / name)]
    return min((quota for quota in found if quota is not None), default=None)


def _groups(root: Path, controllers: str, mount: Path) -> Iterator[Path]:
    """The folders of the group of this process for these controllers, and of all groups above it.

    A container sees its own group as the topmost group, although `proc/self/cgroup` may contain the
    path of the group on the machine.  So all folders above the path are tried.
    """
    group = _group_of(root, controllers)
    if group is None:
        return
    inner = PurePosixPath(group.lstrip("/"))
    for part in (inner, *inner.parents):
        yield root / mount / part


def _group_of(root: Path, controllers: str) -> str | None:
    """The path of the group of this process for these controllers; "" are those of version 2."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, names, group = line.split(":", 2)
        if set(names.split(",")) & {controllers, *controllers.split(",")}:
            return group
    return None


def _of_v2(group: Path) -> float | None:
    """The quota of a group of version 2, in cores."""
    words = _words(group / "cpu.max")
    if len(words) != 2 or words[0] == "max":
        return None
    return int(words[0]) / int(words[1])


def _of_v1(group: Path) -> float | None:
    """The quota of a group of version 1, in cores; it is -1 if none is set."""
    quota = _words(group / "cpu.cfs_quota_us")
    period = _words(group / "cpu.cfs_period_us")
    if not (quota and period) or int(quota[0]) <= 0:
        return None
    return int(quota[0]) / int(period[0])


def _words(file: Path) -> list[str]:
    """The words of a file; none if it cannot be read."""
    try:
        return file.read_text().split()
    except OSError:
        return []
