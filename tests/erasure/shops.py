"""Stores of small nightly jobs whose rows have canaries: unique keys, texts and numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dshap.cube import cube_paths
from dshap.engine import SilentProgress
from dshap.history.run_folders import runs_in_store
from dshap.jobs import Command, load_job, run_recorded
from tests.erasure.canaries import Canaries

MODEL = """
import numpy as np

def predict(x):
    is_rome = x["city"].astype(str) == "Rome"
    return np.asarray(x["a"] * 2.0 + x["b"] * x["c"] + is_rome * 3.0, float)
"""
JOB = """
[job]
name = "shop"
store = "build/shop"
[source]
kind = "parquet"
path = "table.parquet"
key = [{key}]
features = ["a", "b", "c", "city"]
[model]
kind = "import"
function = "erasure_models:predict"
[[explain]]
name = "reasons"
value = "marginal"
background = {background}
selection = "random"
[run]
instance_tile = {tile}
keep_rows = true
{more}
"""
SINKS = """
[[sink]]
uri = "duckdb:///sink.duckdb"
table = "reasons"
shape = "long"
[[sink]]
uri = "sqlite:///sink.sqlite"
table = "reasons"
shape = "top_k"
write = "append"
deletes = "keep"
[[sink]]
path = "folder"
[report]
page = "page.html"
segments = ["city", "a:3"]
"""
NIGHTLY = '[incremental]\nstrategy = "digest"\n'


def table(n_rows: int, night: int = 0, *, every: int = 10) -> pd.DataFrame:
    """A table of a night, in which every tenth row has canaries."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"id": [f"k{i:05d}" for i in range(n_rows)]})
    for name in "abc":
        frame[name] = rng.normal(size=n_rows).round(6)
    frame["city"] = rng.choice(["Rome", "Oslo", "Bonn"], n_rows)
    chosen = np.arange(0, n_rows, every)
    frame.loc[chosen, "id"] = [f"KEYCANARY{i:05d}" for i in chosen]
    frame.loc[chosen, "city"] = [f"TEXTCANARY{i:05d}" for i in chosen]
    frame.loc[chosen, "a"] = 5.123456789 + chosen * 1.000000321e-3  # the largest of the column
    frame.loc[n_rows - 5 :, "b"] += night
    return frame


def has_canary(frame: pd.DataFrame) -> Any:
    """(n,): the rows with canaries."""
    return frame.id.str.startswith("KEYCANARY")


def canaries(frame: pd.DataFrame) -> Canaries:
    """The canaries of a table."""
    chosen = frame[has_canary(frame)]
    return Canaries(frozenset(chosen.id), frozenset(chosen.city), frozenset(chosen.a))


class Shop:
    """A folder with a job and its table, whose runs are carried out in this process."""

    def __init__(
        self,
        folder: Path,
        more: str = NIGHTLY,
        *,
        n_rows: int = 200,
        tile: int = 40,
        background: int = 40,
        key: str = '"id"',
    ) -> None:
        self.folder = folder
        self.n_rows = n_rows
        (folder / "erasure_models.py").write_text(MODEL)
        (folder / "job.toml").write_text(
            JOB.format(more=more, tile=tile, background=background, key=key)
        )

    @property
    def store(self) -> Path:
        return self.folder / "build" / "shop"

    @property
    def job(self) -> Path:
        return self.folder / "job.toml"

    def night(self, frame: pd.DataFrame) -> str:
        """Run the job on a table; gives the id of the run."""
        frame.to_parquet(self.folder / "table.parquet")
        with importable(self.folder):
            command = Command(str(self.job))
            ended = run_recorded(load_job(self.job), SilentProgress(), command)
        return ended.facts.run_id

    def runs(self) -> list[str]:
        return [run.run_id for run in runs_in_store(self.store)]

    def cube(self) -> Path:
        """The cube that is read."""
        return Path(str(next(iter(cube_paths(self.store)))))


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let the models of a folder be imported, and only these."""
    sys.modules.pop("erasure_models", None)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
