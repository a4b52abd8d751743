"""GPyTorch's own means (1.15, float64) on rows that no model has seen.

Tolerance: 1e-8 of their standard deviation; kernel matrices have noise of 0.01 to 0.1 on the
diagonal.
"""

import warnings

import numpy as np
import pytest

from dshap.core.errors import InputError
from dshap.models.adapters.gpytorch import KERNELS, LIKELIHOODS, MODELS, STRATEGIES, from_gpytorch
from dshap.models.expansion import KernelExpansion
from dshap.models.expansion_sum import ExpansionSum

torch = pytest.importorskip("torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    gpytorch = pytest.importorskip("gpytorch")
kernels, likelihoods, means = gpytorch.kernels, gpytorch.likelihoods, gpytorch.means

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(60, 3)), 1.5 * RNG.normal(size=(40, 3))
Y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 3.0
DOUBLE = {"dtype": torch.float64}


def set_to(module, seed=1):
    """Hyperparameters that are no defaults."""
    generator = torch.Generator().manual_seed(seed)
    for own in module.parameters():
        own.data = torch.empty_like(own.data).uniform_(-0.5, 1.0, generator=generator)
    return module.to(**DOUBLE)


class Exact(gpytorch.models.ExactGP):
    def __init__(self, kernel, likelihood=None, mean=None, scale=1.0, rows=X, targets=Y):
        super().__init__(
            torch.tensor(rows),
            torch.tensor(targets),
            likelihood or likelihoods.GaussianLikelihood(),
        )
        self.covar_module, self.mean_module = kernel, mean or means.ConstantMean()
        self.scale = scale

    def forward(self, x):
        x = x * self.scale
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Approximate(gpytorch.models.ApproximateGP):
    def __init__(self, strategy, kernel=None):
        points = torch.tensor(X[:20])
        distribution = gpytorch.variational.CholeskyVariationalDistribution(20)
        super().__init__(getattr(gpytorch.variational, strategy)(self, points, distribution))
        self.covar_module = kernel or kernels.ScaleKernel(kernels.RBFKernel(ard_num_dims=3))
        self.mean_module = means.ConstantMean()

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def exact(kernel, **options):
    return set_to(Exact(kernel, **options))


def approximate(strategy):
    model = set_to(Approximate(strategy))
    model.variational_strategy.variational_params_initialized.fill_(1)
    model.variational_strategy.inducing_points.data = torch.tensor(X[:20])
    return model


def checked(model, kind=KernelExpansion):
    expansion = from_gpytorch(model)
    model.eval()
    with torch.no_grad():
        expected = model(torch.tensor(NEW)).mean.numpy()[:, None]
    assert isinstance(expansion, kind)
    atol = 1e-8 * expected.std()
    np.testing.assert_allclose(expansion.predict(NEW), expected, rtol=0, atol=atol)
    again = expansion.intercept + expansion.factors(NEW).prod(axis=0) @ expansion.coefficients
    np.testing.assert_allclose(again, expected, rtol=0, atol=atol)
    return expansion


def matern(nu, column):
    return kernels.MaternKernel(nu=nu, active_dims=(column,))


OF_KERNELS = {
    "RBFKernel": [
        (kernels.RBFKernel(), KernelExpansion),
        (kernels.RBFKernel(ard_num_dims=3), KernelExpansion),
    ],
    "MaternKernel": [
        (matern(0.5, 1), KernelExpansion),
        (matern(1.5, 0) + matern(2.5, 2), ExpansionSum),
    ],
    "ScaleKernel": [
        (
            kernels.ScaleKernel(kernels.RBFKernel(ard_num_dims=2, active_dims=(2, 0))),
            KernelExpansion,
        ),
        (
            kernels.ScaleKernel(kernels.RBFKernel() + kernels.ScaleKernel(matern(1.5, 1))),
            ExpansionSum,
        ),
    ],
    "ConstantKernel": [
        (kernels.RBFKernel() * kernels.ConstantKernel() + kernels.ConstantKernel(), KernelExpansion)
    ],
    "AdditiveKernel": [(kernels.RBFKernel() + matern(2.5, 0) * matern(0.5, 1), ExpansionSum)],
    "ProductKernel": [
        (matern(0.5, 0) * matern(1.5, 1) * matern(2.5, 2), KernelExpansion),
        (kernels.RBFKernel() * kernels.RBFKernel(ard_num_dims=3), KernelExpansion),
    ],
}


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel(name):
    for kernel, kind in OF_KERNELS[name]:
        checked(exact(kernel), kind)


