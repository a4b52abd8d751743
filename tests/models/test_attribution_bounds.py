"""Theorem 6: norms and operators by their n × n formulas, bounds that perturbed rows obey, and how
tight they are."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dshap.core.errors import InputError
from dshap.kernels import RBF, Categorical, Fourier, Laplacian, Nystrom, Product
from dshap.models import (
    KernelExpansion,
    KernelRidge,
    ShapleyPenalty,
    attribution_bound,
    conditional_amplification,
    rkhs_norm,
    robustness,
)
from dshap.models.shapley import player_attributions


def make_table(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    x[:, 1] = 0.9 * x[:, 0] + 0.4 * x[:, 1]
    return x, x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + x[:, -1]


def factors_of(kernel, x):
    # (columns, n, n)
    return np.stack([kernel.factor(j, x[:, j], x[:, j]) for j in range(x.shape[1])])


def test_the_norm_is_that_of_the_dual():
    """Two landmarks at distance 1: ‖a k(z₁) + b k(z₂)‖² = a² + b² + 2ab e^(−1/2)."""
    weights = np.array([[2.0, 0.0], [-1.0, 3.0]])
    model = KernelExpansion(
        RBF(1.0).bind(1), np.array([[0.0], [1.0]]), weights, np.array([5.0, 0.0])
    )
    assert_allclose(rkhs_norm(model), np.sqrt([4.0 + 1.0 - 4.0 * np.exp(-0.5), 9.0]))


@pytest.mark.parametrize("kernel", [RBF(0.7), Laplacian(1.0)])
def test_the_bound_is_that_of_the_theorem(kernel):
    x, y = make_table()
    model = KernelRidge(kernel, Nystrom(40), 1e-3).fit(x, y)
    near, moved = x[:5], x[:5] + 0.1
    alike = np.array(
        [
            model.expansion_.kernel.matrix(a[None], b[None])[0, 0]
            for a, b in zip(near, moved, strict=True)
        ]
    )
    expected = np.sqrt(4.0 * (1.0 - alike))[:, None] * rkhs_norm(model)
    assert_allclose(attribution_bound(model, near, moved), expected)
    assert_allclose(attribution_bound(model, near, moved, 3.0), expected * np.sqrt(6.0))
    assert not attribution_bound(model, near, near).any()
    if isinstance(kernel, RBF):  # the paper's form: |x_j − x'_j|² ≤ δ in d columns
        delta, widest = 0.09, attribution_bound(model, np.zeros((1, 4)), np.full((1, 4), 0.3))[0]
        assert_allclose(
            widest, rkhs_norm(model) * np.sqrt(4.0 * (1.0 - np.exp(-4 * delta / (2 * 0.7**2))))
        )


def test_the_amplification_is_the_n_by_n_trace():
    """Every row a landmark of model and embedding; rank_tolerance 1e-6 of a λ of 1e-2."""
    x, penalty = make_table(n=60, d=3)[0], 1e-2
    model = KernelExpansion(RBF(0.8).bind(3), x, np.ones((60, 1)), np.zeros(1))
    asked = ShapleyPenalty(0, 0.0, "observational", penalty=penalty)
    factors, largest = factors_of(model.kernel, x), 1.0
    for code in range(1, 7):
        inside = [j for j in range(3) if code >> j & 1]
        present = factors[inside].prod(axis=0)
        absent = factors[[j for j in range(3) if j not in inside]].prod(axis=0)
        inverse = np.linalg.inv(present + 60 * penalty * np.eye(60))
        largest = max(largest, np.trace(inverse @ present @ inverse @ absent))
    assert largest > 2.0
    assert_allclose(conditional_amplification(model, x, asked), largest, rtol=1e-3)


@pytest.mark.parametrize("value", ["interventional", "observational"])
@pytest.mark.parametrize("kernel", [RBF(1.0), Laplacian(2.0)])
def test_perturbed_rows_obey_the_bound(value, kernel):
    x, y = make_table()
    model = KernelRidge(kernel, Nystrom(60), 1e-4).fit(x, y)
    for delta in (1e-6, 1e-2, 4.0):
        found = robustness(model, x, x, ShapleyPenalty(0, 0.0, value), delta, n_pairs=200)
        assert found.n_violations == 0
        assert 0.0 < found.largest_ratio < 1.0
        assert (found.amplification is None) == (value == "interventional")
        assert "0 violations" in str(found)


def worst_model(x, z, data, player, value="interventional"):
    """The function of norm 1, of many landmarks, whose attributions at x and z differ most; a = K⁻¹
    (ζ(x) − ζ(z))."""
    kernel, d = RBF(1.0).bind(x.shape[1]), x.shape[1]
    landmarks = np.concatenate([x, z, data, np.random.default_rng(9).normal(size=(150, d))])
    unit = KernelExpansion(kernel, landmarks, np.eye(len(landmarks)), np.zeros(len(landmarks)))
    zeta = player_attributions(
        unit, np.concatenate([x, z]), data, ShapleyPenalty(player, 0.0, value)
    )
    gram = kernel.matrix(landmarks, landmarks) + 1e-8 * np.eye(len(landmarks))
    weights = np.linalg.solve(gram, zeta[0] - zeta[1])
    return KernelExpansion(kernel, landmarks, weights[:, None], np.zeros(1))


@pytest.mark.parametrize("step", [0.05, 0.5, 3.0])
def test_the_worst_model_comes_near_to_the_bound(step):
    """Far more than a fitted model does, and not beyond: the bound holds of every function, not of
    likely ones."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(20, 2))
    x, z = np.zeros((1, 2)), np.array([[step, 0.0]])
    model = worst_model(x, z, data, 0)
    phi = player_attributions(model, np.concatenate([x, z]), data, ShapleyPenalty(0, 0.0))[:, 0]
    ratio = abs(phi[0] - phi[1]) / attribution_bound(model, x, z)[0, 0]
    assert 0.3 < ratio < 1.0


