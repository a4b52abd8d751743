"""Value functions against their definitions, an outside program, and each other."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dshap
from dshap import designs
from dshap.core.capabilities import LearnsFromData, sample_size
from dshap.core.errors import InputError, PredictError
from dshap.kernels import RBF, Categorical, Fourier, Laplacian, Nystrom, Product
from dshap.kernels.ridge import PENALTIES
from dshap.loops import member_sums
from dshap.models import FourierExpansion, KernelExpansion
from dshap.values import (
    ConditionalRegression,
    KernelInterventional,
    KernelObservational,
    Marginal,
)
from tests.values import oracles

D = 5


def proper_masks(d: int = D) -> np.ndarray:
    return designs.exact(d).block(2, 2**d).masks


def values_of(value, masks, rows, data, cuts=3):
    """evaluate(prepare(moments)) with the moments summed over uneven parts of the data."""
    if not isinstance(value, LearnsFromData):
        return value.evaluate(value.prepare(masks), rows)
    parts = np.array_split(data, cuts)
    total = value.moments(masks, parts[0])
    for part in parts[1:]:
        total = total + value.moments(masks, part)
    return value.evaluate(value.prepare(masks, total), rows)


@pytest.fixture
def smooth(rng):
    """An RBF model of four columns and one output, landmarks among 400 rows."""
    data = rng.normal(size=(400, 4))
    kernel = RBF("median").bind(4, data)
    return KernelExpansion(kernel, data[:30], rng.normal(size=(30, 1)), np.array([2.0])), data


def test_interventional_is_the_mean_over_the_background(expansion, table):
    masks, rows = proper_masks(), table[:4]
    got = values_of(KernelInterventional(expansion, table), masks, rows, table)
    for mask, values in zip(masks, got.swapaxes(0, 1), strict=True):
        assert_allclose(
            values, oracles.interventional(expansion, rows, table, np.flatnonzero(mask)), atol=1e-11
        )


def test_interventional_equals_marginal_on_the_same_model(expansion, table):
    """To 1e-8 in float64; both are means of the same 300 numbers, so rounding is all there is."""
    masks, rows = proper_masks(), table[:20]
    fused = values_of(KernelInterventional(expansion, table), masks, rows, table)
    called = values_of(Marginal(expansion.predict, table, buffer_rows=1000), masks, rows, table)
    assert_allclose(fused, called, rtol=0, atol=1e-10)


@pytest.mark.parametrize("players", [None, {"pair": ["x1", "x3"]}, {"a": [0, 4], "b": [1, 2]}])
def test_shapley_values_equal_brute_force(expansion, table, players):
    """The whole sum, groups of columns included, against the definition over marginal
    contributions."""
    rows, background = table[:3], table[:40]
    value = KernelInterventional(expansion, background, players=players)
    d = value.n_players
    design = designs.exact(d)
    masks = design.masks
    v = np.empty((len(rows), len(masks), 2))
    v[:, 2:] = values_of(value, masks[2:], rows, background)
    v[:, 0], v[:, 1] = value.model(background).mean(axis=0), value.model(rows)
    phi = np.einsum("md,nmk->ndk", design.operator, v)
    members = [np.flatnonzero(own) for own in value.players.members]

    def worth(coalition):
        columns = [c for player in coalition for c in members[player]]
        return oracles.interventional(expansion, rows, background, columns)

    assert_allclose(phi.swapaxes(0, 1), oracles.shapley(worth, d), atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("players", "is_constant"), [(None, False), (None, True), ({"pair": [1, 6]}, False)]
)
def test_rows_that_share_values_through_the_engine(rng, players, is_constant, monkeypatch):
    """Sums over background and rows take the shorter way, predictions come with them; `Marginal`
    calls the model."""
    predicted = []
    predict = KernelExpansion.predict
    monkeypatch.setattr(
        KernelExpansion, "predict", lambda own, x: (predicted.append(len(x)), predict(own, x))[1]
    )
    called = []
    for module, name in ((member_sums, "shared_subset_sums"), (member_sums, "shared_member_sums")):
        own = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *args, own=own: (called.append(own), own(*args))[1]
        )
    table = np.stack([rng.integers(0, 2 + j % 3, 700) * 0.7 + j for j in range(7)], axis=1)
    table[:, 3] = 1.5 if is_constant else table[:, 3]
    kernel = Product(
        [*(RBF(1.0 + 0.2 * j) for j in range(5)), Categorical(0.3), Laplacian(2.0)]
    ).bind(7)
    model = KernelExpansion(
        kernel, table[:90] + 0.1 * rng.normal(size=(90, 7)), rng.normal(size=(90, 2)), [1.0, -2.0]
    )
    rows = table[rng.permutation(700)[:200]]
    cube = dshap.explain(KernelInterventional(model, table, players=players), rows, design="exact")
    assert [own.__name__ for own in called] == ["shared_subset_sums", "shared_member_sums"]
    assert len(rows) not in predicted
    few, called_model = rows[::10], Marginal(model.predict, table, players=players)
    wanted = dshap.explain(called_model, few, design="exact")
    assert_allclose(cube.attribution[::10], wanted.attribution, atol=1e-11)
    assert_allclose(cube.prediction, model.predict(rows), atol=1e-11)


@pytest.mark.slow
def test_regressions_of_rows_that_share_values(rng, monkeypatch):
    """The features' products are summed by the shorter way: as without it, and predictions are the
    model's own."""
    table = np.stack([rng.integers(0, 2 + j % 3, 600) * 0.7 + j for j in range(6)], axis=1)

    def predict(x):
        return np.stack([np.sin(x.sum(axis=1)), x[:, 0] * x[:, 4]], axis=1)

    def explained():
        value = ConditionalRegression(predict, table, RBF(2.0), Nystrom(40), 1e-3)
        return dshap.explain(value, table[:300], design="exact")

    shared = explained()
    called = []
    monkeypatch.setattr(member_sums, "is_worth_sharing", lambda *_: called.append(1))
    plain = explained()
    assert called
    assert_allclose(shared.attribution, plain.attribution, atol=1e-11)
    assert_allclose(shared.prediction, predict(table[:300]), atol=1e-15)


