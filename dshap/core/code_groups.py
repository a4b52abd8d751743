"""Codes: several players under one name, such as the reasons for a decision, whose values add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dshap.core.errors import InputError, shown, unknown_name
from dshap.core.printing import label
from dshap.core.records import FloatArray

Codes = Mapping[str, Sequence[str]]
"""Code -> the players whose attributions it adds up."""
SHOWN = 3
"""The most names that a message lists."""


def checked_codes(name: str, given: Any) -> dict[str, list[str]]:
    """The codes in plain form, each player in one code; the rule of the option `codes`.

    Codes and players are in the order of their names, so that the same codes are one thing in every
    order in which they are given.

    Raises
    ------
    InputError
        It is no mapping of lists of names, a code has no player, or a player has two codes.
    """
    if not isinstance(given, Mapping) or not given:
        raise InputError(
            f"{name} is {shown(given)}: give each code its players, such as "
            "{'debt': ['debt_ratio', 'open_loans'], 'income': ['income']}"
        )
    codes: dict[str, list[str]] = {}
    for code, players in given.items():
        if isinstance(players, str) or not isinstance(players, Sequence) or not players:
            raise InputError(
                f"{name}: code {label(str(code))!r} is {shown(players)}: give a list of names"
            )
        codes[str(code)] = [str(player) for player in players]
    counts = Counter(player for players in codes.values() for player in players)
    twice = [player for player, count in counts.items() if count > 1]
    if twice:
        homes = [code for code, players in codes.items() if twice[0] in players]
        raise InputError(
            f"{name}: player {label(twice[0])!r} is in "
            f"{_listed(homes) if len(homes) > 1 else f'code {homes[0]!r} twice'}: give each player "
            "one code"
        )
    return {code: sorted(players) for code, players in sorted(codes.items())}


def code_members(codes: Codes, players: Sequence[str], name: str = "codes") -> FloatArray:
    """(d, C): 1 if a player belongs to a code, so that values (…, d) @ members are the codes'.

    Raises
    ------
    InputError
        A code names a player that is not there, or a player has no code.
    """
    place = {player: position for position, player in enumerate(players)}
    members = np.zeros((len(place), len(codes)))
    for column, (code, named) in enumerate(codes.items()):
        for player in named:
            if player not in place:
                raise InputError(
                    f"{name}: code {label(code)!r} has the {unknown_name('player', player, place)}"
                )
            members[place[player], column] = 1.0
    without = [player for player in place if not members[place[player]].any()]
    if without:
        raise InputError(
            f"{name}: {_listed(without)} {'has' if len(without) == 1 else 'have'} no code: give "
            "each player one, because reasons are ordered among all players"
        )
    return members


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(label(name)) for name in names[:SHOWN])
    if len(names) > SHOWN:
        return f"{shown} and {len(names) - SHOWN} more"
    return shown
