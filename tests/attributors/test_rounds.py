"""`dshap.explain(tol=...)`: rounds, row by row, until the standard errors are small."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t

import dshap
from dshap.analysis.accuracy import accuracy
from dshap.core.errors import FailedBlocksError, InputError
from dshap.cube import verify_cube
from dshap.designs import kernelshap, kriging, permutation
from dshap.designs.kriging.findings import Findings
from dshap.report.notes import accuracy_lines
from dshap.values import Gaussian, Marginal
from tests.cube.cubes import bytes_of

pytestmark = pytest.mark.usefixtures("in_this_process")

D = 12


def rough(x):
    """Rows with a large first column have strong interactions of every order, the others hardly
    any; two outputs."""
    strength = np.where(x[:, :1] > 0.5, 1.0, 0.02)
    base = x @ np.arange(1.0, D + 1) / D
    return np.column_stack(
        [base + strength[:, 0] * 4 * np.prod(1 + 0.4 * np.sin(3 * x), axis=1), base]
    )


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).uniform(-1, 1, size=(48, D))


def value(rows):
    return Marginal(rough, rows[:1])


def by_hand(cube):
    """(n, k): the largest std_error over the range, of which as much counts as is not noise."""
    phi, error = cube.attribution.values, cube.std_error.values
    noise = (error**2).mean(axis=1) / np.maximum(phi.var(axis=1), 1e-300)
    return error.max(axis=1) / np.maximum(
        np.ptp(phi, axis=1) * np.sqrt(np.maximum(1 - noise, 0.0)), 1e-300
    )


AT_ONCE = t.ppf(1 - 0.025 / D, 19) / t.ppf(0.975, 19)
"""Rows end where the intervals of all players at once are as narrow as tol asks of one."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"instance_tile": 16, "coalition_tile": 30, "micro_rows": 5}], ids=str
)
@pytest.mark.parametrize(
    ("design", "tol"),
    [(kernelshap(D, 120, seed=1), 0.006), (kriging(D, 100, decay=0.1, seed=1), 0.002)],
    ids=["kernelshap", "kriging"],
)
def test_every_row_is_that_of_the_design_it_stopped_at(rows, design, tol, options):
    """Attribution and error of a row that took m coalitions are those of the design grown to m (to
    rounding: sums are cut otherwise); all but the last round's rows are below tol, and were above
    it a round before.  Row 0 is the background, whose values do not vary: it takes all
    coalitions."""
    budgets = tuple(design.n_coalitions * 2**i for i in range(4))
    cube = dshap.explain(
        value(rows), rows, design=design, tol=tol, max_coalitions=budgets[-1], **options
    )
    taken, error = cube.n_coalitions.values, cube.relative_error.values
    assert len(set(taken.tolist())) >= 3
    assert set(taken.tolist()) <= set(budgets)
    before = None
    for i, budget in enumerate(budgets):
        whole = dshap.explain(value(rows), rows, design=replace(design, budgets=budgets[: i + 1]))
        reached = by_hand(whole)
        reached[0] = np.inf
        here = taken == budget
        np.testing.assert_allclose(cube.attribution[here], whole.attribution[here], atol=1e-9)
        np.testing.assert_allclose(cube.std_error[here], whole.std_error[here], atol=1e-9)
        np.testing.assert_allclose(error[here], reached[here], rtol=1e-6, atol=1e-12)
        assert budget == budgets[-1] or (reached[here] * AT_ONCE <= tol).all()
        assert before is None or (before[here] * AT_ONCE > tol).any(axis=1).all()
        before = reached


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:interactions of kriging have no standard errors")
def test_interactions_of_every_row_are_those_of_the_design_it_stopped_at(rows):
    design, budgets = kriging(D, 100, decay=0.1, seed=1), (100, 200, 400, 800)
    cube = dshap.explain(
        value(rows), rows, design=design, tol=0.002, max_coalitions=800, interactions=True
    )
    assert set(cube.n_coalitions.values.tolist()) == set(budgets)
    np.testing.assert_allclose(cube.interaction.sum("feature_other"), cube.attribution, atol=1e-9)
    for i, budget in enumerate(budgets):
        grown = replace(design, budgets=budgets[: i + 1])
        whole, here = (
            dshap.explain(value(rows), rows, design=grown, interactions=True),
            cube.n_coalitions == budget,
        )
        np.testing.assert_allclose(cube.interaction[here], whole.interaction[here], atol=1e-9)


def test_no_coalition_is_evaluated_twice(rows):
    """The model sees every mix of a row that it takes once, but for what is tried beforehand."""
    seen = []

    def counted(x):
        seen.append(len(x))
        return rough(x)

    own = Marginal(counted, rows[:1])
    cube = dshap.explain(own, rows, design=kernelshap(D, 120), tol=0.05, max_coalitions=480)
    seen.clear()
    cube = dshap.explain(own, rows, design=kernelshap(D, 120), tol=0.05, max_coalitions=480)
    n_pilot, of_range = 48 // 16, 48
    assert sum(seen) <= int((cube.n_coalitions - 2).sum()) + n_pilot * 480 + 3 * 64 + 48 + of_range


