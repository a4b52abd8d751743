"""Arrays and groups of a store, opened by Zarr and xarray from a disk or a bucket."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from dshap.core.late import xr, zarr
from dshap.core.places import BucketPath, Place, of_place

if TYPE_CHECKING:
    from dshap.cube.bucket_stores import BucketStore

Mode = Literal["r", "r+", "w-"]


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
        case zarr.storage.LocalStore() as store:
            return Path(store.root, array.path)
    return cast("BucketStore", array.store).place / array.path


def _opened(place: Place) -> tuple[Path | BucketStore, str]:
    """The store that Zarr opens for a place, and the path inside it."""
    return of_place(place, lambda path: (path, ""), _in_bucket)


def _in_bucket(place: BucketPath) -> tuple[BucketStore, str]:
    from dshap.cube.bucket_stores import BucketStore

    return BucketStore(BucketPath(place.scheme, place.bucket)), place.key
