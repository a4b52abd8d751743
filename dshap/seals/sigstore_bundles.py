"""Statements signed by Sigstore with an identity, such as a CI job's, in place of a key.

A *bundle* is a file next to the statement: it contains the statement, the signature and its
certificate.  Sigstore's programs check the signature; `dshap attest --verify` checks that the bundle
contains the statement of the run.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.cube.arrays import RUNS
from dshap.seals.attestations import read_envelope
from dshap.storage.folder import Folder

BUNDLE = "attestation.sigstore.json"
"""The file of the bundle in the folder of a run."""
Sign = Callable[[bytes], str]
"""A function that signs a statement (bytes) and returns the bundle as JSON."""


def add_bundle(store: Place, run_id: str, sign: Sign) -> Place:
    """Sign the statement of a run by Sigstore, and return the place of the bundle.

    Parameters
    ----------
    store : Place
    run_id : str
    sign : function
        Called with the statement as bytes; returns the bundle as JSON.  Example:
        `ambient_signer()`.

    Raises
    ------
    InputError
        The run has no statement, or it is damaged.
    """
    try:
        envelope = read_envelope(store, run_id)
    except ValueError as error:
        raise InputError(f"the statement of run {run_id} is damaged: {error}") from error
    if envelope is None:
        raise InputError(f"run {run_id} of {store} has no statement that could be signed")
    bundle = sign(envelope.payload)
    if fault := fault_of_bundle(bundle.encode(), envelope.payload):
        raise InputError(f"Sigstore gave a bundle that {fault}")
    name = f"{RUNS}/{run_id}/{BUNDLE}"
    Folder(store).replace(name, bundle.encode())
    return store / name


def fault_of_bundle(content: bytes, payload: bytes) -> str:
    """Check that a bundle contains a statement; returns the fault in words, or an empty text."""
    try:
        signed = json.loads(content)["dsseEnvelope"]["payload"]
        is_same = base64.b64decode(signed, validate=True) == payload
    except (ValueError, KeyError, TypeError):
        return "is not a bundle of Sigstore with a statement"
    if is_same:
        return ""
    return "has another statement than the run"


def ambient_signer() -> Sign:
    """Build a signer with the identity of this process, such as a job of GitHub or GitLab.

    Raises
    ------
    InputError
        The package sigstore is missing, or this process has no such identity.
    """
    try:
        from sigstore import dsse, oidc
        from sigstore.models import ClientTrustConfig
        from sigstore.sign import SigningContext
    except ImportError:
        raise InputError(
            'signing by Sigstore needs its package: pip install "dshap[seal]"'
        ) from None
    credential = oidc.detect_credential()
    if credential is None:
        raise InputError(
            "--sigstore: there is no identity here that Sigstore knows, as in a job of GitHub Actions "
            "with the permission id-token: write; give [seal] key a key of Ed25519 instead"
        )
    token = oidc.IdentityToken(credential)
    context = SigningContext.from_trust_config(ClientTrustConfig.production())

    def sign(payload: bytes) -> str:
        with context.signer(token) as signer:
            return str(signer.sign_dsse(dsse.Statement(payload)).to_json())

    return sign