def test_one_background_row_is_a_plug_in_reference(rng):
    reference = rng.normal(size=(1, 3))
    value = Marginal(lambda x: x[:, 0] * x[:, 1] + x[:, 2], reference)
    row = rng.normal(size=(1, 3))
    masks = np.array([[True, False, False], [False, True, True]])
    expected = [
        row[0, 0] * reference[0, 1] + reference[0, 2],
        reference[0, 0] * row[0, 1] + row[0, 2],
    ]
    assert_allclose(value.evaluate(value.prepare(masks), row)[0, :, 0], expected)


@pytest.mark.parametrize("buffer_rows", [1, 7, 40, 1000])
def test_marginal_does_not_depend_on_its_buffer(expansion, table, buffer_rows):
    masks = proper_masks()[:6]
    whole = values_of(Marginal(expansion.predict, table[:40]), masks, table[:5], table)
    cut = values_of(
        Marginal(expansion.predict, table[:40], buffer_rows=buffer_rows), masks, table[:5], table
    )
    assert_allclose(cut, whole, atol=1e-12)


@pytest.mark.slow
def test_observational_is_the_dense_formula(smooth):
    """Every row a landmark = Proposition 3 with n×n matrices, 1e-6 relative, n = 200, λ = 1e-3."""
    model, data = smooth[0], smooth[1][:200]
    masks, rows = proper_masks(4), np.vstack([data[:3], data[:2] + 0.5])
    value = KernelObservational(
        model, data, Nystrom(landmarks=data), penalty=1e-3, rank_tolerance=1e-12
    )
    got = values_of(value, masks, rows, data, cuts=1)
    for mask, values in zip(masks, got.swapaxes(0, 1), strict=True):
        dense = oracles.observational(model, rows, data, np.flatnonzero(mask), 1e-3)
        assert np.abs(values - dense).max() <= 1e-6 * np.abs(dense).max()


