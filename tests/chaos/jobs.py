"""Kinds of job, each a folder of files and the command that finishes it."""

from __future__ import annotations

import re
import socket
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dshap.blocks import finished_blocks
from dshap.core.places import Place, place_of
from dshap.cube import store_parts
from dshap.storage.folder import Folder
from tests.buckets import BUCKET
from tests.chaos import on_a_scheduler
from tests.chaos.commands import Steps
from tests.chaos.tables import Tables

N_ROWS = 300
D = 7
NAMES = [f"x{i}" for i in range(D)]
SLOW = """
import time
import numpy as np

def predict(x):
    time.sleep({pause})
    return x[:, 0] * x[:, 1] + x[:, 2:].sum(axis=1)

def of_tokens(ids):
    time.sleep({pause})
    return np.sin(ids).sum(axis=1)
"""
TABLE = """
[source]
kind = "parquet"
path = "table.parquet"
key = ["id"]
{target}
features = ["x0", "x1", "x2", "x3", "x4", "x5", "x6"]
"""
RIDGE = """
[model]
kind = "kernel_ridge"
landmarks = 100
lengthscale = "median"
penalty = "validate"
"""
IMPORTED = """
[model]
kind = "import"
function = "slow:predict"
"""
TWO_EXPLANATIONS = """
[[explain]]
name = "interventional"
value = "kernel_interventional"
background = "all"
[[explain]]
name = "regression"
value = "conditional_regression"
landmarks = 64
penalty = "validate"
"""
TILES = """
[run]
instance_tile = 64
coalition_tile = 8
row_span = 256
"""
LOCAL = """
[cluster]
kind = "local"
workers = 2
memory_limit = "1GiB"
"""
HERE = """
[cluster]
kind = "none"
"""
OWN_SCHEDULER = """
[cluster]
kind = "scheduler"
address = "tcp://127.0.0.1:{port}"
"""


Outcome = Mapping[str, "NDArray[Any] | list[tuple[Any, ...]]"]
"""Name -> what a finished job promises of it: values of a cube, or the lines of a sink."""


