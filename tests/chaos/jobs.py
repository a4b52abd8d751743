"""Kinds of job, each a folder of files and the command that finishes it."""

from __future__ import annotations

import hashlib
import re
import socket
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pandas as pd

from dshap.blocks import finished_blocks
from dshap.core.places import Place, place_of
from dshap.cube import store_parts
from dshap.cube.folder import Folder
from tests.buckets import BUCKET
from tests.chaos import on_a_scheduler

N_ROWS, D = 1_500, 7
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
ARRAY = """
{run} --only learn && {{ for i in 1 2 3; do {run} --shard $i/3 & done; wait; {run} --only finish; }}
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


@dataclass(frozen=True)
class Kind:
    """A kind of job."""

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

    def make(self, folder: Path) -> None:
        """Make the job's files in a folder."""
        folder.mkdir(parents=True)
        x = np.random.default_rng(5).normal(size=(N_ROWS, D))
        frame = pd.DataFrame(x, columns=NAMES)
        frame["y"] = np.sin(x[:, 0]) * x[:, 1] + x[:, 2]
        frame["id"] = [f"row {i}" for i in range(N_ROWS)]
        frame.to_parquet(folder / "table.parquet")
        (folder / "slow.py").write_text(SLOW.format(pause=self.pause))
        self.prepare(folder)
        head = f'[job]\nname = "chaos"\nstore = "{self.store(folder)}"\n'
        (folder / "job.toml").write_text(head + self.text.replace("{port}", _free_port()))
        (folder / "place").mkdir()

    def store(self, folder: Path) -> str:
        """The store of a job in this folder, as the job file writes it."""
        if self.is_in_bucket:
            return f"s3://{BUCKET}/{folder.parent.name}/{re.sub('[^a-z0-9]+', '-', folder.name)}"
        return "place/store"

    @property
    def is_several(self) -> bool:
        """Whether it is more processes than one that starts the others, so that some go on."""
        return self.is_array or self.has_scheduler

    def command(self, folder: Path) -> list[str]:
        """The command that finishes the job in this folder."""
        run = [sys.executable, "-m", "dshap", "run", "job.toml"]
        if self.is_array:
            return ["bash", "-c", ARRAY.format(run=" ".join(run))]
        if self.has_scheduler:
            address = tomllib.loads((folder / "job.toml").read_text())["cluster"]["address"]
            port = address.rpartition(":")[2]
            return [sys.executable, on_a_scheduler.__file__, port, *run]
        return run

    def place(self, folder: Path) -> Place:
        """Where its store is."""
        return place_of(self.store(folder) if self.is_in_bucket else folder / "place" / "store")

    def digests(self, folder: Path) -> dict[str, set[str]]:
        """What a finished job holds: digests of its cubes' values, and of its sink's lines."""
        found: dict[str, set[str]] = {}
        for name, path in store_parts(self.place(folder)).items():
            if not Folder(path / "state").has("receipts"):
                continue
            digest = hashlib.blake2b(digest_size=10)
            for block in finished_blocks(path):
                for variable in ("attribution", "prediction", "status"):
                    digest.update(np.ascontiguousarray(block.read(variable)).tobytes())
            explain = name.partition("/")[0]  # of nights all, which are alike here
            found.setdefault(explain, set()).add(digest.hexdigest())
        if (folder / "shop.duckdb").exists():
            found["lines of the sink"] = {_digest_of_sink(folder)}
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


def _digest_of_sink(folder: Path) -> str:
    """A digest of the lines of the sink, without the numbers of the runs."""
    import duckdb

    with duckdb.connect(str(folder / "shop.duckdb"), read_only=True) as shop:
        lines = shop.execute(
            "select * exclude (_dshap_run_id) from reasons order by id, feature"
        ).fetchall()
    return hashlib.blake2b(repr(lines).encode()).hexdigest()


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
