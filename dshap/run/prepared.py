"""Value functions prepared once on all their data, for any number of runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dshap import __version__
from dshap.attributors.choice import Chosen, restored_choice
from dshap.core.errors import InputError, StoreMismatchError
from dshap.core.records import Record
from dshap.core.rules import as_path
from dshap.core.types import Explained, RowReader
from dshap.cube import StateFolder, mark_prepared, read_prepared, states_of
from dshap.run.determinism import PROBE_TOLERANCE, check_steady, first_rows
from dshap.run.difference import data_said
from dshap.tables import Census

PROBE = "probe"
"""Name of the state with the first rows of the data and the model's predictions for them."""


@dataclass(frozen=True)
class DataSummary:
    """A summary of the table that was learned from: a run on prepared states reads no row of it."""

    n_rows: int
    feature_names: tuple[str, ...]
    missing: str
    digest: str

    @classmethod
    def of(cls, reader: RowReader, census: Census) -> DataSummary:
        return cls(reader.n_rows, tuple(reader.feature_names), reader.missing, census.fingerprint)

    def fingerprint(self) -> dict[str, Any]:
        return {"digest": self.digest, "n": self.n_rows, "missing": self.missing}


@dataclass(frozen=True)
class Prepared:
    """A value function with prepared states in a folder.

    Give it to `dshap.explain` as the value function.
    """

    chosen: Chosen
    """The value function, and the design or closed form of the states."""
    path: Path
    follows_from: Mapping[str, Any]
    """Plain values that decide the states, the coalitions excepted."""
    data: DataSummary
    coalition_tile: int
    row_span: int

    @property
    def value(self) -> Any:
        """The value function."""
        return self.chosen.value

    @property
    def states(self) -> StateFolder:
        return states_of(self.path)

    def describe(self) -> str:
        """Describe it in one line."""
        kind = self.follows_from["value"]["value"]
        return f"{kind} on {self.data.n_rows:,} rows, {self.chosen.info.n_coalitions:,} coalitions, {self.path}"

    def __repr__(self) -> str:
        return f"Prepared({self.describe()})"


def probe_of(value: Explained, data: RowReader) -> Record:
    """Record the first good rows of the data and the model's predictions for them."""
    rows = first_rows(data)
    check_steady(value.model, rows)
    return Record({"x": rows, "prediction": value.model(rows)})


def save_prepared(prepared: Prepared, tile_names: tuple[str, ...], probe: Record) -> None:
    """Write the description beside the states, last, so that it vouches for all of them."""
    prepared.states.put(PROBE, probe)
    content = {
        "version": __version__,
        "learnt": dict(prepared.follows_from),
        "design": prepared.chosen.fingerprint(),
        "data": asdict(prepared.data),
        "coalition_tile": prepared.coalition_tile,
        "row_span": prepared.row_span,
        "tiles": list(tile_names),
    }
    mark_prepared(prepared.path, content)


def open_prepared(store: str | Path, value: Explained) -> Prepared:
    """Open the states that `dshap.prepare` left in `store`, for the same value function.

    Parameters
    ----------
    store : path
    value : the value function, constructed as for `prepare`; its data are not read

    Raises
    ------
    InputError
        No finished states there.
    StoreMismatchError
        They belong to another value function or to another model.
    DamagedError
        A file is not what was written: call `prepare` again.
    """
    path = as_path("store", store)
    content = read_prepared(path)
    if content is None:
        raise InputError(
            f"{path} holds no prepared value function: make it with dshap.prepare(value, ...)"
        )
    chosen = restored_choice(value, content["design"])
    was = content["learnt"]["value"]
    now = json.loads(json.dumps(chosen.value_fingerprint()))
    names = sorted(
        n for n in was.keys() | now.keys() if was.get(n) != now.get(n) and n != "predictions"
    )
    if names:  # predictions are compared below, on the stored first rows
        raise StoreMismatchError(
            f"{path} was prepared for another value function (it differs in {', '.join(names)}): "
            "make the value "
            "function as it was then, or prepare into another store"
        )
    data = content["data"]
    prepared = Prepared(
        chosen,
        path,
        content["learnt"],
        DataSummary(**{**data, "feature_names": tuple(data["feature_names"])}),
        content["coalition_tile"],
        content["row_span"],
    )
    probe = prepared.states.get(PROBE, Record)
    predictions = value.model(probe["x"])
    if not np.allclose(
        predictions, probe["prediction"], rtol=PROBE_TOLERANCE, atol=0.0, equal_nan=True
    ):
        raise StoreMismatchError(
            f"{path} was prepared with another model: its predictions for the first rows of the "
            "data differ; prepare "
            "into another store"
        )
    return prepared


def refuse_other(stored: Prepared, wanted: Prepared) -> Prepared:
    """Give the stored states where they are those asked for; else raise an `InputError`."""
    if stored.data.digest != wanted.data.digest:
        said = data_said("data", stored.data.n_rows, wanted.data.n_rows)
        raise InputError(
            f"{stored.path} was prepared with another table ({said}): prepare into another store"
        )
    pairs = [
        ("design", stored.chosen.fingerprint(), wanted.chosen.fingerprint()),
        ("coalition_tile", stored.coalition_tile, wanted.coalition_tile),
        ("row_span", stored.row_span, wanted.row_span),
    ]
    for name, was, now in pairs:
        if was != now:
            raise InputError(
                f"{stored.path} was prepared with another {name} ({was}, now {now}): prepare into "
                "another store, or "
                "open it with dshap.open_prepared"
            )
    return stored
