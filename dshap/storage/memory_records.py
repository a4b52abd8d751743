"""Records in memory, and those beyond a limit in files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.records import Record
from dshap.storage.sealed_files import StateFolder


class MemoryRecords:
    """A store of records in this process's memory; see `dshap.core.types.RecordStore`.

    Parameters
    ----------
    files : StateFolder
        Gets the records for which there is no room in memory.  Records that it has already, such as
        prepared states, are found here too.
    limit : int
        Bytes of all records in memory.
    """

    def __init__(self, files: StateFolder, limit: int) -> None:
        self.files = files
        self.limit = limit
        self._records: dict[str, Record] = {}

    def has(self, name: str) -> bool:
        return name in self._records or self.files.has(name)

    def put(self, name: str, record: Record) -> None:
        """Store a copy of a record; a record of this name stays as it is."""
        if self.has(name):
            return
        held = sum(each.nbytes for each in self._records.values())
        if held + record.nbytes > self.limit:
            self.files.put(name, record)
        else:
            self._records[name] = Record({key: _as_read(of) for key, of in record.arrays.items()})

    def get(self, name: str, kind: type[Record]) -> Any:
        """The record of this name, as an instance of `kind`; its arrays must not be changed."""
        if name in self._records:
            return kind(self._records[name].arrays)
        return self.files.get(name, kind)

    def remove(self, name: str) -> None:
        if self._records.pop(name, None) is None:
            self.files.remove(name)

    def names(self) -> Iterator[str]:
        yield from tuple(self._records)
        yield from self.files.names()

    def mend(self, names: Iterable[str] | None = None) -> list[str]:
        return self.files.mend(names)


def _as_read(array: NDArray[Any]) -> NDArray[Any]:
    """A copy in the order of axes that a file gives, on which the bits of products may depend."""
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        return np.array(array, order="F")
    return np.array(array, order="C")
