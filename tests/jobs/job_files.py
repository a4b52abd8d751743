"""Small job files and tables."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

JOB: dict[str, Any] = {
    "job": {"name": "small", "store": "out.zarr"},
    "source": {
        "kind": "parquet",
        "path": "table.parquet",
        "key": ["id"],
        "target": "y",
        "features": ["hr", "temp", "hum"],
    },
    "model": {
        "kind": "kernel_ridge",
        "landmarks": 30,
        "lengthscale": [1.0, 2.0, 1.5],
        "penalty": 1e-4,
    },
    "explain": [
        {"name": "interventional", "value": "kernel_interventional"},
        {"name": "observational", "value": "kernel_observational", "landmarks": 20},
    ],
    "run": {"instance_tile": 100, "units": "rentals", "keep_rows": True},
}
"""A whole job on the table of `small_table`, in this process."""


def nightly_job(
    model: str, source: str, sink: str, *, query: str = "select * from customers", more: str = ""
) -> str:
    """TOML text of a job that explains a query of a shop each night, and loads a table of reasons.

    `model` is the place of a predict function, `source` and `sink` are addresses of databases, and
    `more` are tables that follow the [[sink]], or keys of it.
    """
    return f"""
[job]
name = "shop"
store = "build/shop"
[source]
kind = "sql"
uri = "{source}"
query = "{query}"
key = ["id"]
features = ["a", "b", "c"]
[model]
kind = "import"
function = "{model}"
[[explain]]
name = "reasons"
value = "marginal"
background = 5
selection = "random"
[incremental]
strategy = "digest"
[[sink]]
uri = "{sink}"
table = "reasons"
{more}"""


def changed(*changes: tuple[str, Any], job: dict[str, Any] = JOB) -> dict[str, Any]:
    """A job with other values at places like "model.landmarks" or "explain.0.name"; None takes the
    key out."""
    out = copy.deepcopy(job)
    for place, value in changes:
        *path, last = place.split(".")
        table: Any = out
        for part in path:
            table = table[int(part)] if isinstance(table, list) else table.setdefault(part, {})
        if isinstance(table, list):
            table[int(last)] = value
        elif value is None:
            del table[last]
        else:
            table[last] = value
    return out


def to_toml(job: dict[str, Any]) -> str:
    """TOML text of tables of plain values."""
    lines = []
    for name, tables in job.items():
        for table in tables if isinstance(tables, list) else [tables]:
            lines.append(f"[[{name}]]" if isinstance(tables, list) else f"[{name}]")
            lines += [f"{_key(key)} = {_value(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    """A key of TOML, in quotes where it has a dot."""
    if "." in name:
        return json.dumps(name, ensure_ascii=False)
    return name


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(own)}" for key, own in value.items()) + "}"
    return (
        "[" + ", ".join(map(_value, value)) + "]"
        if isinstance(value, list | tuple)
        else repr(value)
    )


def write_job(folder: Path, job: dict[str, Any]) -> Path:
    path = folder / "job.toml"
    path.write_text(to_toml(job), encoding="utf-8")
    return path


def small_table(n_rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "id": np.arange(n_rows) + 1000,
            "hr": rng.integers(0, 24, n_rows).astype(float),
            "temp": rng.normal(size=n_rows),
            "hum": rng.normal(size=n_rows),
            "note": "text",
        }
    )
    frame["y"] = 3.0 * frame.temp + frame.hum * frame.temp + np.sin(frame.hr) + 50.0
    return frame
