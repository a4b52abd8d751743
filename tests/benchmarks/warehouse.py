"""Rates of loads into a database, beside the plain thing: an ADBC ingest of the same table.

A finished cube of n rows × 20 features goes into a wide table.  "first": the table is made.  "all":
every line is replaced.  "5 %": every twentieth row has changed.  "plain" is one `adbc_ingest` of the
lines of "first", in memory, into a new table without an index.  They take turns; seconds are medians
of three.  The share is the rate, in lines a second, over that of "plain".

Between loads PostgreSQL is vacuumed, which is not timed: its autovacuum does so long before the next
night, as more than a fifth of the lines has changed.

Usage: python -m tests.benchmarks.warehouse [--tiny] [--rows N] [--only KIND] [--json OUT]
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from dshap.core.blocks import Attribution, RowBlock, Status
from dshap.cube import CubeLayout, CubeWriter, create_cube, mark_finished
from dshap.sinks import SingleRun, Sink, load_sink
from dshap.sinks.shapes import batches_of
from dshap.warehouse.databases import Database
from tests.benchmarks.peers import machine, peak_mib, write_json
from tests.databases import programs, running_postgresql

D = 20
TILE, CHUNK = 32_768, 4_096
JOB = "benchmark"
KINDS = ("duckdb", "sqlite", "postgresql")
LOADS = ("first", "all", "5 %")
STEP = 20
"""One in so many rows has changed in the load "5 %"."""


@dataclass(frozen=True)
class LoadRates:
    """One line of the table; seconds are medians."""

    database: str
    load: str
    lines: int
    """The lines that the load wrote."""
    plain_lines: int
    plain: float
    seconds: float

    @property
    def share(self) -> float:
        """The rate of the load over that of the plain ingest."""
        return (self.lines / self.seconds) / (self.plain_lines / self.plain)


@dataclass(frozen=True)
class FewChanged(SingleRun):
    """The history of a night that has computed every twentieth row of `n_rows`."""

    n_rows: int = 0

    def changed_since(self, run_id: str, method: str) -> np.ndarray:
        return np.arange(self.n_rows) % STEP == 0

    def deleted_since(self, run_id: str, method: str) -> Iterator[pa.RecordBatch]:
        return iter(())


def made_cube(path: Path, n_rows: int) -> None:
    """A finished cube of random attributions."""
    names = tuple(f"x{i}" for i in range(D))
    layout = CubeLayout(
        n_rows, names, ("y",), TILE, CHUNK, keys={"id": "int64"}, run={"digest": "d"}
    )
    create_cube(path, layout)
    writer = CubeWriter(path, layout, "d")
    writer.write_base(np.zeros(1))
    rng = np.random.default_rng(0)
    for tile in range(layout.n_blocks):
        ids = np.arange(tile * TILE, min((tile + 1) * TILE, n_rows))
        n = len(ids)
        phi = rng.standard_normal((n, D, 1))
        block = RowBlock(tile * TILE, np.zeros((n, D)), np.ones(n, bool), {"id": ids})
        status = np.full(n, Status.OK, np.int8)
        writer.write(tile, block, Attribution(phi, np.zeros(1), phi.sum(axis=1), status))
    mark_finished(path)


def ingest_seconds(database: Database, table: pa.Table) -> float:
    """Seconds of one plain ingest into a new table."""
    run(database, "DROP TABLE IF EXISTS plain")
    with database.connect() as connection:
        started = time.perf_counter()
        with connection.cursor() as cursor:
            cursor.adbc_ingest("plain", table.to_reader(), mode="create")
        connection.commit()
        return time.perf_counter() - started


def run(database: Database, statement: str, *, autocommit: bool = False) -> None:
    with database.connect() as connection:
        if autocommit:
            connection.adbc_connection.set_autocommit(True)
        with connection.cursor() as cursor:
            cursor.execute(statement)
        if not autocommit:
            connection.commit()


class Loads:
    """The loads of one database, each later than the one before."""

    def __init__(self, database: Database, cube: Path, n_rows: int) -> None:
        self.database = database
        self.cube = cube
        self.n_rows = n_rows
        self.n_loads = 0
        self.sink = Sink("reasons", database, table="reasons", rows="all")

    def lines(self) -> pa.Table:
        """The lines of a whole load, in memory."""
        return pa.Table.from_batches(batches_of(self.sink, self.cube, SingleRun("r", "m")))

    def seconds(self, load: str) -> float:
        """Seconds of one load, "first" into a database without the table."""
        if load == "first":
            run(self.database, "DROP TABLE IF EXISTS reasons")
            run(self.database, "DROP TABLE IF EXISTS _dshap_runs")
        elif self.database.kind == "postgresql":
            run(self.database, "VACUUM reasons", autocommit=True)
        self.n_loads += 1
        history = FewChanged(f"r{self.n_loads:03}", "m", self.n_rows)
        sink = self.sink
        if load == "5 %":
            sink = replace(sink, rows="changed")
        result = load_sink(sink, self.cube, history, JOB)
        assert result.n_lines == self.expected(load), result
        return result.seconds

    def expected(self, load: str) -> int:
        """The lines that a load writes."""
        if load == "5 %":
            return -(-self.n_rows // STEP)
        return self.n_rows


def measured(database: Database, cube: Path, n_rows: int) -> list[LoadRates]:
    """The rates of one database."""
    loads = Loads(database, cube, n_rows)
    lines = loads.lines()
    plain = []
    seconds: dict[str, list[float]] = {load: [] for load in LOADS}
    for _ in range(3):
        plain.append(ingest_seconds(database, lines))
        for load in LOADS:
            seconds[load].append(loads.seconds(load))
    median = statistics.median(plain)
    return [
        LoadRates(
            database.kind, load, loads.expected(load), n_rows, median, statistics.median(each)
        )
        for load, each in seconds.items()
    ]


@contextlib.contextmanager
def databases(folder: Path, only: str | None) -> Iterator[list[Database]]:
    """DuckDB, SQLite and, where it is installed, a PostgreSQL that is stopped at the end."""
    files = [Database(f"{kind}:///{folder}/w.{kind}") for kind in ("duckdb", "sqlite")]
    with contextlib.ExitStack() as stack:
        if only in (None, "postgresql") and programs() is not None:
            files.append(stack.enter_context(running_postgresql()).database)
        yield [each for each in files if only in (None, each.kind)]


def main() -> None:
    """Measure, print, and store where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="a thousand rows, to see that it runs")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", choices=KINDS, help="one database")
    parser.add_argument("--json", type=Path, metavar="OUT", help="all numbers")
    given = parser.parse_args()
    n_rows = 1_000 if given.tiny else given.rows
    print(", ".join(f"{name} {version}" for name, version in machine().items()))
    print(f"{'':<18}{'lines':>12}{'plain':>10}{'load':>10}{'lines/s':>12}{'share':>8}")
    found = []
    with tempfile.TemporaryDirectory() as name, databases(Path(name), given.only) as chosen:
        made_cube(Path(name, "cube"), n_rows)
        for database in chosen:
            for own in measured(database, Path(name, "cube"), n_rows):
                print(
                    f"{own.database + ' ' + own.load:<18}{own.lines:>12,}{own.plain:>8.2f} s"
                    f"{own.seconds:>8.2f} s{own.lines / own.seconds:>12,.0f}{own.share:>8.2f}",
                    flush=True,
                )
                found.append(asdict(own) | {"share": own.share})
    print(f"peak of this process: {peak_mib():,.0f} MiB")
    write_json(given.json, {"loads": found})


if __name__ == "__main__":
    main()
