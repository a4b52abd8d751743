"""Processor seconds of commands and imports, each in a process of its own, beside `import numpy`.

    python -m tests.benchmarks.doors [--repeats 5] [--tiny]

A job with a kernel model is run once; then its store is looked at.  Each number is the median of the
repeats, with the smallest and the largest.  On a machine that others use too, compare with numpy.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

JOB = """
[job]
name = "doors"
store = "store"
[source]
kind = "parquet"
path = "rows.parquet"
target = "y"
key = "id"
[model]
kind = "kernel_ridge"
landmarks = 40
[[explain]]
name = "reasons"
value = "kernel_interventional"
"""
EXPLAIN = """
import sys
import numpy as np
import dshap
x = np.random.default_rng(0).normal(size=(10, 4))
dshap.explain(dshap.values.Marginal(lambda rows: rows.sum(axis=1), x), x)
assert "distributed" not in sys.modules
assert "dask" not in sys.modules
assert "zarr" not in sys.modules
"""
DSHAP = ("-m", "dshap")
COMMANDS: dict[str, tuple[str, ...]] = {
    "python": ("-c", "pass"),
    "import numpy": ("-c", "import numpy"),
    "import dshap.jobs": ("-c", "import dshap.jobs"),
    "dshap status": (*DSHAP, "status", "store"),
    "dshap show": (*DSHAP, "show", "store"),
    "dshap runs": (*DSHAP, "runs", "store"),
    "dshap job": (*DSHAP, "job", "job.toml"),
    "dshap plan": (*DSHAP, "plan", "job.toml"),
    "explain of ten rows": ("-c", EXPLAIN),
}


def seconds_of(command: Sequence[str], folder: Path) -> float:
    """Processor seconds of one process, without those of its own children that still run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *command], cwd=folder, check=True, capture_output=True, timeout=300
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    repeats = 1 if given.tiny else given.repeats
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        x = np.random.default_rng(0).normal(size=(500, 4))
        rows = pd.DataFrame(x, columns=list("abcd")).assign(y=x[:, 0] * x[:, 1], id=range(len(x)))
        rows.to_parquet(folder / "rows.parquet")
        (folder / "job.toml").write_text(JOB)
        seconds_of((*DSHAP, "run", "job.toml", "-q"), folder)
        for label, command in COMMANDS.items():
            found = sorted(seconds_of(command, folder) for _ in range(repeats))
            middle = statistics.median(found)
            print(f"{label:<22}{middle:8.2f} s  ({found[0]:.2f} to {found[-1]:.2f})", flush=True)


if __name__ == "__main__":
    main()
