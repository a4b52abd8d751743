"""The rows of two runs of a store that have the same key: each comparison is made once a command."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dshap.history.run_folders import RunFolders
from dshap.tables.keys.joining import HashedRows, KeyJoin


@dataclass
class KeyJoins:
    """Comparisons of runs by the keys of their rows, in temporary files."""

    new_folder: Callable[[], str | Path]
    """Makes an empty folder for temporary files."""
    _hashed: dict[str, HashedRows] = field(default_factory=dict)
    _joined: dict[tuple[str, str], KeyJoin] = field(default_factory=dict)

    def hashed(self, run: RunFolders) -> HashedRows:
        """The rows that a run read, by the hashes of their keys."""
        if run.run_id not in self._hashed:
            self._hashed[run.run_id] = HashedRows.of(run.digests, Path(self.new_folder()))
        return self._hashed[run.run_id]

    def join(self, run: RunFolders, before: RunFolders) -> KeyJoin:
        """The rows of `before` that have the keys of the rows of `run`."""
        runs = (run.run_id, before.run_id)
        if runs not in self._joined:
            hashed = (self.hashed(run), self.hashed(before))
            self._joined[runs] = KeyJoin.of(*hashed, Path(self.new_folder()))
        return self._joined[runs]

    def clear(self) -> None:
        """Remove the temporary files; what is asked for later is made again."""
        folders = [each.folder for each in self._hashed.values()]
        folders += [each.folder for each in self._joined.values()]
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        self._hashed.clear()
        self._joined.clear()
