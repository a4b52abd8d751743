"""Priors of games, in other code."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dshap.designs import exact, kriging
from dshap.designs.kriging.prior import Prior, krawtchouk
from dshap.designs.kriging.process import Process


def test_krawtchouk_against_integers():
    """κ_s(h) = Σ_j (−1)^j C(h, j) C(d − h, s − j) / C(d, s): at every size and distance up to 40,
    at some to 1,024."""
    for d in [*range(1, 41), 60, 73, 80, 128, 255, 256, 257, 1_024]:
        every = (
            range(d + 1)
            if d <= 40
            else sorted({0, 1, 2, 3, d // 3, d // 2, d // 2 + 1, d - 2, d - 1, d})
        )
        table = krawtchouk(d)
        for s, h in itertools.product(every, every):
            total = sum(
                (-1) ** j * math.comb(h, j) * math.comb(d - h, s - j) for j in range(min(s, h) + 1)
            )
            assert abs(float(Fraction(total, math.comb(d, s))) - table[s, h]) < 1e-13


@pytest.mark.parametrize(
    ("d", "p", "of_common"), [(6, 6, 0), (6, 9, 0.05), (6, 20, 1), (7, 55, 1), (7, 56, 0)]
)
def test_effects_that_change_with_the_size(d, p, of_common):
    """Parts of the prior that depend on sizes, against the games z_i g(|S|) and t h(|S|) of a
    basis, by every coalition: the second rises with the pairs, to eight a player."""
    variation, every = 0.7, exact(d).masks
    z = np.where(kriging(d, 2**d).masks[1::2], 1.0, -1.0)[:p]
    z[1:] *= -1  # of pairs the first
    t = np.abs(2 * np.arange(d + 1) - d) / d
    root = np.linalg.cholesky(np.exp(-np.abs(t[:, None] - t) / 0.3) + 1e-9 * np.eye(d + 1))
    own, common = root.T * np.sqrt(variation / d), root.T * np.sqrt(10 * of_common * variation)

    def games(z):
        sizes = (z > 0).sum(axis=1)
        of_players = [z[:, i] * g[sizes] for i in range(d) for g in own]
        return np.array(of_players + [z.mean(axis=1) * h[sizes] for h in common])

    at_pairs = (games(z) - games(-z)) / 2
    of_phi = games(np.where(every, 1.0, -1.0)) @ exact(d).operator
    prior = Prior.of(d, 0.1, variation, None)
    process, without = Process.at(z, prior), Process.at(z, replace(prior, variation=0.0))
    found = process.factor @ process.factor.T - without.factor @ without.factor.T
    np.testing.assert_allclose(found, at_pairs.T @ at_pairs, atol=1e-6)
    np.testing.assert_allclose(
        process.variance - without.variance, np.square(of_phi).sum(axis=0), atol=1e-6
    )
    cross = process.factor @ process.covariance - without.factor @ without.covariance
    np.testing.assert_allclose(cross, at_pairs.T @ of_phi, atol=1e-6)
