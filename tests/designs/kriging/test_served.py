"""Games that the choices of a pilot serve, and the estimates of the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dshap.core.blocks import jackknife_errors
from dshap.core.capabilities import checking, checks_rows, held_coalitions
from dshap.core.errors import InputError
from dshap.designs import exact, kernelshap, kriging, permutation, restored_design
from dshap.designs.kriging.pairs import odd_values
from dshap.designs.kriging.prior import Prior
from dshap.designs.kriging.served import Service
from tests.benchmarks.games import estimated, games_of, settled
from tests.benchmarks.served import error

D, M, N = 12, 400, 24
LATER = slice(16, None)
KINDS = ("order 3", "products over 15", "votes", "additive and pairs")


@pytest.fixture(scope="module")
def games():
    return {kind: games_of(kind, D, N, 1) for kind in KINDS}


@pytest.fixture(scope="module")
def pilots(games):
    """The design with the choices of a pilot that saw 16 games of each kind."""
    return {kind: _by_pilot(games[kind], slice(16)) for kind in KINDS}


def _by_pilot(games, chosen):
    design = kriging(D, M, seed=1).checking()
    return settled(design, lambda masks: games.values(masks)[chosen])


def _values(design, games):
    return games.values(design.block(0, M).masks)[LATER]


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("pilot", KINDS)
def test_the_games_of_another_kind_are_estimated_by_themselves(pilot, kind, games, pilots):
    """No kind with the pilot of another has more than 1.05 times kernelshap's error, nor 1.5 times
    that of a pilot which saw these very games, nor more than without the check."""
    design = pilots[pilot]
    values = _values(design, games[kind])
    truth = games[kind].shapley[LATER]
    phi, replicates, is_served = design.of_checked_values(values[:, :, None])
    found = error(phi[..., 0], truth)
    linear = kernelshap(D, M, seed=1)
    assert found <= 1.05 * error(estimated(linear, _values(linear, games[kind]))[0], truth)
    one = replace(_by_pilot(games[kind], LATER), checks_games=False)
    assert found <= 1.5 * max(error(estimated(one, _values(one, games[kind]))[0], truth), 1e-3)
    unchecked = estimated(replace(design, checks_games=False), values)[0]
    assert found <= 1.1 * error(unchecked, truth)
    if pilot == kind:
        assert is_served.mean() >= 0.75
        served = np.flatnonzero(is_served)
        np.testing.assert_allclose(phi[served, :, 0], unchecked[served], rtol=1e-9, atol=1e-12)
    if pilot == "additive and pairs":
        assert not is_served.any()
    covered = np.abs(phi[..., 0] - truth) <= 2.09 * jackknife_errors(phi, replicates)[..., 0] + 1e-4
    assert covered.mean() >= 0.75
    assert np.allclose(phi.sum(axis=1), truth.sum(axis=1)[:, None])


@pytest.mark.parametrize("pilot", KINDS)
def test_additive_games_are_served_by_every_pilot(pilot, games, pilots):
    values = _values(pilots[pilot], games["additive and pairs"])
    phi, _, is_served = pilots[pilot].of_checked_values(values[:, :, None])
    assert is_served.all()
    np.testing.assert_allclose(phi[..., 0], games["additive and pairs"].shapley[LATER], atol=1e-7)


def test_a_game_has_the_same_bits_whatever_games_are_beside_it(games, pilots):
    """Of games that are not served: in one call, in another order, alone."""
    design = pilots["additive and pairs"]
    both = np.concatenate([_values(design, games[kind])[:3] for kind in KINDS[:2]])[:, :, None]
    phi, replicates, is_served = design.of_checked_values(both)
    assert not is_served.any()
    order = np.array([4, 0, 5, 2, 1, 3])
    again, moved, _ = design.of_checked_values(both[order])
    np.testing.assert_array_equal(again, phi[order])
    np.testing.assert_array_equal(moved, replicates[:, order])
    for game in range(len(both)):
        alone, errors, _ = design.of_checked_values(both[game : game + 1])
        np.testing.assert_array_equal(alone[0], phi[game])
        np.testing.assert_array_equal(errors[:, 0], replicates[:, game])


def test_a_row_is_served_if_all_its_outputs_are(games, pilots):
    design = pilots["votes"]
    both = [_values(design, games[kind])[:4] for kind in ("votes", "additive and pairs", "order 3")]
    values = np.stack(both, axis=2)  # (4, M, 3)
    phi, _, is_served = design.of_checked_values(values)
    one_by_one = [design.of_checked_values(values[:, :, [k]]) for k in range(3)]
    np.testing.assert_array_equal(is_served, np.all([each[2] for each in one_by_one], axis=0))
    assert not is_served.all()
    np.testing.assert_allclose(phi, np.concatenate([each[0] for each in one_by_one], axis=2))


def test_games_that_share_a_process_get_one_by_their_own_values(games):
    """With sparse=False the pilot gives no game a process of its own, nor has any that is not
    served; the error is that of a linear design whose pilot saw these games."""
    linear = kriging(D, M, seed=1, sparse=False)
    design = settled(linear.checking(), lambda masks: games["order 3"].values(masks)[:16])
    assert not design.findings.by_game
    assert design.findings.sparse is None
    for kind in ("votes", "products over 15"):
        values = _values(design, games[kind])
        phi, _, is_served = design.of_checked_values(values[:, :, None])
        assert not is_served.any()
        truth = games[kind].shapley[LATER]
        one = settled(linear, lambda masks, kind=kind: games[kind].values(masks)[LATER])
        alone = error(estimated(one, _values(one, games[kind]))[0], truth)
        assert error(phi[..., 0], truth) <= 1.5 * alone


def test_no_rows(pilots):
    phi, replicates, is_served = pilots["votes"].of_checked_values(np.zeros((0, M, 2)))
    assert phi.shape == (0, D, 2)
    assert replicates.shape == (20, 0, D, 2)
    assert is_served.shape == (0,)


def test_the_limits_are_those_of_the_games_of_the_pilot(games, pilots):
    """Of three numbers, or of two where all games have sparse terms; with slack, and misfit above
    1.  A game with a number beyond its limit is not served."""
    design = pilots["votes"]
    found = design.findings
    service = Service(
        design.pair_list,
        Prior.of(D, found.decay, found.variation, np.array(found.relevance)),
        False,
    )
    odd = odd_values(games["votes"].values(design.block(0, M).masks))
    limits = np.array(design.findings.served)
    assert len(limits) == 3
    assert (limits > [0, 1, 0]).all()
    largest = service.numbers(odd[:16]).max(axis=0)
    np.testing.assert_allclose(limits, [1.5, 1.1, 1.1] * np.maximum(largest, [0, 1, 0]))
    numbers = service.numbers(odd)
    for place in range(3):
        narrow = limits.copy()
        narrow[place] = np.median(numbers[:, place])
        wanted = (numbers <= narrow).all(axis=1)
        np.testing.assert_array_equal(service.is_served(odd, tuple(narrow)), wanted)
        assert 0 < wanted.sum() < N
    assert len(pilots["order 3"].findings.served) == 2
    assert pilots["order 3"].findings.sparse


def test_what_checks_no_rows(games):
    """Other designs, a design that checks none, one without a pilot, one with every coalition."""
    assert checks_rows(kriging(D, M).checking())
    assert not checks_rows(kriging(D, M))
    assert not checks_rows(kriging(D, M).checking().linear())
    for design in (kriging(D, M, decay=0.1), kriging(5, 32), exact(5), permutation(5, 100)):
        assert not checks_rows(checking(design))
    asked = kriging(D, M, sparse=False)
    assert held_coalitions(asked) == 0
    assert held_coalitions(asked.checking()) == M
    assert asked.checking().info.kept_bytes > asked.info.kept_bytes
    tuned = settled(asked.checking(), games["votes"].values)
    assert np.isnan(tuned.block(0, 4).score).all()
    with pytest.raises(InputError, match="not linear in the values"):
        _ = tuned.operator


def test_a_fingerprint_tells_of_the_check_alone_where_there_is_one(pilots):
    plain = kriging(D, M)
    assert "checks_games" not in plain.fingerprint()
    assert plain.checking().fingerprint() == plain.fingerprint() | {"checks_games": True}
    for design in (*pilots.values(), plain.checking()):
        assert restored_design(design.fingerprint()) == design
    unchecked = replace(
        pilots["votes"], checks_games=False, findings=replace(pilots["votes"].findings, served=None)
    )
    assert "served" not in unchecked.fingerprint()["findings"]
    assert restored_design(unchecked.fingerprint()) == unchecked


@pytest.mark.parametrize(("d", "m"), [(6, 30), (7, 20), (30, 100), (70, 200)])
def test_few_pairs_and_many_players(d, m):
    """Lists without separate processes or sparse terms: the likeliest prior alone."""
    votes, other = games_of("votes", d, 6, 1), games_of("order 3", d, 6, 1)
    design = settled(kriging(d, m).checking(), votes.values)
    for games in (votes, other):
        values = games.values(design.block(0, m).masks)
        phi, replicates, _ = design.of_checked_values(values[:, :, None])
        assert np.isfinite(phi).all()
        assert np.isnan(replicates).all() == bool(design.info.why_no_errors)
        np.testing.assert_allclose(phi.sum(axis=1)[:, 0], values[:, 1] - values[:, 0], atol=1e-8)
