"""Three nights of a warehouse: a table of 1,000,000 × 20, XGBoost, a wide sink in the same database.

The first night explains all rows; the second finds the same data; before the third 5 % of the rows
are new or changed and 1 % are gone.  After each night the sink's table is held against the cube, row
by row, in SQL.  With --kills the third night is killed at random moments, and finished by the same
command.

Usage: python -m tests.benchmarks.nights [--database duckdb|sqlite|postgresql] [--rows N] [--kills K]
       [--tiny] [--json OUT]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xgboost

import dshap
from dshap.history.run_record import read_records
from dshap.warehouse.databases import Database
from tests.benchmarks.peers import machine, write_json

COLUMNS = 20
ROWS = 1_000_000
TINY = 300
BATCH = 100_000
NAMES = [f"x{j}" for j in range(COLUMNS)]
DATABASES = ("duckdb", "sqlite", "postgresql")


@dataclass(frozen=True)
class Night:
    """One line of the table."""

    database: str
    night: str
    seconds: float
    new: int
    changed: int
    unchanged: int
    deleted: int
    kills: int
    """1 where the night was killed, and finished by the same command; the seconds are of both."""


class Warehouse:
    """A database with the table `customers`, and the job that explains it."""

    def __init__(self, database: Database, folder: Path, n_rows: int) -> None:
        self.database = database
        self.folder = folder
        self.n_rows = n_rows
        self.last = 0
        self.took = 0.0
        """Seconds of the last night that was not killed."""

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def make(self) -> None:
        """Write the table, the model and the job."""
        rng = np.random.default_rng(0)
        with self.database.connect() as connection, connection.cursor() as cursor:
            for start in range(0, self.n_rows, BATCH):
                n = min(BATCH, self.n_rows - start)
                columns = {"id": np.arange(start, start + n)}
                columns |= {name: np.round(rng.normal(size=n), 6) for name in NAMES}
                mode = "create" if start == 0 else "append"
                cursor.adbc_ingest("customers", pa.table(columns), mode=mode)
            connection.commit()
        x = rng.normal(size=(20_000, COLUMNS))
        y = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3:8].sum(axis=1) * (x[:, 8] > 0)
        fitted = xgboost.XGBRegressor(n_estimators=40, max_depth=4, nthread=2, seed=0)
        fitted.fit(x, y)
        fitted.get_booster().feature_names = NAMES
        fitted.save_model(self.folder / "model.json")
        self.job.write_text(JOB.format(uri=self.database.uri))

    @property
    def job(self) -> Path:
        return self.folder / "job.toml"

    def trade(self, n_new: int, n_changed: int, n_gone: int) -> None:
        """Change rows, take some away and put new ones in."""
        columns = ", ".join(f"{name} + 0.5" for name in NAMES)
        self.last += self.n_rows
        self.execute(
            f"update customers set x1 = x1 + 1, x7 = 0 where id < {n_changed}",
            f"delete from customers where id >= {self.n_rows - n_gone} and id < {self.n_rows}",
            f"insert into customers select id + {self.last}, {columns} from customers where id < {n_new}",
        )

    def execute(self, *statements: str) -> None:
        with self.database.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def run(self, kill_after: float | None = None) -> bool:
        """Run the job as a command; whether it came to its end."""
        command = [sys.executable, "-m", "dshap", "run", str(self.job), "-q"]
        started = subprocess.Popen(command)
        try:
            status = started.wait(kill_after)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
            return False
        assert status == 0, f"dshap run ended with {status}"
        return True

    def refuse_differences(self) -> None:
        """Raise where the sink's table is not the cube, or the cube not the table."""
        cube = dshap.open_cube(self.store / "reasons")
        values = cube["attribution"].squeeze("output").to_numpy()
        names = [f"phi_{name}" for name in NAMES]
        expected = {"id": cube["id"].to_numpy()}
        expected |= {name: values[:, j] for j, name in enumerate(names)}
        expected |= {"prediction": cube["prediction"].squeeze("output").to_numpy()}
        counted = "select count(*) from customers"
        compared = " and ".join(f"e.{name} = r.{name}" for name in expected)
        with self.database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("drop table if exists expected")
            cursor.adbc_ingest("expected", pa.table(expected), mode="create")
            found = [
                _one(cursor, counted),
                _one(cursor, "select count(*) from expected"),
                _one(cursor, "select count(*) from reasons where status <> 'deleted'"),
                _one(cursor, f"select count(*) from expected e join reasons r on {compared}"),
                _one(
                    cursor,
                    "select count(distinct r.id) from reasons r join customers c on c.id = r.id",
                ),
            ]
            connection.rollback()
        assert len(set(found)) == 1, f"rows of table, cube, sink, equal, keys: {found}"


