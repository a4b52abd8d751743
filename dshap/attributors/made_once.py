"""Results that do not depend on rows: computed for each tile, or once for many calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any


class MadeAnew:
    """Caches nothing: a task computes the results for its many rows, then frees them."""

    def of[T](self, name: Hashable, make: Callable[[], T]) -> T:
        """The result of `make`, which is the same each time for one name."""
        return make()


class MadeOnce(MadeAnew):
    """Caches every result, for calls of few rows, which take less time than the results.

    The cache is not sent to other processes.
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
