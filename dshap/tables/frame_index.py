"""The index of a pandas data frame as the key of its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dshap.core.duck_typing import is_frame
from dshap.core.errors import InputError

UNNAMED = "index"
"""The name of a key that is an index without one, as pandas calls it."""
KINDS = frozenset({"integer", "string", "datetime64", "datetime"})
"""The kinds of values that pandas finds in an index that can be a key."""


def with_index(rows: Any, key: Any, say: Callable[[str], None]) -> tuple[Any, Any]:
    """The rows and their key, with the index of a data frame as columns if it is the key.

    It is the key if `key` is an index of pandas, or None while the index has a name, names each
    row once, and contains integers, texts or times.  A line reports a named index with repeated
    values.

    Parameters
    ----------
    rows : any table
    key : what the user gave
    say : receives a line on why a named index is no key

    Raises
    ------
    InputError
        An index for rows that are no data frame, or of another length.
    """
    if hasattr(key, "inferred_type"):
        return _by_index(rows, key)
    if key is not None or not is_frame(rows) or not _is_named(rows):
        return rows, key
    index = rows.index
    if not index.is_unique:
        first = index[index.duplicated()].tolist()[0]
        say(
            f"the index {_called(index)} repeats ({first!r} more than once), so that it cannot be the key"
        )
        return rows, None
    return _by_index(rows, index)


def _is_named(frame: Any) -> bool:
    """Whether an index has names that are not those of columns, and values that can be a key."""
    names = list(frame.index.names)
    levels = [frame.index.get_level_values(place) for place in range(len(names))]
    can_be_key = all(level.inferred_type in KINDS and not level.hasnans for level in levels)
    return None not in names and can_be_key and not set(names) & set(frame.columns)


def _called(index: Any) -> str:
    return " and ".join(repr(name) for name in index.names)


def _by_index(rows: Any, index: Any) -> tuple[Any, list[str]]:
    if not is_frame(rows):
        raise InputError(
            "key is an index of pandas, and rows are not a data frame: give key={'name': values}"
        )
    if len(index) != len(rows):
        raise InputError(f"key has {len(index):,} values for {len(rows):,} rows: give one for each")
    names = [UNNAMED if name is None else str(name) for name in index.names]
    if clash := sorted(set(names) & set(map(str, rows.columns))):
        raise InputError(
            f"the index and a column are both called {clash[0]!r}: give key={clash[0]!r} for the "
            "column, or rename the index"
        )
    keyed = rows.set_axis(index.set_names(names), axis=0).reset_index()
    return keyed, names