@pytest.mark.slow
def test_observational_with_every_family_and_two_outputs(expansion, table):
    data = table[:120]
    masks, rows = proper_masks(), table[100:104]
    value = KernelObservational(
        expansion, data, Nystrom(landmarks=data), penalty=1e-2, rank_tolerance=1e-12
    )
    got = values_of(value, masks, rows, data, cuts=2)
    for mask, values in zip(masks, got.swapaxes(0, 1), strict=True):
        dense = oracles.observational(expansion, rows, data, np.flatnonzero(mask), 1e-2)
        assert_allclose(values, dense, rtol=0, atol=1e-6 * np.abs(dense).max())


def test_centred_values_are_the_dense_formula(rng):
    """Features and targets both less their means; 1e-8 leaves room for the rank tolerance (seen:
    2e-10)."""
    model, data, rows = several_outputs(rng), rng.normal(size=(80, 4)), rng.normal(size=(5, 4))
    value = KernelObservational(
        model, data, Nystrom(landmarks=data), 1e-2, rank_tolerance=1e-12, centred=True
    )
    masks = proper_masks(4)
    got = values_of(value, masks, rows, data)
    for mask, values in zip(masks, got.swapaxes(0, 1), strict=True):
        dense = oracles.observational(model, rows, data, np.flatnonzero(mask), 1e-2, centred=True)
        assert_allclose(values, dense, rtol=0, atol=1e-8)


@pytest.mark.parametrize("lengthscale", [0.7, 1.5])
def test_an_embedding_with_the_landmarks_of_the_model_has_a_kernel_of_its_own(rng, lengthscale):
    """Every row a landmark of both: products are the model's where the length-scale 1.5 is, too,
    else its own.

    1e-7 leaves room for the rank tolerance (seen: 5e-9).
    """
    data, rows = rng.normal(size=(60, 4)), rng.normal(size=(5, 4))
    model = KernelExpansion(RBF(1.5).bind(4), data, rng.normal(size=(60, 2)), rng.normal(size=2))
    kernel = RBF(lengthscale).bind(4)
    embedding = Nystrom(landmarks=model.landmarks)
    value = KernelObservational(model, data, embedding, 1e-2, rank_tolerance=1e-14, kernel=kernel)
    own = KernelExpansion(kernel, data, model.weights, model.intercept)
    masks = proper_masks(4)
    got = values_of(value, masks, rows, data)
    for mask, values in zip(masks, got.swapaxes(0, 1), strict=True):
        dense = oracles.observational(model, rows, data, np.flatnonzero(mask), 1e-2, own=own)
        assert_allclose(values, dense, rtol=0, atol=1e-7)


