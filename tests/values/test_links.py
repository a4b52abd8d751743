"""Links after the expectation: each against its definition by hand, through `dshap.explain`, and
what is refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

import dshap
from dshap.core.errors import FailedBlocksError, InputError, PredictError
from dshap.cube import open_cube, verify_cube
from dshap.designs import exact, kernelshap, kriging
from dshap.kernels import RBF, Nystrom
from dshap.report import breakdown
from dshap.values import (
    LINKS,
    ConditionalRegression,
    ExpectedLogProbability,
    Gaussian,
    Logit,
    LogOdds,
    LogProbability,
    Marginal,
)
from tests.values.oracles import shapley

pytestmark = pytest.mark.usefixtures("in_this_process")

D, K, N = 4, 3, 70
CLASSES = np.array(["cat", "dog", "rat"])


class Classifier:
    """A softmax with interactions of every order, with scikit-learn's names."""

    classes_ = CLASSES

    def __init__(self):
        self.weights = np.random.default_rng(3).normal(size=(D + 1, K))
        self.rows = 0

    def predict_proba(self, x):
        self.rows += len(x)
        every = np.prod(1.0 + 0.7 * np.tanh(x), axis=1)
        return softmax(np.column_stack([x, every]) @ self.weights, axis=1)


@pytest.fixture(scope="module")
def model():
    return Classifier()


@pytest.fixture(scope="module")
def background():
    return np.random.default_rng(1).normal(size=(7, D))


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(2).normal(size=(N, D))


def expectations(model, background, x, coalition):
    """mean over the background of f(x_S, X_S̄) (k,)."""
    mixed = background.copy()
    mixed[:, sorted(coalition)] = x[sorted(coalition)]
    return model.predict_proba(mixed).mean(axis=0)


def entropy_like(p, f):
    return np.array([sum(f[y] * np.log(p[y]) for y in range(K))])


def of_predicted(function):
    return lambda p, f: np.array([function(p[np.argmax(f)])])


def log_odds(p):
    return np.log(p / (1.0 - p))


DEFINITIONS = {
    "identity": lambda p, f: p,
    "logit": lambda p, f: log_odds(p),
    "log_odds": of_predicted(log_odds),
    "log_probability": of_predicted(np.log),
    "expected_log_probability": entropy_like,
    LogOdds("dog"): lambda p, f: log_odds(p[1:2]),
    LogProbability("rat"): lambda p, f: np.log(p[2:3]),
}


def test_every_link_has_a_definition_here():
    assert set(LINKS) <= set(DEFINITIONS)


@pytest.mark.parametrize("link", DEFINITIONS, ids=str)
def test_link_of_the_averaged_background_equals_the_definition(link, model, background, rows):
    """g(E f), Shapley values over all 2^4 coalitions by their formula."""
    g = DEFINITIONS[link]
    cube = dshap.explain(
        Marginal(model.predict_proba, background, link=link), rows, design=exact(D)
    )
    for i in (0, 5, N - 1):
        f = model.predict_proba(rows[i : i + 1])[0]
        wanted = shapley(lambda s, i=i, f=f: g(expectations(model, background, rows[i], s), f), D)
        np.testing.assert_allclose(cube.attribution[i], wanted, rtol=0, atol=1e-12)
        np.testing.assert_allclose(cube.prediction[i], g(f, f), rtol=1e-12)
        base = cube.base_value if "instance" not in cube.base_value.dims else cube.base_value[i]
        np.testing.assert_allclose(
            base, g(expectations(model, background, rows[i], ()), f), rtol=1e-12
        )


def test_it_is_not_the_expectation_of_the_link(model, background, rows):
    inside = Marginal(lambda x: np.log(model.predict_proba(x)[:, 1]), background)
    after = Marginal(model.predict_proba, background, link=LogProbability("dog"))
    apart = dshap.explain(inside, rows).attribution - dshap.explain(after, rows).attribution.values
    assert np.abs(apart).max() > 0.05


