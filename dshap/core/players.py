"""Players: the columns, or named groups of columns, that coalitions are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError, unknown_name
from dshap.core.printing import label

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Players:
    """The d players of a game, each of which gets an attribution, and the columns of each.

    A player is a single column, or several columns under one name.  With the groups
    ``{"location": ["lat", "lon"]}``, "location" is one player, at the position of its first column,
    and every other column is a player of its own.  `Players.of` builds the record.

    Examples
    --------
    >>> from dshap.values import Players
    >>> players = Players.of(3, ["lat", "lon", "price"], {"location": ["lat", "lon"]})
    >>> players.names
    ('location', 'price')
    >>> players.members.astype(int).tolist()
    [[1, 1, 0], [0, 0, 1]]
    """

    names: tuple[str, ...]
    members: BoolArray
    """(d, columns): True if the column belongs to the player; a column belongs to one player, or
    to none (see `over`)."""

    @classmethod
    def of(
        cls,
        n_columns: int,
        column_names: Sequence[str] | None = None,
        groups: Mapping[str, Sequence[str | int]] | None = None,
    ) -> Players:
        """Make a player of each group of columns, and of each column outside the groups.

        Parameters
        ----------
        n_columns : int
        column_names : names, optional
            By default x0, x1, …
        groups : mapping, optional
            Name of a player -> its columns, by name or position, such as
            ``{"location": ["lat", "lon"]}``.

        Raises
        ------
        InputError
            A column is unknown or belongs to two groups, a group has no column or the name of a
            column outside it, or names repeat.

        Examples
        --------
        >>> from dshap.values import Players
        >>> Players.of(3, ["lat", "lon", "rooms"], {"location": ["lat", "lon"]}).names
        ('location', 'rooms')
        """
        if column_names:
            columns = [str(name) for name in column_names]
        else:
            columns = [f"x{j}" for j in range(n_columns)]
        for name in columns:
            if columns.count(name) > 1:
                raise InputError(
                    f"column {label(name)!r} occurs {columns.count(name)} times among the names: "
                    "rename all but one"
                )
        if len(columns) != n_columns:
            raise InputError(f"{len(columns)} names for {n_columns} columns: give one for each")
        if groups is not None and not isinstance(groups, Mapping):
            raise InputError(
                f"players is {groups!r}: give names, such as {{'location': ['lat', 'lon']}}"
            )
        owner = _owners(columns, groups or {})
        names = tuple(dict.fromkeys(owner))
        members = np.array(
            [[name == of_column for of_column in owner] for name in names], dtype=bool
        )
        return cls(names, members.reshape(len(names), n_columns))

    def __len__(self) -> int:
        """The number of players, d."""
        return len(self.names)

    def over(self, is_active: BoolArray) -> Players:
        """Return the active players (d,) alone; columns of the others belong to no player."""
        names = tuple(name for name, active in zip(self.names, is_active, strict=True) if active)
        return Players(names, self.members[is_active])

    def columns(self, masks: BoolArray) -> BoolArray:
        """The columns (m, columns) that are present when the players of masks (m, d) are."""
        if not len(self):
            return np.zeros((len(masks), self.members.shape[1]), dtype=bool)
        # 0 for a column of no player too, which `has_one` therefore excludes
        owner = self.members.argmax(axis=0)
        has_one = self.members.any(axis=0)
        return np.take(np.asarray(masks, dtype=bool), owner, axis=1) & has_one

    def fingerprint(self) -> dict[str, list[int]]:
        """Name of each player -> the positions of its columns."""
        return {
            name: [int(c) for c in np.flatnonzero(row)]
            for name, row in zip(self.names, self.members, strict=True)
        }


def _owners(columns: list[str], groups: Mapping[str, Sequence[str | int]]) -> list[str]:
    """The name of the player that each column belongs to."""
    owner = list(columns)
    taken: dict[int, str] = {}
    for group, members in groups.items():
        if isinstance(members, str) or not np.iterable(members):
            raise InputError(
                f"player {group!r} is {members!r}: give a list of columns, such as [{members!r}]"
            )
        if not len(members):
            raise InputError(
                f"player {group!r} contains no column: list at least one, or leave it out"
            )
        for member in members:
            column = _position(columns, member)
            if column in taken:
                raise InputError(
                    f"column {columns[column]!r} belongs to the players {taken[column]!r} and "
                    f"{group!r}"
                )
            taken[column] = group
            owner[column] = group
    clash = [name for column, name in enumerate(columns) if column not in taken and name in groups]
    if clash:
        raise InputError(
            f"player {clash[0]!r} has the name of a column outside it: rename the player"
        )
    return owner


def _position(columns: list[str], member: str | int) -> int:
    if isinstance(member, int | np.integer) and 0 <= member < len(columns):
        return int(member)
    if member not in columns:
        raise InputError(unknown_name("column", str(member), columns))
    return columns.index(str(member))
