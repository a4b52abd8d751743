"""Statements and events as programs of others read them: `make daily-attestations`.

They run in an environment of their own, build/attestations, with securesystemslib,
in-toto-attestation, sigstore and openlineage-python; elsewhere each test names the missing package.
"""
