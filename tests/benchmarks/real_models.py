"""The default `explain` of models on real tables: error, coverage and seconds, kernelshap and
permutation beside it.

Boosted trees and forests, whose Shapley values `Trees` computes by their leaves, and Poisson
regressions, exp of a sum, whose are integrals of products (`model_games.by_products` says how); on
tables of 13 to 150 columns, texts and classes one a column, some with columns of noise that no
model may use.  A seed draws the rows and the background.  Columns and summary as of
`tests.benchmarks.widths`.

Usage: python -m tests.benchmarks.real_models --data FOLDER [--tables "bike hours" …] [--models
forest …] [--rows 8]
       [--background 20] [--budget 512] [--seeds 4] [--json OUT] [--tiny]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import PoissonRegressor

import dshap
from dshap.core.records import BoolArray, FloatArray
from dshap.values import Marginal, Trees
from tests.benchmarks.model_games import RowGames
from tests.benchmarks.peers import write_json
from tests.benchmarks.widths import HEADER, Cell, compare, explained, summary

FITTED_ROWS = 6_000
Phi = Callable[[FloatArray, FloatArray], FloatArray]
"""(rows, background) -> φ (n, d)"""


@dataclass(frozen=True)
class Table:
    """A file, what is predicted of it, and what of it the model gets."""

    file: str
    target: str
    left_out: tuple[str, ...] = ()
    one_hot: tuple[str, ...] = ()
    noise: int = 0
    """Columns of it beside."""

    def read(self, folder: Path | None) -> tuple[FloatArray, FloatArray]:
        """Rows (n, d), standardised where they are numbers of many values, and targets (n,)."""
        frame = (
            load_diabetes(as_frame=True).frame
            if folder is None
            else pd.read_parquet(folder / self.file)
        )
        frame = frame.dropna().sample(min(FITTED_ROWS, len(frame.dropna())), random_state=0)
        y, x = frame[self.target].to_numpy(float), frame.drop(columns=[self.target, *self.left_out])
        x = pd.get_dummies(x, columns=list(self.one_hot)).astype(float)
        x = x.loc[:, x.nunique() > 1]
        many = x.columns[x.nunique() > 2]
        x[many] = (x[many] - x[many].mean()) / x[many].std()
        beside = np.random.default_rng(7).normal(size=(len(x), self.noise))
        return np.column_stack([x.to_numpy(), beside]).astype(np.float32).astype(float), y


HOURS, CLASSES = (
    ("instant", "dteday", "casual", "registered"),
    ("season", "mnth", "hr", "weekday", "weathersit"),
)
TABLES = {
    "bike hours": Table("bike_hour.parquet", "count", HOURS[1:]),
    "kegg": Table("uci_keggdirected.parquet", "y", ("fold",)),
    "kegg and noise": Table("uci_keggdirected.parquet", "y", ("fold",), noise=10),
    "matches": Table("lol_diamond_10min.parquet", "blueWins", ("gameId",)),
    "air": Table("beijing_air_quality.parquet", "PM2_5", (), ("wd", "station")),
    "bike classes": Table("bike_hour.parquet", "count", HOURS, CLASSES),
    "much noise": Table("uci_keggdirected.parquet", "y", ("fold",), noise=130),
}
TINY = {"diabetes": Table("", "target", noise=4)}


def by_leaves(model: Any) -> tuple[Callable[[FloatArray], FloatArray], Phi]:
    """predict, and φ by the leaves of the trees."""

    def phi(rows: FloatArray, background: FloatArray) -> FloatArray:
        return np.asarray(
            dshap.explain(Trees(model, background), rows, progress=False).attribution[..., 0]
        )

    return model.predict, phi


def boosted(x: FloatArray, y: FloatArray) -> tuple[Callable[[FloatArray], FloatArray], Phi]:
    return by_leaves(HistGradientBoostingRegressor(max_depth=6, random_state=0).fit(x, y))


def forest(x: FloatArray, y: FloatArray) -> tuple[Callable[[FloatArray], FloatArray], Phi]:
    return by_leaves(RandomForestRegressor(20, max_depth=8, random_state=0).fit(x, y))


def poisson(x: FloatArray, y: FloatArray) -> tuple[Callable[[FloatArray], FloatArray], Phi]:
    """exp(Σ_j c_j x_j + c): φ_i = ∫ Π_{k≠i} (t a_k + (1 − t) b_k) dt (a_i − b_i), with a and b the
    factors of a row and of one of the background."""
    positive = y - y.min()
    model = PoissonRegressor(alpha=1e-3, max_iter=300).fit(x, positive / positive.mean())
    nodes, masses = np.polynomial.legendre.leggauss(x.shape[1] // 2 + 1)

    def phi(rows: FloatArray, background: FloatArray) -> FloatArray:
        out = np.zeros(rows.shape)
        others = np.exp(background * model.coef_)
        for i, own in enumerate(np.exp(rows * model.coef_)):
            for t, mass in zip((nodes + 1) / 2, masses / 2, strict=True):
                mixed = t * own + (1 - t) * others
                out[i] += mass * (mixed.prod(axis=1, keepdims=True) / mixed * (own - others)).mean(
                    axis=0
                )
        return out * np.exp(model.intercept_)

    return model.predict, phi


MODELS = {"boosted": boosted, "forest": forest, "Poisson": poisson}


def add(
    cell: Cell, x: FloatArray, model: tuple[Any, Phi], n: int, n_background: int, seed: int
) -> None:
    """One more seed of rows and background."""
    order = np.random.default_rng([100, seed]).permutation(len(x))
    background, rows = x[order[:n_background]], x[order[n_background : n_background + n]]
    games = RowGames(cell.kind, rows, background, *model)

    def values(masks: BoolArray) -> FloatArray:
        return np.stack([games.values(i, masks) for i in range(n)])

    found = explained(Marginal(games.predict, background), rows, cell.budget, None)
    compare(cell, found, games.truth(n), values, seed)


def main(given: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    tables = {name: TABLES[name] for name in given.tables}
    if given.tiny:
        tables, given.data, given.seeds, given.rows, given.budget = TINY, None, 1, 3, 256
    elif given.data is None:
        raise SystemExit("give --data FOLDER, where the tables are, or --tiny")
    cells: list[Cell] = []
    print(HEADER)
    for name, table in tables.items():
        x, y = table.read(given.data)
        for kind in given.models:
            cell = Cell(x.shape[1], given.budget, f"{name}, {kind}")
            model = MODELS[kind](x, y)
            for seed in range(given.seeds):
                add(cell, x, model, given.rows, given.background, seed)
            print(cell, flush=True)
            cells.append(cell)
            write_json(given.json, {"cells": [asdict(cell) for cell in cells]})
    summary(cells)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--background", type=int, default=20)
    parser.add_argument("--budget", type=int)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tiny", action="store_true", help="seconds instead of an hour")
    main(parser.parse_args())
