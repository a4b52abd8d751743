"""A learned method: what a run learns for a value function (its states), in a folder.

`dshap.prepare` stores one for later rows, a nightly job one for all of its runs, and each cube
contains its own states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np

from dshap import __version__
from dshap.attributors.method import Method
from dshap.attributors.states import States
from dshap.attributors.tiling import Tiling
from dshap.core.errors import StoreMismatchError
from dshap.core.fixed_words import MissingRule
from dshap.core.options import RunOptions
from dshap.core.places import Place
from dshap.core.records import JSON, Record, digest_of
from dshap.core.types import Explained, RecordStore, RowReader
from dshap.cube import is_left, mark_prepared, may_prepare, read_prepared, repair, states_of
from dshap.engine import Plan, make_plan
from dshap.run.determinism import check_steady, first_rows, spread_rows
from dshap.run.learning import Run, learn_states
from dshap.run.probes import Probes
from dshap.run.session import Session
from dshap.storage.folder import Folder
from dshap.storage.sealed_files import StateFolder
from dshap.tables import Census

PROBE = "probe"
"""Name of the state with the first rows of the data and the model's predictions for them."""
SAMPLE = "sample-rows"
"""Name of the state with some rows of the data, for which pictures draw a line each."""
SAMPLE_ROWS = 200
"""The most rows in this state."""
DECISIVE = ("numerics", "value", "data")
"""The entries of a fingerprint that determine the states, besides the coalitions."""


@dataclass(frozen=True)
class DataSummary:
    """A summary of the table that was learned from, whose rows later runs do not read."""

    n_rows: int
    feature_names: tuple[str, ...]
    missing: MissingRule
    digest: str

    @classmethod
    def of(cls, reader: RowReader, census: Census) -> DataSummary:
        return cls(reader.n_rows, tuple(reader.feature_names), reader.missing, census.fingerprint)

    def fingerprint(self) -> dict[str, Any]:
        return {"digest": self.digest, "n": self.n_rows, "missing": self.missing}


