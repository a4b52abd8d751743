"""Two cubes compared by `dshap.diff`: what it takes, and how often its intervals hold the truth.

    python -m tests.benchmarks.differences [--rows 1000000] [--columns 20] [--pairs 400] [--tiny]

First processor seconds and the peak of memory of a process that compares two stores, 5 % of whose
rows differ, in one order and in another.  Then the share of 95 % intervals of nDCG and Spearman's
correlation that hold the agreement of all rows: two samples of rows with lognormal magnitudes of
known means, the same, near or in another order; of the same rows or of others; with errors of
sampled coalitions in one case.  Beside it the share that quantiles of the draws alone would hold.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from dshap.analysis.agreement import Worths, agreement, drawn_worths, ndcgs, spearmans
from dshap.core.blocks import Attribution, RowBlock, Status
from dshap.cube import CubeLayout, CubeWriter, create_cube, mark_finished

TILE = 32_768
CHANGED = 20
"""One row in so many has other attributions."""
CHILD = """
import resource, sys, time
import dshap.report
before = time.process_time()
found = dshap.report.diff(sys.argv[1], sys.argv[2])
seconds = time.process_time() - before
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"{found.matched:<20}{found.outputs[0].n_changed:>9,} changed{seconds:>8.1f} s{peak:>8.0f} MB")
"""


def write_cube(path: Path, ids: np.ndarray, n_columns: int, is_changed: bool) -> None:
    """A store of attributions that follow from the key of each row."""
    layout = CubeLayout(
        n_rows=len(ids),
        players=tuple(f"x{j:03}" for j in range(n_columns)),
        outputs=("y",),
        tile=TILE,
        chunk=TILE // 8,
        keys={"id": "int64"},
        run={"digest": "d", "fingerprint": {}},
    )
    create_cube(path, layout)
    writer = CubeWriter(path, layout, "d")
    writer.write_base(np.ones(1))
    steps = np.arange(n_columns)
    for block in range(layout.n_blocks):
        keys = ids[block * TILE : (block + 1) * TILE]
        phi = np.sin(keys[:, None] * (0.37 + 0.11 * steps) + steps) * 0.9**steps
        if is_changed:
            phi[keys % CHANGED == 0, n_columns // 2] += 1.0
        ok = np.full(len(keys), Status.OK, np.int8)
        attribution = Attribution(phi[:, :, None], np.ones(1), phi.sum(axis=1)[:, None] + 1, ok)
        rows = RowBlock(block * TILE, phi, np.ones(len(keys), bool), {"id": keys})
        writer.write(block, rows, attribution)
    mark_finished(path)


def print_costs(n_rows: int, n_columns: int) -> None:
    """Seconds and memory of both ways to match rows."""
    ids = np.arange(n_rows)
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / name for name in ("old", "same", "other")]
        write_cube(places[0], ids, n_columns, is_changed=False)
        write_cube(places[1], ids, n_columns, is_changed=True)
        order = np.random.default_rng(0).permutation(n_rows)
        write_cube(places[2], ids[order], n_columns, is_changed=True)
        print(f"{n_rows:,} rows x {n_columns} columns on each side, imports in the memory:")
        for place in places[1:]:
            given = [sys.executable, "-c", CHILD, str(places[0]), str(place)]
            subprocess.run(given, check=True)


def sampled(rng: np.random.Generator, means: np.ndarray, rows: np.ndarray, groups: np.ndarray,
            noise: float) -> Worths:  # fmt: skip
    """Mean magnitudes of rows (n, d) of standard normal exponents, with the errors of coalitions."""
    magnitudes = means * np.exp(0.8 * rows - 0.32)
    sums = np.zeros((256, len(means)))
    np.add.at(sums, groups, magnitudes)
    error = noise * means.mean()
    found = np.maximum(magnitudes.mean(axis=0) + error * rng.normal(size=len(means)), 0.0)
    deviations = error / np.sqrt(20) * rng.normal(size=(20, len(means)))
    return Worths(found, sums, np.bincount(groups, minlength=256), deviations)


def held(n_features: int, n_rows: int, n_pairs: int, order: str, is_paired: bool, noise: float):
    """The shares of intervals, and of quantiles alone, that hold the truth: of nDCG, Spearman."""
    fixed = np.random.default_rng(5)
    old = 0.9 ** np.arange(n_features)
    new = {
        "same": old,
        "near": old * np.exp(0.2 * fixed.normal(size=n_features)),
        "other": fixed.permutation(old),
    }[order]
    counts = np.zeros((2, 2))
    for pair in range(n_pairs):
        rng = np.random.default_rng(pair)
        first, second = rng.normal(size=(2, n_rows, n_features))
        groups = rng.integers(256, size=(2, n_rows))
        if is_paired:
            second = 0.9 * first + np.sqrt(0.19) * second
            groups[1] = groups[0]
        worths = (
            sampled(rng, old, first, groups[0], noise),
            sampled(rng, new, second, groups[1], noise),
        )
        draws = drawn_worths(*worths)
        for place, of in enumerate((ndcgs, spearmans)):
            truth = of(old[None], new[None])[0]
            found = agreement(of, *worths)
            alone = np.quantile(of(*draws), [0.025, 0.975])
            counts[place, 0] += found.low - 1e-9 <= truth <= found.high + 1e-9
            counts[place, 1] += alone[0] - 1e-9 <= truth <= alone[1] + 1e-9
    return counts / n_pairs


def print_coverage(n_pairs: int, sizes: list[tuple[int, int]]) -> None:
    """The coverage of every case."""
    print(f"\n{'':<44}{'nDCG':>8}{'alone':>8}{'Spearman':>10}{'alone':>8}")
    for n_features, n_rows in sizes:
        for order in ("same", "near", "other"):
            for is_paired in (True, False):
                shares = held(n_features, n_rows, n_pairs, order, is_paired, 0.0)
                rows = "same rows" if is_paired else "other rows"
                print_case(f"{n_features} features, {n_rows:,} rows, {order}, {rows}", shares)
        shares = held(n_features, n_rows, n_pairs, "near", True, 0.05)
        print_case(f"{n_features} features, {n_rows:,} rows, near, sampled", shares)


def print_case(name: str, shares: np.ndarray) -> None:
    (ndcg, ndcg_alone), (spearman, spearman_alone) = shares
    print(
        f"{name:<44}{ndcg:>8.1%}{ndcg_alone:>8.1%}{spearman:>10.1%}{spearman_alone:>8.1%}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--tiny", action="store_true", help="seconds instead of half an hour")
    args = parser.parse_args()
    if args.tiny:
        print_costs(2_000, 4)
        print_coverage(2, [(5, 300)])
        return
    print_costs(args.rows, args.columns)
    print_coverage(args.pairs, [(d, n) for d in (5, 20, 60) for n in (300, 3_000)])


if __name__ == "__main__":
    main()
