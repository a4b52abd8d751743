"""Places of stores and rows: a path of a file system, or a path in a bucket of an object store.

A place in a bucket is a name and nothing more: it has no connection and no credentials, travels to
workers as text, and is opened where it is used (`dshap.storage.buckets`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BUCKETS = ("s3", "gs", "az")
"""The schemes of object stores: Amazon S3 and other services with its protocol, Google Cloud,
Azure."""
_ADDRESS = re.compile(rf"({'|'.join(BUCKETS)}):/{{1,2}}([^/]+)/*(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, order=True)
class BucketPath:
    """The place of a store, or of a file or room in it, in a bucket of an object store."""

    scheme: str
    """One of `BUCKETS`."""
    bucket: str
    key: str = ""
    """The names below the bucket, joined by slashes; empty for the bucket itself."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}{f'/{self.key}' if self.key else ''}"

    def __truediv__(self, name: str) -> BucketPath:
        parts = [part for part in (self.key, name.strip("/")) if part]
        return BucketPath(self.scheme, self.bucket, "/".join(parts))

    @property
    def name(self) -> str:
        """The last part of the key; of the bucket itself the bucket's name."""
        return self.key.rpartition("/")[2] or self.bucket

    @property
    def parent(self) -> BucketPath:
        """The place above; the place above a bucket is the bucket."""
        return BucketPath(self.scheme, self.bucket, self.key.rpartition("/")[0])

    @property
    def parents(self) -> list[BucketPath]:
        """The places above, the nearest first, up to the bucket."""
        above = []
        place = self
        while place.key:
            place = place.parent
            above.append(place)
        return above

    def resolve(self) -> BucketPath:
        """The place itself: a bucket has no links."""
        return self

    def with_name(self, name: str) -> BucketPath:
        """The place of another name beside this one."""
        return self.parent / name


Place = Path | BucketPath
"""The type of a place: most code joins names to it, and asks a `Folder` what is there."""


def of_place[OnDisk, InBucket](
    place: Place, on_disk: Callable[[Path], OnDisk], in_bucket: Callable[[BucketPath], InBucket]
) -> OnDisk | InBucket:
    """Build the object for a place: by one class for disks, by another for buckets."""
    match place:
        case BucketPath():
            return in_bucket(place)
    return on_disk(place)


def is_in_bucket(text: str) -> bool:
    """Whether a text names a place in a bucket."""
    return _ADDRESS.fullmatch(text) is not None


def place_of(text: str | Path | BucketPath) -> Place:
    """The place that an absolute path, or an address that was checked, names."""
    match text:
        case Path() | BucketPath():
            return text
    found = _ADDRESS.fullmatch(text)
    if found is None:
        return Path(text)
    key = "/".join(part for part in found[3].split("/") if part not in ("", "."))
    return BucketPath(found[1].lower(), found[2], key)
