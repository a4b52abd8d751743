"""Keys and digests of rows: an erased row keeps its position, without its key and its digest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dshap.erasure.work import ErasureWork, HoldsRows, found_keys
from dshap.history.run_folders import ROWS, ROWS_MARK, RunFolders, runs_in_store
from dshap.storage.folder import Folder
from dshap.storage.seals import digest_of_file, sealed_record
from dshap.tables.keys.digests import RowDigests
from dshap.tables.keys.wanted import NO_KEY
from dshap.tables.parts_without import erase_in_digests


class KeyFiles(HoldsRows):
    """The files `keys/RUN_ID/rows.parquet`, with keys and digests of the rows of each run."""

    noun = "rows of keys"

    def find(self, work: ErasureWork) -> set[int]:
        found: set[int] = set()
        for run in _runs_with(work):
            for batch in RowDigests(run.keys / ROWS).batches():
                numbers = np.where(batch.is_erased, NO_KEY, work.keys.numbers(batch.keys))
                found |= set(numbers[numbers != NO_KEY].tolist())
        return found

    def erase(self, work: ErasureWork) -> None:
        for run in _runs_with(work):
            rows = RowDigests(run.keys / ROWS)
            n_gone = erase_in_digests(rows, work.keys)
            if n_gone or rows.count_erased():
                self._mark(run)
            work.count(self.noun, n_gone)

    def _mark(self, run: RunFolders) -> None:
        """Write the record of the file again, with its new digest and without column extremes."""
        room = Folder(run.keys)
        with room.open(ROWS) as opened:
            mark = {"digest": digest_of_file(opened), "census": {}}
        room.replace(ROWS_MARK, sealed_record(ROWS_MARK, mark))


def _runs_with(work: ErasureWork) -> Iterator[RunFolders]:
    """The runs whose keys are in the store, by the key columns that are looked for."""
    for run in runs_in_store(work.store):
        if Folder(run.keys).has_file(ROWS):
            kinds = dict(RowDigests(run.keys / ROWS).key_kinds)
            if found_keys(kinds, work.keys):
                yield run
