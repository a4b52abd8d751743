"""Envelopes as DSSE has them: what is signed, and what is named when it is altered."""

from __future__ import annotations

import base64
import json

import pytest

from dshap.seals.envelope import PAYLOAD_TYPE, encoded, envelope_in, enveloped
from dshap.seals.signing_keys import signing_key, verifying_key
from tests.jobs.sealed_jobs import new_key

STATEMENT = {"_type": "https://in-toto.io/Statement/v1", "subject": [{"name": "Köln 🏰"}]}


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    private, _ = new_key(tmp_path_factory.mktemp("keys"))
    return signing_key(str(private), "key")


def test_the_bytes_that_are_signed():
    """The example of the specification of DSSE, with the type of statements in place of its own."""
    assert encoded(b"hello world") == b"DSSEv1 28 application/vnd.in-toto+json 11 hello world"
    assert len(PAYLOAD_TYPE) == 28


def test_there_and_back(key):
    for given in (key, None):
        envelope = enveloped(STATEMENT, given)
        found = envelope_in(envelope.to_bytes())
        assert found == envelope
        assert found.statement == STATEMENT
        assert found.is_signed == (given is not None)
        assert found.is_signed_by(key.public) == (given is not None)


def test_a_signature_by_hand(key):
    """The signature is that of Ed25519 over PAE, which any program checks."""
    content = json.loads(enveloped(STATEMENT, key).to_bytes())
    payload = base64.b64decode(content["payload"])
    (signature,) = content["signatures"]
    signed = b"DSSEv1 28 application/vnd.in-toto+json %d %s" % (len(payload), payload)
    assert key.public.verifies(base64.b64decode(signature["sig"]), signed)
    assert signature["keyid"] == key.public.keyid


@pytest.mark.parametrize("is_signed", [True, False])
def test_every_altered_byte_is_named(key, is_signed):
    """Each byte, one bit: none gives an envelope that is taken for whole."""
    content = enveloped(STATEMENT, key if is_signed else None).to_bytes()
    for place in range(len(content)):
        altered = bytearray(content)
        altered[place] ^= 1 << (place % 7)
        try:
            found = envelope_in(bytes(altered))
        except ValueError:
            continue
        assert is_signed
        assert not found.is_signed_by(key.public) or key.public.keyid not in found.signatures


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"payloadType": "x", "payload": "e30=", "signatures": []}'],
)
def test_no_envelope(content):
    with pytest.raises(ValueError, match=r"it is no|its payload"):
        envelope_in(content)


def test_another_key(key, tmp_path):
    _, other = new_key(tmp_path)
    assert not enveloped(STATEMENT, key).is_signed_by(verifying_key(str(other), "key"))