@dataclass(frozen=True)
class LearnedMethod:
    """A method with the folder of its states, and the inputs that determine them."""

    method: Method
    """The value function, and the design or closed form of the states."""
    path: Place
    follows_from: Mapping[str, JSON]
    """Plain values that determine the states, besides the coalitions."""
    data: DataSummary
    coalition_tile: int
    row_span: int
    identity: Mapping[str, JSON] = field(default_factory=dict)
    """Plain values that identify a method which no row changes (`kept_method.fixed_method`); empty
    if the rows of a run may still decide something."""
    chosen: Method | None = None
    """The method with the choices that its design has made from the data; None if the rows of a
    run make them."""

    @classmethod
    def of(
        cls,
        method: Method,
        path: Place,
        fingerprint: Mapping[str, Any],
        data: DataSummary,
        tiling: Tiling,
    ) -> Self:
        """Describe the states that a run of this fingerprint makes with these tiles."""
        follows_from = states_follow_from(fingerprint, tiling)
        return cls(method, path, follows_from, data, tiling.coalition_tile, tiling.row_span)

    @classmethod
    def read(cls, method: Method, path: Place, content: Mapping[str, Any]) -> Self:
        """Read the description that `keep` wrote; `method` is compared with it."""
        data = {**content["data"], "feature_names": tuple(content["data"]["feature_names"])}
        tiles = (content["coalition_tile"], content["row_span"])
        return cls(method, path, content["learnt"], DataSummary(**data), *tiles)

    @property
    def is_fixed(self) -> bool:
        """Whether the method is the same for any rows."""
        return bool(self.identity)

    @property
    def digest(self) -> str:
        """METHOD: the digest of a method that is fixed; empty if none is."""
        if not self.is_fixed:
            return ""
        return digest_of(dict(self.identity))

    def tiled(self, options: RunOptions) -> RunOptions:
        """The options with the tiles of the states."""
        return replace(options, coalition_tile=self.coalition_tile, row_span=self.row_span)

    @property
    def value(self) -> Any:
        """The value function."""
        return self.method.value

    @property
    def states(self) -> StateFolder:
        return states_of(self.path)

    def states_in(
        self,
        store: RecordStore,
        data: RowReader | None = None,
        loaded: dict[str, Any] | None = None,
    ) -> States:
        """The states in a store, for all players; the rows of no run bound their errors."""
        is_active = np.ones(len(self.value.players), dtype=bool)
        return States(store, self.follows_from, is_active, data, self.digest, False, loaded)

    def learn(self, session: Session, plan: Plan, data: RowReader) -> tuple[str, ...]:
        """Learn the missing states; return the names of the states of coalition tiles."""
        session.check(plan)
        states = self.states_in(self.states, data)
        run, _ = learn_states(session, Run(self.method.without_data(), plan, data, states))
        self.states.put(PROBE, probe_of(self.value, data))
        self.states.put(SAMPLE, Record({"x": spread_rows(data, SAMPLE_ROWS)}))
        return run.tile_names

    def keep(self, tile_names: tuple[str, ...], **facts: Any) -> None:
        """Write the description of the states, after all of them: it marks them as complete."""
        content = {
            "version": __version__,
            "learnt": dict(self.follows_from),
            "design": self.method.fingerprint(),
            "data": asdict(self.data),
            "coalition_tile": self.coalition_tile,
            "row_span": self.row_span,
            "tiles": list(tile_names),
            **facts,
        }
        mark_prepared(self.path, content)

    def is_whole(self, say: Callable[[str], None]) -> bool:
        """Whether the folder has all of it; damaged files are removed, and reported."""
        if not Folder(self.path).is_there():
            return False
        damaged = repair(self.path)
        for damage in damaged:
            say(f"{damage}; it is computed again")
        return not is_left(damaged) and read_prepared(self.path) is not None

    def refuse_other_model(self, made: str, remedy: str) -> None:
        """Raise an error if the model does not predict the stored values for the first rows."""
        if not is_of_model(self.states.get(PROBE, Record), self.value):
            raise StoreMismatchError(
                f"{self.path} was {made} with another model: its predictions for the first rows of "
                f"the data differ; {remedy}"
            )


def refuse_other_content(path: Place) -> None:
    """Raise a StoreMismatchError if a folder contains something else than a learned method."""
    if not may_prepare(path):
        raise StoreMismatchError(f"{path} exists and contains something else: choose another store")


def states_follow_from(fingerprint: Mapping[str, Any], tiling: Tiling) -> dict[str, Any]:
    """The entries of a fingerprint that decide the states of a run, the coalitions excepted."""
    return {name: fingerprint[name] for name in DECISIVE} | {"row_span": tiling.row_span}


def plan_to_learn(method: Method, data: RowReader, options: RunOptions) -> Plan:
    """Plan the passes over the data; no row is explained."""
    reasons = (("design", method.why), *method.about_data(data))
    plan = make_plan(method.work(), data, data, options, reasons)
    return replace(plan, stages=tuple(each for each in plan.stages if each.name != "evaluation"))


def probe_of(value: Explained, data: RowReader) -> Record:
    """Record the first good rows of the data and the model's predictions for them."""
    rows = first_rows(data)
    noise = check_steady(value.model, rows)
    return Record({"x": rows, "prediction": value.model(rows), "noise": noise})


def is_of_model(probe: Record, value: Explained) -> bool:
    """Whether the model's predictions are those that `probe_of` recorded, up to rounding."""
    noise = probe.arrays.get("noise", np.zeros(1))  # earlier versions have recorded none
    then = Probes(probe["prediction"], probe["prediction"][:0], noise)
    now = replace(then, rows=value.model(probe["x"]))
    gap, bound = then.difference(now)
    return gap <= bound
