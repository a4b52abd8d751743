"""The Shapley interaction index of pairs of players, estimated by its posterior mean."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy

from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.core.threads import one_blas_thread
from dshap.designs.kriging.pairs import PairList
from dshap.designs.kriging.prior import krawtchouk, order_kernel, order_variances
from dshap.designs.kriging.tuning import MAX_INTERACTING_PLAYERS, NUGGET


@lru_cache(maxsize=4)
def listed_interactions(pair_list: PairList, decay: float) -> FloatArray:
    """Weights (p, pairs of players) of a list's even values in the interaction index.

    They have the same bits on any number of cores.  InputError with more than 64 players.
    """
    if pair_list.n_players > MAX_INTERACTING_PLAYERS:
        raise InputError(
            f"interactions are for at most {MAX_INTERACTING_PLAYERS} players, not "
            f"{pair_list.n_players}: group columns"
        )
    with one_blas_thread():
        return interaction_weights(pair_list.pairs, None if pair_list.is_whole else decay)


def interaction_weights(pairs: FloatArray, decay: float | None) -> FloatArray:
    """Weights (p, pairs of players) of the even values (v(S) + v(S̄))/2 in the interaction index.

    The index is I_ij = Σ_{T ∋ i, j, |T| even} 4 c_T/(|T| − 1); its posterior mean is used.  In the
    prior the constant is flat, and the variances of the orders 2, 4, … fall by `decay`; if `decay`
    is None, all coefficients have the same variance.
    """
    d = pairs.shape[1]
    variances = order_variances(d, 2, decay)
    i, j = np.triu_indices(d, 1)
    # cov(I_ij, e) = z_i z_j Σ_s V_s 4s/(d(d − 1)) κ_{s−2}(minus signs among the others)
    sizes = np.arange(2, d + 1, 2)
    by_size = 4 * sizes / max(d * (d - 1), 1) * variances[sizes]
    others = by_size @ krawtchouk(max(d - 2, 0))[sizes - 2]
    minus = (
        (pairs < 0).sum(axis=1, keepdims=True) - (pairs[:, i] < 0) - (pairs[:, j] < 0).astype(int)
    )
    # why not the factor of `Process`: interactions depend on the even part of a game, whose
    # covariance differs from the odd part's
    factor = scipy.linalg.cholesky(
        order_kernel(pairs, variances) + NUGGET * np.eye(len(pairs)), lower=True
    )
    covariance = scipy.linalg.solve_triangular(
        factor, pairs[:, i] * pairs[:, j] * others[minus], lower=True
    )
    trend = scipy.linalg.solve_triangular(factor, np.ones(len(pairs)), lower=True)
    covariance -= trend[:, None] * (trend @ covariance / (trend @ trend))
    return np.asarray(scipy.linalg.solve_triangular(factor, covariance, lower=True, trans="T"))
