"""Envelopes of statements (DSSE, https://github.com/secure-systems-lab/dsse), signed or not.

Without a key an envelope has no signature: anyone could have written it, and its statement contains
a note on this.  In addition to the three entries of DSSE it has the digest of the payload, by which
accidental damage is detected without a key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dshap.seals.signing_keys import SigningKey, VerifyingKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"  # the media type of in-toto; it is signed too


@dataclass(frozen=True)
class Envelope:
    """A statement as bytes, with its signatures."""

    payload: bytes
    signatures: Mapping[str, bytes]
    """keyid -> signature; empty if the statement is not signed."""

    @property
    def statement(self) -> dict[str, Any]:
        """The statement in the payload."""
        return dict(json.loads(self.payload))

    @property
    def is_signed(self) -> bool:
        return bool(self.signatures)

    def is_signed_by(self, key: VerifyingKey) -> bool:
        """Whether a signature was made with this key, under any name in the envelope."""
        content = encoded(self.payload)
        return any(key.verifies(each, content) for each in self.signatures.values())

    def to_bytes(self) -> bytes:
        """The envelope as JSON."""
        content = {
            "payloadType": PAYLOAD_TYPE,
            "payload": base64.b64encode(self.payload).decode(),
            "payloadSha256": hashlib.sha256(self.payload).hexdigest(),
            "signatures": [
                {"keyid": keyid, "sig": base64.b64encode(signature).decode()}
                for keyid, signature in self.signatures.items()
            ],
        }
        return json.dumps(content, indent=2).encode()


def encoded(payload: bytes) -> bytes:
    """The bytes that are signed: type and payload, each behind its length (PAE of DSSE)."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def enveloped(statement: Mapping[str, Any], key: SigningKey | None) -> Envelope:
    """Put a statement into an envelope, signed if there is a key."""
    payload = json.dumps(statement, indent=1, ensure_ascii=False, allow_nan=False).encode()
    signatures = {}
    if key is not None:
        signatures[key.public.keyid] = key.sign(encoded(payload))
    return Envelope(payload, signatures)


def envelope_in(content: bytes) -> Envelope:
    """The envelope in the content of a file.

    Raises
    ------
    ValueError
        It is no envelope of a statement, or not in the one form that `Envelope.to_bytes` writes.
    """
    try:
        match json.loads(content):
            case {"payloadType": str(kind), "payload": str(payload), "signatures": [*given]}:
                signatures = {
                    str(each["keyid"]): base64.b64decode(each["sig"], validate=True)
                    for each in given
                }
                found = Envelope(base64.b64decode(payload, validate=True), signatures)
                found.statement  # noqa: B018 (it must be readable)
            case _:
                raise ValueError("it is not an envelope of a statement")
    except (KeyError, TypeError, UnicodeDecodeError, binascii.Error) as error:
        raise ValueError("it is not an envelope of a statement") from error
    except json.JSONDecodeError as error:
        raise ValueError("it is not JSON") from error
    if kind != PAYLOAD_TYPE:
        raise ValueError(f"its payload is of the type {kind!r}, and statements are {PAYLOAD_TYPE}")
    # every other byte of the file would be outside of what is signed
    if found.to_bytes() != content:
        raise ValueError("it is not as dshap writes envelopes: it was altered")
    return found
