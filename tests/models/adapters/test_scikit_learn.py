"""scikit-learn's own predictions (1.9) on rows that no model has seen, for everything that is
adapted.

Tolerance: 1e-8 of the standard deviation of the prediction; both sides add the same terms in
float64, and the distances of scikit-learn, |x|² − 2xz + |z|², lose some digits.
"""

import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import discriminant_analysis, linear_model, svm
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process import kernels as trees
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.kernel_approximation import Nystroem, PolynomialCountSketch, RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, RidgeCV
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    RandomizedSearchCV,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, NuSVR, OneClassSVM

from dshap.core.errors import InputError
from dshap.models.adapters.kernel_terms import MATERNS, NAMED, NAMED_REASONS, TREE_REASONS, TREES
from dshap.models.adapters.scikit_learn import (
    FEATURE_MAPS,
    LINEAR,
    MODELS,
    SCALERS,
    WRAPPERS,
    from_sklearn,
)
from dshap.models.expansion import FourierExpansion, KernelExpansion
from dshap.models.expansion_sum import ExpansionSum

RNG = np.random.default_rng(0)
CENTRES, SPREADS = np.array([0.0, 4.0, -2.0]), np.array([1.0, 3.0, 0.5])
X = CENTRES + SPREADS * RNG.normal(size=(120, 3))
NEW = CENTRES + 1.5 * SPREADS * RNG.normal(size=(70, 3))
SIGNAL = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 3
Y = SIGNAL + 0.1 * RNG.normal(size=len(X)) + 5.0
Y2 = np.column_stack([Y, 100.0 - 20.0 * np.cos(SIGNAL)])
TWO = np.where(np.median(SIGNAL) < SIGNAL, "yes", "no")
FOUR = np.array(["a", "b", "c", "d"])[np.digitize(SIGNAL, np.quantile(SIGNAL, [0.3, 0.6, 0.8]))]
KERNEL = KernelRidge(kernel="rbf", gamma=0.2, alpha=0.1)
FEATURES, WAVES = (
    Nystroem(gamma=0.3, n_components=15, random_state=0),
    RBFSampler(gamma=0.3, random_state=0),
)


def fitted(estimator, target=Y, rows=X):
    with warnings.catch_warnings():
        # of solvers that stop early, and of classes on their way out
        warnings.simplefilter("ignore")
        return clone(estimator).fit(rows, target)


def outputs(estimator, rows):
    """decision_function where there is one, else predict; (n, k)."""
    predict = getattr(estimator, "decision_function", None) or estimator.predict
    return predict(rows).reshape(len(rows), -1)


def checked(estimator, target=Y, rows=X, new=NEW, kind=KernelExpansion):
    """The expansion of the fitted estimator, equal to it in every way in which an expansion can be
    used."""
    model = fitted(estimator, target, rows)
    expansion, expected = from_sklearn(model), outputs(model, new)
    atol = 1e-8 * expected.std(axis=0).max()
    array = np.asarray(new)
    assert isinstance(expansion, kind)
    np.testing.assert_allclose(expansion.predict(new), expected, rtol=0, atol=atol)
    products = expansion.factors(array).prod(axis=0)  # (n, size)
    np.testing.assert_allclose(
        expansion.intercept + (products @ expansion.coefficients).real, expected, rtol=0, atol=atol
    )
    assert (
        expansion.coefficients.shape
        == (expansion.size, expansion.n_outputs)
        == (expansion.size, expected.shape[1])
    )
    assert expansion.factors(array).shape == (expansion.n_columns, *products.shape)
    for part in expansion.parts:
        back = type(part).from_record(part.to_record())
        np.testing.assert_array_equal(back.predict(array), part.predict(array))
        assert back.digest() == part.digest()
    return expansion


# --- kernel machines

