"""The place where the tables of a run are read, as the tables know it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from dshap.core.types import Pass, RowReader

Learn = Callable[[Pass, RowReader], Any]
"""A function that runs a pass over all rows of a table and returns its result."""


class Site(Protocol):
    """The place where the tables of a run are read and spooled: its executor and workspace."""

    @property
    def is_local(self) -> bool:
        """Whether tasks run in this process and can see its arrays."""
        ...

    def folder(self, name: str) -> Path:
        """An empty folder that all tasks can reach until the run ends."""
        ...

    def learn(self, one: Pass, reader: RowReader) -> Any:
        """Run a pass over all rows of a table, and return its result."""
        ...

    def each_partition(self, parts: Sequence[Any], write: Callable[[Any, int], int]) -> list[int]:
        """Run write(partition, index) for delayed partitions of a Dask collection.

        It runs where the partitions are; the row counts are returned in their order.
        """
        ...
