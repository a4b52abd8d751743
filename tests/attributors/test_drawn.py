"""Errors of values that are means over draws: against draws left out by hand, against the truth over
seeds, in every contraction, and where there is none."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import t

import dshap
from dshap import designs
from dshap.attributors.contraction import Contraction
from dshap.attributors.drawn import (
    DrawnContraction,
    DrawnNoisyContraction,
    DrawnRounds,
    DrawnValues,
    DrawnWholeContraction,
)
from dshap.attributors.method import attributor_of
from dshap.core.capabilities import Work, draw_replicates, draws_of, linear
from dshap.core.draws import SKEWNESS_CORRECTION, GroupedDraws
from dshap.core.errors import InputError
from dshap.core.options import RunOptions
from dshap.core.records import State
from dshap.engine.plan import Plan
from dshap.engine.planner import tiling_of
from dshap.values import Copula, Gaussian, Logit, Marginal
from tests.attributors.test_contraction import BACKGROUND, ROWS, D, game_of, model

POPULATION = 50
QUANTILE = t.ppf(0.975, 19)


def sampled(**options) -> Marginal:
    return Marginal(model, BACKGROUND, sample_of=POPULATION, **options)


def drawn(design, value=None, **options) -> Contraction:
    game = game_of(value or sampled(), design)
    parts = options.pop("parts", (tuple(game.all_tiles),))
    return attributor_of(game, parts=parts, round_tiles=(), n_draw_replicates=20, **options)


def left_out(phi_of) -> np.ndarray:
    """std_error (n, d, k) of a background whose rows are left out one by one, as in a textbook."""
    b = len(BACKGROUND)
    without = np.stack([phi_of(np.delete(BACKGROUND, row, axis=0)) for row in range(b)])
    spread = np.square(without - phi_of(BACKGROUND)).sum(axis=0) * (b - 1) / b
    wider = (
        t.ppf(0.975, b - 1) / QUANTILE * (1 + SKEWNESS_CORRECTION / b)
    )  # seven rows are seven groups
    return wider * np.sqrt(spread * (1 - b / POPULATION))


def phi_over(background: np.ndarray, design) -> np.ndarray:
    cube = dshap.explain(Marginal(model, background), ROWS, design=design, dtype="float64")
    return cube.attribution.values


def test_the_error_of_a_background_is_that_of_rows_left_out_by_hand():
    found = drawn(designs.exact(D)).attribute(ROWS)
    by_hand = left_out(lambda background: phi_over(background, designs.exact(D)))
    assert_allclose(found.std_error, by_hand, rtol=1e-10)
    assert found.replicates.shape == (20, len(ROWS), D, 2)


def test_the_attributions_are_those_without_errors_to_the_bit():
    value = sampled()
    plain = attributor_of(
        game_of(value, designs.exact(D)), parts=((0, 1, 2, 3, 4, 5, 6, 7),), round_tiles=()
    )
    assert type(plain) is Contraction
    assert_array_equal(
        plain.attribute(ROWS).phi, drawn(designs.exact(D), value).attribute(ROWS).phi
    )


@pytest.mark.parametrize("kind", [Gaussian, Copula])
def test_draws_without_a_group_are_those_of_the_others(kind):
    """The state with the other draws alone, evaluated as ever."""
    data = np.random.default_rng(3).normal(size=(300, D))
    value = kind(model, data, n_samples=46, buffer_rows=64)
    choice = value.choose(data)
    value = value.chosen(choice)
    masks = designs.exact(D).block(2, 12).masks
    state = value.prepare(masks, value.moments(masks, data))
    groups = GroupedDraws.of(value.draws, 20)
    found = value.evaluate_without(state, ROWS, groups)
    assert_array_equal(found[:, 0], value.evaluate(state, ROWS))
    assert value.draws.n_draws == 23
    for g in (0, 7, 19):
        kept = np.tile(groups.group != g, 2)
        rest = State({**state.arrays, "draws": state["draws"][kept]})
        fewer = kind(model, data, n_samples=int(kept.sum())).chosen(choice)
        assert_allclose(found[:, 1 + g], fewer.evaluate(rest, ROWS), rtol=1e-12)
        base = value.base_without(state, groups)
        assert_allclose(base[1 + g], state["base_pairs"][groups.group != g].mean(axis=0))
        assert_array_equal(base[0], value.base(state))


def quadratic(x: np.ndarray) -> np.ndarray:
    return x[:, 0] * x[:, 1] + x[:, 2] ** 2


def rule(x: np.ndarray) -> np.ndarray:
    return 1.0 * (x[:, 0] > 0.3) * (x[:, 1] > 0) + 0.5 * (x[:, 2] < 0.5)


def exponential(x: np.ndarray) -> np.ndarray:
    return np.exp(0.5 * x[:, 0] + 0.4 * x[:, 1] - 0.5 * x[:, 2])


@pytest.mark.parametrize("function", [quadratic, rule, exponential])
@pytest.mark.parametrize("kind", [Gaussian, Copula])
def test_intervals_hold_the_truth(kind, function):
    """150 seeds, three rows, three correlated columns, 100 pairs of draws against 40,000.

    Rows and columns of a seed share its draws: nominally 95 % are held with a standard error of
    about 1 %.  Before, the error was 0 and none was held.
    """
    mixed = np.random.default_rng(0).normal(size=(400, 3)) @ np.array(
        [[1.0, 0.6, 0.3], [0, 0.8, 0.4], [0, 0, 0.7]]
    )
    rows = mixed[:3]
    design = designs.exact(3)
    masks = design.block(2, 8).masks
    value = kind(function, mixed, n_samples=200)
    value = value.chosen(value.choose(mixed))
    moments = value.moments(masks, mixed)
    groups = GroupedDraws.of(value.draws, 20)

    def phis(n_samples: int, seed: int, groups: GroupedDraws) -> np.ndarray:
        """(1 + g, n, d): of all draws, then without each group."""
        value.n_samples, value.seed = n_samples, seed
        state = value.prepare(masks, moments)
        means = value.evaluate_without(state, rows, groups).swapaxes(0, 1)
        base = np.broadcast_to(
            value.base_without(state, groups)[:, None, None], (*means.shape[:2], 1, 1)
        )
        full = np.broadcast_to(function(rows)[None, :, None, None], base.shape)
        return np.concatenate([base, full, means], axis=2)[..., 0] @ design.operator

    many = 40_000
    value.n_samples = many
    truth = phis(many, 10_000, GroupedDraws.of(value.draws, 20))[0]
    held, errors, variances = [], [], []
    for seed in range(150):
        found = phis(200, seed, groups)
        moves = groups.scale[:, None, None] * (found[1:] - found[0])
        errors.append(np.square(found[0] - truth))
        variances.append(np.square(moves).sum(axis=0))
        held.append(errors[-1] <= QUANTILE**2 * variances[-1])
    assert np.mean(held) >= 0.92
    assert np.sqrt(np.mean(variances) / np.mean(errors)) == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize(("method", "seeds"), [("random", 300), ("thinning", 12)])
@pytest.mark.parametrize("function", [quadratic, rule, exponential])
def test_twenty_rows_hold_the_values_of_all(method, seeds, function):
    """Backgrounds of 20 of 900 rows; thinned rows are closer than their errors say.

    Of random ones 92.9 to 96.0 % are held over 1,500 seeds, with a standard error of 0.9 % over 300.
    """
    table = np.random.default_rng(5).normal(size=(900, 3))
    table[:, 1] += 0.7 * table[:, 0]
    rows = table[:3]
    design = designs.exact(3)
    masks = design.block(2, 8).masks

    def values(value: Marginal, groups: GroupedDraws | None) -> np.ndarray:
        state = value.prepare(masks)
        if groups is None:
            means = value.evaluate(state, rows)[None]
            base = value.model(value.background).mean(axis=0)[None]
        else:
            means = value.evaluate_without(state, rows, groups).swapaxes(0, 1)
            base = value.base_without(None, groups)
        bases = np.broadcast_to(base[:, None, None], (*means.shape[:2], 1, 1))
        full = np.broadcast_to(function(rows)[None, :, None, None], bases.shape)
        return np.concatenate([bases, full, means], axis=2)[..., 0] @ design.operator

    truth = values(Marginal(function, table), None)[0]
    held = []
    for seed in range(seeds):
        mixed = np.random.default_rng(seed).permutation(table)
        if method == "random":
            value = Marginal(function, mixed[:20], sample_of=900)
        else:
            chosen = dshap.choose_background(mixed, 20, method=method, seed=seed)
            value = Marginal(function, chosen)
        groups = GroupedDraws.of(value.draws, 20)
        found = values(value, groups)
        moves = groups.scale[:, None, None] * (found[1:] - found[0])
        std_error = np.sqrt(np.square(moves).sum(axis=0))
        held.append(np.abs(found[0] - truth) <= QUANTILE * std_error + 1e-12)
    assert np.mean(held) >= 0.92 - 0.01


def test_sampled_coalitions_and_draws_are_in_the_same_replicates():
    """Those of the coalitions, moved by what the draws move φ by."""
    design = designs.kernelshap(7, 100, seed=3)
    background = np.random.default_rng(0).normal(size=(60, 7))
    rows = np.random.default_rng(1).normal(size=(4, 7))

    def explained(**options) -> dshap.Attribution:
        value = Marginal(lambda x: np.prod(1 + 0.5 * x, axis=1), background, **options)
        return dshap.explain(value, rows, design=design, dtype="float64")

    alone, both = explained(), explained(sample_of=10_000)
    assert_array_equal(alone.attribution, both.attribution)
    ratio = (both.std_error / alone.std_error).values
    assert (ratio > 0.5).all()
    assert np.median(ratio) > 1.02
    many = explained(sample_of=60)  # the whole population
    assert_array_equal(many.std_error, alone.std_error)


def test_parts_and_rows_that_fail():
    """Parts of the coalitions add up, and a row that fails alone leaves the others' errors alone."""
    design = designs.kernelshap(D, 2**D)
    whole = drawn(design).attribute(ROWS)
    contraction = drawn(design, parts=((0, 1, 2), (3, 4, 5, 6, 7)))
    parts = [contraction.part(ROWS, index) for index in range(2)]
    assert_allclose(
        contraction.attribute_parts(ROWS, parts).replicates, whole.replicates, rtol=1e-9, atol=1e-12
    )

    def failing(x: np.ndarray) -> np.ndarray:
        if (x[:, 0] == ROWS[2, 0]).any() and (x[:, 1] != ROWS[2, 1]).any():
            raise ValueError("no such mix")
        return model(x)

    value = Marginal(failing, BACKGROUND, sample_of=POPULATION)
    found = drawn(design, value).attribute(ROWS)
    assert found.is_ok.tolist() == [True, True, False, True, True, True]
    is_ok = found.is_ok
    assert_allclose(found.std_error[is_ok], whole.std_error[is_ok], rtol=1e-9, atol=1e-12)


