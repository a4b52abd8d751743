"""KernelSHAP designs.  Games have interactions of every order unless a test says otherwise."""

import multiprocessing
import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dshap.core.blocks import EMPTY, FULL, N_ENDS
from dshap.core.errors import InputError
from dshap.core.types import Design
from dshap.designs import KernelShapDesign, exact, kernelshap
from dshap.designs.sampling import SAMPLERS
from tests.designs.design_games import (
    assert_joined,
    attribute,
    codes,
    dividends,
    game,
    grown,
    shapley_of_dividends,
)

KINDS = [(sampling, paired) for sampling in SAMPLERS for paired in (True, False)]
every_kind = pytest.mark.parametrize(("sampling", "paired"), KINDS)


@st.composite
def designs(draw, max_players=9):
    """Any design that determines its attributions, grown or not."""
    d = draw(st.integers(1, max_players))
    sampling, paired = draw(st.sampled_from(KINDS))
    n = draw(st.integers(2 * d if paired else d + 1, 2**d + 3))
    try:
        design = kernelshap(d, n, sampling=sampling, paired=paired, seed=draw(st.integers(0, 5)))
    except InputError as error:
        assume("determine" not in str(error))
        raise
    more = draw(st.integers(0, 2**d))
    return grown(design, n + more) if min(n + more, 2**d) >= design.n_coalitions + 2 else design


@every_kind
@pytest.mark.parametrize("d", range(1, 11))
def test_every_coalition_gives_the_exact_value(d, sampling, paired):
    """Condition of the solve is 1 there; values of size 1 to 30 in 2^10 terms: 1e-10 as DESIGN
    demands."""
    a = dividends(d, np.random.default_rng(d))
    design = kernelshap(d, 2**d + 5, sampling=sampling, paired=paired, seed=3)
    assert design.n_coalitions == 2**d
    np.testing.assert_allclose(attribute(design, game(a)), shapley_of_dividends(a), atol=1e-10)
    np.testing.assert_allclose(
        design.operator[np.argsort(codes(design.masks))], _exact_by_code(d), atol=1e-10
    )


@every_kind
def test_growing_to_every_coalition_gives_the_exact_value(sampling, paired):
    design = grown(grown(kernelshap(7, 40, sampling=sampling, paired=paired), 71), 1000)
    np.testing.assert_allclose(
        design.operator[np.argsort(codes(design.masks))], _exact_by_code(7), atol=1e-10
    )


def _exact_by_code(d):
    return exact(d).operator[np.argsort(codes(exact(d).masks))]


@settings(max_examples=60, deadline=None)
@given(designs())
def test_list_of_coalitions(design):
    """∅ and N first, distinct masks, complements side by side, all sizes within reach."""
    masks = design.masks
    assert masks.shape == (design.n_coalitions, design.n_players)
    assert not masks[EMPTY].any()
    assert masks[FULL].all()
    assert len(np.unique(masks, axis=0)) == len(masks)
    if design.paired:
        assert (masks[0::2] == ~masks[1::2]).all()


@settings(max_examples=60, deadline=None)
@given(designs(), st.integers(1, 200))
def test_any_chunking_equals_one(design, step):
    m = design.n_coalitions
    whole = design.block(0, m)
    parts = [design.block(i, min(i + step, m)) for i in reversed(range(0, m, step))][::-1]
    assert_joined(parts, whole)
    assert whole.masks.dtype == bool
    assert whole.score.dtype == np.float64
    assert whole.groups.group.dtype == np.int16
    assert not whole.score[[EMPTY, FULL]].any()
    assert not whole.score[~whole.masks].any()
    assert (whole.score[N_ENDS:].max(axis=1) > 0).all()


@settings(max_examples=60, deadline=None)
@given(designs(), st.integers(0, 2**32), st.integers(1, 50))
def test_operator_efficiency_linearity(design, seed, step):
    """Games of size 1 to 30 and designs of condition up to 1e4: 1e-8 is far above rounding."""
    rng = np.random.default_rng(seed)
    one, two = (game(dividends(design.n_players, rng)) for _ in range(2))
    phi = attribute(design, one, step)
    np.testing.assert_allclose(design.operator.T @ one[codes(design.masks)], phi, atol=1e-8)
    np.testing.assert_allclose(phi.sum(), one[-1] - one[0], atol=1e-10)
    np.testing.assert_allclose(
        attribute(design, 2 * one - 3 * two), 2 * phi - 3 * attribute(design, two), atol=1e-8
    )
    # a constant changes nothing
    np.testing.assert_allclose(attribute(design, one + 7.0), phi, atol=1e-8)


@settings(max_examples=40, deadline=None)
@given(designs(), st.integers(0, 2**32))
def test_additive_games_are_exact_so_dummies_get_zero(design, seed):
    """The regression fits an additive game without residual, whatever the coalitions and
    weights."""
    a = dividends(design.n_players, np.random.default_rng(seed), order=1)
    a[1] = 0.0  # player 0 adds nothing
    phi = attribute(design, game(a))
    np.testing.assert_allclose(phi, shapley_of_dividends(a), atol=1e-8)
    assert abs(phi[0]) < 1e-8


