"""Models that answer differently when they are asked again: refused, or taken with their noise in
the errors."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.core.types import Design
from dshap.cube import feature_ranking
from dshap.designs import kriging, permutation
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.run.determinism import check_steady
from dshap.values import ConditionalRegression, Gaussian, KernelInterventional, LogOdds, Marginal

D = 6
T_QUANTILE = 2.093


def plain(x):
    return np.sin(x[:, 0]) * x[:, 1] + x[:, 2] - 0.5 * x[:, 3] * x[:, 4]


class Noisy:
    """`plain` with normal noise, other at each call."""

    def __init__(self, size, seed=0):
        self.size, self.rng = size, np.random.default_rng(seed)

    def __call__(self, x):
        return plain(x) + self.size * self.rng.normal(size=len(x))


def scaled_by_the_call(x):
    return plain((x - x.mean(axis=0)) / (x.std(axis=0) + 1e-12))


def ranked_in_the_call(x):
    return plain(x) + 0.1 * np.arange(len(x))


def rounded_like_a_gpu(x):
    """Sums of float32 in another order for each size of the call: 1e-6 of the answers."""
    return plain(x) * (1 + 1e-6 * np.cos(len(x) + np.arange(len(x))))


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(30, D))


REFUSED = {
    "noise": (Noisy(0.3), "when it is called again"),
    "little noise": (Noisy(1e-3), "when it is called again"),
    "scaling": (scaled_by_the_call, "when it gets a row alone"),
    "order": (ranked_in_the_call, "when it gets the rows in a different order"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("n", [1, 30])
def test_what_is_no_function_of_the_row_is_refused(rows, tmp_path, name, n):
    """In one line, and nothing is written; a single row to explain is asked beside the
    background."""
    predict, when = REFUSED[name]
    store = tmp_path / "cube.zarr"
    with pytest.raises(
        InputError, match=f"the model gives different predictions {when}: .* give stochastic=True"
    ) as error:
        dshap.explain(Marginal(predict, rows[:5]), rows[:n], store=store)
    assert "\n" not in str(error.value)
    assert not store.exists()


@pytest.mark.parametrize(
    "make",
    [
        lambda f, x: ConditionalRegression(f, x, RBF(), Nystrom(20)),
        lambda f, x: Gaussian(f, x),
    ],
    ids=["regression", "gaussian"],
)
def test_every_value_of_a_predict_function_refuses_it(rows, make):
    with pytest.raises(InputError, match="gives different predictions"):
        dshap.explain(make(Noisy(0.3), rows), rows)


def test_rounding_is_no_difference(rows):
    """Answers that differ by 1e-6 with the size of the call, on a level of 1,000 too."""
    check_steady(lambda x: rounded_like_a_gpu(x)[:, None], rows)
    check_steady(lambda x: 1_000 + rounded_like_a_gpu(x)[:, None], rows)
    assert (
        dshap.explain(Marginal(rounded_like_a_gpu, rows[:5]), rows[:4]).status.values.tolist()
        == [1] * 4
    )


def test_constant_models_and_kernel_models_are_steady(rows):
    assert (
        float(
            abs(
                dshap.explain(Marginal(lambda x: np.full(len(x), 3.0), rows[:5]), rows).attribution
            ).max()
        )
        < 1e-12
    )
    model = KernelRidge(RBF(1.0), Nystrom(10), penalty=1e-3).fit(rows, plain(rows))
    dshap.explain(KernelInterventional(model, rows), rows)


DESIGNS: dict[str, Design | str] = {
    "exact": "exact",
    "kriging": kriging(D, 58, decay=0.1),
    "permutation": permutation(D, 100),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exact", "kriging", "permutation"])
@pytest.mark.parametrize("n_background", [1, 4])
def test_intervals_hold_the_values_of_the_mean_model(rows, name, n_background):
    """Of 30 rows × 6 players, six runs with noise of a third of the deviation: 92 to 99.8 % of
    intervals hold the values without noise; a third of their width does not do."""
    background, inside, half = rows[:n_background], [], []
    truth = dshap.explain(Marginal(plain, background), rows, design="exact").attribution.values
    for seed in range(6):
        value = Marginal(Noisy(0.3, seed), background)
        cube = dshap.explain(value, rows, design=DESIGNS[name], stochastic=True)
        off = np.abs(cube.attribution.values - truth)
        inside.append(off <= T_QUANTILE * cube.std_error.values)
        half.append(off <= T_QUANTILE / 3 * cube.std_error.values)
        np.testing.assert_allclose(
            cube.attribution.sum("feature") + cube.base_value, cube.prediction, atol=1e-9
        )
    assert 0.92 < np.mean(inside) < 0.998
    assert np.mean(half) < 0.9


@pytest.mark.slow
def test_the_error_is_that_of_repeated_runs(rows):
    """Exact design, one row of background: std_error beside the deviation of 60 runs, within 10
    %."""
    found = []
    for seed in range(60):
        cube = dshap.explain(
            Marginal(Noisy(0.3, seed), rows[:2]), rows[:6], design="exact", stochastic=True
        )
        found.append((cube.attribution.values, cube.std_error.values))
    values, errors = (np.stack(own) for own in zip(*found, strict=True))
    assert np.sqrt(np.square(errors).mean()) == pytest.approx(
        np.sqrt(values.var(axis=0, ddof=1).mean()), rel=0.1
    )


@pytest.mark.slow
def test_means_over_rows_have_their_error(rows, tmp_path):
    """The base value's noise moves all rows at once: the summary of the cube knows."""
    held = []
    truth = (
        dshap.explain(Marginal(plain, rows[:1]), rows, design="exact")
        .attribution.mean("instance")
        .values
    )
    for seed in range(25):
        store = tmp_path / f"{seed}.zarr"
        dshap.explain(
            Marginal(Noisy(0.3, seed), rows[:1]), rows, design="exact", stochastic=True, store=store
        )
        ranking = feature_ranking(store)
        held.append(
            np.abs(ranking["mean"] - truth).values <= T_QUANTILE * ranking["mean_std_error"].values
        )
    assert 0.9 < np.mean(held) <= 0.995


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"coalition_groups": 2, "coalition_tile": 10}, {"interactions": True}], ids=str
)
def test_with_other_options(rows, options):
    value = Marginal(Noisy(0.1, 3), rows[:3])
    cube = dshap.explain(value, rows, design="exact", stochastic=True, **options)
    truth = dshap.explain(Marginal(plain, rows[:3]), rows, design="exact").attribution
    assert float((abs(cube.attribution - truth) <= T_QUANTILE * cube.std_error).mean()) > 0.9


