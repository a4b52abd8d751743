"""A store of Zarr that answers known files from memory, and detects that files have moved.

To Zarr a chunk that is not there contains fill values.  The chunks of a cube go elsewhere when it
is packed: a process that opened it before would read rows as pending that have attributions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import WrapperStore

from dshap.core.errors import MovedFilesError
from dshap.core.places import Place
from dshap.cube.shards import MOVED, separator_of
from dshap.storage.folder import Folder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

CHUNK = re.compile(r"(?P<array>(?:.*/)?)c(?P<separator>[./])\d+(?:[./]\d+)*")
"""The key of a chunk: the folder of its array, and the separator between its numbers."""


class CheckedStore(WrapperStore[Store]):
    """The files at a place, for reading.

    Parameters
    ----------
    store : the store of Zarr that reads them
    place : the place of its files
    token : a text that distinguishes this store from another one at the same place
    known : key -> content of files that are in memory: all documents of a group, where there are any
    """

    def __init__(
        self, store: Store, place: Place, token: str, known: Mapping[str, bytes] | None = None
    ) -> None:
        super().__init__(store)
        self.place = place
        self.token = token
        self.known = dict(known or {})

    def _with_store(self, store: Store) -> CheckedStore:
        return type(self)(store, self.place, self.token, self.known)

    def __dask_tokenize__(self) -> Any:
        return str(self.place), self.token

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        if byte_range is None and key in self.known:
            return prototype.buffer.from_bytes(self.known[key])
        found = await super().get(key, prototype, byte_range)
        if found is None:
            self._refuse_moved(key)
        return found

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        if byte_range is None and key in self.known:
            return (prototype or default_buffer_prototype()).buffer.from_bytes(self.known[key])
        found = super().get_sync(key, prototype=prototype, byte_range=byte_range)
        if found is None:
            self._refuse_moved(key)
        return found

    async def _get_many(
        self, requests: Iterable[tuple[str, BufferPrototype, ByteRequest | None]]
    ) -> AsyncGenerator[tuple[str, Buffer | None], None]:
        # by `get` of this class; the method of the wrapper asks the wrapped store and would miss
        # the known files
        async for found in Store._get_many(self, requests):
            yield found

    async def list_dir(self, prefix: str) -> AsyncGenerator[str, None]:
        room = f"{prefix.rstrip('/')}/".lstrip("/")
        inside = [key.removeprefix(room) for key in self.known if key.startswith(room)]
        if not inside:
            async for name in super().list_dir(prefix):
                yield name
        for name in dict.fromkeys(key.partition("/")[0] for key in inside):
            yield name

    def _refuse_moved(self, key: str) -> None:
        """Raise a `MovedFilesError` if the document of an array names its chunks otherwise now."""
        chunk = CHUNK.fullmatch(key)
        if chunk is None:
            return
        document = Folder(self.place).get(f"{chunk['array']}zarr.json")
        if document and separator_of(json.loads(document)) != chunk["separator"]:
            raise MovedFilesError(f"{self.place / key}: {MOVED}")
