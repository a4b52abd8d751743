"""Run time against the number of rows of data: experiment 2 of RKHS-SHAP (2022), Figure 2a(iii),
and on to a million.

Eight correlated columns, a model of 100 landmarks, all 254 proper coalitions, one core, numerics
alone (no files, no cluster).  Learning is all that no explained row changes: landmarks, sums over
all rows, solves; explaining is 100 rows.  The dense formulas are the paper's n×n ones, every row of
the data a landmark of the model and of the embedding; they are timed on some coalitions and scaled
to all.  Seconds are of processor time, which other work on the machine does not lengthen; on a
quiet one they are the clock's.

Usage: python -m tests.benchmarks.growth [--tiny] [--max-rows 1000000] [--json OUT] [--png OUT]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist

from dshap import designs
from dshap.core.capabilities import sample_size
from dshap.core.records import BoolArray, FloatArray
from dshap.core.threads import one_blas_thread
from dshap.core.types import ValueFunction
from dshap.kernels import RBF, Nystrom, ProductKernel
from dshap.loops import warm_up
from dshap.models import KernelExpansion
from dshap.report.picture_files import COLOURS
from dshap.values import ConditionalRegression, KernelInterventional, KernelObservational

D, LANDMARKS, EXPLAINED, PENALTY = 8, 100, 100, 1e-4
LENGTHSCALE = 3.0
SIZES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
MAX_DENSE = 5_000
DENSE_COALITIONS = 6
"""Of the 254, of sizes 1 to 7, that the dense formulas are timed on."""
SAMPLE = 20_000
"""Rows that landmarks are chosen from."""
ENOUGH_SECONDS, MOST_REPEATS = 1.0, 5
"""A time is the median of as many runs as fit in this, at most that many."""
DESIGN = designs.exact(D)
MASKS, OPERATOR = DESIGN.masks[2:], DESIGN.operator[2:]
"""The proper coalitions (254, d) and what their values are contracted with."""


class Times(NamedTuple):
    """Seconds."""

    learning: float
    explaining: float


def table(n: int) -> FloatArray:
    """Rows (n, 8), standard normal, neighbours correlated."""
    x = np.random.default_rng(0).standard_normal((n, D))
    for column in range(1, D):
        x[:, column] = 0.6 * x[:, column - 1] + 0.8 * x[:, column]
    return x


def model_on(landmarks: FloatArray) -> KernelExpansion:
    weights = np.random.default_rng(1).standard_normal((len(landmarks), 1))
    return KernelExpansion(_kernel(), landmarks, weights, np.zeros(1))


def _kernel() -> ProductKernel:
    return RBF(LENGTHSCALE).bind(D)


def interventional(data: FloatArray) -> ValueFunction:
    return KernelInterventional(model_on(data[:LANDMARKS]), data)


def observational(data: FloatArray) -> ValueFunction:
    return KernelObservational(model_on(data[:LANDMARKS]), data, Nystrom(LANDMARKS), PENALTY)


def regression(data: FloatArray) -> ValueFunction:
    model = model_on(data[:LANDMARKS])
    return ConditionalRegression(model.predict, data, _kernel(), Nystrom(LANDMARKS), PENALTY)


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Median seconds of some runs, and what the last gave."""
    seconds: list[float] = []
    while sum(seconds) < ENOUGH_SECONDS and len(seconds) < MOST_REPEATS:
        start = time.process_time()
        result = function()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds), result


def embedded_times(
    make: Callable[[FloatArray], ValueFunction], data: FloatArray, rows: FloatArray
) -> Times:
    """Of a value function of dshap."""

    def learn() -> tuple[ValueFunction, Any]:
        value = make(data)
        if sample_size(value):
            value = value.chosen(value.choose(data[:SAMPLE]))
        return value, value.prepare(MASKS, value.moments(MASKS, data))

    learning, (value, state) = timed(learn)
    explaining, _ = timed(lambda: np.einsum("nmk,md->ndk", value.evaluate(state, rows), OPERATOR))
    return Times(learning, explaining)


def dense_times(
    kind: Callable[..., tuple[float, float]], data: FloatArray, rows: FloatArray
) -> Times:
    """Of the paper's n×n formulas, scaled from some coalitions to all of them."""
    model, chosen = model_on(data), np.linspace(0, len(MASKS) - 1, DENSE_COALITIONS).astype(int)
    each = [kind(model, data, rows, MASKS[j]) for j in chosen]
    learning, explaining = np.mean(each, axis=0) * len(MASKS)
    return Times(float(learning), float(explaining))


def dense_kernel(x: FloatArray, z: FloatArray, columns: NDArray[np.intp]) -> FloatArray:
    """k_S(x, z) (n, n) in one pass of scipy and one exponential in place."""
    distance = cdist(x[:, columns], z[:, columns], "sqeuclidean")
    distance *= -0.5 / LENGTHSCALE**2
    return np.asarray(np.exp(distance, out=distance))


def dense_interventional(
    model: KernelExpansion, data: FloatArray, rows: FloatArray, mask: BoolArray
) -> tuple[float, float]:
    """v_S(x) = Σ_i a_i k_S(x, X_i) mean_b k_S̄(X_b, X_i): seconds of the mean and of the values."""
    present, absent = np.flatnonzero(mask), np.flatnonzero(~mask)
    learning, mean = timed(lambda: dense_kernel(data, data, absent).mean(axis=0))  # (n,)
    return learning, timed(
        lambda: dense_kernel(rows, data, present) @ (mean * model.weights[:, 0])
    )[0]