OF_MODELS = {
    "KernelRidge": (KERNEL, Y2),
    "SVR": (SVR(gamma="auto", C=10), Y),
    "NuSVR": (NuSVR(gamma=0.1), Y),
    "OneClassSVM": (OneClassSVM(gamma=0.1), None),
    "SVC": (SVC(), TWO),
    "NuSVC": (NuSVC(decision_function_shape="ovo", nu=0.2), FOUR),
    "GaussianProcessRegressor": (
        GaussianProcessRegressor(alpha=0.1, optimizer=None, normalize_y=True),
        Y2,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_kernel_machine(name):
    checked(*OF_MODELS[name])


@pytest.mark.parametrize("gamma", [None, 0.4])
@pytest.mark.parametrize("kernel", NAMED)
def test_every_named_kernel(kernel, gamma):
    checked(KernelRidge(kernel=kernel, gamma=gamma, alpha=0.1))
    checked(
        make_pipeline(
            Nystroem(kernel=kernel, gamma=gamma, n_components=20, random_state=0), Ridge()
        )
    )


def test_kernel_ridge_takes_trees_too():
    checked(KernelRidge(kernel=RBF([1.0, 2.0, 3.0]) + RBF(0.5), alpha=0.1), kind=ExpansionSum)


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.05])
@pytest.mark.parametrize("machine", [SVR, NuSVR])
def test_support_vector_regression(machine, gamma):
    checked(machine(gamma=gamma, C=5.0))


@pytest.mark.parametrize(
    "machine", [SVC(gamma=0.1), NuSVC(nu=0.3), SVC(class_weight="balanced", break_ties=True)]
)
def test_two_classes_are_positive_for_the_second(machine):
    expansion = checked(machine, TWO)
    assert expansion.output_names == ("yes",)
    predicted = np.where(expansion.predict(NEW)[:, 0] > 0, "yes", "no")
    np.testing.assert_array_equal(predicted, fitted(machine, TWO).predict(NEW))


def test_more_classes_are_one_output_a_pair():
    expansion = checked(SVC(gamma=0.1, decision_function_shape="ovo"), FOUR)
    assert expansion.output_names == ("a vs b", "a vs c", "a vs d", "b vs c", "b vs d", "c vs d")
    votes = np.zeros((len(NEW), 4), dtype=int)  # positive is a vote for the first of the pair
    for (i, j), value in zip(combinations(range(4), 2), expansion.predict(NEW).T, strict=True):
        votes[np.arange(len(NEW)), np.where(value > 0, i, j)] += 1
    predicted = np.array(list("abcd"))[votes.argmax(axis=1)]
    np.testing.assert_array_equal(predicted, fitted(SVC(gamma=0.1), FOUR).predict(NEW))
    checked(
        SVC(gamma=0.1, decision_function_shape="ovo"),
        np.digitize(SIGNAL, np.quantile(SIGNAL, [0.4, 0.7])),
    )


@pytest.mark.parametrize("machine", [SVC(decision_function_shape="ovo"), KERNEL])
def test_models_fitted_on_sparse_rows(machine):
    checked(machine, FOUR if isinstance(machine, SVC) else Y, rows=sparse.csr_array(X))
    checked(machine, TWO if isinstance(machine, SVC) else Y2, rows=sparse.csr_array(X))


# --- kernels of Gaussian processes

OF_TREES = {
    "ConstantKernel": (ConstantKernel(3.0) * RBF(1.5) + ConstantKernel(2.0), KernelExpansion),
    "WhiteKernel": (
        RBF(1.5) + WhiteKernel(0.3) + ConstantKernel(2.0) * WhiteKernel(0.1),
        KernelExpansion,
    ),
    "RBF": (RBF([0.7, 2.0, 5.0]), KernelExpansion),
    "Matern": (Matern([0.7, 2.0, 5.0], nu=np.inf), KernelExpansion),
    "Sum": (2.0 * RBF(0.7) + 0.5 * RBF([3.0, 4.0, 5.0]), ExpansionSum),
    "Product": (
        (RBF(0.7) + ConstantKernel(0.4)) * (RBF([3.0, 4.0, 5.0]) * ConstantKernel(3.0) + RBF(9.0)),
        ExpansionSum,
    ),
    "Exponentiation": ((2.0 * RBF([0.7, 2.0, 5.0]) + WhiteKernel(0.1)) ** 3, KernelExpansion),
    "PairwiseKernel": (
        trees.PairwiseKernel(gamma=0.2, metric="rbf") * RBF(2.0)
        + trees.PairwiseKernel(metric="laplacian") ** 2,
        ExpansionSum,
    ),
}


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("name", TREES)
def test_every_kernel_tree(name, normalize):
    kernel, kind = OF_TREES[name]
    process = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None, normalize_y=normalize)
    checked(process, Y, kind=kind)
    checked(process, Y2, kind=kind)


