"""Databases by an address or a connection profile, all through ADBC.

No message shows a secret or the value of a row.
`Database` is the place that a job file names; `masking` turns the errors of drivers into a
`DatabaseError`.
"""

from __future__ import annotations

import importlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from dshap.core.addresses import MASK, masked, scheme_of
from dshap.core.errors import DatabaseError, InputError
from dshap.core.late import pa
from dshap.tables.row_values import without_row_values
from dshap.warehouse.connection_profiles import Profile, read_profile

CONNECT_S = 30
"""Seconds after which PostgreSQL counts as unreachable, unless the address or the environment sets
connect_timeout."""
IN_FILES = ("duckdb", "sqlite")
"""Databases that are a file."""
_KINDS = {
    "duckdb": "duckdb",
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "postgres": "postgresql",
}
_DUCKDB_MODES = ("READ_WRITE", "READ_ONLY")
_SQLITE_MODES = ("rwc", "ro")
_FORM_OF = {
    "duckdb": "duckdb:///file.duckdb",
    "sqlite": "sqlite:///file.sqlite",
    "postgresql": "postgresql://user@host/database",
}
_FORMS = "duckdb:///file.duckdb, sqlite:///file.sqlite or postgresql://user@host/database"
_JDBC = re.compile(r"jdbc:(\w*)", re.IGNORECASE)
_SHORTEST_PART = 3
"""The fewest letters of a part of a password that is masked too."""
WORTH_NAMING_S = 1.0
"""The shortest wait for a connection that a message names."""
_PASSWORD = re.compile(r"password authentication failed|no password supplied")
_PASSWORD_HINT = (
    ": set PGPASSWORD or PGPASSFILE, or name a variable in the address, as in {{ env_var(NAME) }}"
)
_STATUS = re.compile(r"^[A-Z_]+: ")
"""Pattern of the status that the driver manager puts before the words of a driver."""
_PARAMETER = re.compile(
    r"(?:user|password|passfile|host(?:addr)?|port|dbname|options|service|client_encoding|"
    r"application_name|connect_timeout|keepalives\w*|ssl\w+|gss\w+|target_session_attrs|"
    r"channel_binding|require_auth|load_balance_hosts)="
)
"""Pattern of the beginning of what follows the ? of an address: a parameter of libpq."""
_QUERY_PASSWORD = re.compile(r"([?&](?:password|sslpassword)=)([^&]*)")
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_REFUSED_STATES = ("28", "3D", "42")
"""The classes of SQLSTATE of a role, a database and a statement that a database refuses."""
_REFUSED = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry|"
    r"(?:database|role) \".*\" does not exist|permission denied for database|"
    r"is not permitted to log in"
)
"""Pattern of the same in English words: drivers give no SQLSTATE for a connection."""
_LOCKED = re.compile(r"Could not set lock on file", re.IGNORECASE)
_LOCKED_HINT = (
    "; while one process writes to a file of DuckDB, no other process can read or write it: close "
    "that program, or start the job when it is done"
)


_MISMATCH = re.compile(r"\[SQLite\] Type mismatch", re.IGNORECASE)
_MISMATCH_HINT = (
    "; a column of SQLite has the type of its first 65,536 values: cast it in [source] query, and "
    "if it begins with missing values, add ORDER BY column IS NULL"
)