def dense_observational(
    model: KernelExpansion, data: FloatArray, rows: FloatArray, mask: BoolArray
) -> tuple[float, float]:
    """v_S(x) = Σ_i a_i k_S(x, X_i) [k_S(x, X) (K_S + nλI)⁻¹ K_S̄]_i: seconds of both matrices with
    the Cholesky factor, and of the values."""
    present, absent = np.flatnonzero(mask), np.flatnonzero(~mask)

    def learn() -> tuple[Any, FloatArray]:
        within = dense_kernel(data, data, present)
        within[np.diag_indices(len(data))] += len(data) * PENALTY
        return cho_factor(within, lower=True, overwrite_a=True), dense_kernel(data, data, absent)

    def values() -> FloatArray:
        at = dense_kernel(rows, data, present)  # (rows, n)
        return np.asarray((at * (cho_solve(factor, at.T).T @ away)) @ model.weights[:, 0])

    learning, (factor, away) = timed(learn)
    return learning, timed(values)[0]


CURVES: dict[str, tuple[Callable[..., Times], Callable[..., Any], int]] = {
    "KernelInterventional": (embedded_times, interventional, SIZES[-1]),
    "KernelObservational": (embedded_times, observational, SIZES[-1]),
    "ConditionalRegression": (embedded_times, regression, SIZES[-1]),
    "dense interventional, n×n": (dense_times, dense_interventional, MAX_DENSE),
    "dense observational, n×n": (dense_times, dense_observational, MAX_DENSE),
}
"""name -> how it is timed, what, up to which n."""
Found = dict[str, dict[int, Times]]


def run(sizes: Sequence[int], max_dense: int) -> Found:
    """name -> n -> times; a line for each as it is found."""
    found: Found = {name: {} for name in CURVES}
    rows = table(sizes[-1] + EXPLAINED)[-EXPLAINED:]
    print(f"{'rows of data':>12s}  {'':28s}{'learning':>12s}{f'{EXPLAINED} rows':>12s}")
    for n in sizes:
        data = table(n)
        for name, (times, what, limit) in CURVES.items():
            if n > (max_dense if limit == MAX_DENSE else limit):
                continue
            with one_blas_thread():
                own = found[name][n] = times(what, data, rows)
            print(f"{n:12,d}  {name:28s}{own.learning:10.3f} s{own.explaining:10.4f} s", flush=True)
    return found


def slope(seconds: dict[int, float]) -> float:
    """p of time ~ n^p, by least squares on the upper half of the sizes (there the constant part is
    small)."""
    n = list(seconds)[min(len(seconds) // 2, len(seconds) - 2) :]
    return float(np.polyfit(np.log(n), np.log([seconds[own] for own in n]), 1)[0])


def slopes(found: Found) -> dict[str, Times]:
    """name -> exponents of both times."""
    return {
        name: Times(*(slope({n: t[part] for n, t in own.items()}) for part in range(2)))
        for name, own in found.items()
    }


def new_axes(n_panels: int, title: str, width: float = 11.0) -> tuple[Any, list[Any]]:
    """A figure in the look of `dshap.analysis.rankings`, with panels side by side."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    panels = [figure.add_subplot(1, n_panels, index + 1) for index in range(n_panels)]
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, color="#dddddd", linewidth=0.7)
        axes.set_axisbelow(True)
    return figure, panels


def picture(found: Found, path: Path) -> None:
    """Both times of every curve, on logarithmic axes, with the exponents in the legends."""
    figure, panels = new_axes(
        2, "time against the number of rows of data, all 254 coalitions of 8 columns, one core"
    )
    titles = ("learning, once", f"explaining {EXPLAINED} rows")
    exponents = slopes(found)
    for part, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        for index, (name, own) in enumerate(found.items()):
            power = f"{round(exponents[name][part], 1) + 0.0:.1f}"  # no "-0.0"
            style = "o-" if index < 3 else "s--"
            axes.loglog(list(own), [t[part] for t in own.values()], style, color=COLOURS[index], ms=4,
                        label=f"{name}: $n^{{{power}}}$")  # fmt: skip
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xlabel("rows of data")
        axes.set_ylabel("seconds of one core")
        axes.legend(loc="best", frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="up to 1,000 rows: seconds")
    parser.add_argument("--max-rows", type=int, default=SIZES[-1], help="leave out longer tables")
    parser.add_argument("--json", type=Path, metavar="OUT", help="all times and exponents")
    parser.add_argument("--png", type=Path, metavar="OUT", help="the picture (needs matplotlib)")
    given = parser.parse_args()
    warm_up()
    most = 1_000 if given.tiny else given.max_rows
    found = run([n for n in SIZES if n <= most], 200 if given.tiny else MAX_DENSE)
    exponents = slopes(found)
    print()
    for name, own in exponents.items():
        print(
            f"{name:28s} learning grows as n^{own.learning:.2f}, explaining as "
            f"n^{own.explaining:.2f}"
        )
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")
    if given.json:
        times = {
            name: {n: own._asdict() for n, own in curve.items()} for name, curve in found.items()
        }
        content = {
            "exponents": {name: own._asdict() for name, own in exponents.items()},
            "seconds": times,
        }
        given.json.write_text(json.dumps(content, indent=1))
    if given.png:
        picture(found, given.png)


if __name__ == "__main__":
    main()
