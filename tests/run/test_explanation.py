"""`dshap.explain` end to end, in this process: what a user asks for, and what a user gets wrong."""

from __future__ import annotations

import itertools
import json
import math
import re

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import dshap
from dshap.core.blocks import Status
from dshap.core.errors import (
    DoesNotFitError,
    DshapError,
    FailedBlocksError,
    InputError,
    LockedError,
    PredictError,
    StoreMismatchError,
)
from dshap.core.options import RunOptions
from dshap.core.records import Record
from dshap.cube import cube_status, feature_ranking, kept_row, open_cube, read_run, verify_cube
from dshap.designs import exact, kernelshap, kriging, permutation
from dshap.designs.kriging.tuning import FINE_DECAYS
from dshap.kernels import RBF, Categorical, Nystrom, Product
from dshap.models import KernelExpansion, KernelRidge
from dshap.run.identity import settle
from dshap.tables import ParquetSource
from dshap.values import (
    ConditionalRegression,
    Gaussian,
    KernelInterventional,
    KernelObservational,
    Marginal,
)
from tests.cube.cubes import bytes_of

pytestmark = pytest.mark.usefixtures("in_this_process")

D, N_ROWS, TILE = 4, 90, 32
NAMES = ["a", "b", "c", "const"]
COALITIONS = [frozenset(s) for size in range(D + 1) for s in itertools.combinations(range(D), size)]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(N_ROWS, 3)), columns=NAMES[:3])
    frame["const"] = 2.5
    return frame.assign(id=[f"row-{i}" for i in range(N_ROWS)])


def f(x):
    """Interactions of every order; the last column is constant in the data and used all the
    same."""
    a, b, c, const = x.T
    return np.sin(a) * b + a * b * c + c**2 + const * (1 + a * b * c)


def two_outputs(x):
    return np.column_stack([f(x), x[:, 0] - 3 * x[:, 1]])


def marginal(frame, predict=f, **options):
    return Marginal(predict, frame[NAMES].iloc[:25], **options)


def kernel_model(n_outputs=1, d=D):
    rng = np.random.default_rng(2)
    kernel = Product([RBF(1.2)] * (d - 1) + [Categorical(0.4)]).bind(d)
    landmarks = np.column_stack([rng.normal(size=(15, d - 1)), np.full(15, 2.5)])
    weights = rng.normal(size=(15, n_outputs))
    return KernelExpansion(
        kernel, landmarks, weights, np.zeros(n_outputs), feature_names=tuple(NAMES)
    )


VALUES = {
    "marginal": lambda frame: marginal(frame),
    "two outputs": lambda frame: marginal(frame, two_outputs),
    "interventional": lambda frame: KernelInterventional(kernel_model(2), frame[NAMES]),
    "observational": lambda frame: KernelObservational(
        kernel_model(), frame[NAMES], Nystrom(20), penalty=1e-3
    ),
}


def brute_force(worth):
    """Σ_S s!(d−s−1)!/d! (v(S ∪ i) − v(S)) for a mapping coalition -> value."""
    phi = np.zeros(D)
    for i, s in itertools.product(range(D), COALITIONS):
        if i not in s:
            weight = math.factorial(len(s)) * math.factorial(D - len(s) - 1) / math.factorial(D)
            phi[i] += weight * (worth[s | {i}] - worth[s])
    return phi


# what is right


@pytest.mark.slow
@pytest.mark.parametrize(
    "design", [exact(D), kernelshap(D, 12, seed=3)], ids=["exact", "kernelshap"]
)
@pytest.mark.parametrize("name", VALUES)
def test_every_row_adds_up_and_a_constant_column_gets_nothing(frame, name, design):
    """Σφ + base = f(x) to a few roundings.  A constant column is no player of the game: exactly
    0."""
    cube = dshap.explain(VALUES[name](frame), frame, key="id", design=design)
    gap = cube.attribution.sum("feature") + cube.base_value - cube.prediction
    assert float(abs(gap).max()) < 1e-12 * float(abs(cube.prediction).max())
    assert (cube.status == Status.OK).all()
    assert (cube.id.values == frame.id.to_numpy()).all()
    assert (cube.attribution.sel(feature="const") == 0.0).all()
    assert (
        float(abs(cube.attribution).max(("instance", "output")).sel(feature=NAMES[:3]).min()) > 0.01
    )


SAMPLED = {
    "kernelshap": kernelshap(8, 120, seed=3),
    "with replacement": kernelshap(8, 120, sampling="kernel", seed=3),
    "permutation": permutation(8, 100, seed=3),
    "kriging": kriging(8, 120, decay=0.1, seed=3),
}


def eight(x):
    """Interactions of every order of eight columns, two outputs."""
    return np.column_stack(
        [np.sin(x[:, :4].sum(1)) + np.prod(x + 1.5, axis=1), np.exp(x.mean(axis=1)) * x[:, 0]]
    )


@pytest.fixture(scope="module")
def wide():
    return np.random.default_rng(8).normal(size=(70, 8)) * 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"coalition_groups": 3, "coalition_tile": 10, "instance_tile": 32}], ids=str
)
@pytest.mark.parametrize("name", SAMPLED)
def test_standard_errors_in_the_cube(wide, tmp_path, name, options):
    """Against the whole sum in one piece: values of every coalition by the plug-in background,
    scores, groups; however the run is cut.  The error of a global mean comes from the groups of all
    rows together, so it is that of the mean of the replicates, which is never std_error/√n."""
    design, background = SAMPLED[name], np.full((1, 8), 0.3)
    store = tmp_path / "cube.zarr"
    cube = dshap.explain(Marginal(eight, background), wide, design=design, store=store, **options)
    block = design.block(0, design.n_coalitions)
    mixed = np.where(block.masks[None], wide[:, None], background[0])  # (n, m, 8)
    values = eight(mixed.reshape(-1, 8)).reshape(70, -1, 2)
    groups = np.zeros((design.info.n_replicates, 70, design.info.group_columns, 2))
    for at, group, score in zip(*block.groups, strict=True):
        groups[group] += score[:, None] * values[:, at, None]
    sums = np.einsum("md,nmk->ndk", block.score, values)
    ends = values[:, 0], values[:, 1]
    phi, replicates = design.finish(sums, *ends), design.replicates(sums, groups, *ends)
    np.testing.assert_allclose(cube.attribution, phi, atol=1e-11)
    assert cube.std_error.dims == ("instance", "feature", "output")
    assert "std_error" in cube.attribution.ancillary_variables
    np.testing.assert_allclose(
        cube.std_error, np.sqrt(((replicates - phi) ** 2).sum(axis=0)), atol=1e-11
    )
    ranking = feature_ranking(store)
    variance = ((replicates - phi) ** 2).sum(axis=0).mean(axis=0)  # (d, k)
    square = np.array([(own**2).mean(axis=0) for own in (phi, *replicates)])
    np.testing.assert_allclose(ranking["mean"], phi.mean(axis=0), atol=1e-11)
    np.testing.assert_allclose(ranking.mean_square, np.maximum(square[0] - variance, 0), atol=1e-11)
    np.testing.assert_allclose(ranking.root_mean_square, ranking.mean_square**0.5, atol=1e-11)
    error = np.sqrt(((replicates - phi).mean(axis=1) ** 2).sum(axis=0))
    np.testing.assert_allclose(ranking.mean_std_error, error, atol=1e-11)
    error = np.sqrt(((square[1:] - square[0]) ** 2).sum(axis=0) + 2 * variance**2)
    np.testing.assert_allclose(ranking.mean_square_std_error, error, atol=1e-11)
    assert verify_cube(store) == []


