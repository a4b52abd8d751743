"""Keys: PEM text or its file, and one line about whatever is none."""

from __future__ import annotations

import subprocess

import pytest

from dshap.core.errors import InputError
from dshap.seals.signing_keys import signing_key, verifying_key
from tests.jobs.sealed_jobs import new_key


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return new_key(tmp_path_factory.mktemp("keys"))


def test_text_and_file_are_one_key(keys):
    private, public = keys
    of_file = signing_key(str(private), "key")
    for text in (private.read_text(), private.read_text().strip().replace("\n", "\\n")):
        assert signing_key(text, "key").public == of_file.public
    assert verifying_key(str(public), "key") == of_file.public
    assert verifying_key(public.read_text(), "key") == of_file.public
    assert verifying_key(str(private), "key") == of_file.public
    assert verifying_key(of_file.public.pem, "key") == of_file.public
    assert "PRIVATE" not in repr(of_file)


def test_what_is_signed_is_verified(keys):
    key = signing_key(str(keys[0]), "key")
    signature = key.sign(b"content")
    assert key.public.verifies(signature, b"content")
    assert not key.public.verifies(signature, b"Content")


def test_what_is_no_key(keys, tmp_path):
    private, public = keys
    refused = {
        "no file": (str(tmp_path / "none.pem"), "No such file"),
        "a folder": (str(tmp_path), "Is a directory"),
        "empty": ("", "is empty"),
        "no text": (_file(tmp_path, b"\xff\xfe"), "not a key in PEM text"),
        "other text": (_file(tmp_path, b"hello"), "not a key in PEM text: make one with `openssl"),
        "cut": (private.read_text()[:60], "not a key in PEM text"),
        "secret text": ("s3cr3t\nlines", "not a key in PEM text"),
        "public": (str(public), "is a public key"),
    }
    for what, (given, said) in refused.items():
        with pytest.raises(InputError, match=said) as raised:
            signing_key(given, "[seal] key")
        assert str(raised.value).startswith("[seal] key"), what
        assert "s3cr3t" not in str(raised.value)


def test_keys_of_another_kind(tmp_path):
    rsa, secret = tmp_path / "rsa.pem", tmp_path / "secret.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "rsa", "-out", rsa], check=True, stderr=-3)
    with pytest.raises(InputError, match="is a key of RSA, and statements take Ed25519"):
        signing_key(str(rsa), "key")
    made = ["openssl", "genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:x"]
    subprocess.run([*made, "-out", secret], check=True)
    with pytest.raises(InputError, match="encrypted with a password"):
        signing_key(str(secret), "key")


def _file(folder, content):
    file = folder / "key.pem"
    file.write_bytes(content)
    return str(file)
