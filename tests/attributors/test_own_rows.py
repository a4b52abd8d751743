"""A background row for each pair of orders: by definition, and against all rows of the background."""

import math
from functools import cache, partial

import numpy as np
import pytest

import dshap
from dshap.attributors.choice import choose
from dshap.attributors.method import Listed
from dshap.attributors.own_rows import FEW_ROWS, OwnRows, PairedRows
from dshap.core.errors import FailedBlocksError, InputError
from dshap.core.options import RunOptions
from dshap.designs import permutation
from dshap.engine.tiles import BLACK_BOX_TASKS
from dshap.run.identity import settle
from dshap.tables import ArraySource
from dshap.values import Marginal

D = 5
ROWS = 2_000


@cache
def table():
    rng = np.random.default_rng(0)
    mixing = np.eye(D) + 0.4 * rng.normal(size=(D, D))
    return rng.normal(size=(ROWS + 30, D)) @ mixing


def model(x):
    """A game with interactions of two, three and all players."""
    return (
        np.sin(x[:, 0]) * x[:, 1]
        + np.maximum(x[:, 2], 0) * x[:, 3] * x[:, 0]
        + x[:, 4] ** 2
        + 0.2 * np.tanh(x).prod(axis=1)
    )


def two_outputs(x):
    return np.column_stack([model(x), 1 - 2 * model(x)])


def value(predict=model, **options):
    return Marginal(predict, table()[:ROWS], **options)


def explained(n_permutations, seed=0, rows=None, predict=model, **options):
    rows = table()[ROWS:] if rows is None else rows
    design = permutation(D, n_permutations, seed=seed)
    return dshap.explain(value(predict), rows, design=design, progress=False, **options)


@cache
def exact():
    """Attributions over all rows of the background (n, d)."""
    cube = dshap.explain(value(), table()[ROWS:], design="exact", progress=False)
    return cube.attribution.values[..., 0]


def test_contributions_by_definition():
    """Each pair: what a player adds along an order and its reversal, from a row to another."""
    players = {"two": ["x0", "x1"]}
    of_groups = value(two_outputs, players=players)
    design = permutation(4, 100, seed=3)
    pairs = PairedRows(of_groups, design)
    pairs = pairs.chosen(pairs.choose(table()[:60]))
    x = table()[ROWS : ROWS + 2]
    found = pairs.contributions(x, two_outputs(x), slice(7, 9))
    assert found.shape == (2, 2, 4, 2)
    for row, pair in np.ndindex(2, 2):
        expected = np.zeros((4, 2))
        for order in design.orders[7 + pair]:
            mixed = pairs.drawn["rows"][7 + pair].copy()
            before = two_outputs(mixed[None])[0]
            for player in order:
                mixed[of_groups.players.members[player]] = x[row][of_groups.players.members[player]]
                after = two_outputs(mixed[None])[0]
                expected[player] += (after - before) / 2
                before = after
        np.testing.assert_allclose(found[row, pair], expected, atol=1e-12)


def test_rows_are_drawn_once_and_dealt_in_turn_where_they_are_few():
    pairs = PairedRows(value(), permutation(D, 120, seed=1))
    many = pairs.choose(table()[:60])["rows"]
    assert len(np.unique(many, axis=0)) == 60
    assert not np.array_equal(many, table()[:60])  # dealt at random
    few = pairs.choose(table()[:7])["rows"]
    counts = np.unique(few, axis=0, return_counts=True)[1]
    assert sorted(counts) == [8] * 3 + [9] * 4
    with pytest.raises(
        InputError, match=r"60 pairs of orders .* none of those drawn is free of NaN"
    ):
        pairs.choose(table()[:0])
    with pytest.raises(InputError, match="not drawn yet"):
        _ = pairs.drawn


@pytest.mark.parametrize("n_permutations", [100, 102, 1_000])
def test_attributions_sum_to_the_prediction_less_the_mean_over_all_rows(n_permutations):
    cube = explained(n_permutations, predict=two_outputs)
    base = two_outputs(table()[:ROWS]).mean(axis=0)
    np.testing.assert_allclose(cube.base_value, base, rtol=1e-12)
    total = cube.attribution.sum("feature") + cube.base_value
    np.testing.assert_allclose(total, two_outputs(table()[ROWS:]), atol=1e-6)


