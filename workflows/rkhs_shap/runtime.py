"""Experiment 2: processor time against the number of rows (Figure 2a, iii).

python -m workflows.rkhs_shap.runtime --out FOLDER [--tiny]

n rows of the Banana data with q = 1 are explained, all of them with all of them as background or
data, on one core: by dshap and by calls of a model of at most 300 landmarks; and by the formulas as
the paper writes them, n×n matrices (Proposition 3), and by calls of a model whose landmarks are all
rows, as the paper's model has them.

What is not in proportion to the explained rows (kernel matrices, their factors, sums over the data)
is measured whole; methods that call the model are timed on the first `BY_CALLS` rows, and the time
is scaled.
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
from dshap.core.threads import one_blas_thread
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelExpansion, KernelRidge
from dshap.records import FloatArray
from workflows.rkhs_shap.banana import LANDMARKS, PENALTY, attributions, by_calls, fitted
from workflows.rkhs_shap.common import COLOURS, options, panels, saved, written
from workflows.rkhs_shap.truth import banana

SIZES, TINY_SIZES = (100, 500, 1_000, 1_500, 3_000, 5_000), (100, 200)
"""The paper's."""
BY_CALLS, DRAWS = 50, 100
"""Explained rows that are timed, of methods that call the model; draws of the Gaussian
conditional."""
EXACT = dshap.designs.exact(2)
OURS, PAPER = "a model of 300 landmarks", "a model of n landmarks"
CALLED = ("KSHAP-ISV", "GSHAP-OSV")
"""Methods that call the model: timed on some rows."""
Method = Callable[[FloatArray, Any], Any]
Found = dict[str, dict[str, dict[int, float]]]
"""Model -> method -> n -> seconds."""


def seconds_of(method: Callable[[], Any], n_runs: int) -> float:
    """Of processor time: the median of the runs, of fewer where they are long."""
    spent: list[float] = []
    while len(spent) < n_runs and sum(spent) < 2.0:
        start = time.process_time()
        method()
        spent.append(time.process_time() - start)
    return float(np.median(spent))


def interventional(x: FloatArray, model: KernelRidge) -> FloatArray:
    return attributions(dshap.values.KernelInterventional(model, x), x)


def observational(x: FloatArray, model: KernelRidge) -> FloatArray:
    return attributions(
        dshap.values.KernelObservational(model, x, Nystrom(min(LANDMARKS, len(x))), PENALTY), x
    )


def kernel_shap(x: FloatArray, model: Any) -> FloatArray:
    return by_calls(model, x[:BY_CALLS], x)


def gaussian(x: FloatArray, model: Any) -> FloatArray:
    return attributions(dshap.values.Gaussian(model.predict, x, n_samples=DRAWS), x[:BY_CALLS])


def model_of_all_rows(x: FloatArray) -> KernelExpansion:
    """All rows are landmarks; what the weights are does not change the time."""
    weights = np.random.default_rng(0).normal(size=(len(x), 1))
    return KernelExpansion(RBF("median").bind(2, x), x, weights, np.zeros(1))


def dense(x: FloatArray, model: KernelExpansion, *, is_observational: bool) -> FloatArray:
    """(n, 2) by n×n matrices: v_S = αᵀ(K_S ⊙ mean of K_S̄), or αᵀ(K_S ⊙ K_S̄ (K_S + nλI)⁻¹ K_S)."""
    weights, scale = model.weights[:, 0], model.kernel.parameters
    kernels = [np.exp(-0.5 * cdist(*2 * [x[:, [j]] / scale[j]], "sqeuclidean")) for j in range(2)]
    predictions = (kernels[0] * kernels[1]) @ weights
    values = np.zeros((len(x), 4))  # in the order of the masks below
    values[:, 1] = predictions
    values[:, 0] = predictions.mean()
    for row, mask in enumerate(EXACT.masks[2:], start=2):
        present, absent = (
            kernels[int(np.flatnonzero(mask)[0])],
            kernels[int(np.flatnonzero(~mask)[0])],
        )
        if is_observational:
            factor = cho_factor(present + len(x) * PENALTY * np.eye(len(x)), lower=True)
            embedded = cho_solve(factor, present).T @ absent  # (n, n)
            values[:, row] = (present * embedded) @ weights
        else:
            values[:, row] = present @ (weights * absent.mean(axis=0))
    return values @ EXACT.operator


