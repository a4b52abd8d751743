"""MSE_v over sampled coalitions estimates the mean over all proper coalitions, whatever sizes a
design prefers."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dshap
from dshap import designs
from dshap.core.blocks import N_ENDS
from dshap.core.errors import InputError
from dshap.run.quality import Quality, mean_by_sizes
from dshap.values import Gaussian, Marginal

pytestmark = pytest.mark.usefixtures("in_this_process")

D = 9


@pytest.fixture(scope="module")
def game():
    """A number (2^d − 2, 2) for every proper coalition, which falls with its size and varies within
    one; its masks."""
    masks = designs.exact(D).masks[N_ENDS:]
    rng = np.random.default_rng(0)
    size = masks.sum(axis=1)[:, None]
    return (
        20.0 / size + (masks @ rng.normal(size=(D, 2))) + rng.exponential(size=(len(masks), 2))
    ), masks


def sampled(design, game):
    """What mean_by_sizes, and the mean of the list, make of the coalitions of a design (2, k)."""
    values, masks = game
    place = {mask.tobytes(): j for j, mask in enumerate(masks)}
    own = design.block(N_ENDS, design.n_coalitions).masks
    found = values[[place[mask.tobytes()] for mask in own]]
    return np.array([mean_by_sizes(found, own), found.mean(axis=0)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda seed: designs.kernelshap(D, 90, seed=seed),
        lambda seed: designs.kernelshap(D, 91, sampling="kernel", paired=False, seed=seed),
        lambda seed: designs.kriging(D, 90, seed=seed),
    ],
    ids=["leverage", "kernel, unpaired", "kriging"],
)
def test_a_sample_estimates_the_mean_over_all_coalitions(game, make):
    """300 seeds: the mean is within 4 standard errors (false alarm 1e-4); the list's own is off by
    ten and more."""
    found = np.array([sampled(make(seed), game) for seed in range(300)])  # (seeds, 2, k)
    off = np.abs(found.mean(axis=0) - game[0].mean(axis=0)) / (
        found.std(axis=0, ddof=1) / np.sqrt(300)
    )
    assert (off[0] < 4).all()
    assert (off[1] > 10).all()


def test_all_coalitions_give_their_mean(game):
    assert_allclose(
        sampled(designs.exact(D), game), np.tile(game[0].mean(axis=0), (2, 1)), rtol=1e-12
    )


def test_sizes_without_a_coalition_are_interpolated():
    """Of five players, coalitions of 1 and 3: size 2 lies between, size 4 takes that of 3."""
    masks = np.array([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 1, 1, 0, 0]], dtype=bool)
    values = np.array([[4.0], [6.0], [1.0]])
    assert_allclose(
        mean_by_sizes(values, masks), [(5 * 5.0 + 10 * 3.0 + 10 * 1.0 + 5 * 1.0) / 30], rtol=1e-12
    )
    quality = Quality(np.array([0.0]), values, masks, np.array([1.0]), 1)
    assert quality.interpolated_share == pytest.approx(15 / 30)
    assert quality.by_size[:, 0].tolist() == [5.0, pytest.approx(np.nan, nan_ok=True), 1.0,
                                              pytest.approx(np.nan, nan_ok=True)]  # fmt: skip


@pytest.mark.parametrize("d", [2, 3, 60, 300, 2_000])
def test_sizes_of_any_number_of_players(d):
    """By whole numbers of any length: one coalition a size."""
    masks = np.tri(d - 1, d, dtype=bool)
    size = np.arange(1, d)
    wanted = (
        sum(math.comb(d, s) * s * s for s in range(1, d)) / (2**d - 2)
        if d < 1_000
        else d * (d + 1) / 4
    )
    assert_allclose(mean_by_sizes((size**2.0)[:, None], masks), [wanted], rtol=1e-9)


def test_it_says_what_it_is_of(rng):
    data = rng.normal(size=(60, 3))
    linked = Gaussian(lambda x: 1 / (1 + np.exp(-x.sum(axis=1))), data, n_samples=20, link="logit")
    cube = dshap.explain(linked, data[:5], quality=data[5:20])
    found = json.loads(cube.attrs["mse_v"])
    assert found["of"] == "expectations, before the link logit"
    assert found["interpolated_share"] == 0.0
    assert (
        dshap.mse_v(Marginal(lambda x: x[:, 0], data[:9]), data[5:]).to_dict()["of"]
        == "expectations"
    )


def test_it_is_measured_on_prepared_states_too(rng, tmp_path):
    data = rng.normal(size=(60, 3))
    value = Gaussian(lambda x: x[:, 0] * x[:, 1] + x[:, 2], data, n_samples=20)
    prepared = dshap.prepare(value, store=tmp_path / "states")
    found, wanted = (
        dshap.explain(by, data[:5], quality=data[5:20]).attrs["mse_v"] for by in (prepared, value)
    )
    assert json.loads(found) == json.loads(wanted)


def test_rows_without_a_prediction_are_left_out(rng):
    """No coalition that lacks a column makes a mix that the model gives NaN for: the rows
    themselves alone are lost."""

    def predict(x):
        return np.where((x > 5.0).all(axis=1), np.nan, x.sum(axis=1))

    data = rng.normal(size=(60, 3))
    value, lost = Marginal(predict, data[:9]), data[9:14] + 10.0
    mixed = np.concatenate([data[20:40], lost, data[40:]])
    found, wanted = dshap.mse_v(value, mixed), dshap.mse_v(value, data[20:])
    assert found.n_rows == wanted.n_rows == 40
    assert_allclose(found.mse_of_coalitions, wanted.mse_of_coalitions)
    assert_allclose(found.variance, wanted.variance)
    with pytest.raises(InputError, match="every row, or its prediction, contains NaN or infinity"):
        dshap.mse_v(value, lost)


def test_one_player_has_no_proper_coalition(rng):
    data = rng.normal(size=(60, 1))
    with pytest.raises(InputError, match=r"a game of one player .x0. has none"):
        dshap.mse_v(Marginal(lambda x: x[:, 0], data[:9]), data)
