"""The table of the kinds of sinks.

A kind is a class on `dshap.sinks.Sink`, and a line of `KINDS` with its place.  The parameters of its
constructor are keys of [[sink]] in a job file.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Collection, Mapping
from typing import Any

from dshap.core.errors import InputError

KINDS: Mapping[str, str] = {
    "database": "dshap.sinks.database_tables:DatabaseSink",
    "folder": "dshap.sinks.parquet_folder:FolderSink",
}
"""Kind of sink -> "package.module:name" of its class."""


def kinds() -> list[type[Any]]:
    """The classes of the kinds, in the order of their table."""
    return [pkgutil.resolve_name(place) for place in KINDS.values()]


def sink_kind(given: Collection[str]) -> type[Any]:
    """The kind to which one of the given keys belongs.

    Raises
    ------
    InputError
        No key of a kind is given, or keys of several.
    """
    named = [kind for kind in kinds() if not set(kind.keys).isdisjoint(given)]
    if len(named) == 1:
        return named[0]
    addresses = ", or ".join(kind.address for kind in named or kinds())
    if named:
        addresses += ", not both"
    raise InputError(f"give {addresses}")
