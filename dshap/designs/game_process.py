"""Which Gaussian process each game is taken for: one that is the same for all games, or its own.

A game's own process has players as relevant as the attributions are large that the shared one expects: which players
matter differs from row to row wherever rows differ from the background in a few columns, as words do.  A part of it is
the shared one, for players of small attributions that have large interactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dshap.designs.game_prior import Covariances, Prior, player_sizes
from dshap.designs.kriging_solution import Process
from dshap.designs.sparse_terms import ROUGHNESS, Screen, TermBase
from dshap.records import FloatArray

__all__ = ["GameProcess", "GameProcesses"]

SHARED_PART = 0.2
"""Of the variance of a game's own process, that is as in the shared one.  It costs a twentieth of the gain on networks,
words and images; without it players whose interactions are large but whose attributions cancel double the error."""


@dataclass(frozen=True)
class GameProcess:
    """The process of a game that is likelier by it."""

    relevance: FloatArray
    """(d,)"""
    process: Process


@dataclass(frozen=True)
class GameProcesses:
    """The processes of games at pairs z (p, d)."""

    pairs: FloatArray
    prior: Prior
    """Of all games."""

    @cached_property
    def shared(self) -> TermBase:
        """The process of all games."""
        return TermBase.of(Screen(self.pairs), Process.of(self.pairs, self._parts), self.prior)

    @cached_property
    def _parts(self) -> Covariances:
        return self.prior.covariances(self.pairs)

    def likelier(self, odd: FloatArray) -> GameProcess | None:
        """The own process of a game odd (p,), where its values are likelier by that; None: by the shared one.

        The relevance of a player is the root of its mean φ² under the shared process: φ̂² and its variance.
        """
        (p, d), shared = self.pairs.shape, self.shared
        squares = shared.process.squares(odd[:, None])
        if not squares[0] > ROUGHNESS * (odd @ odd):
            return None
        mean_square = np.square(odd @ shared.weights) + shared.variance * squares[0] / (p - d)
        size = player_sizes(np.sqrt(mean_square)[None])
        found = GameProcess(size / size.mean(), self.process(size / size.mean()))
        is_likelier = found.process.deviances(found.process.squares(odd[:, None])) < shared.process.deviances(squares)
        return found if is_likelier[0] else None

    def process(self, relevance: FloatArray) -> Process:
        """That of a game whose players have this relevance (d,)."""
        prior = Prior.of(len(relevance), self.prior.decay, self.prior.variation, relevance)
        parts = prior.covariances(self.pairs).times(1 - SHARED_PART) + self._parts.times(SHARED_PART)
        return Process.of(self.pairs, parts)

    def base(self, process: Process) -> TermBase:
        """What the terms of a game of this process stand beside."""
        return TermBase.of(self.shared.screen, process, self.prior)

    def expected_ratio(self, odd: FloatArray) -> float:
        """Root mean square error of φ that the likelier process of a game odd (p,) expects, over that of the shared;
        NaN of an additive game."""
        squares, found = self.shared.process.squares(odd[:, None])[0], self.likelier(odd)
        if not squares > ROUGHNESS * (odd @ odd):
            return np.nan
        if found is None:
            return 1.0
        variance = found.process.posterior()[1].sum() * found.process.squares(odd[:, None])[0]
        return float(np.sqrt(variance / (self.shared.variance.sum() * squares)))

    def estimates(
        self, odd: FloatArray, signs: FloatArray, doubt: float, has_terms: bool, is_by_game: bool
    ) -> tuple[FloatArray, FloatArray]:
        """phi (games, d) and moves (R, games, d) of odd values (games, p): see `TermBase.estimates`.

        Errors of games with a process of their own are multiplied with `doubt`, with terms those of all.
        """
        phi = np.zeros((len(odd), self.pairs.shape[1]))
        moves, is_alike = np.zeros((signs.shape[1], *phi.shape)), np.ones(len(odd), dtype=bool)
        for game in range(len(odd)) if is_by_game else ():
            found, one = self.likelier(odd[game]), slice(game, game + 1)
            if found is not None:
                is_alike[game] = False
                phi[one], moves[:, one] = self.base(found.process).estimates(odd[one], signs, doubt, has_terms)
        shared_doubt = doubt if has_terms else 1.0
        phi[is_alike], moves[:, is_alike] = self.shared.estimates(odd[is_alike], signs, shared_doubt, has_terms)
        return phi, moves