def test_mean_over_seeds_and_intervals():
    """30 seeds: the mean is the value over all rows within the bias of the weights; the intervals
    hold 92 % or more of them, of 4,500 numbers in 30 independent draws."""
    cubes = [explained(300, seed) for seed in range(30)]
    errors = np.stack([cube.attribution.values[..., 0] for cube in cubes]) - exact()
    stated = np.stack([cube.std_error.values[..., 0] for cube in cubes])
    held = (np.abs(errors) <= 2.09 * stated).mean()
    assert held >= 0.92
    root_mean_square = np.sqrt(np.square(errors).mean())
    bias = np.sqrt(np.square(errors.mean(axis=0)).mean())
    assert bias < 0.4 * root_mean_square  # 1/√30 = 0.18 of it without any bias
    assert 0.7 < np.sqrt(np.square(stated).mean()) / root_mean_square < 1.5


def test_less_error_than_as_many_calls_of_a_fixed_background():
    """100 pairs of own rows: 800 calls.  100 fixed rows take as many for 8 coalitions."""
    fixed = [
        dshap.explain(
            Marginal(model, table()[100 * i : 100 * i + 100]),
            table()[ROWS:],
            design="exact",
            progress=False,
        )
        for i in range(8)
    ]
    own = [explained(200, seed) for seed in range(8)]
    error_of_fixed, error_of_own = (
        np.sqrt(np.mean([np.square(cube.attribution.values[..., 0] - exact()) for cube in cubes]))
        for cubes in (fixed, own)
    )
    assert error_of_own < error_of_fixed  # although fixed evaluates all 30 coalitions


@pytest.mark.parametrize("n_pairs", [500, 800, 950])
def test_errors_of_pairs_that_draw_most_of_the_rows(n_pairs):
    """The variance of rows drawn without replacement is (1 − P/N) of that of independent ones, that
    of the orders stays: the jackknife, which cannot tell them apart, is too large, by at most
    1/√(1 − P/N).  20 draws: the ratio is known to about 10 %."""
    background = table()[:FEW_ROWS]
    of_value = Marginal(model, background)
    rows = table()[ROWS : ROWS + 10]
    truth = dshap.explain(of_value, rows, design="exact", progress=False).attribution
    cubes = [
        dshap.explain(of_value, rows, design=permutation(D, 2 * n_pairs, seed=seed), progress=False)
        for seed in range(20)
    ]
    errors = np.stack([cube.attribution.values - truth.values for cube in cubes])
    stated = np.stack([cube.std_error.values for cube in cubes])
    ratio = np.sqrt(np.square(stated).mean() / np.square(errors).mean())
    assert 1.1 < ratio < 1.1 / np.sqrt(1 - n_pairs / FEW_ROWS)
    assert (np.abs(errors) <= 2.09 * stated).mean() >= 0.95


class Twice(Marginal):
    """A value function of a user's, with other values."""

    def evaluate(self, state, rows):
        return 2 * super().evaluate(state, rows)


@pytest.mark.parametrize(
    ("given", "n_permutations", "is_own"),
    [
        (lambda: value(), 100, True),
        (lambda: value(), 98, False),  # 49 pairs have no standard errors
        (lambda: value(), 2 * (ROWS - 1), True),
        (lambda: value(), 2 * ROWS, False),  # as many pairs as rows
        (lambda: value(weights=np.ones(ROWS)), 100, False),
        (lambda: value(sample_of=3_000), 100, False),
        (lambda: value(lambda x: 1 / (1 + np.exp(-model(x))), link="logit"), 100, False),
        (lambda: Twice(model, table()), 100, False),
        (lambda: value(players={"all": [0, 1, 2, 3, 4]}), 100, False),
        (lambda: Marginal(model, table()[:FEW_ROWS]), 100, True),
        (lambda: Marginal(model, table()[: FEW_ROWS - 1]), 100, False),
        (lambda: Marginal(model, table()[:1]), 100, False),
        (lambda: Marginal(model, "rows.parquet", feature_names=list("abcde")), 10_000, True),
    ],
)
def test_the_choice(given, n_permutations, is_own):
    of_value = given()
    method = choose(permutation(len(of_value.players), n_permutations), of_value, None)
    assert isinstance(method, OwnRows if is_own else Listed)
    assert (method.fingerprint().get("background_rows") == "own") == is_own


