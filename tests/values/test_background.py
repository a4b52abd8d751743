"""Herding: nearer to the mean than any uniform choice, and greedy by its definition."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dshap.core.errors import InputError
from dshap.kernels import RBF
from dshap.values.background import herd


@pytest.mark.parametrize("is_complex", [False, True])
def test_herding_beats_uniform_choice(rng, is_complex):
    x, landmarks = rng.normal(size=(2000, 5)), rng.normal(size=(60, 5))
    features = np.exp(1j * x @ landmarks.T) if is_complex else RBF(2.0).bind(5).matrix(x, landmarks)
    mean = features.mean(axis=0)

    def gap(chosen):
        return np.linalg.norm(features[chosen].mean(axis=0) - mean)

    herded = herd(features[:1000], mean, 50)
    assert len(set(herded.tolist())) == 50
    assert_array_equal(herded, herd(features[:1000], mean, 50))
    assert_array_equal(herded[:20], herd(features[:1000], mean, 20))
    uniform = [gap(rng.choice(1000, 50, replace=False)) for _ in range(20)]
    # measured: 0.25 (real) and 0.6 (complex) of the least of 20 draws
    assert gap(herded) < 0.8 * min(uniform)


def test_herding_is_greedy(rng):
    """Every choice against all alternatives, from the definition."""
    features = rng.random((12, 4)) * rng.random((12, 1))
    mean, chosen = features.mean(axis=0) + 0.05, []
    for _ in range(12):
        left = [row for row in range(12) if row not in chosen]
        chosen.append(
            min(left, key=lambda row: np.linalg.norm(features[[*chosen, row]].mean(axis=0) - mean))
        )
    assert_array_equal(herd(features, mean, 12), chosen)
    with pytest.raises(InputError, match="give 1 to 12"):
        herd(features, mean, 13)
