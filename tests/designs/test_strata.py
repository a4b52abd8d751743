"""Strata: which units they hold, and in which order a seed draws them."""

from math import comb

import numpy as np
import pytest

from dshap.designs.strata import strata_of


def kernel_weight(d, size):
    """The Shapley kernel of one coalition, written out."""
    return (d - 1) / (comb(d, size) * size * (d - size))


@pytest.mark.parametrize("d", range(2, 9))
@pytest.mark.parametrize("paired", [True, False])
def test_strata_hold_every_coalition_once(d, paired):
    units = np.concatenate([stratum.enumerate() for stratum in strata_of(d, paired)])
    masks = np.concatenate([units, ~units]) if paired else units
    assert len(np.unique(masks, axis=0)) == len(masks) == 2**d - 2
    mass = sum(stratum.mass for stratum in strata_of(d, paired))
    assert mass == pytest.approx(sum(comb(d, s) * kernel_weight(d, s) for s in range(1, d)), rel=1e-14)


@pytest.mark.parametrize("paired", [True, False])
def test_sequences_of_a_stratum_only_append(paired):
    for stratum in strata_of(9, paired):
        longest = stratum.sequence([stratum.n_units], seed=1)
        for count in (0, 1, stratum.n_units // 2):
            np.testing.assert_array_equal(stratum.sequence([count], seed=1), longest[:count])


def test_large_strata_reject_repeats_and_can_be_filled():
    """C(20, 9) = 167,960 is above the limit of shuffling; filling it keeps what was drawn first."""
    stratum = strata_of(20, True)[8]
    few, more = stratum.sequence([500], seed=2), stratum.sequence([500, 30_000], seed=2)
    full = stratum.sequence([500, 30_000, stratum.n_units], seed=2)
    np.testing.assert_array_equal(few, more[:500])
    np.testing.assert_array_equal(more, full[:30_000])
    assert len(np.unique(np.packbits(full, axis=1), axis=0)) == len(full) == stratum.n_units
    assert (full.sum(axis=1) == 9).all()