@pytest.mark.slow
def test_a_pilot_chooses_decay_and_relevance_of_kriging(wide, tmp_path):
    """From the values of one row in sixteen, evenly spaced: the same as by hand; noted in the cube
    and used in it."""
    design, store = kriging(8, 120, seed=3), tmp_path / "cube.zarr"
    value = Marginal(eight, wide[:10])
    cube = dshap.explain(value, wide, design=design, store=store)
    tuned = design
    # the first coalitions, which settle the list, of more rows, then all of it
    while tuned.pilot_coalitions:
        n_pilot = 4 * (120 // tuned.pilot_coalitions)
        chosen = wide[np.linspace(0, 69, n_pilot).round().astype(int)]
        masks = tuned.block(0, tuned.pilot_coalitions).masks
        # (rows, m, 10, 8)
        values = np.where(masks[None, :, None], chosen[:, None, None], value.background)
        games = np.moveaxis(
            eight(values.reshape(-1, 8)).reshape(n_pilot, -1, 10, 2).mean(axis=2), 2, 1
        )
        games = games.reshape(2 * n_pilot, -1)
        tuned = tuned.tuned(tuned.tune(games))
    noted = json.loads(cube.attrs["pilot"])
    assert noted["decay"] == tuned.findings.decay != 0.03
    assert len(set(tuned.findings.relevance)) == 8
    assert noted["later_shells"] == tuned.findings.later_shells
    assert noted["variation"] == tuned.findings.variation
    np.testing.assert_allclose(noted["relevance"], tuned.findings.relevance, rtol=1e-9)
    given = dshap.explain(value, wide, design=tuned)
    np.testing.assert_allclose(cube.attribution, given.attribution, atol=1e-9)
    alike = dshap.explain(value, wide, design=kriging(8, 120, decay=tuned.findings.decay, seed=3))
    assert abs(alike.attribution - given.attribution).max() > 1e-6
    before = bytes_of(store)
    dshap.explain(value, wide, design=design, store=store)
    assert bytes_of(store) == before


@pytest.mark.slow
@pytest.mark.parametrize("takes", [0, 1])
def test_a_scouted_list_may_be_drawn_anew(takes, tmp_path):
    """130 coalitions of 30 columns.  Interactions of three, learned from data: size 1 is whole; the
    largest column: the list goes on.  The cube is that of the settled design; a finished run does
    nothing, a run whose last choice is lost makes it again."""
    rng, d = np.random.default_rng(3), 30
    terms, weights = [rng.permutation(d)[:3] for _ in range(180)], rng.normal(size=180)
    x = rng.uniform(0.8, 1.2, (300, d))

    def f(rows):
        if not takes:
            return rows.max(axis=1)
        return np.stack([rows[:, term].prod(axis=1) for term in terms], axis=1) @ weights

    value = (
        ConditionalRegression(f, x, RBF("median"), Nystrom(20))
        if takes
        else Marginal(f, np.zeros((1, d)))
    )
    rows, design, store = x[:6], kriging(d, 130, seed=1), tmp_path / "cube.zarr"
    cube = dshap.explain(value, rows, design=design, store=store)
    noted = json.loads(cube.attrs["pilot"])
    assert noted["later_shells"] == takes
    chosen = design.tuned(Record({name: np.array(noted[name]) for name in noted}))
    assert (np.count_nonzero(chosen.masks.sum(axis=1) == 1) == d) == bool(takes)
    given = dshap.explain(value, rows, design=chosen)
    np.testing.assert_allclose(cube.attribution, given.attribution, atol=1e-9)
    np.testing.assert_allclose(cube.std_error, given.std_error, atol=1e-9)
    before = bytes_of(store)
    dshap.explain(value, rows, design=design, store=store)
    assert bytes_of(store) == before
    pilots = sorted(store.glob("state/pilot-*"))
    assert len(pilots) == 2
    pilots[-1].unlink()
    again = dshap.explain(value, rows, design=design, store=store)
    np.testing.assert_array_equal(again.attribution, cube.attribution)


def test_a_pilot_leaves_out_rows_that_the_model_fails_on(wide):
    """The failing row is its own block's matter (the last one: the first 64 are tried
    beforehand)."""

    def fails(x):
        if (np.abs(x - wide[69]).max(axis=1) < 1e-12).any():
            raise ValueError("no such row")
        return eight(x)

    with pytest.raises(FailedBlocksError, match="1 of 3 blocks"):
        dshap.explain(Marginal(fails, wide[1:3]), wide, design=kriging(8, 60), instance_tile=32)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "n_pilot"), [(2, 2), (3, 3), (31, 3), (48, 3), (64, 4)])
