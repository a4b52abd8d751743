"""The attributor of texts: texts of each length have their own game and design."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.attributors.contraction import Contraction
from dshap.attributors.failing import is_of_rows, text_of
from dshap.attributors.game import Game, Instances
from dshap.core.blocks import N_ENDS, Attribution, Status
from dshap.core.capabilities import OfTexts
from dshap.core.records import FloatArray
from dshap.core.rows import spans
from dshap.core.types import Design
from dshap.predictors.token_function import by_length

KEPT_DESIGNS = 8
"""The most designs (one per length) whose solutions a process caches."""


@dataclass(kw_only=True)
class TextGame(Game):
    """The game of the texts of one length."""

    value: OfTexts

    def mean_prediction(self) -> FloatArray:
        return self.value.mean_prediction()


@dataclass(kw_only=True)
class TextAttributor(Instances):
    """Explains texts with one design per length; rows of equal length are explained together."""

    value: OfTexts
    design: Design
    """The design of the longest text; each other length uses the same kind with its own players."""
    coalition_tile: int
    joined_tiles: int
    n_replicates: int
    range_names: tuple[str, ...] = ()
    """State files of the smallest and largest predictions: see `Game`."""

    def attribute(self, rows: FloatArray) -> Attribution:
        """Attributions of texts (n, columns), NaN beyond the end of each, where φ is 0."""
        found = _Filled.of(rows.shape, self.n_outputs, self.n_replicates)
        for length, at in by_length(rows):
            texts = np.ascontiguousarray(rows[at, :length])
            try:
                found.put(at, length, self._of_length(length).attribute(texts))
            except Exception as error:  # no text of this length can be explained
                if not is_of_rows(error):
                    raise
                found.fail(at, text_of(error))
        has_classes = (
            self.value.link.classes(np.zeros((0, len(self.value.model.output_names)))) is not None
        )
        return found.attribution(has_classes)

    def _of_length(self, length: int) -> Contraction:
        """The contraction that explains the texts of this length."""
        design = self.design.with_players(length)
        tiles = spans(N_ENDS, design.info.n_coalitions, self.coalition_tile)
        game = TextGame(
            value=self.value.of_length(length),
            design=design,
            tiles=tuple(tiles),
            joined_tiles=self.joined_tiles,
            range_names=self.range_names,
            store=self.store,
            base_name=self.base_name,
            n_outputs=self.n_outputs,
            micro_rows=self.micro_rows,
            is_kept=self.is_kept,
            is_active=np.ones(length, dtype=bool),
        )
        return Contraction(game, (tuple(game.all_tiles),), has_pairs=False)


@dataclass(frozen=True)
class _Filled:
    """Attributions of all texts of a tile, filled length by length."""

    phi: FloatArray
    """(n, longest, k)"""
    replicates: FloatArray
    """(R, n, longest, k)"""
    ends: FloatArray
    """(2, n, k): v(empty) and v(N)"""
    classes: NDArray[np.int16]
    """(n,): the class that each row is explained for"""
    status: NDArray[np.int8]
    """(n,): see `Status`"""
    reasons: dict[int, str]
    """position -> reason, of the texts that failed"""

    @classmethod
    def of(cls, shape: tuple[int, ...], k: int, n_replicates: int) -> _Filled:
        n, longest = shape
        return cls(
            np.zeros((n, longest, k)),
            np.zeros((n_replicates, n, longest, k)),
            np.zeros((2, n, k)),
            np.zeros(n, np.int16),
            np.full(n, Status.OK, np.int8),
            {},
        )

    def put(self, at: NDArray[np.intp], length: int, found: Attribution) -> None:
        """Store the attributions of the texts at these positions.

        A design without standard errors leaves its replicates equal to phi.
        """
        self.phi[at, :length] = found.phi
        self.status[at] = found.status
        self.reasons.update({int(at[i]): reason for i, reason in found.reasons.items()})
        self.ends[0, at] = found.base
        self.ends[1, at] = found.prediction
        self.replicates[:, at, :length] = found.phi
        if found.replicates is not None:
            several = found.replicates[: len(self.replicates)]
            self.replicates[: len(several), at, :length] = several
        if found.classes is not None:
            self.classes[at] = found.classes

    def fail(self, at: NDArray[np.intp], reason: str) -> None:
        """Mark the texts at these positions as failed."""
        self.phi[at] = np.nan
        self.ends[:, at] = np.nan
        self.replicates[:, at] = np.nan
        self.status[at] = Status.FAILED
        self.reasons.update(dict.fromkeys(at.tolist(), reason))

    def attribution(self, has_classes: bool) -> Attribution:
        """The record of all rows."""
        more: dict[str, Any] = {"replicates": self.replicates} if len(self.replicates) else {}
        more |= {"classes": self.classes} if has_classes else {}
        base, prediction = self.ends
        return Attribution(self.phi, base, prediction, self.status, reasons=self.reasons, **more)
