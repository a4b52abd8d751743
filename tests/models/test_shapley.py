"""The Shapley regulariser: ζ against brute force, fits against their written problems, what it does
to attributions."""

import io
import pickle
import tracemalloc
import warnings
from functools import partial
from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

import dshap
from dshap import designs
from dshap.core.blocks import RowBlock
from dshap.core.errors import InputError
from dshap.core.records import Record
from dshap.core.threads import one_blas_thread
from dshap.core.types import Pass
from dshap.kernels import RBF, Categorical, Fourier, Laplacian, Nystrom, Product
from dshap.models import KernelLogistic, KernelRidge, ShapleyPenalty, mean_squared_attribution
from dshap.models.shapley import player_attributions

STRENGTHS = (0.0, 0.1, 1.0, 10.0, 100.0)
VALUES = ("interventional", "observational")


def make_table(n=300, d=4, seed=0):
    """Correlated columns, a target with products of two and of three of them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    x[:, 1] = 0.8 * x[:, 0] + 0.6 * x[:, 1]
    return x, x[:, 0] + np.sin(x[:, 1]) * x[:, 2] + x[:, 0] * x[:, 1] * x[:, -1] + 0.1 * rng.normal(
        size=n
    ) + 3.0


def brute_force(worth, d, player, shape):
    """Shapley value of a player in the game worth(coalition) -> array, over all coalitions."""
    others, total = [i for i in range(d) if i != player], np.zeros(shape)
    for size in range(d):
        for inside in map(list, combinations(others, size)):
            total += (worth([*inside, player]) - worth(inside)) / (d * comb(d - 1, size))
    return total


def factors_of(kernel, x, landmarks):
    """k_j(x_j, z_rj) (columns, n, r), written out by columns."""
    return np.stack([kernel.factor(j, x[:, j], landmarks[:, j]) for j in range(x.shape[1])])


def observational_terms(kernel, landmarks, data, x, penalty):
    """worth(S) (n, r): k_S(x, z) [k_S(x, X) (K_S + nλ)⁻¹ k_S̄(X, z)], the paper's n × n formula;
    ends as they are."""
    own, of_data = factors_of(kernel, x, landmarks), factors_of(kernel, data, landmarks)
    across, inner = factors_of(kernel, x, data), factors_of(kernel, data, data)
    d, n = len(own), len(data)

    def worth(inside):
        away = [j for j in range(d) if j not in inside]
        if not inside:
            return np.tile(of_data.prod(axis=0).mean(axis=0), (len(x), 1))
        if not away:
            return own.prod(axis=0)
        gram = inner[inside].prod(axis=0) + n * penalty * np.eye(n)
        conditional = across[inside].prod(axis=0) @ np.linalg.solve(
            gram, of_data[away].prod(axis=0)
        )
        return own[inside].prod(axis=0) * conditional

    return worth


def zeta_of(kernel, landmarks, data, x, penalty):
    """ζ (n, r) by the fast path: attributions of models whose weights are unit vectors."""
    unit = dshap.models.KernelExpansion(
        kernel, landmarks, np.eye(len(landmarks)), np.zeros(len(landmarks))
    )
    return player_attributions(unit, x, data, penalty)


@pytest.mark.parametrize("d", [1, 2, 5, 8])
@pytest.mark.parametrize("kernel", [RBF(1.3), Laplacian(2.0)])
def test_interventional_zeta_is_brute_force(d, kernel):
    rng = np.random.default_rng(d)
    x, background, landmarks = (
        rng.normal(size=(6, d)),
        rng.normal(size=(40, d)),
        rng.normal(size=(5, d)),
    )
    bound, player = kernel.bind(d), d // 2
    own, of_data = factors_of(bound, x, landmarks), factors_of(bound, background, landmarks)

    def worth(inside):
        away = [j for j in range(d) if j not in inside]
        return own[inside].prod(axis=0) * of_data[away].prod(axis=0).mean(axis=0)

    expected = brute_force(worth, d, player, (6, 5))
    found = zeta_of(bound, landmarks, background, x, ShapleyPenalty(player, 0.0))
    assert_allclose(found, expected, atol=1e-9)
    assert np.abs(expected).max() > 1e-3


@pytest.mark.parametrize("d", [2, 4, 8])
def test_observational_zeta_is_brute_force_of_the_n_by_n_formula(d):
    """Every row a landmark of the embedding: the paper's formula; rank_tolerance 1e-6 of a λ of
    1e-2."""
    rng = np.random.default_rng(d)
    data, x, landmarks = rng.normal(size=(60, d)), rng.normal(size=(5, d)), rng.normal(size=(4, d))
    bound, player, penalty = RBF(0.8).bind(d), d - 1, 1e-2
    asked = ShapleyPenalty(player, 0.0, "observational", Nystrom(landmarks=data), penalty)
    found = zeta_of(bound, landmarks, data, x, asked)
    expected = brute_force(
        observational_terms(bound, landmarks, data, x, penalty), d, player, (5, 4)
    )
    assert np.abs(expected).max() > 1e-3
    assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize("d", [3, 8])
def test_observational_zeta_is_brute_force_of_its_values(d):
    """The same landmarks on both sides, so rank and ridge are the same: 1e-9."""
    rng = np.random.default_rng(d)
    data, x, landmarks = (
        rng.normal(size=(200, d)),
        rng.normal(size=(5, d)),
        rng.normal(size=(12, d)),
    )
    bound, player = RBF(1.5).bind(d), 1
    asked = ShapleyPenalty(player, 0.0, "observational", Nystrom(landmarks=landmarks), 1e-3)
    unit = dshap.models.KernelExpansion(bound, landmarks, np.eye(12), np.zeros(12))
    value = dshap.values.KernelObservational(unit, data, Nystrom(landmarks=landmarks), 1e-3)
    design = designs.exact(d)
    masks = design.block(0, 1 << d).masks
    proper = masks[2:]
    values = value.evaluate(value.prepare(proper, value.moments(proper, data)), x)  # (n, m, 12)
    at = {tuple(np.flatnonzero(mask)): values[:, j] for j, mask in enumerate(proper)}
    at[()], at[tuple(range(d))] = np.tile(unit.predict(data).mean(axis=0), (5, 1)), unit.predict(x)
    expected = brute_force(lambda inside: at[tuple(sorted(inside))], d, player, (5, 12))
    assert_allclose(zeta_of(bound, landmarks, data, x, asked), expected, atol=1e-9)


@pytest.mark.parametrize("embedding", [Nystrom(30), Fourier(40)])
@pytest.mark.parametrize("value", VALUES)
def test_attributions_are_those_of_explain(embedding, value):
    """A group of two columns, all coalitions; two programs of one repository, which share moments
    and no more."""
    x, y = make_table(d=5)
    model = KernelRidge(RBF(1.5), embedding, 1e-3).fit(x, y)
    own = (
        embedding
        if isinstance(embedding, Fourier)
        else Nystrom(landmarks=model.expansion_.landmarks)
    )
    groups = {"x1 + x3": ["x1", "x3"]}
    if value == "interventional":
        explained = dshap.values.KernelInterventional(model, x, players=groups)
    else:
        explained = dshap.values.KernelObservational(model, x, own, 1e-3, players=groups)
    cube = dshap.explain(explained, x[:20], design=designs.exact(4))
    found = player_attributions(model, x[:20], x, ShapleyPenalty(["x1", 3], 0.0, value, own, 1e-3))
    assert_allclose(found, cube.attribution.sel(feature="x1 + x3").values, atol=1e-9)


def test_drawn_coalitions_come_near_to_all():
    """14 players: 4,096 drawn of 16,384; the error of a mean of 2,048 contributions."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 14))
    model = KernelRidge(RBF(4.0), Nystrom(30), 1e-3).fit(x, x[:, 0] * x[:, 3] + x[:, 5])
    drawn, whole = (
        player_attributions(model, x, x, ShapleyPenalty(0, 0.0, n_coalitions=m))
        for m in (None, 1 << 14)
    )
    assert 0 < np.abs(drawn - whole).max() < 0.05 * np.abs(whole).max()