@pytest.mark.parametrize("players", [None, {"pair": [0, 2]}, {"pair": [0, 3]}])
def test_observational_players_are_groups_and_constant_columns_keep_their_factor(rng, players):
    """Column 2 is 0.4 in every row, and varies over the landmarks of the model: no player, absent
    from all coalitions.

    In a group with column 0 it is present with it.  1e-8 leaves room for the rank tolerance (seen:
    4e-13).
    """
    model, data = several_outputs(rng), rng.normal(size=(60, 4))
    data[:, 2] = 0.4
    rows = data[:5]
    value = KernelObservational(
        model, data, Nystrom(landmarks=data), 1e-2, rank_tolerance=1e-12, players=players
    )
    varying = value.players.members[:, [0, 1, 3]].any(axis=1)
    members = [np.flatnonzero(own) for own in value.players.members[varying]]

    def worth(coalition):
        if not coalition:
            return np.broadcast_to(model.predict(data).mean(axis=0), (5, 2))
        columns = [column for player in coalition for column in members[player]]
        is_whole = len(coalition) == len(members)
        return (
            model.predict(rows)
            if is_whole
            else oracles.observational(model, rows, data, columns, 1e-2)
        )

    attribution = dshap.explain(value, rows, design="exact").attribution.values
    assert_allclose(
        attribution[:, varying].swapaxes(0, 1),
        oracles.shapley(worth, len(members)),
        rtol=0,
        atol=1e-8,
    )
    assert (attribution[:, ~varying] == 0).all()


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("centred", [False, True])
def test_the_penalty_of_the_embedding_is_validated_by_default(rng, is_shared, centred):
    """Coalition by coalition, two outputs: f(x_S, X_S̄) at the eight landmarks kept first is fitted
    on Φ_S(X), the error by residuals and hat matrices of all rows; then the values are those of
    that penalty.  Column 0 is binary."""
    data, rows = rng.normal(size=(300, 4)), rng.normal(size=(9, 4))
    data[:, 0], data[:, 1] = rng.integers(0, 2, 300), data[:, 1] + data[:, 2]
    model = KernelExpansion(
        RBF(1.5).bind(4), data[:40], rng.normal(size=(40, 2)) * [1.0, 30.0], np.array([1.0, -2.0])
    )
    kernel, z = RBF(1.5 if is_shared else 1.0).bind(4), data[: 40 if is_shared else 25]
    value = KernelObservational(model, data, Nystrom(landmarks=z), kernel=kernel, centred=centred)
    assert value.penalty == "validate"
    masks = proper_masks(4)
    moments = value.moments(masks, data)
    state = value.prepare(masks, moments)
    assert moments.nbytes <= value.cost(14).moment_bytes
    assert state.nbytes <= value.cost(14).state_bytes
    values = value.evaluate(state, rows)
    for j, present in enumerate(masks):
        inside, outside = np.flatnonzero(present).tolist(), np.flatnonzero(~present).tolist()
        phi, kept = oracles.whitened(kernel, z, data, inside, 1e-6)
        there, absent = (
            model.kernel.matrix(z[kept[:4]], data[:40], inside),
            model.kernel.matrix(data, data[:40], outside),
        )
        g = np.einsum("jr,ir,rk->ijk", there, absent, model.coefficients)  # (n, points, k)
        if centred:
            g, phi = g - g.mean(axis=0), phi - phi.mean(axis=0)
        g = (g / np.sqrt(np.square(g).sum(axis=(0, 1)))).reshape(len(data), -1)
        penalty, error = oracles.validated(phi, g, PENALTIES, 1.0)
        assert state["penalty"][j] == penalty
        assert state["error"][j] == pytest.approx(error, rel=1e-6)
        given = KernelObservational(
            model, data, Nystrom(landmarks=z), penalty, kernel=kernel, centred=centred
        )
        mask = masks[j : j + 1]
        assert_allclose(
            values[:, [j]],
            given.evaluate(given.prepare(mask, given.moments(mask, data)), rows),
            atol=1e-9,
        )
    assert len(set(state["penalty"].tolist())) > 3


@pytest.mark.slow
@pytest.mark.parametrize("embedding", [Nystrom(12), Fourier(24)])
def test_penalties_are_validated_for_any_pair_of_features(rng, embedding):
    """Models of landmarks and of frequencies, with interventional values beside: additive, sums of
    parts alike."""
    data, masks = rng.normal(size=(200, 3)), proper_masks(3)
    kernel = RBF(1.5).bind(3)
    frequencies = Fourier(20).anchors(data, kernel)
    for model in (
        KernelExpansion(kernel, data[:9], rng.normal(size=(9, 1)), np.ones(1)),
        FourierExpansion(frequencies, rng.uniform(size=10), rng.normal(size=(10, 1)), np.ones(1)),
    ):
        value = KernelObservational(
            model, data, embedding, kernel=RBF(1.0), with_interventional=True
        )
        value = value.chosen(value.choose(data)) if sample_size(value) else value
        whole, halves = (
            value.moments(masks, data),
            value.moments(masks, data[:77]) + value.moments(masks, data[77:]),
        )
        assert whole.nbytes <= value.cost(6).moment_bytes
        for name, array in whole.arrays.items():
            assert_allclose(halves[name], array, rtol=1e-10, atol=1e-9)
        state = value.prepare(masks, whole)
        assert state.nbytes <= value.cost(6).state_bytes
        assert (state["penalty"] > 0).all()
        assert (state["error"] < 1.0).all()
        cube = dshap.explain(value, data[:5])
        assert_allclose(
            cube.attribution.sum("feature") + cube.base_value, cube.prediction, atol=1e-10
        )


