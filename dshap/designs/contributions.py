"""The Shapley value of one player from its contributions to coalitions of all other players."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dshap.core.blocks import EMPTY, FULL, N_ENDS
from dshap.core.records import BoolArray, FloatArray
from dshap.designs.coalitions import first_distinct, stream
from dshap.designs.exact import MAX_PLAYERS, exact


@dataclass(frozen=True, eq=False)
class Contributions:
    """The Shapley value of one player A as a weighted sum, φ_A = Σ_S score_S v(S)."""

    masks: BoolArray
    """(m, d): proper coalitions, each once."""
    score: FloatArray
    """(m,): score of each coalition."""
    empty: float
    """Score of v(∅)."""
    full: float
    """Score of v(N)."""


def contributions(d: int, player: int, n_coalitions: int, seed: int = 0) -> Contributions:
    """Coalitions and scores for the Shapley value of one of d players; all 2^d if they fit.

    If 2^d is more than `n_coalitions`, φ_A is estimated without bias by the mean of v(S ∪ A) − v(S)
    over n_coalitions/2 coalitions S of the others, with size uniform on 0..d − 1 and S uniform
    among those of its size.  They come in pairs: S and the other players that are not in S.

    Source: Castro, Gómez & Tejada, Polynomial calculation of the Shapley value based on sampling
    (2009); Chau et al., RKHS-SHAP (2022), Proposition 7, for the regulariser.
    """
    if d <= MAX_PLAYERS and 1 << d <= n_coalitions:
        block = exact(d).block(EMPTY, 1 << d)
        each = block.score[:, player]
        return Contributions(
            block.masks[N_ENDS:], each[N_ENDS:], float(each[EMPTY]), float(each[FULL])
        )
    # a draw asks for four coalitions: itself and its complement, each without and with the player
    without = _drawn(d - 1, max(1, n_coalitions // 4), stream(seed, 0))
    without = np.insert(without, player, False, axis=1)  # (J, d)
    both = np.concatenate([without, without])
    both[len(without) :, player] = True
    first, which = first_distinct(both)
    signs = np.repeat([-1.0, 1.0], len(without)) / len(without)
    masks = both[first]
    # a coalition that was drawn several times is evaluated once, with the sum of its signs
    score: FloatArray = np.bincount(which, signs, minlength=len(first)).astype(float)
    size = masks.sum(axis=1)
    is_proper = (size > 0) & (size < d)
    empty, full = (float(score[size == each].sum()) for each in (0, d))
    return Contributions(masks[is_proper], score[is_proper], empty, full)


def _drawn(n_others: int, n_pairs: int, rng: np.random.Generator) -> BoolArray:
    """Random masks (2 n_pairs, n_others): each draw and its complement.

    The size is uniform on 0..n_others, and the coalition uniform among those of its size.
    """
    sizes = rng.integers(0, n_others + 1, n_pairs)
    ranks = rng.random((n_pairs, n_others)).argsort(axis=1).argsort(axis=1)
    drawn = ranks < sizes[:, None]
    return np.concatenate([drawn, ~drawn])
