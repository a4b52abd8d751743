"""Length-scales by validation."""

import numpy as np
import pytest
from scipy.special import expit

from dshap.kernels import RBF, Categorical, Laplacian, Product, ProductKernel
from dshap.models.tuning import SLOPES, Trial, landmark_coordinates, tune, validation_error


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.mark.parametrize("k", [1, 2])
def test_gradient_equals_finite_differences(k, rng):
    families = tuple(SLOPES)
    x = np.column_stack([rng.normal(size=(120, 4)), rng.integers(0, 3, 120)])
    y = np.sin(x[:, :1] + x[:, 4:]) * np.arange(1, k + 1) + 0.1 * rng.normal(size=(120, k))
    trial = Trial(x[:80], y[:80], x[80:], y[80:], x[:80:4])

    def error(u, gradient=False):
        kernel = ProductKernel(families, np.append(np.exp(u[:4]), expit(u[4])))
        return validation_error(kernel, float(np.exp(u[5])), trial, gradient=gradient)

    at = np.array([0.3, 1.0, 0.2, 0.5, -0.4, np.log(1e-2)])
    steps = 1e-5 * np.eye(6)
    numeric = [(error(at + step)[0] - error(at - step)[0]) / 2e-5 for step in steps]
    # central differences: step² in truncation, 1e-16·cond/step in rounding
    np.testing.assert_allclose(error(at, gradient=True)[1], numeric, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_relevance_is_recovered_on_an_additive_target(rng):
    """Columns: fast, slow, irrelevant, eight unordered categories."""
    x = np.column_stack([rng.uniform(-1, 1, (3000, 3)), rng.integers(0, 8, 3000)])
    level = np.array([3.0, -2.0, 2.5, -3.0, 1.0, -1.0, 2.0, -2.5])
    y = np.sin(6 * x[:, 0]) + x[:, 1] + level[x[:, 3].astype(int)] + 0.1 * rng.normal(size=3000)
    start = RBF("validate").bind(4, x)
    tuning = tune(start, np.ones(4, bool), x, y[:, None])
    scale = tuning.kernel.parameters
    assert scale[0] < scale[1] < scale[2]
    assert scale[2] > 20 * scale[0]
    # noise is 0.01 of a variance near 6: 0.0017; four columns of interactions cost the rest
    assert tuning.error < 0.01
    again = tune(start, np.ones(4, bool), x, y[:, None])
    np.testing.assert_array_equal(again.kernel.parameters, scale)
    assert again.kernel.families == tuning.kernel.families


def test_many_unordered_categories_become_categorical(rng):
    x = np.column_stack([rng.integers(0, 30, 2000), rng.normal(size=2000)]).astype(float)
    y = rng.normal(size=30)[x[:, 0].astype(int)] + 0.3 * x[:, 1]
    start = ProductKernel(("rbf", "rbf"), [50.0, 1.0])
    assert tune(start, np.ones(2, bool), x, y[:, None]).kernel.families == ("categorical", "rbf")


def test_what_is_given_stays(rng):
    x = rng.normal(size=(400, 3))
    y = np.sin(3 * x[:, :1])
    start = ProductKernel(("rbf", "laplacian", "rbf"), [1.0, 2.0, 3.0])
    tuning = tune(start, np.array([True, False, False]), x, y, penalty=1e-3)
    np.testing.assert_array_equal(tuning.kernel.parameters[1:], [2.0, 3.0])
    assert tuning.penalty == 1e-3
    assert tuning.kernel.parameters[0] < 1.0


def test_validated_columns_are_where_the_user_wrote_so():
    mixed = Product([RBF("validate"), RBF("median"), Laplacian([2.0]), Categorical()])
    np.testing.assert_array_equal(mixed.validated_columns(4), [True, False, False, False])
    assert Laplacian("validate").validated_columns(3).all()
    assert not RBF([1.0, 2.0]).validated_columns(2).any()


def test_landmark_coordinates_are_the_kernels_own_distances(rng):
    x = np.column_stack([rng.normal(size=20), rng.integers(0, 3, 20)])
    kernel = ProductKernel(("rbf", "categorical"), [0.5, 0.2])
    where = landmark_coordinates(kernel, x)
    squared = np.square(where[:, None] - where[None]).sum(axis=2)
    np.testing.assert_allclose(squared, -2.0 * np.log(kernel.matrix(x, x)), atol=1e-10)
