"""Players: columns and groups of columns."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_array_equal

from dshap.core.players import Players


def test_a_group_takes_the_place_of_its_first_column():
    players = Players.of(4, ["a", "b", "c", "d"], {"g": ["d", "b"]})
    assert players.names == ("a", "g", "c")
    assert len(players) == 3
    assert players.fingerprint() == {"a": [0], "g": [1, 3], "c": [2]}
    masks = np.array([[False, True, False], [True, False, True]])
    assert_array_equal(
        players.columns(masks), [[False, True, False, True], [True, False, True, False]]
    )


def test_columns_of_players_that_are_left_out_are_in_no_coalition():
    players = Players.of(4, None, {"g": [1, 3]}).over(np.array([True, True, False]))
    assert players.names == ("x0", "g")
    assert_array_equal(players.columns(np.ones((1, 2), dtype=bool)), [[True, True, False, True]])


def test_no_player_holds_no_column_and_many_hold_what_their_groups_say():
    """A coalition of nobody; 300 columns, of which every third is in a group of two."""
    nobody = Players.of(4).over(np.zeros(4, dtype=bool))
    assert_array_equal(nobody.columns(np.zeros((3, 0), dtype=bool)), np.zeros((3, 4), dtype=bool))
    players = Players.of(300, None, {f"g{j}": [j, j + 1] for j in range(0, 300, 3)})
    masks = np.random.default_rng(0).random((50, len(players))) < 0.5
    found = players.columns(masks)
    assert_array_equal(found, masks.astype(int) @ players.members.astype(int) > 0)
    assert found.flags.c_contiguous
