"""Landmarks, pivoted Cholesky, Nyström features and the ridge solve."""

import itertools

import numpy as np
import pytest
from scipy.optimize import brentq

from dshap.core.errors import InputError
from dshap.kernels import RBF, Nystrom, NystromBasis, pivoted_cholesky, ridge_solve


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def test_landmarks_are_distinct_rows_of_the_sample_and_follow_the_seed(rng):
    sample = rng.integers(0, 4, size=(300, 3)).astype(float)  # 64 distinct rows
    landmarks = Nystrom(60, seed=1).select(sample)
    assert len(np.unique(landmarks, axis=0)) == 60
    assert {tuple(row) for row in landmarks} <= {tuple(row) for row in sample}
    np.testing.assert_array_equal(landmarks, Nystrom(60, seed=1).select(sample))
    assert not np.array_equal(landmarks, Nystrom(60, seed=2).select(sample))


def test_kmeanspp_reaches_the_tail_and_scales_columns(rng):
    sample = rng.normal(size=(2000, 2)) * [1.0, 1e4]
    sample[0] = [30.0, 0.0]  # one row far out in the column of small units
    assert 30.0 in Nystrom(10).select(sample)[:, 0]


def test_given_and_uniform_landmarks(rng):
    sample = rng.normal(size=(20, 2))
    own = Nystrom(landmarks=sample[:4])
    assert (own.n_landmarks, own.selection) == (4, "given")
    np.testing.assert_array_equal(own.select(sample), sample[:4])
    assert len(np.unique(Nystrom(20, "uniform").select(sample), axis=0)) == 20


def test_leverage_draws_by_ridge_leverage_scores():
    """Shares of four values among the landmarks, against draws by the exact diag(K(K + μI)⁻¹) that
    add up to 4 / 2.

    Any 50 rows hold all four values, so pilots are exact and 0.02 is chance (seen: 0.008); uniform
    draws are 0.11 off.
    """
    sample = np.repeat([0.0, 1.0, 2.0, 4.0], [100, 50, 30, 20])[:, None]
    kernel = RBF(1.0).bind(1)
    values, vectors = np.linalg.eigh(kernel.matrix(sample, sample))
    ridge = brentq(lambda own: (values / (values + own)).sum() - 2.0, 1e-3, 1e3)
    scores = np.square(vectors) @ (values / (values + ridge))
    shares = np.zeros((2, 4))
    for seed in range(200):
        ours = Nystrom(50, "leverage", seed=seed).select(sample, kernel=kernel)
        exact = np.random.default_rng(seed).choice(
            sample[:, 0], 50, replace=False, p=scores / scores.sum()
        )
        shares += [
            [(own == value).sum() / 10_000 for value in (0.0, 1.0, 2.0, 4.0)]
            for own in (ours, exact)
        ]
    np.testing.assert_allclose(shares[0], shares[1], rtol=0, atol=0.02)


def test_leverage_finds_the_lone_row(rng):
    """A row that a uniform pilot of 10 in 200 seldom holds: what pilots leave unexplained draws it
    (26 of 50)."""
    sample = rng.normal(size=(200, 1))
    sample[17] = 30.0
    kernel = RBF(1.0).bind(1)
    found = [
        30.0 in Nystrom(10, "leverage", seed=seed).select(sample, kernel=kernel)
        for seed in range(50)
    ]
    assert sum(found) >= 15  # 5 of 50 by uniform draws


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Nystrom(), "n_landmarks is None"),
        (lambda: Nystrom(0), "n_landmarks is 0"),
        (lambda: Nystrom(5, "kmeans"), "did you mean 'kmeans\\+\\+'"),
        (lambda: Nystrom(landmarks=np.array([[np.nan]])), "NaN or infinity"),
        (lambda: Nystrom(9).select(np.zeros((8, 2))), "more landmarks than"),
        (lambda: Nystrom(3).select(np.repeat([[0.0], [1.0]], 5, axis=0)), "2 distinct rows"),
        (
            lambda: Nystrom(landmarks=np.zeros((2, 3))).select(np.zeros((8, 2))),
            "3 columns, the data 2",
        ),
    ],
)
def test_bad_embeddings_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_pivoted_cholesky_factors_stops_and_repeats(rng):
    x = rng.normal(size=(120, 2))
    gram = RBF(2.0).bind(2).matrix(x, x)
    kept = pivoted_cholesky(gram, 1e-8)
    own = gram[np.ix_(kept.kept, kept.kept)]
    np.testing.assert_allclose(kept.factor @ kept.factor.T, own, atol=1e-14)  # backward stable
    assert kept.rank == len(kept.kept) < 120
    assert (np.diff(np.diagonal(kept.factor)) <= 1e-15).all()  # pivots fall
    cross = gram[:, kept.kept]
    left = 1.0 - np.einsum("nq,qn->n", cross, np.linalg.solve(own, cross.T))
    assert left.max() <= 2e-8  # tolerance, and as much for the plain solve
    np.testing.assert_allclose(kept.residual, left.max(), atol=1e-9)
    np.testing.assert_array_equal(kept.kept, pivoted_cholesky(gram.copy(), 1e-8).kept)