def test_few_rows_have_a_pilot_of_three(wide, n, n_pilot):
    """Their values once more, of the first part of the list twice; of 64 rows four, one in sixteen.
    The model is tried on up to 16 rows, three times, and on four of them alone."""
    calls = []

    def counted(x):
        calls.append(len(x))
        return eight(x)

    value = Marginal(counted, wide[:2])
    calls.clear()
    cube = dshap.explain(value, wide[:n], design=kriging(8, 200))
    first = kriging(8, 200).pilot_coalitions - 2
    n_first = min(n, 16, n_pilot * (200 // (first + 2)))
    assert (
        sum(calls)
        <= (n + n_pilot) * 198 * 2
        + n_first * (first * 2 + 2)
        + 2 * n_pilot
        + min(64, n)
        + n
        + 2
        + 52
    )
    assert json.loads(cube.attrs["pilot"])["decay"] in FINE_DECAYS


def test_auto_takes_kriging_above_exact():
    """Fifteen players: 2^15 coalitions are more than 2,048."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4, 15))
    cube = dshap.explain(
        Marginal(lambda x: x.prod(axis=1) + x[:, 0], rows), rows, max_coalitions=100
    )
    run = json.loads(cube.attrs["dshap_run"])["fingerprint"]["design"]
    assert run["design"] == "kriging"
    assert run["budgets"] == [100]
    assert float(cube.std_error.max()) > 0


def settled_for(value, n_rows, design="auto"):
    """What is chosen for so many rows, and the reason that names them."""
    settled = settle(value, RunOptions(), design, 0, n_rows)
    return settled.method.design, dict(settled.reasons).get("rows", "")


@pytest.mark.parametrize("kind", ["a background of 20", "a background of 200", "regression"])
def test_rows_share_a_process_where_one_each_takes_longer(kind):
    """With 2,048 coalitions of 20 columns one each takes 90 ms: 1,000 rows have it, 3,000 only of a
    background whose predictions are held to take more; of sums that call no model, which take less,
    never so many."""
    x = np.random.default_rng(0).normal(size=(200, 20))
    if kind == "regression":
        value = ConditionalRegression(lambda x: x[:, 0], x, RBF(1.0), Nystrom(10))
    else:
        value = Marginal(lambda x: x[:, 0], x[: 20 if kind == "a background of 20" else 200])
    for design in ("auto", "kriging", kriging(20, 2_048)):
        few, why = settled_for(value, 1_000, design)
        assert few.held_coalitions == 2_048
        assert why == ""
        many, why = settled_for(value, 3_000, design)
        if kind == "a background of 200":
            assert many == few
            assert why == ""
        else:
            assert many == few.linear() != few
            assert many.pilot_coalitions > 0
            assert re.fullmatch(
                r"share a Gaussian process: a separate one for each row would take [4-6] minutes "
                r".*sparse=True\) leaves .*",
                why,
            )
    assert (
        settled_for(value, 10**7, "kernelshap")[1]
        == settled_for(value, 10**7, kriging(20, 2_048, sparse=True))[1]
        == ""
    )


def test_what_a_black_box_predicts():
    """Rows × coalitions × background rows, or draws."""
    x = np.random.default_rng(0).normal(size=(30, 4))
    assert Marginal(lambda x: x[:, 0], x).cost(10, 7).predictions == 10 * 7 * 30
    assert Gaussian(lambda x: x[:, 0], x, n_samples=50).cost(10, 7).predictions == 10 * 7 * 50
    assert (
        ConditionalRegression(lambda x: x[:, 0], x, RBF(1.0), Nystrom(5)).cost(10, 7).predictions
        == 0
    )


@pytest.mark.parametrize(
    "order", [NAMES, ["a", "const", "b", "c"]], ids=["constant last", "constant within"]
)
@pytest.mark.parametrize(
    "options", [{}, {"coalition_groups": 2, "coalition_tile": 3, "dtype": "float32"}], ids=str
)
def test_interactions_by_the_definition(frame, tmp_path, options, order):
    """Three columns that vary: half the index by the definition beside the diagonal, rows summing
    to the attribution; a constant column, wherever it stands, has nothing."""
    rows, background = frame[NAMES].iloc[:40], frame[NAMES].iloc[50:51]
    store, at = tmp_path / "cube.zarr", [order.index(name) for name in NAMES]
    value = Marginal(lambda own: two_outputs(own[:, at]), background[order])
    cube = dshap.explain(value, rows, interactions=True, store=store, **options)
    assert cube.interaction.dims == ("instance", "feature", "feature_other", "output")
    assert verify_cube(store) == []
    assert list(cube.feature_other.values) == order
    found, x, z = (
        cube.interaction.values[:, at][:, :, at],
        rows.to_numpy(),
        background.to_numpy()[0],
    )

    def worth(players):
        return two_outputs(np.where(np.isin(np.arange(4), list(players)), x, z))  # (n, 2)

    for i, j in itertools.combinations(range(3), 2):
        k = 3 - i - j  # the third player: each of its two coalitions weighs 1/2
        index = (
            sum(
                worth({i, j, *s}) - worth({i, *s}) - worth({j, *s}) + worth(s) for s in (set(), {k})
            )
            / 2
        )
        np.testing.assert_allclose(found[:, i, j], index / 2, atol=1e-5 if options else 1e-12)
        np.testing.assert_array_equal(found[:, i, j], found[:, j, i])
    np.testing.assert_allclose(
        found.sum(axis=2), cube.attribution[:, at], atol=1e-4 if options else 1e-12
    )
    assert (found[:, 3] == 0).all()
    assert (found[:, :, 3] == 0).all()


def test_interactions_of_a_sampled_design(wide):
    """Kriging with every coalition but a few is near the exact ones; the rows sum to its own
    attributions."""
    value = Marginal(eight, np.full((1, 8), 0.3))
    whole = dshap.explain(value, wide[:5], design="exact", interactions=True)
    with pytest.warns(
        RuntimeWarning, match="interactions of kriging have no standard errors, and 200 of"
    ) as said:
        cube = dshap.explain(value, wide[:5], design=kriging(8, 200, decay=0.1), interactions=True)
    assert len(said) == 1
    assert said[0].filename == __file__
    assert cube.interaction.unknown_error == str(said[0].message)
    assert "unknown_error" not in whole.interaction.attrs
    np.testing.assert_allclose(cube.interaction.sum("feature_other"), cube.attribution, atol=1e-10)
    off = abs(cube.interaction - whole.interaction).max() / abs(whole.interaction).max()
    assert float(off) < 0.02


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"design": kernelshap(8, 60)},
            "design='exact' or 'kriging', and the design is kernelshap: give one of",
        ),
        ({"design": "kernelshap", "tol": 0.1, "max_coalitions": 100}, "interactions need"),
        ({"design": "permutation", "max_coalitions": 60}, "the design is permutation"),
        ({"design": kernelshap(8, 17, paired=False)}, "kriging with max_coalitions of 18 or more"),
        ({"interactions": 1}, "True or False"),
    ],
)
def test_interactions_refused(wide, options, message):
    with pytest.raises(InputError, match=message):
        dshap.explain(Marginal(eight, wide[:3]), wide, **{"interactions": True, **options})


@pytest.mark.parametrize("options", [{"interactions": True}, {"tol": 0.1}], ids=str)
def test_a_closed_form_that_auto_took_is_named_where_it_does_not_do(options):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(8, 14))
    model = KernelExpansion(
        RBF(2.0).bind(14), rng.normal(size=(5, 14)), rng.normal(size=(5, 1)), np.zeros(1)
    )
    with pytest.raises(
        InputError, match=r"the closed form, which uses no coalitions: give .*kriging"
    ):
        dshap.explain(KernelInterventional(model, rows), rows, **options)


def test_players_outside_the_design_have_no_error(frame):
    """A constant column is no player: 0, with a standard error of 0; the others have one."""
    rows = frame[NAMES].assign(
        d=frame.a * frame.b, e=frame.a - frame.c, f=frame.b**2, g=frame.a + frame.c
    )
    value = Marginal(lambda x: f(x[:, :4]) + np.prod(x[:, 4:], axis=1), rows[:20])
    cube = dshap.explain(value, rows, design=kernelshap(8, 80), dtype="float32")
    assert cube.std_error.dtype == np.float32
    assert (cube.std_error.sel(feature="const") == 0).all()
    assert (cube.std_error.max(["instance", "output"]).drop_sel(feature="const") > 0).all()


def test_exact_values_have_no_standard_error(frame, tmp_path):
    cube = dshap.explain(
        marginal(frame), frame[NAMES], design="exact", store=tmp_path / "cube.zarr"
    )
    assert "std_error" not in cube
    assert cube.attribution.ancillary_variables == "status"
    assert (feature_ranking(tmp_path / "cube.zarr").mean_std_error == 0).all()


def test_too_few_coalitions_for_errors_are_said_once(wide):
    value = Marginal(eight, wide[:3])
    with pytest.warns(
        RuntimeWarning, match="24 coalitions of 8 players are too few for standard errors: give 80"
    ) as seen:
        cube = dshap.explain(value, wide, design=kernelshap(8, 24), instance_tile=8)
    assert len(seen) == 1
    assert np.isnan(cube.std_error).all()
    assert np.isfinite(cube.attribution).all()
    assert seen[0].filename == __file__


def test_design_by_name(wide):
    """design="permutation": as many pairs of orders as max_coalitions allows."""
    cube = dshap.explain(
        Marginal(eight, wide[:3]), wide[:5], design="permutation", max_coalitions=100
    )
    run = json.loads(cube.attrs["dshap_run"])["fingerprint"]["design"]
    assert run["design"] == "permutation"
    assert run["n_permutations"] == 14
    assert permutation(8, 14).n_coalitions <= 100
    with pytest.raises(
        InputError, match="max_coalitions=15: permutation of 8 players takes at least 16"
    ):
        dshap.explain(Marginal(eight, wide[:3]), wide[:5], design="permutation", max_coalitions=15)


def test_all_columns_constant(frame):
    """Rows all alike and a background like them: nothing to attribute."""
    same = pd.DataFrame(np.ones((5, D)), columns=NAMES)
    cube = dshap.explain(Marginal(f, same), same)
    assert (cube.attribution == 0.0).all()
    assert (cube.prediction == cube.base_value).all()


@pytest.mark.parametrize("seed", range(10))
def test_random_games_through_kernel_ridge_are_solved_exactly(seed):
    """A game of d = 4 with interactions of every order, as a function on {0, 1}^4: kernel ridge
    interpolates it (one landmark a corner, no penalty), `Marginal` against the empty corner asks
    for the game back, and the exact design must give its Shapley values.  1e-9: the condition of
    the kernel matrix, about 1e3, times rounding, with room."""
    rng = np.random.default_rng(seed)
    corners = np.array(list(itertools.product([0.0, 1.0], repeat=D)))
    worth = {s: rng.normal() for s in COALITIONS}
    y = np.array([worth[frozenset(np.flatnonzero(corner))] for corner in corners])
    model = KernelRidge(RBF(1.0), Nystrom(landmarks=corners), penalty=0.0).fit(corners, y)
    value = Marginal(model.predict, np.zeros((1, D)))
    cube = dshap.explain(value, np.ones((1, D)), design=exact(D))
    np.testing.assert_allclose(
        cube.attribution.values[0, :, 0], brute_force(worth), rtol=0, atol=1e-9
    )


def test_kernel_ridge_at_random_points_is_the_brute_force_of_its_own_values(frame):
    """Fitted on data with interactions of every order; v(S) by hand from predictions with columns
    replaced, over all four columns although one is constant.  1e-12 of predictions of about 10, in
    a sum of 16 of them."""
    x = frame[NAMES].to_numpy()
    model = KernelRidge(RBF(1.5), Nystrom(40), penalty=1e-4).fit(x, f(x))
    background, row = x[:30], x[50]
    worth = {}
    for s in COALITIONS:
        mixed = background.copy()
        mixed[:, list(s)] = row[list(s)]
        worth[s] = model.predict(mixed).mean()
    expected = brute_force(worth)
    for design in (exact(D), kernelshap(D, 2**D)):
        cube = dshap.explain(Marginal(model.predict, background), row[None], design=design)
        np.testing.assert_allclose(cube.attribution.values[0, :, 0], expected, rtol=0, atol=1e-11)


def test_columns_are_matched_by_name_in_any_order(frame):
    value = marginal(frame)
    one = dshap.explain(value, frame[NAMES])
    other = dshap.explain(value, frame[["c", "id", "const", "b", "a"]], key="id")
    assert list(other.feature.values) == NAMES
    assert one.attribution.values.tobytes() == other.attribution.values.tobytes()


def test_players_are_groups_of_columns(frame):
    """The group's attribution is that of one player; where the other columns do not interact with
    it, the sum."""
    additive = Marginal(
        lambda x: x @ [1.0, -2.0, 3.0, 0.5], frame[NAMES].iloc[:25], players={"ac": ["a", "c"]}
    )
    cube = dshap.explain(additive, frame[NAMES])
    assert list(cube.feature.values) == ["ac", "b", "const"]
    single = dshap.explain(
        Marginal(lambda x: x @ [1.0, -2.0, 3.0, 0.5], frame[NAMES].iloc[:25]), frame[NAMES]
    )
    np.testing.assert_allclose(
        cube.attribution.sel(feature="ac"),
        single.attribution.sel(feature=["a", "c"]).sum("feature"),
        atol=1e-12,
    )
    with pytest.raises(InputError, match="unknown column 'd'"):
        marginal(frame, players={"ac": ["a", "d"]})


def test_several_outputs_are_those_of_each_alone(frame):
    both = dshap.explain(marginal(frame, two_outputs, output_names=["f", "g"]), frame[NAMES])
    alone = dshap.explain(marginal(frame), frame[NAMES])
    assert list(both.output.values) == ["f", "g"]
    assert both.base_value.shape == (2,)
    np.testing.assert_allclose(
        both.attribution.sel(output="f"), alone.attribution[..., 0], rtol=0, atol=1e-13
    )


def test_float32_is_stored_within_1e_6(frame, tmp_path):
    """One rounding to 24 bits: 6e-8 of each number.  Predictions and sums stay float64."""
    value = marginal(frame)
    wide = dshap.explain(value, frame[NAMES])
    narrow = dshap.explain(value, frame[NAMES], dtype="float32", store=tmp_path / "c.zarr")
    assert narrow.attribution.dtype == np.float32
    assert narrow.prediction.dtype == np.float64
    np.testing.assert_allclose(narrow.attribution, wide.attribution, rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(narrow.prediction, wide.prediction)
    assert verify_cube(tmp_path / "c.zarr") == []


def test_keep_rows_stores_the_explained_columns_as_they_were(frame, tmp_path):
    table = frame[NAMES].astype({"b": "float32"})
    dshap.explain(
        marginal(frame), table, keep_rows=True, store=tmp_path / "c.zarr", instance_tile=TILE
    )
    rows = zarr.open_group(tmp_path / "c.zarr" / "rows", mode="r")
    assert {name: str(array.dtype) for name, array in rows.arrays()} == {
        n: str(table[n].dtype) for n in NAMES
    }
    for name in NAMES:
        np.testing.assert_array_equal(rows[name][...], table[name])


def test_without_a_store_the_explained_columns_are_kept_as_they_were(tmp_path):
    """Numbers in their dtypes, texts and categories as str, missing ones NaN, times as times."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "temp/°C": rng.normal(size=9).astype("float32"),
            "age": rng.integers(20, 60, 9),
            "is_new": rng.random(9) < 0.5,
            "plan": pd.Categorical(["free", "paid", "free"] * 3),
            "city": ["Oslo", "Wien", None] * 3,
            "since": pd.date_range("2024-01-31", periods=9, unit="us"),
        }
    )
    background = table.iloc[[0, 1, 3]]
    value = Marginal(lambda rows: rows["age"] + 2.0 * (rows["plan"] == "paid"), background)
    cube = dshap.explain(value, table.assign(unused=1.0), missing="skip")
    kept = {name for name in cube.data_vars if name.startswith("row_")}
    assert kept == {"row_temp__C", "row_age", "row_is_new", "row_plan", "row_city", "row_since"}
    for name in sorted(kept):
        column = table[cube[name].attrs["long_name"]]
        is_text = cube[name].dtype == object
        assert is_text or cube[name].dtype == column.dtype
        assert list(cube[name].to_series().dropna()) == list(column.dropna())
        assert np.array_equal(pd.isna(cube[name]), pd.isna(column))
    # xarray puts NaN where a condition is false, which texts of numpy's own dtype refuse
    assert cube.where(cube["row_plan"] == "paid", drop=True).sizes["instance"] == 3
    bare = dshap.explain(value, table, missing="skip", keep_rows=False)
    assert not [name for name in bare.data_vars if name.startswith("row_")]
    stored = dshap.explain(value, table, missing="skip", store=tmp_path / "cube")
    assert set(stored.data_vars) == set(bare.data_vars)


