"""The keys of a command: texts of the command line, or a file of keys, in the types of the store."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.printing import shortened
from dshap.tables.keys.wanted import WantedKeys, columns_as_text

SHOWN = 40
"""The most characters of a key in a message."""
KINDS: Mapping[str, str] = {
    "int64": "whole numbers, such as 1007",
    "datetime64[ns]": "times, such as 2026-11-27T03:15:00",
}
"""Type of a key column -> its values in words, with an example."""


def read_keys(given: Sequence[str], file: str | None, kinds: Mapping[str, str]) -> WantedKeys:
    """The keys of a command, each once, in the types of the key columns.

    Parameters
    ----------
    given : sequence of str
        Keys as texts; values of several columns are separated by commas, as in a CSV file.
    file : str, optional
        A file of keys: a CSV or Parquet file with the key columns by their names, or a text file of
        one key a line.
    kinds : mapping
        Key column -> "int64", "string" or "datetime64[ns]".

    Raises
    ------
    InputError
        No key, a key of another type or number of columns, or a file that cannot be read.
    """
    rows = [_row_of(text, kinds) for text in given]
    if file is not None:
        rows += _rows_in(Path(file), kinds)
    rows = list(dict.fromkeys(rows))
    if not rows:
        raise InputError("no key is given: give --key K, or --keys FILE with one key a line")
    columns = zip(*rows, strict=True)
    typed = {
        name: _typed(name, kind, texts)
        for (name, kind), texts in zip(kinds.items(), columns, strict=True)
    }
    return _without_repeats(WantedKeys(typed))


def _without_repeats(keys: WantedKeys) -> WantedKeys:
    """The keys, each once: 7 and 07 are one number."""
    first: dict[str, int] = {}
    for place, text in enumerate(keys.texts()):
        first.setdefault(text, place)
    chosen = np.zeros(len(keys), bool)
    chosen[list(first.values())] = True
    return keys.only(chosen)


def _row_of(text: str, kinds: Mapping[str, str]) -> tuple[str, ...]:
    """The values of one key, in the order of the key columns."""
    if len(kinds) == 1:
        return (text,)
    values = next(csv.reader([text]), [])
    if len(values) != len(kinds):
        raise InputError(
            f"key {shortened(text, SHOWN)!r}: {len(values)} values for {len(kinds)} key columns: give "
            f"{','.join(name.upper() for name in kinds)}, separated by commas"
        )
    return tuple(values)


def _rows_in(file: Path, kinds: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The keys in a file."""
    if not file.is_file():
        raise InputError(f"--keys {file}: there is no such file")
    if file.suffix == ".parquet":
        columns = columns_as_text(file, list(kinds))
        return list(zip(*columns, strict=True))
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"--keys {file} is not text in UTF-8") from None
    if file.suffix == ".csv":
        return _rows_of_csv(file, lines, kinds)
    return [_row_of(line.strip(), kinds) for line in lines if line.strip()]


def _rows_of_csv(
    file: Path, lines: Sequence[str], kinds: Mapping[str, str]
) -> list[tuple[str, ...]]:
    reader = csv.DictReader(lines)
    if missing := [name for name in kinds if name not in (reader.fieldnames or ())]:
        raise InputError(
            f"--keys {file} has no column {missing[0]!r}: its first line must name the key "
            f"columns, here {', '.join(kinds)}"
        )
    return [tuple(row[name] or "" for name in kinds) for row in reader]


def _typed(name: str, kind: str, texts: Sequence[str]) -> NDArray[Any]:
    """The texts of a key column as values of its type."""
    if kind == "string":
        return np.array(list(texts), dtype=np.dtypes.StringDType())
    values = []
    for text in texts:
        try:
            values.append(_value(kind, text))
        except (ValueError, OverflowError):
            raise InputError(
                f"key {shortened(text, SHOWN)!r}: column {name!r} has {KINDS[kind]}"
            ) from None
    return np.array(values, dtype=kind)


def _value(kind: str, text: str) -> Any:
    """The value of a text of a key column of numbers or times."""
    if kind == "int64":
        return np.int64(int(text))
    value = np.datetime64(text.strip().removesuffix("Z"), "ns")
    if np.isnat(value):
        raise ValueError(text)
    return value