def test_which_attributor_is_made():
    assert type(drawn(designs.exact(D))) is DrawnContraction
    assert type(drawn(designs.exact(D), is_noisy=True)) is DrawnNoisyContraction
    grown = designs.kriging(9, 60)
    assert type(drawn(grown)) is DrawnWholeContraction
    game = game_of(sampled(), designs.kriging(9, 60))
    rounds = attributor_of(game, parts=(), round_tiles=((),), tol=0.1, n_draw_replicates=20)
    assert type(rounds) is DrawnRounds


def test_games_with_processes_of_their_own():
    """φ is that of the processes; the draws go through the shared one, with the same coalitions."""
    rng = np.random.default_rng(2)
    background, rows = rng.normal(size=(30, 9)), rng.normal(size=(5, 9))

    def rough(x: np.ndarray) -> np.ndarray:
        return np.cos(2 * x[:, 0] * x[:, 1] * x[:, 2]) + np.abs(x).prod(axis=1)

    def explained(n: int | None) -> dshap.Dataset:
        value = Marginal(rough, background, sample_of=n)
        return dshap.explain(value, rows, design=designs.kriging(9, 120), dtype="float64")

    alone, both = explained(None), explained(10_000)
    assert_array_equal(alone.attribution, both.attribution)
    exact = dshap.explain(
        Marginal(rough, background, sample_of=10_000), rows, design="exact", dtype="float64"
    )
    ours = np.sqrt(np.maximum(both.std_error.values**2 - alone.std_error.values**2, 0))
    # the cross term of both errors has mean 0, not value 0
    ratio = np.sqrt(np.mean(ours**2) / np.mean(exact.std_error.values**2))
    assert ratio == pytest.approx(1.0, abs=0.4)
    design = designs.kriging(9, 120)
    tuned = design.tuned(design.tune(rng.normal(size=(8, design.pilot_coalitions))))
    assert_array_equal(linear(tuned).block(0, 120).masks, tuned.block(0, 120).masks)


