"""Certificates by which the client, the scheduler and the workers of a cluster trust each other.

Every process that can speak to a scheduler can run code as its user.  All three sides therefore
show a certificate that one authority has signed, and connections are encrypted.
"""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass
from pathlib import Path

from dshap.core.errors import InputError
from dshap.core.late import distributed
from dshap.core.rules import as_path

AUTHORITY = "ca.pem"
CERTIFICATE = "cert.pem"
KEY = "key.pem"
FILES = (AUTHORITY, CERTIFICATE, KEY)
"""The names of the files of a folder of certificates."""
VALID_DAYS = 365
"""The days for which new certificates are valid."""


@dataclass(frozen=True)
class Certificates:
    """The files for encrypted connections of a cluster (TLS).

    They are the certificate of an authority, a certificate that this authority has signed, and the
    private key of the signed certificate.  The client, the scheduler and all workers use the same
    three files.

    Examples
    --------
    >>> import tempfile
    >>> from dshap.engine import Certificates, make_certificates
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = make_certificates(f"{folder}/certificates")
    ...     found = Certificates.of_folder(f"{folder}/certificates")
    >>> found == made
    True
    """

    authority: Path
    certificate: Path
    key: Path

    def __post_init__(self) -> None:
        for name, given in tuple(vars(self).items()):
            object.__setattr__(self, name, as_path(name, given, "file"))

    @classmethod
    def of_folder(cls, folder: str | Path) -> Certificates:
        """The certificates of a folder that `make_certificates` made."""
        return cls(*(Path(folder) / name for name in FILES))

    def check(self) -> None:
        """Raise an `InputError` if a file is missing or unreadable, or is no longer valid."""
        from cryptography import x509

        for path in (self.authority, self.certificate, self.key):
            if not path.is_file():
                raise InputError(
                    f"TLS: there is no file {path}: make all three with `dshap cluster "
                    "certificates FOLDER`, or correct certificates = of [cluster]"
                )
        try:
            self.key.read_bytes()
            found = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        except OSError as error:
            raise InputError(f"TLS: {error.filename} cannot be read: {error.strerror}") from None
        except ValueError:
            raise InputError(f"TLS: {self.certificate} is not a certificate in PEM") from None
        if found.not_valid_after_utc < datetime.datetime.now(datetime.UTC):
            raise InputError(
                f"TLS: {self.certificate} was valid until {found.not_valid_after_utc:%Y-%m-%d}: "
                "make new ones in another folder with `dshap cluster certificates FOLDER`"
            )

    def security(self) -> distributed.Security:
        """The settings of connections between the sides of a cluster."""
        self.check()
        certificate = str(self.certificate)
        key = str(self.key)
        return distributed.Security(
            require_encryption=True,
            tls_ca_file=str(self.authority),
            tls_client_cert=certificate,
            tls_client_key=key,
            tls_scheduler_cert=certificate,
            tls_scheduler_key=key,
            tls_worker_cert=certificate,
            tls_worker_key=key,
        )

    def configuration(self) -> dict[str, object]:
        """These settings as keys of Dask's configuration, for processes that read it."""
        tls = "distributed.comm.tls"
        files = {
            f"{tls}.{role}.{part}": str(path)
            for role in ("client", "scheduler", "worker")
            for part, path in (("cert", self.certificate), ("key", self.key))
        }
        required = {"distributed.comm.require-encryption": True}
        return {**required, f"{tls}.ca-file": str(self.authority), **files}


def make_certificates(folder: str | Path, days: int = VALID_DAYS) -> Certificates:
    """Make the certificates by which only your processes can connect to your cluster.

    It makes a new authority, and one certificate for the client, the scheduler and all workers.
    The private key of the authority is not stored, so that the authority can sign nothing else.
    Each folder has a different authority: the clusters of two folders do not trust each other.

    Parameters
    ----------
    folder : path
        A folder that only you can read; it is created if it does not exist.
    days : int, default 365
        The number of days for which the certificates are valid.

    Returns
    -------
    Certificates

    Raises
    ------
    InputError
        The folder contains certificates already, or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from dshap.engine import make_certificates
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = make_certificates(f"{folder}/certificates", days=30)
    ...     made.check()  # raises an error where a file is missing or no longer valid
    >>> made.key.name
    'key.pem'
    """
    made = Certificates.of_folder(folder)
    try:
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, content in zip(
            (made.authority, made.certificate, made.key), _signed(days), strict=True
        ):
            _put_private(path, content)
    except FileExistsError as error:
        raise InputError(
            f"{error.filename} exists already: give another folder, because new certificates would "
            "lock out everybody who has the old ones"
        ) from None
    except OSError as error:
        raise InputError(f"cannot write {error.filename}: {error.strerror}") from None
    return made


def _put_private(path: Path, content: bytes) -> None:
    """Write a new file that its owner alone can read."""
    # the mode at the creation: after a later chmod another user might have opened the file already
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(content)


def _signed(days: int) -> tuple[bytes, bytes, bytes]:
    """A new authority, a certificate that it has signed, and the key of that, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.UTC)
    of_authority = ec.generate_private_key(ec.SECP256R1())
    of_cluster = ec.generate_private_key(ec.SECP256R1())

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def certificate(subject: str, key: ec.EllipticCurvePrivateKey, *, is_authority: bool) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name("dshap authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))  # clocks of machines differ
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        signed = builder.sign(of_authority, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)

    key = of_cluster.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return (
        certificate("dshap authority", of_authority, is_authority=True),
        certificate("dshap cluster", of_cluster, is_authority=False),
        key,
    )
