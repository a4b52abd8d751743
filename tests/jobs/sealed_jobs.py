"""Jobs whose runs are sealed: of trees, kernels and a black box with texts, nights of them too."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dshap.core.errors import DshapError
from dshap.engine import SilentProgress
from dshap.jobs import Command, RecordedRun, load_job, run_recorded
from tests.jobs.job_files import to_toml

MODEL = '''
"""A model of three classes of a column of text, one of booleans and two of numbers."""
import numpy as np


def classes(frame):
    city = frame["city"].astype(str).str.len().to_numpy(float)
    is_new = frame["neu"].to_numpy(float)
    first = frame["age"].to_numpy(float) * city / 40 + is_new
    second = np.sin(frame["income"].to_numpy(float)) + city
    scores = np.stack([first, second, first * second / 10], axis=1)
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)
'''
CITIES = ["Köln", "Århus", 'Sankt "Veit" an der Glan', "東京", "a, b", "Ulm 🏰"]


def people(n_rows: int, seed: int = 0, start: int = 0) -> pd.DataFrame:
    """Rows with a key of text, a column of text, one of booleans, and numbers."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": [f"kü-{start + i}" for i in range(n_rows)],
            "city": rng.choice(CITIES, n_rows),
            "neu": rng.random(n_rows) < 0.3,
            "age": rng.integers(18, 90, n_rows).astype(float),
            "income": rng.lognormal(2.0, 1.0, n_rows),
        }
    )


def numbers(n_rows: int, seed: int = 0, start: int = 0) -> pd.DataFrame:
    """Rows of numbers with a target."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n_rows, 4)), columns=list("abcd"))
    table["y"] = table.a * table.b + np.sin(2 * table.c) + (table.d > 0)
    table.insert(0, "id", np.arange(start, start + n_rows))
    return table


class SealedJob:
    """A job in a folder, its table and its store."""

    def __init__(self, folder: Path, **tables: Any) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.tables = {"job": {"name": "sealed", "store": "store"}, **tables}
        self.store = folder / "store"
        self.file = folder / "job.toml"

    def put(self, table: pd.DataFrame) -> None:
        """Replace the table of the source."""
        self.table = table
        table.to_parquet(self.folder / "table.parquet")

    def run(self, *settings: str, target: str = "") -> RecordedRun:
        """Carry out the job, and raise the error that it ended with."""
        self.file.write_text(to_toml(self.tables), encoding="utf-8")
        job = load_job(self.file, settings, target=target)
        command = Command(str(self.file), settings, target=target)
        return run_recorded(job, SilentProgress(), command)


def of_people(folder: Path, **more: Any) -> SealedJob:
    """A job of a black box with texts and three classes, in a module of its own."""
    module = f"model_{uuid.uuid4().hex}"
    job = SealedJob(
        folder,
        source={
            "kind": "parquet",
            "path": "table.parquet",
            "key": ["id"],
            "features": ["city", "neu", "age", "income"],
        },
        model={"kind": "import", "function": f"{module}:classes", "classes": list("ABC")},
        explain=[{"name": "classes", "value": "marginal", "background": 12, "selection": "random"}],
        run={"instance_tile": 16, "keep_rows": True},
        **more,
    )
    (folder / f"{module}.py").write_text(MODEL, encoding="utf-8")
    job.put(people(50))
    return job


def of_kernel(folder: Path, **more: Any) -> SealedJob:
    """A job that fits a kernel model, with two explanations of it."""
    job = SealedJob(
        folder,
        source={
            "kind": "parquet",
            "path": "table.parquet",
            "key": ["id"],
            "target": "y",
            "features": list("abcd"),
        },
        model={"kind": "kernel_ridge", "landmarks": 20, "lengthscale": 1.0, "penalty": 1e-3},
        explain=[
            {"name": "interventional", "value": "kernel_interventional"},
            {"name": "observational", "value": "kernel_observational", "landmarks": 12},
        ],
        run={"instance_tile": 32},
        **more,
    )
    job.put(numbers(100))
    return job


def of_trees(folder: Path, **more: Any) -> SealedJob:
    """A job of a booster in a file."""
    import xgboost

    folder.mkdir(parents=True, exist_ok=True)
    table = numbers(300, seed=9)
    fitted = xgboost.XGBRegressor(n_estimators=8, max_depth=3, seed=0, n_jobs=1)
    fitted.fit(table[list("abcd")], table.y).save_model(folder / "model.json")
    job = SealedJob(
        folder,
        source={
            "kind": "parquet",
            "path": "table.parquet",
            "key": ["id"],
            "features": list("abcd"),
        },
        model={"kind": "xgboost", "path": "model.json"},
        explain=[{"name": "reasons", "value": "trees"}],
        run={"instance_tile": 32},
        **more,
    )
    job.put(numbers(120))
    return job


def of_reasons(folder: Path, **more: Any) -> SealedJob:
    """A job of a sampled design, whose sink states reasons with errors and with undoing."""
    job = of_people(folder, design={"kind": "permutation", "n_permutations": 100}, **more)
    return with_reasons(job, "R1,city,Köln", "R2,neu;age,Alter", 'R3,income,"Lohn, ""netto"""')


def reasons_of_trees(folder: Path, **more: Any) -> SealedJob:
    """A job of a booster, whose sink states reasons with undoing."""
    return with_reasons(of_trees(folder, **more))


def with_reasons(
    job: SealedJob, *codes: str, uri: str = "duckdb:///{}/notices.duckdb"
) -> SealedJob:
    """A job with a sink of reasons that are undone, whose codes are lines of a code book."""
    reasons = {
        "uri": uri.format(job.folder),
        "table": "notices",
        "shape": "reasons",
        "codes": "codes.csv",
        "against": "higher",
        "undo": True,
        "text": True,
    }
    job.tables["sink"] = [reasons]
    lines = codes or ("R1,a;b,Eins", "R2,c,Zwei", "R3,d,Drei")
    content = "\n".join(["code,players,text", *lines])
    (job.folder / "codes.csv").write_text(content, encoding="utf-8")
    return job


def of_sql(folder: Path, **more: Any) -> SealedJob:
    """A job of a booster, on a table of a database that each run reads once, without nights."""
    job = of_trees(folder, **more)
    job.tables["source"] = {
        "kind": "sql",
        "uri": f"sqlite:///{folder}/people.sqlite",
        "table": "people",
        "key": ["id"],
        "features": list("abcd"),
    }
    put_in_database(job)
    return job


def put_in_database(job: SealedJob) -> None:
    """Write the table of a job into its database."""
    with contextlib.closing(sqlite3.connect(job.folder / "people.sqlite")) as opened:
        job.table.to_sql("people", opened, index=False, if_exists="replace")
        opened.commit()


def new_key(folder: Path, name: str = "seal") -> tuple[Path, Path]:
    """A private key and its public half, as openssl makes them."""
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return private, public


def message_of(error: DshapError) -> str:
    """The one line of an error."""
    assert "\n" not in str(error)
    return str(error)