def test_a_process_with_its_hyperparameters_fitted():
    kernel = ConstantKernel() * RBF([1.0, 1.0, 1.0]) + WhiteKernel()
    checked(GaussianProcessRegressor(kernel, random_state=0), Y)


@pytest.mark.parametrize("nu", MATERNS)
def test_matern_of_one_column(nu):
    kernel = 2.0 * Matern(0.8, nu=nu) ** 1.0
    checked(
        GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None),
        Y,
        rows=X[:, :1],
        new=NEW[:, :1],
    )


# --- scalers, names and wrappers

OF_SCALERS = {
    "StandardScaler": [
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        StandardScaler(with_mean=False, with_std=False),
    ],
    "MinMaxScaler": [MinMaxScaler((-2, 5))],
    "MaxAbsScaler": [MaxAbsScaler()],
    "RobustScaler": [
        RobustScaler(),
        RobustScaler(with_centering=False),
        RobustScaler(with_scaling=False, unit_variance=True),
    ],
    "FunctionTransformer": [FunctionTransformer()],
    "'passthrough'": ["passthrough"],
    "None": [None],
}
RESPONSES = {
    KernelExpansion: (KERNEL, make_pipeline(FEATURES, Ridge())),
    FourierExpansion: (make_pipeline(WAVES, Ridge()),),
    ExpansionSum: (KernelRidge(kernel=RBF([1.0, 2.0, 3.0]) + RBF(0.5), alpha=0.1),),
}


@pytest.mark.parametrize("name", SCALERS)
def test_every_scaler_before_every_kind(name):
    for scaler in OF_SCALERS[name]:
        for kind, models in RESPONSES.items():
            for model in models:
                checked(Pipeline([("scale", scaler), ("model", model)]), Y2, kind=kind)


def test_scaled_columns_are_explained_in_their_own_units():
    expansion = checked(
        make_pipeline(StandardScaler(), KernelRidge(kernel="rbf", gamma=0.5, alpha=0.1))
    )
    np.testing.assert_allclose(expansion.landmarks, X, atol=1e-12)
    # gamma 0.5 is length-scale 1
    np.testing.assert_allclose(expansion.kernel.parameters, X.std(axis=0))
    waves = checked(
        make_pipeline(StandardScaler(), RBFSampler(gamma=0.5, random_state=0), Ridge()),
        kind=FourierExpansion,
    )
    np.testing.assert_allclose(waves.kernel.parameters, X.std(axis=0))


def test_a_constant_column_survives_its_scaler():
    rows, new = (
        np.column_stack([X, np.full(len(X), 7.0)]),
        np.column_stack([NEW, np.full(len(NEW), 7.5)]),
    )
    checked(make_pipeline(StandardScaler(), MinMaxScaler(), KERNEL), Y, rows, new)


def test_scalers_before_between_and_after():
    inner = make_pipeline(StandardScaler(), None, make_pipeline(MinMaxScaler(), RobustScaler()))
    checked(
        make_pipeline(inner, MaxAbsScaler(), FEATURES, StandardScaler(), MinMaxScaler(), RidgeCV()),
        Y2,
    )
    checked(
        make_pipeline(inner, make_pipeline(WAVES, RobustScaler(), LogisticRegression())),
        FOUR,
        kind=FourierExpansion,
    )