def test_kept_columns_count_where_a_cube_is_too_large_for_memory(frame, monkeypatch):
    """60 rows of 5 attributions are 2,400 bytes, and so are their columns."""
    value = marginal(frame)
    table = frame[NAMES][:60]
    size = 8 * table.size
    monkeypatch.setattr("dshap.api.IN_MEMORY_BYTES", 2 * size)
    assert "row_a" in dshap.explain(value, table)
    monkeypatch.setattr("dshap.api.IN_MEMORY_BYTES", 2 * size - 1)
    with pytest.raises(DoesNotFitError, match=r"explained columns take .* or keep_rows=False$"):
        dshap.explain(value, table)
    assert "row_a" not in dshap.explain(value, table, keep_rows=False)
    monkeypatch.setattr("dshap.api.IN_MEMORY_BYTES", size - 1)
    with pytest.raises(DoesNotFitError, match=r"give store= a path$"):
        dshap.explain(value, table)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["temp/°C", "..", "instance"])
def test_kept_columns_may_have_any_name(frame, tmp_path, name):
    """A path inside the store, the folder above, the dimension: each an ordinary name in a
    table."""
    table = frame[NAMES].rename(columns={"a": name})
    dshap.explain(Marginal(f, table[:25]), table, keep_rows=True, store=tmp_path / "c.zarr")
    assert set(kept_row(tmp_path / "c.zarr", 7)) == set(table.columns)
    rows = xr.open_datatree(tmp_path / "c.zarr", engine="zarr", consolidated=False)["rows"]
    assert "instance" not in rows.to_dataset().indexes


