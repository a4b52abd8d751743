"""What is broken of dshap on purpose, to see that games notice: promises that are not kept.

Each stands for a check that somebody could drop.  It is applied in the processes of a game alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from dshap.core.blocks import Status


def _replace(name: str, other: Any) -> None:
    mock.patch(name, other).start()


def trust_all_blocks() -> None:
    """Rows are carried from blocks whose values are not compared with their digests."""

    def statuses(path: Any, n_rows: int) -> Any:
        return np.full(n_rows, Status.OK, np.int8)

    _replace("dshap.steps.nightly_cubes.statuses_of_whole_blocks", statuses)


def keep_every_lease() -> None:
    """A holder that was stopped goes on as if nobody could have taken its lease."""
    for name in ("check", "confirm"):
        _replace(f"dshap.storage.lease.Lease.{name}", lambda lease: None)
    _replace("dshap.steps.nightly_cubes.set_current", _point)


def _point(folder: Any, run_id: str) -> None:
    from dshap.storage.folder import Folder

    Folder(folder).replace("current", f"{run_id}\n".encode())


def trust_all_tables() -> None:
    """The number of lines in a sink's table is not compared with that of the last load."""
    _replace("dshap.sinks.loading.alteration_of", lambda load, last: "")
    _replace("dshap.sinks.loading.is_empty", lambda load: not load.found)


SABOTAGES: dict[str, Callable[[], None]] = {
    "trust all blocks": trust_all_blocks,
    "keep every lease": keep_every_lease,
    "trust all tables": trust_all_tables,
}
