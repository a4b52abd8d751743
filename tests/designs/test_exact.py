import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dshap.core.blocks import EMPTY, FULL, DesignInfo
from dshap.core.errors import InputError
from dshap.core.types import Design
from dshap.designs import exact
from tests.designs.design_games import (
    attribute,
    codes,
    dividends,
    game,
    shapley_by_permutations,
    shapley_by_subsets,
    shapley_of_dividends,
)


def test_bike_table_of_the_lecture():
    """Source 002: values of coalitions of humidity (bit 0), temperature (1), wind speed (2) → 34.0,
    −1653.5, −322.5."""
    v = np.array([4515.0, 4635, 3087, 3060, 4359, 4450, 2623, 2573])
    np.testing.assert_allclose(attribute(exact(3), v), [34.0, -1653.5, -322.5], atol=1e-9)


def test_one_player_gets_everything():
    np.testing.assert_array_equal(exact(1).operator, [[-1.0], [1.0]])


@pytest.mark.parametrize("d", range(2, 11))
def test_operator_is_the_definition(d):
    """Rows of values of 1 up to 24, sums of 2^10 terms of weight below 1: 1e-12 is a hundred
    roundings."""
    v = np.random.default_rng(d).normal(size=2**d)
    design = exact(d)
    np.testing.assert_allclose(
        design.operator.T @ v[codes(design.masks)], shapley_by_subsets(v), atol=1e-12
    )


@pytest.mark.parametrize("d", range(2, 7))
def test_permutations_and_dividends_agree(d):
    a = dividends(d, np.random.default_rng(d))
    phi = attribute(exact(d), game(a))
    np.testing.assert_allclose(phi, shapley_by_permutations(game(a)), atol=1e-12)
    np.testing.assert_allclose(phi, shapley_of_dividends(a), atol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 3, 7, 12])
def test_list_is_every_coalition_beside_its_complement(d):
    masks = exact(d).masks
    assert not masks[EMPTY].any()
    assert masks[FULL].all()
    assert (masks[0::2] == ~masks[1::2]).all()
    assert sorted(codes(masks)) == list(range(2**d))


def test_any_block_alone_at_the_largest_size():
    design = exact(24)
    block = design.block(2**24 - 3, 2**24)
    assert block.masks.shape == block.score.shape == (3, 24)
    assert (block.masks[1] == ~block.masks[2]).all()
    assert len(block.groups.coalition) == 0
    assert block.groups.score.shape == (0, 24)
    assert design.block(5, 5).masks.shape == (0, 24)


@given(st.integers(1, 8), st.integers(1, 300))
def test_any_chunking_equals_one(d, step):
    design = exact(d)
    whole = design.block(0, design.n_coalitions)
    parts = [design.block(i, min(i + step, 2**d)) for i in range(0, 2**d, step)]
    np.testing.assert_array_equal(np.concatenate([part.masks for part in parts]), whole.masks)
    np.testing.assert_array_equal(np.concatenate([part.score for part in parts]), whole.score)


def test_protocol_pickle_and_fingerprint():
    design = exact(9)
    assert isinstance(design, Design)
    assert design.info == DesignInfo(9, 512, n_replicates=0, group_columns=9)
    assert pickle.loads(pickle.dumps(design)) == design
    assert design.fingerprint() == {"design": "exact", "n_players": 9}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: exact(25), "25 players given, at most 24 allowed"),
        (lambda: exact(0), "n_players is 0: give a whole number of at least 1"),
        (lambda: exact(3.0), "n_players is 3.0"),
        (lambda: exact(True), "n_players is True"),
        (lambda: exact(3).block(0, 9), "0 <= start <= stop <= 8"),
        (lambda: exact(3).block(-1, 2), "0 <= start <= stop <= 8"),
        (lambda: exact(3).block(3, 2), "0 <= start <= stop <= 8"),
        (lambda: exact(23).operator, "1.4 GiB, at most 1 GiB"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
