"""Nights of a job for tests of sinks: cubes on disk, and the plain lists of lines that they are.

A night is a dictionary key -> `Row`; from it come the cube, the history that a job would tell, and,
by plain loops, the lines that a sink's table is to have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dshap.core.blocks import Attribution, RowBlock, Status
from dshap.cube import CubeLayout, CubeWriter, create_cube, mark_finished
from dshap.sinks import Sink

TILE = 8
SCALE = "unit of the target"
FEATURES = ("age", "the plan", "spend")
Key = tuple[int, str]
Line = tuple[Any, ...]


@dataclass(frozen=True)
class Row:
    """One row of a night."""

    values: tuple[float, str, float]
    phi: tuple[tuple[float, ...], ...]
    """(d, k)."""
    status: str
    run_id: str
    """The run that computed it."""


@dataclass
class Night:
    """One run of a job: its cube, and the nights before it; a `RowHistory`."""

    run_id: str
    method: str
    rows: dict[Key, Row]
    path: Path
    outputs: tuple[str, ...]
    before: list[Night] = field(default_factory=list)

    def computed_by(self, start: int, stop: int) -> np.ndarray:
        return np.array([row.run_id for row in self.rows.values()][start:stop], dtype=object)

    def _since(self, run_id: str, method: str) -> Night | None:
        found = [night for night in self.before if night.run_id == run_id]
        if not found or found[0].method != method or method != self.method:
            return None
        return found[0]

    def changed_since(self, run_id: str, method: str) -> np.ndarray | None:
        if self._since(run_id, method) is None:
            return None
        return np.array([row.run_id > run_id for row in self.rows.values()], dtype=bool)

    def deleted_since(self, run_id: str, method: str) -> Iterator[pa.RecordBatch] | None:
        then = self._since(run_id, method)
        if then is None:
            return None
        gone = [key for key in then.rows if key not in self.rows]
        return pa.table(
            {
                "id": pa.array([key[0] for key in gone], pa.int64()),
                "shop": pa.array([key[1] for key in gone], pa.string()),
            }
        ).to_reader(max_chunksize=2)


def write_cube(night: Night) -> None:
    """Store the cube of a night, with its columns."""
    n_outputs = len(night.outputs)
    layout = CubeLayout(
        n_rows=len(night.rows),
        players=FEATURES,
        outputs=night.outputs,
        tile=TILE,
        chunk=4,
        keys={"id": "int64", "shop": "string"},
        columns={"age": "float64", "the plan": "string", "spend": "float32"},
        run={"digest": night.run_id, "fingerprint": {}},
    )
    create_cube(night.path, layout)
    writer = CubeWriter(night.path, layout, night.run_id)
    base = np.arange(1.0, n_outputs + 1)
    writer.write_base(base)
    keys = list(night.rows)
    rows = list(night.rows.values())
    for tile in range(layout.n_blocks):
        part = slice(tile * TILE, (tile + 1) * TILE)
        here = rows[part]
        is_ok = np.array([row.status != "skipped" for row in here])
        status = np.array([Status.MEANINGS.index(row.status) for row in here], np.int8)[is_ok]
        phi = np.array([row.phi for row in here])[is_ok].reshape(-1, len(FEATURES), n_outputs)
        phi[status == Status.FAILED] = np.nan
        block = RowBlock(
            part.start,
            np.zeros((len(here), len(FEATURES))),
            is_ok,
            {
                "id": np.array([key[0] for key in keys[part]], np.int64),
                "shop": np.array([key[1] for key in keys[part]], np.dtypes.StringDType()),
            },
            columns={
                "age": np.array([row.values[0] for row in here]),
                "the plan": np.array([row.values[1] for row in here], np.dtypes.StringDType()),
                "spend": np.array([row.values[2] for row in here], np.float32),
            },
        )
        writer.write(tile, block, Attribution(phi, base, phi.sum(axis=1) + base, status))
    mark_finished(night.path)


def random_nights(folder: Path, seed: int, n: int, outputs: tuple[str, ...]) -> list[Night]:
    """A first night, then others with new, changed, deleted and returned keys; one is like the one
    before, one has another method."""
    rng = np.random.default_rng(seed)
    nights: list[Night] = []
    rows: dict[Key, Row] = {}
    gone: list[Key] = []
    for number in range(n):
        run_id = f"202611{number + 10}T031502Z"
        is_other_method = number == 4
        if number != 2:
            rows = dict(_changed(rng, rows, gone, run_id, len(outputs), number == 0))
        method = "m2" if number >= 4 else "m1"
        if is_other_method:
            rows = {key: replace(row, run_id=run_id) for key, row in rows.items()}
        night = Night(run_id, method, rows, folder / f"{seed}-{number}", outputs, list(nights))
        write_cube(night)
        nights.append(night)
    return nights


def _changed(
    rng: np.random.Generator,
    rows: Mapping[Key, Row],
    gone: list[Key],
    run_id: str,
    n_outputs: int,
    is_first: bool,
) -> Iterator[tuple[Key, Row]]:
    """The rows of the next night in a shuffled order, as tables of warehouses have them."""
    kept = list(rows)
    for key in list(kept):
        if rng.random() < 0.15:
            kept.remove(key)
            gone.append(key)
    back = [key for key in gone if rng.random() < 0.2 and key not in kept]
    for key in back:
        gone.remove(key)
    new = [
        (int(number), str(rng.choice(["o'hara", 'a "b"', "ü雪"])))
        for number in rng.integers(0, 10_000, 19 if is_first else 3)
    ]
    order = list(dict.fromkeys([*kept, *back, *new]))
    rng.shuffle(order)
    for key in (tuple(each) for each in order):
        key = (int(key[0]), str(key[1]))
        if key in kept and rng.random() < 0.6:
            yield key, rows[key]
        else:
            yield key, _row(rng, run_id, n_outputs)


def _row(rng: np.random.Generator, run_id: str, n_outputs: int) -> Row:
    phi = rng.normal(size=(len(FEATURES), n_outputs)).round(3)
    phi[rng.integers(len(FEATURES))] = -phi[0]  # ties of |attribution|
    values = (
        float(rng.choice([3.0, 0.1, np.nan])),
        str(rng.choice(["basic", "gold", ""])),
        float(rng.choice([0.25, 1e20])),
    )
    status = str(rng.choice(["ok", "skipped", "failed"], p=[0.8, 0.1, 0.1]))
    return Row(values, tuple(map(tuple, phi.tolist())), status, run_id)


TEXTS = {3.0: "3", 0.1: "0.1", 0.25: "0.25", 1e20: "1e+20", "basic": "basic", "gold": "gold"}


def lines_of(sink: Sink, night: Night) -> list[Line]:
    """The lines of a sink's table for the whole cube of a night, without status "deleted"."""
    return [
        line
        for key, row in night.rows.items()
        for output in range(len(night.outputs))
        for line in _lines_of_row(sink, night, key, row, output)
    ]


