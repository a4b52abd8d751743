"""Attributions of a kernel model on the Banana data against the truth: experiment 1 of RKHS-SHAP
(2022), section 5.1.

Z ~ N(0, diag(v, 1)), X1 = Z1, X2 = q(Z1² − v) + Z2, f = q(X1² − v) + X2, v = 10, n = 3,000, q of
five sizes, ten seeds.  R² of both columns pooled, over all rows, of the attributions of a kernel
ridge model that was fitted to f.

The observational truth is integrated.  The closed form that the paper prints puts X2 for E[q(Z1² −
v) | X2], which holds where Z2 is negligible: it stands in the table as the approximation that it
is.

One rule for every q and seed, dshap's defaults: RBF with median length-scales in the model and in
the embeddings, 300 k-means++ landmarks and penalty 1e-6 in the model, 256 landmarks and penalty
1e-4 in the embeddings, not centred.  Length-scales by validation are no better here: rows far out
in the tails decide them, and where X2 is nearly a function of X1 (q = 1) the fit can do without X2
(R² 0.9987 on seed 0) and is then another model, which no row tells apart.

Usage: python -m tests.benchmarks.banana [--tiny] [--seeds 10] [--json OUT]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import dshap
from dshap.core.records import FloatArray
from dshap.core.types import ValueFunction
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.values import ConditionalRegression, Gaussian, KernelInterventional, KernelObservational
from workflows.rkhs_shap.truth import (
    BENDS,
    banana,
    f,
    interventional_truth,
    observational_truth,
    printed_form,
    r2,
)

N_ROWS, MODEL_LANDMARKS, MODEL_PENALTY = 3_000, 300, 1e-6
LANDMARKS, PENALTY = 256, 1e-4
"""Of the embeddings."""
DRAWS = 200
"""Of the Gaussian conditional: its Monte-Carlo error is a thousandth of the variance, its misfit
far more."""
ASKED = 0.98
"""R², of the value functions in `METHODS` that are asked."""


def fitted(x: FloatArray, q: float) -> KernelRidge:
    """The model that is explained."""
    return KernelRidge(RBF("median"), Nystrom(MODEL_LANDMARKS), penalty=MODEL_PENALTY).fit(
        x, f(x, q)
    )


class Method(NamedTuple):
    truth: Callable[[FloatArray, float], FloatArray]
    value: Callable[[KernelRidge, FloatArray], ValueFunction]
    is_asked: bool


def _interventional(model: KernelRidge, x: FloatArray) -> ValueFunction:
    return KernelInterventional(model, x)


def _observational(model: KernelRidge, x: FloatArray, *, centred: bool = False) -> ValueFunction:
    return KernelObservational(model, x, Nystrom(LANDMARKS), PENALTY, centred=centred)


def _regression(
    model: KernelRidge, x: FloatArray, *, penalty: float | str = PENALTY
) -> ValueFunction:
    return ConditionalRegression(model.predict, x, RBF("median"), Nystrom(LANDMARKS), penalty)


def _gaussian(model: KernelRidge, x: FloatArray) -> ValueFunction:
    return Gaussian(model.predict, x, n_samples=DRAWS)


METHODS = {
    "interventional": Method(interventional_truth, _interventional, True),
    "observational": Method(observational_truth, _observational, True),
    "regression": Method(observational_truth, _regression, True),
    "observational, centred": Method(
        observational_truth, lambda m, x: _observational(m, x, centred=True), False
    ),
    "regression, validated": Method(
        observational_truth, lambda m, x: _regression(m, x, penalty="validate"), False
    ),
    "Gaussian conditional": Method(observational_truth, _gaussian, False),
}
FIT, PRINTED = "fit of the model", "paper's printed form"


def scores(q: float, seed: int, n: int) -> dict[str, float]:
    """R² of the fit, of every method and of the printed form."""
    x = banana(n, q, seed)
    model = fitted(x, q)
    out = {FIT: model.score(x, f(x, q))}
    truths = {truth: truth(x, q) for truth in (interventional_truth, observational_truth)}
    for name, method in METHODS.items():
        cube = dshap.explain(method.value(model, x), x, progress=False)
        out[name] = r2(truths[method.truth], cube.attribution.values[:, :, 0])
    return {**out, PRINTED: r2(truths[observational_truth], printed_form(x, q))}


def run(bends: Sequence[str], seeds: int, n: int) -> dict[str, dict[str, list[float]]]:
    """name -> q -> R² of each seed."""
    found: dict[str, dict[str, list[float]]] = {}
    for bend_name in bends:
        start = time.perf_counter()
        for seed in range(seeds):
            for name, score in scores(BENDS[bend_name], seed, n).items():
                found.setdefault(name, {}).setdefault(bend_name, []).append(score)
        print(f"q = {bend_name}: {time.perf_counter() - start:.0f} s", flush=True)
    return found


def table(found: dict[str, dict[str, list[float]]]) -> str:
    """A line for every method: mean ± standard deviation over seeds, and whether what is asked is
    reached."""
    bends = list(found[FIT])
    lines = [
        f"{'R², mean ± sd over seeds':26s}" + "".join(f"{f'q = {name}':>18s}" for name in bends)
    ]
    for name, own in found.items():
        cells = [f"{np.mean(own[b]):9.4f} ± {np.std(own[b]):.4f}" for b in bends]
        line = f"{name:26s}" + "".join(f"{cell:>18s}" for cell in cells)
        if name in METHODS and METHODS[name].is_asked:
            worst = min(min(own[b]) for b in bends)
            line += f"   lowest {worst:.4f}, {'at least' if worst >= ASKED else 'BELOW'} {ASKED}"
        lines.append(line)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="one seed, two q, 1,000 rows: seconds")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", type=Path, metavar="OUT", help="R² of every seed")
    given = parser.parse_args()
    n, seeds, bends = (
        (1_000, 1, ["1", "1/20"]) if given.tiny else (N_ROWS, given.seeds, list(BENDS))
    )
    found = run(bends, seeds, n)
    print(
        f"\nBanana data, {n:,} rows, {seeds} seed{'s' * (seeds > 1)}; both columns "
        f"pooled\n{table(found)}"
    )
    if given.json:
        given.json.write_text(json.dumps({"rows": n, "seeds": seeds, "r2": found}, indent=1))


if __name__ == "__main__":
    main()