@settings(max_examples=40, deadline=None)
@given(designs(), st.integers(0, 2**32))
def test_pairs_fit_two_way_games_exactly(design, seed):
    """Only the odd part of a game matters to pairs, and that of a two-way game is additive (PEERS:
    paired KernelSHAP fits all two-way interactions)."""
    assume(design.paired)
    a = dividends(design.n_players, np.random.default_rng(seed), order=2)
    np.testing.assert_allclose(attribute(design, game(a)), shapley_of_dividends(a), atol=1e-8)


def test_symmetric_players_at_every_coalition_get_the_same():
    """v depends on how many players there are of {0, 1, 2}, and on player 3 in a way of its own."""
    S = np.arange(16)
    size = np.array([int(s & 7).bit_count() for s in S])
    phi = attribute(kernelshap(4, 16), size**3 + (S >> 3) * np.exp(size))
    np.testing.assert_allclose(phi[:3], phi[0], atol=1e-12)
    assert abs(phi[3] - phi[0]) > 1


def triples_with_player_0(d):
    """A three-way game: weighting drawn coalitions by the kernel again misses its values by a third
    of their range."""
    return np.array([float(T & 1 and T.bit_count() == 3) for T in range(2**d)])


@pytest.mark.slow
@every_kind
def test_mean_over_seeds_is_the_shapley_value(sampling, paired):
    """Of triples and of a game of every order: 600 seeds, 8 players, 80 of 256 coalitions.  A
    regression is consistent, not unbiased: allowed is 3 % of the range of φ for its bias (measured
    on the triples: 1 to 2 %) and 4 standard errors of the mean (at most 1.2 % of the range); 64
    comparisons, so false alarms below 1 in 200, and the seeds are fixed."""
    games = [triples_with_player_0(8), dividends(8, np.random.default_rng(8))]
    v, truth = (np.stack([of(a) for a in games], axis=1) for of in (game, shapley_of_dividends))
    phi = np.array(
        [
            attribute(kernelshap(8, 80, sampling=sampling, paired=paired, seed=s), v)
            for s in range(600)
        ]
    )
    noise = phi.std(axis=0) / np.sqrt(len(phi))
    assert (np.abs(phi.mean(axis=0) - truth) < 0.03 * np.ptp(truth, axis=0) + 4 * noise).all()


@pytest.mark.slow
@every_kind
def test_error_falls_with_the_budget(sampling, paired):
    """Root of the mean square over 40 seeds; four times the coalitions, at least 1.5 times less
    error."""
    a = dividends(10, np.random.default_rng(1))
    v, truth = game(a), shapley_of_dividends(a)

    def error(n):
        phi = [
            attribute(kernelshap(10, n, sampling=sampling, paired=paired, seed=s), v)
            for s in range(40)
        ]
        return np.sqrt(np.mean((np.array(phi) - truth) ** 2))

    errors = [error(n) for n in (60, 240, 960)]
    assert errors[0] > 1.5 * errors[1] > 2.25 * errors[2]


@pytest.mark.slow
@every_kind
def test_grown_designs_stay_consistent(sampling, paired):
    """As the mean over seeds above, through two growths: 200 seeds, 5 % for the bias."""
    a = dividends(8, np.random.default_rng(2))
    v, truth = game(a), shapley_of_dividends(a)
    first = [kernelshap(8, 40, sampling=sampling, paired=paired, seed=s) for s in range(200)]
    phi = np.array([attribute(grown(grown(design, 64), 120), v) for design in first])
    noise = phi.std(axis=0) / np.sqrt(len(phi))
    assert (np.abs(phi.mean(axis=0) - truth) < 0.05 * np.ptp(truth) + 4 * noise).all()


@every_kind
@pytest.mark.parametrize(
    ("d", "budgets"), [(6, (20, 22, 64)), (12, (40, 42, 300, 4096)), (20, (64, 5000))]
)
def test_grown_list_begins_with_the_smaller_one(sampling, paired, d, budgets):
    design = kernelshap(d, budgets[0], sampling=sampling, paired=paired, seed=4)
    masks = [design.masks]
    for budget in budgets[1:]:
        design = grown(design, budget)
        masks.append(design.masks)
        np.testing.assert_array_equal(masks[-1][: len(masks[-2])], masks[-2])
        assert len(masks[-1]) == budget == design.n_coalitions
        assert len(np.unique(masks[-1], axis=0)) == budget
    assert design.fingerprint()["budgets"] == list(budgets)


def test_grow_is_a_larger_design_of_the_same_kind():
    design = kernelshap(10, 101, seed=7)
    assert design.n_coalitions == 100
    assert kernelshap(10, 101, paired=False).n_coalitions == 101
    larger = grown(design, 201)
    assert (larger.n_coalitions, larger.seed, larger.budgets) == (200, 7, (100, 200))
    assert larger.fingerprint() != kernelshap(10, 200, seed=7).fingerprint()


