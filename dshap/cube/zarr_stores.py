"""Arrays and groups of a store, opened by Zarr and xarray from a disk or a bucket."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import xarray as xr
import zarr
from zarr.storage import LocalStore, ObjectStore

from dshap.core.places import BucketPath, Place, of_place
from dshap.storage.buckets import connection, told
from dshap.storage.objects import put_in_one

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

Mode = Literal["r", "r+", "w-"]


class BucketStore(ObjectStore[Any]):
    """The objects of a bucket as Zarr reads and writes them: a shard in one request.

    It is pickled as the name of its bucket: whoever opens it has credentials of his own.

    Parameters
    ----------
    place : the bucket
    """

    def __init__(self, place: BucketPath, *, read_only: bool = False) -> None:
        super().__init__(connection(place), read_only=read_only)
        self.place = place

    def with_read_only(self, read_only: bool = False) -> BucketStore:
        return BucketStore(self.place, read_only=read_only)

    def __getstate__(self) -> dict[Any, Any]:
        return {"place": self.place, "read_only": self.read_only}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        BucketStore.__init__(self, state["place"], read_only=state["read_only"])

    def __eq__(self, other: object) -> bool:
        match other:
            case BucketStore():
                return self.place == other.place and self.read_only == other.read_only
        return False

    def __str__(self) -> str:
        return str(self.place)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        with told(self.place / key):
            return await super().get(key, prototype, byte_range)

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        with told(self.place / key):
            await put_in_one(self.store, key, bytes(value.as_buffer_like()))


def stored_array(place: Place, mode: Mode = "r") -> zarr.Array[Any]:
    """The array at a place."""
    store, path = _opened(place)
    return zarr.open_array(store, path=path, mode=mode, zarr_format=3)


def stored_group(place: Place, mode: Mode = "r") -> zarr.Group:
    """The group at a place."""
    store, path = _opened(place)
    return zarr.open_group(store, path=path, mode=mode, zarr_format=3)


def stored_dataset(place: Place, chunks: dict[Any, Any] | None) -> xr.Dataset:
    """The group at a place as a Dataset, which knows its source."""
    store, path = _opened(place)
    found = xr.open_zarr(
        store, group=path or None, consolidated=False, chunks=chunks, zarr_format=3
    )
    found.encoding["source"] = str(place)
    return found


def place_of_array(array: zarr.Array[Any]) -> Place:
    """The place of an opened array."""
    match array.store:
        case LocalStore() as store:
            return Path(store.root, array.path)
    return cast(BucketStore, array.store).place / array.path


def _opened(place: Place) -> tuple[Path | BucketStore, str]:
    """The store that Zarr opens for a place, and the path inside it."""
    return of_place(place, lambda path: (path, ""), _in_bucket)


def _in_bucket(place: BucketPath) -> tuple[BucketStore, str]:
    return BucketStore(BucketPath(place.scheme, place.bucket)), place.key
