"""Decisions with reason codes in full size: loads beside plain top-k loads of the same cube, and a replay.

    python -m tests.benchmarks.decisions [--rows N] [--replay N] [--kinds duckdb postgresql] [--folder F]
                                         [--rounds N] [--tiny]

A job explains N rows of 12 columns by orders of the columns, each pair with a background row of its own
among all N, and loads their reasons (6 codes, with errors) into each database.  Then processes of their
own load the cube again into new tables: the reasons, and the 4 largest attributions of each row, in
turn.  Seconds are medians over the rounds; "server" are the processor seconds of PostgreSQL, the peak
is that of the process that loads.  At the end `dshap attest --verify` compares the tables with the cube,
and `dshap replay` computes rows again, which together derive every notice again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from dshap.sinks import SingleRun, Sink, load_sink
from dshap.sinks.code_books import read_code_book
from dshap.warehouse.databases import Database
from tests.benchmarks.peers import machine
from tests.databases import PASSWORD, Server, running_postgresql

KINDS = ("duckdb", "postgresql")
SHAPES = ("top_k", "reasons")
MODEL = """
import numpy as np

WEIGHTS = np.array([1.0, -0.8, 0.6, -0.5, 0.7, 0.5, 0.3, 0.3, -0.3, 0.3, 0.3, -0.3])

def predict(x):
    return x @ WEIGHTS + 0.2 * x[:, 0] * x[:, 1]