METHODS: dict[str, dict[str, Method]] = {
    OURS: {
        "RKHS-ISV": interventional,
        "RKHS-OSV": observational,
        "KSHAP-ISV": kernel_shap,
        "GSHAP-OSV": gaussian,
    },
    PAPER: {
        "RKHS-ISV, n×n": partial(dense, is_observational=False),
        "RKHS-OSV, n×n": partial(dense, is_observational=True),
        "KSHAP-ISV": kernel_shap,
        "GSHAP-OSV": gaussian,
    },
}


def run(sizes: Sequence[int], n_runs: int = 3) -> Found:
    """All times, a line for each as it is found."""
    found: Found = {kind: {name: {} for name in methods} for kind, methods in METHODS.items()}
    for n in sizes:
        x = banana(n, 1.0, seed=0)
        for kind, model in {OURS: fitted(x, 1.0), PAPER: model_of_all_rows(x)}.items():
            for name, method in METHODS[kind].items():
                if n == sizes[0]:
                    method(x, model)  # compiles and imports
                scale = n / min(n, BY_CALLS) if name in CALLED else 1.0
                found[kind][name][n] = seconds = scale * seconds_of(
                    partial(method, x, model), n_runs
                )
                print(f"{n:6,d} rows, {kind}  {name:16s}{seconds:10.3f} s", flush=True)
    return found


def picture(found: Found, path: Path) -> None:
    """Seconds against rows, on logarithmic axes, a panel a model."""
    title = "Banana data: all rows explained with all of them, seconds of one core"
    figure, all_axes = panels(len(found), title, width=4.8, height=4.4, sharey=True)
    for axes, (kind, methods) in zip(all_axes, found.items(), strict=True):
        for colour, (name, seconds) in zip(COLOURS, methods.items(), strict=False):
            line = "o--" if name in CALLED else "s-"
            axes.loglog(list(seconds), list(seconds.values()), line, color=colour, ms=4, label=name)
        sizes = list(next(iter(methods.values())))
        axes.set_xticks(sizes, [f"{n:,}" for n in sizes], fontsize=8)
        axes.minorticks_off()
        axes.set_title(kind, loc="left", fontsize=10)
        axes.set_xlabel("rows")
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    saved(figure, path)


def ratios(found: Found) -> dict[str, float]:
    """Of the times at the most rows: calls of the model to RKHS-SHAP."""
    out = {}
    for kind, methods in found.items():
        ours = {name.split(",")[0]: seconds for name, seconds in methods.items()}
        for peer, own in (("KSHAP-ISV", "RKHS-ISV"), ("GSHAP-OSV", "RKHS-OSV")):
            most = max(ours[own])
            out[f"{peer} / {own}, {kind}"] = round(ours[peer][most] / ours[own][most], 1)
    return out


def main(argv: Sequence[str] | None = None) -> None:
    """Time all methods on all sizes, and write what came out."""
    given = options(__doc__, argv)
    with one_blas_thread():
        found = run(TINY_SIZES, 1) if given.tiny else run(SIZES)
    seconds = {
        kind: {
            name: {n: float(f"{each:.3g}") for n, each in own.items()}
            for name, own in methods.items()
        }
        for kind, methods in found.items()
    }
    content = {
        "timed_rows_of_calls": BY_CALLS,
        "gaussian_draws": DRAWS,
        "ratios_at_most_rows": ratios(found),
    }
    written(given, "runtime", {**content, "seconds_of_one_core": seconds})
    picture(found, given.out / "runtime.png")


if __name__ == "__main__":
    main()
