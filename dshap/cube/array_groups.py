"""The groups in which the arrays of a cube are created: groups of Zarr, and groups in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dshap.core.late import zarr
from dshap.cube.layout import TEXT

TYPES: Mapping[Any, Any] = {TEXT: np.dtypes.StringDType()}
"""The type of an array as Zarr names it -> that of numpy, where they differ."""


@dataclass(frozen=True)
class NewArray:
    """An array of a cube before any row is written."""

    shape: tuple[int, ...]
    dtype: Any
    dims: tuple[str, ...]
    chunks: tuple[int, ...]
    fill: Any
    """The value of all entries that are not written yet; None: zero."""
    shards: tuple[int, ...] | None
    """The shape of a file; None: each chunk is a file."""
    separator: Literal["/", "."]
    """The separator between the numbers in the name of a chunk."""
    attributes: Mapping[str, Any]
    values: NDArray[Any] | None = None
    """All values, where they are known when the array is created."""

    @property
    def whole(self) -> NDArray[Any]:
        """All values; a ValueError if there are none."""
        if self.values is None:
            raise ValueError("the array has no values yet")
        return self.values

    def filled(self) -> NDArray[Any]:
        """The values of the array before any is written."""
        dtype = TYPES.get(self.dtype, self.dtype)
        if self.fill is None:
            return np.zeros(self.shape, dtype)
        return np.full(self.shape, self.fill, dtype)


class ArrayGroup(Protocol):
    """A group of arrays that a cube is laid out in."""

    def describe(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes of the group."""
        ...

    def inner(self, name: str, attributes: Mapping[str, Any]) -> ArrayGroup:
        """Create a group inside this one."""
        ...

    def create(self, name: str, new: NewArray) -> None:
        """Create an array."""
        ...


class ZarrGroup:
    """A group of a Zarr store.

    Files of an array are side by side: a folder for each would be one more object, and one more to
    sync.
    """

    def __init__(self, group: zarr.Group) -> None:
        self._group = group

    def describe(self, attributes: Mapping[str, Any]) -> None:
        self._group.attrs.update(dict(attributes))

    def inner(self, name: str, attributes: Mapping[str, Any]) -> ZarrGroup:
        return ZarrGroup(self._group.create_group(name, attributes=dict(attributes)))

    def create(self, name: str, new: NewArray) -> None:
        from zarr.codecs import Crc32cCodec, ZstdCodec

        array = self._group.create_array(
            name,
            shape=new.shape,
            dtype=new.dtype,
            chunks=new.chunks,
            shards=new.shards,
            # level 0 is the default level of Zstandard; the checksum makes any reader of Zarr fail
            # on a bit that changed
            compressors=(ZstdCodec(level=0), Crc32cCodec()),
            fill_value=new.fill,
            chunk_key_encoding={"name": "default", "separator": new.separator},
            dimension_names=new.dims,
            attributes=dict(new.attributes),
        )
        if new.values is not None:
            array[...] = new.values


@dataclass
class GroupInMemory:
    """A group of arrays in memory; arrays of inner groups have names such as "blocks/count"."""

    attributes: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NewArray] = field(default_factory=dict)
    """Name -> the array with all its values."""
    prefix: str = ""

    def describe(self, attributes: Mapping[str, Any]) -> None:
        self.attributes |= attributes

    def inner(self, name: str, attributes: Mapping[str, Any]) -> GroupInMemory:
        return GroupInMemory(dict(attributes), self.arrays, f"{self.prefix}{name}/")

    def create(self, name: str, new: NewArray) -> None:
        if new.values is None:
            new = replace(new, values=new.filled())
        self.arrays[f"{self.prefix}{name}"] = new
