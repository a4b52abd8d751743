"""Rates of spooling a database, beside the plain thing: record batches of ADBC to one Parquet file.

n rows × 20 columns (a key, 17 numbers, a text, a day).  "plain" is the loop that one would write:
`SELECT * FROM t`, `fetch_record_batch`, `ParquetWriter.write_batch` with the options of the parts.
"spool" is everything that a run does before it explains: types looked at, parts of whole row
groups synced to the disk, rows counted, keys searched for repeats, the snapshot.  The two take
turns; seconds are medians of three.

Usage: python -m tests.benchmarks.spools [--tiny] [--rows N] [--only KIND] [--json OUT]
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow.parquet as pq

from dshap.warehouse.database_rows import DatabaseRows
from dshap.warehouse.databases import Database
from dshap.warehouse.queries import Query
from dshap.warehouse.reading_once import SpoolRules, spool_rows
from tests.benchmarks.peers import machine, peak_mib, write_json
from tests.databases import programs, running_postgresql

N_NUMBERS = 17
DAY = datetime.date(2026, 11, 27)
KINDS = ("duckdb", "sqlite", "postgresql")
QUERY = "SELECT * FROM t"
NUMBERS = {
    "duckdb": "range({last} + 1) AS n(i)",
    "sqlite": "(WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {last}) "
    "SELECT i FROM n)",
    "postgresql": "generate_series(0::bigint, {last}) AS n(i)",
}
"""Kind -> the numbers from 0."""


@dataclass(frozen=True)
class Rates:
    """One line of the table; seconds are medians."""

    database: str
    what: str
    rows: int
    readers: int
    plain: float
    spool: float

    @property
    def share(self) -> float:
        """The rate of the spool over that of the plain loop."""
        return self.plain / self.spool


def fill(database: Database, n_rows: int) -> None:
    """Make the table t of the same rows in each database."""
    numbers = [f"x{j} DOUBLE PRECISION" for j in range(N_NUMBERS)]
    made = [f"((i * {2 * j + 3}) % 100003) / 7.0" for j in range(N_NUMBERS)]
    day = {"sqlite": "date('2026-11-01', (i % 40) || ' days')"}.get(
        database.kind, "DATE '2026-11-01' + CAST(i % 40 AS INTEGER)"
    )
    plan = "CASE i % 3 WHEN 0 THEN 'basic' WHEN 1 THEN 'plus' ELSE NULL END"
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE t (id BIGINT, {', '.join(numbers)}, plan VARCHAR(20), since DATE)"
        )
        cursor.execute(
            f"INSERT INTO t SELECT i, {', '.join(made)}, {plan}, {day} "
            f"FROM {NUMBERS[database.kind].format(last=n_rows - 1)}"
        )
        connection.commit()


def plain(database: Database, folder: Path) -> None:
    """Write the batches of the query as they come."""
    with database.connect(read_only=True) as connection, connection.cursor() as cursor:
        cursor.execute(QUERY)
        reader = cursor.fetch_record_batch()
        options = {"compression": "lz4", "use_dictionary": False}
        with pq.ParquetWriter(folder / "plain.parquet", reader.schema, **options) as writer:
            for batch in reader:
                writer.write_batch(batch)


def seconds_of_plain(database: Database, folder: Path) -> float:
    started = time.perf_counter()
    plain(database, folder)
    return time.perf_counter() - started


def seconds_of_spool(database: Database, query: Query, folder: Path) -> tuple[float, int]:
    """Seconds of a spool, and the number of its readers."""
    started = time.perf_counter()
    snapshot = spool_rows(
        DatabaseRows(database, query), folder / "parts", DAY, SpoolRules(keys=("id",)), print
    )
    seconds = time.perf_counter() - started
    shutil.rmtree(folder / "parts")
    return seconds, snapshot.detail["readers"]


def measured(database: Database, what: str, n_rows: int, folder: Path) -> Rates:
    query = {"query": Query(query=QUERY), "table": Query(table="t")}[what]
    plains, spools = [], []
    readers = 0
    for _ in range(3):
        plains.append(seconds_of_plain(database, folder))
        seconds, readers = seconds_of_spool(database, query, folder)
        spools.append(seconds)
    medians = statistics.median(plains), statistics.median(spools)
    return Rates(database.kind, what, n_rows, readers, *medians)


@contextlib.contextmanager
def databases(folder: Path) -> Iterator[list[Database]]:
    """DuckDB, SQLite and, where it is installed, a PostgreSQL that is stopped at the end."""
    files = [Database(f"{kind}:///{folder}/shop.{kind}") for kind in ("duckdb", "sqlite")]
    if programs() is None:
        yield files
        return
    with running_postgresql() as server:
        yield [*files, server.database]


def main() -> None:
    """Measure, print, and store where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="5,000 rows, to see that it runs")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", choices=KINDS, help="one database")
    parser.add_argument("--json", type=Path, metavar="OUT", help="all numbers")
    given = parser.parse_args()
    n_rows = 5_000 if given.tiny else given.rows
    print(", ".join(f"{name} {version}" for name, version in machine().items()))
    print(f"{'':<20}{'rows':>12}{'readers':>9}{'plain':>10}{'spool':>10}{'rows/s':>12}{'share':>8}")
    found = []
    with tempfile.TemporaryDirectory() as name, databases(Path(name)) as chosen:
        for database in chosen:
            if given.only not in (None, database.kind):
                continue
            fill(database, n_rows)
            for what in ("query", "table"):
                own = measured(database, what, n_rows, Path(name))
                print(
                    f"{own.database + ' ' + own.what:<20}{own.rows:>12,}{own.readers:>9}"
                    f"{own.plain:>8.2f} s{own.spool:>8.2f} s{own.rows / own.spool:>12,.0f}"
                    f"{own.share:>8.2f}",
                    flush=True,
                )
                found.append(asdict(own) | {"share": own.share})
    print(f"peak of this process: {peak_mib():,.0f} MiB")
    write_json(given.json, {"results": found})


if __name__ == "__main__":
    main()