def test_an_interrupted_call_goes_on(frame, tmp_path, capsys):
    """A Ctrl-C between two blocks: the finished ones are kept, and the same call does the rest."""
    sizes = []
    stops_at = set()

    def predict(x):
        sizes.append(len(x))
        if len(sizes) in stops_at:
            raise KeyboardInterrupt
        return f(x)

    value = Marginal(predict, frame[NAMES][:25])
    wanted = dshap.explain(value, frame[NAMES], instance_tile=TILE)
    stops_at.add(2 * len(sizes) - 2)  # the same calls again, but the last ones
    options = {"store": tmp_path / "cube", "instance_tile": TILE, "progress": True}
    with pytest.raises(KeyboardInterrupt):
        dshap.explain(value, frame[NAMES], **options)
    told = f"interrupted; finished work is kept in {tmp_path / 'cube'}: the same call continues"
    assert capsys.readouterr().err.splitlines()[-1].endswith(told)
    n_done = int((dshap.open_cube(tmp_path / "cube").status.values == 1).sum())
    assert 0 < n_done < N_ROWS
    stops_at.clear()
    cube = dshap.explain(value, frame[NAMES], **options)
    shown = capsys.readouterr().err.splitlines()
    assert f", {n_done} kept from before" in shown[-2]
    assert f"{N_ROWS} rows × 4 features; mean |attribution|: " in shown[-1]
    np.testing.assert_allclose(cube["attribution"], wanted["attribution"], atol=1e-12)


def test_designs_by_name(frame):
    assert dshap.explain(marginal(frame), frame[NAMES][:3], design="exact").sizes["instance"] == 3
    cube = dshap.explain(marginal(frame), frame[NAMES][:3], design="kernelshap", max_coalitions=10)
    assert cube.attribution.notnull().all()


