"""The rows of two runs of a store that have the same key: each comparison is made once a command."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dshap.history.run_folders import RunFolders
from dshap.tables.keys.aligned import NO_ALIGNED_ROWS, AlignedRows, has_rising_keys
from dshap.tables.keys.digests import DIGEST, shared_kind
from dshap.tables.keys.joining import HashedRows, KeyJoin

LEAST_ALIGNED = 0.5
"""The share of rows that have the place of the night before, from which only the others are hashed."""


@dataclass
class KeyJoins:
    """Comparisons of runs by the keys of their rows, in temporary files."""

    new_folder: Callable[[], str | Path]
    """Makes an empty folder for temporary files."""
    _hashed: dict[tuple[str, str, int], HashedRows] = field(default_factory=dict)
    _joined: dict[tuple[str, str], KeyJoin] = field(default_factory=dict)

    def count_repeats(self, run: RunFolders) -> int:
        """The number of rows of a run whose key is that of another row that is counted already."""
        # keys that rise from row to row are all different: nothing needs to be hashed
        if has_rising_keys(run.digests):
            return 0
        return self.hashed(run, run.digests.kinds[0]).count_repeats()

    def hashed(self, run: RunFolders, kind: str = DIGEST, first: int = 0) -> HashedRows:
        """The rows that a run read from `first` on, by the hashes of their keys."""
        rows = (run.run_id, kind, first)
        if rows not in self._hashed:
            self._hashed[rows] = HashedRows.of(run.digests, self._folder(), kind, first)
        return self._hashed[rows]

    def join(self, run: RunFolders, before: RunFolders) -> KeyJoin:
        """The rows of `before` that have the keys of the rows of `run`."""
        runs = (run.run_id, before.run_id)
        if runs not in self._joined:
            self._joined[runs] = self._join(run, before)
        return self._joined[runs]

    def _join(self, run: RunFolders, before: RunFolders) -> KeyJoin:
        kind = shared_kind(run.digests, before.digests)
        folder = self._folder()
        aligned = AlignedRows.of(run.digests, before.digests, kind, folder / "aligned")
        if aligned.n_rows < LEAST_ALIGNED * len(run.digests):
            aligned = NO_ALIGNED_ROWS
        first = aligned.n_rows
        hashed = (self.hashed(run, kind, first), self.hashed(before, kind, first))
        return KeyJoin.of(*hashed, folder, aligned)

    def clear(self) -> None:
        """Remove the temporary files; files that are needed later are made again."""
        folders = [each.folder for each in self._hashed.values()]
        folders += [each.folder for each in self._joined.values()]
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        self._hashed.clear()
        self._joined.clear()

    def _folder(self) -> Path:
        return Path(self.new_folder())
