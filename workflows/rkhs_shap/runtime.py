"""Experiment 2: processor time against the number of rows (Figure 2a, iii).

python -m workflows.rkhs_shap.runtime --out FOLDER [--tiny]

n rows of the Banana data with q = 1 are explained, all of them with all of them as background or data, on one core.
What is not linear in the explained rows (kernel matrices, their factors, sums over the data) is measured whole; methods
whose time is in proportion to the explained rows (KernelSHAP, the Gaussian conditional) are timed on the first
`BY_CALLS` of them, and the time is scaled.  "n×n" are the formulas as the paper writes them (Proposition 3), every row
a landmark of the model and of the embedding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist

import dshap
from dshap.kernels import Nystrom, median_lengthscale
from dshap.models import KernelRidge
from dshap.records import FloatArray
from dshap.threads import one_blas_thread
from workflows.rkhs_shap.banana import LANDMARKS, PENALTY, attributions, by_calls, fitted
from workflows.rkhs_shap.common import COLOURS, options, panels, saved, written
from workflows.rkhs_shap.truth import banana

SIZES, TINY_SIZES = (100, 500, 1_000, 1_500, 3_000, 5_000), (100, 200)
"""The paper's."""
BY_CALLS, DRAWS = 50, 100
"""Explained rows that are timed, of methods that call the model; draws of the Gaussian conditional."""
EXACT = dshap.designs.exact(2)
Method = Callable[[FloatArray, KernelRidge], Any]


def seconds_of(method: Callable[[], Any]) -> float:
    """Of processor time: the median of three runs, of one where it is long."""
    spent: list[float] = []
    while len(spent) < 3 and sum(spent) < 2.0:
        start = time.process_time()
        method()
        spent.append(time.process_time() - start)
    return float(np.median(spent))


def interventional(x: FloatArray, model: KernelRidge) -> FloatArray:
    return attributions(dshap.values.KernelInterventional(model, x), x)


def observational(x: FloatArray, model: KernelRidge) -> FloatArray:
    return attributions(dshap.values.KernelObservational(model, x, Nystrom(min(LANDMARKS, len(x))), PENALTY), x)


def kernel_shap(x: FloatArray, model: KernelRidge) -> FloatArray:
    return by_calls(model, x[:BY_CALLS], x)


def gaussian(x: FloatArray, model: KernelRidge) -> FloatArray:
    return attributions(dshap.values.Gaussian(model.predict, x, n_samples=DRAWS), x[:BY_CALLS])


def dense(x: FloatArray, model: KernelRidge, *, is_observational: bool) -> FloatArray:
    """(n, 2) by n×n matrices: v_S = αᵀ(K_S ⊙ mean of K_S̄), or αᵀ(K_S ⊙ K_S̄ (K_S + nλI)⁻¹ K_S); α does not matter."""
    weights, scale = np.random.default_rng(0).normal(size=len(x)), median_lengthscale(x)
    kernels = [np.exp(-0.5 * cdist(*2 * [x[:, [j]] / scale[j]], "sqeuclidean")) for j in range(2)]
    predictions = (kernels[0] * kernels[1]) @ weights
    values = np.zeros((len(x), 4))  # in the order of the masks below
    values[:, 1] = predictions
    values[:, 0] = predictions.mean()
    for row, mask in enumerate(EXACT.masks[2:], start=2):
        present, absent = kernels[int(np.flatnonzero(mask)[0])], kernels[int(np.flatnonzero(~mask)[0])]
        if is_observational:
            factor = cho_factor(present + len(x) * PENALTY * np.eye(len(x)), lower=True)
            embedded = cho_solve(factor, present).T @ absent  # (n, n)
            values[:, row] = (present * embedded) @ weights
        else:
            values[:, row] = present @ (weights * absent.mean(axis=0))
    return values @ EXACT.operator


METHODS: dict[str, tuple[Method, bool]] = {
    "RKHS-ISV": (interventional, False),
    "RKHS-OSV": (observational, False),
    "RKHS-ISV, n×n": (partial(dense, is_observational=False), False),
    "RKHS-OSV, n×n": (partial(dense, is_observational=True), False),
    "KSHAP-ISV": (kernel_shap, True),
    "GSHAP-OSV": (gaussian, True),
}
"""Name -> how, and whether it is timed on some rows."""


def run(sizes: Sequence[int]) -> dict[str, dict[int, float]]:
    """Method -> n -> seconds of processor time."""
    found: dict[str, dict[int, float]] = {name: {} for name in METHODS}
    for n in sizes:
        x = banana(n, 1.0, seed=0)
        model = fitted(x, 1.0)
        for name, (method, is_scaled) in METHODS.items():
            method(x[:60], model)  # compiles and imports
            seconds = seconds_of(lambda method=method, x=x, model=model: method(x, model))
            found[name][n] = seconds * (n / min(n, BY_CALLS) if is_scaled else 1.0)
            print(f"{n:6,d} rows  {name:16s}{found[name][n]:10.3f} s", flush=True)
    return found


def picture(found: dict[str, dict[int, float]], path: Path) -> None:
    """Seconds against rows, on logarithmic axes."""
    figure, (axes,) = panels(1, "All rows of the Banana data explained with all of them", width=7.0, height=4.6)
    for colour, (name, seconds) in zip(COLOURS, found.items(), strict=True):
        line = "o-" if METHODS[name][1] else "o--" if name.endswith("n×n") else "s-"
        axes.loglog(list(seconds), list(seconds.values()), line, color=colour, ms=4, label=name)
    axes.set_xticks(list(found["RKHS-ISV"]), [f"{n:,}" for n in found["RKHS-ISV"]])
    axes.minorticks_off()
    axes.set_xlabel("rows")
    axes.set_ylabel("seconds of one core")
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    saved(figure, path)


def main(argv: Sequence[str] | None = None) -> None:
    """Time all methods on all sizes, and write what came out."""
    given = options(__doc__, argv)
    with one_blas_thread():
        found = run(TINY_SIZES if given.tiny else SIZES)
    largest = {name: seconds[max(seconds)] for name, seconds in found.items()}
    ratios = {
        "KSHAP-ISV / RKHS-ISV": round(largest["KSHAP-ISV"] / largest["RKHS-ISV"]),
        "GSHAP-OSV / RKHS-OSV": round(largest["GSHAP-OSV"] / largest["RKHS-OSV"]),
    }
    seconds = {name: {n: round(each, 4) for n, each in own.items()} for name, own in found.items()}
    content = {"timed_rows_of_calls": BY_CALLS, "gaussian_draws": DRAWS, "ratios_at_most_rows": ratios}
    written(given, "runtime", {**content, "seconds_of_one_core": seconds})
    picture(found, given.out / "runtime.png")


if __name__ == "__main__":
    main()