def explained_in_rounds(n: int | None, **options):
    rng = np.random.default_rng(4)
    background, rows = rng.normal(size=(20, 8)), rng.normal(size=(6, 8))
    value = Marginal(lambda x: np.cos(x @ np.arange(8) / 3), background, sample_of=n)
    return dshap.explain(
        value, rows, design=designs.kernelshap(8, 120), tol=0.05, dtype="float64", **options
    )


def test_a_tolerance_does_not_wait_for_the_draws():
    """Rows take the coalitions that they take without draws; the stored error is larger."""
    alone, both = explained_in_rounds(None), explained_in_rounds(100_000)
    assert_array_equal(alone.n_coalitions, both.n_coalitions)
    assert_array_equal(alone.attribution, both.attribution)
    assert (both.relative_error > 0.05).all()
    assert (both.std_error.mean() > 2 * alone.std_error.mean()).item()


def test_draws_of_rows_that_stopped_early_are_those_of_their_round():
    """With every coalition in the last round, a row that takes all has the error of `exact`."""
    both = explained_in_rounds(100_000, max_coalitions=256)
    is_whole = both.n_coalitions.values == 256
    if is_whole.any():
        rng = np.random.default_rng(4)
        background, rows = rng.normal(size=(20, 8)), rng.normal(size=(6, 8))
        value = Marginal(lambda x: np.cos(x @ np.arange(8) / 3), background, sample_of=100_000)
        exact = dshap.explain(value, rows, design="exact", dtype="float64")
        assert_allclose(both.std_error[is_whole], exact.std_error[is_whole], rtol=1e-6)


