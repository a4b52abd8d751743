"""Drift of rows by `dshap.mmd_drift`: its level, what it finds, whom it names, and what it takes.

    python -m tests.benchmarks.drift [--runs 1000] [--rows 20000] [--columns 20] [--tiny]

First how often p ≤ 0.05 where nothing has changed: of all columns together, and of the least
adjusted p-value of a column; of single rows and of cells, of samples of equal and other sizes, of
columns of several kinds.  Then how often a correlation that turns and a shift are found, in few
columns and in many, beside the Kolmogorov–Smirnov tests of each column (adjusted for
their number), and beside hyppo's MMD where it is installed; with length-scales of the default times
a factor, and with cells of several numbers.  Then how often columns are named that have not changed
beside one that is shifted far.  Last the seconds of a core and the memory of a large comparison.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable

import numpy as np

from dshap.core.records import FloatArray
from dshap.discrepancy import permutations
from dshap.discrepancy.attribution import Discrepancy, discrepancy
from dshap.discrepancy.margins import margin
from dshap.discrepancy.samples import TwoSamples, compared_rows
from dshap.kernels import RBF
from dshap.kernels.unbound import median_lengthscale

LEVEL = 0.05
N_PERMUTATIONS = 199
CHILD = """
import resource, sys, time
import numpy as np
import dshap
n_rows, n_columns, max_rows = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
old, new = (rng.normal(size=(n_rows, n_columns)) for _ in range(2))
new[:, 1] += 0.05
began = time.perf_counter()
before = time.process_time()
found = dshap.mmd_drift(old, new, max_rows=max_rows)
seconds = time.process_time() - before
elapsed = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"{n_rows:>9,} + {n_rows:,} rows, {found.old.n_sampled:,} + {found.new.n_sampled:,} compared"
      f"{seconds:>8.1f} s of a core{elapsed:>8.1f} s{peak:>8.0f} MB   p = {found.p_value:.3f}")
"""

Draw = Callable[[np.random.Generator, int], FloatArray]


def normal(d: int, rho: float = 0.0, shift: float = 0.0) -> Draw:
    """Standard normal columns; the first two have a correlation, the third a shift."""

    def draw(rng: np.random.Generator, n: int) -> FloatArray:
        x = rng.normal(size=(n, d))
        x[:, 1] = rho * x[:, 0] + np.sqrt(1.0 - rho**2) * x[:, 1]
        x[:, 2] += shift
        return x

    return draw


def mixed(rng: np.random.Generator, n: int) -> FloatArray:
    """Lognormal, rounded and categorical columns, with missing values."""
    x = rng.normal(size=(n, 4))
    x[:, 0] = np.exp(2.0 * x[:, 0])
    x[:, 1] = np.round(x[:, 1])
    x[:, 3] = rng.integers(0, 4, n)
    x[rng.random(n) < 0.1, 2] = np.nan
    return x


def compared(
    old: FloatArray, new: FloatArray, seed: int, factor: float = 1.0, is_mixed: bool = False
) -> Discrepancy:
    d = old.shape[1]
    flags = np.zeros(d, dtype=bool)
    flags[3:] = is_mixed
    samples = TwoSamples(old, new, tuple(f"x{j}" for j in range(d)), flags)
    kernel = None
    if factor != 1.0:
        kernel = RBF(factor * median_lengthscale(samples.pooled))
    return discrepancy(compared_rows(samples, kernel), N_PERMUTATIONS, seed)


def share(hits: list[bool]) -> str:
    """A share in percent, with its standard error."""
    mean = float(np.mean(hits))
    return f"{mean:>7.1%} ± {np.sqrt(mean * (1 - mean) / len(hits)):.1%}"


def levels(n_runs: int) -> None:
    print(f"\np ≤ {LEVEL} where nothing has changed, {n_runs:,} runs")
    print(f"{'':<44}{'all together':>16}{'any column':>16}")
    cases: list[tuple[str, Draw, int, int]] = [
        ("3 columns, 60 + 60 rows", normal(3, 0.5), 60, 60),
        ("5 columns, 150 + 50 rows", normal(5, 0.5), 150, 50),
        ("5 columns, 500 + 500 rows in cells", normal(5, 0.5), 500, 500),
        ("20 columns, 300 + 900 rows in cells", normal(20, 0.5), 300, 900),
        ("4 of other kinds, 100 + 100 rows", mixed, 100, 100),
    ]
    for said, draw, n_old, n_new in cases:
        whole, some = [], []
        for run in range(n_runs):
            rng = np.random.default_rng((run, n_old, n_new))
            found = compared(draw(rng, n_old), draw(rng, n_new), run, is_mixed=draw is mixed)
            whole.append(bool(found.null.p_values[-1] <= LEVEL))
            some.append(bool(found.null.adjusted.min() <= LEVEL))
        print(f"{said:<44}{share(whole):>16}{share(some):>16}", flush=True)


def powers(n_runs: int) -> None:
    print(f"\np ≤ {LEVEL} where something has changed, {n_runs:,} runs of 300 + 300 rows")
    heads = ("all", "the right columns", "KS of each", "hyppo")
    print(f"{'':<44}{''.join(f'{head:>20}' for head in heads)}")
    for d in (5, 20):
        cases = (
            ("correlation of two 0.6 → −0.6", normal(d, 0.6), normal(d, -0.6), (0, 1)),
            ("shift of one by 0.3 deviations", normal(d, 0.6), normal(d, 0.6, 0.3), (2,)),
        )
        for said, before, now, right in cases:
            found, margins, outside = [], [], []
            named = []
            for run in range(n_runs):
                rng = np.random.default_rng((run, d))
                old, new = before(rng, 300), now(rng, 300)
                one = compared(old, new, run)
                found.append(bool(one.null.p_values[-1] <= LEVEL))
                seen = set(np.flatnonzero(one.null.adjusted <= LEVEL).tolist())
                named.append(seen == set(right))
                least = min(margin(old[:, j], new[:, j], False).p_value for j in range(d))
                margins.append(least * d <= LEVEL)
                if run < max(1, n_runs // 5):
                    outside.append(by_hyppo(old, new))
            beside = "not installed"
            if None not in outside:
                beside = share([bool(each <= LEVEL) for each in outside])
            cells = (share(found), share(named), share(margins), beside)
            row = "".join(f"{cell:>20}" for cell in cells)
            print(f"{f'{d} columns, {said}':<44}{row}", flush=True)


def by_hyppo(old: FloatArray, new: FloatArray) -> float | None:
    """The p-value of hyppo's MMD by permutations; None where it is not installed."""
    try:
        from hyppo.ksample import MMD
    except ImportError:
        return None
    return float(
        MMD(compute_kernel="gaussian").test(old, new, reps=N_PERMUTATIONS, auto=False).pvalue
    )


