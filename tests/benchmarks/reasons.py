"""Stated places of reason codes beside exact values: how many are stated, and how many are right.

    python -m tests.benchmarks.reasons [--seeds 20] [--rows 40] [--coalitions 2048] [--tiny]

A boosted ensemble for a made-up portfolio of 25 correlated columns, in 9 codes of 1 to 6 columns.
Exact attributions are those of `Trees` against 40 background rows, and the same game is sampled by
each design, with one seed after the other.  A stated place is right where the code has this place
among the exact values.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import xgboost

import dshap
from dshap.analysis.reason_places import reason_places
from dshap.core.code_groups import code_members
from dshap.cube.code_arrays import code_errors
from dshap.sinks.line_forms import MOST_REASONS

D = 25
SIZES = (1, 2, 3, 1, 3, 3, 2, 4, 6)
DESIGNS = ("kernelshap", "kriging")


def portfolio(n: int = 3_000) -> tuple[np.ndarray, np.ndarray]:
    """Columns with common factors, and defaults that follow from them with interactions."""
    rng = np.random.default_rng(1)
    loadings = rng.normal(size=(D, 6))
    x = rng.normal(size=(n, 6)) @ loadings.T * 0.5 + rng.normal(size=(n, D))
    score = x[:, 0] - 0.8 * x[:, 1] + 0.6 * x[:, 2] * x[:, 3] + np.abs(x[:, 4])
    score += 0.5 * np.maximum(x[:, 5], 0) * x[:, 6] + 0.2 * x[:, 7:20].sum(axis=1)
    y = score + rng.logistic(size=n) > np.quantile(score, 0.8)
    return x.astype(np.float32).astype(float), y.astype(int)


def codes() -> dict[str, list[str]]:
    """Code -> its columns."""
    ends = np.cumsum(SIZES)
    return {
        f"R{code:02d}": [f"x{j}" for j in range(end - size, end)]
        for code, (end, size) in enumerate(zip(ends, SIZES, strict=True))
    }


def stated_and_right(
    estimate: np.ndarray, errors: np.ndarray, n_replicates: int, exact: np.ndarray
) -> tuple[int, int, int, int]:
    """The numbers of reasons, of stated places, of right ones, and of rows where all are right."""
    n = len(estimate)
    takes_part = np.ones(estimate.shape, dtype=bool)
    found = reason_places(estimate, errors, n_replicates, np.full(n, 1e-12), takes_part)
    values = np.where(found.is_reason, estimate, -np.inf)
    order = np.argsort(-values, axis=1)[:, :MOST_REASONS]
    is_listed = np.zeros(estimate.shape, dtype=bool)
    np.put_along_axis(is_listed, order, True, axis=1)
    is_listed &= found.is_reason
    true_place = 1 + (exact[:, None, :] > exact[:, :, None]).sum(axis=2)
    is_stated = is_listed & found.is_certain
    is_right = is_stated & (true_place == found.first) & (exact > 0)
    n_rows_right = int((is_right == is_stated).all(axis=1).sum())
    return int(is_listed.sum()), int(is_stated.sum()), int(is_right.sum()), n_rows_right


def main(n_seeds: int, n_rows: int, n_coalitions: int, names: tuple[str, ...] = DESIGNS) -> None:
    x, y = portfolio()
    model = xgboost.XGBClassifier(n_estimators=80, max_depth=4, learning_rate=0.15, n_jobs=1)
    model.fit(x, y)
    background = x[:40]
    rows = x[100 : 100 + n_rows]
    exact = dshap.explain(dshap.values.Trees(model, background), rows, progress=False)
    players = [str(name) for name in exact["feature"].values]
    members = code_members(codes(), [f"x{j}" for j in range(D)])
    assert len(players) == D
    truth = exact["attribution"].values[..., 0] @ members
    value = dshap.values.Marginal(lambda rows: model.predict(rows, output_margin=True), background)
    for name in names:
        total = np.zeros(4, dtype=int)
        for seed in range(n_seeds):
            phi, replicates = sampled(value, name, n_coalitions, seed, rows)
            errors = code_errors(phi, replicates, members)[..., 0]
            total += stated_and_right(phi[..., 0] @ members, errors, len(replicates), truth)
        n_listed, n_stated, n_right, n_rows_right = total
        print(
            f"{name}, {n_coalitions:,} coalitions, {n_seeds} seeds of {n_rows} rows: "
            f"{n_listed:,} reasons, {n_stated / max(n_listed, 1):.1%} of places stated, "
            f"{n_right / max(n_stated, 1):.2%} of them right, all of a row right in "
            f"{n_rows_right / (n_seeds * n_rows):.2%} of rows",
            flush=True,
        )


def sampled(value, name: str, n_coalitions: int, seed: int, rows: np.ndarray):
    """Attributions (n, d, k) and replicates (R, n, d, k) by one design."""
    design = getattr(dshap.designs, name)(D, n_coalitions, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        prepared = dshap.prepare(value, design=design, store=Path(folder) / "p", progress=False)
        found = prepared.attributor().attribute(rows)
    return found.phi, found.replicates


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--coalitions", type=int, default=2_048)
    parser.add_argument("--designs", nargs="*", default=DESIGNS)
    parser.add_argument("--tiny", action="store_true", help="seconds instead of minutes")
    given = parser.parse_args()
    if given.tiny:
        given.seeds, given.rows, given.coalitions = 1, 3, 256
    main(given.seeds, given.rows, given.coalitions, tuple(given.designs))