def test_the_plan_names_the_draws_and_what_to_raise(tmp_path):
    table = np.random.default_rng(0).normal(size=(200, D))
    value = Gaussian(model, table, n_samples=100)

    def reasons(name: str, **options) -> dict[str, str]:
        dshap.explain(value, table[:5], store=tmp_path / name, compute=False, **options)
        return dict(Plan.from_json((tmp_path / name / "state" / "plan.json").read_bytes()).reasons)

    assert reasons("exact")["std_error"] == (
        "includes the error of Gaussian's n_samples=100 (50 antithetic pairs); to make it smaller, "
        "raise n_samples of Gaussian"
    )
    assert "is in std_error but not in tol" in reasons("tol", tol=0.1)["tol"]


@pytest.mark.parametrize(
    "design", [designs.kernelshap(D, 2**D, n_replicates=0), designs.kriging(D, 20, n_replicates=0)]
)
def test_no_errors_where_none_are_asked_for(design):
    assert draw_replicates(sampled(), design.info) == 0
    assert "std_error" not in dshap.explain(sampled(), ROWS, design=design)


def test_a_design_with_other_groups_shares_them():
    cube = dshap.explain(sampled(), ROWS, design=designs.kernelshap(D, 2**D, n_replicates=7))
    by_hand = left_out(lambda background: phi_over(background, designs.exact(D)))
    assert_allclose(cube.std_error, by_hand * QUANTILE / t.ppf(0.975, 6), rtol=1e-5)