def _one(cursor: Any, query: str) -> int:
    cursor.execute(query)
    return int(cursor.fetchone()[0])


JOB = (
    """
[job]
name = "nights"
store = "store"
[source]
kind = "sql"
uri = "{uri}"
table = "customers"
key = ["id"]
features = ["""
    + ", ".join(f'"{name}"' for name in NAMES)
    + """]
[model]
kind = "xgboost"
path = "model.json"
[[explain]]
name = "reasons"
value = "trees"
[incremental]
strategy = "digest"
[[sink]]
uri = "{uri}"
table = "reasons"
[cluster]
kind = "local"
workers = 2
"""
)


@contextlib.contextmanager
def opened(kind: str, folder: Path) -> Iterator[Database]:
    """A database of this kind, that is gone at the end."""
    if kind != "postgresql":
        yield Database(f"{kind}:///{folder}/warehouse.{kind}")
        return
    from tests.databases import PASSWORD, running_postgresql

    os.environ["PGPASSWORD"] = PASSWORD  # a job file holds none
    with running_postgresql() as server:
        yield Database(server.uri(password=None))


def nights(kind: str, n_rows: int, n_kills: int, folder: Path) -> Iterator[Night]:
    """The three nights, each checked."""
    with opened(kind, folder) as database:
        warehouse = Warehouse(database, folder, n_rows)
        warehouse.make()
        yield one_night(warehouse, "first", 0)
        yield one_night(warehouse, "the same", 0)
        warehouse.trade(n_rows // 50, 3 * n_rows // 100, n_rows // 100)
        yield one_night(warehouse, "5 % and 1 %", 0)
        for number in range(n_kills):
            warehouse.trade(n_rows // 50, 3 * n_rows // 100, 0)
            yield one_night(warehouse, f"killed {number}", number + 1)


def one_night(warehouse: Warehouse, name: str, seed: int) -> Night:
    """Run a night, killed once at a random moment where there is a seed; then check it."""
    started = time.monotonic()
    kills = 0
    if seed:
        kills = int(not warehouse.run(random.Random(seed).uniform(0.0, 1.0) * warehouse.took))
    warehouse.run()
    seconds = time.monotonic() - started
    if not seed:
        warehouse.took = seconds
    record = read_records(warehouse.store)[-1]
    keys = record.explanation("reasons")["adapter_response"]["keys"]  # type: ignore[index]
    warehouse.refuse_differences()
    counts = [keys[word] for word in ("new", "changed", "unchanged", "deleted")]
    return Night(warehouse.database.kind, name, seconds, *counts, kills)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", choices=DATABASES, default="duckdb")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    n_rows = TINY if given.tiny else given.rows
    print(machine())
    print(f"{'night':<14}{'seconds':>9}{'new':>11}{'changed':>10}{'unchanged':>11}{'deleted':>9}")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for night in nights(given.database, n_rows, given.kills, Path(folder)):
            print(
                f"{night.night:<14}{night.seconds:>9.1f}{night.new:>11,}{night.changed:>10,}"
                f"{night.unchanged:>11,}{night.deleted:>9,}",
                flush=True,
            )
            found.append(night)
    write_json(given.json, {"nights": [asdict(night) for night in found]})


if __name__ == "__main__":
    main()
