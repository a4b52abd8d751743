"""Computing rows of a finished cube again, from the states that it was computed with.

Nothing is learned and nothing is written: a state that is missing is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dshap.core.fixed_words import DesignName
from dshap.core.places import Place
from dshap.core.records import BoolArray
from dshap.core.types import Attributor, Design, Explained
from dshap.cube import CarriedRows, CubeLayout, read_run
from dshap.cube.carrying import EXPLAINED
from dshap.cube.comparing_writer import BlockDifference, ComparingWriter
from dshap.engine import Events
from dshap.engine.explain import BlockWriter, evaluate
from dshap.run.carrying import Carried
from dshap.run.homes import StoreHome
from dshap.run.learned_method import LearnedMethod
from dshap.run.learning import Run, opened_attributor
from dshap.run.planning import plan_explanation
from dshap.run.probes import Probes
from dshap.run.session import Session
from dshap.storage.array_files import rows_of_array
from dshap.storage.memory_records import MemoryRecords
from dshap.storage.sealed_files import StateFolder
from dshap.tables import Census

PART_BYTES = 64 << 20
"""The bytes of parts of sums in memory; those beyond it go into files of the call."""

OF_SINKS = ("codes", "undo_codes", "keep_rows")
"""The options of a run that follow from the sinks of a job."""


@dataclass(frozen=True)
class FinishedHome(StoreHome):
    """The store of a finished cube, in which a replay writes nothing."""

    def probes(self, *_: Any) -> Probes | None:
        return None

    def writer(self, layout: CubeLayout, digest: str, carried: CarriedRows | None) -> BlockWriter:
        return ComparingWriter(self.path, layout)


@dataclass(frozen=True)
class CarriedBefore(Carried):
    """Rows that a finished cube copied from an earlier one, which may have been removed."""

    known: Mapping[str, Any]
    """The fingerprint that the finished cube has of them."""

    def fingerprint(self) -> dict[str, Any]:
        return dict(self.known)

    def rows_for(self, layout: CubeLayout) -> CarriedRows:
        n_values = (len(layout.players), len(layout.outputs))
        return CarriedRows(self.path, self.positions, np.zeros(n_values))


@dataclass(frozen=True)
class Replayed:
    """A finished cube whose rows can be computed again."""

    path: Place
    work: Run
    attributor: Attributor
    layout: CubeLayout
    positions: Place | None
    """The file of the rows of the earlier cube that rows are carried from; None for none."""

    @property
    def n_rows(self) -> int:
        return self.layout.n_rows

    def tile_of(self, row: int) -> int:
        """The block of a row."""
        return row // self.layout.tile

    def span_of(self, tile: int) -> tuple[int, int]:
        """The first row of a block, and the row after its last."""
        start = tile * self.layout.tile
        return start, min(start + self.layout.tile, self.n_rows)

    def is_carried(self, tile: int) -> BoolArray:
        """(n,): the rows of a block that were carried from an earlier cube."""
        start, stop = self.span_of(tile)
        if self.positions is None:
            return np.zeros(stop - start, bool)
        return np.array(rows_of_array(self.positions, start, stop) != EXPLAINED)

    def position_before(self, row: int) -> int:
        """The row of the earlier cube that a carried row was copied from."""
        assert self.positions is not None, "the row is carried"
        return int(rows_of_array(self.positions, row, row + 1)[0])

    def compute(
        self, session: Session, tile: int, explained: BoolArray, compared: BoolArray
    ) -> tuple[BlockDifference | None, ComparingWriter]:
        """Compute rows of a block again, and compare some of them with the cube.

        Parameters
        ----------
        session : Session
        tile : int
            The number of the block.
        explained, compared : (n,) bool
            The rows of the block that are computed together, and those that are compared.

        Returns
        -------
        tuple
            The difference, or None if the rows could not be computed; and the writer.
        """
        writer = ComparingWriter(self.path, self.layout, {tile: explained}, {tile: compared})
        evaluation = self.work.evaluation(self.attributor)
        parts = MemoryRecords(StateFolder(session.folder("keys")), PART_BYTES)
        evaluation = replace(evaluation, writer=writer, store=parts)
        evaluate(session.executor, evaluation, Events(), [tile])
        return writer.found.get(tile), writer


def session_of_cube(session: Session, path: Place) -> Session:
    """The session with the options of a finished cube that a job takes from its sinks.

    These are the reason codes, whether they are undone, and whether the explained columns are stored.
    """
    known = (read_run(path) or {}).get("fingerprint", {}).get("options", {})
    of_sinks = {name: known[name] for name in OF_SINKS if name in known}
    return replace(session, options=replace(session.options, **of_sinks))


def replayable(
    value: Explained,
    rows: Any,
    path: Place,
    session: Session,
    *,
    design: Design | Callable[[int], Design] | DesignName = "auto",
    seed: int = 0,
    census: Census | None = None,
    prepared: LearnedMethod | None = None,
    positions: Place | None = None,
) -> Replayed:
    """Open a finished cube to compute rows of it again; the parameters are those of `Explanation.of`.

    Parameters
    ----------
    positions : Place, optional
        The file of the rows of the earlier cube that rows were carried from.

    Raises
    ------
    StoreMismatchError
        The rows, the model or an option are not those of the cube; the message names them.
    NotLearnedError
        A state that its rows were explained by is not there any more.
    """
    carried = None
    known = (read_run(path) or {}).get("fingerprint", {}).get("carried")
    if known is not None and positions is not None:
        carried = CarriedBefore(path, positions, known)
    planned = plan_explanation(
        FinishedHome(path),
        value,
        rows,
        session,
        design=design,
        seed=seed,
        census=census,
        prepared=prepared,
        carried=carried,
        checks_rows=False,
    )
    attributor = opened_attributor(session, planned.work, path)
    given = None if carried is None else positions
    return Replayed(path, planned.work, attributor, planned.layout, given)
