"""The sums of rows that share values, with the explicit vectors of `dshap.loops.simd` and in plain
numba: whole runs.

Two tables whose rows share values, lifts and hours of bikes, a kernel model of each, all coalitions
of 8 columns, every row explained with the others as background, learning included, in one thread.
Both kinds are compiled before anything is measured and take turns; the median of three counts, in
seconds of the processor, which other work on the machine does not change much, and of the clock.
The attributions of both are compared bit by bit.

Usage: python -m tests.benchmarks.lanes [--tiny] [--data FOLDER] [--rows 200000] [--landmarks 500]
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numba import njit

import dshap
from dshap import designs
from dshap.core.records import FloatArray
from dshap.core.threads import one_blas_thread
from dshap.kernels import RBF, Nystrom
from dshap.loops import shared_sums
from dshap.loops.shared_sums import contract_column, entries_of_level, finished_sums
from dshap.loops.sizes import LAST_COLUMNS, TERM_BLOCK, WIDTH
from dshap.loops.subset_products import FUSED, aligned_zeros
from dshap.models import KernelRidge
from dshap.tables import SyntheticTable
from tests.benchmarks.peers import FEATURES, TARGET, machine

FILES = {"lifts": "powerlifting.parquet", "bikes": "bike_hour.parquet"}
BIKES = ["mnth", "hr", "weekday", "workingday", "weathersit", "temp", "hum", "windspeed", "count"]
COLUMNS = {"lifts": [*FEATURES, TARGET], "bikes": BIKES}
"""The target last."""


@njit(nogil=True, fastmath=FUSED)
def add_row(store, first, second, third, depth, sums):
    """sums[slot, lane] += Σ of one row: of all columns, of the products of the last three, of each
    other column."""
    for start in range(0, TERM_BLOCK, WIDTH):
        for lane in range(WIDTH):
            q = start + lane
            a, b, c = first[q], second[q], third[q]
            bc, ac, ab = b * c, a * c, a * b
            abc = a * bc
            sums[0, lane] += abc * store[0, q]
            sums[1, lane] += c * store[2, q]
            sums[2, lane] += b * store[3, q]
            sums[3, lane] += bc * store[4, q]
            sums[4, lane] += a * store[5, q]
            sums[5, lane] += ac * store[6, q]
            sums[6, lane] += ab * store[7, q]
            sums[7, lane] += abc * store[8, q]
    for member in range(1, depth + 1):
        at = 1 + 8 * member
        for start in range(0, TERM_BLOCK, WIDTH):
            for lane in range(WIDTH):
                q = start + lane
                a, b, c = first[q], second[q], third[q]
                bc = b * c
                added = (
                    sums[7 + member, lane]
                    + store[at, q]
                    + c * store[at + 1, q]
                    + b * store[at + 2, q]
                )
                added = (
                    added + bc * store[at + 3, q] + a * store[at + 4, q] + a * c * store[at + 5, q]
                )
                sums[7 + member, lane] = (
                    added + a * b * store[at + 6, q] + a * bc * store[at + 7, q]
                )


@njit(nogil=True)
def plain_contracted_sums(table, whole, factors, where, changed):
    """`dshap.loops.shared_sums.contracted_sums` without explicit vectors."""
    n, c = where.shape
    blocks, k = table.shape[:2]
    depth = c - LAST_COLUMNS
    begin = np.zeros(depth + 2, dtype=np.int64)
    for column in range(depth + 1):
        begin[column + 1] = begin[column] + entries_of_level(c, column)
    store = aligned_zeros(begin[depth + 1] * TERM_BLOCK).reshape(begin[depth + 1], TERM_BLOCK)
    sums, none = np.zeros((k, n, (1 << LAST_COLUMNS) + depth, WIDTH)), np.zeros((1, TERM_BLOCK))
    for block in range(blocks):
        for output in range(k):
            store[0] = whole[block, output, 0]
            store[1 : begin[1]] = table[block, output]
            for row in range(n):
                for column in range(changed[row], depth):
                    factor, half = factors[block, where[row, column]], 1 << (c - column - 1)
                    contract_column(
                        store[begin[column] :],
                        store[begin[column + 1] :],
                        column,
                        half,
                        factor,
                        none,
                    )
                first, second = (
                    factors[block, where[row, depth]],
                    factors[block, where[row, depth + 1]],
                )
                third = factors[block, where[row, depth + 2]]
                add_row(store[begin[depth] :], first, second, third, depth, sums[output, row])
    return finished_sums(sums, c)


@njit(nogil=True, fastmath=FUSED)
def add_row_products(first, second, third, total):
    """total[e, q] += the products of the last three columns of one row, e from 1."""
    for q in range(TERM_BLOCK):
        a, b, c = first[q], second[q], third[q]
        bc = b * c
        total[1, q] += c
        total[2, q] += b
        total[3, q] += bc
        total[4, q] += a
        total[5, q] += a * c
        total[6, q] += a * b
        total[7, q] += a * bc


@njit(nogil=True, fastmath=FUSED)
def expand(low, high, factor, given, half):
    """low += x, high += factor · x, x = 0, for half a table of entries x in `given`."""
    for entry in range(half):
        for q in range(TERM_BLOCK):
            x = given[entry, q]
            low[entry, q] += x
            high[entry, q] += factor[q] * x
            given[entry, q] = 0.0


@njit(nogil=True)
def plain_expanded_sums(factors, where, changed, total):
    """`dshap.loops.shared_sums.expanded_sums` without explicit vectors."""
    n, c = where.shape
    depth = c - LAST_COLUMNS
    begin = np.zeros(depth + 2, dtype=np.int64)
    for column in range(depth + 1):
        begin[column + 1] = begin[column] + (1 << (c - column))
    store = aligned_zeros(begin[depth + 1] * TERM_BLOCK).reshape(begin[depth + 1], TERM_BLOCK)
    for block in range(factors.shape[0]):
        store[: begin[1]] = total[block]
        start = 0
        while start < n:
            stop = start + 1
            while stop < n and changed[stop] >= depth:
                stop += 1
            last = store[begin[depth] :]
            for row in range(start, stop):
                first, second = (
                    factors[block, where[row, depth]],
                    factors[block, where[row, depth + 1]],
                )
                add_row_products(first, second, factors[block, where[row, depth + 2]], last)
            for q in range(TERM_BLOCK):
                last[0, q] += stop - start
            left = changed[stop] if stop < n else 0
            for column in range(depth - 1, left - 1, -1):
                half, low = 1 << (c - column - 1), begin[column]
                factor = factors[block, where[start, column]]
                expand(store[low:], store[low + half :], factor, store[begin[column + 1] :], half)
            start = stop
        total[block] = store[: begin[1]]


def made_up(name: str, n: int) -> FloatArray:
    """(n, columns and target): lifts, or whole numbers of few values each."""
    if name == "lifts":
        block = SyntheticTable(
            "powerlifting", n, features=list(FEATURES), target=TARGET, key=()
        ).read(0, n, target=True)
        return np.column_stack([block.x, block.targets])
    rng = np.random.default_rng(0)
    x = np.stack(
        [rng.integers(0, size, n) for size in (12, 24, 40, 60, 50, 3, 8, 90)], axis=1
    ).astype(float)
    return np.column_stack([x, np.sin(x[:, 0]) * x[:, 1] + x[:, 2:].sum(axis=1)])


def table(name: str, folder: Path | None, n: int) -> FloatArray:
    """The first n rows without a missing value, as they stand."""
    if folder is None:
        return made_up(name, n)
    return pd.read_parquet(folder / FILES[name], columns=COLUMNS[name]).dropna().to_numpy(float)[:n]


def timed(function: Callable[[], Any]) -> tuple[float, float, str]:
    """Seconds of the processor and of the clock, and the digest of the attributions."""
    started, processor = time.perf_counter(), time.process_time()
    phi = np.asarray(function().attribution)
    seconds = time.process_time() - processor, time.perf_counter() - started
    return *seconds, hashlib.blake2b(phi.tobytes(), digest_size=8).hexdigest()


def compare(name: str, rows: FloatArray, landmarks: int) -> None:
    """One line of the table."""
    x, design = rows[:, :-1] / rows[:, :-1].std(axis=0), designs.exact(rows.shape[1] - 1)
    kinds = {
        "lanes": (shared_sums.contracted_sums, shared_sums.expanded_sums),
        "plain": (plain_contracted_sums, plain_expanded_sums),
    }
    runs: dict[str, list[tuple[float, float, str]]] = {kind: [] for kind in kinds}
    with one_blas_thread():
        model = KernelRidge(RBF(3.0), Nystrom(landmarks), penalty=1e-6).fit(x, rows[:, -1])
        value = dshap.values.KernelInterventional(model, x)
        for turn in range(4):  # the first compiles
            for kind, loops in kinds.items():
                shared_sums.contracted_sums, shared_sums.expanded_sums = loops
                run = timed(lambda: dshap.explain(value, x, design=design, progress=False))
                runs[kind] += [run] if turn else []
    shared_sums.contracted_sums, shared_sums.expanded_sums = kinds["lanes"]
    (a, b), (p, q) = (
        [statistics.median(run[unit] for run in runs[kind]) for unit in (0, 1)] for kind in kinds
    )
    same = "same" if len({run[2] for kind in kinds for run in runs[kind]}) == 1 else "DIFFER"
    print(
        f"{name:<8}{a:>9.2f} s{p:>9.2f} s{p / a:>8.2f}{b:>9.2f} s{q:>9.2f} s{q / b:>8.2f}{same:>9}",
        flush=True,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="2,000 rows and 30 landmarks")
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help=f"with {', '.join(FILES.values())}"
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--landmarks", type=int, default=500)
    given = parser.parse_args()
    n, landmarks = (2_000, 30) if given.tiny else (given.rows, given.landmarks)
    print(", ".join(f"{name} {version}" for name, version in machine().items()))
    print(
        f"{'processor, clock':<8}{'lanes':>3}{'plain':>11}{'ratio':>8}{'lanes':>11}{'plain':>11}{'ratio':>8}"
    )
    for name in FILES:
        compare(name, table(name, given.data, n), landmarks)


if __name__ == "__main__":
    main()
