"""Product kernels against closed forms and scikit-learn, one column at a time."""

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk  # scikit-learn 1.5 or later

from dshap.core.errors import InputError
from dshap.kernels import (
    RBF,
    Categorical,
    Laplacian,
    Matern,
    Product,
    ProductKernel,
    median_lengthscale,
)

PEERS = {
    "rbf": lambda scale: sk.RBF(scale),
    "laplacian": lambda scale: sk.Matern(scale, nu=0.5),
    "matern32": lambda scale: sk.Matern(scale, nu=1.5),
    "matern52": lambda scale: sk.Matern(scale, nu=2.5),
}


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("family", PEERS)
def test_each_family_equals_scikit_learn_on_one_column(family, rng):
    x, z = rng.normal(size=(30, 1)), rng.normal(size=(20, 1))
    kernel = ProductKernel((family,), [0.7])
    # 1e-14: the same formula, other order of operations
    np.testing.assert_allclose(kernel.matrix(x, z), PEERS[family](0.7)(x, z), atol=1e-14)


def test_laplacian_and_rbf_equal_pairwise_kernels(rng):
    from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

    x, z = rng.normal(size=(9, 3)), rng.normal(size=(8, 3))
    np.testing.assert_allclose(
        Laplacian(0.5).bind(3).matrix(x, z), laplacian_kernel(x, z, gamma=2.0), atol=1e-14
    )  # γ = 1/ℓ
    # γ = 1/(2ℓ²)
    np.testing.assert_allclose(
        RBF(0.5).bind(3).matrix(x, z), rbf_kernel(x, z, gamma=2.0), atol=1e-14
    )


@pytest.mark.parametrize("rho", [0.0, 0.3])
def test_categorical_is_one_or_rho(rho):
    x = np.array([[0.0], [1.0], [2.0]])
    np.testing.assert_allclose(
        Categorical(rho).bind(1).matrix(x, x), np.where(np.eye(3) > 0, 1.0, rho), atol=1e-15
    )


def test_subsets_are_products_of_factors(rng):
    families = ("rbf", "laplacian", "matern32", "matern52", "categorical")
    kernel = ProductKernel(families, [1.0, 0.5, 2.0, 0.3, 0.4])
    x, z = rng.integers(0, 3, (12, 5)).astype(float), rng.integers(0, 3, (7, 5)).astype(float)
    factors = kernel.factors(x, z)
    for columns in ([], [4], [0, 2], [1, 3, 4], range(5)):
        np.testing.assert_allclose(
            kernel.matrix(x, z, columns), factors[list(columns)].prod(axis=0), atol=1e-14
        )
    np.testing.assert_array_equal(kernel.matrix(x, z), kernel.matrix(x, z, range(5)))


def test_median_of_nonzero_distances_and_constant_columns():
    # binary: every non-zero distance is 1; constant: 1 by convention; 0,1,3: distances 1, 3, 2
    sample = np.array([[0.0, 5.0, 0.0], [1.0, 5.0, 1.0], [1.0, 5.0, 3.0]])
    np.testing.assert_allclose(
        median_lengthscale(sample), np.array([1.0, 1.0 / np.sqrt(3), 2.0]) * np.sqrt(3)
    )


def test_product_takes_a_kernel_a_column(rng):
    x = rng.normal(size=(50, 3))
    kernel = Product([RBF(), Matern(2.5, 3.0), Categorical(0.2)]).bind(3, x)
    assert kernel.families == ("rbf", "matern52", "categorical")
    np.testing.assert_allclose(kernel.parameters, [median_lengthscale(x)[0], 3.0, 0.2])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RBF(0.0).bind(2), "lengthscale is 0.0: give a number above 0"),
        (lambda: RBF([1.0, -1.0]).bind(2), "column 1 is -1"),
        (lambda: RBF([1.0, 1.0, 1.0]).bind(2), "3 values for 2 columns"),
        (lambda: RBF("mean"), "'median' or 'validate'"),
        (lambda: RBF().bind(2), "needs data"),
        (lambda: Matern(2.0), "nu is 2.0"),
        (lambda: Categorical(1.0).bind(1), "rho is 1.0: give a number of at least 0 and below 1"),
        (lambda: ProductKernel(("rfb",), [1.0]), "did you mean 'rbf'"),
    ],
)
def test_bad_kernels_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_stretched_columns_keep_what_two_categories_are_worth():
    kernel = Product([RBF(0.5), Categorical(0.3)]).bind(2).stretched(np.array([4.0, 4.0]))
    assert kernel.parameters.tolist() == [2.0, 0.3]


def test_a_kernel_says_which_columns_are_categorical():
    mixed = Product({"a": RBF(), "b": Categorical()})
    assert mixed.categorical_columns(2, ["b", "a"]).tolist() == [True, False]
    assert Product([RBF(1.0), Categorical()]).bind(2).categorical_columns(2).tolist() == [
        False,
        True,
    ]
    assert Categorical().categorical_columns(2).all()
    assert not RBF().categorical_columns(2).any()


def test_factors_of_few_rows_have_the_bits_of_many(rng):
    """All columns by one call of the loop, or column by column with repeated values once."""
    factors = [RBF(0.7), Laplacian(2.0), Matern(1.5, 1.3), Matern(2.5, 0.4), Categorical(0.2)]
    kernel = Product(factors).bind(5)
    landmarks, rows = rng.normal(size=(50, 5)), rng.normal(size=(90, 5))
    landmarks[:, 4], rows[:, 4] = rng.integers(0, 3, 50), rng.integers(0, 3, 90)
    many = kernel.factors(landmarks, rows)
    few = kernel.factors(landmarks, rows[:2])
    np.testing.assert_array_equal(few, many[:, :, :2])
