"""Experiment 1: Shapley values of the Banana data against their truth (Figure 2a, i and ii).

python -m workflows.rkhs_shap.banana --out FOLDER [--seeds 10] [--tiny]

RKHS-ISV and RKHS-OSV explain all rows with all of them as background and data; GSHAP-OSV is
`dshap.values.Gaussian`.  KSHAP-ISV is `shap.KernelExplainer` where shap is installed, else
`dshap.values.Marginal` on all coalitions; it explains the first rows, with all rows as background:
each of them costs two predictions a row of background.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import dshap
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.records import FloatArray
from workflows.rkhs_shap.common import COLOURS, band, options, panels, saved, summary, written
from workflows.rkhs_shap.truth import (
    BENDS,
    banana,
    f,
    interventional_truth,
    observational_truth,
    printed_form,
    r2,
)

N_ROWS, TINY_ROWS = 3_000, 600
MODEL_LANDMARKS, MODEL_PENALTY = 300, 1e-6
LANDMARKS, PENALTY = 256, 1e-4
"""Of the conditional mean embeddings."""
DRAWS = 200
"""Of the Gaussian conditional."""
BY_CALLS = 100
"""Rows that KernelSHAP explains."""
ISV, OSV, AGAINST_PRINTED = (
    "interventional",
    "observational",
    "observational, the paper's closed form as truth",
)
PRINTED = "the paper's closed form"
DIFFERENCE = "difference"
Found = dict[str, dict[str, dict[str, list[float]]]]
"""Truth -> method -> q -> R² of each seed."""


def fitted(x: FloatArray, q: float) -> KernelRidge:
    """The model that is explained: median length-scales, the true values as targets."""
    return KernelRidge(RBF("median"), Nystrom(min(MODEL_LANDMARKS, len(x))), MODEL_PENALTY).fit(
        x, f(x, q)
    )


def attributions(value: Any, rows: FloatArray) -> FloatArray:
    """(n, 2) of all coalitions."""
    return dshap.explain(value, rows, design="exact", progress=False).attribution.to_numpy()[
        :, :, 0
    ]


def by_calls(model: KernelRidge, rows: FloatArray, background: FloatArray) -> FloatArray:
    """(n, 2): interventional values by calls of the model, of shap where it is installed."""
    if find_spec("shap") is None:
        return attributions(dshap.values.Marginal(model.predict, background), rows)
    import shap

    logging.getLogger("shap").setLevel(logging.ERROR)  # it advises to take a small background
    return np.asarray(
        shap.KernelExplainer(model.predict, background).shap_values(rows, silent=True)
    )


def estimates(model: KernelRidge, x: FloatArray) -> dict[str, FloatArray]:
    """Name -> observational attributions (n, 2)."""
    values = dshap.values
    return {
        "RKHS-OSV": attributions(
            values.KernelObservational(model, x, Nystrom(LANDMARKS), PENALTY), x
        ),
        "RKHS-OSV, regression": attributions(
            values.ConditionalRegression(
                model.predict, x, RBF("median"), Nystrom(LANDMARKS), PENALTY
            ),
            x,
        ),
        "GSHAP-OSV": attributions(values.Gaussian(model.predict, x, n_samples=DRAWS), x),
    }


def scores(q: float, seed: int, n: int) -> dict[str, dict[str, float]]:
    """Truth -> method -> R², of one table; and the largest difference of the two interventional
    values."""
    x = banana(n, q, seed)
    model = fitted(x, q)
    isv, some = attributions(dshap.values.KernelInterventional(model, x), x), slice(0, BY_CALLS)
    called, truth = by_calls(model, x[some], x), interventional_truth(x, q)
    own = {"RKHS-ISV": r2(truth, isv), "RKHS-ISV, rows of KSHAP-ISV": r2(truth[some], isv[some])}
    observational = estimates(model, x)
    true, printed = observational_truth(x, q), printed_form(x, q)
    return {
        "fit": {"model": model.score(x, f(x, q))},
        DIFFERENCE: {"KSHAP-ISV less RKHS-ISV": float(abs(called - isv[some]).max())},
        ISV: own | {"KSHAP-ISV": r2(truth[some], called)},
        OSV: {name: r2(true, each) for name, each in observational.items()}
        | {PRINTED: r2(true, printed)},
        AGAINST_PRINTED: {name: r2(printed, each) for name, each in observational.items()},
    }


def run(bends: Mapping[str, float], seeds: int, n: int) -> Found:
    """All scores of all seeds."""
    found: Found = {}
    for name, q in bends.items():
        for seed in range(seeds):
            for truth, methods in scores(q, seed, n).items():
                for method, score in methods.items():
                    found.setdefault(truth, {}).setdefault(method, {}).setdefault(name, []).append(
                        score
                    )
        print(f"q = {name}: {seeds} seeds", flush=True)
    return found


def picture(found: Found, path: Path) -> None:
    """R² against q: interventional values, observational ones against the truth and against the
    printed form."""
    titles = {
        ISV: "interventional values",
        OSV: "observational values",
        AGAINST_PRINTED: "the paper's closed form as truth",
    }
    figure, all_axes = panels(
        len(titles), "Banana data: R² of Shapley values, mean ± sd over seeds", sharex=True
    )
    for axes, (truth, title) in zip(all_axes, titles.items(), strict=True):
        for colour, (method, of_bend) in zip(COLOURS, found[truth].items(), strict=False):
            line = "s--" if method in ("KSHAP-ISV", "GSHAP-OSV") else "o-"
            band(axes, list(of_bend), np.array(list(of_bend.values())).T, colour, method, line)
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xlabel("q, the paper's 1/b")
        axes.legend(frameon=False, fontsize=8, loc="best")
    all_axes[0].set_ylabel("R², both columns pooled")
    saved(figure, path)


def rounded(found: Found) -> dict[str, Any]:
    """Truth -> method -> q -> mean and standard deviation."""
    return {
        truth: {
            method: {q: summary(each) for q, each in own.items()} for method, own in methods.items()
        }
        for truth, methods in found.items()
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Score all methods on all shapes of the banana, and write what came out."""
    given = options(__doc__, argv)
    n, bends = (TINY_ROWS, {"1/20": BENDS["1/20"]}) if given.tiny else (N_ROWS, BENDS)
    found = run(bends, given.seeds, n)
    differences = found.pop(DIFFERENCE)["KSHAP-ISV less RKHS-ISV"]
    by_calls = {
        "by": "shap.KernelExplainer" if find_spec("shap") else "dshap.values.Marginal",
        "rows": BY_CALLS,
        "largest_difference_from_RKHS-ISV": float(f"{max(map(max, differences.values())):.1e}"),
    }
    written(
        given,
        "banana",
        {"rows": n, "seeds": given.seeds, "KSHAP-ISV": by_calls, "r2": rounded(found)},
    )
    picture(found, given.out / "banana.png")


if __name__ == "__main__":
    main()
