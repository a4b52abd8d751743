"""Processor time of nights on DuckDB, a row, outside of the libraries that read and explain.

    python -m tests.benchmarks.nights [--rows N ...] [--repeat R] [--folder F] [--tiny]

A table of N rows × 20 numbers is explained by a small booster: the first night, a night without
changes, and one after 5 % of the rows have changed.  Each command is a process of its own; its
processor seconds, with those of its children, less those of the same command on a table of
1,000 rows (imports, loops that are loaded), are divided by the rows.  "outside" is that without the time
in which DuckDB reads the rows and the trees are evaluated, both measured alone.  Give a --folder on
a disk or in memory; each figure is the median of R repetitions.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.night_memory import peak_of
from tests.benchmarks.peers import machine

ROWS = (1_000_000,)
TINY = (2_000,)
BASE_ROWS = 1_000
"""The rows of the table whose nights cost what no row costs."""
COLUMNS = 20
CHANGED = 20
"""One row of so many is changed: 5 %."""
NIGHTS = ("first", "unchanged", "5 % changed", "unchanged again")
JOB = """
[job]
name = "nights"
store = "store"
[source]
kind = "sql"
uri = "duckdb:///shop.duckdb"
table = "shop"
key = "id"
[model]
kind = "xgboost"
path = "model.json"
[[explain]]
name = "reasons"
value = "trees"
[incremental]
strategy = "digest"
[worker]
cores = 1
"""
EXPLAINING = """
import sys, time
import numpy as np
import pandas as pd
import xgboost
import dshap
model = xgboost.XGBRegressor()
model.load_model("model.json")
rows = np.random.default_rng(0).random((int(sys.argv[1]), int(sys.argv[2])))
first = pd.DataFrame(rows[:1000], columns=[f"x{j}" for j in range(rows.shape[1])])
attributor = dshap.prepare(dshap.values.Trees(model), first, store="prepared").attributor()
attributor.attribute(rows[:1000])
started = time.process_time()
for start in range(0, len(rows), 32_768):
    attributor.attribute(rows[start : start + 32_768])
print((time.process_time() - started) / len(rows))
"""
READING = """
from dshap.warehouse.databases import Database
with Database("duckdb:///shop.duckdb").connect() as connection, connection.cursor() as cursor:
    cursor.execute("SELECT * FROM shop")
    for _ in cursor.fetch_record_batch():
        pass
"""


def make_table(folder: Path, n_rows: int) -> None:
    """Write a database with a table, a booster and a job into a folder."""
    import duckdb
    import xgboost

    columns = ", ".join(f"random() AS x{j}" for j in range(COLUMNS))
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute("SELECT setseed(0.5)")
        connection.execute(
            f"CREATE TABLE shop AS SELECT i AS id, {columns} FROM range({n_rows}) t(i)"
        )
        rows = connection.execute("SELECT * EXCLUDE id FROM shop LIMIT 1000").fetch_df()
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=3)
    model.fit(rows.to_numpy(), (rows.x0 * rows.x1 + rows.x2).to_numpy())
    model.get_booster().feature_names = list(rows.columns)
    model.save_model(folder / "model.json")
    (folder / "job.toml").write_text(JOB)


def change_rows(folder: Path) -> None:
    """Give a column of 5 % of the rows other values."""
    import duckdb

    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute(f"UPDATE shop SET x1 = random() WHERE id % {CHANGED} = 7")


def night_seconds(folder: Path) -> list[float]:
    """The processor seconds of each of `NIGHTS`, in a folder that has had none."""
    found = []
    for name in NIGHTS:
        if name == "5 % changed":
            change_rows(folder)
        *_, seconds = peak_of(["-m", "dshap", "run", "job.toml", "-q"], folder)
        found.append(seconds)
    return found


def seconds_of_nights(n_rows: int, repeat: int, parent: Path | None) -> list[list[float]]:
    """(nights, repeat): the processor seconds of the nights, each time in a new folder.

    Behind them are those in which DuckDB reads the table.
    """
    found = []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory(dir=parent) as made:
            folder = Path(made)
            make_table(folder, n_rows)
            seconds = night_seconds(folder)
            *_, reading = peak_of(["-c", READING], folder)
            found.append([*seconds, reading])
    return [list(each) for each in zip(*found, strict=True)]


def explaining_seconds(parent: Path | None) -> float:
    """The processor seconds in which the trees of a row are evaluated."""
    with tempfile.TemporaryDirectory(dir=parent) as made:
        folder = Path(made)
        make_table(folder, BASE_ROWS)
        command = [sys.executable, "-c", EXPLAINING, "200000", str(COLUMNS)]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        return float(done.stdout)


def lines(n_rows: int, base: Sequence[Sequence[float]], args: argparse.Namespace) -> list[str]:
    """The lines of a table with so many rows."""
    seconds = seconds_of_nights(n_rows, args.repeat, args.folder)
    explaining = explaining_seconds(args.folder)
    by_row = [
        (statistics.median(each) - statistics.median(first)) / (n_rows - BASE_ROWS)
        for each, first in zip(seconds, base, strict=True)
    ]
    reading = by_row[-1]
    shares = dict(zip(NIGHTS, (1.0, 0.0, 1 / CHANGED, 0.0), strict=True))
    made = []
    for name, all_of_it, first in zip(NIGHTS, by_row, base, strict=False):
        outside = all_of_it - reading - shares[name] * explaining
        made.append(
            f"{name:<16}{n_rows:>11,}{statistics.median(first):>9.1f}{1e6 * all_of_it:>9.2f}"
            f"{1e6 * reading:>9.2f}{1e6 * shares[name] * explaining:>9.2f}{1e6 * outside:>9.2f}"
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    if args.tiny:
        args.rows, args.repeat = TINY, 1
    print(machine())
    print("seconds of a table of 1,000 rows; then microseconds of a core a row")
    print(
        f"{'night':<16}{'rows':>11}{'fixed s':>9}{'all':>9}{'DuckDB':>9}{'trees':>9}{'outside':>9}"
    )
    base = seconds_of_nights(BASE_ROWS, args.repeat, args.folder)
    for n_rows in args.rows:
        print("\n".join(lines(n_rows, base, args)), flush=True)


if __name__ == "__main__":
    main()
