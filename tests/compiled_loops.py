"""Share the compiled loops between clones of the repository.

    python -m tests.compiled_loops load    # before tests: put compiled code beside the sources
    python -m tests.compiled_loops save    # after tests: keep the compiled code for other clones

numba writes compiled code beside its source and trusts it while the source keeps its modification time, so that a
new clone compiles all loops again: two minutes of a core.  One archive per digest of the sources, the versions of
Python and numba and the processor keeps the compiled code in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import zipfile
from pathlib import Path

import llvmlite.binding
import numba
import numpy as np

LOOPS = Path(__file__).parents[1] / "dshap" / "loops"
TIMES = "modification_times.json"
"""Member of an archive: modification time of each source, in nanoseconds."""
COMPILED = ("*.nbi", "*.nbc")
"""Names of numba's index and code files."""


def cache_folder() -> Path:
    """The folder of the archives, in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dshap" / "compiled_loops"


def digest(loops: Path) -> str:
    """The digest of all that compiled code depends on: sources, versions and the processor."""
    versions = [platform.python_implementation(), sys.version, numba.__version__, np.__version__]
    processor = [
        llvmlite.binding.get_host_cpu_name(),
        llvmlite.binding.get_host_cpu_features().flatten(),
    ]
    made = hashlib.blake2b("\n".join(versions + processor).encode(), digest_size=16)
    for source in sorted(loops.glob("*.py")):
        made.update(source.name.encode())
        made.update(hashlib.blake2b(source.read_bytes()).digest())
    return made.hexdigest()


def load(loops: Path, archives: Path) -> int:
    """Put archived code beside the sources in `loops`; return how many files that are.

    Sources get the modification times that the code was compiled under.  A folder that has compiled
    code already keeps it.
    """
    archive = archives / f"{digest(loops)}.zip"
    target = loops / "__pycache__"
    if not archive.exists() or any(target.glob("*.nbi")):
        return 0
    target.mkdir(exist_ok=True)
    with zipfile.ZipFile(archive) as members:
        times = json.loads(members.read(TIMES))
        names = [name for name in members.namelist() if name != TIMES]
        members.extractall(target, names)
    for name, nanoseconds in times.items():
        os.utime(loops / name, ns=(nanoseconds, nanoseconds))
    return len(names)


def save(loops: Path, archives: Path) -> int:
    """Archive the compiled code in `loops`, unless the archive has as much; return the number of files."""
    archive = archives / f"{digest(loops)}.zip"
    files = sorted(file for pattern in COMPILED for file in (loops / "__pycache__").glob(pattern))
    if not files or len(files) <= _n_archived(archive):
        return 0
    archives.mkdir(parents=True, exist_ok=True)
    times = {source.name: source.stat().st_mtime_ns for source in loops.glob("*.py")}
    written = archives / f"{archive.stem}.{os.getpid()}.new"
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr(TIMES, json.dumps(times))
        for file in files:
            members.write(file, file.name)
    os.replace(written, archive)
    return len(files)


def _n_archived(archive: Path) -> int:
    if not archive.exists():
        return 0
    with zipfile.ZipFile(archive) as members:
        return len(members.namelist()) - 1


if __name__ == "__main__":
    verbs = {"load": load, "save": save}
    verbs[sys.argv[1]](LOOPS, cache_folder())