def test_rank_of_duplicates_and_of_a_binary_column(rng):
    x = np.repeat(rng.normal(size=(5, 2)), 3, axis=0)
    assert pivoted_cholesky(RBF(1.0).bind(2).matrix(x, x), 1e-10).rank == 5
    binary = rng.integers(0, 2, (40, 1)).astype(float)
    kept = pivoted_cholesky(RBF(1.0).bind(1).matrix(binary, binary), 1e-6)
    assert (kept.rank, kept.residual) == (2, pytest.approx(0.0, abs=1e-15))
    assert "rank 2" in str(kept)


def test_ties_go_to_the_first_landmark():
    np.testing.assert_array_equal(pivoted_cholesky(np.eye(6), 1e-6).kept, range(6))


def test_features_reproduce_the_kernel_on_every_subset(rng):
    x = rng.normal(size=(80, 3))
    basis = NystromBasis(RBF().bind(3, x), x, 1e-10)
    for columns in ([0, 1, 2], [0], [0, 2]):
        features = basis.subset(np.isin(np.arange(3), columns))
        products = basis.factors(x)[columns].prod(axis=0)[:, features.kept]
        phi = features.whitened(products)
        # tolerance^1/2 · cov
        np.testing.assert_allclose(phi @ phi.T, basis.kernel.matrix(x, x, columns), atol=1e-8)
        weights = rng.normal(size=(features.n_features, 2))
        np.testing.assert_allclose(
            products @ features.coefficients(weights), phi @ weights, atol=1e-7
        )
        assert "condition" in str(features)


@pytest.mark.parametrize(("penalty", "tolerance"), [(1e-3, 1e-6), (1e-6, 1e-5)])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_ridge_on_whitened_rows_is_the_dense_conditional_mean_embedding(
    size, penalty, tolerance, rng
):
    """Every row a landmark: k_S(x, Z) w = K_xS (K_S + nλI)⁻¹ K_S̄, relative to the largest value.

    The tolerance leaves room for the rank tolerance of 1e-12 over λ (seen: 2e-9 and 3e-6).
    """
    rows, x, ridge = rng.normal(size=(400, 4)), rng.normal(size=(50, 4)), 400 * penalty
    kernel = RBF().bind(4, rows)
    for columns in itertools.combinations(range(4), size):
        others = [column for column in range(4) if column not in columns]
        own, rest = kernel.matrix(rows, rows, columns), kernel.matrix(rows, rows, others)
        keep, cross = pivoted_cholesky(own, 1e-12), kernel.matrix(x, rows, columns)
        phi = keep.whitened(own[:, keep.kept])
        weights = keep.coefficients(ridge_solve(phi.T @ phi, phi.T @ rest, ridge))
        dense = cross @ np.linalg.solve(own + ridge * np.eye(400), rest)
        np.testing.assert_allclose(
            cross[:, keep.kept] @ weights, dense, atol=tolerance * np.abs(dense).max(), rtol=0
        )


def test_a_ridge_that_float64_cannot_solve_is_refused(rng):
    x = rng.normal(size=(200, 2))
    own = RBF(3.0).bind(2).matrix(x, x)
    keep = pivoted_cholesky(own, 1e-14)
    phi = keep.whitened(own[:, keep.kept])
    with pytest.raises(
        InputError, match=r"for the landmarks that were kept \(\d+ weights, rank \d+, smallest"
    ):
        ridge_solve(phi[:20].T @ phi[:20], phi[:20].T @ own[:20], 1e-18)
