"""Tables of the experiments on real data, read where they lie; made up for the tiny form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workflows.rkhs_shap.common import SEED

__all__ = ["ADULT", "Table", "adult", "league", "made_up", "pima", "split"]

ADULT = (
    "age",
    "education_num",
    "hours_per_week",
    "capital_gain",
    "marital_status",
    "occupation",
    "relationship",
    "sex",
)
"""Columns of adult that the models see: `race`, `native_country`, `workclass` and the sampling
weight are left out."""
ADULT_CODES = ("marital_status", "occupation", "relationship", "sex")
MISSING_AS_ZERO = ("glucose", "blood_pressure", "skin_thickness", "insulin", "bmi")
"""Of pima: no living patient has a 0 here."""


@dataclass(frozen=True)
class Table:
    """Columns as numbers, and a target of 0 and 1."""

    name: str
    rows: pd.DataFrame
    """(n, columns)"""
    target: NDArray[np.int64]
    """(n,)"""
    is_train: NDArray[np.bool_]
    """(n,)"""

    def part(self, is_train: bool) -> tuple[pd.DataFrame, NDArray[np.int64]]:
        """Rows and targets of the training rows, or of the others."""
        chosen = self.is_train == is_train
        return self.rows[chosen].reset_index(drop=True), self.target[chosen]


def split(n: int, share: float = 0.7, seed: int = SEED) -> NDArray[np.bool_]:
    """(n,): the training rows, drawn at random."""
    return np.random.default_rng(seed).permutation(n) < round(share * n)


def pima(folder: Path) -> Table:
    """Pima diabetes: 768 patients, 8 columns; zeros that stand for missing become the median of the
    others."""
    table = pd.read_parquet(folder / "pima_diabetes.parquet").astype(float)
    for name in MISSING_AS_ZERO:
        column = table[name].where(table[name] > 0)
        table[name] = column.fillna(column.median())
    return Table(
        "pima",
        table.drop(columns="outcome"),
        table["outcome"].to_numpy(np.int64),
        split(len(table)),
    )


def league(folder: Path) -> Table:
    """League of Legends, diamond games after 10 minutes: 9,879 games, 38 columns, whether blue
    won."""
    table = pd.read_parquet(folder / "lol_diamond_10min.parquet").astype(float)
    rows = table.drop(columns=["gameId", "blueWins"])
    return Table("league", rows, table["blueWins"].to_numpy(np.int64), split(len(table)))


def adult(folder: Path) -> Table:
    """Adult: all rows that are complete in these columns, by the split of the table; text as
    codes."""
    wanted = [*ADULT, "income_gt_50k", "split"]
    table = (
        pd.read_parquet(folder / "adult.parquet", columns=wanted).dropna().reset_index(drop=True)
    )
    is_train = (table["split"] == "train").to_numpy()
    return Table(
        "adult", codes(table[list(ADULT)]), table["income_gt_50k"].to_numpy(np.int64), is_train
    )


def codes(table: pd.DataFrame) -> pd.DataFrame:
    """Text as the position of its value among those that occur, sorted; capital gains on a
    logarithmic scale."""
    coded = {name: pd.Categorical(table[name]).codes for name in ADULT_CODES}
    return table.assign(**coded, capital_gain=np.log1p(table["capital_gain"])).astype(float)


def made_up(name: str, columns: Mapping[str, str], n: int = 300) -> Table:
    """Correlated columns, of which the first and the last decide; those that are called "code" have
    three values."""
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(n, len(columns))) + 0.7 * rng.normal(size=(n, 1))
    is_one = rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * x[:, 0] - 2.0 * x[:, -1]))
    rows = pd.DataFrame(x, columns=list(columns))
    for column, kind in columns.items():
        if kind == "code":
            rows[column] = np.digitize(rows[column], [-0.5, 0.5]).astype(float)
    return Table(name, rows, is_one.astype(np.int64), split(n))
