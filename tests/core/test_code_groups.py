"""Codes of players: their plain form, and the matrix that adds them up."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.core.code_groups import checked_codes, code_members
from dshap.core.errors import InputError


def test_codes_are_one_thing_in_every_order():
    given = {"R2": ("b", "a"), "R1": ["ü"]}
    assert list(checked_codes("codes", given).items()) == [("R1", ["ü"]), ("R2", ["a", "b"])]


def test_members_add_up_the_players_of_a_code():
    members = code_members({"R1": ["c"], "R2": ["a", "b"]}, ["a", "b", "c"])
    np.testing.assert_array_equal(np.array([1.0, 2.0, 4.0]) @ members, [4.0, 3.0])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "give each code its players"),
        (["a"], "give each code its players"),
        ({"R1": "a"}, "code 'R1' is 'a': give a list of names"),
        ({"R1": []}, "code 'R1' is []: give a list of names"),
        ({"R1": ["a"], "R2": ["b", "a"]}, "player 'a' is in 'R1', 'R2': give each player one code"),
        ({"R1": ["a", "a"]}, "player 'a' is in code 'R1' twice"),
    ],
)
def test_codes_that_are_none(given, said):
    with pytest.raises(InputError, match=r"^codes") as caught:
        checked_codes("codes", given)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ({"R1": ["a", "bb"]}, "code 'R1' has the unknown player 'bb'"),
        ({"R1": ["a"]}, "'b', 'c', 'd' have no code"),
        ({"R1": ["a", "b", "c"]}, "'d' has no code"),
    ],
)
def test_codes_of_other_players(codes, said):
    with pytest.raises(InputError) as caught:
        code_members(codes, ["a", "b", "c", "d"])
    assert said in str(caught.value)