"""
JOB = """
[job]
name = "credit"
store = "store"
[source]
kind = "parquet"
path = "rows.parquet"
key = ["id"]
features = {features}
[model]
kind = "import"
function = "credit_model:predict"
[[explain]]
name = "reasons"
value = "marginal"
background = "all"
[design]
kind = "permutation"
n_permutations = {n_orders}
[run]
keep_rows = true
[worker]
cores = 1
"""
SINK = """
[[sink]]
name = "notices in {kind}"
uri = "{uri}"
table = "notices"
shape = "reasons"
codes = "codes.csv"
against = "higher"
"""
D = 12
SIZES = (1, 2, 3, 1, 3, 2)
"""The columns of each code."""
BATCH = 100_000
TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """The cost of one command or load."""

    seconds: float
    core_seconds: float
    """Processor seconds of the process and its children."""
    server_seconds: float
    """Processor seconds of the server of the database."""
    peak_mib: float
    output: str


def codes() -> dict[str, list[str]]:
    """Code -> its columns."""
    ends = np.cumsum(SIZES)
    return {
        f"R{code}": [f"x{j}" for j in range(end - size, end)]
        for code, (end, size) in enumerate(zip(ends, SIZES, strict=True))
    }


def write_job(folder: Path, uris: dict[str, str], n_rows: int, n_orders: int) -> None:
    """The job, its model, its code book and its rows."""
    features = [f"x{j}" for j in range(D)]
    job = JOB.format(features=json.dumps(features), n_orders=n_orders)
    sinks = [SINK.format(kind=kind, uri=uri) for kind, uri in uris.items()]
    (folder / "job.toml").write_text(job + "".join(sinks))
    (folder / "credit_model.py").write_text(MODEL)
    lines = [f"{code},{';'.join(names)},Reason {code}" for code, names in codes().items()]
    (folder / "codes.csv").write_text("\n".join(["code,players,text", *lines]))
    rng = np.random.default_rng(1)
    loadings = rng.normal(size=(D, 6))
    x = rng.normal(size=(n_rows, 6)) @ loadings.T * 0.5 + rng.normal(size=(n_rows, D))
    frame = pd.DataFrame(x.round(4), columns=features)
    frame.insert(0, "id", np.arange(n_rows))
    frame.to_parquet(folder / "rows.parquet", row_group_size=BATCH)


def cost_of(arguments: Sequence[str], folder: Path, server: Server | None = None) -> Cost:
    """Run a command of Python in a process of its own."""
    before = _server_seconds(server)
    started = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{Path.cwd()}"}
    with tempfile.TemporaryFile("w+") as output:
        command = [sys.executable, *arguments]
        running = subprocess.Popen(command, cwd=folder, env=environment, stdout=output)
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - started
        output.seek(0)
        said = output.read()
    if running.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {running.returncode}: {said}")
    cores = usage.ru_utime + usage.ru_stime
    return Cost(
        seconds, cores, _server_seconds(server) - before, usage.ru_maxrss / 1024, said.strip()
    )


def _server_seconds(server: Server | None) -> float:
    """Processor seconds of a server so far, with those of its processes that have ended."""
    if server is None:
        return 0.0
    first = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = stat.read_text().rpartition(")")
            pid = int(name.split()[0])
            words = rest.split()
            if pid == first:
                total += sum(map(int, words[11:15]))
            elif int(words[1]) == first:
                total += sum(map(int, words[11:13]))
    return total / TICKS


def load(folder: str, shape: str, uri: str, table: str) -> None:
    """Load the cube of the job, and print seconds and processor seconds of the load alone."""
    options = {"k": 4}
    if shape == "reasons":
        options = {"codes": read_code_book(Path(folder, "codes.csv")), "against": "higher"}
    sink = Sink("reasons", Database(uri), table=table, shape=shape, **options)
    started, began = time.perf_counter(), time.process_time()
    done = load_sink(sink, f"{folder}/store/reasons", SingleRun("20261130T000000Z", "m"), "other")
    cost = [time.perf_counter() - started, time.process_time() - began, done.n_lines]
    print(json.dumps(cost))


def load_cost(folder: Path, shape: str, uri: str, table: str, server: Server | None) -> Cost:
    """The cost of a load in a process of its own, without that of starting the process."""
    code = f"from tests.benchmarks.decisions import load; load({str(folder)!r}, {shape!r}, {uri!r}, {table!r})"
    cost = cost_of(["-c", code], folder, server)
    seconds, cores, n_lines = json.loads(cost.output)
    return cost._replace(seconds=seconds, core_seconds=cores, output=f"{n_lines:,} lines")


def measure_loads(folder: Path, kind: str, uri: str, server: Server | None, n_rounds: int) -> None:
    """Load both shapes in turn, and print medians and ratios."""
    costs: dict[str, list[Cost]] = {shape: [] for shape in SHAPES}
    for number in range(n_rounds):
        for shape in SHAPES:
            table = f"{shape}_{number}"
            costs[shape].append(load_cost(folder, shape, uri, table, server))
            _drop(uri, table)
    medians = {}
    for shape, found in costs.items():
        values = [statistics.median(column) for column in list(zip(*found, strict=True))[:4]]
        medians[shape] = values
        wall, cores, server_cores, peak = values
        print(
            f"{kind:<11}{shape:<9}{found[0].output:>16}: {wall:.1f} s, {cores:.1f} core s, server "
            f"{server_cores:.1f} core s, peak {peak:,.0f} MiB; {_load_average()}",
            flush=True,
        )
    plain, reasons = (medians[shape] for shape in SHAPES)
    cores = (reasons[1] + reasons[2]) / (plain[1] + plain[2])
    print(
        f"{kind:<11}reasons beside top_k: {reasons[0] / plain[0]:.2f} x the time, {cores:.2f} x the "
        f"processor time, {reasons[3] / plain[3]:.2f} x the memory",
        flush=True,
    )


def _drop(uri: str, table: str) -> None:
    with Database(uri).connect() as connection:
        for statement in (f"DROP TABLE {table}", "DROP TABLE _dshap_runs"):
            with connection.cursor() as cursor:
                cursor.execute(statement)
        connection.commit()


def _load_average() -> str:
    return f"load average {os.getloadavg()[0]:.1f}"


def _say(name: str, cost: Cost) -> None:
    print(
        f"{name}: {cost.seconds:.1f} s, {cost.core_seconds:.1f} core s, server "
        f"{cost.server_seconds:.1f} core s, peak {cost.peak_mib:,.0f} MiB; {_load_average()}",
        flush=True,
    )


@contextlib.contextmanager
def places(folder: Path, kinds: Sequence[str]) -> Iterator[tuple[dict[str, str], Server | None]]:
    """Kind of database -> the address of an empty one; and the server."""
    uris = {"duckdb": f"duckdb:///{folder}/shop.duckdb"}
    if "postgresql" not in kinds:
        yield uris, None
        return
    os.environ["PGPASSWORD"] = PASSWORD  # a job file holds none
    with running_postgresql() as server:
        uris["postgresql"] = server.uri(password=None)
        yield {kind: uris[kind] for kind in kinds}, server


def measure(
    folder: Path, kinds: Sequence[str], n_rows: int, n_replayed: int, n_orders: int, rounds: int
) -> None:
    """Print the cost of each part."""
    with places(folder, kinds) as (uris, server):
        write_job(folder, uris, n_rows, n_orders)
        _say("dshap run", cost_of(["-m", "dshap", "run", "job.toml", "-q"], folder, server))
        check = cost_of(["-m", "dshap", "attest", "store", "--verify"], folder, server)
        _say("dshap attest --verify", check)
        print(check.output, flush=True)
        for kind, uri in uris.items():
            other = uri
            if kind == "duckdb":
                other = f"duckdb:///{folder}/other.duckdb"
            elif server is not None:
                other = server.with_new_database().uri(password=None)
            measure_loads(folder, kind, other, server, rounds)
        rows = ["--rows", str(n_replayed or n_rows)]
        replay = cost_of(["-m", "dshap", "replay", "store", *rows], folder, server)
        _say("dshap replay", replay)
        print(replay.output, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--replay", type=int, default=0, help="rows to replay; 0: all")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--orders", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    if given.tiny:
        given.rows, given.kinds, given.rounds = 300, ["duckdb"], 1
    print(machine())
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        measure(Path(folder), given.kinds, given.rows, given.replay, given.orders, given.rounds)


if __name__ == "__main__":
    main()