def _lines_of_row(sink: Sink, night: Night, key: Key, row: Row, output: int) -> Iterator[Line]:
    is_ok = row.status == "ok"
    phi = [each[output] if is_ok else None for each in row.phi]
    base = output + 1.0
    prediction = sum(each[output] for each in row.phi) + base if is_ok else None
    head = (*key, night.outputs[output])
    began = datetime.strptime(row.run_id, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    version = sink.model_version or night.method
    tail = (prediction, base, SCALE, row.status, version, began, None, row.run_id)
    if sink.shape == "wide":
        yield (*head, *phi, *tail)
        return
    numbers = [row.values[0], None, float(np.float32(row.values[2]))]
    of_features = [
        (
            name,
            TEXTS.get(row.values[i]),
            None if numbers[i] != numbers[i] else numbers[i],
            phi[i],
            None,
        )
        for i, name in enumerate(FEATURES)
    ]
    if sink.shape == "long":
        for each in of_features:
            yield (*head, *each, *tail)
        return
    if not is_ok:
        yield (*head, 0, None, None, None, None, None, *tail)
        return
    by_size = sorted(range(len(FEATURES)), key=lambda i: -abs(phi[i]))[: sink.k]
    for rank, i in enumerate(by_size):
        yield (*head, rank + 1, *of_features[i], *tail)


def ordered(lines: list[Line]) -> list[Line]:
    """Lines in an order of their own, predictions rounded as sums in another order differ."""
    rounded = [tuple(_plain(each) for each in line) for line in lines]
    return sorted(rounded, key=lambda line: tuple((each is None, str(each)) for each in line))


def _plain(value: Any) -> Any:
    """A value as every database gives it: a rounded number, a time with a zone, a date."""
    if type(value) is float:
        return round(value, 9)
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value):
        return datetime.fromisoformat(value)
    return value