def test_active_columns_of_active_columns():
    inner = kernels.RBFKernel(ard_num_dims=1, active_dims=(1,)) + kernels.RBFKernel(
        active_dims=(0,)
    )
    inner.active_dims = torch.tensor([2, 0])
    expansion = checked(exact(inner), ExpansionSum)
    flat = [part.kernel.parameters > 1e50 for part in expansion.expansions]
    np.testing.assert_array_equal(flat, [[False, True, True], [True, True, False]])


OF_LIKELIHOODS = {
    "GaussianLikelihood": [likelihoods.GaussianLikelihood()],
    "FixedNoiseGaussianLikelihood": [
        likelihoods.FixedNoiseGaussianLikelihood(torch.linspace(0.05, 0.5, 60, **DOUBLE)),
        likelihoods.FixedNoiseGaussianLikelihood(
            torch.linspace(0.05, 0.5, 60, **DOUBLE), learn_additional_noise=True
        ),
    ],
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_every_likelihood(name):
    for likelihood in OF_LIKELIHOODS[name]:
        checked(exact(kernels.RBFKernel(), likelihood=likelihood, mean=means.ZeroMean()))


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy(name):
    checked(approximate(name))


def test_a_trained_model_and_its_names():
    model = exact(kernels.ScaleKernel(kernels.RBFKernel(ard_num_dims=3)))
    model.train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        loss = -objective(model(model.train_inputs[0]), model.train_targets)
        loss.backward()
        optimizer.step()
    checked(model)
    expansion = from_gpytorch(model, feature_names=["a", "b", "c"], output_names=["f"])
    assert (expansion.feature_names, expansion.output_names) == (("a", "b", "c"), ("f",))


def test_single_precision_differs_by_its_rounding():
    model = exact(kernels.RBFKernel())
    model.float()
    model.set_train_data(torch.tensor(X).float(), torch.tensor(Y).float(), strict=False)
    model.eval()
    with torch.no_grad():
        expected = model(torch.tensor(NEW).float()).mean.numpy()
    np.testing.assert_allclose(
        from_gpytorch(model).predict(NEW)[:, 0], expected, atol=1e-3 * expected.std()
    )


OwnRBF = type("RBFKernel", (kernels.RBFKernel,), {"__module__": "mine"})


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            lambda: exact(kernels.MaternKernel()),
            r"MaternKernel\(nu=2.5\) of 3 columns takes .*active_dims=\(j,\)",
        ),
        (
            lambda: exact(kernels.PeriodicKernel()),
            "PeriodicKernel is not a product .*ConditionalRegression",
        ),
        (lambda: exact(OwnRBF()), "mine.RBFKernel is not a product over columns that dshap knows"),
        (
            lambda: exact(matern(0.5, 0) * kernels.RBFKernel()),
            "the product of laplacian and rbf in column 0",
        ),
        (lambda: exact(kernels.ConstantKernel()), "depends on no column"),
        (lambda: exact(kernels.RBFKernel(), mean=means.LinearMean(3)), "LinearMean is neither"),
        (lambda: exact(kernels.RBFKernel(), scale=2.0), "forward of Exact is not Multivariate"),
        (
            lambda: exact(kernels.RBFKernel(), targets=np.where(Y > 4, np.nan, Y)),
            "train_targets contain NaN",
        ),
        (
            lambda: exact(
                kernels.RBFKernel(), likelihood=likelihoods.GaussianLikelihoodWithMissingObs()
            ),
            "likelihood",
        ),
        (
            lambda: exact(kernels.RBFKernel(), rows=np.stack([X, X]), targets=np.stack([Y, Y])),
            "without one table",
        ),
        (lambda: exact(kernels.RBFKernel(batch_shape=torch.Size([2]))), "belong to a batch"),
        (lambda: approximate("CiqVariationalStrategy"), "CiqVariationalStrategy is none of"),
        (lambda: kernels.RBFKernel(), "RBFKernel is not an ExactGP or ApproximateGP"),
    ],
)
def test_what_cannot_be_reduced_is_refused_with_reasons(model, words):
    with pytest.raises(InputError, match=words):
        from_gpytorch(model())


def test_every_model_is_here():
    assert set(MODELS) == {"ExactGP", "ApproximateGP"}
