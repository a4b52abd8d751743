"""Kriging: the Shapley values of the likeliest game through the values of sampled pairs of complements."""

from __future__ import annotations

from dshap.checks import Whole, checked
from dshap.designs.game_prior import MAX_RELEVANT_PLAYERS
from dshap.designs.jackknife import N_REPLICATES
from dshap.designs.kriging_design import LEAST_SPARSE_PAIRS, MIN_SPARSE_PLAYERS, KrigingDesign
from dshap.designs.kriging_pilot import DEFAULT_VARIATION
from dshap.errors import InputError, shown

__all__ = ["kriging"]


def kriging(
    d: int,
    n_coalitions: int,
    *,
    decay: float | str = "pilot",
    variation: float = DEFAULT_VARIATION,
    shells: int | str = "pilot",
    sparse: bool | str = "pilot",
    seed: int = 0,
    n_replicates: int = N_REPLICATES,
) -> KrigingDesign:
    """The Shapley values of the likeliest game through the values of n_coalitions coalitions.

    A game is v(S) = Σ_T c_T χ_T(S) + Σ_i z_i g_i(|S|), χ_T the product of ±1 over the players of T, z_i = ±1 for player
    i: only the odd part counts, which is what pairs of complements show, and there φ_i = Σ_{T∋i, |T| odd} 2 c_T/|T|.
    Independent c_T ~ N(0, σ²_T), flat for |T| = 1 and of total variance decay^((s−3)/2) for the orders s = 3, 5, …,
    and effects g_i that change with the size of the coalition, of variance `variation`/d, make φ a Gaussian process;
    phi is its posterior mean given the values.  Within an order σ²_T goes with Π_{i∈T} r_i: players of larger
    attributions, of relevance r_i, have larger interactions.  It is linear in the values, meets all of them and the
    two ends, is exact for games with interactions of two players, and nearly so of three once sizes 1 and 2 and their
    complements are there.

    The list: size 1 whole (where there are three pairs a player, or 64 players and fewer), then as many coalitions of
    every size, without replacement (leverage sampling).  After a quarter of it a pilot asks what the rest is worth:
    where interactions are weak enough, the next sizes are taken whole before the others get their shares.

    Sparse terms: where that predicts coalitions which the pilot holds out better (0.8 of the error or less), each
    instance has coefficients of up to 200 interactions of three players of its own beside the process, found in its own
    values by empirical Bayes.  Boosted trees on many columns or words have few interactions: the error there is 0.005
    to 0.5 of that without.  Attributions are then no more linear in the values, and take 10 to 80 ms an instance.

    Parameters
    ----------
    d : int
        Number of players, at most 1,024.
    n_coalitions : int
        Distinct coalitions, the empty and the full one counted: 2d + 2 to 4,096.
    decay : float or "pilot"
        Above 0, at most 1, all players equally relevant.  "pilot": by restricted maximum likelihood
        from the values of up to 16 instances (the smallest that it does not contradict), variation too, relevance from
        their attributions.
    variation : float
        Of a given decay: variance of what the players' effects change by with the size, that of interactions being 1.
    shells : int or "pilot"
        Outer sizes that are taken whole, as far as they fit; "pilot" with a given decay: 1.
    sparse : bool or "pilot"
        Sparse terms of three players: for 6 to 64 players and more than 4 coalitions a player; "pilot" with a given
        decay: none.
    seed : int
    n_replicates : int
        Contrasts that standard errors come from, 2 to 100; 0: none.

    Returns
    -------
    KrigingDesign

    Raises
    ------
    InputError
        Too few or too many coalitions or players, a decay outside (0, 1], a negative variation, or sparse terms of too
        few coalitions, too few or too many players, or without a pilot.

    Notes
    -----
    Standard errors: with e_j how far the value of pair j is from what the others predict (leave-one-out), W_ji its
    weight in φ_i and w_ji the weight that it has where every coalition is there, std_error_i² = κ_i Σ_j (W_ji − w_ji)²
    e_j²: as large as the row's values are rough, in the sizes where they are, and 0 for what is all there.  κ_i is the
    ratio of the posterior variance to the same sum under the prior, to the power of 3/4 − 2d/pairs (0 at least): trust
    in the prior where there are many pairs, none where there are few.  The square of the error is the mean of that and
    of the posterior variance times the mean square of e_j over its own deviation; above 128 players, the latter alone.
    Both are summed through n_replicates contrasts with random signs, linear in the values until the end: phi ± t_{R−1}
    std_error.  With sparse terms W and e of the first are those that the terms of the instance leave, and the error is
    multiplied with what the pilot's held out coalitions say that the choice of terms makes it too small by.
    Measured coverage, of games like the prior and of votes, airports, products, heavy tails, networks and logistic
    models: `python -m tests.benchmarks.widths`.

    References
    ----------
    Universal kriging: N. Cressie, Statistics for Spatial Data (1993), section 3.4; Fourier coefficients of games and
    their Shapley values: R. O'Donnell, Analysis of Boolean Functions (2014), and M. Grabisch, Set Functions, Games and
    Capacities in Decision Making (2016), section 2.12; leave-one-out errors in sandwich variances: J. G. MacKinnon and
    H. White, Journal of Econometrics 29 (1985), HC3; C. Musco and R. T. Witter, ICLR 2025, for leverage sampling.
    """
    decay, variation = checked(decay=decay, variation=variation)
    given_decay = None if isinstance(decay, str) else decay
    given_shells = None if isinstance(shells, str) and shells == "pilot" else Whole(0)("shells", shells)
    if not isinstance(sparse, bool | str) or sparse not in (True, False, "pilot"):
        raise InputError(f'sparse is {shown(sparse)}: give True, False or "pilot"')
    n_coalitions = Whole(1)("n_coalitions", n_coalitions)
    if sparse is True and not MIN_SPARSE_PLAYERS <= d <= MAX_RELEVANT_PLAYERS:
        raise InputError(f"sparse=True is for {MIN_SPARSE_PLAYERS} to {MAX_RELEVANT_PLAYERS} players, not {d}")
    if sparse is True and n_coalitions <= 2 * LEAST_SPARSE_PAIRS * d:
        raise InputError(
            f"sparse=True with n_coalitions={n_coalitions} for {d} players: give {2 * LEAST_SPARSE_PAIRS * d + 2}"
        )
    if sparse is True and given_decay is not None:
        raise InputError('sparse=True wants a pilot, which measures its errors: leave decay at "pilot"')
    terms = None if sparse == "pilot" else bool(sparse)
    return KrigingDesign(
        d, (n_coalitions,), given_decay, seed, n_replicates, variation, shells=given_shells, sparse=terms
    )
