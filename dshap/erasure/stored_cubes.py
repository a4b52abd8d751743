"""Finished cubes: erased rows keep their positions, without values; block sums are made again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from dshap.core.places import Place
from dshap.core.rows import spans
from dshap.cube import is_finished, store_parts
from dshap.cube.blocks import CubeArrays
from dshap.cube.erased_note import erased_rows
from dshap.cube.erased_rows import erase_rows, listed_texts, redact_documents
from dshap.erasure.work import ErasureWork, HoldsRows, found_keys
from dshap.storage.folder import Folder
from dshap.tables.keys.wanted import NO_KEY


def all_cubes_in(store: Place) -> dict[str, Place]:
    """Name -> place of the cubes of a store; of one cube its own name."""
    return {
        name: path
        for name, path in store_parts(store).items()
        if Folder(path).has_room("attribution")
    }


class StoredCubes(HoldsRows):
    """The cubes of a store, with the explained columns beside them, and their states."""

    noun = "rows of cubes"

    def find(self, work: ErasureWork) -> set[int]:
        found: set[int] = set()
        for name, path in all_cubes_in(work.store).items():
            cube = CubeArrays(path)
            if not found_keys(cube.key_kinds, work.keys):
                if cube.keys:
                    work.left.append(f"{name}, whose key is {', '.join(cube.keys)}")
                continue
            places = [_Places.of(cube, span, work) for span in _spans(cube)]
            here = np.concatenate([np.zeros(0, np.int64), *(each.positions for each in places)])
            if len(here):
                work.positions[name] = np.union1d(work.positions.get(name, here), here)
            found |= {number for each in places for number in each.numbers}
        return found

    def erase(self, work: ErasureWork) -> None:
        cubes = all_cubes_in(work.store)
        # before any row: once rows are erased, a repeated erasure cannot tell which texts only
        # they had
        for name, path in cubes.items():
            redact_documents(path, _texts_to_redact(work, name, path))
        for name, path in cubes.items():
            positions = work.positions.get(name, np.zeros(0, np.int64))
            is_withdrawn = name.partition("/")[0] in work.withdrawn
            if not (len(positions) or is_withdrawn) or not is_finished(path):
                continue
            # a cube that all runs share has learned from its own rows, a cube of a night by the
            # method of all nights
            erase_rows(path, positions, has_learned="/" not in name or is_withdrawn)
            work.count(self.noun, len(positions))


class _Places:
    """The wanted rows of a span of a cube."""

    def __init__(self, positions: NDArray[np.int64], numbers: list[int]) -> None:
        self.positions = positions
        self.numbers = numbers

    @classmethod
    def of(cls, cube: CubeArrays, span: tuple[int, int], work: ErasureWork) -> _Places:
        rows = slice(*span)
        numbers = work.keys.numbers(cube.rows(cube.keys, rows))
        at = np.flatnonzero(numbers != NO_KEY)
        at = at[~np.isin(at + rows.start, erased_rows(cube.path))]
        _note_texts(cube.rows(cube.columns, rows), at, work)
        return cls(at + rows.start, numbers[at].tolist())


def _note_texts(
    columns: Mapping[str, NDArray[np.generic]], at: NDArray[np.int64], work: ErasureWork
) -> None:
    """Note the texts of stored columns: of the wanted rows, and of the others."""
    work.has_texts |= bool(columns)
    for values in columns.values():
        if values.dtype.kind == "T":
            work.texts.gone.update(values[at].tolist())
            work.texts.kept.update(np.delete(values, at).tolist())


def _spans(cube: CubeArrays) -> Iterator[tuple[int, int]]:
    return iter(spans(0, cube.n_rows, cube.block_rows))


def _texts_to_redact(work: ErasureWork, name: str, path: Place) -> frozenset[str]:
    """The texts to remove from the documents of a cube; all that they list if none is known."""
    if work.has_texts or name not in work.positions:
        return work.texts.only_gone
    return listed_texts(path)
