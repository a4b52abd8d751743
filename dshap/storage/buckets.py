"""Connections to the buckets of object stores by obstore, and their errors in one line.

A `BucketPath` names the place; the connection is made here, from the environment of this process,
once for each bucket.  A request is tried again by obstore, with growing pauses and a bound; what is
left is one line without credentials: `InputError` if the user can mend it, else
`UnreachableError`.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dshap.core.addresses import masked
from dshap.core.errors import InputError, UnreachableError
from dshap.core.places import BucketPath

MAX_RETRIES = 8
"""Times that a request is repeated after an error of the service or of the connection."""
RETRY_S = 120
"""Seconds after which a request is not repeated any more."""
TIMEOUT_S = 60
"""Time limit of one request, in seconds."""
AT_ONCE = 16
"""The most requests of one process for small objects that are on their way at once."""
PIECES_AT_ONCE = 4
"""Pieces of a large object, of 5 MiB each, that are sent at once: they are in memory."""
SETTINGS = {
    "s3": ("AWS_", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    "gs": ("GOOGLE_", "GOOGLE_SERVICE_ACCOUNT"),
    "az": ("AZURE_", "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"),
}
"""Scheme -> the beginning of its variables of the environment, and those with credentials."""
ENDPOINTS = frozenset(
    (
        "AWS_ENDPOINT",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AZURE_ENDPOINT",
        "AZURE_STORAGE_ENDPOINT",
    )
)
"""The variables with the address of a service."""
_WEB = re.compile(r"https?://[^\s/]+\S*")
_NAME = re.compile(r"[\w.-]*", re.ASCII)
_VISIBLE = re.compile(r"[!-~]*")
SENT_AS_THEY_ARE = {
    "AWS_REGION": _NAME,
    "AWS_DEFAULT_REGION": _NAME,
    "AWS_ACCESS_KEY_ID": _VISIBLE,
    "AWS_SECRET_ACCESS_KEY": _VISIBLE,
    "AWS_SESSION_TOKEN": _VISIBLE,
    "AZURE_STORAGE_ACCOUNT_NAME": _NAME,
    "AZURE_STORAGE_ACCOUNT_KEY": _VISIBLE,
    "AZURE_STORAGE_SAS_TOKEN": _VISIBLE,
}
"""Variable -> the characters that it may have; object_store 0.14 panics at others in a request."""
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
    for name, given in settings:
        if name in ENDPOINTS and not _is_address(given):
            raise InputError(
                f"{place}: {name} of the environment is not the address of a service: give one "
                "like https://HOST:PORT, or leave it out"
            )
        if name in SENT_AS_THEY_ARE and not SENT_AS_THEY_ARE[name].fullmatch(given):
            raise InputError(
                f"{place}: {name} of the environment contains a space, the end of a line or "
                "another character that cannot be part of it: set it again without this character"
            )
    # by process, as the threads of a connection do not survive a fork
    return _connection(place.scheme, place.bucket, settings, os.getpid())


def _is_address(text: str) -> bool:
    """Whether a text is an address of the web, with a port that there is."""
    if not _WEB.fullmatch(text):
        return False
    try:
        _ = urlsplit(text).port
    except ValueError:
        return False
    return True


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
        # options given here replace those of the environment
        "allow_http": any(_is_plain(name, given) for name, given in settings),
    }
    try:
        return from_url(str(place), retry_config=retries, client_options=options)
    except Exception as error:
        if _MISSING.search(_words_of(error)):
            raise _error(place, error) from None
        if culprits := _named_by(_words_of(error), settings):
            raise InputError(
                f"{place}: the object store does not accept {culprits} of the environment as it is "
                "set: correct it, or leave it out"
            ) from None
        _, variables = SETTINGS[scheme]
        raise InputError(
            f"{place}: the environment does not say how to reach it "
            f"({type(error).__name__}): set {variables}"
        ) from None


def _named_by(text: str, settings: tuple[tuple[str, str], ...]) -> str:
    """The names of the variables whose value a message has in quotes, or else as a word of it."""
    for pattern in (r'"{}"', r"(?<!\S){}(?![\w/])"):
        names = [
            name
            for name, given in settings
            if given and re.search(pattern.format(re.escape(given)), text)
        ]
        if names:
            return " and ".join(names)
    return ""


def _is_plain(name: str, given: str) -> bool:
    """Whether a variable of the environment asks for http without encryption."""
    if name.endswith("ALLOW_HTTP"):
        return given.lower() in ("1", "true", "yes")
    return name in ENDPOINTS and given.startswith("http://")


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
    """The error of a place in dshap's words, because obstore's words may show contents."""
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
    elif is_late(error):
        said = "it did not answer in time"
    else:
        said = f"it cannot be reached{_where(place)}"
    return UnreachableError(
        f"{place}: the object store failed again and again ({said}): run the same command again later"
    )


def _where(place: BucketPath) -> str:
    """The address of the service and the variable that sets it, in words; "" if none does."""
    prefix, _ = SETTINGS[place.scheme]
    for name in sorted(ENDPOINTS):
        address = os.environ.get(name, "")
        if name.startswith(prefix) and address:
            return f" at {masked(address)}, which {name} of the environment names"
    return ""


def _words_of(error: Exception) -> str:
    """The message of obstore, without its output for debugging."""
    return str(error).partition("\n\nDebug source")[0]


def is_late(error: Exception) -> bool:
    """Whether a request ended by its time limit."""
    return re.search(r"timed out|(?<!retry_)timeout", _words_of(error)) is not None


def _no_bucket(place: BucketPath) -> InputError:
    return InputError(
        f"{place}: there is no bucket {place.bucket!r}: make it, or check the name, the region and "
        "the endpoint in the environment"
    )


def several_at_once[Item, Answer](
    function: Callable[[Item], Answer], items: Iterable[Item]
) -> Iterator[Answer]:
    """The results of function(item), in the order of the items, computed several at a time.

    A request to a bucket is waited for longer than it takes.  No more than `AT_ONCE` results are
    in memory.
    """
    left = iter(items)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = deque(pool.submit(function, item) for item in islice(left, AT_ONCE))
        try:
            while running:
                yield running.popleft().result()
                running.extend(pool.submit(function, item) for item in islice(left, 1))
        finally:
            for each in running:
                each.cancel()


def fault_of(place: BucketPath) -> str:
    """The reason why this process cannot list a place, in words; empty if it can."""
    import obstore

    try:
        with told(place):
            next(iter(obstore.list(connection(place), place.key or None)), None)
    except (InputError, UnreachableError) as error:
        return str(error)
    return ""


def listed(place: BucketPath) -> dict[str, int]:
    """The names of all objects below a place, sorted, with their bytes."""
    import obstore

    start = len(place.key) + 1 if place.key else 0
    found: dict[str, int] = {}
    with told(place):
        for page in obstore.list(connection(place), place.key or None):
            found |= {each["path"][start:]: int(each["size"]) for each in page}
    return dict(sorted(found.items()))


def head_of(place: BucketPath) -> Mapping[str, Any] | None:
    """Size, ETag and time of the object at a place; None if there is none."""
    import obstore

    try:
        with told(place):
            return dict(obstore.head(connection(place), place.key))
    except FileNotFoundError:
        return None


def whole_object(place: BucketPath) -> bytes | None:
    """The bytes of the object at a place; None if there is none."""
    import obstore

    try:
        with told(place):
            return bytes(obstore.get(connection(place), place.key).bytes())
    except FileNotFoundError:
        return None


def range_of(place: BucketPath, start: int, stop: int) -> bytes:
    """The bytes start..stop of the object at a place, or up to its end.

    Raises
    ------
    FileNotFoundError
        There is no object.
    """
    import obstore

    with told(place):
        found = obstore.get_range(connection(place), place.key, start=start, end=stop)
    return bytes(found)


def upload(place: BucketPath, content: bytes | Path) -> None:
    """Put bytes, or a file of a disk, as the object at a place, over one that is there.

    It appears once it is whole; a large one is sent in pieces, several at once.
    """
    import obstore

    with told(place):
        obstore.put(connection(place), place.key, content, max_concurrency=PIECES_AT_ONCE)


class ObjectReader(io.RawIOBase):
    """The bytes of an object as a file that is read in ranges, a request each.

    Parameters
    ----------
    place : the object
    size : its bytes
    """

    def __init__(self, place: BucketPath, size: int) -> None:
        super().__init__()
        self._place = place
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}
        self._at = starts[whence] + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        import obstore

        stop = min(self._at + len(buffer), self._size)
        if stop <= self._at:
            return 0
        with told(self._place):
            found = obstore.get_range(
                connection(self._place), self._place.key, start=self._at, end=stop
            )
        buffer[: stop - self._at] = memoryview(found)
        self._at = stop
        return len(memoryview(found))
