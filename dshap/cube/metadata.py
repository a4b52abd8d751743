"""Shapes, types and attributes of a cube's arrays, read from their documents alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dshap.core.places import Place
from dshap.storage.folder import Folder

KINDS: Mapping[str, str] = {"float": "f", "int": "i", "uint": "u", "string": "T", "bool": "b"}
"""The beginning of the name of a type in Zarr -> its kind in numpy."""


@dataclass(frozen=True)
class ArrayFacts:
    """The shape, type and dimensions of an array, from its `zarr.json`."""

    shape: tuple[int, ...]
    data_type: str
    dims: tuple[str | None, ...]
    """The names of the dimensions; empty if they have none."""
    grid: tuple[int, ...]
    """The shape of the content of one file."""
    attributes: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The kind of the type, as numpy's `dtype.kind`; empty if it is another one."""
        return KINDS.get(self.data_type.rstrip("0123456789"), "")


def array_facts(path: Place) -> ArrayFacts | None:
    """The facts of the array at `path`; None if there is no document of an array.

    Raises
    ------
    ValueError, KeyError, TypeError
        The document does not have the form of Zarr.
    """
    content = Folder(path).get("zarr.json")
    if content is None:
        return None
    document = json.loads(content)
    if document["node_type"] != "array":
        return None
    return ArrayFacts(
        shape=tuple(document["shape"]),
        data_type=str(document["data_type"]),
        dims=tuple(document.get("dimension_names") or ()),
        grid=tuple(document["chunk_grid"]["configuration"]["chunk_shape"]),
        attributes=document.get("attributes", {}),
    )


def known_facts(path: Place) -> ArrayFacts:
    """The facts of an array that must be there.

    Raises
    ------
    KeyError
        It is not there.
    """
    found = array_facts(path)
    if found is None:
        raise KeyError(str(path))
    return found


def blocks_of_file(path: Place) -> int:
    """The blocks in a file of the cube at `path`: one, unless it is packed."""
    return known_facts(path / "blocks" / "count").grid[0]


def block_rows(path: Place) -> int:
    """The rows of a block of the cube at `path`."""
    return known_facts(path / "status").grid[0] // blocks_of_file(path)