@dataclass(frozen=True)
class Database:
    """A database that a job file names by an address or by an ADBC connection profile.

    It can be pickled; its repr and `describe` show no secret.

    Raises
    ------
    InputError
        Neither an address nor a profile, both, or an address of an unknown kind.
    """

    uri: str = field(default="", repr=False)
    """The address, like duckdb:////absolute/shop.duckdb or postgresql://user@host/db."""
    connection: str = ""
    """The name of a connection profile, or the path of its file."""

    def __post_init__(self) -> None:
        if bool(self.uri) == bool(self.connection):
            raise InputError("a database is named by uri or by connection: give one of them")
        if jdbc := _JDBC.match(self.uri):
            raise InputError(
                "uri is an address of JDBC, which Java reads: leave jdbc: out, and write "
                f"{_FORM_OF.get(jdbc[1].lower(), _FORMS)}, with the password as in "
                "postgresql://user:{{ env_var(NAME) }}@host/database; other databases are named by "
                "connection, an ADBC connection profile"
            )
        if self.uri and scheme_of(self.uri) not in _KINDS:
            raise InputError(
                f"uri begins with {_beginning(self.uri)}: addresses are {_FORMS}; other databases are named by "
                "connection, an ADBC connection profile"
            )

    def __repr__(self) -> str:
        return f"Database({self.describe()!r})"

    @property
    def kind(self) -> str:
        """The kind: "duckdb", "sqlite", "postgresql", or the driver of the profile."""
        if self.uri:
            return _KINDS[scheme_of(self.uri)]
        return _kind_of(read_profile(self.connection))

    @property
    def path(self) -> Path | None:
        """The file of the database, where an address names one."""
        if self.uri and self.kind in IN_FILES:
            return Path(file_of(self.uri))
        return None

    def describe(self) -> str:
        """The address without its secrets, or the name of the profile."""
        if self.connection:
            return f"connection {self.connection}"
        return masked(self.uri)

    @contextmanager
    def connect(self, *, read_only: bool = False) -> Iterator[Any]:
        """Open a connection (adbc_driver_manager.dbapi, without autocommit), closed at the end.

        Uncommitted changes are rolled back.  Errors of the driver inside become `DatabaseError`.

        Parameters
        ----------
        read_only : bool
            Whether nothing is written: a file that is missing is not made, and the databases that
            dshap knows refuse to write.
        """
        with masking(self), closing(self._opened(read_only)) as connection:
            if read_only and self.kind == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION READ ONLY")
            yield connection

    def _opened(self, read_only: bool) -> Any:
        manager = _driver("adbc_driver_manager.dbapi")
        if self.connection:
            profile = read_profile(self.connection)
            kind = _kind_of(profile)
            options = dict(profile.options)
        else:
            kind = self.kind
            options = self._options(read_only)
        if kind == "postgresql" and "uri" in options:
            self._refuse_no_address(options["uri"])
            options["uri"] = _with_timeout(as_libpq(options["uri"]))
        started = time.monotonic()
        try:
            return manager.connect(driver=_driver_of(kind), db_kwargs=options, **_entrypoint(kind))
        except manager.Error as error:
            elapsed = time.monotonic() - started
            raise _masked_error(self, _no_connection(str(error), elapsed)) from None

    def _refuse_no_address(self, uri: str) -> None:
        """Raise an error if the uri of a PostgreSQL profile is no address.

        The message shows no part of the uri, which may contain a password.
        """
        if "://" in uri and _KINDS.get(scheme_of(uri)) == "postgresql":
            return
        raise InputError(
            f"connection profile {self.connection}: uri is not an address, as in host=… "
            "password=…: write "
            'uri = "postgresql://user:{{ env_var(NAME) }}@host/database"'
        )

    def _options(self, read_only: bool) -> dict[str, str]:
        """The options of the driver for an address."""
        path = self.path
        if path is None:
            return {"uri": self.uri}
        if read_only and not path.is_file():
            raise DatabaseError(f"{self.describe()}: there is no file {path}")
        self.refuse_no_folder()
        if self.kind == "duckdb":
            return {"path": str(path), "access_mode": _DUCKDB_MODES[read_only]}
        return {"uri": f"file:{quote(str(path))}?mode={_SQLITE_MODES[read_only]}"}

    def refuse_no_folder(self) -> None:
        """Raise a `DatabaseError` if the folder of the database's file is not there."""
        path = self.path
        if path is not None and not path.parent.is_dir():
            raise DatabaseError(f"{self.describe()}: there is no folder {path.parent}: make it")

    def secrets(self) -> list[str]:
        """List the texts that no message may show, the longest first.

        A shorter one may be a part of a longer one, which would then stay partly visible.
        """
        if self.uri:
            found = secrets_of(self.uri)
        else:
            profile = read_profile(self.connection)
            found = {*profile.secrets, *secrets_of(profile.options.get("uri", ""))}
            found |= {part for each in found for part in _taken_apart(each)}
        return sorted(found, key=len, reverse=True)


@contextmanager
def masking(database: Database) -> Iterator[None]:
    """Turn every error of a driver, and of Arrow, inside the block into a `DatabaseError`.

    Its message contains neither secrets nor values of rows.
    """
    manager = _driver("adbc_driver_manager")
    try:
        yield
    except (manager.Error, pa.ArrowException) as error:
        raised = _masked_error(database, _words(error, database))
        raised.sqlstate = getattr(error, "sqlstate", None) or ""
        raised.is_refusal |= raised.sqlstate.startswith(_REFUSED_STATES)
        raise raised from None