@pytest.mark.parametrize("d", [1, 2])
def test_few_players_and_one_row(d):
    """v(empty) moves too: with one player its error is that of the mean prediction."""
    background = np.random.default_rng(0).normal(size=(30, d))
    value = Marginal(lambda x: x.sum(axis=1), background, sample_of=100_000)
    cube = dshap.explain(value, background[:1], dtype="float64")
    by_hand = background.std(axis=0, ddof=1) / np.sqrt(30)
    assert_allclose(cube.std_error[0, :, 0], by_hand, rtol=0.35)  # 20 groups of one or two rows


def test_one_player_of_gaussian_has_no_draws():
    """Its only value beside the prediction is the mean over the data."""
    data = np.random.default_rng(0).normal(size=(30, 1))
    cube = dshap.explain(Gaussian(lambda x: x[:, 0] ** 3, data), data[:2])
    assert not cube.std_error.any()


def test_a_single_background_row_has_no_known_error():
    value = Marginal(model, BACKGROUND[:1], sample_of=POPULATION)
    message = r"a single draw \(1 of 50 rows as background\) has no standard error: give the back"
    with pytest.warns(RuntimeWarning, match=message):
        cube = dshap.explain(value, ROWS)
    assert np.isnan(cube.std_error).all()
    assert cube.attribution.notnull().all()


def test_links_of_means_that_are_0_without_a_group():
    """Half of the way to a probability of 0 is above 0, where a logarithm is finite."""

    def hard(x: np.ndarray) -> np.ndarray:
        return (x[:, 0] > 0.5) * 0.98 + 0.01 * (x[:, 1] > -3)

    background = np.zeros((20, 2))
    background[0] = 1.0  # one row is above
    background[:, 1] = np.r_[0.0, np.full(19, -4.0)]
    value = Marginal(hard, background, sample_of=900, link=Logit())
    cube = dshap.explain(value, np.array([[0.6, -2.0]]))
    assert np.isfinite(cube.std_error).all()
    assert (cube.std_error > 0).any()


def test_a_link_changes_errors_by_its_slope():
    """For groups that differ little, the move of log p is the move of p over p."""
    rng = np.random.default_rng(0)
    background = 1e-3 * rng.normal(size=(40, 3))

    def p(x: np.ndarray) -> np.ndarray:
        return 0.3 + 0.1 * x.sum(axis=1)

    rows = 1e-3 * rng.normal(size=(4, 3))
    plain = dshap.explain(Marginal(p, background, sample_of=900), rows, dtype="float64")
    linked = dshap.explain(
        Marginal(p, background, sample_of=900, link="logit"), rows, dtype="float64"
    )
    assert_allclose(linked.std_error, plain.std_error / (0.3 * 0.7), rtol=1e-2)


def test_a_stochastic_model_over_a_sample():
    rng = np.random.default_rng(0)

    def noisy(x: np.ndarray) -> np.ndarray:
        return x[:, 0] * x[:, 1] + 1e-6 * rng.normal(size=len(x))

    def quiet(x: np.ndarray) -> np.ndarray:
        return x[:, 0] * x[:, 1]

    both = dshap.explain(Marginal(noisy, BACKGROUND, sample_of=50), ROWS, stochastic=True)
    alone = dshap.explain(Marginal(quiet, BACKGROUND, sample_of=50), ROWS)
    assert_allclose(both.std_error, alone.std_error, atol=1e-4)