@dataclass(frozen=True)
class Kind:
    """A kind of job, each a folder of files and the command that finishes it."""

    text: str
    """The job file, without [job]."""
    pause: float = 0.0
    """Seconds that the model takes for a call."""
    is_array: bool = False
    """Whether it is learned, explained by three shards at once, and finished, each by a process."""
    has_scheduler: bool = False
    """Whether its workers come to a scheduler that anybody started, one of them late."""
    is_in_bucket: bool = False
    """Whether the store is in a bucket, whose service answers late or with errors now and then."""
    prepare: Callable[[Path], None] = lambda folder: None
    """Makes files of this kind alone."""
    has_table: bool = False
    """Whether it has a sink in a database."""
    is_history: bool = False
    """Whether that sink keeps every version of a row."""
    rounding: float = 0.0
    """Largest difference of values that are computed anew in blocks of other rows; 0 for bit for bit."""
    n_nights: int = 2
    """Of a table that stays the same the second night is the same command again."""

    def make(self, folder: Path) -> None:
        """Make the job's files in a folder that is there, with an empty one in it, `place`."""
        x = np.random.default_rng(5).normal(size=(N_ROWS, D))
        frame = pd.DataFrame(x, columns=NAMES)
        frame["y"] = np.sin(x[:, 0]) * x[:, 1] + x[:, 2]
        frame["id"] = [f"row {i}" for i in range(N_ROWS)]
        frame.to_parquet(folder / "table.parquet")
        (folder / "slow.py").write_text(SLOW.format(pause=self.pause))
        self.prepare(folder)
        self.write_job(folder)

    def write_job(self, folder: Path) -> None:
        head = f'[job]\nname = "chaos"\nstore = "{self.store(folder)}"\n'
        text = self.text.replace("{port}", _free_port())
        (folder / "job.toml").write_text(head + text, encoding="utf-8")

    def begin_night(self, folder: Path, night: int) -> None:
        """Let the source be that of a night, the first of which is 0."""

    def rows_of(self, night: int) -> pd.DataFrame | None:
        """The table of a night, with its key as index; None where nights are not compared."""
        return None

    def store(self, folder: Path) -> str:
        """The store of a job in this folder, as the job file writes it."""
        if self.is_in_bucket:
            return f"s3://{BUCKET}/{folder.parent.name}/{re.sub('[^a-z0-9]+', '-', folder.name)}"
        return "place/store"

    @property
    def is_several(self) -> bool:
        """Whether it is more processes than one that starts the others, so that some go on."""
        return self.is_array or self.has_scheduler

    def options(self, night: int) -> list[str]:
        """The options of the command of a night."""
        return []

    def steps(self, folder: Path, night: int) -> Steps:
        """The commands that finish the job of a night in this folder."""
        run = ["dshap", "run", "job.toml", "-q"]
        options = self.options(night)
        if self.is_array:
            shards = [[*run, "--shard", f"{i}/3"] for i in (1, 2, 3)]
            return [[[*run, "--only", "learn", *options]], shards, [[*run, "--only", "finish"]]]
        if self.has_scheduler:
            address = tomllib.loads((folder / "job.toml").read_text())["cluster"]["address"]
            port = address.rpartition(":")[2]
            program = [sys.executable, "-m", *run, *options]
            return [[[sys.executable, on_a_scheduler.__file__, port, *program]]]
        return [[[*run, *options]]]

    def place(self, folder: Path) -> Place:
        """Where its store is."""
        return place_of(self.store(folder) if self.is_in_bucket else folder / "place" / "store")

    def tables(self, folder: Path) -> Tables | None:
        """The tables of its sink, if it has one in a database."""
        if not self.has_table:
            return None
        return Tables(f"duckdb:///{folder / 'shop.duckdb'}", "reasons", "id")

    def outcome(self, folder: Path) -> Outcome:
        """What the finished job holds: the values of its cubes, and the lines of its sink."""
        found: dict[str, Any] = {}
        for name, path in store_parts(self.place(folder)).items():
            if Folder(path / "state").has("receipts"):
                explain = name.partition("/")[0]  # of nights all, which are alike here
                found |= {f"{explain} {key}": each for key, each in values_of(path).items()}
        if (tables := self.tables(folder)) is not None:
            found["lines of the sink"] = tables.lines(self.is_history)
        return found

    def pieces(self, folder: Path) -> dict[str, tuple[object, ...]]:
        """Name -> what a finished piece is known by: one that is made again would differ."""
        if self.is_in_bucket:
            return _objects(self.store(folder))
        store = folder / "place" / "store"
        found: dict[str, tuple[object, ...]] = {}
        for path in store.rglob("*"):
            if is_piece(name := path.relative_to(store).as_posix()):
                found[name] = (path.stat().st_ino, path.stat().st_mtime_ns)
        return found


def values_of(cube: Place) -> dict[str, NDArray[Any]]:
    """The values of the finished blocks of a cube, in the order of its rows."""
    blocks = list(finished_blocks(cube))
    names = ("attribution", "prediction", "status")
    return {name: np.concatenate([block.read(name) for block in blocks]) for name in names}


def is_piece(name: str) -> bool:
    """Whether a file of a store is one that no later command makes again."""
    patterns = ("*/state/receipts/*.json", "*/state/m*-*.npz", "*/state/base-*.npz")
    return any(fnmatch(f"/{name}", pattern) for pattern in patterns)


def _objects(address: str) -> dict[str, tuple[object, ...]]:
    """The finished pieces below an address of a bucket, by the times at which they were put."""
    import boto3

    prefix = address.removeprefix(f"s3://{BUCKET}/") + "/"
    pages = boto3.client("s3").get_paginator("list_objects_v2")
    found: dict[str, tuple[object, ...]] = {}
    for page in pages.paginate(Bucket=BUCKET, Prefix=prefix):
        for each in page.get("Contents", ()):
            if is_piece(name := each["Key"].removeprefix(prefix)):
                found[name] = (each["ETag"], each["LastModified"])
    return found


