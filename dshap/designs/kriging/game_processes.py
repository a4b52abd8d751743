"""Gaussian processes of games: one that all games share, or a separate one for each game.

In a game's own process, the relevance of a player is the size of its attribution under the shared
process.  This helps if rows differ from the background in only a few columns, as texts do in their
words: then different players matter in each row.  A part of the variance (`SHARED_PART`) comes from
the shared process, because a player with a small attribution can have large interactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dshap.core.records import FloatArray
from dshap.designs.kriging.prior import Covariances, Prior, player_sizes
from dshap.designs.kriging.process import Process
from dshap.designs.kriging.sparse_terms import Screen, TermBase
from dshap.designs.kriging.tuning import (
    ROUGHNESS,
    SHARED_PART,
)


@dataclass(frozen=True)
class GameProcess:
    """A game's own process, under which the game is likelier than under the shared process."""

    relevance: FloatArray
    """Relevances (d,) of the players."""
    process: Process


@dataclass(frozen=True)
class GameProcesses:
    """The processes of games at pairs z (p, d): the shared one, and separate ones on demand."""

    pairs: FloatArray
    """z (p, d): ±1 for the players of each pair."""
    prior: Prior
    """The prior of the shared process."""
    own_decay: float | None = None
    """Decay of the separate processes; None: as in `prior`."""

    @cached_property
    def shared(self) -> TermBase:
        """The shared process, with the products of three players at its pairs."""
        return TermBase.of(Screen(self.pairs), Process.of(self.pairs, self._parts), self.prior)

    @cached_property
    def _parts(self) -> Covariances:
        return self.prior.covariances(self.pairs)

    def likelier(self, odd: FloatArray) -> GameProcess | None:
        """The own process of a game odd (p,); None if the shared process is at least as likely."""
        relevance = self.relevance(odd)
        if relevance is None:
            return None
        found = GameProcess(relevance, self.process(relevance))
        if self.is_likelier(found.process, odd):
            return found
        return None

    def is_likelier(self, process: Process, odd: FloatArray) -> bool:
        """Whether a game odd (p,) is likelier under this process than under the shared one."""
        own, shared = (
            each.deviances(each.squares(odd[:, None]))[0] for each in (process, self.shared.process)
        )
        return bool(own < shared)

    def relevance(self, odd: FloatArray) -> FloatArray | None:
        """Relevances (d,) of a game odd (p,): its expected attribution sizes; None if additive.

        The size is the root of the mean of φ² under the shared process: φ̂² plus its posterior
        variance.
        """
        p, d = self.pairs.shape
        shared = self.shared
        squares = self._squares(odd)
        if squares is None:
            return None
        # squares/(p − d) estimates the game's scale: the trend takes d of its p values
        size = player_sizes(
            np.sqrt(np.square(odd @ shared.weights) + shared.variance * squares / (p - d))[None]
        )
        return np.asarray(size / size.mean())

    def _squares(self, odd: FloatArray) -> float | None:
        """yᵀPy of a game odd (p,) under the shared process; None if it is additive."""
        squares = self.shared.process.squares(odd[:, None])[0]
        if squares > ROUGHNESS * (odd @ odd):
            return float(squares)
        return None

    def process(self, relevance: FloatArray, known: FloatArray | None = None) -> Process:
        """The separate process of players with this relevance (d,).

        `known` are the `correlations` of the pairs by this relevance, if already computed.
        """
        prior = Prior.of(
            len(relevance), self.own_decay or self.prior.decay, self.prior.variation, relevance
        )
        parts = prior.covariances(self.pairs, known).times(1 - SHARED_PART) + self._parts.times(
            SHARED_PART
        )
        return Process.of(self.pairs, parts)

    def base(self, process: Process) -> TermBase:
        """Return this process as the Gaussian part that sparse terms are added to."""
        return TermBase.of(self.shared.screen, process, self.prior)

    def expected_ratio(self, odd: FloatArray) -> float:
        """Expected error of φ with a game's likelier process, divided by the shared process's error.

        Errors are root mean squares; 1 if the shared process is likelier; NaN for an additive game.
        """
        squares = self._squares(odd)
        if squares is None:
            return np.nan
        found = self.likelier(odd)
        if found is None:
            return 1.0
        variance = found.process.posterior()[1].sum() * found.process.squares(odd[:, None])[0]
        return float(np.sqrt(variance / (self.shared.variance.sum() * squares)))

    def estimates(
        self, odd: FloatArray, signs: FloatArray, doubt: float, has_terms: bool, is_by_game: bool
    ) -> tuple[FloatArray, FloatArray]:
        """phi (games, d) and moves (R, games, d) of odd values (games, p): `TermBase.estimates`.

        `doubt` multiplies the errors of games with a separate process and, with sparse terms, of
        all games.
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
