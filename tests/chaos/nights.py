"""Kinds of job with several nights: a table that changes, a cube for each night, a sink.

The table of a night depends on its number alone, so that what a game should end with is what an
undisturbed job ends with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dshap.blocks import finished_blocks
from dshap.cube.current import current_of
from tests.chaos.jobs import HERE, LOCAL, SLOW, Kind, Outcome, values_of
from tests.chaos.tables import Tables
from tests.databases import Server
from tests.jobs.job_files import to_toml

N_FIRST = 300
"""Rows of the first night."""
N_GONE = 15
N_CHANGED = 9
N_NEW = 25
N_NIGHTS = 3
KEY = "kunde nr"
FEATURES = ["größe", "x 1", "visits", "spend", "age"]
SINK = "gründe"
FIRST_DAY = 10
"""The day of November of the first night."""


@cache
def table_of(night: int) -> pd.DataFrame:
    """The rows of a night: some are gone since the night before, some have changed, some are new."""
    if night == 0:
        return _new_rows(0, N_FIRST)
    before = table_of(night - 1)
    kept = before.iloc[N_GONE:].copy()
    changed = kept.index[:: len(kept) // N_CHANGED]
    kept.loc[changed, "x 1"] += 1.0
    first = N_FIRST + (night - 1) * N_NEW
    return pd.concat([kept, _new_rows(first, N_NEW)], ignore_index=True)


def _new_rows(start: int, n: int) -> pd.DataFrame:
    draws = np.random.default_rng([3, start])
    rows = pd.DataFrame(draws.normal(size=(n, len(FEATURES))), columns=FEATURES)
    rows["größe"] = rows["größe"].where(draws.random(n) > 0.05)
    rows.insert(0, KEY, np.arange(start, start + n))
    return rows


@cache
def model_file(n_classes: int) -> bytes:
    """A fitted ensemble of trees; several classes, or a regression for 1."""
    import xgboost

    rows = _new_rows(10_000, 500)
    x = rows[FEATURES]
    target = (x.fillna(0).to_numpy() @ np.array([1.0, -2.0, 0.5, 1.0, 0.0])) * x["age"].to_numpy()
    options: dict[str, Any] = {"n_estimators": 15, "max_depth": 3, "n_jobs": 1, "random_state": 0}
    if n_classes > 1:
        labels = pd.qcut(target, n_classes, labels=False)
        fitted = xgboost.XGBClassifier(**options).fit(x, labels)
    else:
        fitted = xgboost.XGBRegressor(**options).fit(x, target)
    return bytes(fitted.get_booster().save_raw("json"))


SOURCE = {"key": [KEY], "features": FEATURES, "missing": "pass", "kind": "sql", "table": "kunden"}
TREES: Mapping[str, Any] = {
    "model": {"kind": "xgboost", "path": "model.json"},
    "explain": [{"name": "reasons", "value": "trees"}],
}
BLACK_BOX: Mapping[str, Any] = {
    "source": SOURCE | {"missing": "skip"},
    "model": {"kind": "import", "function": "slow:predict"},
    "explain": [{"name": "reasons", "value": "marginal", "background": 5}],
    "design": {"kind": "exact"},
}


@dataclass(frozen=True)
class Nights(Kind):
    """A job with [incremental] on a table of a database, and a sink in the same database."""

    text: str = ""
    n_nights: int = N_NIGHTS
    has_table: bool = True
    scheme: str = "duckdb"
    """The database: duckdb, sqlite or postgresql."""
    server: Server | None = None
    """The running server; None where there is none, or the database is a file."""
    explained: Mapping[str, Any] = field(default_factory=lambda: TREES)
    """Tables of the job that say what explains what."""
    sink: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the sink beside its place."""
    n_classes: int = 1
    cluster: str = HERE

    def make(self, folder: Path) -> None:
        (folder / "model.json").write_bytes(model_file(self.n_classes))
        (folder / "slow.py").write_text(SLOW.format(pause=self.pause))
        server = self.server.with_new_database().uri(None) if self.server is not None else ""
        (folder / "server").write_text(server)
        scratch = folder / "scratch"
        scratch.mkdir()
        tables: dict[str, Any] = {
            "source": SOURCE,
            "incremental": {"strategy": "digest"},
            "run": {"instance_tile": 120, "scratch": str(scratch)},
            "sink": [{"uri": self.uri(folder), "table": SINK, **self.sink}],
            "check": [{"kind": "failed_rows", "error": 0}],
            **self.explained,
        }
        tables["source"] = tables["source"] | {"uri": self.uri(folder)}
        replace(self, text=to_toml(tables) + self.cluster).write_job(folder)

    def uri(self, folder: Path) -> str:
        """The address of the database of a game."""
        if self.server is not None:
            return (folder / "server").read_text()
        return f"{self.scheme}:///{folder / 'place' / ('shop.' + self.scheme)}"

    def tables(self, folder: Path) -> Tables:
        return Tables(self.uri(folder), SINK, KEY)

    def begin_night(self, folder: Path, night: int) -> None:
        self.tables(folder).put("kunden", table_of(night))

    def rows_of(self, night: int) -> pd.DataFrame:
        return table_of(night).set_index(KEY)

    def options(self, night: int) -> list[str]:
        return ["--as-of", self.day(night)]

    def day(self, night: int) -> str:
        """The date of a night."""
        return f"2026-11-{FIRST_DAY + night}"

    def outcome(self, folder: Path) -> Outcome:
        """The values of the cube that is read and the lines of the sink, in the order of the keys."""
        cube = self.place(folder) / "reasons"
        if current_of(cube) is None:
            return {}
        keys = np.concatenate([block.keys[KEY] for block in finished_blocks(cube)])
        order = np.argsort(keys)
        found: dict[str, Any] = {"key": keys[order]}
        found |= {name: each[order] for name, each in values_of(cube).items()}
        found["lines of the sink"] = self.tables(folder).lines(self.is_history)
        return found


def nights(server: Server | None) -> dict[str, Nights]:
    """The kinds of nights, by their names; those on PostgreSQL where a server runs."""
    kinds = {
        "nights of trees, DuckDB": Nights(sink={"shape": "long", "deletes": "mark"}),
        "nights of a black box, SQLite": Nights(
            scheme="sqlite",
            explained=BLACK_BOX,
            sink={"shape": "wide"},
            rounding=1e-12,
            pause=0.01,
        ),
        "nights in shards, SQLite": Nights(
            scheme="sqlite", is_array=True, sink={"shape": "wide", "rows": "changed"}
        ),
        "nights on workers, DuckDB": Nights(
            explained=BLACK_BOX,
            sink={"shape": "wide", "write": "append"},
            is_history=True,
            rounding=1e-12,
            pause=0.01,
            cluster=LOCAL,
        ),
        "nights in a bucket, SQLite": Nights(
            scheme="sqlite", is_in_bucket=True, sink={"shape": "top_k", "k": 2}
        ),
    }
    if server is not None:
        kinds |= {
            "nights of three classes, PostgreSQL": Nights(
                server=server, n_classes=3, sink={"shape": "top_k", "k": 2, "deletes": "mark"}
            ),
            "nights in a bucket, PostgreSQL": Nights(
                server=server,
                is_in_bucket=True,
                sink={"shape": "long", "write": "append"},
                is_history=True,
            ),
        }
    return kinds
