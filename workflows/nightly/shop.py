"""A made-up shop: 200,000 customers in a DuckDB database, and a model of who leaves, in a file.

python shop.py make FOLDER      the database shop.duckdb, and model.json, which XGBoost wrote
python shop.py trade FOLDER     a day of trade: 5 % of the customers change, 1 % go
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import xgboost

CUSTOMERS = 200_000
FITTED = 30_000
"""Customers of earlier years, which the model is fitted on."""
PLANS = ("basic", "family", "business")
CITIES = ("Aachen", "Bremen", "Chemnitz", "Dresden", "Essen", "Fulda", "Gotha", "Halle")
FEATURES = ["plan", "city", "spend", "visits", "age", "days_late", "joined_year"]


def customers(n: int, seed: int) -> pd.DataFrame:
    """Customers with text, dates and missing values."""
    rng = np.random.default_rng(seed)
    spend = np.round(rng.gamma(2.0, 20.0, n), 2)
    spend[rng.random(n) < 0.05] = np.nan
    age = rng.integers(18, 90, n).astype(float)
    age[rng.random(n) < 0.10] = np.nan
    city = pd.Series(rng.choice(CITIES, n), dtype="str")
    return pd.DataFrame(
        {
            "customer_id": np.arange(n),
            "plan": pd.Series(rng.choice(PLANS, n, p=[0.6, 0.3, 0.1]), dtype="str"),
            "city": city.mask(rng.random(n) < 0.02),
            "joined": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 4000, n), "D"),
            "spend": spend,
            "visits": rng.poisson(3.0, n),
            "age": age,
            "days_late": np.maximum(0, rng.normal(0.0, 10.0, n)).round(1),
        }
    )


def leaves(table: pd.DataFrame, seed: int) -> pd.Series:
    """Who leaves: those who come seldom and pay late, the more so on a small plan."""
    rng = np.random.default_rng(seed)
    log_odds = (
        -1.0
        - 0.5 * table["visits"]
        + 0.08 * table["days_late"]
        + 1.2 * (table["plan"] == "basic")
        - 0.01 * table["spend"].fillna(40.0)
        + 0.6 * ((table["city"] == "Essen") & (table["visits"] < 2))
    )
    return pd.Series(rng.random(len(table)) < 1 / (1 + np.exp(-log_odds)))


def make(folder: Path) -> None:
    """Write the database and the model."""
    folder.mkdir(parents=True, exist_ok=True)
    table = customers(CUSTOMERS, seed=0)
    (folder / "shop.duckdb").unlink(missing_ok=True)
    with duckdb.connect(str(folder / "shop.duckdb")) as shop:
        shop.register("made", table)
        shop.execute("create table customers as select * from made")
    model = xgboost.XGBClassifier(
        n_estimators=60, max_depth=4, learning_rate=0.2, enable_categorical=True, seed=0
    )
    known = customers(FITTED, seed=2)
    model.fit(as_fitted(known), leaves(known, seed=1))
    model.save_model(folder / "model.json")


def as_fitted(table: pd.DataFrame) -> pd.DataFrame:
    """The columns of the model, as the query of the job gives them."""
    listed = table.assign(joined_year=table["joined"].dt.year)
    for name, words in (("plan", PLANS), ("city", CITIES)):
        listed[name] = pd.Categorical(listed[name], categories=words)
    return listed[FEATURES]


def trade(folder: Path) -> None:
    """Change 5 % of the customers, and take 1 % away."""
    with duckdb.connect(str(folder / "shop.duckdb")) as shop:
        shop.execute(
            "update customers set visits = visits + 1, spend = coalesce(spend, 0) + 10 "
            "where customer_id % 20 = 0"
        )
        shop.execute("delete from customers where customer_id % 100 = 7")


if __name__ == "__main__":
    {"make": make, "trade": trade}[sys.argv[1]](Path(sys.argv[2]))