def test_store_none_leaves_nothing(frame, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dshap.explain(marginal(frame), frame[NAMES])
    assert list(tmp_path.iterdir()) == []


# rows that cannot be explained


def holed(frame):
    table = frame.copy()
    table.loc[[3, 40, 41], "a"] = np.nan
    table.loc[41, "c"] = np.inf
    return table


def test_missing_refuse_counts_by_column(frame, tmp_path):
    with pytest.raises(
        InputError, match=r"3 rows contain NaN or infinity: a 3, c 1; set missing = \"skip\""
    ):
        dshap.explain(marginal(frame), holed(frame), key="id", store=tmp_path / "c.zarr")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", VALUES)
def test_missing_skip_keeps_places_and_keys(frame, name):
    table = holed(frame)
    skipped = np.isin(np.arange(N_ROWS), [3, 40, 41])
    cube = dshap.explain(VALUES[name](frame), table, key="id", missing="skip", instance_tile=TILE)
    np.testing.assert_array_equal(cube.status, np.where(skipped, Status.SKIPPED, Status.OK))
    np.testing.assert_array_equal(cube.attribution.isnull().all(("feature", "output")), skipped)
    assert (cube.id.values == frame.id.to_numpy()).all()
    whole = dshap.explain(VALUES[name](frame), frame, key="id", instance_tile=TILE)
    np.testing.assert_allclose(
        cube.attribution[~skipped], whole.attribution[~skipped], rtol=0, atol=1e-12
    )


@pytest.mark.slow
def test_missing_pass_reaches_a_black_box(frame):
    """A model with a rule of its own for NaN."""

    def with_a_rule(x):
        return f(np.where(np.isfinite(x), x, 0.0))

    cube = dshap.explain(marginal(frame, with_a_rule), holed(frame)[NAMES], missing="pass")
    filled = holed(frame)[NAMES].replace([np.nan, np.inf], 0.0)
    expected = dshap.explain(marginal(frame), filled)
    assert (cube.status == Status.OK).all()
    np.testing.assert_allclose(cube.attribution, expected.attribution, rtol=0, atol=1e-12)


def test_missing_pass_does_not_hide_a_model_that_gives_nan(frame, tmp_path):
    text = r"3 of 90 rows have .*, in 2 of 3 blocks; row 3: the model gave NaN or infinity"
    with pytest.raises(FailedBlocksError, match=text), np.errstate(invalid="ignore"):
        dshap.explain(
            marginal(frame),
            holed(frame)[NAMES],
            missing="pass",
            store=tmp_path / "c.zarr",
            instance_tile=TILE,
        )
    status = cube_status(tmp_path / "c.zarr")
    assert (status.failed, status.ok) == (3, 87)
    assert [(each.rows, each.reason) for each in status.failures] == [
        (3, "the model gave NaN or infinity")
    ]


# what is refused, with nothing written


def two_rows_alike(frame):
    return frame.assign(id=["row-0", "row-0", *frame.id[2:-1], "row-7"])


REFUSED = {
    "an unknown option": (
        {"mising": "skip"},
        InputError,
        r"unknown option 'mising'; did you mean 'missing'\?",
    ),
    "an unknown policy": (
        {"missing": "skipp"},
        InputError,
        r"unknown missing 'skipp'; did you mean 'skip'\?",
    ),
    "an unknown design": ({"design": "kernalshap"}, InputError, r"did you mean 'kernelshap'\?"),
    "a tile of nothing": (
        {"instance_tile": 0},
        InputError,
        "instance_tile is 0: give a whole number of at least 1",
    ),
    "another design": (
        {"design": exact(6)},
        InputError,
        "the design has 6 players, the value function",
    ),
    "a size of nonsense": (
        {"memory_limit": "big"},
        InputError,
        "memory size 'big' is not understood",
    ),
    "little memory": (
        {"memory_limit": "2MB"},
        DoesNotFitError,
        r"stage \w+ does not fit, .* have 1.9 MiB: give .* at",
    ),
    "tol": ({"tol": 1.5}, InputError, "tol is 1.5: give a number above 0 and below 1"),
    "few coalitions": (
        {"max_coalitions": 4},
        InputError,
        "max_coalitions=4: permutation of 3 players takes .* 6",
    ),
    "an unknown key": ({"key": "ix"}, InputError, "ix.*Allowed|unknown.*'ix'"),
}
BAD_ROWS = {
    "repeated keys": (two_rows_alike, InputError, r"2 rows repeat the key .*, for example id=row-0 \(row 1\)"),
    "text": (lambda frame: frame.assign(b="much"), InputError, "'?b'?.*text"),
    "a column missing": (lambda frame: frame.drop(columns="b"), InputError, "'b'"),
    "no rows at all": (lambda frame: None, InputError, "rows of type NoneType: give a path"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_options_are_refused_in_one_line_and_nothing_is_written(frame, tmp_path, name):
    options, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text) as raised:
        dshap.explain(
            marginal(frame), frame, **{"key": "id", "store": tmp_path / "c.zarr", **options}
        )
    assert isinstance(raised.value, DshapError)
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", BAD_ROWS)
def test_rows_are_refused_in_one_line_and_nothing_is_written(frame, tmp_path, name):
    make, kind, text = BAD_ROWS[name]
    with pytest.raises(kind, match=text) as raised:
        dshap.explain(marginal(frame), make(frame), key="id", store=tmp_path / "c.zarr")
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def parquet_of(frame, folder):
    frame.to_parquet(folder / "none.parquet")
    return folder / "none.parquet"


@pytest.mark.parametrize(
    "make", [lambda frame, _: frame, lambda frame, _: frame[NAMES].to_numpy(), parquet_of]
)
def test_no_new_rows_are_no_mistake(frame, tmp_path, make):
    """A cube of no instance, and nothing written; a background without rows is refused as
    before."""
    (tmp_path / "tables").mkdir()
    rows = make(frame[:0], tmp_path / "tables")
    cube = dshap.explain(marginal(frame), rows, store=tmp_path / "c.zarr")
    wanted = dshap.explain(marginal(frame), frame[:2])
    assert cube.sizes["instance"] == 0
    assert not (tmp_path / "c.zarr").exists()
    for name in ("attribution", "prediction", "status"):
        assert cube[name].dims == wanted[name].dims
        assert cube[name].dtype == wanted[name].dtype
    assert cube.feature.equals(wanted.feature)
    assert cube.output.equals(wanted.output)
    with pytest.raises(InputError, match="give at least one"):
        marginal(frame[:0])


def test_an_array_of_other_columns_is_refused(frame, tmp_path):
    with pytest.raises(InputError, match="3"):
        dshap.explain(marginal(frame), frame[NAMES].to_numpy()[:, :3], store=tmp_path / "c.zarr")
    assert list(tmp_path.iterdir()) == []


def test_a_store_under_a_file_is_refused(frame, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=r"cannot write .*; choose another store"):
        dshap.explain(marginal(frame), frame, key="id", store=tmp_path / "file" / "c.zarr")
    assert (tmp_path / "file").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("content", ["a file", "a folder of another"])
def test_a_store_that_is_something_else_is_refused(frame, tmp_path, content):
    store = tmp_path / "c.zarr"
    if content == "a file":
        store.write_text("mine")
    else:
        store.mkdir()
        (store / "mine").write_text("mine")
    before = bytes_of(tmp_path)
    with pytest.raises(
        StoreMismatchError, match="is not an attribution cube: choose another store"
    ):
        dshap.explain(marginal(frame), frame, key="id", store=store)
    assert bytes_of(tmp_path) == before


def test_a_predict_function_of_the_wrong_shape_is_refused_at_once(frame):
    with pytest.raises(
        PredictError, match=r"gave shape \(3,\) for 25 rows: it must give \(25,\) or \(25, k\)"
    ):
        marginal(frame, lambda x: np.zeros(3))
    with pytest.raises(PredictError, match="failed: ZeroDivisionError"):
        marginal(frame, lambda x: 1 / 0)
    with pytest.raises(
        PredictError, match="gave list of 'cat', not numbers: of a classifier explain predict_proba"
    ):
        marginal(frame, lambda x: ["cat"] * len(x))
    with pytest.raises(InputError, match=r"predict is \{\}: give a function of rows"):
        marginal(frame, {})


def test_attributions_that_do_not_add_up_are_never_written(frame, monkeypatch, tmp_path):
    finish = type(exact(3)).finish
    monkeypatch.setattr(type(exact(3)), "finish", lambda self, *sums: 1.001 * finish(self, *sums))
    with pytest.raises(
        DshapError, match=r"miss the prediction by .*a bug, or a model whose predictions change"
    ):
        dshap.explain(marginal(frame), frame, key="id", store=tmp_path / "c.zarr")
    assert not (open_cube(tmp_path / "c.zarr").status == Status.OK).any()


def test_failed_blocks_without_a_store_say_that_nothing_is_kept(frame):
    sick = Sick(frame[NAMES].to_numpy()[80], "raises")
    with pytest.raises(
        FailedBlocksError, match="There is no store, so nothing is kept: give store= a path"
    ):
        dshap.explain(marginal(frame, sick), frame, key="id", instance_tile=TILE)


# one run and the next


OTHER_RUNS = {
    "design": (
        lambda frame: marginal(frame),
        {"design": kernelshap(D, 10)},
        "design.*was exact, now kernelshap",
    ),
    "model": (lambda frame: marginal(frame, two_outputs), {}, "value.predict"),
    "background": (
        lambda frame: Marginal(f, frame[NAMES].iloc[:24]),
        {},
        "background: 25 rows before, 24 now",
    ),
    "dtype": (
        lambda frame: marginal(frame),
        {"dtype": "float32"},
        "dtype was float64, now float32",
    ),
    "players": (
        lambda frame: marginal(frame, players={"ab": ["a", "b"]}),
        {"design": "auto"},
        r"run: players was \['a', 'b', 'c', 'const'\], now \['ab', 'c', 'const'\]; choose",
    ),
    "key": (lambda frame: marginal(frame), {"key": None}, "keys.id was string, now absent"),
}


@pytest.fixture
def finished(frame, tmp_path):
    store = tmp_path / "c.zarr"
    dshap.explain(
        marginal(frame), frame, key="id", design=exact(D), store=store, instance_tile=TILE
    )
    return store


@pytest.mark.parametrize("name", OTHER_RUNS)
def test_another_run_names_what_differs_and_nothing_changes(frame, finished, name):
    make, options, text = OTHER_RUNS[name]
    before = bytes_of(finished.parent)
    with pytest.raises(StoreMismatchError, match=text) as raised:
        dshap.explain(
            make(frame),
            frame,
            store=finished,
            **{"key": "id", "design": exact(D), "instance_tile": TILE, **options},
        )
    assert "choose another store, or remove it" in str(raised.value)
    assert raised.value.exit_status == 4
    assert bytes_of(finished.parent) == before


def test_a_constant_player_of_another_name_is_another_run(frame, finished):
    """Else the call gives back a cube with the other run's feature names."""
    value = marginal(frame, players={"renamed": ["const"]})
    with pytest.raises(StoreMismatchError):
        dshap.explain(value, frame, key="id", design=exact(D), store=finished, instance_tile=TILE)


def test_other_rows_are_another_run(frame, finished):
    before = bytes_of(finished.parent)
    changed = frame.assign(a=np.where(frame.index == 89, np.nextafter(frame.a, 9), frame.a))
    with pytest.raises(
        StoreMismatchError, match="keys in the same order, with different values in some rows"
    ):
        dshap.explain(
            marginal(frame), changed, key="id", design=exact(D), store=finished, instance_tile=TILE
        )
    assert bytes_of(finished.parent) == before


def test_a_finished_run_does_nothing(frame, finished):
    """No file is written, and the model is asked for its fingerprint only."""
    calls = []

    def counted(x):
        calls.append(len(x))
        return f(x)

    counted.__qualname__ = f.__qualname__
    before = bytes_of(finished.parent)
    cube = dshap.explain(
        marginal(frame, counted),
        frame,
        key="id",
        design=exact(D),
        store=finished,
        instance_tile=TILE,
    )
    assert bytes_of(finished.parent) == before
    assert calls == [
        25,
        25,
        64,
    ]  # the background as a frame and as an array, the first rows
    assert (cube.status == Status.OK).all()


def test_display_and_memory_do_not_make_another_run(frame, finished):
    before = bytes_of(finished.parent)
    dshap.explain(marginal(frame), frame, key="id", design=exact(D), store=finished, instance_tile=TILE,
                  memory_limit="8GiB", progress=False)  # fmt: skip
    assert bytes_of(finished.parent) == before


class Sick:
    """f, but it fails on the block that holds a certain row, until healed; one fingerprint sick and
    healed."""

    def __init__(self, row: np.ndarray, how: str) -> None:
        self.row, self.how, self.is_healed = row, how, False

    def __call__(self, x):
        if not self.is_healed and (x[:, 1] == self.row[1]).any():
            if self.how == "raises":
                raise RuntimeError("cannot digest this")
            return f(x)[:-1] if self.how == "wrong shape" else np.full(len(x), np.nan)
        return f(x)


SAID = {
    "raises": r"predict function Sick failed: RuntimeError: cannot digest this",
    "wrong shape": r"predict function Sick gave shape \(\d+,\) for \d+ rows",
    "gives NaN": r"the model gave NaN or infinity",
}


@pytest.mark.slow
@pytest.mark.parametrize("how", SAID)
def test_a_failing_row_is_named_and_a_healed_model_finishes_it(frame, tmp_path, how):
    """Where whole calls are NaN, all rows of the block are; else the row fails alone."""
    row = frame[NAMES].to_numpy()[80]  # beyond the 64 rows that the model is tried on
    store, sick = tmp_path / "c.zarr", Sick(row, how)
    run = {"key": "id", "store": store, "instance_tile": TILE}
    text = rf"1 of 90 rows has no attribution \(status failed\), in 1 of 3 blocks; row 80 \(id row-80\): {SAID[how]}"
    failed = np.arange(N_ROWS) == 80
    if how == "gives NaN":
        text = rf"26 of 90 rows have .* block 2 \(rows 64 to 89, first key id row-64\): {SAID[how]}"
        failed = np.arange(N_ROWS) // TILE == 2
    with pytest.raises(FailedBlocksError, match=text) as raised:
        dshap.explain(marginal(frame, sick), frame, **run)
    assert raised.value.exit_status == 5
    assert "run the same command again to retry" in str(raised.value)
    undisturbed = dshap.explain(marginal(frame), frame, key="id", instance_tile=TILE)
    cube = open_cube(store)
    np.testing.assert_array_equal(cube.status, np.where(failed, Status.FAILED, Status.OK))
    np.testing.assert_array_equal(cube.attribution[~failed], undisturbed.attribution[~failed])
    assert np.isnan(cube.attribution[failed]).all()
    assert verify_cube(store) == []
    assert feature_ranking(store).rows == np.count_nonzero(~failed)
    told = cube_status(store).failures
    assert len(told) == 1
    assert told[0].rows == failed.sum()
    assert re.search(SAID[how], told[0].reason)
    receipts = {
        name: own
        for name, own in bytes_of(store).items()
        if re.search(r"receipts/block-0000000[01]", name)
    }
    assert len(receipts) == 2
    sick.is_healed = True
    cube = dshap.explain(marginal(frame, sick), frame, **run)
    assert (cube.status == Status.OK).all()
    assert verify_cube(store) == []
    assert cube_status(store).failures == ()
    after = bytes_of(store)
    # finished blocks were not done again
    assert {name: after[name] for name in receipts} == receipts
    assert cube.attribution.values.tobytes() == undisturbed.attribution.values.tobytes()


def test_a_model_that_fails_on_all_of_the_first_rows_is_refused_at_once(frame, tmp_path):
    def fails(x):
        if len(x) != 25:  # the background, on which it is tried first
            raise RuntimeError("cannot digest this")
        return f(x)

    with pytest.raises(
        PredictError, match=r"rows 0 to 63, first key id row-0\): predict function .* failed"
    ):
        dshap.explain(
            marginal(frame, fails), frame, key="id", store=tmp_path / "c.zarr", instance_tile=TILE
        )
    assert list(tmp_path.iterdir()) == []


def test_one_of_the_first_rows_fails_alone(frame, tmp_path):
    """The model is tried on it before the run."""
    sick = Sick(frame[NAMES].to_numpy()[40], "raises")
    with pytest.raises(FailedBlocksError, match=r"1 of 90 rows has .*; row 40 \(id row-40\)"):
        dshap.explain(
            marginal(frame, sick), frame, key="id", store=tmp_path / "c.zarr", instance_tile=TILE
        )


def test_another_model_behind_one_reference_row_is_another_run(frame, tmp_path):
    """One zero row as reference: every linear model predicts 0 there, yet each has its own cube."""
    reference = np.zeros((1, D))
    run = {"key": "id", "store": tmp_path / "c.zarr"}
    dshap.explain(Marginal(lambda x: x[:, 0], reference, feature_names=NAMES), frame, **run)
    with pytest.raises(StoreMismatchError, match="the model predicts different values than before"):
        dshap.explain(Marginal(lambda x: 2 * x[:, 0], reference, feature_names=NAMES), frame, **run)


def test_a_background_with_nan_is_refused_where_rows_are_skipped(frame):
    background = frame[NAMES].to_numpy()[:20].copy()
    background[3, 1] = np.nan
    value = Marginal(lambda x: np.nan_to_num(x).sum(axis=1), background, feature_names=NAMES)
    for missing in ("refuse", "skip"):
        with pytest.raises(
            InputError,
            match=r'1 rows of the background contain NaN or infinity: drop them, or .*"pass"',
        ):
            dshap.explain(value, frame, key="id", missing=missing)
    assert (dshap.explain(value, frame, key="id", missing="pass").status == Status.OK).all()


def test_columns_are_matched_by_the_names_that_the_model_knows(frame):
    """A background frame in another order than the estimator's: taken by name, not by position."""
    model = dshap.models.KernelRidge(dshap.kernels.RBF(1.0), dshap.kernels.Nystrom(20)).fit(
        frame[NAMES], f(frame[NAMES].to_numpy())
    )
    straight = dshap.explain(Marginal(model.predict, frame[NAMES][:20]), frame, key="id")
    turned = dshap.explain(
        Marginal(model.predict, frame[NAMES[::-1]][:20]), frame[[*NAMES[::-1], "id"]], key="id"
    )
    assert straight.feature.values.tolist() == NAMES == turned.feature.values.tolist()
    assert straight.attribution.values.tobytes() == turned.attribution.values.tobytes()
    with pytest.raises(
        InputError, match=r"^the table lacks a column of the model: unknown column 'a'"
    ):
        Marginal(model.predict, frame[NAMES[1:]][:20])


def test_rows_of_other_columns_are_refused_in_the_words_of_the_value_function(frame, tmp_path):
    """By their number for arrays, which have no names, by name for frames; nothing is written."""
    value = Marginal(f, frame[NAMES][:20])
    array = frame[NAMES].to_numpy()
    model = KernelRidge(RBF(1.0), Nystrom(20)).fit(array, f(array))
    made_for = rf"the value function was made for {len(NAMES)} columns \({', '.join(NAMES)}\)$"
    for rows in (
        array[:, :1],
        np.hstack([array, array]),
        array[:, :1].tolist(),
        da.from_array(array[:, :1]),
    ):
        with pytest.raises(
            InputError, match=rf"^the rows have {np.shape(rows)[1]} columns, {made_for}"
        ):
            dshap.explain(value, rows, store=tmp_path / "cube")
    renamed = frame[NAMES].rename(columns={NAMES[0]: "other"})
    with pytest.raises(
        InputError,
        match=rf"unknown column '{NAMES[0]}'.* The value function was made for",
    ):
        dshap.explain(value, renamed, store=tmp_path / "cube")
    with pytest.raises(
        InputError, match=r"^background or data of the value function: the rows have 1 columns, the"
    ):
        dshap.explain(KernelInterventional(model, array[:20, :1]), array, store=tmp_path / "cube")
    more = frame[NAMES].assign(more=1.0)
    more.to_parquet(tmp_path / "more.parquet")
    # of a model that was fitted on an array: columns are counted
    nameless = KernelInterventional(model, array[:20])
    numbers = rf"{len(NAMES) + 1} columns of numbers \({', '.join([*NAMES, 'more'])}\)"
    for rows in (more, tmp_path / "more.parquet"):
        with pytest.raises(
            InputError,
            match=rf"^the rows have {numbers}, the value function was made for 4 columns$",
        ):
            dshap.explain(nameless, rows, store=tmp_path / "cube")
    assert not (tmp_path / "cube").exists()


def test_a_source_keeps_its_own_words(frame, tmp_path):
    frame.to_parquet(tmp_path / "t.parquet")
    source = ParquetSource(tmp_path / "t.parquet", features=NAMES, key="id", missing="skip")
    value = Marginal(f, frame[NAMES].to_numpy()[:20], feature_names=NAMES)
    with pytest.raises(InputError, match="belong to the source"):
        dshap.explain(value, source, key="id")
    with pytest.raises(InputError, match="opened with 'skip'"):
        dshap.explain(value, source, missing="pass")
    dshap.explain(value, source, store=tmp_path / "c.zarr")
    again = ParquetSource(tmp_path / "t.parquet", features=NAMES, key="id", missing="pass")
    with pytest.raises(StoreMismatchError, match="missing was skip, now pass"):
        dshap.explain(value, again, store=tmp_path / "c.zarr")


def test_a_bad_option_that_only_the_work_shows_leaves_no_store(frame, tmp_path):
    x = frame[NAMES].to_numpy()
    model = dshap.models.KernelRidge(dshap.kernels.RBF(1.0), dshap.kernels.Nystrom(20)).fit(x, f(x))
    make = dshap.values.KernelObservational
    store = tmp_path / "c.zarr"
    with pytest.raises(InputError, match="landmarks"):
        dshap.explain(make(model, x, dshap.kernels.Nystrom(5_000), penalty=1e-3), x, store=store)
    assert not store.exists()
    dshap.explain(make(model, x, dshap.kernels.Nystrom(30), penalty=1e-3), x, store=store)
    with pytest.raises(InputError, match="black boxes"):
        dshap.explain(make(model, x, dshap.kernels.Nystrom(30), penalty=1e-3), x, missing="pass")


def test_things_that_are_no_value_function_or_design(frame):
    with pytest.raises(InputError, match="explain was given 'f': give a fitted model"):
        dshap.explain("f", frame)
    with pytest.raises(InputError, match="design is 8"):
        dshap.explain(marginal(frame), frame, key="id", design=8)


def test_a_dataset_of_xarray_has_its_variables_as_features(frame):
    """Not its dimension, which would be the row number."""
    x = frame[NAMES]
    dataset = xr.Dataset(
        {name: ("row", x[name].to_numpy()) for name in [*NAMES]}, coords={"row": np.arange(len(x))}
    )
    dataset["y"] = ("row", f(x.to_numpy()))
    model = dshap.fit(
        dshap.models.KernelRidge(dshap.kernels.RBF(1.0), dshap.kernels.Nystrom(20)), dataset, "y"
    )
    assert list(model.feature_names_in_) == NAMES


def test_prepared_first_and_run_later(frame, tmp_path):
    store = tmp_path / "c.zarr"
    pending = dshap.explain(marginal(frame), frame, key="id", store=store, compute=False)
    assert (pending.status == Status.PENDING).all()
    assert (store / "state" / "plan.json").exists()
    assert (dshap.explain(marginal(frame), frame, key="id", store=store).status == Status.OK).all()
    assert read_run(store)["fingerprint"]["rows"]["n"] == N_ROWS


def test_a_run_inside_a_run_is_locked_out(frame, tmp_path):
    """The same store, while the first run is going: refused, and the first finishes."""
    store, seen = tmp_path / "c.zarr", []

    def nosy(x):
        if store.exists() and not seen:
            seen.append(True)
            with pytest.raises(LockedError, match="locked by a call of dshap"):
                dshap.explain(marginal(frame), frame, key="id", store=store)
        return f(x)

    assert (
        dshap.explain(marginal(frame, nosy), frame, key="id", store=store).status == Status.OK
    ).all()
    assert seen