def _free_port() -> str:
    """A port of this machine that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


def _boosted(folder: Path) -> None:
    import xgboost

    frame = pd.read_parquet(folder / "table.parquet")
    model = xgboost.XGBRegressor(n_estimators=200, max_depth=8, n_jobs=1, random_state=0)
    model.fit(frame[NAMES], frame["y"]).save_model(folder / "model.json")


def _shop(folder: Path) -> None:
    import duckdb

    _boosted(folder)
    with duckdb.connect(str(folder / "shop.duckdb")) as shop:
        shop.execute(f"create table rows as select * from '{folder / 'table.parquet'}'")


def _texts(folder: Path) -> None:
    draws = np.random.default_rng(0)
    texts = [draws.integers(1, 50, draws.integers(1, 12)).tolist() for _ in range(400)]
    pd.DataFrame({"id": range(400), "tokens": texts}).to_parquet(folder / "texts.parquet")


TARGET = 'target = "y"'
KINDS = {
    "two kernel explanations": Kind(
        TABLE.format(target=TARGET)
        + RIDGE
        + TWO_EXPLANATIONS
        + '[design]\nkind = "exact"\n'
        + LOCAL
        + TILES
    ),
    "two kernel explanations, one process": Kind(
        TABLE.format(target=TARGET)
        + RIDGE
        + TWO_EXPLANATIONS
        + '[design]\nkind = "exact"\n'
        + HERE
        + TILES
    ),
    "an array of shards": Kind(
        TABLE.format(target=TARGET)
        + RIDGE
        + TWO_EXPLANATIONS
        + '[design]\nkind = "exact"\n'
        + HERE
        + TILES,
        is_array=True,
    ),
    "two kernel explanations, on a scheduler": Kind(
        TABLE.format(target=TARGET)
        + RIDGE
        + TWO_EXPLANATIONS
        + '[design]\nkind = "exact"\n'
        + OWN_SCHEDULER
        + TILES,
        has_scheduler=True,
    ),
    "two kernel explanations, in a bucket": Kind(
        TABLE.format(target=TARGET)
        + RIDGE
        + TWO_EXPLANATIONS
        + '[design]\nkind = "exact"\n'
        + LOCAL
        + TILES,
        is_in_bucket=True,
    ),
    "a slow black box": Kind(
        TABLE.format(target="")
        + IMPORTED
        + '[[explain]]\nname = "marginal"\nvalue = "marginal"\nbackground = 20\n'
        + LOCAL
        + "[run]\ninstance_tile = 64\nkeep_rows = true\n",
        pause=0.1,
    ),
    "rows until they are exact": Kind(
        TABLE.format(target="")
        + IMPORTED
        + '[[explain]]\nname = "marginal"\nvalue = "marginal"\nbackground = 20\n'
        + '[design]\nkind = "kriging"\nn_coalitions = 126\ntol = 0.05\n'
        + HERE
        + "[run]\ninstance_tile = 64\n",
        pause=0.02,
    ),
    "few rows, many coalitions": Kind(
        TABLE.format(target="").replace("table.parquet", "few.parquet")
        + IMPORTED
        + '[[explain]]\nname = "marginal"\nvalue = "marginal"\nbackground = 50\n'
        + '[design]\nkind = "exact"\n'
        + LOCAL
        + "[run]\ncoalition_tile = 4\n",
        pause=0.1,
        prepare=lambda folder: (
            pd.read_parquet(folder / "table.parquet").head(40).to_parquet(folder / "few.parquet")
        ),
    ),
    "trees of a night, to a table": Kind(
        """
[source]
kind = "sql"
uri = "duckdb:///shop.duckdb"
table = "rows"
key = ["id"]
features = ["x0", "x1", "x2", "x3", "x4", "x5", "x6"]
[model]
kind = "xgboost"
path = "model.json"
[[explain]]
name = "reasons"
value = "trees"
[incremental]
strategy = "digest"
[[sink]]
uri = "duckdb:///shop.duckdb"
table = "reasons"
shape = "long"
"""
        + HERE
        + "[run]\ninstance_tile = 64\n",
        prepare=_shop,
        has_table=True,
    ),
    "texts": Kind(
        """
[source]
kind = "texts"
path = "texts.parquet"
column = "tokens"
key = ["id"]
[model]
kind = "import"
function = "slow:of_tokens"
[[explain]]
name = "tokens"
value = "tokens"
vocabulary = 50
longest = 12
"""
        + LOCAL
        + "[run]\ninstance_tile = 32\n",
        pause=0.03,
        prepare=_texts,
    ),
    "quadrature": Kind(
        TABLE.format(target=TARGET)
        + RIDGE
        + '[[explain]]\nname = "interventional"\nvalue = "kernel_interventional"\n'
        + 'background = "all"\n[design]\nkind = "quadrature"\n'
        + LOCAL
        + "[run]\ninstance_tile = 64\nrow_span = 256\n"
    ),
}
