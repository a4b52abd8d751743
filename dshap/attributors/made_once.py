"""Results that no row changes: computed for each tile, or once for many calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any


class MadeAnew:
    """Nothing is cached: a tile of many rows computes its results, and frees them."""

    def of[T](self, name: Hashable, make: Callable[[], T]) -> T:
        """The result of `make`, which is the same each time for one name."""
        return make()


class MadeOnce(MadeAnew):
    """Every result is cached: for calls of few rows, which need less time than the results.

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
