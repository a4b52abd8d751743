"""The objects of a bucket as a store of Zarr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zarr.storage import ObjectStore

from dshap.core.places import BucketPath
from dshap.storage.buckets import connection, told
from dshap.storage.objects import put_in_one

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype


class BucketStore(ObjectStore[Any]):
    """The objects of a bucket as Zarr reads and writes them: a shard in one request.

    It is pickled as the name of its bucket: each process that opens it uses its own credentials.

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
