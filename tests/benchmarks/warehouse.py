"""Rates of databases, each beside the plain thing: an ADBC ingest of the same table.

`load`: a finished cube of n rows × 20 features into a wide table, the first load (the table is
made) and a second one of all rows (every line replaced), beside one `adbc_ingest` of the same
columns, in memory, into a new table.  Every pair is measured in one run, the plain thing first and
last.

Usage: python -m tests.benchmarks.warehouse [--tiny] [--rows N] [--json OUT]
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dshap.core.blocks import Attribution, RowBlock, Status
from dshap.cube import CubeLayout, CubeWriter, create_cube, mark_finished
from dshap.sinks import SingleRun, Sink, load_sink
from dshap.sinks.shapes import batches_of
from dshap.tables.databases import Database
from tests.benchmarks.peers import machine, write_json
from tests.databases import running_postgresql

D = 20
TILE, CHUNK = 32_768, 4_096
JOB = "benchmark"


@dataclass(frozen=True)
class LoadRates:
    """One line of the table of loads."""

    database: str
    rows: int
    ingest: float
    """Seconds of the plain ingest, the mean of two."""
    first: float
    """Seconds of the first load."""
    again: float
    """Seconds of a load that replaces all lines."""

    @property
    def share(self) -> float:
        """The rate of the first load over that of the plain ingest."""
        return self.ingest / self.first


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
    with database.connect() as connection:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS plain")
        connection.commit()
        started = time.perf_counter()
        with connection.cursor() as cursor:
            cursor.adbc_ingest("plain", table.to_reader(), mode="create")
        connection.commit()
        return time.perf_counter() - started


def load_rates(database: Database, cube: Path, n_rows: int) -> LoadRates:
    sink = Sink("reasons", database, table="reasons", rows="all")
    table = pa.Table.from_batches(batches_of(sink, cube, SingleRun("r0", "m")))
    before = ingest_seconds(database, table)
    first = load_sink(sink, cube, SingleRun("r1", "m"), JOB)
    again = load_sink(sink, cube, SingleRun("r2", "m"), JOB)
    after = ingest_seconds(database, table)
    assert first.n_lines == again.n_lines == n_rows
    return LoadRates(database.kind, n_rows, (before + after) / 2, first.seconds, again.seconds)


@contextlib.contextmanager
def databases(folder: Path) -> Iterator[list[Database]]:
    """DuckDB, SQLite and, where it is installed, a PostgreSQL that is stopped at the end."""
    files = [Database(f"{kind}:///{folder}/w.{kind}") for kind in ("duckdb", "sqlite")]
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(running_postgresql())
        except pytest.skip.Exception:
            yield files
        else:
            yield [*files, server.database]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="a thousand rows, to see that it runs")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    n_rows = 1_000 if given.tiny else given.rows
    found: list[dict[str, Any]] = []
    print(machine())
    print(f"{'load':<12}{'rows':>12}{'ingest s':>10}{'first s':>10}{'again s':>10}{'share':>8}")
    with tempfile.TemporaryDirectory() as folder, databases(Path(folder)) as chosen:
        made_cube(Path(folder, "cube"), n_rows)
        for database in chosen:
            each = load_rates(database, Path(folder, "cube"), n_rows)
            print(
                f"{each.database:<12}{each.rows:>12,}{each.ingest:>10.2f}{each.first:>10.2f}"
                f"{each.again:>10.2f}{each.share:>8.2f}"
            )
            found.append(asdict(each) | {"share": each.share})
    write_json(given.json, {"loads": found})


if __name__ == "__main__":
    main()