def test_protocol_and_pickle():
    design = kernelshap(24, 100_000, seed=2)
    design.block(0, 10)
    assert isinstance(design, Design)
    assert (design.info.is_efficient, design.n_replicates, design.seed, design.n_players) == (
        True,
        20,
        2,
        24,
    )
    assert len(pickle.dumps(design)) < 500  # the list is made anew, never sent
    assert pickle.loads(pickle.dumps(design)) == design
    assert kernelshap(5, 12) == kernelshap(5, 13)
    assert kernelshap(5, 12).fingerprint() == {
        "design": "kernelshap",
        "n_players": 5,
        "budgets": [12],
        "sampling": "leverage",
        "paired": True,
        "seed": 0,
        "n_replicates": 20,
    }


def _summary(design):
    block = design.block(17, 60)
    phi = design.finish(np.ones((1, design.n_players, 1)), np.zeros((1, 1)), np.ones((1, 1)))
    return block.masks.tobytes(), block.score.tobytes(), phi.tobytes()


@pytest.mark.slow
def test_another_process_makes_the_same_design():
    """One that is forked before a design is made: nothing is shared but the pickled parameters."""
    made = [
        kernelshap(11, 64, sampling=sampling, paired=paired, seed=9) for sampling, paired in KINDS
    ]
    made += [grown(design, 150) for design in made]
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        assert pool.map(_summary, made) == [_summary(design) for design in made]


def test_seeds_differ():
    assert (kernelshap(12, 64, seed=0).masks != kernelshap(12, 64, seed=1).masks).any()


@pytest.mark.slow
@every_kind
@pytest.mark.parametrize("d", [60, 200, 1_000])
def test_many_players(sampling, paired, d):
    """Binomials up to C(200, 100), which no integer of 64 bits holds; an additive game stays
    exact."""
    design = kernelshap(d, 8 * d, sampling=sampling, paired=paired)
    masks, effect = design.block(0, design.n_coalitions).masks, np.linspace(-1, 1, d)
    assert len(masks) == 8 * d
    assert len(np.unique(np.packbits(masks, axis=1), axis=0)) == 8 * d
    sums = design.block(0, 8 * d).score.T @ (2.0 + masks @ effect)
    phi = design.finish(
        sums[None, :, None], np.full((1, 1), 2.0), np.full((1, 1), 2.0 + effect.sum())
    )
    np.testing.assert_allclose(phi[0, :, 0], effect, atol=1e-8)


def test_finish_takes_one_base_value_for_all_instances():
    rng = np.random.default_rng(0)
    design = kernelshap(6, 20)
    sums, base, full = rng.normal(size=(5, 6, 2)), rng.normal(size=2), rng.normal(size=(5, 2))
    whole = design.finish(sums, np.tile(base, (5, 1)), full)
    np.testing.assert_array_equal(design.finish(sums, base[None], full), whole)
    np.testing.assert_array_equal(design.finish(sums, base, full), whole)
    row_by_row = [design.finish(s[None], base, f) for s, f in zip(sums, full, strict=True)]
    np.testing.assert_array_equal(np.concatenate(row_by_row), whole)
    np.testing.assert_allclose(whole.sum(axis=1), full - base, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernelshap(6, 20, sampling="levrage"), "did you mean 'leverage'"),
        (
            lambda: kernelshap(6, 11),
            "n_coalitions=11 for 6 players: with paired=True give at least 12",
        ),
        (lambda: kernelshap(6, 6, paired=False), "with paired=False give at least 7"),
        (lambda: kernelshap(30, 2**25), "at most 16777216"),
        (lambda: kernelshap(6, 20.0), "n_coalitions is 20.0: give a whole number"),
        (lambda: kernelshap(0, 20), "n_players is 0: give a whole number of at least 1"),
        (lambda: kernelshap(6, 20, seed=-1), "seed is -1: give a whole number of at least 0"),
        (lambda: kernelshap(6, 20, seed=None), "seed is None: give a whole number"),
        (lambda: grown(kernelshap(6, 20), 21), "give at least 22"),
        (
            lambda: grown(kernelshap(6, 20), 12),
            "gives 12 coalitions to a design that has 20 already",
        ),
        (lambda: grown(kernelshap(6, 64), 70), r"there are 2\^6 in all"),
        (lambda: kernelshap(6, 20).block(0, 21), "0 <= start <= stop <= 20"),
        (lambda: kernelshap(6, 20).block(5, 4), "0 <= start <= stop <= 20"),
        (lambda: kernelshap(24, 2**24).operator, "3.0 GiB, at most 1 GiB"),
        (lambda: KernelShapDesign(6, (20, 20)), "give at least 22"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_an_undetermined_design_is_refused_where_it_is_made():
    """Three pairs of the seven of four players are sometimes dependent: then the error says what to
    do."""
    messages = []
    for seed in range(40):
        try:
            kernelshap(4, 8, seed=seed)
        except InputError as error:
            messages.append(str(error))
    assert 0 < len(messages) < 40
    assert all("raise n_coalitions or give another seed" in message for message in messages)
