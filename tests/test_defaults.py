"""What `explain` gives without options, on both sides of every number of players at which the
choice changes, and far from them; games with interactions of every order whose Shapley values have
a closed form, of one row of background."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dshap
from dshap.attributors.choice import choose
from dshap.core.blocks import Status
from dshap.core.records import FloatArray
from dshap.designs import KrigingDesign, PermutationDesign
from dshap.values import Marginal
from tests.lanes import every_pair, left_to_systems

N = 4
CHOICES = {1: "exact", 2: "exact", 11: "exact", 12: "kriging", 64: "kriging", 65: "kriging", 128: "kriging",
           129: "kriging", 300: "kriging", 513: "kriging"}  # fmt: skip
"""Players -> design: all coalitions up to 2^11, relevances up to 64, errors of each player up to
128, 4 coalitions a player from 513 on."""
BORDERS = {14: 212, 20: 422, 30: 932}
"""Players -> coalitions that are all of sizes 1 and 2, with their complements and the two ends."""


def products(d: int) -> tuple[Marginal, FloatArray, FloatArray]:
    """f = exp Σ x_j/√d: φ_i = (a_i − b_i) ∫ Π_{j ≠ i} (b_j + t (a_j − b_j)) dt, a and b the factors
    of the two rows."""
    rng = np.random.default_rng(d)
    rows, background = rng.normal(size=(N, d)), rng.normal(size=(1, d))
    a, b = np.exp(rows / np.sqrt(d)), np.exp(background / np.sqrt(d))
    nodes, weights = np.polynomial.legendre.leggauss(d // 2 + 1)
    mixed = b[:, :, None] + (a - b)[:, :, None] * (nodes + 1) / 2
    truth = (a - b) * np.einsum("ndt,t->nd", mixed.prod(axis=1, keepdims=True) / mixed, weights / 2)
    return Marginal(lambda x: np.exp(x.sum(axis=1) / np.sqrt(d)), background), rows, truth


def airports(d: int) -> tuple[Marginal, FloatArray, FloatArray]:
    """f = max x_j ≥ 0 over a row of zeros: with costs in rising order φ_i = Σ_{k ≤ i} (c_k −
    c_{k−1})/(d − k + 1)."""
    rows = np.random.default_rng(d).random((N, d))
    shares = np.diff(np.sort(rows, axis=1), axis=1, prepend=0.0) / np.arange(d, 0, -1)
    truth = np.take_along_axis(shares.cumsum(axis=1), rows.argsort(axis=1).argsort(axis=1), axis=1)
    return Marginal(lambda x: x.max(axis=1), np.zeros((1, d))), rows, truth


GAMES = {"products": products, "airports": airports}


def root_mean_square(cube, truth: FloatArray) -> float:
    return float(np.sqrt(np.square(cube.attribution.to_numpy()[..., 0] - truth).mean()))


def check(cube, truth: FloatArray, is_exact: bool) -> None:
    """All rows are ok and add up; errors are there, of the size that they state, and none is beyond
    all doubt.

    0.05: above 128 players what the mean over priors gains is not in the errors' one scale.
    """
    phi = cube.attribution.to_numpy()[..., 0]
    assert (cube.status == Status.OK).all()
    gap = cube.prediction.to_numpy()[:, 0] - cube.base_value.to_numpy() - phi.sum(axis=1)
    scale = np.abs(truth).sum(axis=1).max()
    assert np.abs(gap).max() < 1e-8 * scale
    if is_exact:
        return assert_allclose(phi, truth, atol=1e-10 * scale)
    errors = cube.std_error.to_numpy()[..., 0]
    assert np.isfinite(errors).all()
    ratio = (phi - truth) / (errors + 1e-9 * scale)
    assert np.abs(ratio).max() < 8
    assert np.square(ratio).mean() < 3
    assert np.square(ratio).mean() > 0.05 or errors.max() < 1e-5 * scale


WIDE_AIRPORTS = (64, 128, 129)
"""The suite has products of these widths, and airports of the widths beside them."""


def games_of_widths() -> Iterator[Any]:
    for game, d in itertools.product(GAMES, CHOICES):
        if game == "products" or d < 300:
            is_repeated = game == "airports" and d in WIDE_AIRPORTS
            yield left_to_systems(game, d) if is_repeated or d > 512 else (game, d)


@pytest.mark.parametrize(
    ("d", "n_coalitions"), [(12, 2_048), (512, 2_048), (513, 2_052), (1_024, 4_096)]
)
def test_the_default_number_of_coalitions(d, n_coalitions):
    """A run of 513 players takes a minute: `make test-systems`."""
    assert choose("auto", products(d)[0], None).design.n_coalitions == n_coalitions


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(("game", "d"), list(games_of_widths()))
def test_the_default_is_right_at_every_width(game, d):
    value, rows, truth = GAMES[game](d)
    kind = type(choose("auto", value, None).design).__name__.removesuffix("Design").lower()
    assert kind == CHOICES[d]
    check(dshap.explain(value, rows, progress=False), truth, kind == "exact")


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("d", BORDERS)
@pytest.mark.parametrize("game", GAMES)
def test_nothing_breaks_at_a_border_of_enumeration(game, d):
    """Just below, at and just above it: honest errors, and no jump of the true ones."""
    value, rows, truth = GAMES[game](d)
    off = []
    for budget in (BORDERS[d] - 2, BORDERS[d], BORDERS[d] + 2):
        cube = dshap.explain(value, rows, max_coalitions=budget, progress=False)
        check(cube, truth, is_exact=False)
        off.append(root_mean_square(cube, truth))
    assert max(off) < 1.5 * min(off)


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.filterwarnings("ignore:std_error is NaN:RuntimeWarning")
@pytest.mark.parametrize("budget", ["2 d", "2 d + 1"])
@pytest.mark.parametrize("d", [3, 12, 14, 20, 30])
@pytest.mark.parametrize("game", GAMES)
def test_the_fewest_coalitions_of_all_are_not_regressed(game, d, budget):
    """A regression has as many unknowns there, and was off by up to a hundred times the
    attributions."""
    value, rows, truth = GAMES[game](d)
    n_coalitions = 2 * d + (budget == "2 d + 1")
    assert isinstance(choose("auto", value, n_coalitions).design, PermutationDesign)
    cube = dshap.explain(value, rows, max_coalitions=n_coalitions, progress=False)
    assert np.isnan(cube.std_error).all()
    assert (cube.status == Status.OK).all()
    assert root_mean_square(cube, truth) < 3 * np.sqrt(np.square(truth).mean())


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
@pytest.mark.filterwarnings("ignore:std_error is NaN:RuntimeWarning")
@pytest.mark.parametrize(
    ("budget", "d", "game"),
    every_pair([2.0, 2.15, 2.5, 3.0, 3.9, 4.0, 5.0], [14, 30, 60], list(GAMES)),
)
def test_few_coalitions_are_no_worse_than_orders(game, d, budget):
    """Between the fewest that kriging takes and those of standard errors, and beyond: `permutation`
    had half the error on airports."""
    value, rows, truth = GAMES[game](d)
    n_coalitions = max(int(budget * d), 2 * d + 2)
    assert isinstance(choose("auto", value, n_coalitions).design, KrigingDesign)
    off = []
    for design in ("auto", "permutation"):
        cube = dshap.explain(
            value, rows, design=design, max_coalitions=n_coalitions, progress=False
        )
        assert (cube.status == Status.OK).all()
        off.append(root_mean_square(cube, truth))
    assert off[0] < 1.05 * off[1]


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("d", [23, 24, 47, 48, 64, 65])
@pytest.mark.parametrize("game", GAMES)
def test_errors_of_few_coalitions_cover_the_largest_players(game, d):
    """Six a player, on both sides of where errors look at what is missed (24 players), of decays
    near 1 (48) and of sparse terms (64)."""
    value, rows, truth = GAMES[game](d)
    cube = dshap.explain(value, rows, max_coalitions=6 * d, progress=False)
    check(cube, truth, is_exact=False)
    held = (
        np.abs(cube.attribution.to_numpy() - truth[..., None]) <= 2.09 * cube.std_error.to_numpy()
    )
    largest = np.argsort(-np.abs(truth), axis=1)[:, :5, None]
    assert held.mean() > 0.85
    assert np.take_along_axis(held, largest, axis=1).mean() > 0.75


def test_more_players_than_kriging_takes():
    """Said why, with 4 coalitions a player."""
    below, above = (choose("auto", airports(d)[0], None) for d in (1_024, 1_025))
    assert "kriging makes the most" in below.why
    assert below.design.n_coalitions <= 4_096
    assert "too many players" in above.why
    assert above.design.n_coalitions <= 4_100
