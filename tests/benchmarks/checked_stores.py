"""What it costs that a store is checked: seals of states, receipts and notes, and crc32c on every
chunk.

    python -m tests.benchmarks.checked_stores [--table powerlifting.parquet] [--rows 200000]
    [--repeats 3] [--tiny]

The same run with all of it, and with seals neither made nor read and chunks without crc32c, each in
a process of its own, one after the other in turns; medians of wall time and of processor time (user
+ system) of `explain` alone.  Two kinds of run: a regression whose states are learnt from all rows,
and a black box with a model that costs next to nothing.  On a machine that others use too,
processor time is the one to read.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from zarr.codecs import ZstdCodec

import dshap
from dshap import designs
from dshap.core.records import FloatArray, Record
from dshap.core.types import RowReader
from dshap.cube import arrays
from dshap.kernels import RBF, Nystrom
from dshap.storage.sealed_files import NO_FILE, ReceiptFolder, StateFolder
from dshap.tables import ParquetSource, SyntheticTable

FEATURES = [
    "bodyweight_kg",
    "squat_kg",
    "bench_kg",
    "sex_male",
    "equipment",
    "year",
    "month",
    "meet_entrants",
]
UNITS = np.array([20.0, 60.0, 40.0, 1.0, 1.0, 10.0, 6.0, 100.0])


def predict(rows: FloatArray) -> FloatArray:
    """A model that costs next to nothing, with an interaction."""
    x = rows / UNITS
    return x[:, 1] + x[:, 2] * (1.0 + 0.1 * x[:, 3]) + x[:, 0]


def regression(table: RowReader, store: Path, n_rows: int) -> None:
    value = dshap.values.ConditionalRegression(
        predict,
        table,
        RBF(list(UNITS)),
        Nystrom(min(64, n_rows // 10)),
        1e-4,
        feature_names=FEATURES,
    )
    dshap.explain(value, table, design="exact", store=store, keep_rows=True, coalition_tile=16)


def marginal(table: RowReader, store: Path, n_rows: int) -> None:
    value = dshap.values.Marginal(predict, table.read(0, 10).x, feature_names=FEATURES)
    design = designs.kernelshap(len(FEATURES), 64)
    dshap.explain(value, table, design=design, store=store, keep_rows=True, coalition_tile=16)


KINDS: dict[str, Callable[[RowReader, Path, int], None]] = {
    "regression": regression,
    "marginal": marginal,
}


def switch_off() -> None:
    """Nothing is sealed, nothing is checked, in this process."""

    def put_state(self: StateFolder, name: str, record: Record) -> None:
        self.folder.put_new(self.file(name), record.to_bytes())

    def get_state(self: StateFolder, name: str, kind: type[Record]) -> Any:
        with self.home(name).open(self.file(name)) as content:
            return kind.load(content)

    def encoded(content: dict[str, Any]) -> bytes:
        return json.dumps(content, sort_keys=True).encode()

    def put_receipt(self: ReceiptFolder, name: str, content: dict[str, Any]) -> bool:
        return self.folder.put_new(self.file(name), encoded(content))

    def get_receipt(self: ReceiptFolder, name: str) -> Any:
        return json.loads(self.folder.get(self.file(name)) or b"null")

    def holds_receipt(self: ReceiptFolder, name: str, content: dict[str, Any]) -> bool:
        return self.folder.get(self.file(name)) == encoded(content)

    def is_missing(self: ReceiptFolder, name: str) -> str | None:
        return None if self.has(name) else NO_FILE

    StateFolder.put, StateFolder.get = put_state, get_state  # type: ignore[method-assign]
    StateFolder.damage = lambda self, name: None  # type: ignore[method-assign]
    ReceiptFolder.put, ReceiptFolder.holds = put_receipt, holds_receipt  # type: ignore[method-assign]
    ReceiptFolder.get = ReceiptFolder.whole_one = get_receipt  # type: ignore[method-assign]
    ReceiptFolder.damage = is_missing  # type: ignore[method-assign]
    arrays.CODECS = (ZstdCodec(level=0),)  # type: ignore[assignment]


def opened(path: str, n_rows: int, folder: Path) -> RowReader:
    """The first rows of a table in a file, or a made-up table of the same columns."""
    if not path:
        return SyntheticTable("powerlifting", n_rows, features=FEATURES)
    part = folder / "rows.parquet"
    if not part.exists():
        import pandas as pd

        pd.read_parquet(path, columns=FEATURES).sample(n_rows, random_state=0).to_parquet(part)
    return ParquetSource(part, features=FEATURES)


def measured(
    kind: str, is_checked: bool, options: argparse.Namespace, folder: Path
) -> dict[str, float]:
    """Seconds of one run in a process of its own, and the bytes of its store."""
    store = folder / f"{kind}-{is_checked}.zarr"
    command = [sys.executable, "-m", "tests.benchmarks.checked_stores", "--child", kind, "--store", str(store),
               "--rows", str(options.rows), "--folder", str(folder), "--table", options.table]  # fmt: skip
    done = subprocess.run(
        [*command, *([] if is_checked else ["--off"])], check=True, stdout=subprocess.PIPE
    )
    files = [file for file in store.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    shutil.rmtree(store)
    return {**json.loads(done.stdout), "bytes": size, "files": len(files)}


def compared(kind: str, options: argparse.Namespace, folder: Path) -> None:
    """Runs in turns, and a line of medians each."""
    runs: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    for turn in range(options.repeats):
        for is_checked in (True, False) if turn % 2 == 0 else (False, True):
            runs[is_checked].append(measured(kind, is_checked, options, folder))
    middle = {
        is_checked: {name: statistics.median(run[name] for run in own) for name in own[0]}
        for is_checked, own in runs.items()
    }
    for is_checked, own in middle.items():
        spread = ", ".join(f"{run['processor']:.2f}" for run in runs[is_checked])
        print(
            f"{kind:10s} {'checked' if is_checked else 'unchecked':9s}  wall {own['wall']:7.2f} s  "
            "processor "
            f"{own['processor']:7.2f} s ({spread})  {own['bytes'] / 2**20:7.2f} MiB in "
            f"{own['files']:.0f} files"
        )
    costs = {
        name: middle[True][name] / middle[False][name] - 1.0
        for name in ("wall", "processor", "bytes")
    }
    print(
        f"{kind:10s} cost of checking: "
        + ", ".join(f"{name} {cost:+.1%}" for name, cost in costs.items())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--table",
        default="",
        help="Parquet file with these columns; a made-up table where left out",
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tiny", action="store_true")
    for hidden in ("--child", "--store", "--folder"):
        parser.add_argument(hidden, default="", help=argparse.SUPPRESS)
    parser.add_argument("--off", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        if options.off:
            switch_off()
        table = opened(options.table, options.rows, Path(options.folder))
        wall, processor = time.perf_counter(), time.process_time()
        KINDS[options.child](table, Path(options.store), options.rows)
        print(
            json.dumps(
                {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
            )
        )
        return
    if options.tiny:
        options.rows, options.repeats = 1_000, 1
    with tempfile.TemporaryDirectory() as folder:
        opened(options.table, options.rows, Path(folder))
        for kind in KINDS:
            compared(kind, options, Path(folder))


if __name__ == "__main__":
    main()
