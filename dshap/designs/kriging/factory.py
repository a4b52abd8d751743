"""The public function `kriging`, which checks its options and builds a `KrigingDesign`."""

from __future__ import annotations

from typing import Literal

from dshap.core.errors import InputError, shown
from dshap.core.rules import Whole, checked
from dshap.designs.jackknife import N_REPLICATES
from dshap.designs.kriging.design import KrigingDesign
from dshap.designs.kriging.tuning import (
    DEFAULT_VARIATION,
    LEAST_SPARSE_PAIRS,
    MANY_PLAYERS,
    MIN_SPARSE_PLAYERS,
)


def kriging(
    d: int,
    n_coalitions: int,
    *,
    decay: float | Literal["pilot"] = "pilot",
    variation: float = DEFAULT_VARIATION,
    shells: int | Literal["pilot"] = "pilot",
    sparse: bool | Literal["pilot"] = "pilot",
    seed: int = 0,
    n_replicates: int = N_REPLICATES,
) -> KrigingDesign:
    """Estimate Shapley values by a Gaussian process fitted to few coalitions (kriging).

    phi is the posterior mean of the Shapley values φ, given the values of n_coalitions coalitions.

    phi is linear in the values if all games share one process.  It adds up to v(N) − v(∅), is exact
    for games with interactions of up to two players, and nearly exact for games with interactions
    of up to three players once all coalitions of 1 and 2 players and their complements are listed.
    The Notes have the model; `KrigingDesign` describes the list of coalitions, the separate processes
    and sparse terms of single games, and the sources.

    Parameters
    ----------
    d : int
        Number of players, at most 1,024.
    n_coalitions : int
        Number of distinct coalitions, ∅ and N counted: 2d + 2 to 4,096.
    decay : float or "pilot"
        A number in (0, 1] by which the prior variance of interactions falls with their order; all
        players then count as equally relevant.  "pilot": by restricted maximum likelihood from the
        values of up to 16 instances (the smallest decay that is not rejected).  The same pilot
        chooses `variation` and, from the attributions of these instances, the relevances.
    variation : float
        Variance of the players' effects over coalition sizes, where interactions have the variance
        1.  It is used if you set `decay` to a number.
    shells : int or "pilot"
        Number of outer sizes whose coalitions are all listed, as far as they fit: 1 lists all
        coalitions of 1 and of d − 1 players, 2 also those of 2 and d − 2.  "pilot" with a given
        decay is 1.
    sparse : bool or "pilot"
        Whether single games have separate interactions of three players; True needs 6 to 64 players
        and more than 4 coalitions a player.  "pilot" with a given decay: no game has such
        interactions.  False: attributions stay linear in the values, because no game has a separate
        process either.
    seed : int
        Seed of the drawn coalitions, which all instances share.
    n_replicates : int
        Number of contrasts from which standard errors are computed, 2 to 100; 0: no standard
        errors.

    Returns
    -------
    KrigingDesign

    Raises
    ------
    InputError
        Too few or too many coalitions or players, a decay outside (0, 1], a negative variation, or
        sparse terms with too few coalitions, too few or too many players, or without a pilot.

    Notes
    -----
    A game is v(S) = Σ_T c_T χ_T(S) + Σ_i z_i g_i(|S|) + t h(|S|), where χ_T is the product of ±1 over
    the players of T, z_i = ±1 for player i, and t is the mean of z.  Attributions, φ_i = Σ_{T∋i, |T|
    odd} 2 c_T/|T|, depend only on the odd part of a game, which pairs of complements show.  The prior
    has three parts:

    - independent coefficients c_T ~ N(0, σ²_T), flat for |T| = 1, of total variance ∝
      decay^((s−3)/2) for the orders s = 3, 5, ….  Within an order σ²_T is proportional to
      Π_{i∈T} r_i, where r_i is the relevance of player i: players with larger attributions have
      larger interactions;
    - effects g_i that change with the coalition size, of variance `variation`/d;
    - with fewer than 16 coalitions a player, an effect h that all players share, of variance up to
      10 `variation`.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> design = dshap.designs.kriging(8, 64, decay=0.25, shells=1, sparse=False)
    >>> values = design.masks @ np.arange(1.0, 9.0)  # an additive game
    >>> (values @ design.operator).round(6).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    """
    decay, variation = checked(decay=decay, variation=variation)
    if decay == "pilot":
        given_decay = None
    else:
        given_decay = float(decay)
    if isinstance(shells, str) and shells == "pilot":
        given_shells = None
    else:
        given_shells = Whole(0)("shells", shells)
    (n_coalitions,) = checked(n_coalitions=n_coalitions)
    terms = _checked_sparse(sparse, d, n_coalitions, given_decay)
    return KrigingDesign(
        d,
        (n_coalitions,),
        given_decay,
        seed,
        n_replicates,
        variation,
        shells=given_shells,
        sparse=terms,
    )


def _checked_sparse(
    sparse: bool | Literal["pilot"], d: int, n_coalitions: int, decay: float | None
) -> bool | None:
    """Check `sparse`, and return None for "pilot"; InputError if sparse terms are not possible."""
    if not isinstance(sparse, bool | str) or sparse not in (True, False, "pilot"):
        raise InputError(f'sparse is {shown(sparse)}: give True, False or "pilot"')
    if sparse is True and not MIN_SPARSE_PLAYERS <= d <= MANY_PLAYERS:
        raise InputError(
            f"sparse=True is for {MIN_SPARSE_PLAYERS} to {MANY_PLAYERS} players, not {d}"
        )
    if sparse is True and n_coalitions <= 2 * LEAST_SPARSE_PAIRS * d:
        raise InputError(
            f"sparse=True with n_coalitions={n_coalitions} for {d} players: give "
            f"{2 * LEAST_SPARSE_PAIRS * d + 2}"
        )
    if sparse is True and decay is not None:
        raise InputError(
            'sparse=True needs a pilot, which measures its errors: leave decay at "pilot"'
        )
    if sparse == "pilot":
        return None
    return bool(sparse)
