"""What the steps of one run share: where tasks run, and the folder for what is thrown away at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dshap.cube import Workspace
from dshap.engine import DaskExecutor, Executor, LoopExecutor, collect_partitions, map_spans
from dshap.rows import SPAN_ROWS

__all__ = ["Session", "each_span"]


@dataclass(frozen=True)
class Session:
    """A `dshap.tables.opener.Site`: the tables of a run are read and spooled here."""

    executor: Executor
    workspace: Workspace

    @property
    def is_local(self) -> bool:
        """True where tasks run in this process and can see its arrays."""
        return self.executor.is_local

    def folder(self, name: str) -> Path:
        """An empty folder that is removed at the end of the run."""
        return self.workspace.folder(name)

    def each_span(self, function: Callable[..., Any], n_rows: int, *args: Any) -> list[Any]:
        """function(start, stop, *args) of every span of a table, in order."""
        return each_span(self.executor, function, n_rows, *args)

    def each_partition(self, collection: Any, write: Callable[[Any, int], int]) -> list[int]:
        """write(partition, index) of every row partition of a Dask collection, where it lives, in order."""
        client = self.executor.client if isinstance(self.executor, DaskExecutor) else None
        return collect_partitions(collection, write, client)


def each_span(executor: Executor, function: Callable[..., Any], n_rows: int, *args: Any) -> list[Any]:
    """function(start, stop, *args) of every span of a table, in order; of one span here, no cluster starts for it."""
    local = LoopExecutor() if n_rows <= SPAN_ROWS else executor
    return map_spans(local, None, _without_context, n_rows, SPAN_ROWS, function, args)


def _without_context(_: None, start: int, stop: int, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return function(start, stop, *args)