def test_the_ridge_is_lambda_times_n(smooth):
    """Twice the same data is the same distribution: with λn the values stay, with λ alone they
    would move."""
    model, data = smooth
    masks = proper_masks(4)[:6]
    value = KernelObservational(model, data, Nystrom(landmarks=data[:60]), penalty=1e-2)
    once = values_of(value, masks, data[:4], data)
    twice = values_of(value, masks, data[:4], np.vstack([data, data]))
    assert_allclose(once, twice, rtol=1e-8)


def test_far_from_the_data_the_embedding_gives_the_intercept(smooth):
    model, data = smooth
    value = KernelObservational(model, data, Nystrom(landmarks=data[:60]), penalty=1e-3)
    far = np.full((1, 4), 1e3)
    assert_allclose(values_of(value, proper_masks(4), far, data), 2.0)


def test_rank_is_part_of_the_estimator(rng):
    """One coalition of a binary column keeps two landmarks, whatever their number."""
    data = np.column_stack([rng.integers(0, 2, 200), rng.normal(size=200)]).astype(float)
    model = KernelExpansion(RBF(1.0).bind(2), data[:10], rng.normal(size=(10, 1)), np.zeros(1))
    value = KernelObservational(model, data, Nystrom(landmarks=data[:50]), penalty=1e-3)
    masks = np.array([[True, False]])
    assert value.prepare(masks, value.moments(masks, data))["rank"].tolist() == [2]


def test_landmarks_are_chosen_by_seed(smooth):
    model, data = smooth
    value = KernelObservational(model, data, Nystrom(20, seed=3), penalty=1e-3)
    with pytest.raises(InputError, match="not chosen yet"):
        value.moments(proper_masks(4), data)
    first, again = (value.choose(data)["anchors"] for _ in range(2))
    assert (first == again).all()
    assert value.sample_size
    assert value.chosen(value.choose(data)).sample_size == 0
    other = KernelObservational(model, data, Nystrom(20, seed=4), penalty=1e-3)
    assert (other.choose(data)["anchors"] != first).any()


def test_shap_gives_the_same_values(expansion, table):
    """shap.KernelExplainer with all 2^5 coalitions on the same background, 1e-6 (shap 0.51)."""
    shap = pytest.importorskip("shap", reason="shap is not installed")
    background, rows = table[:60], table[60:64]
    explainer = shap.KernelExplainer(lambda x: expansion.predict(x)[:, 0], background)
    theirs = explainer.shap_values(rows, nsamples=2**D, l1_reg=False, silent=True)  # (n, d)
    value = KernelInterventional(expansion, background)
    design = designs.exact(D)
    v = np.empty((len(rows), 2**D, 2))
    v[:, 2:] = values_of(value, design.masks[2:], rows, background)
    v[:, 0], v[:, 1] = value.model(background).mean(axis=0), value.model(rows)
    ours = np.einsum("md,nmk->ndk", design.operator, v)[..., 0]
    assert_allclose(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (lambda x: x[:-1, 0], r"gave shape \(59,\) for 60 rows: it must give \(60,\) or \(60, k\)"),
        (lambda x: np.zeros((1, 2, 3)), "gave shape"),
        (lambda x: ["a"] * len(x), "gave list of 'a', not numbers"),
        (lambda x: 1 / 0, "failed: ZeroDivisionError"),
    ],
)
def test_a_bad_predict_function_is_told_at_once(table, predict, message):
    with pytest.raises(PredictError, match=message):
        Marginal(predict, table[:60])