@pytest.mark.slow
def test_the_pilot_forecasts_and_says_so(rows, tmp_path, capsys):
    """The forecast is coalitions · (error · AT_ONCE/tol)², the median over the games of the pilot:
    by hand.  The background's values do not vary: it takes all coalitions, and has no error in
    proportion to its range."""
    store = tmp_path / "cube.zarr"
    cube = dshap.explain(
        value(rows), rows, design=kernelshap(D, 120), tol=0.02, max_coalitions=481, store=store
    )
    chosen = np.linspace(0, 47, 3).round().astype(int)
    whole = dshap.explain(value(rows), rows, design=kernelshap(D, 120)).isel(instance=chosen)
    error = by_hand(whole)[1:]
    error = np.where(error < 1e-10, 0.0, error).ravel()
    pilot = json.loads(cube.attrs["pilot"])
    assert pilot["relative_error"] == pytest.approx(np.median(error))
    wanted = 120 * np.maximum(error * AT_ONCE / 0.02, 1) ** 2
    assert pilot["forecast_coalitions"] == pytest.approx(np.median([480, 480, *wanted]), abs=0.51)
    assert verify_cube(store) == []
    before = bytes_of(store)
    dshap.explain(
        value(rows), rows, design=kernelshap(D, 120), tol=0.02, max_coalitions=481, store=store
    )
    assert bytes_of(store) == before

    wanted = pilot["forecast_coalitions"]
    capsys.readouterr()
    dshap.explain(
        value(rows), rows, design=kernelshap(D, 120), tol=0.02, max_coalitions=481, progress=True
    )
    (line,) = (own for own in capsys.readouterr().err.splitlines() if "pilot: std_error" in own)
    assert f" pilot: std_error / range 0.02 takes about {wanted:,.0f} coalitions per row" in line
    values = min(wanted, 400) * 48 * cube.sizes["output"]
    assert f": {values:,.0f} values of 48 rows, at the pilot's rate" in line
    assert ("more than the 480 that are allowed" in line) == (wanted > 480)
    (shown,) = (own for own in accuracy_lines(accuracy({"own": store})) if "pilot" in own)
    assert shown.endswith(f"expects {wanted:,.0f} coalitions per row")


@pytest.mark.slow
def test_auto_grows_kriging_and_exact_needs_no_rounds(rows):
    cube = dshap.explain(value(rows), rows, tol=0.1, max_coalitions=1_000)
    design = json.loads(cube.attrs["dshap_run"])["fingerprint"]["design"]
    assert design["design"] == "kriging"
    assert len(design["budgets"]) > 2
    assert design["budgets"][-1] == 1_000
    assert (cube.n_coalitions <= 1_000).all()
    whole = dshap.explain(Marginal(lambda x: x[:, 0] * x[:, 1], rows[:2, :3]), rows[:, :3], tol=0.1)
    assert "n_coalitions" not in whole
    assert "std_error" not in whole


def test_values_that_learn_from_data(rows):
    """The states of all rounds are learnt before; the rows then stop where they stop."""
    learnt = Gaussian(rough, np.random.default_rng(1).normal(size=(200, D)), n_samples=20)
    cube = dshap.explain(learnt, rows[:6], design=kernelshap(D, 120), tol=0.3, max_coalitions=480)
    assert set(cube.n_coalitions.values.tolist()) <= {120, 240, 480}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": 0.0}, "tol is 0.0"),
        ({"tol": 2}, "tol is 2: give a number above 0 and below 1"),
        ({"tol": "small"}, "tol is 'small'"),
        ({"tol": 0.1, "coalition_groups": 2}, "leave coalition_groups out"),
        (
            {"tol": 0.1, "design": permutation(D, 10)},
            "the design is permutation: give design=.kriging. or",
        ),
        ({"tol": 0.1, "design": kernelshap(D, 100, n_replicates=0)}, "n_replicates=0"),
        (
            {"tol": 0.1, "design": kernelshap(D, 40), "max_coalitions": 50},
            "tol needs standard errors, and 50 coalitions",
        ),
    ],
)
def test_bad_input(rows, options, message):
    with pytest.raises(InputError, match=message):
        dshap.explain(value(rows), rows, **options)


def test_prepared_states_do_not_grow(rows, tmp_path):
    learnt = Gaussian(rough, rows, n_samples=4)
    prepared = dshap.prepare(learnt, design=kernelshap(D, 60), store=tmp_path / "prepared")
    with pytest.raises(InputError, match="leave tol out"):
        dshap.explain(prepared, rows, tol=0.1)


def test_a_model_that_fails_on_later_coalitions_alone():
    """The first part of the list is explained, the rest is not: the rows fail, with the model's
    reason."""
    d = 14
    design = replace(kriging(d, 512), budgets=(88, 176, 352, 512), findings=Findings())
    first = design.block(0, design.pilot_coalitions).masks
    assert design.pilot_coalitions < 88
    known = {row.tobytes() for row in np.packbits(first, axis=1)}

    def predict(x):
        is_known = [row.tobytes() in known for row in np.packbits(x > 0, axis=1)]
        return np.where(is_known, np.sqrt(x.sum(axis=1)), np.nan)

    rows = np.arange(1.0, 5.0)[:, None] * np.ones(d)
    with pytest.raises(FailedBlocksError, match="the model gave NaN or infinity"):
        dshap.explain(
            Marginal(predict, np.zeros((1, d))), rows, design=design, tol=0.01, max_coalitions=512
        )
