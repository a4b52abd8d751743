"""Inputs of quadrature: the players' factors, and how many nodes are enough for given rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dshap import loops
from dshap.core.records import BoolArray, FloatArray

AnyArray = NDArray[Any]

FIRST_REFERENCE = 8
"""Nodes of the first reference that smaller numbers of nodes are compared with."""


def player_factors(factors: FloatArray, members: BoolArray) -> FloatArray:
    """(d, n, r): product of each player's column factors.

    factors (columns, n, r), members (d, columns).
    """
    out = np.empty((len(members), *factors.shape[1:]), factors.dtype)
    for columns, product in zip(members, out, strict=True):
        factors[columns].prod(axis=0, out=product)
    return out


def rest_factor(factors: FloatArray, members: BoolArray) -> FloatArray:
    """(n, r): product over the columns of no player, which have the background's value."""
    return factors[~members.any(axis=0)].prod(axis=0)


def player_angles(x: FloatArray, frequencies: FloatArray, members: BoolArray) -> FloatArray:
    """(d, n, r): Σ_j ω_rj x_j over the columns j of each player.

    x (n, columns), frequencies (r, columns).
    """
    out = np.empty((len(members), len(x), len(frequencies)))
    for columns, angles in zip(members, out, strict=True):
        np.matmul(x[:, columns], frequencies[:, columns].T, out=angles)
    return out


def rest_angle(x: FloatArray, frequencies: FloatArray, members: BoolArray) -> FloatArray:
    """(n, r): Σ_j ω_rj x_j over the columns of no player (see `rest_factor`)."""
    rest = ~members.any(axis=0)
    return np.asarray(x[:, rest] @ frequencies[:, rest].T)


def reference_nodes(d: int, q: int) -> int:
    """Number of nodes whose values can serve as the reference for q nodes.

    Twice as many, at least 1.4·√d, and at most the exact number: a product of d factors may fall
    within 1/d of an end of [0, 1], and nodes come as near as 1.4/q². For factors in [0, 1]
    `worst_node_error` of that many is below 3e-5 for any d up to 1,000.
    """
    return min(loops.exact_nodes(d), max(2 * q, math.ceil(1.4 * math.sqrt(d))))


class NodeCount(NamedTuple):
    """How many nodes are enough, and the error that was measured with them."""

    nodes: int
    """Number of quadrature nodes."""
    error: float
    """Largest |φ − φ with the reference nodes|, in units of `unit`; 0 with the exact number."""


def node_count(
    game: Callable[..., FloatArray],
    x: FloatArray,
    background: FloatArray,
    coefficients: AnyArray,
    tolerance: float,
    *,
    unit: float | FloatArray = 1.0,
    rest: FloatArray | None = None,
    least: int = 1,
) -> NodeCount:
    """Find the smallest even number of nodes, from `least` on, with an error of at most `tolerance`.

    Parameters
    ----------
    game : `product_game_values` or `fourier_game_values`
        Function of x (d, n, r), background (d, b, r), coefficients (r, k) and rest (b, r).
    tolerance : float
        Largest error, in units of `unit`; below about 1e-13·Σ_r|A_r| rounding dominates, and the
        exact number of nodes is returned.
    unit : float or (k,)
        Standard deviation of the predictions; 1 for an absolute tolerance.

    Notes
    -----
    The error is measured on these rows, and is not a bound for other rows: give the worst ones.  An
    odd number of nodes costs as much as the next even one.  `worst_node_error` bounds the error for
    real factors in [0, 1].
    """
    d = len(x)
    q = max(2, least + least % 2)
    exact = loops.exact_nodes(d)
    reference = min(exact, max(FIRST_REFERENCE, reference_nodes(d, q)))
    truth = game(x, background, coefficients, reference, rest=rest)
    while q < exact:
        if reference < reference_nodes(d, q):
            reference = min(exact, 2 * reference)
            truth = game(x, background, coefficients, reference, rest=rest)
        error = float(
            np.max(
                np.abs(game(x, background, coefficients, q, rest=rest) - truth) / unit, initial=0.0
            )
        )
        if error <= tolerance:
            return NodeCount(q, error)
        q += 2
    return NodeCount(exact, 0.0)
