"""Rounds: coalitions are added for rows whose error exceeds `tol`, with a forecast of how many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.attributors.contraction import of_all_values
from dshap.attributors.failing import Spared, kept_rows
from dshap.attributors.game import Found, Game, RowsLeft, rows_off
from dshap.attributors.unmet import with_floor
from dshap.core.blocks import EMPTY, FULL, ROUNDING, Attribution, jackknife_errors, relative_errors
from dshap.core.capabilities import interactions_of, rounds_of
from dshap.core.records import FloatArray
from dshap.core.types import Design


@dataclass
class RoundsAttributor:
    """Explains rows by a growing design, each round only for the rows whose error exceeds `tol`.

    A row is finished when its relative error is at most tol.  The error is multiplied by `at_once`,
    so that the intervals of all players of a row hold together with 95 % confidence.  A row whose
    values have not varied has no range to compare its error with, and takes all rounds.  Values are
    stored, so that no coalition is evaluated twice.
    """

    game: Game
    has_pairs: bool
    tol: float
    rounds: tuple[Design, ...]
    """The designs of the rounds, each list of coalitions the beginning of the next one."""
    round_tiles: tuple[tuple[int, ...], ...]
    """Coalition tiles that each round adds."""

    def attribute(self, rows: FloatArray) -> Attribution:
        started = self.game.started(rows)
        found, failed = self._found(started.rows_of(rows), started)
        found, started = _without(found, started, failed)
        off = rows_off(found.phi, started.ends[:, EMPTY], started.ends[:, FULL])
        found, started = _without(found, started, off)
        of_left = self.game.attribution(found, started.prediction, started.ends)
        return of_left.placed(started.n, started.positions, started.failed)

    def _found(self, rows: FloatArray, started: RowsLeft) -> tuple[Found, dict[int, str]]:
        """Attributions after all rounds, and position -> reason of the rows that failed in one."""
        design = self.game.design
        d = self.game.design.info.n_players
        shape = (len(rows), d, self.game.n_outputs)
        phi = np.zeros(shape)
        replicates = np.zeros((design.info.n_replicates, *shape))
        of_coalitions = np.zeros(shape)
        if self.has_pairs:
            pairs = np.zeros((len(rows), d * (d - 1) // 2, shape[-1]))
        else:
            pairs = None
        used = np.zeros(len(rows), np.int32)
        left = np.arange(len(rows))
        failed = dict[int, str]()
        ranges = self.game.ranges(started)
        values = self._ends(started)  # (n, m, k), or more outputs that belong to the values
        for grown, tiles in zip(self.rounds, self.round_tiles, strict=True):
            if not len(left):
                break
            spared = Spared(rows[left])
            values = np.concatenate(
                [values, *(self._tile_values(spared, tile) for tile in tiles)], axis=1
            )
            failed |= {int(left[i]): reason for i, reason in spared.failed.items()}
            is_good = kept_rows(len(left), spared.failed)
            left = left[is_good]
            values = values[is_good]
            if not len(left):
                break
            phi[left], moved = of_all_values(grown, values[:, :, : shape[-1]])
            moved = with_floor(phi[left], moved, started.ends[left], ranges[left], grown.info.unmet)
            replicates[:, left] = moved + self._changes_from_draws(grown, values)
            if pairs is not None:
                pairs[left] = np.matmul(
                    interactions_of(grown, 0, grown.info.n_coalitions).T, values[:, :, : shape[-1]]
                )
            used[left] = grown.info.n_coalitions
            of_coalitions[left] = jackknife_errors(phi[left], moved)
            reached = relative_errors(
                phi[left], of_coalitions[left], started.ends[left, EMPTY], started.ends[left, FULL]
            )
            # a row whose error is still NaN stays, too
            is_left = ~(reached * at_once(d, design.info.n_replicates) <= self.tol).all(axis=1)
            left = left[is_left]
            values = values[is_left]
        return Found(phi, replicates, pairs, used, of_coalitions=of_coalitions), failed

    def _ends(self, started: RowsLeft) -> FloatArray:
        """The values (n, 2, k) of the two ends."""
        return started.ends

    def _tile_values(self, spared: Spared, tile: int) -> FloatArray:
        """The values (n, m, k) of one coalition tile."""
        return self.game.tile_values(spared, tile)

    def _changes_from_draws(self, grown: Design, values: FloatArray) -> FloatArray | float:
        """Moves of φ (R, n, d, k) that no coalition removes, for the stored errors alone."""
        return 0.0


def _without(found: Found, started: RowsLeft, failed: Mapping[int, str]) -> tuple[Found, RowsLeft]:
    """The attributions and rows without those that failed."""
    return found.kept(kept_rows(len(started.positions), failed)), started.without(failed)


def forecast(design: Design, values: FloatArray, tol: float) -> Mapping[str, NDArray[Any]]:
    """Forecast, from a pilot's games (games, m), how many coalitions `tol` will need.

    Gives the median error after the first round that has standard errors, and the median of
    coalitions · (error · `at_once`/tol)², as the error of a mean falls with the root of their
    number. Games whose values have not varied have no such error, and need all coalitions.
    """
    rounds = rounds_of(design)
    first = next((each for each in rounds if not each.info.why_no_errors), rounds[-1])
    phi, replicates = of_all_values(first, values[:, : first.info.n_coalitions, None])
    ends = values[:, EMPTY, None], values[:, FULL, None]
    errors = relative_errors(phi, jackknife_errors(phi, replicates), *ends)
    rounding = ROUNDING * (np.abs(ends[0]) + np.abs(ends[1]))
    is_still = (errors == 0) & (np.abs(phi).max(axis=1) <= rounding)
    moved = errors[~is_still]
    factor = at_once(design.info.n_players, design.info.n_replicates)
    wanted = first.info.n_coalitions * np.maximum(errors * factor / tol, 1.0) ** 2
    wanted = np.where(is_still, design.info.n_coalitions, wanted)
    return {
        "relative_error": np.array(np.median(moved) if len(moved) else np.inf),
        "forecast_coalitions": np.array(np.median(wanted).round()),
    }


def at_once(d: int, n_replicates: int) -> float:
    """Factor that widens a standard error from R replicates to cover all d players at once.

    The Bonferroni correction: t_{R−1}(1 − 0.025/d)/t_{R−1}(0.975).
    """
    degrees = max(n_replicates - 1, 1)
    return float(
        scipy.special.stdtrit(degrees, 1 - 0.025 / d) / scipy.special.stdtrit(degrees, 0.975)
    )