OF_WRAPPERS = {
    "Pipeline": Pipeline([("model", KERNEL)]),
    "TransformedTargetRegressor": TransformedTargetRegressor(KERNEL, transformer=StandardScaler()),
    "GridSearchCV": GridSearchCV(KERNEL, {"gamma": [0.1, 0.2]}, cv=3),
    "RandomizedSearchCV": RandomizedSearchCV(KERNEL, {"gamma": [0.1, 0.2]}, cv=3, n_iter=2),
    "HalvingGridSearchCV": HalvingGridSearchCV(KERNEL, {"gamma": [0.1, 0.2]}, cv=3),
    "HalvingRandomSearchCV": HalvingRandomSearchCV(
        KERNEL, {"gamma": [0.1, 0.2]}, cv=3, n_candidates=2
    ),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_every_wrapper(name):
    checked(OF_WRAPPERS[name], Y)


@pytest.mark.parametrize(
    "scaler", [StandardScaler(), MinMaxScaler(), RobustScaler(with_centering=False), None]
)
@pytest.mark.parametrize("target", [Y, Y2], ids=["one", "two"])
def test_scaled_targets(scaler, target):
    for kind, models in RESPONSES.items():
        for model in models:
            checked(TransformedTargetRegressor(model, transformer=scaler), target, kind=kind)


def test_wrappers_in_wrappers():
    target = TransformedTargetRegressor(Ridge(), transformer=MinMaxScaler())
    waves = make_pipeline(
        StandardScaler(),
        WAVES,
        StandardScaler(),
        GridSearchCV(target, {"regressor__alpha": [1, 2]}),
    )
    twice = TransformedTargetRegressor(waves, transformer=RobustScaler())
    checked(
        GridSearchCV(twice, {"regressor__rbfsampler__gamma": [0.1, 0.3]}, cv=2),
        Y2,
        kind=FourierExpansion,
    )


@pytest.mark.parametrize(
    "estimator",
    [
        KERNEL,
        make_pipeline(StandardScaler(), KERNEL),
        make_pipeline("passthrough", StandardScaler(), KERNEL),
        make_pipeline(FunctionTransformer(), KERNEL),
        make_pipeline("passthrough", clone(FEATURES).set_output(transform="pandas"), Ridge()),
        GridSearchCV(
            make_pipeline(StandardScaler(), FEATURES, Ridge()), {"ridge__alpha": [1.0, 2.0]}, cv=2
        ),
        TransformedTargetRegressor(KERNEL, transformer=StandardScaler()),
        make_pipeline(FeatureUnion([("one", FEATURES), ("two", WAVES)]), Ridge()),
    ],
)
def test_names_of_columns(estimator):
    frame, new = (pd.DataFrame(own, columns=["u", "v", "w"]) for own in (X, NEW))
    model = fitted(estimator, Y, frame)
    expansion = from_sklearn(model)
    assert expansion.feature_names == ("u", "v", "w")
    np.testing.assert_allclose(
        expansion.predict(new[["w", "u", "v"]])[:, 0],
        model.predict(new),
        atol=1e-8 * np.std(model.predict(new)),
    )
    assert from_sklearn(model, feature_names=["a", "b", "c"]).feature_names == ("a", "b", "c")
    assert from_sklearn(fitted(estimator)).feature_names is None
    with pytest.raises(InputError, match="2 feature names for 3"):
        from_sklearn(model, feature_names=["a", "b"])


# --- linear models of features


def linear(name):
    for module in (linear_model, svm, discriminant_analysis):
        if hasattr(module, name):
            return getattr(module, name)(
                **({"cv": 2, "Cs": 2} if name == "LogisticRegressionCV" else {})
            )
    pytest.skip(f"this scikit-learn has no {name}")


@pytest.mark.parametrize("name", sorted(LINEAR))
@pytest.mark.filterwarnings("ignore::FutureWarning")  # classes on their way out
def test_every_linear_model(name):
    model = linear(name)
    targets = (
        [TWO, FOUR]
        if hasattr(model, "decision_function")
        else [Y2]
        if name.startswith("Multi")
        else [Y]
    )
    for target in targets:
        checked(make_pipeline(StandardScaler(), FEATURES, model), target)


@pytest.mark.parametrize(
    "model", [Ridge(), RidgeCV(), Ridge(fit_intercept=False), linear_model.LinearRegression()]
)
def test_several_targets_of_a_linear_model(model):
    checked(make_pipeline(WAVES, model), Y2, kind=FourierExpansion)
    checked(make_pipeline(FEATURES, model), Y2[:, :1])


@pytest.mark.parametrize(
    "model", [LogisticRegression(), LinearSVC(), linear_model.SGDClassifier(random_state=0)]
)
def test_names_of_classes(model):
    pipeline = make_pipeline(StandardScaler(), WAVES, model)
    assert checked(pipeline, TWO, kind=FourierExpansion).output_names == ("yes",)
    assert checked(pipeline, FOUR, kind=FourierExpansion).output_names == ("a", "b", "c", "d")


def test_sparse_coefficients():
    model = fitted(make_pipeline(FEATURES, linear_model.SGDClassifier(random_state=0)), FOUR)
    expected = model.decision_function(NEW)
    model[-1].sparsify()
    np.testing.assert_allclose(
        from_sklearn(model).predict(NEW), expected, atol=1e-8 * expected.std()
    )


def union(**weights):
    scaled = make_pipeline(StandardScaler(), make_pipeline(MinMaxScaler(), clone(FEATURES)))
    parts = [
        ("slow", RBFSampler(gamma=0.05, random_state=1)),
        ("none", "drop"),
        ("near", scaled),
        ("fast", WAVES),
    ]
    return FeatureUnion(parts, transformer_weights=weights or None)


OF_FEATURE_MAPS = {
    "Nystroem": (
        [
            FEATURES,
            Nystroem(kernel="laplacian", kernel_params={"gamma": 0.3}, n_components=10),
            Nystroem(n_components=10),
            Nystroem(kernel=2.0 * RBF([1.0, 2.0, 3.0]), n_components=10),
        ],
        KernelExpansion,
    ),
    "RBFSampler": ([WAVES, RBFSampler(gamma="scale", n_components=30)], FourierExpansion),
    "FeatureUnion": (
        [union(), union(slow=2.0, near=0.5), FeatureUnion([("one", union()), ("two", FEATURES)])],
        ExpansionSum,
    ),
}


@pytest.mark.parametrize("name", FEATURE_MAPS)
def test_every_feature_map(name):
    maps, kind = OF_FEATURE_MAPS[name]
    for feature_map in maps:
        checked(
            make_pipeline(RobustScaler(), feature_map, StandardScaler(), Ridge()), Y2, kind=kind
        )
        whole = checked(make_pipeline(feature_map, LogisticRegression()), FOUR, kind=kind)
        assert whole.output_names == ("a", "b", "c", "d")


# --- what is refused


def custom(x, z):
    return np.exp(-np.abs(x - z).sum())


MARGINAL = (
    r"dshap\.values\.Marginal\(model\.predict, background\).*dshap\.values\.ConditionalRegression"
)


@pytest.mark.parametrize("kernel", [*sorted(NAMED_REASONS), custom])
def test_kernels_that_are_no_product(kernel):
    rows = np.abs(X) if "chi2" in str(kernel) else X @ X.T if kernel == "precomputed" else X
    if kernel == "poly":
        model = fitted(SVR(kernel="poly", max_iter=100))
    else:
        model = fitted(KernelRidge(kernel=kernel, gamma=0.1, alpha=100.0), rows=rows)
    with pytest.raises(InputError, match=MARGINAL) as refused:
        from_sklearn(model)
    assert (repr(kernel) if isinstance(kernel, str) else "function") in str(refused.value)


def process(kernel):
    return GaussianProcessRegressor(kernel, alpha=1.0, optimizer=None)


@pytest.mark.parametrize("name", TREE_REASONS)
def test_trees_that_are_no_product(name):
    kernel = trees.CompoundKernel([RBF()]) if name == "CompoundKernel" else getattr(trees, name)()
    model = fitted(process(RBF()))
    model.kernel_ = RBF() + kernel
    with pytest.raises(InputError, match=f"{name} .*{MARGINAL}"):
        from_sklearn(model)


class MyRBF(RBF):
    pass


class MyRidge(KernelRidge):
    pass


@pytest.mark.parametrize(
    ("estimator", "target", "words"),
    [
        (
            process(Matern(nu=2.5)),
            Y,
            r"Matern\(nu=2.5\) of 3 columns takes the distance .* dshap\.kernels\.Matern",
        ),
        (process(Matern(nu=0.7)), Y, r"Matern\(nu=0.7\) is not a kernel family"),
        (process((RBF() + RBF(2.0)) ** 2), Y, "is not a positive power of one product"),
        (
            process(trees.PairwiseKernel(metric="cosine")),
            Y,
            "kernel 'cosine' of PairwiseKernel divides by norms",
        ),
        (
            process(trees.PairwiseKernel(metric="laplacian") * RBF()),
            Y,
            "the product of laplacian and rbf in column 0",
        ),
        (process(ConstantKernel(2.0) + WhiteKernel()), Y, "depends on no column"),
        (SVR(epsilon=100.0), Y, "depends on no column"),  # no support vectors
        (process(MyRBF()), Y, "MyRBF is a user-defined kernel"),
        (process(RBF() * DotProduct()), Y, "DotProduct is a sum over the columns"),
        (
            SVC(),
            FOUR,
            r"'ovr' of SVC with 4 classes counts votes .* set_params\(decision_function_shape='ovo'\)",
        ),
        (
            SVC(kernel="linear"),
            TWO,
            "kernel 'linear' of SVC is a sum over the columns.*LinearGaussian",
        ),
        (SVC(kernel="sigmoid"), TWO, "kernel 'sigmoid' of SVC is a tanh"),
        (SVR(kernel=RBF()), Y, "a callable kernel of SVR leaves no support vectors"),
        (SVR(gamma=0.0), Y, "gamma=0 of SVR makes the kernel constant"),
        (
            Ridge(),
            Y,
            "Ridge without a kernel feature map is a sum over the columns.*LinearGaussian",
        ),
        (
            make_pipeline(StandardScaler(), LogisticRegression()),
            TWO,
            "LogisticRegression without a kernel feature",
        ),
        (
            RandomForestRegressor(2),
            Y,
            f"RandomForestRegressor is not a kernel model .*KernelRidge.*{MARGINAL}",
        ),
        (
            GaussianProcessClassifier(optimizer=None),
            TWO,
            "GaussianProcessClassifier is not a kernel model",
        ),
        (MyRidge(), Y, "test_scikit_learn.MyRidge is not a kernel model"),
        (
            make_pipeline(PCA(2), KERNEL),
            Y,
            "the step PCA is neither a scaler .* adapt the steps after it",
        ),
        (make_pipeline(PowerTransformer(), KERNEL), Y, "the step PowerTransformer is neither"),
        (
            make_pipeline(PolynomialCountSketch(), Ridge()),
            Y,
            "the step PolynomialCountSketch is neither",
        ),
        (make_pipeline(FEATURES, PCA(2), Ridge()), Y, "PCA does not scale each column by itself"),
        (
            make_pipeline(FEATURES, KERNEL),
            Y,
            "KernelRidge of kernel features is not linear in them",
        ),
        (
            make_pipeline(FEATURES, PoissonRegressor()),
            Y - Y.min() + 1.0,
            "PoissonRegressor of kernel features is not linear",
        ),
        (
            make_pipeline(FeatureUnion([("x", "passthrough"), ("k", FEATURES)]), Ridge()),
            Y,
            "gives columns as they are, .* sum",
        ),
        (
            make_pipeline(MinMaxScaler(clip=True), KERNEL),
            Y,
            r"MinMaxScaler\(clip=True\) is not linear outside",
        ),
        (make_pipeline(FunctionTransformer(np.arctan), KERNEL), Y, "a user-defined function"),
        (
            TransformedTargetRegressor(KERNEL, func=np.sinh, inverse_func=np.arcsinh),
            Y,
            "a user-defined function",
        ),
        (
            TransformedTargetRegressor(KERNEL, transformer=PowerTransformer()),
            Y,
            "PowerTransformer does not scale each column",
        ),
        (
            GridSearchCV(KERNEL, {"gamma": [0.1]}, cv=2, refit=False),
            Y,
            r"refit=False\) contains no fitted model",
        ),
    ],
)
def test_what_cannot_be_reduced_is_refused_with_reasons(estimator, target, words):
    with pytest.raises(InputError, match=words):
        from_sklearn(fitted(estimator, target))


@pytest.mark.parametrize(
    "estimator",
    [
        *(model for model, _ in OF_MODELS.values()),
        *OF_WRAPPERS.values(),
        make_pipeline(StandardScaler(), KERNEL),
        make_pipeline(FEATURES, Ridge()),
        make_pipeline(WAVES, Ridge()),
    ],
)
def test_unfitted(estimator):
    with pytest.raises(InputError, match=r"is not fitted .*: fit it first"):
        from_sklearn(clone(estimator))


@pytest.mark.parametrize(
    "scaler", [own[0] for name, own in OF_SCALERS.items() if name.endswith("Scaler")]
)
def test_an_unfitted_scaler(scaler):
    with pytest.raises(InputError, match=f"{type(scaler).__name__} is not fitted"):
        from_sklearn(make_pipeline(clone(scaler), fitted(KERNEL)))