@pytest.mark.parametrize(
    ("given", "options", "why"),
    [
        (lambda: value(players={"all": [0, 1, 2, 3, 4]}), {}, "the game has one player"),
        (
            lambda: value(lambda x: 1 / (1 + np.exp(-model(x))), link="logit"),
            {},
            "the link applies to the mean over the rows",
        ),
        (lambda: value(weights=np.ones(ROWS)), {}, "the rows have weights"),
        (
            lambda: value(sample_of=3_000),
            {},
            "std_error includes the error of a sample of rows",
        ),
        (value, {"n_replicates": 0}, "the design has n_replicates=0, and so no standard errors"),
        (value, {"n_permutations": 98}, "49 pairs of orders: too few for standard errors"),
        (lambda: Marginal(model, table()[:40]), {}, "the background has fewer than 1,000 rows"),
        (
            value,
            {"n_permutations": 2 * ROWS},
            "2,000 pairs of orders need more than 2,000 rows",
        ),
    ],
)
def test_the_plan_says_why_all_rows_are_averaged(given, options, why):
    of_value = given()
    design = permutation(len(of_value.players), **{"n_permutations": 100, **options})
    method = choose(design, of_value, None)
    assert method.why == f"given; all background rows for every coalition: {why}"


def plan_of(n_permutations, rows=None, background=None, **options):
    """The plan of explaining rows, with a background in memory or read by spans."""
    rows = table()[ROWS:] if rows is None else rows
    if background is None:
        of_value, background = value(), table()[:ROWS]
    else:
        of_value = Marginal(model, ArraySource(background))
    design = permutation(D, n_permutations)
    settled = settle(of_value, RunOptions(**options), design, 0, len(rows))
    return settled.plan(ArraySource(rows), ArraySource(background))


@pytest.mark.parametrize(("n_pairs", "is_short"), [(80, False), (81, True)])
def test_the_plan_of_a_table_with_fewer_rows_than_pairs(n_pairs, is_short):
    plan = str(plan_of(2 * n_pairs, background=table()[:80]))
    line = "background: 80 rows are fewer than 81 pairs of orders, and are assigned to the pairs in turn"
    assert (line in plan) == is_short
    assert ("background: " in plan) == is_short


def test_the_choice_without_standard_errors():
    assert isinstance(choose(permutation(D, 200, n_replicates=0), value(), None), Listed)
    assert isinstance(choose("kriging", value(), 20), Listed)


def test_the_design_by_name():
    """Twelve players: 2,048 coalitions are 93 pairs."""
    x = np.random.default_rng(0).normal(size=(FEW_ROWS, 12))
    wide = Marginal(lambda rows: rows.sum(axis=1), x)
    assert isinstance(choose("permutation", wide, None), OwnRows)
    assert isinstance(choose("auto", wide, None), Listed)


def test_the_plan_states_the_predictions_of_a_row():
    method = choose(permutation(D, 124), value(), None)
    assert method.learner.cost(3).predictions == 3 * 62 * 8
    assert method.why == (
        "given, with a background row for each of 62 pairs of orders: 496 predictions a row"
    )


def test_calls_of_the_model():
    """2 (d − 1) predictions for each pair and row; not one for each row of the background."""
    seen = []

    def counted(x):
        seen.append(len(x))
        return model(x)

    explained(100, predict=counted)
    of_pairs = 50 * 2 * (D - 1) * 30
    assert of_pairs < sum(seen) < of_pairs + 3 * ROWS