def test_bad_options(expansion, table):
    with pytest.raises(InputError, match="penalty is 0"):
        KernelObservational(expansion, table, Nystrom(5), penalty=0.0)
    with pytest.raises(InputError, match="rank_tolerance is 2"):
        KernelObservational(expansion, table, Nystrom(5), penalty=1e-3, rank_tolerance=2)
    with pytest.raises(InputError, match="at least one row"):
        Marginal(expansion.predict, np.empty((0, 5)))
    with pytest.raises(InputError, match="contains no product-kernel expansion"):
        KernelInterventional(lambda x: x, table)
    with pytest.raises(InputError, match="'x9'"):
        KernelInterventional(expansion, table, players={"p": ["x9"]})
    with pytest.raises(InputError, match="belongs to the players"):
        KernelInterventional(expansion, table, players={"p": ["x1"], "q": ["x1"]})
    for nothing in ([], np.array([], dtype=int)):
        with pytest.raises(InputError, match="contains no column"):
            KernelInterventional(expansion, table, players={"p": nothing})
    with pytest.raises(
        InputError, match=r"player 'p' is 'x0': give a list of columns, such as \['x0'\]"
    ):
        KernelInterventional(expansion, table, players={"p": "x0"})
    with pytest.raises(InputError, match="give names, such as"):
        KernelInterventional(expansion, table, players=[["x0", "x1"]])
    with pytest.raises(InputError, match="penalty is 'auto': give a number above 0, or 'validate'"):
        KernelObservational(expansion, table, Nystrom(5), penalty="auto")
    by_array = KernelInterventional(expansion, table, players={"p": np.array([0, 1])})
    assert by_array.players.names == ("p", "x2", "x3", "x4")


@pytest.mark.slow
@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("centred", [True, False])
def test_both_kinds_of_values_in_one_pass(rng, is_shared, centred):
    model, data, rows = several_outputs(rng), rng.normal(size=(300, 4)), rng.normal(size=(9, 4))
    embedding = Nystrom(landmarks=model.landmarks) if is_shared else Nystrom(landmarks=data[:30])
    apart = KernelObservational(model, data, embedding, 1e-2, centred=centred)
    both = KernelObservational(
        model, data, embedding, 1e-2, centred=centred, with_interventional=True
    )
    interventional = KernelInterventional(model, data)
    cube = dshap.explain(both, rows)
    assert cube.output.values.tolist() == [
        f"{kind} output{k}" for kind in ("observational", "interventional") for k in (0, 1)
    ]
    assert_allclose(cube.attribution[..., :2], dshap.explain(apart, rows).attribution, atol=1e-12)
    assert_allclose(
        cube.attribution[..., 2:], dshap.explain(interventional, rows).attribution, atol=1e-12
    )


