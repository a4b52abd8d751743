"""Attributors: rows in, attributions out.  Designs meet value functions here and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

from dshap.attributors.contraction import (
    Contraction,
    DirectContraction,
    NoisyContraction,
    WholeContraction,
)
from dshap.attributors.game import Game
from dshap.attributors.rounds import RoundsAttributor
from dshap.core.capabilities import DirectSums, held_coalitions, rounds_of
from dshap.core.types import Attributor

__all__ = ["Game", "attributor_of"]


def attributor_of(
    game: Game,
    *,
    parts: Sequence[Sequence[int]],
    round_tiles: Sequence[Sequence[int]],
    tol: float | None = None,
    has_pairs: bool = False,
    is_noisy: bool = False,
) -> Attributor:
    """Choose the attributor of a game; this is the only place that chooses among them.

    Parameters
    ----------
    parts : coalition tiles that each task sums
    round_tiles : coalition tiles that each round of the design adds
    tol : tolerance of the design's rounds; None: all coalitions for every row
    has_pairs : True where interactions are asked for
    is_noisy : True where the model is stochastic
    """
    value = game.value
    shares = tuple(map(tuple, parts))
    if tol is not None:
        return RoundsAttributor(
            game, has_pairs, tol, rounds_of(game.design), tuple(map(tuple, round_tiles))
        )
    if held_coalitions(game.design):
        return WholeContraction(game, shares, has_pairs)
    if is_noisy:
        return NoisyContraction(game, shares, has_pairs)
    if isinstance(value, DirectSums) and value.link.is_identity and not has_pairs:
        return DirectContraction(game, shares, has_pairs, value.scored)
    return Contraction(game, shares, has_pairs)
