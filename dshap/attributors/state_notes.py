"""Notes of a cube on its learned states: the penalties of coalitions, and the error of folded values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from dshap.attributors.game import LearnedGame
from dshap.core.records import JSON, FloatArray, State

Arrays = Mapping[str, NDArray[np.float64]]
"""Name -> an array (m,) with one number for each proper coalition."""
NOTED = ("penalty", "error", "size", "fold_error")
"""The arrays (m,) of a state that notes are made of; a value function has some of them, or none."""
LEVELS = [0.0, 0.5, 1.0]
"""Quantiles: the smallest, the median and the largest."""


def notes_of_states(game: LearnedGame) -> dict[str, dict[str, JSON]]:
    """Name -> note on the states of a game, empty if there is nothing to note.

    See `penalties` and `fold_error`; each state is read once.
    """
    tiles = []
    for tile, name in enumerate(game.names):
        arrays = game.store.get(name, State).arrays
        noted = {each: np.array(arrays[each], float) for each in NOTED if each in arrays}
        if not noted:
            return {}
        tiles.append({"players": game.masks(tile).sum(axis=1).astype(float), **noted})
    if not tiles:
        return {}
    joined = {name: np.concatenate([each[name] for each in tiles]) for name in tiles[0]}
    return {name: note(joined) for name, note in NOTES.items()}


def penalties(states: Arrays) -> dict[str, JSON]:
    """Summary of the penalties λ chosen per coalition, by the number of players present.

    Gives, for each number of players, the count of coalitions, the smallest, median and largest λ,
    and the median of the estimated error over the variance; empty if no penalties were chosen.
    """
    if "penalty" not in states or np.isnan(states["error"]).all():
        return {}
    size = states["players"].astype(int)
    penalty = states["penalty"]
    found = np.unique(size)
    quantiles = np.stack([np.quantile(penalty[size == s], LEVELS) for s in found])
    least, median, largest = quantiles.T.tolist()
    return {
        "players": found.tolist(),
        "coalitions": np.bincount(size)[found].tolist(),
        "least": least,
        "median": median,
        "largest": largest,
        "error": [float(np.median(states["error"][size == s])) for s in found],
    }


def fold_error(states: Arrays) -> dict[str, JSON]:
    """The error of values whose quadratic forms are folded to few landmarks (`values.forms`).

    Gives the number of coalitions, how many of them are folded, the mean number of landmarks of
    these, and the largest and the root mean square error of their values, in standard deviations of
    the predictions; empty if no fold was tried.
    """
    error = states.get("fold_error", np.zeros(0))
    if not error.any():  # a refused fold has an error of NaN, which counts as true
        return {}
    is_folded = ~np.isnan(error)
    errors: FloatArray = error[is_folded]
    n_folded = max(1, len(errors))
    return {
        "coalitions": len(error),
        "folded": len(errors),
        "landmarks": float(states["size"][is_folded].sum() / n_folded),
        "largest": float(errors.max(initial=0.0)),
        "rms": float(np.sqrt(np.square(errors).sum() / n_folded)),
    }


NOTES: Mapping[str, Callable[[Arrays], dict[str, JSON]]] = {
    "penalties": penalties,
    "fold_error": fold_error,
}
"""Name of a note -> its function."""
