"""Which Gaussian process each game is taken for: one that is the same for all games, or its own.

A game's own process has players as relevant as the attributions are large that the shared one expects: which players
matter differs from row to row wherever rows differ from the background in a few columns, as words do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dshap.designs.game_prior import Prior, player_sizes
from dshap.designs.kriging_solution import Process
from dshap.designs.sparse_terms import TermBase
from dshap.records import FloatArray

__all__ = ["ROUGHNESS", "GameProcesses"]

ROUGHNESS = 1e-16
"""Of the sum of squares of a game: less is left by an additive one."""


@dataclass(frozen=True)
class GameProcesses:
    """The processes of games at pairs z (p, d)."""

    pairs: FloatArray
    prior: Prior
    """Of all games."""

    @cached_property
    def shared(self) -> TermBase:
        """The process of all games."""
        return TermBase.at(self.pairs, self.prior)

    def likelier(self, odd: FloatArray, posterior: tuple[FloatArray, FloatArray] | None = None) -> Process | None:
        """The own process of a game odd (p,), where its values are likelier by that; None: by the shared one.

        The relevance of a player is the root of its mean φ² under the shared process, φ̂² and its variance.
        `posterior`, its weights (p, d) and variance (d,) in units of scale, may be one that knows fewer pairs.
        """
        (p, d), shared = self.pairs.shape, self.shared
        squares = shared.process.squares(odd[:, None])
        if not squares[0] > ROUGHNESS * (odd @ odd):
            return None
        weights, variance = (shared.weights, shared.variance) if posterior is None else posterior
        size = player_sizes(np.sqrt(np.square(odd @ weights) + variance * squares[0] / (p - d))[None])
        own = Process.at(self.pairs, self._of(size))
        is_likelier = own.deviances(own.squares(odd[:, None])) < shared.process.deviances(squares)
        return own if is_likelier[0] else None

    def base(self, own: Process | None) -> TermBase:
        """What the terms of a game stand beside, whose likelier process this is."""
        return self.shared if own is None else TermBase.of(self.shared.screen, own, self.prior)

    def _of(self, size: FloatArray) -> Prior:
        d = len(size)
        return Prior.of(d, self.prior.decay, self.prior.variation, size / size.mean())

    def expected_ratio(self, odd: FloatArray) -> float:
        """Root mean square error of φ that the likelier process of a game odd (p,) expects, over that of the shared."""
        own = self.likelier(odd)
        return 1.0 if own is None else float(np.sqrt(_expected(own, odd) / _expected(self.shared.process, odd)))

    def estimates(
        self, odd: FloatArray, signs: FloatArray, doubt: float, has_terms: bool, is_by_game: bool
    ) -> tuple[FloatArray, FloatArray]:
        """phi (games, d) and moves (R, games, d) of odd values (games, p): see `TermBase.estimates`.

        `doubt` is of games that have terms, or a process of their own.
        """
        phi = np.zeros((len(odd), self.pairs.shape[1]))
        moves, is_alike = np.zeros((signs.shape[1], *phi.shape)), np.ones(len(odd), dtype=bool)
        for game in range(len(odd)) if is_by_game else ():
            own, one = self.likelier(odd[game]), slice(game, game + 1)
            if own is not None:
                is_alike[game] = False
                phi[one], moves[:, one] = self.base(own).estimates(odd[one], signs, doubt, has_terms)
        shared_doubt = doubt if has_terms else 1.0
        phi[is_alike], moves[:, is_alike] = self.shared.estimates(odd[is_alike], signs, shared_doubt, has_terms)
        return phi, moves


def _expected(process: Process, odd: FloatArray) -> float:
    """Sum over players of the posterior variance of φ, of a game odd (p,) at its likeliest scale."""
    p, d = process.trend.shape
    return float(process.posterior()[1].sum() * process.squares(odd[:, None])[0] / (p - d))
