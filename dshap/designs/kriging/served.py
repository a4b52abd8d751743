"""Games that a pilot's choices do not serve: how they are found, and their attributions.

A pilot chooses one prior for all games from the values of a few games.  If a later game is of a
different kind, its errors are larger than with a separate prior.  Three numbers of the game show
this.  With P (p, p) the precision of the odd values y (p,) under the pilot's prior, e_j =
(Py)_j/P_jj is the leave-one-out error of pair j.

- Roughness: |e|/|y|.
- Misfit: |e| relative to the least |e| under the priors of `OTHER_DECAYS` and `OTHER_VARIATIONS`.
- Peak: max_T (χ_Tᵀ P y)²/(yᵀPy tr P) over the products χ_T of three players, the score of a sparse
  term.  It does not count if the pilot chose sparse terms for all games.

A game is served unless one of its numbers is more than `SERVED_SLACK` times the largest number of
the pilot's games.  Additive games are always served.  A game that is not served is estimated
separately, from its own values alone:

- It gets the likeliest prior of `other_kinds`.
- It gets a separate process if that is likelier (`game_processes.py`), and sparse terms if these
  predict its held-out pairs better (`cross_validation.py`).  `sparse=False` excludes both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dshap.core.records import BoolArray, FloatArray
from dshap.designs.kriging.cross_validation import held_out
from dshap.designs.kriging.game_processes import GameProcesses
from dshap.designs.kriging.pairs import PairList, likelihood_pairs
from dshap.designs.kriging.prior import Prior
from dshap.designs.kriging.process import Process
from dshap.designs.kriging.sparse_terms import Screen
from dshap.designs.kriging.tuning import (
    COMPARED_MATRICES,
    GAIN,
    KIND_MATRICES,
    KINDS_AT_ONCE,
    OTHER_DECAYS,
    OTHER_VARIATIONS,
    ROUGHNESS,
    SERVED_SLACK,
)


@dataclass(frozen=True)
class Service:
    """The choices of a pilot, with which later games are compared.

    Only the pairs of `likelihood_pairs` are compared: at most 512, or 1.5 a player if that is more.
    """

    pair_list: PairList
    prior: Prior
    """The prior that the pilot chose."""
    has_terms: bool
    """Whether the pilot chose sparse terms for all games."""

    def is_served(self, odd: FloatArray, limits: tuple[float, ...]) -> BoolArray:
        """Whether each of the games odd (games, p) is served, given the `limits`."""
        numbers = self.numbers(odd)[:, : len(limits)]
        return np.asarray((numbers <= np.array(limits)).all(axis=1))

    def limits(self, odd: FloatArray) -> tuple[float, ...]:
        """The largest numbers that a served game may have, from the pilot's games odd (games, p)."""
        largest = self.numbers(odd).max(axis=0)
        # a misfit of 1 means that no other prior predicts the game better, so it is always allowed
        largest[1] = max(largest[1], 1.0)
        return tuple((np.array(SERVED_SLACK[: len(largest)]) * largest).tolist())

    def numbers(self, odd: FloatArray) -> FloatArray:
        """Roughness, misfit and perhaps peak (games, 2 or 3) of odd (games, p).

        The peak is left out if all games have sparse terms.  The numbers of additive games are 0.
        """
        some = odd[:, self._positions]
        pilot = self._of_pilot
        weighted = some @ pilot.precision
        squares = (some * weighted).sum(axis=1)
        total = np.square(some).sum(axis=1)
        own = pilot.left_out(weighted)
        others = np.stack([each.left_out(some @ each.precision) for each in self._others])
        numbers = [_ratio(own, np.sqrt(total)), _ratio(own, others.min(axis=0))]
        if not self.has_terms:
            scores = np.square(self._screen.gradients(weighted.T)).max(axis=0, initial=0.0)
            numbers.append(_ratio(scores, squares * np.trace(pilot.precision)))
        is_rough = np.square(own) > ROUGHNESS * total
        return np.where(is_rough[:, None], np.stack(numbers, axis=1), 0.0)

    def likeliest(self, odd: FloatArray) -> NDArray[np.intp]:
        """Position in `other_kinds` of the likeliest prior of each game odd (games, p)."""
        some = odd[:, self._positions]
        return np.argmin([each.deviances(some) for each in self._others], axis=0)

    @cached_property
    def _positions(self) -> NDArray[np.intp]:
        pairs = self.pair_list
        return likelihood_pairs(pairs.n_pairs, pairs.n_players, pairs.seed)

    @cached_property
    def _pairs(self) -> FloatArray:
        return self.pair_list.pairs[self._positions]

    @cached_property
    def _of_pilot(self) -> _Known:
        return _Known.of(Process.at(self._pairs, self.prior))

    @cached_property
    def _screen(self) -> Screen:
        return Screen(self._pairs)

    @cached_property
    def _others(self) -> list[_Known]:
        d = self.pair_list.n_players
        priors = (Prior.of(d, decay, variation, None) for decay, variation in other_kinds())
        return [_Known.of(Process.at(self._pairs, prior)) for prior in priors]


