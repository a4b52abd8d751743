"""Arrays and groups of a store, opened by Zarr and xarray from a disk or a bucket."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dshap.core.late import xr, zarr
from dshap.core.places import BucketPath, Place, of_place
from dshap.cube.creation import ROOT
from dshap.storage.folder import Folder

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from dshap.cube.checked_stores import CheckedStore


def stored_array(place: Place) -> zarr.Array[Any]:
    """The array at a place."""
    store, path = _opened(place)
    return zarr.open_array(store, path=path, mode="r", zarr_format=3)


def stored_group(place: Place) -> zarr.Group:
    """The group at a place."""
    store, path = _opened(place)
    return zarr.open_group(store, path=path, mode="r", zarr_format=3)


def stored_dataset(
    place: Place, chunks: dict[Any, Any] | None, known: Mapping[str, bytes] | None = None
) -> xr.Dataset:
    """The group at a place as a Dataset, which knows its source.

    The content of `known` files (name -> content), with all documents of the group, is not read
    again.
    """
    store, path = _opened(place, known)
    found = xr.open_zarr(
        store, group=path or None, consolidated=False, chunks=chunks, zarr_format=3
    )
    found.encoding["source"] = str(place)
    return found


def place_of_array(array: zarr.Array[Any]) -> Place:
    """The place of an opened array."""
    return cast("CheckedStore", array.store).place / array.path


def _opened(place: Place, known: Mapping[str, bytes] | None = None) -> tuple[CheckedStore, str]:
    """The store that Zarr opens for a place, and the path inside it."""
    from dshap.cube.checked_stores import CheckedStore

    store, root, path, token = of_place(place, _on_disk, _in_bucket)
    room = f"{path}/" if path else ""
    files = {f"{room}{name}": content for name, content in (known or {}).items()}
    return CheckedStore(store, root, token, files), path


def _on_disk(place: Path) -> tuple[Store, Place, str, str]:
    """(store, its place, path inside it, token)."""
    version = Folder(place).version(ROOT)
    return zarr.storage.LocalStore(place, read_only=True), place, "", str(version)


def _in_bucket(place: BucketPath) -> tuple[Store, Place, str, str]:
    from dshap.cube.bucket_stores import BucketStore

    bucket = BucketPath(place.scheme, place.bucket)
    return BucketStore(bucket, read_only=True), bucket, place.key, place.key