def test_predicted_class_is_that_of_each_row_and_is_said(model, background, rows):
    cube = dshap.explain(Marginal(model.predict_proba, background, link="log_probability"), rows)
    own = model.predict_proba(rows).argmax(axis=1)
    assert len(np.unique(own)) == K  # or the rows show nothing
    np.testing.assert_array_equal(cube.explained_class, own)
    assert cube.explained_class.attrs["flag_meanings"] == "cat dog rat"
    assert cube.output.values.tolist() == ["predicted class"]
    assert cube.attribution.attrs["link"] == "log probability of the predicted class"
    assert cube.base_value.dims == ("instance", "output")


@pytest.mark.parametrize(
    ("link", "names"),
    [
        (None, ["cat", "dog", "rat"]),
        ("logit", ["cat", "dog", "rat"]),
        (LogOdds("dog"), ["dog"]),
        ("expected_log_probability", ["expected log probability"]),
    ],
)
def test_output_coordinate(link, names, model, background, rows):
    cube = dshap.explain(Marginal(model.predict_proba, background, link=link), rows[:3])
    assert cube.output.values.tolist() == names
    assert cube.base_value.dims == (
        ("instance", "output") if names[0].startswith("expected") else ("output",)
    )


def test_several_outputs_take_one_pass(background, rows):
    """As many rows are predicted for three classes as for one."""
    seen = []
    for predict in (lambda m: m.predict_proba, lambda m: lambda x: m.predict_proba(x)[:, 1]):
        model = Classifier()
        dshap.explain(Marginal(predict(model), background), rows)
        seen.append(model.rows)
    assert seen[0] == seen[1]


@pytest.mark.slow
def test_each_output_equals_its_own_run(model, background, rows):
    together = dshap.explain(Marginal(model.predict_proba, background), rows)
    for j, name in enumerate(CLASSES):
        alone = dshap.explain(
            Marginal(lambda x, j=j: model.predict_proba(x)[:, j], background), rows
        )
        np.testing.assert_allclose(
            together.attribution.sel(output=name), alone.attribution[..., 0], atol=1e-14
        )


@pytest.mark.slow
@pytest.mark.parametrize("link", ["logit", "log_odds", "expected_log_probability"])
def test_every_way_through_the_engine(link, model, background, rows, tmp_path):
    """Groups of coalitions, rounds and interactions give what the plain sum gives; the store
    verifies."""
    value = Marginal(model.predict_proba, background, link=link)
    plain = dshap.explain(value, rows, design=exact(D))
    store = tmp_path / "cube.zarr"
    grouped = dshap.explain(
        value, rows, design=exact(D), store=store, instance_tile=32, coalition_tile=4, coalition_groups=3,
        interactions=True,
    )  # fmt: skip
    np.testing.assert_allclose(grouped.attribution, plain.attribution, atol=1e-12)
    np.testing.assert_allclose(
        grouped.interaction.sum("feature_other"), plain.attribution, atol=1e-12
    )
    assert verify_cube(store) == []
    rounds = dshap.explain(value, rows, tol=0.02, max_coalitions=16)
    np.testing.assert_allclose(rounds.attribution, plain.attribution, atol=1e-10)


def test_sampled_design_and_kriging_add_up(background):
    rng = np.random.default_rng(0)
    rows, background = rng.normal(size=(20, 12)), rng.normal(size=(3, 12))
    weights = rng.normal(size=(12, K))
    value = Marginal(lambda x: softmax(x @ weights, axis=1), background, link="log_odds")
    for design in (kernelshap(12, 200), kriging(12, 200)):
        cube = dshap.explain(value, rows, design=design)
        np.testing.assert_allclose(
            cube.attribution.sum("feature") + cube.base_value, cube.prediction, atol=1e-10
        )
        assert (cube.std_error > 0).all()