def test_categories_have_a_bound_too():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.integers(0, 3, 200), rng.normal(size=200)]).astype(float)
    model = KernelRidge(Product([Categorical(0.3), RBF(1.0)]), Nystrom(30), 1e-3).fit(
        x, (x[:, 0] == 1) + x[:, 1]
    )
    bound = attribution_bound(model, [[0.0, 0.0]], [[1.0, 0.0]])
    assert_allclose(bound[0], np.sqrt(4.0 * 0.7) * rkhs_norm(model))
    phi = player_attributions(model, [[0.0, 0.0], [1.0, 0.0]], x, ShapleyPenalty(0, 0.0))
    assert abs(phi[0, 0] - phi[1, 0]) < bound[0, 0]


def test_what_has_no_bound_is_refused():
    x, y = make_table()
    fourier = KernelRidge(RBF(1.0), Fourier(20), 1e-3).fit(x, y)
    with pytest.raises(InputError, match="fit with Nystrom landmarks"):
        rkhs_norm(fourier)
    model = KernelRidge(RBF(1.0), Nystrom(20), 1e-3).fit(x, y)
    with pytest.raises(InputError, match="the penalty is of interventional values"):
        conditional_amplification(model, x, ShapleyPenalty(0, 0.0))
    with pytest.raises(InputError, match=r"lists 4: give n_coalitions=2\*\*4"):
        conditional_amplification(model, x, ShapleyPenalty(0, 0.0, "observational", n_coalitions=4))
    with pytest.raises(InputError, match="rows are 2 and others 3"):
        attribution_bound(model, x[:2], x[:3])
    with pytest.raises(InputError, match=r"amplification is 0.5: give a number of at least 1"):
        attribution_bound(model, x[:2], x[:2], 0.5)
    with pytest.raises(InputError, match="the embedding has no landmarks"):
        conditional_amplification(model, x, ShapleyPenalty(0, 0.0, "observational", Fourier(20)))


def test_the_player_of_the_penalty_does_not_count():
    """A group would leave out the coalitions that part it."""
    x, y = make_table(n=200)
    model = KernelRidge(RBF(1.0), Nystrom(40), 1e-3).fit(x, y)
    found = [conditional_amplification(model, x, ShapleyPenalty(player, 0.0, "observational", penalty=1e-3))
             for player in (0, [0, 1], [0, 1, 2, 3])]  # fmt: skip
    assert found[0] == found[1] == found[2] > 2.0


def test_moves_too_small_to_be_seen_are_no_violations():
    """A bound of 0, and an output that is constant."""
    x, y = make_table(n=200)
    model = KernelRidge(RBF(1.0), Nystrom(40), 1e-3).fit(x, np.column_stack([y, np.ones(200)]))
    for delta in (1e-22, 1e-2):
        found = robustness(model, x, x, ShapleyPenalty(0, 0.0), delta, n_pairs=20)
        assert found.n_violations == 0
        assert np.isfinite(found.largest_ratio)
    assert found.largest_ratio > 0.0
