"""All rows of a store as files that a page loads by script tags, one at a time, without a server.

Rows are sorted by their keys and cut into files of about 300 kB, so that the page finds the file of a
key by the first key of each, and names the keys beside one that is not there.
"""

from __future__ import annotations

import re
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.cube.reader import key_texts
from dshap.report.pages.row_tables import RowFiles, RowTable, row_texts
from dshap.storage.private_folders import private_folder

FILE_BYTES = 300_000
"""About the most bytes of a file."""
FILE = re.compile(r"\d{6,}\.js")
"""The names of the files."""
SAMPLED = 1_000
"""The number of rows from which the bytes of a row are estimated."""


def write_row_files(table: RowTable, folder: Path) -> RowFiles:
    """Write every row that is no longer pending into files of a folder, which is replaced whole.

    Raises
    ------
    InputError
        The folder contains something else.
    OSError
        It cannot be written.
    """
    refuse_others(folder)
    # the rows of the previous page do not change until all new files are written
    private = private_folder(folder)
    private.mkdir(parents=True)
    try:
        ranks, firsts, per_file = _places(table)
        _append_rows(table, private, np.where(ranks < 0, -1, ranks // per_file))
        _close(private, len(firsts))
        shutil.rmtree(folder, ignore_errors=True)
        private.rename(folder)
    finally:
        shutil.rmtree(private, ignore_errors=True)
    return RowFiles(folder.name, firsts)


def refuse_others(folder: Path) -> None:
    """Raise an `InputError` if a folder contains anything but files of rows."""
    if not folder.exists():
        return
    if not folder.is_dir() or any(not FILE.fullmatch(each.name) for each in folder.iterdir()):
        raise InputError(
            f"{folder} exists and contains other things than rows of a report: move it away, or "
            "choose another name of the page"
        )


def _places(table: RowTable) -> tuple[NDArray[np.int64], list[list[str]], int]:
    """The rank of each row by its key, −1 if it is pending; first keys of files; rows of a file."""
    is_there = np.concatenate([table.is_there(rows) for rows in table.slices()])
    keys = _sorted_by(table)
    # lexsort wants the most important key last
    order = np.lexsort(keys[::-1])
    order = order[is_there[order]]
    ranks = np.full(len(is_there), -1)
    ranks[order] = np.arange(len(order))
    per_file = max(1, FILE_BYTES // _row_bytes(table))
    firsts = [[str(key[row]) for key in keys] for row in order[::per_file].tolist()]
    return ranks, firsts, per_file


def _sorted_by(table: RowTable) -> list[NDArray[np.generic]]:
    """The key columns of all rows: whole numbers, or texts."""
    parts = [table.keys(rows) for rows in table.slices()]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    texts = [place for place, column in enumerate(columns) if column.dtype.kind != "i"]
    for place in texts:
        columns[place] = key_texts(columns[place])
    return columns


def _row_bytes(table: RowTable) -> int:
    """The mean number of bytes of a row, by the first ones that can be read."""
    for rows in table.slices():
        batch = table.batch(slice(rows.start, min(rows.stop, rows.start + SAMPLED)))
        if batch is not None and len(batch.prediction):
            texts = row_texts(table, batch)
            return 1 + sum(map(len, texts)) // len(texts)
    return FILE_BYTES


def _append_rows(table: RowTable, folder: Path, file_of: NDArray[np.int64]) -> None:
    """Append each row to its file, slice by slice."""
    for rows in table.slices():
        batch = table.batch(rows)
        if batch is None:
            continue
        files = file_of[rows]
        texts = row_texts(table, batch)
        order = np.argsort(files, kind="stable")
        order = order[files[order] >= 0]  # pending rows have no file
        starts = np.flatnonzero(np.diff(files[order], prepend=-1)).tolist()
        for start, stop in pairwise([*starts, len(order)]):
            _append(folder, int(files[order[start]]), [texts[row] for row in order[start:stop]])


def _append(folder: Path, file: int, texts: list[str]) -> None:
    # a call with rows, not JSON: a page from file:// may load scripts, and no data
    place = folder / f"{file:06}.js"
    with place.open("a", encoding="ascii") as held:
        if held.tell() == 0:
            held.write(f"dshapRows({file},[\n")
        held.writelines(f"{text},\n" for text in texts)


def _close(folder: Path, n_files: int) -> None:
    """End the call in each file; one whose rows cannot be read is empty."""
    for file in range(n_files):
        _append(folder, file, [])
        with (folder / f"{file:06}.js").open("a", encoding="ascii") as held:
            held.write("]);\n")
