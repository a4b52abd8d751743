"""Bundles of Sigstore, by a client that plays its part: nothing is asked of any service."""

from __future__ import annotations

import base64
import json
import sys
import types

import pytest

from dshap.core.errors import InputError
from dshap.jobs.attesting import AttestedSinks, attest_store
from dshap.seals.attestations import sealed_runs
from dshap.seals.sigstore_bundles import BUNDLE, add_bundle, ambient_signer
from tests.jobs.sealed_jobs import of_trees


def bundle_of(payload):
    """A bundle as Sigstore writes it, as far as it is read here."""
    envelope = {"payload": base64.b64encode(payload).decode(), "signatures": [{"sig": "AA=="}]}
    return json.dumps(
        {"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "dsseEnvelope": envelope}
    )


def faults_of(store):
    return [str(each) for each in attest_store(store, None, "", AttestedSinks()).seals.faults]


def test_a_bundle_beside_the_statement(tmp_path):
    job = of_trees(tmp_path / "job")
    job.run()
    (run_id,) = sealed_runs(job.store)
    place = add_bundle(job.store, run_id, bundle_of)
    assert place == job.store / "runs" / run_id / BUNDLE
    assert faults_of(job.store) == []
    place.write_text(bundle_of(b"another statement"))
    assert any("has another statement than the run" in each for each in faults_of(job.store))
    place.write_text("{}")
    assert any("is not a bundle of Sigstore" in each for each in faults_of(job.store))
    with pytest.raises(InputError, match="has another statement"):
        add_bundle(job.store, run_id, lambda payload: bundle_of(b"x"))
    with pytest.raises(InputError, match="has no statement"):
        add_bundle(job.store, "20200101T000000Z", bundle_of)


def test_the_client(monkeypatch):
    """The calls of the client, each by its name in sigstore 4."""

    class Signer:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

        def sign_dsse(self, statement):
            return types.SimpleNamespace(to_json=lambda: bundle_of(statement.content))

    context = types.SimpleNamespace(signer=lambda token: Signer())
    modules = {
        "sigstore": {},
        "sigstore.dsse": {"Statement": lambda content: types.SimpleNamespace(content=content)},
        "sigstore.oidc": {"detect_credential": lambda: "token", "IdentityToken": str},
        "sigstore.models": {"ClientTrustConfig": types.SimpleNamespace(production=lambda: None)},
        "sigstore.sign": {
            "SigningContext": types.SimpleNamespace(from_trust_config=lambda given: context)
        },
    }
    for name, names in modules.items():
        module = types.ModuleType(name)
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, name, module)
    root = sys.modules["sigstore"]
    root.dsse, root.oidc = sys.modules["sigstore.dsse"], sys.modules["sigstore.oidc"]
    assert ambient_signer()(b"statement") == bundle_of(b"statement")
    sys.modules["sigstore.oidc"].detect_credential = lambda: None
    with pytest.raises(InputError, match="there is no identity here"):
        ambient_signer()


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "sigstore", None)
    with pytest.raises(InputError, match=r"pip install .dshap\[seal\]"):
        ambient_signer()
