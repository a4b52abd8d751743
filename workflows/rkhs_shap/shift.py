"""Experiment 3: protection from covariate shift by ISV-REG (Figure 2b).

python -m workflows.rkhs_shap.shift --out FOLDER [--seeds 10] [--tiny]

Kernel ridge models are fitted with a penalty on the interventional values of X5; the test rows get
noise of standard deviation σ in X5.  The strengths are read in three ways: shapley_penalty from 0
to 1,000; the axis of the paper's figure, 0 to 2.5, as shapley_penalty; and the same axis as the λ_S
of its formula, where shapley_penalty is λ_S / n.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dshap.models import KernelRidge
from dshap.records import FloatArray
from workflows.rkhs_shap.common import COLOURS, band, options, panels, saved, summary, written
from workflows.rkhs_shap.linear import (
    LAST,
    N_ROWS,
    PENALTY,
    TINY_ROWS,
    Parts,
    data_of,
    fitted_path,
    rmse,
)

STRENGTHS = (0.0, 0.1, 1.0, 10.0, 100.0, 1000.0)
AXIS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5)
"""Of the paper's figure."""
NOISES = (0.0, 0.1, 0.5, 1.0, 1.5)
"""σ."""
DRAWS = 10
"""Of the noise, a test row."""
PENALTIES = (1e-6, 1e-5, 1e-4)
"""Of the norm, at which the paper's formula is looked at."""
WIDE, AS_PENALTY, AS_PRINTED = (
    "shapley_penalty",
    "the paper's axis as shapley_penalty",
    "the paper's axis as λ_S",
)


def strengths_of(n_train: int) -> dict[str, dict[float, float]]:
    """Way to read -> what stands on the axis -> shapley_penalty."""
    return {
        WIDE: {each: each for each in STRENGTHS},
        AS_PENALTY: {each: each for each in AXIS},
        AS_PRINTED: {each: each / n_train for each in AXIS},
    }


def shifted_rmse(model: KernelRidge, parts: Parts, sigma: float, seed: int) -> float:
    """Of the test rows, with noise in X5."""
    # the same for every σ and model
    noise = np.random.default_rng([seed, 1]).normal(size=(DRAWS, len(parts.x_test)))
    moved = np.tile(parts.x_test, (DRAWS, 1))
    moved[:, LAST] += sigma * noise.ravel()
    return rmse(model, moved, np.tile(parts.y_test, DRAWS))


def run(seeds: int, n: int) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Way to read -> RMSE (seeds, strengths, σ); the same of X5's mean squared attribution (seeds,
    strengths)."""
    errors: dict[str, list[Any]] = {}
    sizes: dict[str, list[Any]] = {}
    for seed in range(seeds):
        parts = data_of(n, seed)
        ways = strengths_of(len(parts.x))
        path = sorted({each for axis in ways.values() for each in axis.values()})
        models = dict(zip(path, fitted_path(parts, "interventional", path), strict=True))
        table = {
            each: [shifted_rmse(model, parts, sigma, seed) for sigma in NOISES]
            for each, model in models.items()
        }
        for way, axis in ways.items():
            errors.setdefault(way, []).append([table[each] for each in axis.values()])
            trained = [float(models[each].report_.shapley.train[0]) for each in axis.values()]
            sizes.setdefault(way, []).append(trained)
        print(
            f"seed {seed}: σ = 1.5, RMSE {np.round(np.array(errors[WIDE][-1])[:, -1], 2)}",
            flush=True,
        )
    return {way: np.array(each) for way, each in errors.items()}, {
        way: np.array(each) for way, each in sizes.items()
    }


def as_printed(seeds: int, n: int) -> dict[str, Any]:
    """Penalty -> λ_S of the paper's formula, the ends of its axis -> RMSE at the largest σ."""
    ends, found = (AXIS[0], AXIS[-1]), {}
    for penalty in PENALTIES:
        errors = []
        for seed in range(seeds):
            parts = data_of(n, seed)
            models = fitted_path(
                parts, "interventional", [end / len(parts.x) for end in ends], penalty
            )
            errors.append([shifted_rmse(model, parts, NOISES[-1], seed) for model in models])
        found[f"{penalty:g}"] = {
            f"{end:g}": summary(np.array(errors)[:, j], 3) for j, end in enumerate(ends)
        }
    return found


def picture(errors: Mapping[str, FloatArray], path: Path) -> None:
    """RMSE against the strength, a line a σ, a panel for each way to read the strength."""
    title = "ISV-REG of X5: RMSE on test rows with noise σ in X5, mean ± sd over seeds"
    figure, all_axes = panels(len(errors), title, sharey=True)
    for axes, (way, error) in zip(all_axes, errors.items(), strict=True):
        axis = STRENGTHS if way == WIDE else AXIS
        places = range(len(axis)) if way == WIDE else axis
        for j, (sigma, colour) in enumerate(zip(NOISES, COLOURS, strict=False)):
            band(axes, list(places), error[:, :, j], colour, f"σ = {sigma:g}")
        axes.set_xticks(list(places), [f"{each:g}" for each in axis])
        axes.set_xlabel(way)
    all_axes[0].set_ylabel("RMSE")
    all_axes[0].legend(frameon=False, fontsize=9)
    saved(figure, path)


def content_of(errors: Mapping[str, FloatArray], sizes: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Way to read -> strength -> RMSE of each σ, and mean squared attribution of X5."""
    out: dict[str, Any] = {}
    for way, error in errors.items():
        for j, strength in enumerate(STRENGTHS if way == WIDE else AXIS):
            of_noise = {
                f"σ = {sigma:g}": summary(error[:, j, i], 3) for i, sigma in enumerate(NOISES)
            }
            mean_square = float(f"{sizes[way][:, j].mean():.4g}")
            out.setdefault(way, {})[f"{strength:g}"] = {
                "rmse": of_noise,
                "mean_squared_attribution": mean_square,
            }
    return out


def main(argv: Sequence[str] | None = None) -> None:
    """Fit all models of all seeds, and write what came out."""
    given = options(__doc__, argv)
    n = TINY_ROWS if given.tiny else N_ROWS
    errors, sizes = run(given.seeds, n)
    content = {
        "rows": n,
        "seeds": given.seeds,
        "penalty": PENALTY,
        "strengths": content_of(errors, sizes),
    }
    printed = {} if given.tiny else {"as_printed_by_penalty": as_printed(given.seeds, n)}
    written(given, "shift", {**content, **printed})
    picture(errors, given.out / "shift.png")


if __name__ == "__main__":
    main()
