"""Linear models of normal columns: a million rows by one matrix, beside shap's LinearExplainer on
the same model.

The matrix is made of 1,000 random orders by both (50 columns; its errors are those of the orders,
for any number of rows), and exactly for 12 columns by dshap alone.  Seconds of the matrix, of the
product with all rows in memory, and of `dshap.explain` into a store; one core but where workers are
named.

Usage: python -m tests.benchmarks.linear_gaussian [--rows 1000000] [--columns 50] [--json OUT]
[--tiny]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dshap
from dshap import linear_transform
from dshap.attributors.linear import Linear
from dshap.core.records import FloatArray, Moments, State
from dshap.core.threads import one_blas_thread
from dshap.values import LinearGaussian
from tests.benchmarks.peers import write_json

ORDERS, EXACT_COLUMNS, STEP = 1_000, 12, 4_096


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and its seconds."""
    start = time.perf_counter()
    out = function()
    return out, time.perf_counter() - start


def model_of(columns: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean, covariance and coefficients."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(columns, columns + 5)) / np.sqrt(columns)
    return rng.normal(size=columns), root @ root.T + 0.1 * np.eye(columns), rng.normal(size=columns)


def prepared(form: Linear) -> State:
    """The matrix, contracted with the model."""
    return form.prepare(Moments())


def compute(form: Linear, state: State, rows: FloatArray, with_errors: bool) -> FloatArray:
    """φ of all rows in memory, in steps, with or without the groups that standard errors come
    from."""
    phi = np.empty((len(rows), len(form.value.players), 1))
    for start in range(0, len(rows), STEP):
        part = rows[start : start + STEP]
        phi[start : start + STEP] = form.phi(state, part)
        if with_errors:
            form.replicates(state, part)
    return phi


def by_shap(
    mean: FloatArray, covariance: FloatArray, coef: FloatArray, rows: FloatArray
) -> dict[str, float]:
    """Seconds of shap's transform and of its product."""
    import shap

    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        explainer, made = timed(
            lambda: shap.LinearExplainer(
                (coef, 0.0),
                (mean, covariance),
                feature_perturbation="correlation_dependent",
                nsamples=ORDERS,
            )
        )
        _, product = timed(lambda: explainer.shap_values(rows))
    return {"matrix_s": made, "rows_s": product}


def run(n_rows: int, columns: int) -> list[dict[str, Any]]:
    mean, covariance, coef = model_of(columns)
    rows = mean + np.random.default_rng(1).standard_normal((n_rows, columns))
    out = []
    with one_blas_thread():
        transform, made = timed(lambda: linear_transform(mean, covariance, n_permutations=ORDERS))
        kept = LinearGaussian(coef, 0.0, transform=transform)
        form = Linear(kept)
        state = prepared(form)
        _, plain = timed(lambda: compute(form, state, rows, with_errors=False))
        _, errors = timed(lambda: compute(form, state, rows, with_errors=True))
        out.append(
            {
                "program": f"dshap, {columns} columns",
                "matrix_s": made,
                "rows_s": plain,
                "with_errors_s": errors,
            }
        )
        out.append({"program": f"shap, {columns} columns", **by_shap(mean, covariance, coef, rows)})
        few = slice(0, EXACT_COLUMNS)
        exact = Linear(LinearGaussian(coef[few], 0.0, mean[few], covariance[few, few]))
        state, made = timed(lambda: prepared(exact))
        _, plain = timed(lambda: compute(exact, state, rows[:, few], with_errors=False))
        out.append(
            {
                "program": f"dshap, {EXACT_COLUMNS} columns, all coalitions",
                "matrix_s": made,
                "rows_s": plain,
            }
        )
    with tempfile.TemporaryDirectory() as folder:
        _, stored = timed(lambda: dshap.explain(kept, rows, store=Path(folder) / "cube.zarr"))
    out.append(
        {
            "program": f"dshap.explain into a store, {columns} columns",
            "matrix_s": None,
            "rows_s": stored,
        }
    )
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tiny", action="store_true", help="seconds instead of a minute")
    given = parser.parse_args()
    n_rows, columns = (5_000, 17) if given.tiny else (given.rows, given.columns)
    lines = run(n_rows, columns)
    print(f"{n_rows:,} rows{'':<34}{'matrix':>10}{'rows':>10}{'with errors':>14}")
    for line in lines:
        cells = [line.get(name) for name in ("matrix_s", "rows_s", "with_errors_s")]
        shown = [
            f"{'' if cell is None else f'{cell:.2f} s':>{w}}"
            for cell, w in zip(cells, (10, 10, 14), strict=True)
        ]
        print(f"{line['program']:<44}{''.join(shown)}")
    ours, theirs = lines[0], lines[1]
    print(f"the matrix {theirs['matrix_s'] / ours['matrix_s']:.1f} times as fast as shap's")
    write_json(given.json, {"programs": lines})


if __name__ == "__main__":
    main()
