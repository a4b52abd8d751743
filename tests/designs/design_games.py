"""Games for the tests of designs, and the Shapley value by its definitions, in code of its own."""

from dataclasses import replace
from itertools import combinations, permutations
from math import factorial

import numpy as np


def dividends(d, rng, order=None):
    """Harsanyi dividends a_T (2^d,), random up to interactions of `order` (of every order by
    default)."""
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
    return np.array(
        [sum(a[T] / int(T).bit_count() for T in range(2**d) if T >> i & 1) for i in range(d)]
    )


def shapley_by_subsets(v):
    """φ_i = Σ_{S ∌ i} s!(d−s−1)!/d! [v(S ∪ i) − v(S)], Shapley 1953."""
    d = len(v).bit_length() - 1
    weight = [factorial(s) * factorial(d - s - 1) / factorial(d) for s in range(d)]
    return np.array(
        [
            sum(
                weight[int(S).bit_count()] * (v[S | 1 << i] - v[S])
                for S in range(2**d)
                if not S >> i & 1
            )
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


def grown(design, n_coalitions):
    """The design with another round, whose list begins with this one's."""
    return replace(design, budgets=(*design.budgets, n_coalitions))


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
    sums, groups = np.zeros((1, d, 1)), np.zeros((design.info.n_replicates, 1, d, 1))
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


def assert_joined(parts, whole):
    """Consecutive blocks are the whole block cut up, jackknife groups and all."""
    np.testing.assert_array_equal(np.concatenate([part.masks for part in parts]), whole.masks)
    np.testing.assert_array_equal(np.concatenate([part.score for part in parts]), whole.score)
    first = np.cumsum([0, *(len(part.masks) for part in parts)])
    at = [part.groups.coalition + start for part, start in zip(parts, first[:-1], strict=True)]
    np.testing.assert_array_equal(np.concatenate(at), whole.groups.coalition)
    np.testing.assert_array_equal(
        np.concatenate([part.groups.group for part in parts]), whole.groups.group
    )
    np.testing.assert_array_equal(
        np.concatenate([part.groups.score for part in parts]), whole.groups.score
    )


def prior_of(d, decay, relevance=None):
    """Coalitions T of odd size from 3 and the variances of their coefficients, which sum to 1:
    decay^((s−3)/2) in all of an order, shared by its coalitions as the products of the relevances
    of their players, equally above order 9."""
    r, of = np.ones(d) if relevance is None else np.array(relevance), {}
    for s in range(3, d + 1, 2):
        products = {T: np.prod(r[list(T)]) if s <= 9 else 1.0 for T in combinations(range(d), s)}
        total = sum(products.values())
        of |= {T: decay ** ((s - 3) / 2) * product / total for T, product in products.items()}
    total = sum(of.values())
    return {T: variance / total for T, variance in of.items()}


def fourier_game(d, rng, decay, relevance=None):
    """A game drawn from the prior and its Shapley values by their formula; order 1 and even ones
    are large, which must not matter."""
    variance = prior_of(d, decay, relevance)
    subsets = [T for s in range(d + 1) for T in combinations(range(d), s)]
    z = np.where((np.arange(2**d)[:, None] >> np.arange(d)) & 1, 1.0, -1.0)
    v, phi = np.zeros(2**d), np.zeros(d)
    for T in subsets:
        s = len(T)
        scale = 3.0 if s % 2 == 0 or s == 1 else np.sqrt(variance[T])
        c = rng.normal() * scale
        v += c * z[:, list(T)].prod(axis=1)
        if s % 2:
            phi[list(T)] += 2 * c / s
    return v, phi


def sparse_games(d, n, seed, n_terms=6, rough=0.0):
    """n games whose dividends are additive, all pairs, and a few of three players, others in each
    game; with `rough`, every order of random dividends on top."""
    rng = np.random.default_rng(seed)
    size = np.array([int(T).bit_count() for T in range(2**d)])
    for _ in range(n):
        a = np.where(size <= 2, dividends(d, rng), 0.0) * np.where(size == 2, 0.3, 1.0)
        a[rng.choice(np.flatnonzero(size == 3), n_terms, replace=False)] += rng.normal(size=n_terms)
        a += rough * np.where(size > 2, dividends(d, rng), 0.0) / 2 ** (d / 2)
        yield game(a), shapley_of_dividends(a)


def with_terms(design, **choices):
    """As a pilot would leave it."""
    alike = tuple(np.ones(design.n_players))
    found = {"decay": 0.03, "variation": 0.0, "relevance": alike, "sparse": True, "later_shells": 1}
    return with_findings(design, **found, **choices)


def with_findings(design, **changes):
    """The design with these findings of a pilot in place of those that it has."""
    return replace(design, findings=replace(design.findings, **changes))


def values_of(design, games):
    return np.stack([v[codes(design.masks)] for v, _ in games])[:, :, None]