def batches_from(database: Database, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an open result; errors on the way become a `DatabaseError`.

    Arrow raises that as an OSError, which is distinguished here from those of files that are
    written.
    """
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except OSError as error:
            raise _masked_error(database, _words(error, database)) from None
        yield batch


def file_of(uri: str) -> str:
    """The path in duckdb:///relative and duckdb:////absolute; after two slashes it counts too."""
    path = uri.partition("://")[2]
    return os.path.expanduser(path.removeprefix("/"))


def as_libpq(uri: str) -> str:
    """The address with its user and password as libpq reads them.

    Spaces, @, / and a % that begins no code are written by their codes; codes that are written
    already stay.
    """
    uri = _QUERY_PASSWORD.sub(lambda found: found[1] + _encoded(found[2], "%"), uri)
    scheme, user, password, rest = _parts(uri)
    if not user and not password:
        return uri
    encoded = _encoded(user)
    if password:
        encoded += f":{_encoded(password)}"
    return f"{scheme}://{encoded}@{rest}"


def secrets_of(uri: str) -> set[str]:
    """The passwords of an address, as written, decoded and encoded."""
    found = [found[2] for found in _QUERY_PASSWORD.finditer(uri)]
    found.append(_parts(uri)[2])
    found += [unquote(each) for each in found]
    found += [quote(each, safe="") for each in found]
    return {*found} - {""}


def _taken_apart(secret: str) -> list[str]:
    """The parts of a secret that a driver may quote where it parses an address."""
    return [part for part in re.split(r"[@%\s:/?#]", secret) if len(part) >= _SHORTEST_PART]


def _beginning(uri: str) -> str:
    """The scheme of an address as a message shows it: the rest may be a secret."""
    scheme = scheme_of(uri)
    if scheme:
        return f"{scheme}://"
    return "a text without ://"


def _parts(uri: str) -> tuple[str, str, str, str]:
    """The scheme, user, password and rest of an address: the user ends at the last @."""
    scheme, _, behind = uri.partition("://")
    head, _, options = behind.partition("?")
    if "@" not in head and not _PARAMETER.match(options):
        head = behind  # a password with a question mark
    before, at, _ = head.rpartition("@")
    user, _, password = before.partition(":")
    return scheme, user, password, behind[len(before + at) :]


def _encoded(text: str, safe: str = "%!$&'()*+,;=") -> str:
    return quote(_BARE_PERCENT.sub("%25", text), safe=safe)


def _with_timeout(uri: str) -> str:
    if "connect_timeout=" in uri or "PGCONNECT_TIMEOUT" in os.environ:
        return uri
    if "?" in uri:
        return f"{uri}&connect_timeout={CONNECT_S}"
    return f"{uri}?connect_timeout={CONNECT_S}"


def _words(error: Exception, database: Database) -> str:
    """The words of the database in an error, without the values of rows."""
    words = _STATUS.sub("", str(error)).strip()
    return without_row_values(words, database.kind, getattr(error, "details", None) or ())


def _no_connection(words: str, elapsed_s: float) -> str:
    """The words of a driver that got no connection, once, although libpq repeats its last attempt."""
    lines = [line.strip() for line in _STATUS.sub("", words).splitlines()]
    said = "no connection"
    if elapsed_s >= WORTH_NAMING_S:
        said += f" after {elapsed_s:.1f} s"
    said += f": {'; '.join(dict.fromkeys(filter(None, lines)))}"
    if _PASSWORD.search(said):
        said += _PASSWORD_HINT
    return said


def _masked_error(database: Database, words: str) -> DatabaseError:
    if secrets := database.secrets():
        words = re.sub("|".join(map(re.escape, secrets)), MASK, words)
    if _LOCKED.search(words):
        words += _LOCKED_HINT
    if _MISMATCH.search(words):
        words += _MISMATCH_HINT
    raised = DatabaseError(f"{database.describe()}: {words}")
    raised.is_refusal = bool(_REFUSED.search(words))
    return raised


def _kind_of(profile: Profile) -> str:
    return _KINDS.get(profile.driver, profile.driver)


def _driver_of(kind: str) -> str:
    """The library of a driver that pip installed; another is found by the driver manager."""
    if kind == "duckdb":
        return str(_driver("adbc_driver_duckdb").driver_path())
    if kind in _KINDS:
        return str(_driver(f"adbc_driver_{kind}")._driver_path())
    try:
        return str(importlib.import_module(f"adbc_driver_{kind}")._driver_path())
    except (ImportError, AttributeError, ValueError):
        return kind


def _entrypoint(kind: str) -> dict[str, str]:
    if kind == "duckdb":
        return {"entrypoint": "duckdb_adbc_init"}
    return {}


def _driver(module: str) -> Any:
    """Import a module of ADBC, or raise an error that names the package to install."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(
            f"databases need {module.partition('.')[0]}, which is not installed: pip install "
            "'dshap[sql]'"
        ) from None