@pytest.mark.parametrize("antithetic", [True, False])
def test_single_orders_too(antithetic):
    design = permutation(D, 600, antithetic=antithetic, seed=1)
    cube = dshap.explain(value(), table()[ROWS:], design=design, progress=False)
    error = cube.attribution.values[..., 0] - exact()
    assert np.sqrt(np.square(error).mean() / np.square(exact()).mean()) < 0.15


def test_a_row_has_the_same_bits_alone():
    """Blocks of pairs follow from the parts and the micro-block of the plan, not from the rows."""
    options = {"micro_rows": 8, "coalition_groups": 4, "dtype": "float64"}
    together = explained(1_000, **options)
    alone = explained(1_000, rows=table()[ROWS : ROWS + 3], **options)
    assert np.array_equal(together.attribution[:3], alone.attribution)
    assert np.array_equal(together.std_error[:3], alone.std_error)


def test_two_workers_give_the_same_bits(client, tmp_path):
    rows = np.tile(table()[ROWS:], (3, 1))
    here = explained(100, rows=rows, dtype="float64")
    there = explained(100, rows=rows, dtype="float64", client=client, store=tmp_path / "store")
    assert np.array_equal(here.attribution, there.attribution)
    assert np.array_equal(here.std_error, there.std_error)


def test_a_background_in_a_file(tmp_path):
    """A background that is read by spans draws the same rows, and gives the same numbers."""
    pd = pytest.importorskip("pandas")
    names = [f"x{j}" for j in range(D)]
    pd.DataFrame(table()[:ROWS], columns=names).to_parquet(tmp_path / "background.parquet")
    streamed = Marginal(model, tmp_path / "background.parquet", feature_names=names)
    design = permutation(D, 200, seed=4)
    of_file = dshap.explain(streamed, table()[ROWS:], design=design, progress=False)
    of_memory = explained(200, seed=4)
    np.testing.assert_array_equal(of_file.attribution, of_memory.attribution)
    np.testing.assert_array_equal(of_file.std_error, of_memory.std_error)


@pytest.mark.parametrize("n_groups", [1, 3, 8, 80])
def test_tasks_share_the_pairs_of_few_rows(n_groups, client, tmp_path):
    """Any number of parts gives the same numbers to rounding; a cluster and one process the same
    bits.  A part has at least 1,000 predictions for a row, here 125 of 1,000 pairs."""
    rows = table()[ROWS : ROWS + 3]
    options = {"rows": rows, "dtype": "float64", "coalition_groups": n_groups}
    here = explained(2_000, **options)
    there = explained(2_000, client=client, store=tmp_path / "store", **options)
    whole = explained(2_000, rows=rows, dtype="float64", coalition_groups=1)
    assert np.array_equal(here.attribution, there.attribution)
    assert np.array_equal(here.std_error, there.std_error)
    np.testing.assert_allclose(here.attribution, whole.attribution, atol=1e-12)
    np.testing.assert_allclose(here.std_error, whole.std_error, atol=1e-12)
    plan = plan_of(2_000, rows=rows, coalition_groups=n_groups)
    assert plan.coalition_groups == min(n_groups, 8)


@pytest.mark.parametrize(
    ("n_permutations", "copies", "n_parts"),
    [(498, 1, 1), (500, 1, 2), (2_000, 1, 8), (2_000, 40, 1)],
)
def test_few_rows_of_many_pairs_are_cut_into_parts(n_permutations, copies, n_parts):
    assert BLACK_BOX_TASKS == 8
    rows = np.tile(table()[ROWS : ROWS + 10], (copies, 1))
    assert plan_of(n_permutations, rows=rows).coalition_groups == n_parts


