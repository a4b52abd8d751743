"""What follows from coalitions and states alone: made anew for each tile, or once for many calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol


class Making(Protocol):
    """A rule of how long something that no row changes is kept."""

    def of[T](self, name: Hashable, make: Callable[[], T]) -> T:
        """The result of `make`, which is the same each time for one name."""
        ...


class MadeAnew:
    """Nothing is kept: a tile of many rows makes what it needs, and frees it."""

    def of[T](self, name: Hashable, make: Callable[[], T]) -> T:
        return make()


class MadeOnce:
    """Everything is kept in memory: for calls of a few rows each, which take less time than it does.

    It is not sent to other processes.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"_made": {}}

    def of[T](self, name: Hashable, make: Callable[[], T]) -> T:
        if name not in self._made:
            self._made[name] = make()
        found: T = self._made[name]
        return found
