"""The list of a kriging design."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from design_games import grown

from dshap import designs
from dshap.attributors.contraction import of_all_values
from dshap.designs import kernelshap, kriging


@pytest.mark.parametrize(
    ("d", "m", "shells", "inside"),
    [
        (12, 192, 1, [1, 12, 19, 19, 18, 18, 9]),  # 83 pairs left for sizes 2 to 6, the last of half the rate
        (12, 192, 2, [1, 12, 66, 5, 5, 5, 2]),
        (12, 192, 3, [1, 12, 66, 5, 5, 5, 2]),  # size 3 does not fit
        (12, 192, 0, [1, 12, 17, 18, 18, 18, 9]),
        (70, 400, "pilot", None),  # two pairs a player of many: size 1 is not whole
    ],
)
def test_sizes_of_the_list(d, m, shells, inside):
    """1 + 12 + 66 pairs of sizes 0, 1, 2; the others as many of each size, within 1 of the rounding and of the pilot's
    first quarter."""
    masks = kriging(d, m, shells=shells).masks
    sizes = np.bincount(np.minimum(masks.sum(axis=1), d - masks.sum(axis=1))) / 2
    assert sizes.sum() == m / 2 and len(np.unique(masks, axis=0)) == m
    if inside is None:
        assert sizes[1] < 12 and np.ptp(sizes[1:-1]) <= 2
    else:
        assert np.abs(sizes - inside).max() <= 2 and sizes[:2].tolist() == inside[:2]


def test_growing_begins_with_the_same_list():
    design = replace(kriging(10, 40, seed=3), later_shells=1)
    larger = grown(design, 200)
    np.testing.assert_array_equal(larger.masks[:40], design.masks)
    assert larger.n_coalitions == 200 and designs.restored(larger.fingerprint()) == larger
    assert pickle.loads(pickle.dumps(larger)) == larger


@pytest.mark.parametrize("later", [0, 1, 2])
@pytest.mark.parametrize(
    ("d", "budgets"),
    [(30, (120, 240, 480)), (30, (100, 130, 170)), (64, (256, 1_024)), (65, (260, 1_040)), (80, (320, 640, 2_048))],
)
def test_rounds_are_beginnings_of_the_list(d, budgets, later):
    """Whatever a pilot chose: the values of a round are of the coalitions that its weights are of."""
    design = replace(kriging(d, budgets[0]), budgets=budgets)
    if design.later_shells is None:
        design = replace(design, later_shells=max(later, min(design.pair_list.choices)))
    for each in replace(design, decay=0.03).rounds:
        np.testing.assert_array_equal(each.masks, design.masks[: each.n_coalitions])


@pytest.mark.parametrize(("d", "m"), [(20, 90), (30, 178), (60, 256), (65, 300), (300, 1_400)])
def test_a_list_that_size_one_would_be_a_third_of_is_scouted(d, m):
    """The pilot sees a draw of all sizes; where it takes size 1 that is there whole and the rest is drawn anew, and
    where it does not the list goes on.  Six coalitions a player and more begin with size 1."""
    design = kriging(d, m, seed=1)
    first = design.block(0, design.pilot_coalitions).masks
    thin, whole = (replace(design, later_shells=later) for later in (0, 1))
    np.testing.assert_array_equal(thin.masks[: len(first)], first)
    assert 4 * d - 4 <= len(first) <= 4 * d + 2 and len(first) < m
    ones = [np.count_nonzero(each.sum(axis=1) == 1) for each in (first, thin.masks, whole.masks)]
    assert ones[0] <= ones[1] < 0.4 * d and ones[2] == d
    for each in (thin, whole):
        assert len(np.unique(each.masks, axis=0)) == m and each.pilot_coalitions == m
    assert np.count_nonzero(kriging(d, 6 * d).masks[: 2 * d + 2].sum(axis=1) == 1) == d


@pytest.mark.parametrize(("d", "m"), [(40, 100), (70, 170), (80, 162), (300, 610)])
def test_too_few_coalitions_to_scout(d, m):
    """Fewer than 2.5 a player: size 1 is whole, as a draw of all sizes hardly determines the attributions; random games
    of three-way interactions have at most twice the error that kernelshap has."""
    design, rng = kriging(d, m), np.random.default_rng(d)
    assert design.later_shells == 1 and design.pilot_coalitions == m  # for the decay
    assert np.count_nonzero(design.masks.sum(axis=1) == 1) == d
    terms = rng.random((3 * d, d)).argsort(axis=1).argsort(axis=1) < 3
    weights = rng.normal(size=(len(terms), 4))
    truth, errors = weights.T @ terms / 3, []
    for each in (replace(design, decay=0.03), kernelshap(d, m, n_replicates=0)):
        v = ((~each.masks).astype(float) @ terms.T == 0) @ weights
        errors.append(np.square(of_all_values(each, v.T[:, :, None])[0][..., 0] - truth).mean())
    assert errors[0] < 4 * errors[1]
