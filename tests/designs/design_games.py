"""Games for the tests of designs, and the Shapley value by its definitions, in code of its own."""

from itertools import permutations
from math import factorial

import numpy as np


def dividends(d, rng, order=None):
    """Harsanyi dividends a_T (2^d,), random up to interactions of `order` (of every order by default)."""
    a = rng.normal(size=2**d)
    sizes = np.array([int(T).bit_count() for T in range(2**d)])
    return np.where(sizes <= (d if order is None else order), a, 0.0)


def game(a):
    """v(S) = Σ_{T ⊆ S} a_T by bit code of S: (2^d,)."""
    v = a.copy()
    for i in range(len(v).bit_length() - 1):
        has_i = (np.arange(len(v)) >> i) & 1 == 1
        v[has_i] += v[~has_i]
    return v


def codes(masks):
    return masks @ (1 << np.arange(masks.shape[1]))


def shapley_of_dividends(a):
    """φ_i = Σ_{T ∋ i} a_T/|T|: each dividend is shared equally (Harsanyi)."""
    d = len(a).bit_length() - 1
    return np.array([sum(a[T] / int(T).bit_count() for T in range(2**d) if T >> i & 1) for i in range(d)])


def shapley_by_subsets(v):
    """φ_i = Σ_{S ∌ i} s!(d−s−1)!/d! [v(S ∪ i) − v(S)], Shapley 1953."""
    d = len(v).bit_length() - 1
    weight = [factorial(s) * factorial(d - s - 1) / factorial(d) for s in range(d)]
    return np.array(
        [
            sum(weight[int(S).bit_count()] * (v[S | 1 << i] - v[S]) for S in range(2**d) if not S >> i & 1)
            for i in range(d)
        ]
    )


def shapley_by_permutations(v):
    """Mean marginal contribution over all orders of arrival."""
    d = len(v).bit_length() - 1
    phi = np.zeros(d)
    for order in permutations(range(d)):
        present = 0
        for i in order:
            phi[i] += v[present | 1 << i] - v[present]
            present |= 1 << i
    return phi / factorial(d)


def attribute(design, v, step=None):
    """phi (d,) of a game v (2^d,) or (2^d, k) through block and finish, as the engine does it."""
    v = v.reshape(len(v), -1)
    m = design.n_coalitions
    sums = np.zeros((1, design.n_players, v.shape[1]))
    for start in range(0, m, step or m):
        block = design.block(start, min(start + (step or m), m))
        sums[0] += block.score.T @ v[codes(block.masks)]
    return design.finish(sums, v[:1], v[-1:])[0].squeeze(-1 if v.shape[1] == 1 else ())


def estimates(design, v, step=None):
    """phi (d,) and its replicates (R, d) of a game v (2^d,), as the engine makes them."""
    m, d = design.n_coalitions, design.n_players
    sums, groups = np.zeros((1, d, 1)), np.zeros((design.n_replicates, 1, d, 1))
    for start in range(0, m, step or m):
        block = design.block(start, min(start + (step or m), m))
        values = v[codes(block.masks)][:, None]
        sums[0] += block.score.T @ values
        for g, chosen, score in block.groups.parts():
            groups[g, 0] += score.T @ values[chosen]
    ends = v[:1, None], v[-1:, None]
    return design.finish(sums, *ends)[0, :, 0], design.replicates(sums, groups, *ends)[:, 0, :, 0]


def std_errors(design, v):
    """std_error (d,) = √Σ_g (phi_(g) − phi)²."""
    phi, replicates = estimates(design, v)
    return np.sqrt(np.square(replicates - phi).sum(axis=0))


def assert_strung_together(parts, whole):
    """Consecutive blocks are the whole block cut up, jackknife groups and all."""
    np.testing.assert_array_equal(np.concatenate([part.masks for part in parts]), whole.masks)
    np.testing.assert_array_equal(np.concatenate([part.score for part in parts]), whole.score)
    first = np.cumsum([0, *(len(part.masks) for part in parts)])
    at = [part.groups.coalition + start for part, start in zip(parts, first[:-1], strict=True)]
    np.testing.assert_array_equal(np.concatenate(at), whole.groups.coalition)
    np.testing.assert_array_equal(np.concatenate([part.groups.group for part in parts]), whole.groups.group)
    np.testing.assert_array_equal(np.concatenate([part.groups.score for part in parts]), whole.groups.score)