def test_breakdown_of_a_row_adds_up(model, background, rows, tmp_path):
    store = tmp_path / "cube.zarr"
    dshap.explain(Marginal(model.predict_proba, background, link="log_odds"), rows, store=store)
    part = breakdown({"m": store}).parts[0]
    assert part.base_value + sum(part.attribution.values()) == pytest.approx(part.prediction)


def test_changed_base_value_is_found(model, background, rows, tmp_path):
    """Base values along instance are under the receipts too."""
    import zarr

    store = tmp_path / "cube.zarr"
    dshap.explain(Marginal(model.predict_proba, background, link="log_odds"), rows, store=store)
    zarr.open_array(store / "base_value", mode="r+")[3] = 0.0
    assert verify_cube(store)


def test_skipped_rows_keep_their_place(model, background, rows):
    holes = rows.copy()
    holes[4, 1] = np.nan
    cube = dshap.explain(
        Marginal(model.predict_proba, background, link="log_odds"), holes, missing="skip"
    )
    assert cube.explained_class[4] == -1
    assert np.isnan(cube.base_value[4]).all()
    assert cube.status[4] == 2


def test_conditional_values_take_links(model, rows):
    """The regression's and the normal's expectations are of probabilities; at the ends they are the
    model's own."""
    data = np.random.default_rng(8).normal(size=(400, D))
    clipped = LogProbability("dog", clip=1e-3)
    for value, least in (
        (Gaussian(model.predict_proba, data, n_samples=50, link=LogProbability("dog")), 0.0),
        (
            ConditionalRegression(model.predict_proba, data, RBF(2.0), Nystrom(40), link=clipped),
            1e-3,
        ),
    ):
        cube = dshap.explain(value, rows)
        mean = model.predict_proba(data).mean(axis=0)  # the normal's is that over its draws
        mean = json.loads(cube.attrs.get("base_value", "{}")).get("mean_over_draws", mean)
        assert float(cube.base_value[0]) == pytest.approx(np.log(mean[1]))
        own = np.clip(model.predict_proba(rows)[:, 1], least, 1 - least)
        np.testing.assert_allclose(cube.prediction[:, 0], np.log(own), rtol=1e-12)


def test_clip_moves_expectations(background):
    """A tree's leaf gives exactly 0 and 1."""
    value = Marginal(lambda x: (x[:, 0] > 0).astype(float), background, link=Logit(clip=1e-3))
    cube = dshap.explain(value, np.full((2, D), 5.0))
    assert float(cube.prediction[0, 0]) == pytest.approx(np.log(0.999 / 0.001))


def test_expected_log_probability_takes_0_log_0_as_0(background):
    one = np.eye(2)
    value = Marginal(
        lambda x: one[(x[:, 0] > 0).astype(int)], background, link="expected_log_probability"
    )
    cube = dshap.explain(value, np.full((2, D), 5.0))
    np.testing.assert_allclose(cube.prediction, 0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda m, b: Marginal(m.predict_proba, b, link=LogOdds("dgo")),
            "unknown class 'dgo'; did you mean 'dog'",
        ),
        (
            lambda m, b: Marginal(m.predict_proba, b, link=LogOdds(1)),
            "unknown class '1'. Allowed: cat, dog, rat",
        ),
        (
            lambda m, b: Marginal(m.predict_proba, b, link="logodds"),
            "unknown link 'logodds'; did you mean 'log_odds'",
        ),
        (lambda m, b: Marginal(m.predict_proba, b, link=np.log), "give 'identity', 'logit'"),
        (
            lambda m, b: Marginal(lambda x: x[:, 0], b, link="log_odds"),
            "needs the probabilities of all classes",
        ),
        (
            lambda m, b: Marginal(lambda x: 3.0 + x[:, 0] ** 2, b, link="logit"),
            r"the model gave .*, outside \[0, 1\]",
        ),
        (
            lambda m, b: LogOdds(clip=0.4),
            "clip is 0.4: give a number of at least 0 and at most 0.1",
        ),
    ],
)
def test_bad_links_are_refused_where_they_are_made(make, message, model, background):
    with pytest.raises(InputError, match=message):
        make(model, background)


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (lambda x: np.where(x[:, 0] > 9, 1.2, 0.5), r"row-0.*the model gave 1.2, outside \[0, 1\]"),
        (lambda x: np.where(x[:, 0] > 9, 1.0, 0.5), r"row-0.*exactly 0 or 1.*Logit\(clip=1e-6\)"),
    ],
)
def test_rows_without_a_link_are_refused_and_nothing_is_written(
    predict, message, background, tmp_path
):
    rows = pd.DataFrame(np.full((5, D), 10.0), columns=list("abcd")).assign(
        id=[f"row-{i}" for i in range(5)]
    )
    store = tmp_path / "cube.zarr"
    with pytest.raises(PredictError, match=message):
        value = Marginal(predict, pd.DataFrame(background, columns=list("abcd")), link="logit")
        dshap.explain(value, rows, key="id", store=store)
    assert not store.exists()


