"""A throw-away PostgreSQL for tests: Debian's programs, loopback, a password with a space, % and @.

It runs as a user that is not root, in a folder of its own, and is stopped at the end.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

from dshap.tables.streams import RowStream
from dshap.warehouse.databases import Database

PASSWORD = "pass word%41@night"
"""The password of the server: libpq reads none of its signs as they stand in an address."""
USERS = ("postgres", "nobody")
"""Users that the server runs as where the tests are root's."""


@dataclass(frozen=True)
class Server:
    """A running PostgreSQL, and one of its databases."""

    port: int
    folder: Path
    name: str = "postgres"
    """The name of the database."""

    def uri(self, password: str | None = PASSWORD) -> str:
        """The address with a password, as addresses have it."""
        secret = "" if password is None else f":{quote(password, safe='')}"
        return f"postgresql://dshap{secret}@127.0.0.1:{self.port}/{self.name}"

    def with_new_database(self) -> Server:
        """An empty database on the same server."""
        with self.database.connect() as connection:
            connection.adbc_connection.set_autocommit(True)
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM pg_database")
                ((n_databases,),) = cursor.fetchall()
                cursor.execute(f"CREATE DATABASE test_{n_databases}")
        return replace(self, name=f"test_{n_databases}")

    @property
    def database(self) -> Database:
        return Database(self.uri())


def batches_of(stream: RowStream) -> list[pa.RecordBatch]:
    """All rows of a stream, piece by piece."""
    batches = []
    for piece in stream.pieces:
        with piece() as opened:
            batches += list(opened)
    return batches


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; None where there is no initdb."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    if debian:
        return debian[-1].parent
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    return None


def _version(initdb: Path) -> float:
    return float(initdb.parent.parent.name)


@contextlib.contextmanager
def running_postgresql() -> Iterator[Server]:
    """Start a server, and stop it at the end; skips the test where there is no initdb."""
    bin_folder = programs()
    if bin_folder is None:
        pytest.skip("needs PostgreSQL's initdb (apt install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="dshap-postgresql-", dir=_place_for_all_users()))
    try:
        with _started(bin_folder, folder) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _place_for_all_users() -> Path:
    """A folder for temporary files that the user who runs the server may enter too."""
    for place in map(Path, (tempfile.gettempdir(), "/dev/shm", "/tmp")):
        if place.is_dir() and all(
            folder.stat().st_mode & stat.S_IXOTH for folder in (place, *place.parents)
        ):
            return place
    pytest.skip("PostgreSQL needs a folder for temporary files that its own user may enter")


@contextlib.contextmanager
def _started(bin_folder: Path, folder: Path) -> Iterator[Server]:
    user = _user()
    (folder / "password").write_text(PASSWORD)
    if user is not None:
        shutil.chown(folder, user)
        shutil.chown(folder / "password", user)
    data = folder / "data"
    _run(
        user,
        *(bin_folder / "initdb", "-D", data, "-U", "dshap", "-A", "scram-sha-256", "-E", "UTF8"),
        *("--no-sync", "--locale=C", f"--pwfile={folder / 'password'}"),
    )
    port = _free_port()
    options = (
        f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    )
    control = (bin_folder / "pg_ctl", "-D", data, "-w", "-t", "300")
    _run(user, *control, "-o", options, "-l", folder / "log", "start")
    try:
        yield Server(port, folder)
    finally:
        _run(user, *control, "-m", "immediate", "stop")


def _user() -> str | None:
    """The user that runs the server, None for the one that runs the tests."""
    if os.getuid() != 0:
        return None
    for name in USERS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _run(user: str | None, *command: object) -> None:
    extra = {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid}
    done = subprocess.run(
        list(map(str, command)),
        **extra,
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":  # a server by hand: python -m tests.databases, until Ctrl-C or SIGTERM
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with running_postgresql() as by_hand:
        print(by_hand.uri(), flush=True)
        while True:
            time.sleep(60)