def test_a_stochastic_run_goes_on(rows, tmp_path):
    """What a noisy model predicts does not tell its run: the same call again has nothing to do."""
    store = tmp_path / "cube.zarr"
    first = dshap.explain(Marginal(Noisy(0.3), rows[:3]), rows, stochastic=True, store=store).load()
    again = dshap.explain(
        Marginal(Noisy(0.3, 5), rows[:3]), rows, stochastic=True, store=store
    ).load()
    assert first.identical(again)


def test_a_steady_model_called_stochastic_has_no_noise(rows):
    value = Marginal(plain, rows[:3])
    cube = dshap.explain(value, rows, design="exact", stochastic=True)
    np.testing.assert_allclose(
        cube.attribution, dshap.explain(value, rows, design="exact").attribution, atol=1e-12
    )
    assert float(cube.std_error.max()) < 1e-12


def test_a_link_after_the_mean(rows):
    """Log-odds of a named class: intervals hold those of the mean model, to the curvature of the
    link."""

    class Twofold(Noisy):
        def __call__(self, x):
            p = 1 / (1 + np.exp(-plain(x))) * 0.9 + 0.05
            p = np.clip(p + self.size * self.rng.uniform(-1, 1, size=len(x)), 0.001, 0.999)
            return np.column_stack([1 - p, p])

    value = {
        size: Marginal(Twofold(size), rows[:8], link=LogOdds("b"), output_names=["a", "b"])
        for size in (0, 0.02)
    }
    truth = dshap.explain(value[0], rows, design="exact").attribution
    cube = dshap.explain(value[0.02], rows, design="exact", stochastic=True)
    assert float((abs(cube.attribution - truth) <= T_QUANTILE * cube.std_error).mean()) > 0.88
    assert float(cube.std_error.min()) > 0


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        (lambda x: Marginal(Noisy(0.1), x), {"tol": 0.1}, "stochastic=True and tol"),
        (
            lambda x: Gaussian(plain, x),
            {},
            "stochastic=True is for Marginal, .* not for this Gaussian",
        ),
        (
            lambda x: ConditionalRegression(plain, x, RBF(), Nystrom(9)),
            {},
            "not for this ConditionalRegression",
        ),
        (
            lambda x: Marginal(lambda x: np.full((len(x), 2), 0.5), x, link="log_odds"),
            {},
            "LogOdds",
        ),
        (lambda x: Marginal(plain, x), {"stochastic": "yes"}, "give True or False"),
    ],
)
def test_what_cannot_be(rows, value, options, message):
    with pytest.raises(InputError, match=message):
        dshap.explain(value(rows), rows, **{"stochastic": True, **options})


def test_sparse_terms_are_left_out(rows):
    """Of sixty coalitions and more a pilot would look for them; noise is no interaction."""
    x = np.random.default_rng(1).normal(size=(20, 12))
    cube = dshap.explain(Marginal(Noisy(0.1), x[:2]), x, max_coalitions=300, stochastic=True)
    assert "sparse" not in json.loads(cube.attrs["pilot"])
    assert float(cube.std_error.min()) > 0


@pytest.mark.parametrize("n_replicates", [0, 10])
def test_noise_needs_the_groups_of_its_errors(n_replicates):
    """Without groups the error was that of the noise alone; with 10, every row failed at the end."""
    rows = np.random.default_rng(0).normal(size=(9, D))
    design = kriging(D, 40, n_replicates=n_replicates)
    with pytest.raises(InputError, match=f"in 20 groups, .* n_replicates={n_replicates}: give 20"):
        dshap.explain(Marginal(Noisy(0.3), rows[:2]), rows, design=design, stochastic=True)