def test_a_graph_has_the_errors_of_its_draws():
    """It lists all coalitions that it needs, so that the draws alone have an error."""
    cube = dshap.explain(
        sampled(), ROWS, design=designs.local(designs.chain(D), 1), dtype="float64"
    )
    design = designs.local(designs.chain(D), 1)
    assert_allclose(cube.std_error, left_out(lambda each: phi_over(each, design)), rtol=1e-9)


def test_interactions_say_that_their_errors_are_unknown():
    with pytest.warns(
        RuntimeWarning, match="interactions have no standard errors, and are means over 7 of 50 "
    ):
        dshap.explain(sampled(), ROWS, design="exact", interactions=True)


def test_the_plan_counts_the_groups():
    value = sampled()
    design = designs.exact(D)
    work = Work.of(value, design)
    plain = Work.of(Marginal(model, BACKGROUND), design)
    groups = 8 * 21 * 6 * 30 * 2
    assert work.cost(30, 6).task_bytes - plain.cost(30, 6).task_bytes >= 2 * groups
    options = RunOptions.of({})
    assert tiling_of(work, 6, 7, options).draw_replicates == 20
    assert tiling_of(plain, 6, 7, options).draw_replicates == 0


def test_a_subclass_with_values_of_its_own_has_no_draws():
    """Its values would be those of the class above it; with both methods it has draws."""

    class Doubled(Marginal):
        def evaluate(self, state, rows):
            return 2 * super().evaluate(state, rows)

    class Both(Doubled):
        def evaluate_without(self, state, rows, groups):
            return 2 * super().evaluate_without(state, rows, groups)

    class Renamed(Marginal):
        """No values of its own."""

    assert draws_of(Doubled(model, BACKGROUND, sample_of=POPULATION)) is None
    assert draws_of(Both(model, BACKGROUND, sample_of=POPULATION)).n_draws == len(BACKGROUND)
    assert draws_of(Renamed(model, BACKGROUND, sample_of=POPULATION)).n_draws == len(BACKGROUND)


@pytest.mark.parametrize(
    ("background", "sample_of", "message"),
    [
        (BACKGROUND, 6, "sample_of is 6, and the background has 7 rows: give the number of rows"),
        (BACKGROUND, 0, "sample_of is 0"),
        (BACKGROUND, 7.5, "sample_of is 7.5"),
        (
            dshap.choose_background(BACKGROUND, 3),
            9,
            "a Background has the number of rows of its table, 7",
        ),
    ],
)
def test_bad_input(background, sample_of, message):
    with pytest.raises(InputError, match=message):
        Marginal(model, background, sample_of=sample_of)


def test_moves_that_no_group_shares_are_0():
    """Groups beyond the number of draws stay φ."""
    value = sampled()
    values = DrawnValues.of(game_of(value, designs.exact(D)), 20)
    assert values.n_groups == len(BACKGROUND)
    found = drawn(designs.exact(D), value).attribute(ROWS)
    assert_array_equal(found.replicates[7:], np.broadcast_to(found.phi, (13, *found.phi.shape)))


@pytest.mark.parametrize("kind", [Gaussian, Marginal])
def test_measured_bytes_of_the_groups_are_within_the_planned_ones(kind):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(300, 8))
    design = designs.exact(8)
    masks = design.block(2, 256).masks
    if kind is Gaussian:
        value = Gaussian(lambda x: x[:, :3], data, n_samples=100)
        value = value.chosen(value.choose(data))
        state = value.prepare(masks, value.moments(masks, data))
    else:
        value = Marginal(lambda x: x[:, :3], data[:20], sample_of=300)
        state = value.prepare(masks)
    values = DrawnValues(
        game_of(value, design, n_outputs=3), value, GroupedDraws.of(value.draws, 20), 20
    )
    rows = data[:16]
    values.with_moves(state, rows)  # loops are compiled
    tracemalloc.start()
    values.with_moves(state, rows)
    measured = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert measured <= Work.of(value, design).cost(254, 16).task_bytes <= 4 * measured
