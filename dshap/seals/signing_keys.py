"""Keys of Ed25519 to sign and check statements, from PEM text or a file with it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dshap.core.errors import InputError

PEM = "-----BEGIN "
"""The first characters of PEM text."""
MAKE_ONE = (
    "make one with `openssl genpkey -algorithm ed25519 -out seal.pem`, and its public half with "
    "`openssl pkey -in seal.pem -pubout -out seal.pub`"
)


@dataclass(frozen=True)
class VerifyingKey:
    """The public half of a key."""

    raw: bytes
    """The 32 bytes of the key."""

    @property
    def keyid(self) -> str:
        """The name of the key in envelopes, as securesystemslib computes it."""
        content = {
            "keytype": "ed25519",
            "scheme": "ed25519",
            "keyval": {"public": self.raw.hex()},
        }
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def pem(self) -> str:
        """The key as PEM text."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        public = self._public
        return str(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode())

    @property
    def _public(self) -> Any:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        return Ed25519PublicKey.from_public_bytes(self.raw)

    def verifies(self, signature: bytes, content: bytes) -> bool:
        """Whether a signature of some content was made with the private half."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._public.verify(signature, content)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class SigningKey:
    """The private half of a key; it is shown nowhere."""

    private: Any

    def __repr__(self) -> str:
        return f"SigningKey({self.public.keyid})"

    @property
    def public(self) -> VerifyingKey:
        """The public half."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return VerifyingKey(self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def sign(self, content: bytes) -> bytes:
        """Sign some content; returns the 64 bytes of the signature."""
        return bytes(self.private.sign(content))


def signing_key(given: str, place: str) -> SigningKey:
    """Read a private key of Ed25519.

    Parameters
    ----------
    given : str
        PEM text, or the path of a file with it.
    place : str
        The name of the option in messages, such as "[seal] key".

    Raises
    ------
    InputError
        No such file, no PEM text, a key of another kind, a public or an encrypted one.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text, shown = _pem_of(given, place)
    if "PUBLIC KEY" in text.partition("\n")[0]:
        raise InputError(f"{shown} is a public key, and statements are signed with the private one")
    try:
        found = load_pem_private_key(text.encode(), None)
    except TypeError:
        raise InputError(
            f"{shown} is encrypted with a password, which dshap does not ask for: decrypt it with "
            "`openssl pkey`, and store it where only the run can read it"
        ) from None
    except Exception as error:  # cryptography raises several types on text that is no key
        raise _no_key(shown) from error
    if not isinstance(found, Ed25519PrivateKey):
        raise _other_kind(shown, found)
    return SigningKey(found)


def verifying_key(given: str, place: str) -> VerifyingKey:
    """Read a public key of Ed25519, or the public half of a private one; as `signing_key`."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_public_key,
    )

    text, shown = _pem_of(given, place)
    if "PRIVATE KEY" in text.partition("\n")[0]:
        return signing_key(given, place).public
    try:
        found = load_pem_public_key(text.encode())
    except Exception as error:  # as above
        raise _no_key(shown) from error
    if not isinstance(found, Ed25519PublicKey):
        raise _other_kind(shown, found)
    return VerifyingKey(found.public_bytes(Encoding.Raw, PublicFormat.Raw))


def _pem_of(given: str, place: str) -> tuple[str, str]:
    """(PEM text, the words for it in messages): the text itself is never shown."""
    if given.lstrip().startswith(PEM):
        # a variable of the environment may have its lines joined by the two characters \n
        return given.strip().replace("\\n", "\n"), place
    if not given.strip():
        raise InputError(f"{place} is empty: give the PEM text of a key, or the path of its file")
    path = Path(given).expanduser()
    if "\n" in given or len(given) > 1000:
        raise _no_key(place)
    shown = f'{place} = "{path}"'
    try:
        text = path.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        raise _no_key(shown) from None
    except OSError as error:
        raise InputError(
            f"{place}: {path}: {error.strerror}; give the PEM text of a key, or the path of its file"
        ) from None
    if not text.startswith(PEM):
        raise _no_key(shown)
    return text, shown


def _no_key(shown: str) -> InputError:
    return InputError(f"{shown} is not a key in PEM text: {MAKE_ONE}")


def _other_kind(shown: str, found: Any) -> InputError:
    kind = type(found).__name__.lstrip("_").replace("PrivateKey", "").replace("PublicKey", "")
    return InputError(f"{shown} is a key of {kind}, and statements take Ed25519: {MAKE_ONE}")
