"""Objects of a store in a bucket: put once, read, listed and deleted, by obstore.

An object appears whole or not at all, so that nothing is left unfinished and there is nothing to
sync.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import batched
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

from dshap.core.errors import InputError
from dshap.core.places import BucketPath, Place
from dshap.storage.buckets import (
    ObjectReader,
    connection,
    fault_of,
    head_of,
    is_late,
    listed,
    range_of,
    several_at_once,
    told,
    upload,
    whole_object,
)

if TYPE_CHECKING:
    from obstore import UpdateVersion

SWITCH = "AWS_CONDITIONAL_PUT"
"""The variable that informs obstore that a service has no conditional puts."""
MANY = 16
"""The number of objects from which all below a place are listed: a page of a listing has a thousand."""
DELETED_AT_ONCE = 1_000
"""The objects that are removed in one request: the most that S3 accepts."""
PROBE = "probe."
"""The beginning of the name of an object by which a bucket is tried."""
PUT_ATTEMPTS = 3
"""How often a put that ran out of time is tried, because obstore does not repeat it."""


def refuse_unusable(place: BucketPath, content: bytes) -> None:
    """Raise an `InputError` if a store cannot be written at a place in a bucket.

    The bucket must exist, accept objects, and refuse to create an object that exists: receipts of
    finished blocks, and the lock, depend on that.  The test writes an object with `content` and
    spaces, and removes it; a process that is killed meanwhile leaves it.
    """
    probe = ObjectFiles(place.parent)
    name = f".{place.name}.running/{PROBE}{uuid.uuid4().hex[:12]}"
    probe.put_new(name, content)
    try:
        # with another content, as a put of the same bytes counts as one that was repeated
        if probe.put_new(name, content + b" "):
            raise _no_conditional_puts(place)
        seen = probe.seen(name)
        probe.replace(name, content + b"  ")
        if seen is not None and probe.put_over(name, seen, content + b"   "):
            raise _no_conditional_puts(place, "If-Match")
    finally:
        probe.delete(name)


def _no_conditional_puts(place: BucketPath, header: str = "If-None-Match") -> InputError:
    said = "choose another store"
    if SWITCH in os.environ:
        said = f"take {SWITCH} out of the environment, or {said}"
    return InputError(
        f"{place}: this object store has no conditional puts ({header}), so that two runs "
        f"could write the same mark: {said}"
    )


@dataclass(frozen=True)
class SeenObject:
    """An object as it was when it was read."""

    content: bytes
    e_tag: str
    """The text by which S3 and Azure compare two versions of an object."""
    version: str | None
    """The number by which Google compares them."""


class ObjectFiles:
    """The files of a store, or of one of its rooms, as objects under a prefix of a bucket."""

    def __init__(self, place: BucketPath) -> None:
        self.place = place

    def _key(self, name: str = "") -> str:
        return (self.place / name).key if name else self.place.key

    @property
    def _store(self) -> Any:
        return connection(self.place)

    def put_new(self, name: str, *data: bytes | memoryview) -> bool:
        """Create an object; return False, changing nothing, if the name has another content."""
        try:
            with told(self.place):
                return _put(self._store, self._key(name), b"".join(data), mode="create")
        except NotImplementedError:
            raise _no_conditional_puts(self.place) from None

    def clear_way(self, name: str) -> None:
        self.delete(name)

    def replace(self, name: str, content: bytes) -> None:
        with told(self.place):
            _put(self._store, self._key(name), content)

    def replace_all(self, contents: Mapping[str, bytes]) -> None:
        """Put each content under its name, several at a time, and the last after all others."""
        *first, last = contents
        for _ in several_at_once(lambda name: self.replace(name, contents[name]), first):
            pass
        self.replace(last, contents[last])

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """A path for a file, which is sent once the block ends."""
        with tempfile.TemporaryDirectory(prefix="dshap-") as folder:
            private = Path(folder) / "file"
            yield private
            self.put_file(name, private)

    def exchange(self, name: str, before: bytes | None, content: bytes) -> bool:
        """Put this content over an object with the content `before`; None: there is no object."""
        if before is None:
            return self.put_new(name, content)
        seen = self.seen(name)
        if seen is None:
            return False
        if seen.content != before:
            # an exchange may be repeated because its answer was lost on the way
            return seen.content == content
        return self.put_over(name, seen, content)

    def seen(self, name: str) -> SeenObject | None:
        """The content and the version of an object, read at once; None if there is none."""
        import obstore

        with contextlib.suppress(FileNotFoundError), told(self.place):
            found = obstore.get(self._store, self._key(name))
            version = found.meta.get("version")
            return SeenObject(bytes(found.bytes()), str(found.meta["e_tag"]), version)
        return None

    def put_over(self, name: str, seen: SeenObject, content: bytes) -> bool:
        """Put an object in the place of the one that was seen; False if that is not there any more."""
        mode: UpdateVersion = {"e_tag": seen.e_tag}
        if seen.version is not None:
            mode["version"] = seen.version
        try:
            with told(self.place):
                return _put(self._store, self._key(name), content, mode=mode)
        except NotImplementedError:
            raise _no_conditional_puts(self.place, "If-Match") from None

    def get(self, name: str) -> bytes | None:
        return whole_object(self.place / name)

    def open(self, name: str) -> BinaryIO:
        content = self.get(name)
        if content is None:
            raise FileNotFoundError(str(self.place / name))
        return io.BytesIO(content)

    def reader(self, name: str) -> BinaryIO:
        """An object opened to read parts of it, a request each."""
        place = self.place / name
        found = head_of(place)
        if found is None:
            raise FileNotFoundError(str(place))
        return cast(BinaryIO, ObjectReader(place, int(found["size"])))

    def part(self, name: str, start: int, stop: int) -> bytes:
        """The bytes start..stop of an object, or up to its end; only these are fetched."""
        if start >= stop:
            return b""
        return range_of(self.place / name, start, stop)

    def delete(self, name: str) -> None:
        """Remove the object of this name, and all in a room of that name."""
        import obstore

        inside = [each["path"] for each in self._objects(self._key(name))]
        with told(self.place):
            for keys in (self._key(name), inside):
                with contextlib.suppress(FileNotFoundError):
                    obstore.delete(self._store, keys)

    def delete_all(self, names: Iterable[str]) -> None:
        """Remove objects of these names, many in one request."""
        import obstore

        for some in batched(names, DELETED_AT_ONCE):
            with told(self.place), contextlib.suppress(FileNotFoundError):
                obstore.delete(self._store, [self._key(name) for name in some])

    def discard_room(self, name: str) -> None:
        """Remove the objects in a room."""
        self.delete(name)

    def remove_empty(self) -> None:
        """Return at once: a folder without objects is not there."""

    def copy(self, name: str, to: Place) -> None:
        """Copy an object to another name of its bucket, where the service does it by itself."""
        import obstore

        with told(self.place):
            obstore.copy(self._store, self._key(name), cast(BucketPath, to).key)

    def put_file(self, name: str, file: Path) -> None:
        """Send a file, in pieces if it is large."""
        upload(self.place / name, file)

    def folder_to_fill(self, elsewhere: Callable[[], Path]) -> Path:
        """Another folder: files are made on this machine, and sent then."""
        return elsewhere()

    def has(self, name: str) -> bool:
        return self.has_file(name) or self.has_room(name)

    def has_file(self, name: str) -> bool:
        return self._head(name) is not None

    def has_room(self, name: str = "") -> bool:
        return next(self._objects(self._key(name)), None) is not None

    def size(self, name: str) -> int:
        found = self._head(name)
        return 0 if found is None else int(found["size"])

    def sizes(self, n_files: int) -> Callable[[str], int]:
        """A function that returns the bytes of an object; of many, from one listing of all."""
        if n_files < MANY:
            return self.size
        found = listed(self.place)
        return lambda name: found.get(name, 0)

    def version(self, name: str) -> str | None:
        """The ETag of an object; None if there is none."""
        found = self._head(name)
        return None if found is None else str(found["e_tag"])

    def times(self) -> dict[str, float]:
        """Name -> time at which it was written, of the objects right here."""
        objects = self._listed()["objects"]
        named = {each["path"].rpartition("/")[2]: each["last_modified"] for each in objects}
        return {
            name: written.timestamp() for name, written in named.items() if not name.startswith(".")
        }

    def _listed(self) -> Any:
        """The objects and the rooms right here."""
        import obstore

        with told(self.place):
            return obstore.list_with_delimiter(self._store, self.place.key)

    def list(self) -> list[str]:
        found = self._listed()
        keys = [*found["common_prefixes"], *(each["path"] for each in found["objects"])]
        names = {key.rstrip("/").rpartition("/")[2] for key in keys}
        return sorted(name for name in names if name and not name.startswith("."))

    def tree(self) -> Iterator[str]:
        start = len(self.place.key) + 1
        yield from sorted(each["path"][start:] for each in self._objects(self.place.key))

    def sync(self, names: Iterable[str]) -> None:
        """Return at once: an object is durable as soon as its put has been answered."""

    def sync_names(self) -> None:
        """Return at once: an object is gone as soon as its removal has been answered."""

    def map[Item, Answer](
        self, function: Callable[[Item], Answer], items: Iterable[Item]
    ) -> Iterator[Answer]:
        """The results of function(item) in the order of the items, several at a time."""
        return several_at_once(function, items)

    def free_bytes(self) -> int | None:
        """None: a bucket has no end."""
        return None

    def full_disk_path(self, error: OSError) -> Path | None:
        """The path of the error: an error without one is not about this place."""
        if error.filename is None:
            return None
        return Path(str(error.filename))

    def fault(self) -> str | None:
        """The reason why this process cannot list the objects here; None if it can."""
        return fault_of(self.place) or None

    def is_there(self) -> bool:
        """Whether an object, or a folder of objects, is here."""
        return self.has_room() or head_of(self.place) is not None

    def true_place(self) -> BucketPath:
        """The place itself: a bucket has no links."""
        return self.place

    def unfinished(self, older_s: float = 0.0) -> Iterator[str]:
        """No name: an object is whole or not there."""
        yield from ()

    def clear_private_rooms(self) -> tuple[str, ...]:
        """Nothing: objects have no private names."""
        return ()

    def _head(self, name: str) -> Any:
        return head_of(self.place / name)

    def _objects(self, key: str) -> Iterator[Any]:
        """The objects below a key, page by page."""
        import obstore

        with told(self.place):
            for page in obstore.list(self._store, key):
                yield from page


async def put_in_one(store: Any, key: str, content: bytes) -> None:
    """Put an object in one request, over one that is there, from an event loop."""
    import obstore
    from obstore.exceptions import BaseError

    for attempt in range(1, PUT_ATTEMPTS + 1):
        try:
            await obstore.put_async(store, key, content, use_multipart=False)
            return
        except BaseError as error:
            if not is_late(error) or attempt == PUT_ATTEMPTS:
                raise


def _put(
    store: Any,
    key: str,
    content: bytes,
    mode: Literal["create", "overwrite"] | UpdateVersion = "overwrite",
) -> bool:
    """Put an object in one request; False if the mode does not allow it.

    The mode "create" requires that no object exists, and a version requires that this version
    exists.  If the answer to a put was lost, it is repeated, here or by obstore, and finds the
    object of the first attempt: an object with the same content therefore counts as put.
    """
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

    for attempt in range(1, PUT_ATTEMPTS + 1):
        try:
            obstore.put(store, key, content, mode=mode, use_multipart=False)
            return True
        except FileNotFoundError:  # the version to replace was deleted, or the bucket is not there
            if isinstance(mode, str):
                raise
            return False
        except (AlreadyExistsError, PreconditionError):
            # an earlier attempt may have put it, and only its answer was lost
            with contextlib.suppress(FileNotFoundError):
                return bytes(obstore.get(store, key).bytes()) == content
            return False
        except BaseError as error:
            if not is_late(error) or attempt == PUT_ATTEMPTS:
                raise
    return False
