from math import comb

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from dshap.core.errors import InputError
from dshap.designs import kernelshap
from dshap.designs.shapley_kernel import ConstrainedSolution, kernel_mass, normal_matrix


@pytest.mark.parametrize(
    ("d", "size", "weight"),
    [
        (2, 1, 1 / 2),  # the two singles share the kernel mass (d − 1)/(s(d − s)) = 1
        (3, 1, 1 / 3),  # 2/(3·1·2)
        (4, 1, 1 / 4),  # 3/(4·1·3)
        (4, 2, 1 / 8),  # 3/(6·2·2)
        (10, 5, 9 / (252 * 25)),
    ],
)
def test_kernel_by_hand(d, size, weight):
    """The weight of one coalition, from the mass of its size."""
    assert kernel_mass(d, size) / comb(d, size) == pytest.approx(weight, rel=1e-15)
    assert kernel_mass(d, d - size) / comb(d, size) == pytest.approx(weight, rel=1e-15)


def test_mass_of_a_size_at_any_number_of_players():
    assert kernel_mass(5000, 2500) == pytest.approx(4999 / 2500**2)


@pytest.mark.parametrize("d", range(2, 11))
def test_normal_matrix_of_all_coalitions(d):
    """On vectors that sum to zero XᵀWX is (d − 1)/d times the identity (000, its misprint
    corrected)."""
    matrix = normal_matrix(kernelshap(d, 2**d).blocks())
    basis = scipy.linalg.helmert(d)
    np.testing.assert_allclose(basis @ matrix @ basis.T, np.eye(d - 1) * (d - 1) / d, atol=1e-13)


@given(st.integers(1, 8), st.integers(0, 2**32))
def test_solution_is_the_constrained_minimum(d, seed):
    """The KKT system solved directly, condition below 1e4: 1e-9 is far above its rounding."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d + 3, d))
    matrix = root.T @ root + 0.1 * np.eye(d)
    right, total = rng.normal(size=(2, d, 3)), rng.normal(size=(2, 3))
    kkt = np.block([[matrix, np.ones((d, 1))], [np.ones((1, d)), np.zeros((1, 1))]])
    expected = np.linalg.solve(kkt, np.concatenate([right, total[:, None]], axis=1))[:, :d]
    phi = ConstrainedSolution.of(matrix).solve(right, total)
    np.testing.assert_allclose(phi, expected, atol=1e-9)
    np.testing.assert_allclose(phi.sum(axis=1), total, atol=1e-12)


def test_undetermined_players_are_an_error():
    """Masks 110 and 001 are one direction of the two that sum to zero."""
    masks = np.array([[1.0, 1, 0], [0, 0, 1]])
    with pytest.raises(InputError, match="determine 2 of 3 attributions"):
        ConstrainedSolution.of(masks.T @ masks)
    with pytest.raises(InputError, match="determine 1 of 3"):
        ConstrainedSolution.of(np.zeros((3, 3)))


def test_a_singular_constant_direction_is_no_error():
    """A itself may be singular: only its part that sums to zero is solved."""
    basis = scipy.linalg.helmert(4)
    solution = ConstrainedSolution.of(basis.T @ basis)
    np.testing.assert_allclose(solution.share, 0.25)
