"""Digests of files, and sealed records: an altered, cut or renamed file is recognised by them.

A seal is a digest of the content and of the name that it was made for.  In a record that is stored
as JSON it is the entry `seal`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, BinaryIO

SEAL = "seal"
SEAL_BYTES = 16
"""Bytes of a seal and of the digest of a file: two files share one by chance in 1 of 10^38 cases."""
PIECE_BYTES = 1 << 20
"""Number of bytes of a file that are read together."""
ALTERED = "its content is not what was written under this name"


def begun_seal(name: str) -> hashlib.blake2b:
    """The digest of a seal, begun with the name; the content is added to it."""
    return hashlib.blake2b(f"{name}:".encode(), digest_size=SEAL_BYTES)


def seal_of(name: str, content: Mapping[str, Any]) -> str:
    """The seal of a record of plain values, as hexadecimal digits."""
    sealing = begun_seal(name)
    sealing.update(json.dumps(content, sort_keys=True).encode())
    return sealing.hexdigest()


def sealed_record(name: str, content: Mapping[str, Any]) -> bytes:
    """A record as JSON, with its seal."""
    return json.dumps({**content, SEAL: seal_of(name, content)}, sort_keys=True).encode()


def record_in(stored: bytes | None) -> dict[str, Any]:
    """The record in the content of a file, without its seal, which is not checked."""
    content = dict(json.loads(stored or b""))
    content.pop(SEAL, None)
    return content


def whole_record(name: str, stored: bytes) -> dict[str, Any]:
    """The record in the content of a file, without its seal.

    A record of an earlier version of dshap has no seal: it is accepted as it is.

    Raises
    ------
    ValueError
        It is no record, or its content differs from the content written under this name.
    """
    try:
        content = dict(json.loads(stored))
    except (ValueError, TypeError):
        raise ValueError(f"{name}: it is not a record of names and values") from None
    seal = content.pop(SEAL, None)
    if seal is not None and seal != seal_of(name, content):
        raise ValueError(f"{name}: {ALTERED}")
    return content


def begun_digest() -> hashlib.blake2b:
    """The digest of the bytes of a file, to which its pieces are added."""
    return hashlib.blake2b(digest_size=SEAL_BYTES)


def digest_of_file(opened: BinaryIO) -> str:
    """The digest of the bytes of a file, which is read in pieces."""
    digest = begun_digest()
    while piece := opened.read(PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def digest_of_content(content: bytes) -> str:
    """The digest of the bytes of a file, given whole."""
    return hashlib.blake2b(content, digest_size=SEAL_BYTES).hexdigest()
