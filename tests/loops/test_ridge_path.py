"""Ridge regressions of a tridiagonal system, beside dense solves."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dshap.loops.ridge_path import moved_squares, ridge_path


@pytest.mark.parametrize(("p", "k"), [(1, 1), (2, 1), (5, 3), (60, 2), (256, 1)])
def test_fits_traces_and_pivots_beside_dense_solves(p, k):
    rng, ridges = np.random.default_rng(p), 10.0 ** np.arange(2.0, -5.0, -1.0)
    diagonal, below, right = rng.random(p), 0.4 * rng.normal(size=p - 1), rng.normal(size=(p, k))
    matrix = np.diag(diagonal) + np.diag(below, 1) + np.diag(below, -1)
    matrix += max(0.0, -np.linalg.eigvalsh(matrix)[0]) * np.eye(p)
    path = ridge_path(np.diag(matrix).copy(), below, right, ridges)
    for j, ridge in enumerate(ridges):
        inverse = np.linalg.inv(matrix + ridge * np.eye(p))
        assert_allclose(
            path.fits[:, :, j],
            inverse @ right,
            rtol=1e-7,
            atol=1e-9 * np.abs(inverse @ right).max(),
        )
        assert_allclose(path.traces[j], np.trace(inverse), rtol=1e-8)
        pivots = [
            np.diag(np.linalg.cholesky(matrix + share * ridge * np.eye(p))) ** 2
            for share in (1.0, 0.5)
        ]
        assert_allclose(path.pivots[j], np.min(pivots), rtol=1e-7)


def test_a_pivot_is_negative_where_half_the_ridge_is_too_little():
    """Eigenvalues −1 and 3: ridges of 3, 1.5 and 0.5."""
    path = ridge_path(np.ones(2), np.full(1, 2.0), np.ones((2, 1)), np.array([3.0, 1.5, 0.5]))
    assert (path.pivots > 0.0).tolist() == [True, False, False]
    assert_allclose(path.fits[:, 0, :2], [[1 / 6, 1 / 4.5], [1 / 6, 1 / 4.5]])


@pytest.mark.parametrize(("p", "k", "best"), [(1, 1, 0), (2, 1, 2), (5, 3, 4), (60, 2, 6)])
def test_what_fits_explain_and_how_far_they_move(p, k, best):
    """T = ΦᵀΦ and right = Φᵀg: Σ‖g‖² − Σ‖g − Φw‖², and Σ‖Φ(w − w_best)‖²."""
    rng, ridges = np.random.default_rng(p), 10.0 ** np.arange(2.0, -5.0, -1.0)
    phi, targets = (
        np.diag(1.0 + rng.random(p)) + np.diag(rng.random(p - 1), 1),
        rng.normal(size=(p, k)),
    )  # ΦᵀΦ is tridiagonal
    matrix, right = phi.T @ phi, phi.T @ targets
    diagonal, below = np.diag(matrix).copy(), np.diag(matrix, -1).copy()
    path = ridge_path(diagonal, below, right, ridges)
    fitted = [phi @ path.fits[:, :, j] for j in range(len(ridges))]
    left = [np.square(targets - own).sum() for own in fitted]
    assert_allclose(
        np.square(targets).sum() - path.explained, left, atol=1e-12 * np.square(targets).sum()
    )
    moved = [np.square(own - fitted[best]).sum() for own in fitted[: best + 1]]
    assert_allclose(moved_squares(diagonal, below, path.fits, best), moved, rtol=1e-9, atol=1e-14)