def test_a_later_row_fails_alone(background, tmp_path):
    rows = np.zeros((128, D))
    rows[100] = 10.0
    value = Marginal(lambda x: np.where(x[:, 0] > 9, 1.0, 0.5), background, link="logit")
    store = tmp_path / "cube.zarr"
    with pytest.raises(FailedBlocksError, match="exactly 0 or 1"):
        dshap.explain(value, rows + 1e-3 * np.arange(128)[:, None], store=store, instance_tile=32)
    np.testing.assert_array_equal(open_cube(store).status == 1, np.arange(128) != 100)


def test_estimates_outside_are_refused_unless_clipped():
    """A regression's estimate of a probability may leave [0, 1] where f(x) does not."""
    data = np.random.default_rng(8).normal(size=(60, D))

    def steep(x):
        return np.where(x[:, 0] > 0.3, 0.999, 0.001)

    def value(link):
        return ConditionalRegression(steep, data, RBF(0.6), Nystrom(50), penalty=1e-9, link=link)

    with pytest.raises(
        FailedBlocksError, match=r"an expectation is .*, outside \[0, 1\].*or give it a clip="
    ):
        dshap.explain(value("logit"), data * 0.9)
    cube = dshap.explain(value(Logit(clip=1e-4)), data * 0.9)
    assert np.isfinite(cube.attribution).all()


def test_link_is_in_the_fingerprint(model, background, rows, tmp_path):
    store = tmp_path / "cube.zarr"
    dshap.explain(Marginal(model.predict_proba, background, link=LogOdds("dog")), rows, store=store)
    with pytest.raises(
        dshap.DshapError, match=r"contains a different run: .*clip was 0\.0, now 0\.001"
    ):
        dshap.explain(
            Marginal(model.predict_proba, background, link=LogOdds("dog", clip=1e-3)),
            rows,
            store=store,
        )


@pytest.mark.parametrize("link", [LogOdds("low"), "log_odds"], ids=str)
def test_outputs_named_otherwise_are_another_run(link, background, tmp_path):
    """The names say which output a class is."""

    def predict(x):
        p = 1 / (1 + np.exp(-x.sum(axis=1)))
        return np.column_stack([1 - p, p])

    rows, store = background + 0.1, tmp_path / "cube.zarr"
    dshap.explain(
        Marginal(predict, background, link=link, output_names=["low", "high"]), rows, store=store
    )
    with pytest.raises(dshap.DshapError, match="contains a different run"):
        dshap.explain(
            Marginal(predict, background, link=link, output_names=["high", "low"]),
            rows,
            store=store,
        )


def test_quality_is_that_of_the_expectation(model, rows):
    """MSE_v judges conditional expectations: it does not depend on the link."""
    data = np.random.default_rng(8).normal(size=(200, D))
    plain, linked = (
        dshap.mse_v(Gaussian(model.predict_proba, data, n_samples=20, link=link), rows)
        for link in (None, ExpectedLogProbability())
    )
    np.testing.assert_array_equal(plain.mse, linked.mse)
