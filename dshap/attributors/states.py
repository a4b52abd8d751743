"""The learned states of one run: their store, and names made from all inputs of each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dshap.attributors.made_once import MadeAnew
from dshap.core.errors import DshapError
from dshap.core.records import BoolArray, digest_of
from dshap.core.types import RecordStore, RowReader


@dataclass(frozen=True)
class States:
    """The states of one run, what they follow from, and the players whose rows they explain."""

    store: RecordStore
    follows_from: Mapping[str, Any]
    """Plain values that determine the states of the coalition tiles, except the coalitions."""
    is_active: BoolArray
    """(d of the cube,): True for players of the design; the others have constant columns, and their
    attribution is 0."""
    data: RowReader | None = None
    """The data to learn from; None if all states exist or nothing is learned."""
    run_digest: str = ""
    """The digest that identifies a run; empty if no rows are explained."""
    has_range: bool = True
    """Whether the range of the predictions of the explained rows bounds their errors too; if
    not, it is that of the data and of each row's own prediction."""
    loaded: dict[str, Any] | None = None
    """States in memory that several attributors share; None if each has its own."""
    made: MadeAnew = field(default_factory=MadeAnew)
    """The rule by which attributors cache results that follow from states and coalitions."""

    @property
    def table(self) -> RowReader:
        """The data to learn from; a `DshapError` if all states should have been prepared."""
        if self.data is None:
            raise DshapError(
                "a state is missing in the prepared store: the preparation was not finished: "
                "prepare it again"
            )
        return self.data

    @cached_property
    def _digest(self) -> str:
        return digest_of(dict(self.follows_from))

    @property
    def base_name(self) -> str:
        """Name of the state of the sums for the base value."""
        return f"base-{self._digest}"

    @property
    def predictions_name(self) -> str:
        """First part of the names of the predictions of the data, span by span."""
        return f"predictions-{self._digest}"

    @property
    def landmarks_name(self) -> str:
        """Name of the state with the value function's choice from a sample."""
        return f"landmarks-{self._digest}"

    @property
    def enough_name(self) -> str:
        """Name of the state of how many rows of the data are learned from."""
        return f"enough-{self._digest}"

    @property
    def rows_name(self) -> str:
        """First part of the names of the rows that are learned from, where these are not all."""
        return f"rows-{self._digest}"

    @property
    def range_name(self) -> str:
        """Name of the state of the smallest and largest prediction of the explained rows."""
        return f"range-{self.run_digest}"

    @property
    def range_names(self) -> tuple[str, ...]:
        """Names of the states that bound the predictions of the data and of the explained rows."""
        if self.run_digest and self.has_range:
            return (self.base_name, self.range_name)
        return (self.base_name,)

    @property
    def probe_name(self) -> str:
        """Name of the state of the predictions by which a run knows its model again."""
        return probe_name(self.run_digest)

    def pilot_name(self, n_coalitions: int) -> str:
        """Name of the state of the design's choice from a pilot of so many coalitions."""
        return f"pilot-{self.run_digest}-{n_coalitions}"

    def tile_name(self, masks: BoolArray) -> str:
        """Name of the state of the coalitions masks (m, d), with a digest of all that decides it."""
        bits = np.packbits(masks, axis=1).tobytes()
        digest = hashlib.blake2b(bits, digest_size=10).hexdigest()
        return f"moments-{digest_of({**self.follows_from, 'masks': digest})}"


def probe_name(run_digest: str) -> str:
    """The name of the state of the predictions by which the run of this digest knows its model."""
    return f"probe-{run_digest}"
