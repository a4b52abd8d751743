"""The places for the states and the cube of an explanation: a store, or memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dshap.attributors.states import States
from dshap.core.capabilities import is_scaled, tried_predictions
from dshap.core.places import Place
from dshap.core.records import FloatArray
from dshap.core.types import RecordStore
from dshap.cube import CubeLayout, CubeWriter, read_run, states_of
from dshap.cube.carrying import CarriedRows
from dshap.cube.memory_cube import MemoryCube
from dshap.engine import Plan
from dshap.engine.explain import BlockWriter
from dshap.run.determinism import check_steady, first_rows
from dshap.run.difference import same_run
from dshap.run.identity import stored_plan
from dshap.run.learned_method import LearnedMethod
from dshap.run.probes import Probes
from dshap.run.session import Session
from dshap.storage.memory_records import MemoryRecords
from dshap.storage.sealed_files import StateFolder
from dshap.tables import Inputs
from dshap.tables.lake_files import at_version_of_cube

RECORD_BYTES = 256 << 20
"""Bytes of states in memory; those that are put beyond it are written to files of the call."""


class Home(Protocol):
    """The place of one explanation, as its planning needs it."""

    def rows(self, rows: Any, session: Session) -> Any:
        """The rows to explain, in the version of the table with which an explanation began here."""
        ...

    def same_run(
        self,
        run: Mapping[str, Any],
        predictions: FloatArray | None,
        inputs: Inputs,
        session: Session,
    ) -> Mapping[str, Any]:
        """The fingerprint to go on with, from the one that is asked for.

        Raises
        ------
        StoreMismatchError
            Something else is here.
        """
        ...

    def plan(self) -> Plan | None:
        """The plan that an explanation was begun with here; None if none was."""
        ...

    def states(self, prepared: LearnedMethod | None) -> RecordStore:
        """The store of the states; those of a prepared method are found in it too."""
        ...

    def probes(
        self, inputs: Inputs, predictions: FloatArray | None, states: States
    ) -> Probes | None:
        """The predictions to store, by which a later run recognizes the model; None for none.

        Raises
        ------
        InputError
            The model answers differently when it is asked again.
        """
        ...

    def writer(self, layout: CubeLayout, digest: str, carried: CarriedRows | None) -> BlockWriter:
        """The writer of the cube."""
        ...


@dataclass(frozen=True)
class StoreHome:
    """A store on a disk or in a bucket: an explanation that was begun here goes on."""

    path: Place

    def rows(self, rows: Any, session: Session) -> Any:
        begun = (read_run(self.path) or {}).get("table", {})
        return at_version_of_cube(rows, begun, self.path, session.progress.say)

    def same_run(
        self,
        run: Mapping[str, Any],
        predictions: FloatArray | None,
        inputs: Inputs,
        session: Session,
    ) -> Mapping[str, Any]:
        return same_run(self.path, run, predictions, inputs, session)

    def plan(self) -> Plan | None:
        return stored_plan(self.path)

    def states(self, prepared: LearnedMethod | None) -> RecordStore:
        return _states(self.path, prepared)

    def probes(
        self, inputs: Inputs, predictions: FloatArray | None, states: States
    ) -> Probes | None:
        # asked once: a run that goes on compares with these, and does not replace them
        if predictions is None or states.store.has(states.probe_name):
            return None
        model = inputs.value.model
        noise = check_steady(model, first_rows_of_all(inputs))
        return Probes(predictions, tried_predictions(model), noise)

    def writer(self, layout: CubeLayout, digest: str, carried: CarriedRows | None) -> BlockWriter:
        return CubeWriter(self.path, layout, digest, carried)


@dataclass(frozen=True)
class MemoryHome:
    """The memory of this process: every explanation is new."""

    overflow: Place
    """A place for states that are too large for memory, which is removed at the end of the call."""

    def rows(self, rows: Any, session: Session) -> Any:
        return rows

    def same_run(
        self,
        run: Mapping[str, Any],
        predictions: FloatArray | None,
        inputs: Inputs,
        session: Session,
    ) -> Mapping[str, Any]:
        return run

    def plan(self) -> Plan | None:
        return None

    def states(self, prepared: LearnedMethod | None) -> RecordStore:
        return MemoryRecords(_states(self.overflow, prepared), RECORD_BYTES)

    def probes(
        self, inputs: Inputs, predictions: FloatArray | None, states: States
    ) -> Probes | None:
        """None: no run goes on here.

        A model on a scale of its own has answered twice already: `ScaledModel.check_own`.
        """
        model = inputs.value.model
        if predictions is not None and not is_scaled(model):
            check_steady(model, first_rows_of_all(inputs))
        return None

    def writer(self, layout: CubeLayout, digest: str, carried: CarriedRows | None) -> BlockWriter:
        return MemoryCube(layout)


def _states(path: Place, prepared: LearnedMethod | None) -> StateFolder:
    """The states in files at a place, and the states of a prepared method."""
    if prepared is None:
        return states_of(path)
    return states_of(path, prepared.path)


def first_rows_of_all(inputs: Inputs) -> FloatArray:
    """The first rows to explain, and the first rows of the data."""
    return np.concatenate(list(map(first_rows, inputs.readers)))