@pytest.mark.parametrize("options", [{}, {"centred": True}, {"with_interventional": True}])
def test_the_quadratic_form_of_one_output_is_its_column_of_two(rng, options):
    """One output on shared landmarks is a folded quadratic form, two are not; some coalitions keep
    few landmarks."""
    data, rows = rng.normal(size=(300, 4)), rng.normal(size=(9, 4))
    data[:, 0], data[:, 1] = rng.integers(0, 3, 300), rng.integers(0, 4, 300)
    two = KernelExpansion(RBF(1.5).bind(4), data[:40], rng.normal(size=(40, 2)), rng.normal(size=2))
    one = KernelExpansion(two.kernel, two.landmarks, two.weights[:, :1], two.intercept[:1])
    wide, narrow = (
        KernelObservational(model, data, Nystrom(landmarks=two.landmarks), 1e-2, **options)
        for model in (two, one)
    )
    masks = proper_masks(4)
    states = [value.prepare(masks, value.moments(masks, data)) for value in (wide, narrow)]
    assert {3, 4, 12, 40} <= set(states[1]["rank"].tolist())
    both, single = (
        value.evaluate(state, rows) for value, state in zip((wide, narrow), states, strict=True)
    )
    assert_allclose(single, both[..., ::2], rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("is_shared", [True, False])
def test_few_rows_have_the_values_of_many(rng, n_outputs, is_shared):
    """All coalitions in one loop, or one after the other; states of two tiles are joined."""
    data, rows = rng.normal(size=(300, 4)), rng.normal(size=(9, 4))
    model = KernelExpansion(
        RBF(1.5).bind(4), data[:40], rng.normal(size=(40, n_outputs)), rng.normal(size=n_outputs)
    )
    landmarks = model.landmarks if is_shared else data[50:80]
    value = KernelObservational(model, data, Nystrom(landmarks=landmarks), 1e-2)
    masks = proper_masks(4)
    tiles = masks[:5], masks[5:]
    state = value.join([value.prepare(each, value.moments(each, data)) for each in tiles])
    many = value.evaluate(state, rows)
    for n in (1, 3, 8):
        assert_allclose(value.evaluate(state, rows[:n]), many[:n], rtol=0, atol=1e-11)


def several_outputs(rng):
    return KernelExpansion(
        RBF(1.5).bind(4), rng.normal(size=(20, 4)), rng.normal(size=(20, 2)), rng.normal(size=2)
    )


@pytest.mark.parametrize("name", ["nystrom", "fourier"])
def test_centred_values_shrink_to_the_interventional_ones(rng, name):
    """As the penalty grows; the paper's form shrinks to the intercept."""
    model, data, rows = several_outputs(rng), rng.normal(size=(300, 4)), rng.normal(size=(9, 4))
    embedding = Nystrom(landmarks=data[:40]) if name == "nystrom" else Fourier(80)
    masks = proper_masks(4)

    def values(value):
        return value.evaluate(value.prepare(masks, value.moments(masks, data)), rows)

    centred = values(KernelObservational(model, data, embedding, 1e9, centred=True))
    assert_allclose(centred, values(KernelInterventional(model, data)), atol=1e-6)
    paper = values(KernelObservational(model, data, embedding, 1e9))
    assert_allclose(paper, np.broadcast_to(model.intercept, paper.shape), atol=1e-6)


def test_fourier_models_and_embeddings_are_their_definition(rng):
    """c + Re Σ_r A_r e_S(x) [Φ_S(x) (Φ_SᵀΦ_S + nλ)⁻¹ Φ_Sᵀ e_S̄(X)]_r with e the exponentials and Φ
    cosines and sines."""
    data, rows, n, penalty = rng.normal(size=(200, 3)), rng.normal(size=(8, 3)), 200, 1e-2
    kernel, embedding = RBF(1.0).bind(3), Fourier(50)
    model = FourierExpansion(
        rng.normal(size=(15, 3)), rng.uniform(0, 6, 15), rng.normal(size=(15, 2)), np.ones(2)
    )
    value = KernelObservational(model, data, embedding, penalty, kernel=kernel)
    masks, omega = proper_masks(3), embedding.anchors(data, kernel)
    values = value.evaluate(value.prepare(masks, value.moments(masks, data)), rows)
    amplitude = model.weights * np.exp(1j * model.phases)[:, None]
    for j, present in enumerate(masks):

        def features(x, present=present):
            angle = (x * present) @ omega.T
            return np.hstack([np.cos(angle), np.sin(angle)]) / 5.0

        def waves(x, columns):
            return np.exp(1j * (x * columns) @ model.frequencies.T)

        phi = features(data)
        embedded = np.linalg.solve(
            phi.T @ phi + n * penalty * np.eye(50), phi.T @ waves(data, ~present)
        )
        expected = 1.0 + ((features(rows) @ embedded * waves(rows, present)) @ amplitude).real
        assert_allclose(values[:, j], expected, atol=1e-10)
    mean = KernelInterventional(model, data)
    values = mean.evaluate(mean.prepare(masks, mean.moments(masks, data)), rows)
    for j, present in enumerate(masks):
        mixed = np.where(present, rows[:, None], data).reshape(-1, 3)
        assert_allclose(
            values[:, j], model.predict(mixed).reshape(8, 200, 2).mean(axis=1), atol=1e-11
        )


@pytest.mark.slow
def test_a_list_of_models_is_their_sum(rng):
    data, rows = rng.normal(size=(60, 4)), rng.normal(size=(5, 4))
    first, second = several_outputs(rng), several_outputs(rng)
    cube = dshap.explain(KernelInterventional([first, second], data), rows)
    parts = [
        dshap.explain(KernelInterventional(own, data), rows).attribution for own in (first, second)
    ]
    assert_allclose(cube.attribution, parts[0] + parts[1], atol=1e-12)
    with pytest.raises(InputError, match="the model has no product kernel of its own"):
        KernelObservational([first, second], data, Nystrom(10), 1e-2)
    observed = dshap.explain(
        KernelObservational([first, second], data, Nystrom(10), 1e-2, kernel=RBF(1.5)), rows
    )
    total = observed.attribution.sum("feature") + observed.base_value
    assert_allclose(total, first.predict(rows) + second.predict(rows), atol=1e-12)
