"""Standard errors of kriging, written out."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from dshap.designs import kriging
from dshap.designs.kriging.pairs import odd_values
from dshap.designs.kriging.prior import Prior
from dshap.designs.kriging.process import Process
from dshap.designs.kriging.standard_errors import (
    beyond_usual,
    error_contrasts,
    exact_weights,
    missed_weights,
    random_signs,
    scale_weights,
)
from tests.benchmarks.games import estimated, games_of, settled
from tests.designs.design_games import codes, dividends, game


@pytest.mark.parametrize("is_by_player", [True, False])
def test_errors_are_those_of_the_leave_one_out_sums(is_by_player):
    """Σ_g (φ_g − φ)² written out: in the mean over signs the posterior variance times the mean of
    e_j² P_jj, or the mean of that and κ_i Σ_j (W_ji − w_ji)² e_j².  2,000 signs leave 3 %."""
    d, v, found = 7, game(dividends(7, np.random.default_rng(2))), []
    design = kriging(d, 70, decay=0.3, variation=0.3)
    pairs, odd = design.pair_list.pairs, odd_values(v[codes(design.masks)][None])[0]
    process = Process.at(pairs, Prior.of(d, 0.3, 0.3, None))
    weights, variance = process.posterior()
    precision = process.precision()
    for seed in range(100):
        signs = random_signs(len(pairs), 20, seed)
        contrasts, spread = error_contrasts(
            pairs, precision, weights, variance, signs, is_by_player
        )
        found.append(np.square(spread * np.tensordot(odd, contrasts, 1)).sum(axis=0))
    e = precision @ odd / np.diag(precision)
    wanted = variance * (scale_weights(pairs) * np.diag(precision) * e**2).sum()
    if is_by_player:
        excess2 = np.square(weights - exact_weights(pairs))
        ratio = variance / (excess2.T @ (1 / np.diag(precision)))
        wanted = (wanted + ratio ** (0.75 - 2 * d / len(pairs)) * (excess2.T @ e**2)) / 2
    np.testing.assert_allclose(np.mean(found, axis=0), wanted, rtol=0.1)


def test_what_is_missed_is_estimated_without_bias():
    """In the mean over lists Σ_j (w_j + C_j) e_j is Σ w e over all pairs, whatever e is; every pair
    there, C is 0.

    Every list of four of the ten pairs of size 2 and three of the ten of size 3 that have the first
    of six players.
    """
    d, rng = 5, np.random.default_rng(1)
    masks = np.array([z for z in itertools.product((True, False), repeat=d) if z[0]])
    pairs = np.where(masks, 1.0, -1.0)
    e, size = rng.normal(size=len(pairs)), np.minimum(masks.sum(axis=1), d - masks.sum(axis=1))
    assert np.bincount(size).tolist() == [1, 5, 10]
    assert not missed_weights(pairs).any()
    found = []
    for some in itertools.combinations(np.flatnonzero(size == 2), 4):
        listed = np.r_[np.flatnonzero(size < 2), some]
        found.append((exact_weights(pairs[listed]) + missed_weights(pairs[listed])).T @ e[listed])
    np.testing.assert_allclose(np.mean(found, axis=0), exact_weights(pairs).T @ e, atol=1e-12)
    assert np.std(found, axis=0).min() > 0.01


def test_sizes_of_which_there_are_none_count_as_the_others():
    """Nine players, errors of one effect of the first in sizes 2 to 4, as much in each; of size 3
    there are none."""
    d = 9
    masks = np.array([z for z in itertools.product((True, False), repeat=d) if z[0]])
    size = np.minimum(masks.sum(axis=1), d - masks.sum(axis=1))
    pairs = np.where(masks, 1.0, -1.0)
    e = np.where(size > 1, pairs[:, 0], 0.0)
    weights, found = exact_weights(pairs), []
    for seed in range(200):
        draw = np.random.default_rng(seed).permutation(len(size))
        kept = np.concatenate(
            [np.flatnonzero(size < 2), *(draw[size[draw] == s][:12] for s in (2, 4))]
        )
        found.append((weights[kept] + missed_weights(pairs[kept])).T @ e[kept])
    np.testing.assert_allclose(np.mean(found, axis=0)[0], (weights.T @ e)[0], rtol=0.03)
    assert np.isfinite(missed_weights(kriging(1_024, 4_096, decay=0.1).pair_list.pairs)).all()


def test_what_is_beyond_the_usual():
    """Squares of the moves sum to missed² − (median/0.6745)², no less than 0, with the sign of what
    is missed; none of players that are alike; means over rows keep what rows have in common."""
    missed = np.array([[3.0, -1.0, 1.0, -1.0, 1.0], [0.5, -0.5, 0.5, 0.5, -0.5]])
    moves = beyond_usual(missed, axis=1, n_groups=20)
    wanted = [[9 - 1 / 0.6745**2, 0, 0, 0, 0], [0] * 5]
    np.testing.assert_allclose(np.square(moves).sum(axis=0), wanted, atol=1e-12)
    assert abs(moves.sum(axis=0)).max() < 1e-12
    both = beyond_usual(np.stack([missed[0], missed[0], -missed[0]]), axis=1, n_groups=4)
    np.testing.assert_allclose(
        np.square(both[:, :2].mean(axis=1)).sum(axis=0), np.square(both[:, 0]).sum(axis=0)
    )
    assert np.square(both[:, 1:].mean(axis=1)).max() < 1e-24


@pytest.mark.parametrize(
    ("d", "a_player", "seen"), [(23, 6, 0), (24, 6, 2), (23, 17, 0), (24, 17, 2), (64, 17, 4)]
)
def test_who_looks_at_what_is_missed(d, a_player, seen):
    """From 24 players on: ⌈d/20⌉ columns more, beside one a player."""
    design = settled(
        replace(kriging(d, a_player * d // 2 * 2), sparse=False), games_of("votes", d, 3, 0).values
    )
    assert design.info.group_columns == d + seen
    assert (not design.findings.average) <= (a_player > 6)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "m"), [(30, 200), (70, 700), (135, 1_400)])
def test_contrasts_hold_what_is_missed_of_every_player(d, m):
    """Σ_g moves² is that of the signed errors plus that beyond the usual one, of errors of each
    player and of one scale for all, with a mean over priors beside; additive games are exact
    without."""
    games = games_of("airports", d, 3, 0)
    design = settled(replace(kriging(d, m), sparse=False), games.values)
    v, pairs = games.values(design.masks), design.pair_list.pairs
    relevance = (
        np.array(design.findings.relevance) if len(set(design.findings.relevance)) > 1 else None
    )
    odd, process = (
        odd_values(v),
        Process.at(pairs, Prior.of(d, design.findings.decay, design.findings.variation, relevance)),
    )
    phi, replicates = estimated(design, v)
    precision = process.precision()
    left_out = odd @ precision / np.diag(precision)
    missed = odd @ process.posterior()[0] + left_out @ missed_weights(pairs) - phi
    usual = np.median(abs(missed), axis=1, keepdims=True) / 0.6745
    hidden = np.sign(missed) * np.sqrt(np.maximum(missed**2 - usual**2, 0))
    signs = np.where(np.arange(20) % 2, -1, 1)[:, None, None] / np.sqrt(20)
    rest = replicates - phi - signs * hidden
    if d > 128:  # one contrast for all, times the deviation of each
        np.testing.assert_allclose(
            rest / rest[..., :1], np.broadcast_to(rest[:1, :1] / rest[:1, :1, :1], rest.shape)
        )
    spread, beside = np.square(rest).sum(axis=0), np.square(replicates - phi).sum(axis=0)
    assert (hidden != 0).any()
    assert spread.min() > 0
    largest = np.argsort(-np.abs(games.shapley), axis=1)[:, :3]
    assert (np.take_along_axis(beside / spread, largest, axis=1) > 1).mean() > (
        0.5 if d > 64 else 0.2
    )
    weights = np.random.default_rng(0).normal(size=(3, d))
    phi, replicates = estimated(design, weights @ design.masks.T.astype(float))
    if not design.findings.average:
        np.testing.assert_allclose(phi, weights, atol=1e-6)


@pytest.mark.parametrize(
    ("d", "m", "n_whole"), [(6, 40, 6), (8, 128, 36), (12, 200, 78), (7, 100, 28)]
)
def test_errors_of_whole_sizes_count_a_quarter(d, m, n_whole):
    """Sizes 1, or 1 and 2, and their complements are there; the ends count nothing."""
    weights = scale_weights(kriging(d, m, shells=2).pair_list.pairs)
    n_drawn = m // 2 - 1 - n_whole
    whole, drawn = np.sort(weights)[1 : 1 + n_whole], np.sort(weights)[1 + n_whole :]
    np.testing.assert_allclose(whole, 1 / (n_whole + 4 * n_drawn))
    np.testing.assert_allclose(drawn, 4 / (n_whole + 4 * n_drawn))
    assert weights[0] == 0.0
    assert len(drawn) == n_drawn


@pytest.mark.parametrize("d", [2, 3, 7, 20])
def test_weights_where_every_pair_is_there(d):
    """Those of the exact operator: v(S) and v(S̄) of a pair have H_S = −H_S̄."""
    masks = np.random.default_rng(d).random((30, d)) < 0.5
    masks[0] = True
    sizes = masks.sum(axis=1, keepdims=True)
    present = np.array(
        [[math.factorial(s - 1) * math.factorial(d - s) if s else 0] for s in sizes[:, 0]]
    )
    absent = np.array(
        [[-math.factorial(s) * math.factorial(d - s - 1) if s < d else 0] for s in sizes[:, 0]]
    )
    wanted = 2 * (np.where(masks, present, absent) / math.factorial(d)).astype(float)
    np.testing.assert_allclose(exact_weights(np.where(masks, 1.0, -1.0)), wanted, rtol=1e-10)
