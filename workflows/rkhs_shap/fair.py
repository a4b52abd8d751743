"""Experiment 4: fair learning by OSV-REG (Figure 3).

python -m workflows.rkhs_shap.fair --out FOLDER [--seeds 10] [--tiny]

X5 is the sensitive column, X4 goes with it.  Models are fitted with a penalty on X5's
interventional values (ISV-REG) or on its observational ones (OSV-REG); then both kinds of values of
X4 and X5 are taken on the test rows.  The spread of values is their standard deviation; a ratio is
the spread at a strength over that of the plain model.  What it costs is the RMSE on the test rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dshap
from dshap.kernels import Nystrom
from dshap.models import KernelRidge
from dshap.records import FloatArray
from workflows.rkhs_shap.common import options, panels, saved, summary, written
from workflows.rkhs_shap.linear import (
    FOURTH,
    LAST,
    N_ROWS,
    TINY_ROWS,
    Parts,
    data_of,
    fitted_path,
    rmse,
)

STRENGTHS, TINY_STRENGTHS = (0.0, 1.0, 10.0, 100.0, 1000.0), (0.0, 1000.0)
SHADES = ("#fdd0a2", "#fdae6b", "#fd8d3c", "#d94801", "#7f2704")
REGULARISERS = {"ISV-REG": "interventional", "OSV-REG": "observational"}
KINDS = ("interventional", "observational")
SHOWN = {"X4": FOURTH, "X5": LAST}
LANDMARKS, TINY_LANDMARKS = 200, 60
"""Of the embeddings that measure."""
EXPLAINED = 600
"""Test rows."""
Name = tuple[str, str, str]
"""Regulariser, kind, column."""
Values = dict[Name, FloatArray]
"""Attributions (strengths, n)."""


def attributions(model: KernelRidge, kind: str, parts: Parts, landmarks: int) -> FloatArray:
    """(n, 5) of test rows, by all coalitions, learned from the training rows."""
    if kind == "interventional":
        value = dshap.values.KernelInterventional(model, parts.x)
    else:
        value = dshap.values.KernelObservational(model, parts.x, Nystrom(landmarks))
    cube = dshap.explain(value, parts.x_test[:EXPLAINED], design="exact", progress=False)
    return np.asarray(cube.attribution.to_numpy()[:, :, 0])


def paths_of(parts: Parts, strengths: Sequence[float]) -> dict[str, list[KernelRidge]]:
    """Regulariser -> a model a strength."""
    return {name: fitted_path(parts, value, strengths) for name, value in REGULARISERS.items()}


def values_of(parts: Parts, paths: Mapping[str, Sequence[KernelRidge]], landmarks: int) -> Values:
    """Of one table, all regularisers and strengths."""
    found: dict[Name, list[FloatArray]] = {}
    for name, models in paths.items():
        for model in models:
            for kind in KINDS:
                phi = attributions(model, kind, parts, landmarks)
                for column, place in SHOWN.items():
                    found.setdefault((name, kind, column), []).append(phi[:, place])
    return {name: np.array(each) for name, each in found.items()}


def errors_of(parts: Parts, paths: Mapping[str, Sequence[KernelRidge]]) -> dict[str, FloatArray]:
    """Regulariser -> RMSE on the test rows (strengths,)."""
    test = parts.x_test, parts.y_test
    return {
        name: np.array([rmse(model, *test) for model in models]) for name, models in paths.items()
    }


def ratios(values: Values) -> dict[Name, FloatArray]:
    """(strengths,): spreads over that of the plain model."""
    spread = {name: each.std(axis=1) for name, each in values.items()}
    return {name: each / each[0] for name, each in spread.items()}


def picture(values: Values, strengths: Sequence[float], path: Path) -> None:
    """Densities, a row of panels a regulariser; the stronger the darker, as in the paper."""
    from scipy.stats import gaussian_kde

    title = "Attributions of X4 and X5 on test rows of one seed; the darker, the stronger the penalty on X5"
    figure, all_axes = panels(len(values) // 2, title, rows=2, width=3.4, height=5.6, sharex=True)
    grid = np.linspace(-30.0, 30.0, 401)
    for axes, ((name, kind, column), of_strength) in zip(all_axes, values.items(), strict=True):
        for strength, phi, shade in zip(
            strengths, of_strength, SHADES[-len(strengths) :], strict=True
        ):
            density = gaussian_kde(phi)(grid)
            axes.plot(
                grid, density / density.max(), color=shade, linewidth=1.6, label=f"{strength:g}"
            )
        axes.set_title(f"{name}: {kind}, {column}", loc="left", fontsize=9)
        axes.set_yticks([])
    for axes in all_axes[4:]:
        axes.set_xlabel("attribution")
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=9,
                  title="shapley_penalty", title_fontsize=9)  # fmt: skip
    saved(figure, path)


def of_seeds(each: Sequence[FloatArray], strengths: Sequence[float]) -> dict[str, dict[str, float]]:
    """Strength -> mean and standard deviation over seeds of numbers (strengths,)."""
    table = np.array(each)  # (seeds, strengths)
    return {f"{strength:g}": summary(table[:, j], 3) for j, strength in enumerate(strengths)}


def content_of(
    all_ratios: Sequence[Mapping[Name, FloatArray]], strengths: Sequence[float]
) -> dict[str, Any]:
    """Regulariser -> "kind, column" -> strength -> ratio of spreads over the seeds."""
    out: dict[str, Any] = {}
    for name, kind, column in all_ratios[0]:
        ratio = [own[name, kind, column] for own in all_ratios]
        out.setdefault(name, {})[f"{kind}, {column}"] = of_seeds(ratio, strengths)
    return out


def main(argv: Sequence[str] | None = None) -> None:
    """Fit all models of all seeds, and write what came out."""
    given = options(__doc__, argv)
    n, strengths, landmarks = N_ROWS, STRENGTHS, LANDMARKS
    if given.tiny:
        n, strengths, landmarks = TINY_ROWS, TINY_STRENGTHS, TINY_LANDMARKS
    values, errors = [], []
    for seed in range(given.seeds):
        parts = data_of(n, seed)
        paths = paths_of(parts, strengths)
        values.append(values_of(parts, paths, landmarks))
        errors.append(errors_of(parts, paths))
        last = {
            " ".join(name): round(float(each[-1]), 3) for name, each in ratios(values[-1]).items()
        }
        print(f"seed {seed}, strength {strengths[-1]:g}: {last}", flush=True)
    content = {
        "rows": n,
        "seeds": given.seeds,
        "ratio_of_spreads": content_of([ratios(each) for each in values], strengths),
        "rmse": {
            name: of_seeds([each[name] for each in errors], strengths) for name in REGULARISERS
        },
    }
    written(given, "fair", content)
    picture(values[0], strengths, given.out / "fair.png")


if __name__ == "__main__":
    main()