def test_a_row_that_fails_for_some_pairs_is_left_out_of_all_parts(tmp_path):
    rows = table()[ROWS : ROWS + 4].copy()
    rows[2, :2] = 1e6

    def failing(x):
        if ((x[:, 0] > 1e5) & (x[:, 1] < 1e5)).any():
            raise ValueError("one without the other")
        return model(np.minimum(x, 10))

    options = {"rows": rows, "predict": failing, "coalition_groups": 4}
    with pytest.raises(FailedBlocksError, match="1 of 4 rows"):
        explained(1_000, store=tmp_path / "store", **options)
    cube = dshap.open_cube(tmp_path / "store")
    assert np.isnan(cube.attribution[2]).all()
    others = [0, 1, 3]
    of_others = explained(1_000, **{**options, "rows": rows[others]})
    np.testing.assert_allclose(cube.attribution[others], of_others.attribution, atol=1e-6)


def test_columns_of_text():
    """A data frame with text: pairs mix its codes, and the model gets frames with text."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "job": np.array(["cook", "pilot", "vet"], dtype=object)[rng.integers(3, size=1_200)],
            "age": rng.normal(size=1_200),
            "pay": rng.normal(size=1_200),
        }
    )

    def paid(rows):
        assert set(rows.job) <= {"cook", "pilot", "vet"}
        return (rows.job == "pilot") * rows.age * rows.pay + rows.age

    of_value = Marginal(paid, frame)
    explain = partial(dshap.explain, of_value, frame[:20], progress=False)
    found = explain(design=permutation(3, 1_000))
    assert isinstance(choose(permutation(3, 1_000), of_value, None), OwnRows)
    error = found.attribution - explain(design="exact").attribution
    assert float((abs(error) <= 2.09 * found.std_error).mean()) > 0.9
    assert float(found.std_error.mean()) < 0.1


def test_rows_that_fail_are_left_out(tmp_path):
    rows = table()[ROWS:].copy()
    rows[4, 2] = 1e6

    def failing(x):
        if (x[:, 2] > 1e5).any():
            raise ValueError("too large")
        return model(x)

    with pytest.raises(FailedBlocksError, match="1 of 30 rows"):
        explained(100, rows=rows, predict=failing, store=tmp_path / "store")
    cube = dshap.open_cube(tmp_path / "store")
    others = np.delete(np.arange(30), 4)
    assert np.isnan(cube.attribution[4]).all()
    whole = explained(100)
    np.testing.assert_allclose(cube.attribution[others], whole.attribution[others], atol=1e-6)


def test_columns_of_players_and_constant_columns():
    rows = table()[ROWS:].copy()
    background = table()[:ROWS].copy()
    rows[:, 4] = background[:, 4] = 1.5
    of_value = Marginal(model, background, players={"two": [0, 1]})
    cube = dshap.explain(of_value, rows, design=permutation(4, 200), progress=False)
    assert (cube.attribution.sel(feature="x4") == 0).all()
    total = cube.attribution.sum("feature") + cube.base_value
    np.testing.assert_allclose(total[:, 0], model(rows), atol=1e-6)


def test_a_model_that_ignores_all_but_rare_rows():
    """f is 1 for one row of 2,000: pairs that missed it state an error, and efficiency holds."""
    background = table()[:ROWS].copy()
    background[77, 0] = 99.0

    def rare(x):
        return (x[:, 0] > 50).astype(float)

    design = permutation(D, 100, seed=0)
    cube = dshap.explain(Marginal(rare, background), table()[ROWS:], design=design, progress=False)
    np.testing.assert_allclose(cube.base_value, 1 / ROWS)
    np.testing.assert_allclose(cube.attribution.sum("feature"), -1 / ROWS, atol=1e-9)
    assert (cube.std_error >= 0.99 / ROWS).all()


def test_a_stochastic_model_and_quality_take_all_rows():
    method = choose(permutation(D, 124), value(), None)
    assert isinstance(method.of_noisy_model(), Listed)
    assert isinstance(method.measurable(), Listed)
    for ask in ("tol", "interactions"):
        with pytest.raises(InputError, match="permutation"):
            method.refuse(ask)


def test_its_cost_bounds_its_arrays():
    pairs = PairedRows(value(), permutation(D, 2_000))
    assert math.isinf(pairs.cost(8).operations)
    assert pairs.cost(64).task_bytes < 2 * pairs.cost(1_024).task_bytes
