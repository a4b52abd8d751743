"""The loops with the explicit vectors of `dshap.loops.lanes`, and the same loops in plain numba: seconds of `explain`.

Three tables of kernel models: one whose rows share values and one whose rows share nothing, all coalitions of 8
columns; and one of 20 columns, by a list of coalitions.  Each run is a process that compiles into a folder of its kind,
explains once unmeasured and then measured, learning included, in one thread; kinds take turns, and the median of three
counts.  Seconds are of the processor, which other work on the machine does not change much; those of the clock stand
beside them.  "differ" is the largest difference of attributions, in their largest.

Usage: python -m tests.benchmarks.lanes [--tiny] [--data FOLDER] [--rows 20000] [--landmarks 300] [--repeats 3]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dshap
from dshap import designs
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.records import FloatArray
from dshap.tables import SyntheticTable
from dshap.threads import one_blas_thread
from dshap.values import KernelInterventional
from tests.benchmarks.peers import FEATURES, TARGET, machine
from tests.benchmarks.plain_loops import PLAIN

KINDS = ("lanes", "plain")
FILES = {"shared": "powerlifting.parquet", "different": "california_housing.parquet"}
HOUSES = ["MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude"]
COLUMNS = {"shared": [*FEATURES, TARGET], "different": [*HOUSES, "MedHouseVal"]}
"""The target last."""
WIDE = 20


def made_up(name: str, n: int) -> FloatArray:
    """(n, columns and target): lifts, or normal draws of which no two are alike."""
    if name == "shared":
        block = SyntheticTable("powerlifting", n, features=list(FEATURES), target=TARGET, key=()).read(
            0, n, target=True
        )
        return np.column_stack([block.x, block.targets])
    x = np.random.default_rng(0).normal(size=(n, WIDE if name == "wide" else len(HOUSES)))
    return np.column_stack([x, np.sin(x[:, 0]) * x[:, 1] + x[:, 2:].sum(axis=1)])


def table(name: str, folder: Path | None, n: int) -> FloatArray:
    """The first n rows in an order drawn once."""
    if folder is None or name not in FILES:
        return made_up(name, n)
    rows = pd.read_parquet(folder / FILES[name], columns=COLUMNS[name]).dropna().to_numpy(float)
    rows = rows[np.random.default_rng(0).permutation(len(rows))[:n]]
    if name == "different":  # so that no value comes twice
        rows[:, :-1] += 1e-2 * rows[:, :-1].std(axis=0) * np.random.default_rng(1).normal(size=rows[:, :-1].shape)
    return rows


def once(name: str, kind: str, folder: Path | None, n: int, landmarks: int) -> dict[str, Any]:
    """Seconds and attributions of one explanation, everything compiled."""
    if kind == "plain":
        for (module, loop), plain in PLAIN.items():
            setattr(module, loop, plain)
    rows = table(name, folder, n)
    x, y = rows[:, :-1], rows[:, -1]
    x = x / x.std(axis=0)
    with one_blas_thread():
        model = KernelRidge(RBF(3.0), Nystrom(landmarks), penalty=1e-6).fit(x, y)
        value = KernelInterventional(model, x)
        d = x.shape[1]
        design = designs.kernelshap(d, 256, seed=0) if name == "wide" else designs.exact(d)
        dshap.explain(value, x, design=design, progress=False)
        started, processor = time.perf_counter(), time.process_time()
        cube = dshap.explain(value, x, design=design, progress=False)
        seconds, of_processor = time.perf_counter() - started, time.process_time() - processor
    phi = np.asarray(cube.attribution)
    digest = hashlib.blake2b(phi.tobytes(), digest_size=8).hexdigest()
    return {"seconds": seconds, "processor": of_processor, "digest": digest, "phi": phi[:: max(1, n // 100)].tolist()}


def in_process(name: str, kind: str, cache: Path, given: argparse.Namespace) -> dict[str, Any]:
    """`once` in a process with its own folder of compiled loops."""
    command = [sys.executable, "-m", "tests.benchmarks.lanes", "--once", name, kind]
    command += ["--rows", str(given.rows), "--landmarks", str(given.landmarks)]
    command += ["--data", str(given.data)] if given.data else []
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache / kind), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(name: str, cache: Path, given: argparse.Namespace) -> None:
    """One line of the table."""
    runs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for _ in range(given.repeats):
        for kind in KINDS:
            runs[kind].append(in_process(name, kind, cache, given))
    lanes, plain = (
        [statistics.median(run[unit] for run in runs[kind]) for unit in ("processor", "seconds")] for kind in KINDS
    )
    first, second = (np.array(runs[kind][0]["phi"]) for kind in KINDS)
    differ = np.abs(first - second).max() / np.abs(first).max()
    digests = {run["digest"] for kind in KINDS for run in runs[kind]}
    print(
        f"{name:<12}{lanes[0]:>9.2f} s{plain[0]:>9.2f} s{plain[0] / lanes[0]:>9.2f}{lanes[1]:>9.2f} s{plain[1]:>9.2f} s"
        f"{plain[1] / lanes[1]:>9.2f}{'same' if len(digests) == 1 else f'{differ:.1e}':>10}",
        flush=True,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="500 rows and 30 landmarks, once")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help=f"with {', '.join(FILES.values())}")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--landmarks", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--once", nargs=2, metavar=("TABLE", "KIND"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        print(json.dumps(once(*given.once, given.data, given.rows, given.landmarks)))
        return
    if given.tiny:
        given.rows, given.landmarks, given.repeats = 500, 30, 1
    print(", ".join(f"{name} {version}" for name, version in machine().items()))
    print(f"{'':<12}{'lanes':>11}{'plain':>11}{'ratio':>9}{'lanes':>11}{'plain':>11}{'ratio':>9}{'differ':>10}")
    print(f"{'':<12}{'processor':>31}{'clock':>31}")
    with tempfile.TemporaryDirectory() as cache:
        for name in ("shared", "different", "wide"):
            compare(name, Path(cache), given)


if __name__ == "__main__":
    main()
