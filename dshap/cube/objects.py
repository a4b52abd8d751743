"""Objects of a store in a bucket: put once, read, listed and deleted, by obstore (the only obstore).

A `BucketPath` says where; the connection is made here, from the environment of this process, once
for each bucket.  A request is tried again by obstore, with growing pauses and a bound; what is left
is one line without credentials: `InputError` where the user can mend it, else `UnreachableError`.

An object appears whole or not at all, so that nothing is left unfinished and there is nothing to
sync.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any, BinaryIO, Literal

from dshap.core.errors import InputError, UnreachableError
from dshap.core.places import BucketPath

MAX_RETRIES = 8
"""Times that a request is repeated after an error of the service or of the connection."""
RETRY_S = 120
"""Seconds after which a request is not repeated any more."""
TIMEOUT_S = 60
"""Seconds that one request may take."""
PUT_ATTEMPTS = 3
"""Tries of a put that ran out of time, which obstore does not repeat by itself."""
SETTINGS = {
    "s3": ("AWS_", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    "gs": ("GOOGLE_", "GOOGLE_SERVICE_ACCOUNT"),
    "az": ("AZURE_", "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"),
}
"""Scheme -> the beginning of its variables of the environment, and those that hold credentials."""
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist")
_REFUSED = re.compile(
    r"InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|AuthenticationFailed|AuthorizationFailure"
    r"|InvalidToken|ExpiredToken|40[13] (Unauthorized|Forbidden)"
)
_MISSING = re.compile(
    r"credential provider|169\.254\.169\.254|metadata\.google|InstanceCredential|Missing (AccessKey|"
    r"SecretAccessKey)|token request",
    re.IGNORECASE,
)


def connection(place: BucketPath) -> Any:
    """The obstore store of the bucket of a place, made once in a process for each environment.

    Raises
    ------
    InputError
        The extra `cloud` is not installed, or a variable of the environment is no setting.
    """
    prefix, _ = SETTINGS[place.scheme]
    settings = tuple(sorted(each for each in os.environ.items() if each[0].startswith(prefix)))
    return _connection(place.scheme, place.bucket, settings, os.getpid())


@functools.lru_cache(maxsize=16)
def _connection(scheme: str, bucket: str, settings: tuple[tuple[str, str], ...], pid: int) -> Any:
    """The connection with these settings, which this process has in its environment."""
    place = BucketPath(scheme, bucket)
    try:
        from obstore.store import from_url
    except ImportError as error:
        raise InputError(
            f"{place} is in an object store, and the package obstore is not installed: "
            "pip install 'dshap[cloud]'"
        ) from error
    retries: Any = {"max_retries": MAX_RETRIES, "retry_timeout": timedelta(seconds=RETRY_S)}
    options: Any = {
        "timeout": f"{TIMEOUT_S} seconds",
        # options given here stand in place of those of the environment
        "allow_http": any(_is_plain(name, given) for name, given in settings),
    }
    with told(place):
        return from_url(str(place), retry_config=retries, client_options=options)


def _is_plain(name: str, given: str) -> bool:
    """Whether a variable of the environment asks for http without encryption."""
    if name.endswith("ALLOW_HTTP"):
        return given.lower() in ("1", "true", "yes")
    return name.endswith(("ENDPOINT", "ENDPOINT_URL", "ENDPOINT_URL_S3")) and given.startswith(
        "http://"
    )


@contextlib.contextmanager
def told(place: BucketPath) -> Iterator[None]:
    """Turn an error of obstore about this place into one line; a missing object stays one.

    Raises
    ------
    InputError
        The bucket is not there, or credentials are missing or refused.
    UnreachableError
        The service did not answer, or answered with an error, as often as it was asked.
    """
    try:
        yield
    except FileNotFoundError as error:
        if _NO_BUCKET.search(str(error)):
            raise _no_bucket(place) from None
        raise
    except Exception as error:
        if not type(error).__module__.startswith("obstore"):
            raise
        raise _error(place, error) from None


def _error(place: BucketPath, error: Exception) -> Exception:
    """The error of a place in words of its own: those of obstore may show what was sent."""
    text = _words_of(error)
    _, variables = SETTINGS[place.scheme]
    kind = type(error).__name__
    if _NO_BUCKET.search(text):
        return _no_bucket(place)
    if _MISSING.search(text):
        return InputError(
            f"{place}: no credentials were found: set {variables} in the environment, here and "
            "where the workers run"
        )
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or _REFUSED.search(text):
        return InputError(
            f"{place}: the service refuses the credentials of the environment, or they may not do "
            f"this: check {variables}"
        )
    found = re.search(r"status code: (\d+ [A-Za-z ]+)|status: (\d+)", text)
    if found:
        said = f"it answered {found[1] or found[2]}"
    elif _is_late(error):
        said = "it did not answer in time"
    else:
        said = "it cannot be reached"
    return UnreachableError(
        f"{place}: the object store failed again and again ({said}): run the same again later"
    )


def _words_of(error: Exception) -> str:
    """The message of obstore, without what it prints for those who debug it."""
    return str(error).partition("\n\nDebug source")[0]


def _is_late(error: Exception) -> bool:
    """Whether a request ended because it took too long."""
    return re.search(r"timed out|(?<!retry_)timeout", _words_of(error)) is not None


def _no_bucket(place: BucketPath) -> InputError:
    return InputError(
        f"{place}: there is no bucket {place.bucket!r}: make it, or check the name, the region and "
        "the endpoint in the environment"
    )


def refuse_unusable(place: BucketPath) -> None:
    """Raise an `InputError` where a store cannot be written at a place.

    Its bucket must be there, take objects, and refuse to create one that is there: marks of finished
    blocks, and the lock, rest on that.
    """
    probe = ObjectFiles(place.parent)
    name = f".{place.name}.running/probe.{uuid.uuid4().hex[:12]}"
    probe.put_new(name, b"1")
    try:
        is_kept = not probe.put_new(name, b"2")
    finally:
        probe.delete(name)
    if not is_kept:
        raise InputError(
            f"{place}: this object store has no conditional puts (If-None-Match), so that two runs "
            "could write the same mark: choose another store"
        )


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
        with told(self.place):
            return _put(self._store, self._key(name), b"".join(data), mode="create")

    def clear_way(self, name: str) -> None:
        self.delete(name)

    def replace(self, name: str, content: bytes) -> None:
        with told(self.place):
            _put(self._store, self._key(name), content)

    def get(self, name: str) -> bytes | None:
        import obstore

        try:
            with told(self.place):
                return bytes(obstore.get(self._store, self._key(name)).bytes())
        except FileNotFoundError:
            return None

    def open(self, name: str) -> BinaryIO:
        content = self.get(name)
        if content is None:
            raise FileNotFoundError(str(self.place / name))
        return io.BytesIO(content)

    def delete(self, name: str) -> None:
        """Remove the object of this name, and all in a room of that name."""
        import obstore

        keys = [self._key(name), *(each["path"] for each in self._objects(self._key(name)))]
        with told(self.place):
            for key in keys:
                with contextlib.suppress(FileNotFoundError):
                    obstore.delete(self._store, key)

    def has(self, name: str) -> bool:
        return self.has_file(name) or self.has_room(name)

    def has_file(self, name: str) -> bool:
        return self._head(name) is not None

    def has_room(self, name: str = "") -> bool:
        return next(self._objects(self._key(name)), None) is not None

    def size(self, name: str) -> int:
        found = self._head(name)
        return 0 if found is None else int(found["size"])

    def version(self, name: str) -> str | None:
        """The ETag of an object; None if there is none."""
        found = self._head(name)
        return None if found is None else str(found["e_tag"])

    def newest(self) -> float | None:
        """The time at which the newest object in this room was written; None if it is empty."""
        times = [each["last_modified"].timestamp() for each in self._objects(self.place.key)]
        return max(times, default=None)

    def list(self) -> list[str]:
        import obstore

        with told(self.place):
            found = obstore.list_with_delimiter(self._store, self.place.key)
        keys = [*found["common_prefixes"], *(each["path"] for each in found["objects"])]
        names = {key.rstrip("/").rpartition("/")[2] for key in keys}
        return sorted(name for name in names if name and not name.startswith("."))

    def tree(self) -> Iterator[str]:
        start = len(self.place.key) + 1
        yield from sorted(each["path"][start:] for each in self._objects(self.place.key))

    def sync(self, names: Iterable[str]) -> None:
        """Return at once: an object is kept as soon as its put has been answered."""

    def unfinished(self, older_s: float = 0.0) -> Iterator[str]:
        """No name: an object is whole or not there."""
        yield from ()

    def _head(self, name: str) -> Any:
        import obstore

        try:
            with told(self.place):
                return obstore.head(self._store, self._key(name))
        except FileNotFoundError:
            return None

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
            if not _is_late(error) or attempt == PUT_ATTEMPTS:
                raise


def _put(
    store: Any, key: str, content: bytes, mode: Literal["create", "overwrite"] = "overwrite"
) -> bool:
    """Put an object in one request; False if the mode is "create" and another object is there.

    A put that was repeated, here or by obstore, may have been done before: an object with the same
    content is this one.
    """
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError

    for attempt in range(1, PUT_ATTEMPTS + 1):
        try:
            obstore.put(store, key, content, mode=mode, use_multipart=False)
            return True
        except AlreadyExistsError:
            return bytes(obstore.get(store, key).bytes()) == content
        except BaseError as error:
            if not _is_late(error) or attempt == PUT_ATTEMPTS:
                raise
    return False