@dataclass(frozen=True)
class _Known:
    """The parts of a prior at the compared pairs that stay in memory."""

    precision: FloatArray
    """P (q, q)."""
    volume: float
    """`Process.volume`."""
    n_free: int
    """Number of pairs minus number of players."""

    @classmethod
    def of(cls, process: Process) -> _Known:
        n_pairs, d = process.trend.shape
        return cls(process.precision(), process.volume, n_pairs - d)

    def left_out(self, weighted: FloatArray) -> FloatArray:
        """|e| (games,) without the pair (N, ∅), from yᵀP (games, q)."""
        errors = weighted / np.diag(self.precision)
        return np.asarray(np.sqrt(np.square(errors[:, 1:]).sum(axis=1)))

    def deviances(self, odd: FloatArray) -> FloatArray:
        """−2 × the restricted log-likelihood of games odd (games, q), each at its own scale."""
        squares = (odd * (odd @ self.precision)).sum(axis=1)
        least = ROUGHNESS * np.square(odd).sum(axis=1) + np.finfo(float).tiny
        return np.asarray(self.n_free * np.log(np.maximum(squares, least)) + 2 * self.volume)


def other_kinds() -> list[tuple[float, float]]:
    """Decay and variation of the priors that games are compared with; their players are alike."""
    return list(product(OTHER_DECAYS, OTHER_VARIATIONS))


def kept_bytes(pair_list: PairList) -> int:
    """Bytes of the compared priors, and of the priors that stay in memory for single games."""
    p = pair_list.n_pairs
    d = pair_list.n_players
    n_compared = len(likelihood_pairs(p, d, pair_list.seed))
    compared = (len(other_kinds()) + COMPARED_MATRICES) * 8 * n_compared**2
    products = 4 * p * d**2 if pair_list.has_few_players else 0
    return compared + KINDS_AT_ONCE * (KIND_MATRICES * 8 * p**2 + products)


def own_estimates(
    pair_list: PairList,
    odd: FloatArray,
    kinds: NDArray[np.intp],
    signs: FloatArray,
    *,
    is_by_game: bool,
) -> tuple[FloatArray, FloatArray]:
    """phi (games, d) and moves (R, games, d) of games odd (games, p), each estimated separately.

    `kinds` (games,) are positions in `other_kinds`; `TermBase.estimates` describes `signs` (p, R).
    Games have separate processes and sparse terms only if `is_by_game`.
    """
    phi = np.zeros((len(odd), pair_list.n_players))
    moves = np.zeros((signs.shape[1], *phi.shape))
    # sorted by prior, so that each prior is built once although `_alike` caches only a few
    for game in np.argsort(kinds, kind="stable"):
        processes = _alike(pair_list, *other_kinds()[kinds[game]])
        phi[game], moves[:, game] = _own_estimate(
            pair_list, processes, odd[game], signs, is_by_game
        )
    return phi, moves


def _own_estimate(
    pair_list: PairList,
    processes: GameProcesses,
    game: FloatArray,
    signs: FloatArray,
    is_by_game: bool,
) -> tuple[FloatArray, FloatArray]:
    """phi (d,) and moves (R, d) of a game (p,), from the processes of its prior."""
    found = None
    has_terms = False
    doubt = 1.0
    if is_by_game:
        found = processes.likelier(game)
        has_own = found is not None
        gain, doubts = held_out(
            processes, game[None], pair_list.seed, has_own, pair_list.has_few_players
        )
        has_terms = gain <= (GAIN**2 if has_own else GAIN)
        doubt = doubts[has_terms]
    base = processes.shared if found is None else processes.base(found.process)
    phi, moves = base.estimates(game[None], signs, doubt, has_terms)
    return phi[0], moves[:, 0]


@lru_cache(maxsize=KINDS_AT_ONCE)
def _alike(pair_list: PairList, decay: float, variation: float) -> GameProcesses:
    prior = Prior.of(pair_list.n_players, decay, variation, None)
    return GameProcesses(pair_list.pairs, prior)


def _ratio(numbers: FloatArray, others: FloatArray) -> FloatArray:
    return np.divide(numbers, others, out=np.ones_like(numbers), where=others > 0)
