"""Certificates of a cluster: who has them is let in, and nobody else is."""

from __future__ import annotations

import datetime
import stat

import pytest
from click.testing import CliRunner
from cryptography import x509

from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.engine import Certificates, make_certificates


def test_what_is_made(tmp_path):
    """One authority, one certificate that it has signed; no key of the authority is left."""
    done = CliRunner().invoke(cli, ["cluster", "certificates", str(tmp_path / "tls"), "--days=30"])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "tls"
    assert done.stdout.split() == [str(folder / name) for name in ("ca.pem", "cert.pem", "key.pem")]
    assert {path.name for path in folder.iterdir()} == {"ca.pem", "cert.pem", "key.pem"}
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    authority = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
    certificate = x509.load_pem_x509_certificate((folder / "cert.pem").read_bytes())
    certificate.verify_directly_issued_by(authority)
    left = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    assert 29 <= left.days <= 30
    assert Certificates.of_folder(folder).security().require_encryption


def test_paths_as_text(tmp_path):
    made = make_certificates(str(tmp_path / "tls"))
    files = [str(each) for each in (made.authority, made.certificate, made.key)]
    Certificates(*files).check()
    with pytest.raises(InputError, match=r"^key is 5: give a path$"):
        Certificates(files[0], files[1], 5)


def test_files_that_are_there_are_never_replaced(tmp_path):
    make_certificates(tmp_path / "tls")
    before = (tmp_path / "tls" / "key.pem").read_bytes()
    done = CliRunner().invoke(cli, ["cluster", "certificates", str(tmp_path / "tls")])
    assert done.exit_code == 2
    assert "ca.pem exists already: give another folder" in done.stderr
    assert (tmp_path / "tls" / "key.pem").read_bytes() == before


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write .*/file"):
        make_certificates(tmp_path / "file" / "tls")


@pytest.mark.parametrize("gone", ["ca.pem", "cert.pem", "key.pem"])
def test_a_missing_file_is_named(tmp_path, gone):
    make_certificates(tmp_path / "tls")
    (tmp_path / "tls" / gone).unlink()
    with pytest.raises(InputError, match=rf"TLS: there is no file .*tls/{gone}: make all three"):
        Certificates.of_folder(tmp_path / "tls").security()


def test_one_that_is_no_certificate_or_is_over(tmp_path):
    made = make_certificates(tmp_path / "tls", days=0)
    with pytest.raises(InputError, match=r"cert\.pem was valid until \d{4}-\d\d-\d\d: make new"):
        made.check()
    made.certificate.write_text("no PEM")
    with pytest.raises(InputError, match=r"cert\.pem is not a certificate in PEM"):
        made.check()
