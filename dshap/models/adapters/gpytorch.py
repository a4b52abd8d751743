"""GPyTorch's Gaussian processes as expansions.

GPyTorch is not imported: classes are recognised by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.kernels.unbound import MATERN
from dshap.models.adapters.kernel_terms import Term, add, expansion_of_terms, multiply, refusal
from dshap.models.expansion_sum import AnyExpansion

if TYPE_CHECKING:
    import gpytorch

PROBES = 32
"""Number of rows at which the model's prior is compared with the one read from its modules."""
PROBE_TOLERANCE = {4: 1e-3, 8: 1e-6}
"""Bytes per number of the model -> allowed error, relative to the largest value.

A few digits more than rounding.
"""


def from_gpytorch(
    model: gpytorch.models.ExactGP | gpytorch.models.ApproximateGP,
    *,
    feature_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> AnyExpansion:
    """Convert a trained GPyTorch process, so that dshap can explain its mean in closed form.

    The result predicts ``model(x).mean``.  Hyperparameters are read from the model, and the weights
    are computed again in float64: a model in float32 differs from its expansion by the rounding of
    float32.

    Parameters
    ----------
    model : gpytorch.models.ExactGP or gpytorch.models.ApproximateGP
        A model with one output, whose `mean_module` is constant or zero and whose `covar_module`
        is a sum of products over columns: RBF, Matérn of one column (`active_dims`),
        `ScaleKernel`, `ConstantKernel`, their sums and products.  An exact process must have a
        Gaussian likelihood, an approximate one a `VariationalStrategy` or
        `UnwhitenedVariationalStrategy`; its latent mean is used, with any likelihood.
    feature_names, output_names : sequence of str, optional

    Returns
    -------
    KernelExpansion or ExpansionSum
        Its landmarks are the training rows or the inducing points.

    Raises
    ------
    InputError
        The model has no such form, or its `forward` computes something other than `mean_module` and
        `covar_module` of the rows as they are given.

    Notes
    -----
    An exact process with n training rows needs n³/3 operations and 16 n² bytes.

    Examples
    --------
    >>> import gpytorch
    >>> import numpy as np
    >>> import torch
    >>> import dshap
    >>> class Process(gpytorch.models.ExactGP):
    ...     def __init__(self, x, y):
    ...         super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
    ...         self.mean_module = gpytorch.means.ConstantMean()
    ...         self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    ...     def forward(self, x):
    ...         mean, covariance = self.mean_module(x), self.covar_module(x)
    ...         return gpytorch.distributions.MultivariateNormal(mean, covariance)
    >>> x = torch.tensor(np.random.default_rng(0).normal(size=(50, 2)))
    >>> process = Process(x, x[:, 0] * x[:, 1]).double().eval()
    >>> expansion = dshap.models.from_gpytorch(process)
    >>> with torch.no_grad():
    ...     mean = process(x).mean.numpy()
    >>> bool(np.allclose(expansion.predict(x.numpy())[:, 0], mean))
    True
    """
    kinds = _class_names(model)
    kind = next((name for name in MODELS if name in kinds), None)
    if kind is None:
        raise refusal(kinds[0], f"is not an {' or '.join(MODELS)} of gpytorch")
    for name in ("input_transform", "outcome_transform"):  # attributes of BoTorch's models
        if getattr(model, name, None) is not None:
            raise refusal(
                f"{name} of {kinds[0]}",
                "is outside of the kernel",
                "fit it on transformed rows",
            )
    # `model(x)` is never called: it would compute in the model's own precision
    rows, solve = MODELS[kind](model)
    landmarks = _array(rows)
    terms = _terms(model.covar_module, np.arange(landmarks.shape[1]), landmarks.shape[1])
    mean = _mean(model.mean_module)
    _check_prior(model, rows, terms, mean)
    weights = solve(_kernel_matrix(terms, landmarks), mean)
    if output_names is None:
        names = None
    else:
        names = tuple(output_names)
    expansion = expansion_of_terms(terms, landmarks, weights[:, None], np.array([mean]), names)
    if feature_names is None:
        features = None
    else:
        features = tuple(feature_names)
    return expansion.mapped(lambda part: replace(part, feature_names=features))


def _class_names(given: Any) -> list[str]:
    """Names of an object's class and its base classes.

    GPyTorch's own have plain names, others include the module. A kernel is recognised by its own
    class only, since a subclass may compute anything; a model also by a base class.
    """
    kinds = [(kind.__module__, kind.__qualname__) for kind in type(given).__mro__]
    return [
        name if module.split(".")[0] == "gpytorch" else f"{module}.{name}" for module, name in kinds
    ]


def _array(tensor: Any) -> FloatArray:
    return np.asarray(tensor.detach().cpu().numpy(), dtype=float)


def _number(tensor: Any, what: str) -> float:
    if tensor.numel() != 1:
        raise refusal(
            f"{what} of shape {tuple(tensor.shape)}",
            "belongs to a batch of models",
            "give one model each",
        )
    return float(tensor.detach())


# --- models: landmarks, and the weights from their kernel matrix and the mean

Solve = Callable[[FloatArray, float], FloatArray]


def _exact(model: Any) -> tuple[Any, Solve]:
    """Training rows, and a solver for the weights (K + noise)⁻¹ (y − mean)."""
    if (
        model.train_inputs is None
        or len(model.train_inputs) != 1
        or model.train_inputs[0].ndim != 2
    ):
        raise refusal("a model without one table of training rows (n, columns)", "has no landmarks")
    if (name := _class_names(model.likelihood)[0]) not in LIKELIHOODS:
        raise refusal(f"likelihood {name}", f"is none of {', '.join(LIKELIHOODS)}")
    targets = _array(model.train_targets)
    noise = _array(model.likelihood.noise)
    if not np.isfinite(targets).all():
        raise InputError(
            "train_targets contain NaN or infinity: leave these rows out, set_train_data sets the "
            "others"
        )

    def solve(kernel: FloatArray, mean: float) -> FloatArray:
        return scipy.linalg.cho_solve(
            _factor(kernel + np.diag(np.broadcast_to(noise, targets.shape))), targets - mean
        )

    return model.train_inputs[0], solve


# their noise is a diagonal that is added to the kernel matrix: the weights have a closed form
LIKELIHOODS = ("GaussianLikelihood", "FixedNoiseGaussianLikelihood")


def _approximate(model: Any) -> tuple[Any, Solve]:
    """Inducing points, and a solver for their weights.

    The weights are K⁻¹ (m − mean) from the values m of inducing points, or L⁻ᵀ m if m is
    whitened, K = LLᵀ.
    """
    strategy = model.variational_strategy
    if (name := _class_names(strategy)[0]) not in STRATEGIES:
        raise refusal(name, f"is none of {', '.join(STRATEGIES)}")
    if strategy.inducing_points.ndim != 2:
        raise refusal(
            f"inducing points of shape {tuple(strategy.inducing_points.shape)}",
            "belong to several outputs",
        )
    if not getattr(strategy, "updated_strategy", True):
        raise refusal(
            "a state of an old GPyTorch",
            "is brought up to date by its first call",
            "call model(x) once",
        )
    values = _array(strategy.variational_distribution.mean)

    def solve(kernel: FloatArray, mean: float) -> FloatArray:
        factor = _factor(kernel + strategy.jitter_val * np.eye(len(kernel)))
        return STRATEGIES[name](factor, values, mean)

    return strategy.inducing_points, solve


STRATEGIES: dict[str, Callable[[tuple[FloatArray, bool], FloatArray, float], FloatArray]] = {
    "VariationalStrategy": lambda factor, values, mean: scipy.linalg.solve_triangular(
        factor[0], values, lower=True, trans="T"
    ),
    "UnwhitenedVariationalStrategy": lambda factor, values, mean: scipy.linalg.cho_solve(
        factor, values - mean
    ),
}

MODELS: dict[str, Callable[[Any], tuple[Any, Solve]]] = {
    "ExactGP": _exact,
    "ApproximateGP": _approximate,
}
"""Class in `gpytorch.models` -> function that returns landmarks, a tensor (n, columns), and a solver."""


def _factor(matrix: FloatArray) -> tuple[FloatArray, bool]:
    try:
        return scipy.linalg.cho_factor(matrix, lower=True)
    except (np.linalg.LinAlgError, ValueError) as error:
        raise InputError(
            f"the kernel matrix cannot be factored ({error}): raise the model's noise or jitter"
        ) from error


def _mean(module: Any) -> float:
    name = _class_names(module)[0]
    if name not in ("ConstantMean", "ZeroMean"):
        raise refusal(name, "is neither ConstantMean nor ZeroMean, and no product over columns")
    if name == "ConstantMean":
        return _number(module.constant, name)
    return 0.0


def _kernel_matrix(terms: Sequence[Term], rows: FloatArray) -> FloatArray:
    """The kernel matrix Σ_t term_t(x, x') (n, n)."""
    out = np.zeros((len(rows), len(rows)))
    for term in terms:
        out += term.amplitude * term.kernel().matrix(rows, rows)
    return out


def _check_prior(model: Any, rows: Any, terms: Sequence[Term], mean: float) -> None:
    """Check that `forward` gives the mean and the kernel that were read, at some rows.

    rows: a tensor (n, columns).
    """
    prior = model.forward(rows[:PROBES])
    read = _kernel_matrix(terms, _array(rows[:PROBES]))
    for wanted, given in ((read, prior.covariance_matrix), (np.full(len(read), mean), prior.mean)):
        tolerance = PROBE_TOLERANCE[given.element_size()] * np.abs(wanted).max(initial=1e-12)
        if (
            wanted.shape != tuple(given.shape)
            or np.abs(wanted - _array(given)).max(initial=0.0) > tolerance
        ):
            raise refusal(
                f"forward of {type(model).__name__}",
                "is not MultivariateNormal(mean_module(x), covar_module(x)) of the rows as they "
                "are",
                "transform the rows before the model, or use dshap.values.Marginal(predict, "
                "background)",
            )


# --- kernels


def _terms(kernel: Any, columns: NDArray[np.intp], n_columns: int) -> list[Term]:
    """The product terms of a kernel that is called with these columns."""
    active = kernel.active_dims
    return _terms_of_active(
        kernel, columns if active is None else columns[active.cpu().numpy()], n_columns
    )


def _terms_of_active(kernel: Any, columns: NDArray[np.intp], n_columns: int) -> list[Term]:
    name = _class_names(kernel)[0]
    if name not in KERNELS:
        raise refusal(name, "is not a product over columns that dshap knows")
    return KERNELS[name](kernel, columns, n_columns)


def _stationary(family: str, kernel: Any, columns: NDArray[np.intp], n_columns: int) -> list[Term]:
    if kernel.lengthscale.ndim != 2 or len(kernel.lengthscale) != 1:
        raise refusal(
            f"length-scales {tuple(kernel.lengthscale.shape)}", "belong to a batch of models"
        )
    lengthscales = np.full(n_columns, np.inf)
    lengthscales[columns] = _array(kernel.lengthscale)[0]
    return [Term.of(family, lengthscales, n_columns)]


def _rbf(kernel: Any, columns: NDArray[np.intp], n_columns: int) -> list[Term]:
    return _stationary("rbf", kernel, columns, n_columns)


def _matern(kernel: Any, columns: NDArray[np.intp], n_columns: int) -> list[Term]:
    if len(columns) > 1:
        raise refusal(
            f"MaternKernel(nu={kernel.nu:g}) of {len(columns)} columns",
            "takes the distance over all columns at once and is not a product over columns",
            "fit a product of MaternKernel(active_dims=(j,)), or for this model use "
            "dshap.values.Marginal(predict, "
            "background) or dshap.values.ConditionalRegression(predict, data, ...)",
        )
    return _stationary(MATERN[kernel.nu], kernel, columns, n_columns)


def _scale(kernel: Any, columns: NDArray[np.intp], n_columns: int) -> list[Term]:
    """The terms of a ScaleKernel; it selects the active columns on behalf of its base kernel."""
    amplitude = Term.of("rbf", np.inf, n_columns, _number(kernel.outputscale, "outputscale"))
    return multiply([amplitude], _terms_of_active(kernel.base_kernel, columns, n_columns))


def _constant(kernel: Any, columns: NDArray[np.intp], n_columns: int) -> list[Term]:
    return [Term.of("rbf", np.inf, n_columns, _number(kernel.constant, "ConstantKernel"))]


def _sum(kernel: Any, columns: NDArray[np.intp], n_columns: int) -> list[Term]:
    return add(*[_terms(inner, columns, n_columns) for inner in kernel.kernels])


def _product(kernel: Any, columns: NDArray[np.intp], n_columns: int) -> list[Term]:
    terms = [Term.of("rbf", np.inf, n_columns)]
    for inner in kernel.kernels:
        terms = multiply(terms, _terms(inner, columns, n_columns))
    return terms


KERNELS: dict[str, Callable[[Any, NDArray[np.intp], int], list[Term]]] = {
    "RBFKernel": _rbf,
    "MaternKernel": _matern,
    "ScaleKernel": _scale,
    "ConstantKernel": _constant,
    "AdditiveKernel": _sum,
    "ProductKernel": _product,
}
"""Class in `gpytorch.kernels` -> function that returns its product terms."""
