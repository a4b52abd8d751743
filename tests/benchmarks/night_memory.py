"""Peak memory of two nights and a report, as the table grows: each command is a process of its own.

    python -m tests.benchmarks.night_memory [--rows N ...] [--kind parquet|sqlite|duckdb|postgresql]
                                            [--key number|text] [--folder F] [--tiny]

The first night explains all rows; before the second 1 % of the rows are changed, 1 % are gone and
1 % are new, all in another order; then a page is written.  Peaks are resident bytes of the process
and of the largest of its children (`wait4`), rows/s those of a core.  Files that lie in memory count
on some systems: give a --folder on a disk.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.peers import machine

ROWS = (50_000, 500_000, 5_000_000)
TINY = (300, 3_000)
KINDS = ("parquet", "sqlite", "duckdb", "postgresql")
COLUMNS = 4
MAKE = """
import sys
from tests.benchmarks.night_memory import made_rows
made_rows(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
"""
BATCH = 100_000
JOB = """
[job]
name = "memory"
store = "store"
[source]
{source}
key = ["id"]
features = ["x0", "x1", "x2", "x3"]
[model]
kind = "import"
function = "night_model:predict"
[[explain]]
name = "reasons"
value = "marginal"
background = 1
arrays = true
[incremental]
strategy = "digest"
[[sink]]
{sink}
"""
MODEL = """
def predict(x):
    return 2.0 * x[:, 0] - x[:, 1] + 0.5 * x[:, 2] * x[:, 3]
"""


@dataclass(frozen=True)
class Peak:
    """One line of the table."""

    command: str
    rows: int
    peak_mib: float
    seconds: float
    core_seconds: float
    """Seconds of a core, of the process and its children: what others do on the machine counts little."""


def made_rows(kind: str, place: str, n_rows: int, night: int, key: str) -> None:
    """Write the rows of a night: of the second some are changed, gone and new, in another order."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dshap.warehouse.databases import Database

    part = n_rows // 100

    def batches() -> Iterator[pa.Table]:
        starts = [*range(0, n_rows, BATCH)]
        for start in starts[:: 1 - 2 * night]:
            ids = np.arange(start, min(start + BATCH, n_rows))
            x = np.random.default_rng(start).normal(size=(len(ids), COLUMNS)).round(6)
            if night:
                x[ids < part, 1] += 1.0
                ids = np.where(ids >= n_rows - part, ids + part, ids)[::-1]
                x = x[::-1]
            keys = ids if key == "number" else np.array([f"customer {i:012d}" for i in ids])
            columns = {"id": keys, **{f"x{j}": x[:, j] for j in range(COLUMNS)}}
            yield pa.table(columns)

    tables = batches()
    first = next(tables)
    if kind == "parquet":
        with pq.ParquetWriter(place, first.schema) as writer:
            for table in (first, *tables):
                writer.write_table(table)
        return
    with Database(place).connect() as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS customers")
        cursor.adbc_ingest("customers", first, mode="create")
        for table in tables:
            cursor.adbc_ingest("customers", table, mode="append")
        connection.commit()


def peak_of(arguments: Sequence[str], folder: Path) -> tuple[float, float, float]:
    """The peak of a command in MiB, its largest child's if that is more; its seconds, and a core's."""
    started = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{Path.cwd()}"}
    running = subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {running.returncode}")
    seconds = time.monotonic() - started
    return usage.ru_maxrss / 1024, seconds, usage.ru_utime + usage.ru_stime


def nights(kind: str, n_rows: int, key: str, folder: Path, uri: str = "") -> Iterator[Peak]:
    """Two nights and a report of a table with so many rows."""
    if kind == "parquet":
        source = 'kind = "parquet"\npath = "rows.parquet"'
        sink = 'path = "reasons"'
        place = str(folder / "rows.parquet")
    else:
        place = uri or f"{kind}:///{folder}/shop.{kind}"
        source = f'kind = "sql"\nuri = "{place}"\ntable = "customers"'
        sink = f'uri = "{place}"\ntable = "reasons"'
    (folder / "job.toml").write_text(JOB.format(source=source, sink=sink))
    (folder / "night_model.py").write_text(MODEL)
    for night, name in enumerate(("first night", "second night")):
        peak_of(["-c", MAKE, kind, place, str(n_rows), str(night), key], folder)
        yield Peak(name, n_rows, *peak_of(["-m", "dshap", "run", "job.toml", "-q"], folder))
    report = ["-m", "dshap", "report", "store", "-o", "page.html", "-q"]
    yield Peak("report", n_rows, *peak_of(report, folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--kind", choices=KINDS, default="parquet")
    parser.add_argument("--key", choices=("number", "text"), default="number")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    print(machine())
    print(f"{'command':<14}{'rows':>11}{'peak MiB':>10}{'seconds':>9}{'core s':>9}{'rows/s':>10}")
    for n_rows in TINY if given.tiny else given.rows:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            for each in _nights(given.kind, n_rows, given.key, Path(folder)):
                rate = each.rows / each.core_seconds
                print(
                    f"{each.command:<14}{each.rows:>11,}{each.peak_mib:>10.1f}{each.seconds:>9.1f}"
                    f"{each.core_seconds:>9.1f}{rate:>10,.0f}",
                    flush=True,
                )


def _nights(kind: str, n_rows: int, key: str, folder: Path) -> Iterator[Peak]:
    if kind != "postgresql":
        yield from nights(kind, n_rows, key, folder)
        return
    from tests.databases import PASSWORD, running_postgresql

    os.environ["PGPASSWORD"] = PASSWORD  # a job file holds none
    with running_postgresql() as server:
        yield from nights(kind, n_rows, key, folder, server.uri(password=None))


if __name__ == "__main__":
    main()
