"""The list of a kriging design."""

import pickle

import numpy as np
import pytest
from design_games import grown

from dshap import designs
from dshap.designs import kriging


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
    design = kriging(10, 40, seed=3)
    larger = grown(design, 200)
    np.testing.assert_array_equal(larger.masks[:40], design.masks)
    assert larger.n_coalitions == 200 and designs.restored(larger.fingerprint()) == larger
    assert pickle.loads(pickle.dumps(larger)) == larger
