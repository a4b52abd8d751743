"""Theorems 1 and 2 of L-Shapley and C-Shapley: mean errors and their bounds, on a chain of known
probabilities."""

import numpy as np
import pytest

from dshap.designs import chain, connected, local
from tests.benchmarks.graphs import ChainModel
from tests.designs.graph_games import of_neighbourhoods

COUPLINGS = (0.1, 0.4, 1.0)


def test_absolute_mutual_information_by_hand():
    """Two columns of P(same) = q: E|log 2p| = q |log 2q| + (1 − q)|log 2(1 − q)|; not the class,
    which is not given."""
    model = ChainModel(0.7, 2)
    q = np.exp(0.7) / (np.exp(0.7) + np.exp(-0.7))
    expected = q * abs(np.log(2 * q)) + (1 - q) * abs(np.log(2 * (1 - q)))
    assert model.information(0, (1,), ()) == pytest.approx(expected, abs=1e-14)
    assert ChainModel(0.0, 2).information(0, (1,), ()) == pytest.approx(0.0, abs=1e-14)
    np.testing.assert_allclose(model.joint.sum(), 1.0)


def test_values_are_conditional_log_probabilities():
    model = ChainModel(0.5, 3)
    v = model.values()
    x = (1, 0, 1)  # the second of two values of the first column, …
    p = model.joint[x] / model.joint[x].sum()
    given_first = model.joint[1].sum(axis=(0, 1))
    assert v[0b001, 0b101] == pytest.approx(p @ np.log(given_first / given_first.sum()))
    assert v[0b111, 0b101] == pytest.approx(p @ np.log(p))


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_errors_are_below_the_bounds(coupling, k):
    """Every player's mean error by its own ε; neither error is rounding."""
    model, line = ChainModel(coupling, 7), chain(7)
    first, second = model.epsilons(k)
    of_local, of_boundary = (
        model.errors(each) for each in (local(line, k), connected(line, k, coefficients="boundary"))
    )
    assert (of_local <= 4 * first).all()
    assert (of_boundary <= 6 * second).all()
    assert of_local.max() > 1e-4
    assert of_boundary.max() > 1e-4
    assert (second >= first).all()


def test_theorem_2_does_not_hold_for_the_coefficients_of_the_paper():
    """Independent columns, one of which the class has to do with: ε = 0, so that all errors should
    be 0.  Its proof takes two players beside every coalition for granted; those that there are make
    it true."""
    model, line = ChainModel(0.0, 7, only=3), chain(7)
    for k in (1, 2, 3):
        assert max(*model.epsilons(k)[0], *model.epsilons(k)[1]) < 1e-12
        assert model.errors(local(line, k)).max() < 1e-12
        assert model.errors(connected(line, k, coefficients="boundary")).max() < 1e-12
        assert model.errors(connected(line, k)).max() > 0.02


def test_the_estimates_are_those_of_the_tables():
    """Of one x, by the definition."""
    model = ChainModel(0.4, 5)
    v = model.values()[:, 11]
    block = local(chain(5), 1).block(0, local(chain(5), 1).n_coalitions)
    phi = block.score.T @ v[block.masks @ (1 << np.arange(5))]
    np.testing.assert_allclose(phi, of_neighbourhoods(v, chain(5), 1), atol=1e-12)
