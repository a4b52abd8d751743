"""The list of a kriging design."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from dshap import designs
from dshap.designs import kriging
from tests.designs.design_games import grown, with_findings


@pytest.mark.parametrize(
    ("d", "m", "shells", "inside"),
    [
        # 83 pairs left for sizes 2 to 6, the last of half the rate
        (12, 192, 1, [1, 12, 19, 19, 18, 18, 9]),
        (12, 192, 2, [1, 12, 66, 5, 5, 5, 2]),
        (12, 192, 3, [1, 12, 66, 5, 5, 5, 2]),  # size 3 does not fit
        (12, 192, 0, [1, 12, 17, 18, 18, 18, 9]),
        (70, 400, "pilot", None),  # two pairs a player of many: size 1 is not whole
    ],
)
def test_sizes_of_the_list(d, m, shells, inside):
    """1 + 12 + 66 pairs of sizes 0, 1, 2; the others as many of each size, within 1 of the rounding
    and of the pilot's first quarter."""
    masks = kriging(d, m, shells=shells).masks
    sizes = np.bincount(np.minimum(masks.sum(axis=1), d - masks.sum(axis=1))) / 2
    assert sizes.sum() == m / 2
    assert len(np.unique(masks, axis=0)) == m
    if inside is None:
        assert sizes[1] < 12
        assert np.ptp(sizes[1:-1]) <= 2
    else:
        assert np.abs(sizes - inside).max() <= 2
        assert sizes[:2].tolist() == inside[:2]


def test_growing_begins_with_the_same_list():
    design = with_findings(kriging(10, 40, seed=3), later_shells=1)
    larger = grown(design, 200)
    np.testing.assert_array_equal(larger.masks[:40], design.masks)
    assert larger.n_coalitions == 200
    assert designs.restored_design(larger.fingerprint()) == larger
    assert pickle.loads(pickle.dumps(larger)) == larger


@pytest.mark.slow
@pytest.mark.parametrize("later", [0, 1, 2])
@pytest.mark.parametrize(
    ("d", "budgets"),
    [
        (30, (120, 240, 480)),
        (30, (100, 130, 170)),
        (64, (256, 1_024)),
        (65, (260, 1_040)),
        (80, (320, 640, 2_048)),
    ],
)
def test_rounds_are_beginnings_of_the_list(d, budgets, later):
    """Whatever a pilot chose: the values of a round are of the coalitions that its weights are
    of."""
    design = replace(kriging(d, budgets[0]), budgets=budgets)
    if design.findings.later_shells is None:
        design = with_findings(design, later_shells=max(later, min(design.pair_list.choices)))
    for each in replace(design, decay=0.03).rounds:
        np.testing.assert_array_equal(each.masks, design.masks[: each.n_coalitions])


@pytest.mark.slow
@pytest.mark.parametrize(("d", "m"), [(20, 90), (30, 178), (60, 256), (65, 300), (300, 1_400)])
def test_a_list_that_size_one_would_be_a_third_of_is_scouted(d, m):
    """The pilot sees a draw of all sizes; where it takes size 1 that is there whole and the rest is
    drawn anew, and where it does not the list goes on.  Six coalitions a player and more begin with
    size 1."""
    design = kriging(d, m, seed=1)
    first = design.block(0, design.pilot_coalitions).masks
    thin, whole = (with_findings(design, later_shells=later) for later in (0, 1))
    np.testing.assert_array_equal(thin.masks[: len(first)], first)
    assert 4 * d - 4 <= len(first) <= 4 * d + 2
    assert len(first) < m
    ones = [np.count_nonzero(each.sum(axis=1) == 1) for each in (first, thin.masks, whole.masks)]
    assert ones[0] <= ones[1] < 0.4 * d
    assert ones[2] == d
    for each in (thin, whole):
        assert len(np.unique(each.masks, axis=0)) == m
        assert each.pilot_coalitions == m
    assert np.count_nonzero(kriging(d, 6 * d).masks[: 2 * d + 2].sum(axis=1) == 1) == d


@pytest.mark.parametrize(
    ("d", "m"), [(4, 10), (12, 26), (40, 100), (70, 170), (80, 162), (300, 610)]
)
def test_hardly_more_pairs_than_players_are_scouted_too(d, m):
    """Fewer than 2.5 coalitions a player: the pilot sees all of a list without size 1 but a
    pair."""
    design = kriging(d, m, seed=1)
    assert design.findings.later_shells is None
    assert design.pilot_coalitions == m - 2
    first = design.block(0, m - 2).masks
    thin, whole = (with_findings(design, later_shells=later) for later in (0, 1))
    np.testing.assert_array_equal(thin.masks[: m - 2], first)
    ones = [np.count_nonzero(each.masks.sum(axis=1) == 1) for each in (thin, whole)]
    assert ones[0] < max(0.5 * d, 4)
    assert ones[1] == d
    for each in (thin, whole):
        assert len(np.unique(each.masks, axis=0)) == m
        assert each.pilot_coalitions == m
    fixed = kriging(d, m, decay=0.1, seed=1)
    assert fixed.pilot_coalitions == 0
    assert np.count_nonzero(fixed.masks.sum(axis=1) == 1) == d


@pytest.mark.slow
def test_a_list_that_does_not_tell_the_players_apart():
    """Of few players a draw without size 1 may miss a direction: it has no scores, and the pilot
    takes size 1."""
    singular = 0
    for seed in range(40):
        design = kriging(8, 18, seed=seed)
        pairs, block = design.pair_list.pairs, design.block(0, 4)
        if np.linalg.matrix_rank(pairs) == 8:
            assert np.isfinite(block.score).all()
            continue
        singular += 1
        assert np.isnan(block.score).all()
        values = np.random.default_rng(seed).normal(size=(3, design.pilot_coalitions))
        chosen = design.tuned(design.tune(values))
        assert chosen.findings.later_shells == 1
        assert np.isfinite(chosen.block(0, 4).score).all()
    assert singular