def settings(n_runs: int) -> None:
    """The tuned numbers, at half and twice of what they are, and far from it."""
    print(f"\nfound, {n_runs:,} runs of 300 + 300 rows: length-scales times a factor")
    factors = (0.125, 0.25, 0.5, 1.0, 2.0)
    print(f"{'':<44}{''.join(f'{factor:>16}' for factor in factors)}")
    for d in (5, 20):
        for said, before, now in (
            ("correlation turns", normal(d, 0.6), normal(d, -0.6)),
            ("shift", normal(d, 0.6), normal(d, 0.6, 0.3)),
        ):
            hits: dict[float, list[bool]] = {factor: [] for factor in factors}
            for run in range(n_runs):
                rng = np.random.default_rng((run, d))
                old, new = before(rng, 300), now(rng, 300)
                for factor, found in hits.items():
                    p_value = compared(old, new, run, factor).null.p_values[-1]
                    found.append(bool(p_value <= LEVEL))
            row = "".join(f"{share(found):>16}" for found in hits.values())
            print(f"{f'{d} columns, {said}':<44}{row}", flush=True)
    cells = (25, 50, 100, 200, 400, 800)
    print("the same by the number of cells")
    print(f"{'':<44}{''.join(f'{number:>16}' for number in cells)}")
    usual = permutations.MAX_CELLS
    hits = {}
    for number in cells:
        permutations.MAX_CELLS = number
        hits[number] = []
        for run in range(n_runs):
            rng = np.random.default_rng((run, 5))
            old, new = normal(5, 0.6)(rng, 400), normal(5, 0.6, 0.18)(rng, 400)
            hits[number].append(bool(compared(old, new, run).null.p_values[-1] <= LEVEL))
    permutations.MAX_CELLS = usual
    row = "".join(f"{share(found):>16}" for found in hits.values())
    print(f"{'5 columns, 400 + 400 rows, a shift of 0.18':<44}{row}", flush=True)


def named(n_runs: int) -> None:
    print(
        f"\na column that has not changed is named beside one that is shifted far, {n_runs:,} runs"
    )
    for d in (5, 20):
        for shift in (0.3, 1.0, 3.0):
            hits = []
            for run in range(n_runs):
                rng = np.random.default_rng((run, d))
                old, new = normal(d)(rng, 300), normal(d, 0.0, shift)(rng, 300)
                adjusted = compared(old, new, run).null.adjusted
                hits.append(bool(np.delete(adjusted, 2).min() <= LEVEL))
            print(f"{f'{d} columns, shift {shift}':<44}{share(hits):>16}", flush=True)


def speed(n_rows: int, n_columns: int) -> None:
    print(f"\n{n_columns} columns")
    for rows, max_rows in (
        (n_rows // 4, n_rows // 4),
        (n_rows, n_rows),
        (50 * n_rows, n_rows // 2),
    ):
        arguments = [str(number) for number in (rows, n_columns, max_rows)]
        run = [sys.executable, "-c", CHILD, *arguments]
        print(subprocess.run(run, check=True, capture_output=True, text=True).stdout, end="")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", choices=("levels", "powers", "settings", "named", "speed"))
    given = parser.parse_args()
    if given.tiny:
        given.runs, given.rows = 2, 400
    parts: dict[str, Callable[[], None]] = {
        "levels": lambda: levels(given.runs),
        "powers": lambda: powers(max(2, given.runs // 5)),
        "settings": lambda: settings(max(2, given.runs // 5)),
        "named": lambda: named(max(2, given.runs // 5)),
        "speed": lambda: speed(given.rows, given.columns),
    }
    for name, part in parts.items():
        if given.only in (None, name):
            part()


if __name__ == "__main__":
    main()
