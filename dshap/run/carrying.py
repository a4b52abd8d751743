"""Rows that a run copies from an earlier cube of the same method, and when it may."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.core.errors import InputError, StoreMismatchError
from dshap.core.places import Place
from dshap.cube import CarriedRows, CubeLayout, finished_blocks, read_run, refuse_altered
from dshap.cube.carrying import EXPLAINED
from dshap.cube.importance import stored_share
from dshap.storage.array_files import form_of_array, parts_of_array

UPPER_BOUNDS = (
    "upper bounds: the replicates of carried rows are not kept, and the error of a mean is at most "
    "the mean of the errors of its rows"
)
"""The sentence about the errors of global means in a cube with carried rows."""
OF_TONIGHT = frozenset(("carried", "probe", "rows"))
"""The entries of a fingerprint that may differ between a cube and the one that rows come from."""


@dataclass(frozen=True)
class Carried:
    """Unchanged rows, which a run copies from an earlier cube of the same method."""

    path: Place
    """The path of the earlier cube."""
    positions: Place
    """The path of a .npy file (n,) of int64 with an entry for each row of the run: the position of
    the same row in the earlier cube, or −1 for a row that has to be explained.  No position is that
    of a failed row.  The file must exist until the run is over."""

    def fingerprint(self) -> dict[str, Any]:
        """The run of the earlier cube, and a digest of the positions."""
        run = read_run(self.path) or {}
        digest = hashlib.blake2b(digest_size=10)
        for part in parts_of_array(self.positions):
            digest.update(part.tobytes())
        return {"run": run.get("digest"), "positions": digest.hexdigest()}

    def count(self) -> int:
        """The number of carried rows."""
        return sum(
            int(np.count_nonzero(part != EXPLAINED)) for part in parts_of_array(self.positions)
        )

    def note(self, layout: CubeLayout) -> dict[str, Any]:
        """The note in a cube with carried rows: number, source, and meaning of the errors."""
        note = {
            "rows": self.count(),
            "of": layout.n_rows,
            "run": (read_run(self.path) or {})["digest"],
        }
        if layout.n_replicates:
            note["errors_of_means"] = UPPER_BOUNDS
        return note

    def rows_for(self, layout: CubeLayout) -> CarriedRows:
        """Check that the rows fit a cube of this layout, and return them.

        Raises
        ------
        InputError
            A position is not in the earlier cube, or there is not one position for each row.
        StoreMismatchError
            The earlier cube has a different method or different columns.
        """
        refuse_altered(self.path)
        run = read_run(self.path)
        if run is None:
            raise InputError(
                f"{self.path} is not an attribution cube: no row can be carried from it"
            )
        if layout.vocabulary is not None:
            raise InputError("rows that are texts cannot be carried: explain all of them")
        self._refuse_other(run, layout)
        self._check_positions(layout.n_rows)
        return CarriedRows(self.path, self.positions, stored_share(self.path))

    def _refuse_other(self, run: dict[str, Any], layout: CubeLayout) -> None:
        """Raise an error unless the earlier run and the new one differ only in their rows."""
        was = run["fingerprint"]
        # as it would be read back: tuples of the new one are lists in the stored one
        now = json.loads(json.dumps(layout.run["fingerprint"]))
        other = {name for name in was.keys() | now.keys() if was.get(name) != now.get(name)}
        other -= OF_TONIGHT
        # OF_TONIGHT leaves out all of "rows", and with it this option, which does change which
        # rows fail
        if was["rows"]["missing"] != now["rows"]["missing"]:
            other.add("missing")
        if other or run["method"] != layout.run["method"]:
            raise StoreMismatchError(
                f"rows of {self.path} cannot be carried: that cube has a different method or "
                f"different columns (it differs in {', '.join(sorted(other)) or 'its method'}); "
                "explain all rows"
            )

    def _check_positions(self, n_rows: int) -> None:
        """Raise an InputError unless there is a position for each row, in a finished block."""
        shape, dtype = form_of_array(self.positions)
        if dtype != np.int64 or shape != (n_rows,):
            raise InputError(
                f"{self.positions} contains {dtype} {shape}: give int64 ({n_rows},), one for each "
                "row"
            )
        spans_there = [(block.start, block.stop) for block in finished_blocks(self.path)]
        # an empty span first, so that searchsorted finds one for every position, in a cube without
        # blocks too
        starts = np.array([0, *(start for start, _ in spans_there)], np.int64)
        stops = np.array([0, *(stop for _, stop in spans_there)], np.int64)
        for part in parts_of_array(self.positions):
            chosen = part[part != EXPLAINED]
            block = np.searchsorted(starts, chosen, side="right") - 1
            is_lost = (chosen < 0) | (chosen >= stops[block])
            if is_lost.any():
                raise InputError(
                    f"row {chosen[is_lost][0]} cannot be carried: {self.path} has no finished "
                    "block with it"
                )
