"""Which Gaussian process each game is taken for: one that is the same for all games, or its own.

A game's own process has players as relevant as the attributions are large that the shared one
expects: which players matter differs from row to row wherever rows differ from the background in a
few columns, as words do.  A part of it is the shared one, for players of small attributions that
have large interactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dshap.core.records import FloatArray
from dshap.designs.kriging.posterior import Process
from dshap.designs.kriging.prior import Covariances, Prior, player_sizes
from dshap.designs.kriging.sparse_terms import ROUGHNESS, Screen, TermBase

__all__ = ["GameProcess", "GameProcesses", "own_seconds"]

SHARED_PART = 0.2
"""Of the variance of a game's own process, that is as in the shared one.  It costs a twentieth of
the gain on networks, words and images; without it players whose interactions are large but whose
attributions cancel double the error."""

SQUARE_SECONDS = 1.3e-9
CUBE_SECONDS = 6e-11
"""What a game's own process takes for p pairs of d players: p²·d of the first and p³ of the second,
as measured with 128 and 1,024 pairs of 12 to 60 players."""


def own_seconds(d: int, n_pairs: int) -> float:
    """Of a process of its own: its kernel, which is a sum over products of players, and its
    factors."""
    return float(n_pairs) ** 2 * (SQUARE_SECONDS * d + CUBE_SECONDS * n_pairs)


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
    own_decay: float | None = None
    """Of a game's own process; None: as that of all."""

    @cached_property
    def shared(self) -> TermBase:
        """The process of all games."""
        return TermBase.of(Screen(self.pairs), Process.of(self.pairs, self._parts), self.prior)

    @cached_property
    def _parts(self) -> Covariances:
        return self.prior.covariances(self.pairs)

    def likelier(self, odd: FloatArray) -> GameProcess | None:
        """The own process of a game odd (p,), where its values are likelier by that; None: by the
        shared one."""
        relevance = self.relevance(odd)
        if relevance is None:
            found = None
        else:
            found = GameProcess(relevance, self.process(relevance))
        if found is not None and self.is_likelier(found.process, odd):
            return found
        return None

    def is_likelier(self, process: Process, odd: FloatArray) -> bool:
        """Whether a game odd (p,) is likelier by this process than by the shared one."""
        own, shared = (
            each.deviances(each.squares(odd[:, None]))[0] for each in (process, self.shared.process)
        )
        return bool(own < shared)

    def relevance(self, odd: FloatArray) -> FloatArray | None:
        """Of the players (d,) of a game odd (p,), the root of the mean φ² under the shared process:
        φ̂² and its variance; None of an additive game."""
        p, d = self.pairs.shape
        shared = self.shared
        squares = shared.process.squares(odd[:, None])[0]
        if not squares > ROUGHNESS * (odd @ odd):
            return None
        size = player_sizes(
            np.sqrt(np.square(odd @ shared.weights) + shared.variance * squares / (p - d))[None]
        )
        return np.asarray(size / size.mean())

    def process(self, relevance: FloatArray, known: FloatArray | None = None) -> Process:
        """That of a game whose players have this relevance (d,); `known` are the `correlations` by
        it, where they are there already."""
        prior = Prior.of(
            len(relevance), self.own_decay or self.prior.decay, self.prior.variation, relevance
        )
        parts = prior.covariances(self.pairs, known).times(1 - SHARED_PART) + self._parts.times(
            SHARED_PART
        )
        return Process.of(self.pairs, parts)

    def base(self, process: Process) -> TermBase:
        """What the terms of a game of this process stand beside."""
        return TermBase.of(self.shared.screen, process, self.prior)

    def expected_ratio(self, odd: FloatArray) -> float:
        """Root mean square error of φ that the likelier process of a game odd (p,) expects, over
        that of the shared; NaN of an additive game."""
        squares = self.shared.process.squares(odd[:, None])[0]
        found = self.likelier(odd)
        if not squares > ROUGHNESS * (odd @ odd):
            return np.nan
        if found is None:
            return 1.0
        variance = found.process.posterior()[1].sum() * found.process.squares(odd[:, None])[0]
        return float(np.sqrt(variance / (self.shared.variance.sum() * squares)))

    def estimates(
        self, odd: FloatArray, signs: FloatArray, doubt: float, has_terms: bool, is_by_game: bool
    ) -> tuple[FloatArray, FloatArray]:
        """phi (games, d) and moves (R, games, d) of odd values (games, p): see
        `TermBase.estimates`.

        Errors of games with a process of their own are multiplied with `doubt`, with terms those of
        all.
        """
        phi = np.zeros((len(odd), self.pairs.shape[1]))
        moves = np.zeros((signs.shape[1], *phi.shape))
        is_alike = np.ones(len(odd), dtype=bool)
        for game in range(len(odd)) if is_by_game else ():
            found = self.likelier(odd[game])
            one = slice(game, game + 1)
            if found is not None:
                is_alike[game] = False
                phi[one], moves[:, one] = self.base(found.process).estimates(
                    odd[one], signs, doubt, has_terms
                )
        shared_doubt = doubt if has_terms else 1.0
        phi[is_alike], moves[:, is_alike] = self.shared.estimates(
            odd[is_alike], signs, shared_doubt, has_terms
        )
        return phi, moves