@pytest.mark.parametrize("embedding", [Nystrom(30), Fourier(40)])
def test_validated_penalties_of_a_fitted_model_are_those_of_explain(embedding):
    """λ is chosen for the model itself; a fit, which has no weights yet, chooses for all basis
    functions alike."""
    x, y = make_table()
    model = KernelRidge(RBF(1.5), embedding, 1e-3).fit(x, y)
    same = (
        embedding
        if isinstance(embedding, Fourier)
        else Nystrom(landmarks=model.expansion_.landmarks)
    )
    cube = dshap.explain(
        dshap.values.KernelObservational(model, x, same), x[:20], design=designs.exact(4)
    )
    for player in range(4):
        found = player_attributions(model, x[:20], x, ShapleyPenalty(player, 0.0, "observational"))
        assert_allclose(found[:, 0], cube.attribution.values[:, player, 0], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("d", [8, 100, 300])
@pytest.mark.parametrize("value", VALUES)
def test_a_fit_takes_no_more_than_it_says(d, value):
    """Peak of numpy's arrays in the pass over a tile of coalitions and in that of ζᵀζ."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1_024, d))
    y = x[:, 0] + x[:, 1] ** 2
    model = KernelRidge(
        RBF(float(d)), Nystrom(64), 1e-3, shapley=ShapleyPenalty(0, 1.0, value, n_coalitions=32)
    )
    block = RowBlock(0, x, np.ones(len(x), dtype=bool), target=y)
    found, allowed = model.tuned(x, y, np.arange(len(x))), model.cost(len(x), d, 1)
    while isinstance(found, Pass):
        found.partial(block)  # compiled loops are loaded
        tracemalloc.start()
        total = found.partial(block)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= allowed.partial_bytes
        assert total.nbytes <= allowed.sum_bytes
        found = found.finish(total)
    assert found.report_.shapley.strength == 1.0


def test_columns_whose_names_are_numbers_go_by_position():
    x, y = make_table()
    table = pd.DataFrame(x, columns=[3, 2, 1, 0])
    model = KernelRidge(RBF(1.5), Nystrom(20), 1e-3, shapley=ShapleyPenalty(3, 1.0)).fit(table, y)
    assert model.report_.shapley.player == "0"
    assert (
        KernelRidge(RBF(1.5), Nystrom(20), 1e-3, shapley=ShapleyPenalty("3", 1.0))
        .fit(table, y)
        .report_.shapley.player
        == "3"
    )
    with pytest.raises(InputError, match="a whole number is a position, 0 to 3"):
        KernelRidge(RBF(1.5), Nystrom(20), 1e-3, shapley=ShapleyPenalty(-1, 1.0)).fit(table, y)


def test_parameters_of_a_penalty_are_set_with_it_or_alone():
    model = KernelRidge(RBF(1.5), Nystrom(20))
    model.set_params(shapley=ShapleyPenalty(0, 1.0), shapley__strength=3.0)
    assert model.shapley.strength == 3.0 == model.get_params()["shapley__strength"]
    for wrong in (
        {"shapley__strenght": 1.0},
        {"shapley": None, "shapley__strength": 1.0},
        {"shapley": 3},
    ):
        with pytest.raises(InputError):
            model.set_params(**wrong)
    assert model.fit_path(*make_table(), (each for each in (0.0, 1.0)))[1].shapley.strength == 1.0


def test_what_a_diagnosis_cannot_do_is_refused():
    x, y = make_table()
    one, other = (
        KernelRidge(RBF(scale), Nystrom(20), 1e-3).fit(x, y).expansion_ for scale in (1.0, 3.0)
    )
    found = mean_squared_attribution([one, other], x, x, ShapleyPenalty(0, 0.0))
    phi = sum(player_attributions(each, x, x, ShapleyPenalty(0, 0.0)) for each in (one, other))
    assert_allclose(found, np.square(phi).mean(axis=0))
    with pytest.raises(InputError, match="sum of models"):
        mean_squared_attribution([one, other], x, x, ShapleyPenalty(0, 0.0, "observational"))
    table = np.column_stack([np.arange(300) % 3, x[:, 0]]).astype(float)
    kernel = Product([Categorical(0.2), RBF(1.0)])
    strict = KernelRidge(kernel, Nystrom(20), 1e-3, unseen="refuse").fit(table, y)
    with pytest.raises(InputError, match="7"):
        mean_squared_attribution(strict, [[7.0, 0.0]], table, ShapleyPenalty(0, 0.0))


@pytest.mark.parametrize("value", VALUES)
def test_every_row_a_landmark_is_proposition_7(value):
    """a = (K² + nλK + λ_S/n·n ζᵀζ)⁻¹ K(y − c) of the written n × n problem, ζ by brute force: 1e-6
    of the largest.

    λ_S of the paper is strength · n; ζ here is (n rows, n basis functions).
    """
    rng = np.random.default_rng(1)
    n, d, penalty, strength, player = 50, 3, 1e-3, 0.7, 1
    x = rng.normal(size=(n, d))
    y = x[:, 0] - x[:, 1] * x[:, 2] + 1.0
    kernel = RBF(0.7).bind(d)
    gram = factors_of(kernel, x, x).prod(axis=0)
    own, embedding_penalty = factors_of(kernel, x, x), 0.05

    def interventional(inside):
        away = [j for j in range(d) if j not in inside]
        return own[inside].prod(axis=0) * own[away].prod(axis=0).mean(axis=0)

    worth = (
        interventional
        if value == "interventional"
        else observational_terms(kernel, x, x, x, embedding_penalty)
    )
    zeta = brute_force(worth, d, player, (n, n))
    system = gram @ gram + n * penalty * gram + strength * zeta.T @ zeta
    weights = np.linalg.solve(system, gram @ (y - y.mean()))
    embedding = Nystrom(landmarks=x)
    asked = ShapleyPenalty(
        player, strength, value, embedding, embedding_penalty, rank_tolerance=1e-13
    )
    model = KernelRidge(RBF(0.7), Nystrom(landmarks=x), penalty, shapley=asked).fit(x, y)
    found = model.expansion_
    order = [int(np.flatnonzero((x == z).all(axis=1))[0]) for z in found.landmarks]
    assert len(order) == n
    assert_allclose(found.weights[:, 0], weights[order], atol=1e-6 * np.abs(weights).max())
    assert_allclose(model.report_.shapley.train, [np.square(zeta @ weights).mean()], rtol=1e-6)


@pytest.mark.parametrize("embedding", [Nystrom(40), Fourier(60)])
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("kind", [KernelRidge, KernelLogistic])
def test_strength_0_is_the_plain_model_and_attributions_fall(embedding, value, kind):
    x, y = make_table()
    y = (y > np.median(y)).astype(float) if kind is KernelLogistic else y
    plain = kind(RBF(1.5), embedding, 1e-3).fit(x, y)
    models = kind(RBF(1.5), embedding, 1e-3, shapley=ShapleyPenalty("x0", 5.0, value)).fit_path(
        x, y, STRENGTHS
    )
    atol = 0.0 if kind is KernelRidge else 1e-7 * np.abs(plain.decision_function(x)).max()
    if kind is KernelRidge:
        np.testing.assert_array_equal(models[0].predict(x), plain.predict(x))
    else:
        assert_allclose(models[0].decision_function(x), plain.decision_function(x), atol=atol)
    size = np.array([model.report_.shapley.train[0] for model in models])
    assert (np.diff(size) < 0).all()
    assert size[-1] < 0.02 * size[0]
    assert [model.shapley.strength for model in models] == list(STRENGTHS)


def test_a_path_is_its_models_one_by_one():
    x, y = make_table()
    build = partial(KernelRidge, RBF(1.5), Nystrom(40), "validate", holdout=0.2)
    path = build(shapley=ShapleyPenalty(0, 0.0)).fit_path(x, y, STRENGTHS)
    for strength, model in zip(STRENGTHS, path, strict=True):
        alone = build(shapley=ShapleyPenalty(0, strength)).fit(x, y)
        np.testing.assert_array_equal(alone.predict(x), model.predict(x))
        np.testing.assert_array_equal(alone.r2_, model.r2_)
        assert alone.report_.shapley.held_out == model.report_.shapley.held_out


def test_what_is_reported_is_what_is_measured():
    """Training and held-out rows, against attributions of the fitted model by themselves."""
    x, y = make_table()
    for value in VALUES:
        asked = ShapleyPenalty("x1", 0.5, value, penalty=1e-3)
        model = KernelRidge(RBF(1.5), Nystrom(40), 1e-4, holdout=0.25, shapley=asked).fit(x, y)
        is_train = model.roles(np.arange(len(x))) < 2
        found = [
            mean_squared_attribution(model, x[rows], x[is_train], asked)
            for rows in (is_train, ~is_train)
        ]
        shown = model.report_.shapley
        assert_allclose(found, [shown.train, shown.held_out], rtol=1e-8)
        assert "x1" in str(model.report_)
        assert value in str(model.report_)


def test_several_outputs_are_penalised_together():
    x, y = make_table()
    both = np.column_stack([y, x[:, 1] - y**2 / 5])
    asked = ShapleyPenalty(0, 2.0)
    together = KernelRidge(RBF(1.5), Nystrom(40), 1e-3, shapley=asked).fit(x, both)
    for k in range(2):
        alone = KernelRidge(RBF(1.5), Nystrom(40), 1e-3, shapley=asked).fit(x, both[:, k])
        assert_allclose(together.predict(x)[:, k], alone.predict(x), atol=1e-9 * np.abs(both).max())
        assert_allclose(together.report_.shapley.train[k], alone.report_.shapley.train[0])


def written_logistic(model, x, codes, n_classes):
    """The objective's gradient at a fitted model, written out: mean loss, λ/2‖f‖², strength/2 mean
    φ²."""
    expansion, n = model.expansion_, len(x)
    z, a, c = expansion.landmarks, expansion.weights, expansion.intercept
    cross, own = expansion.kernel.matrix(x, z), expansion.kernel.matrix(z, z)
    zeta = zeta_of(expansion.kernel, z, x, x, model.shapley)
    logits = cross @ a + c
    if n_classes == 2:
        residual = (expit(logits[:, 0]) - codes)[:, None]
    else:
        chance = np.exp(logits - logits.max(axis=1, keepdims=True))
        residual = chance / chance.sum(axis=1, keepdims=True) - np.eye(n_classes)[codes]
    ridge = model.penalty_ * own @ a + model.shapley.strength * zeta.T @ (zeta @ a) / n
    return (
        cross.T @ residual / n + ridge,
        residual.mean(axis=0),
        np.abs(cross.T @ np.abs(residual)).max() / n,
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("value", VALUES)
def test_the_gradient_of_the_logistic_objective_is_zero(n_classes, value):
    x, y = make_table(n=400)
    codes = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    asked = ShapleyPenalty("x2", 3.0, value, penalty=1e-3)
    model = KernelLogistic(RBF(1.5), Nystrom(20), 1e-3, shapley=asked, tol=1e-14).fit(x, codes)
    weights, intercepts, scale = written_logistic(model, x, codes, n_classes)
    assert model.report_.convergence.is_converged
    assert np.abs(weights).max() < 1e-7 * scale
    assert np.abs(intercepts).max() < 1e-7
    plain = KernelLogistic(RBF(1.5), Nystrom(20), 1e-3, tol=1e-14).fit(x, codes)
    plain.set_params(shapley=asked)
    # the check can fail
    assert np.abs(written_logistic(plain, x, codes, n_classes)[0]).max() > 1e-4 * scale


def test_any_cutting_of_the_rows_gives_the_same_bits():
    x, y = make_table(n=500)
    for value in VALUES:
        build = partial(
            KernelRidge, RBF(1.5), Nystrom(30), 1e-3, shapley=ShapleyPenalty(0, 1.0, value)
        )
        whole = build().fit(x, y)
        parts = build().fit([(x[:7], y[:7]), (x[7:300], y[7:300]), (x[300:], y[300:])])
        np.testing.assert_array_equal(whole.expansion_.weights, parts.expansion_.weights)


@pytest.mark.cluster
@pytest.mark.parametrize("kind", [KernelRidge, KernelLogistic])
def test_a_cluster_fits_the_same_bits(kind, tmp_path, client):
    """`dshap.fit` and `dshap.fit_path` of a file."""
    x, y = make_table()
    table = pd.DataFrame(x, columns=list("abcd")).assign(
        y=(y > 3.0).astype(int) if kind is KernelLogistic else y
    )
    table.to_parquet(tmp_path / "t.parquet")
    model = kind(
        RBF(1.5), Nystrom(30), 1e-3, holdout=0.2, shapley=ShapleyPenalty("b", 1.0, "observational")
    )
    local = model.fit(table[list("abcd")], table["y"])
    apart = dshap.fit(model, tmp_path / "t.parquet", "y", client=client)
    np.testing.assert_array_equal(local.expansion_.weights, apart.expansion_.weights)
    assert apart.report_.shapley.player == "b"
    path = dshap.fit_path(model, tmp_path / "t.parquet", "y", [0.5, 1.0], client=client)
    np.testing.assert_array_equal(path[1].report_.shapley.strength, 1.0)
    if kind is KernelRidge:
        np.testing.assert_array_equal(path[1].expansion_.weights, local.expansion_.weights)
    assert [each.report_.held_out.keys() for each in path] == [local.report_.held_out.keys()] * 2


def test_categorical_columns_have_a_penalty_too():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"city": rng.integers(0, 4, 300), "age": rng.normal(size=300)})
    y = (table["city"] == 2) + table["age"]
    kernel = Product({"city": Categorical(0.2), "age": RBF(1.0)})
    for value in VALUES:
        path = KernelRidge(
            kernel, Nystrom(30), 1e-4, shapley=ShapleyPenalty("city", 0.0, value)
        ).fit_path(table, y, [0.0, 100.0])
        small, large = (model.report_.shapley.train[0] for model in path)
        assert large < 1e-2 * small


def test_more_coalitions_than_a_pass_holds_take_several(monkeypatch):
    x, y = make_table()
    build = partial(KernelRidge, RBF(1.5), Nystrom(30), 1e-3)
    asked = ShapleyPenalty(0, 1.0, "observational", penalty=1e-3)
    whole = build(shapley=asked).fit(x, y)
    monkeypatch.setattr("dshap.models.cost.TILE_BYTES", 3 * (16 * 30**2 + 8))
    model = build(shapley=asked)
    assert model.passes(4) == 1 + 6 + 1  # 16 coalitions by threes, ζᵀζ, the fit
    with one_blas_thread():  # as an executor has: the same bits on any number of cores
        model.fit(x, y)
    assert_allclose(model.expansion_.weights, whole.expansion_.weights, rtol=1e-9)
    apart = dshap.fit(model, x, y)  # by the executor, which is sent one tile at a time
    np.testing.assert_array_equal(apart.expansion_.weights, model.expansion_.weights)


def test_records_pickles_and_clones_keep_the_penalty():
    x, y = make_table()
    model = KernelRidge(
        RBF(1.5), Nystrom(20), 1e-3, holdout=0.2, shapley=ShapleyPenalty("x0", 1.0)
    ).fit(x, y)
    stored = Record.load(io.BytesIO(model.to_record().to_bytes()))
    again = KernelRidge(
        RBF(1.5), Nystrom(20), 1e-3, holdout=0.2, shapley=ShapleyPenalty("x0", 1.0)
    ).restored(stored)
    assert str(again.report_.shapley) == str(model.report_.shapley)
    assert pickle.loads(pickle.dumps(model)).shapley == model.shapley == clone(model).shapley
    search = GridSearchCV(KernelRidge(RBF(1.5), Nystrom(20), 1e-3, shapley=ShapleyPenalty("x0", 1.0)),
                          {"shapley__strength": [0.0, 100.0]}, cv=2).fit(x, y)  # fmt: skip
    assert search.best_params_ == {"shapley__strength": 0.0}
    assert search.best_estimator_.shapley.strength == 0.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"player": "x9"}, "unknown player 'x9'"),
        ({"player": 4}, "player 4 is not a column: a whole number is a position, 0 to 3"),
        ({"player": True}, "a column's name or position"),
        ({"n_coalitions": 2**30}, "n_coalitions is 1073741824"),
        ({"player": ["x0", "x0"]}, "names a column twice"),
        ({"player": []}, "a column's name or position"),
        ({"player": 1.5}, "a column's name or position"),
        ({"strength": -1.0}, "strength is -1.0: give a number of at least 0"),
        ({"strength": np.nan}, "strength is nan"),
        ({"value": "marginal"}, "unknown value 'marginal'"),
        ({"penalty": -1.0}, "penalty is -1.0"),
        ({"n_coalitions": 3}, "n_coalitions is 3"),
        ({"embedding": 20}, "embedding is 20"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_bad_penalties_are_refused(options, words):
    x, y = make_table()
    with pytest.raises(InputError, match=words):
        KernelRidge(
            RBF(1.5),
            Nystrom(20),
            shapley=ShapleyPenalty(**{"player": 0, "strength": 1.0, **options}),
        ).fit(x, y)


def test_bad_paths_are_refused():
    x, y = make_table()
    model = KernelRidge(RBF(1.5), Nystrom(20), shapley=ShapleyPenalty(0, 1.0))
    with pytest.raises(InputError, match="strength is -1"):
        model.fit_path(x, y, [0.0, -1.0])
    with pytest.raises(InputError, match="strengths is"):
        model.fit_path(x, y, [])
    with pytest.raises(InputError, match="give the model shapley="):
        KernelRidge(RBF(1.5), Nystrom(20)).fit_path(x, y, [0.0])
    with pytest.raises(InputError, match=r"ShapleyPenalty\(player, strength\)"):
        KernelRidge(shapley="x0")
    with pytest.raises(InputError, match="NaN or infinity"):
        mean_squared_attribution(
            model.fit(x, y), np.full((2, 4), np.nan), x, ShapleyPenalty(0, 1.0)
        )


def test_a_label_that_is_no_class_is_refused():
    x, _ = make_table()
    with pytest.raises(InputError, match="more than 256 distinct values"):
        KernelLogistic(RBF(1.5), Nystrom(20), shapley=ShapleyPenalty(0, 1.0)).fit(
            x, np.arange(300) / 7
        )


def test_a_system_that_cannot_be_solved_says_so():
    x, y = make_table()
    flat = np.repeat(x[:40], 2, axis=0)
    with pytest.raises(InputError, match="too small for the"):
        KernelRidge(RBF(50.0), Nystrom(40), penalty=0.0, shapley=ShapleyPenalty(0, 1e9)).fit(
            flat, y[:80]
        )


OTHERWISE = {
    "check_estimators_unfitted": "an AttributeError that says to fit, not scikit-learn's own class",
    "check_do_not_raise_errors_in_init_or_set_params": "options are checked where they are given",
    "check_set_params": "options are checked where they are given",
    "check_parameters_default_constructible": "a kernel of None becomes the default one",
    "check_n_features_in_after_fitting": "another wording",
    "check_dtype_object": "text and objects are refused with another class of error",
    "check_estimators_empty_data_messages": "another wording",
    "check_estimators_nan_inf": "predictions of rows with NaN are NaN",
    "check_fit2d_1sample": "another wording",
    "check_fit2d_predict1d": "another wording",
    "check_requires_y_none": "another wording",
    "check_regressors_train": "five landmarks are not enough for its score",
    "check_classifiers_regression_target": "numbers are labels too",
    "check_supervised_y_2d": "a column of targets is an output of its own, without a warning",
    "check_non_transformer_estimators_n_iter": "the report counts the passes",
}
"""Checks of scikit-learn that kernel models do not pass, with or without a penalty, and why."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", [KernelRidge, KernelLogistic])
def test_penalised_models_are_estimators_of_scikit_learn(kind):
    """Its other checks, some forty, pass."""
    model = kind(RBF("median"), Nystrom(5), 1e-2, shapley=ShapleyPenalty(0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(model, expected_failed_checks=OTHERWISE, on_fail=None, on_skip=None)
    assert [each["check_name"] for each in found if each["status"] == "failed"] == []
    assert sum(each["status"] == "passed" for each in found) >= 35


@pytest.mark.slow
@pytest.mark.parametrize(("value", "border"), [("interventional", 12), ("observational", 8)])
@pytest.mark.parametrize("more", [None, -1, 0, 1, 64, 100, 300])
def test_defaults_hold_on_both_sides_of_the_border_and_far_from_it(value, border, more):
    """All coalitions up to so many players, drawn ones beyond; 1 player; a background of 1 row."""
    d = 1 if more is None else border + more if abs(more) <= 1 else more
    x = np.random.default_rng(0).normal(size=(150, d))
    model = KernelRidge(RBF(2.0 * d**0.5), Nystrom(20), 1e-3, shapley=ShapleyPenalty(0, 0.0, value))
    path = model.fit_path(x, 3.0 * x[:, 0] + np.sin(x[:, -1]), [0.0, 1.0, 100.0])
    size = [each.report_.shapley.train[0] for each in path]
    assert size[0] > size[1] > size[2] > 0.0
    assert (path[0].report_.shapley.n_coalitions == 1 << d) == (d <= border)
    alone = player_attributions(path[0], x[:3], x[:1], ShapleyPenalty(0, 0.0, value, penalty=1e-3))
    assert alone.shape == (3, 1)
    assert np.isfinite(alone).all()
