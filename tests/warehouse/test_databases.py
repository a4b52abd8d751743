"""Databases by address or profile: opened as each driver wants it, and no secret in any message."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from urllib.parse import quote

import pytest

from dshap.core.errors import DatabaseError, InputError
from dshap.warehouse.connection_profiles import PROFILE_PATH
from dshap.warehouse.databases import Database, as_libpq, masking, secrets_of
from tests.databases import PASSWORD
from tests.pages import ROOT


def made(kind, path):
    """A database in a file with a table t of one row."""
    database = Database(f"{kind}:///{path}")
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (a INTEGER)")
        cursor.execute("INSERT INTO t VALUES (7)")
        connection.commit()
    return database


def values(database, query="SELECT a FROM t"):
    with database.connect(read_only=True) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_file_is_opened_by_its_address(tmp_path, kind):
    # a name that an address of SQLite would take apart
    database = made(kind, tmp_path / "shop #1?%41.db")
    assert database.kind == kind
    assert values(database) == [(7,)]
    assert values(pickle.loads(pickle.dumps(database))) == [(7,)]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_reading_makes_no_file_and_writes_nothing(tmp_path, kind):
    missing = Database(f"{kind}:///{tmp_path / 'none.db'}")
    with (
        pytest.raises(DatabaseError, match=r"there is no file .*none.db"),
        missing.connect(read_only=True),
    ):
        pass
    assert not list(tmp_path.iterdir())
    database = made(kind, tmp_path / "shop.db")
    with (
        pytest.raises(DatabaseError, match=r"read-?only"),
        database.connect(read_only=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("INSERT INTO t VALUES (8)")
        connection.commit()
    assert values(database) == [(7,)]
    with (
        pytest.raises(DatabaseError, match=r"there is no folder .*nowhere: make it"),
        Database(f"{kind}:///{tmp_path}/nowhere/shop.db").connect(),
    ):
        pass


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_what_is_not_committed_is_taken_back(tmp_path, kind):
    database = made(kind, tmp_path / "shop.db")
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (8)")
    assert values(database) == [(7,)]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_query_that_fails_says_so_in_the_words_of_the_database(tmp_path, kind):
    database = made(kind, tmp_path / "shop.db")
    with pytest.raises(DatabaseError, match=r"shop.db: .*nothing") as raised:
        values(database, "SELECT nothing FROM t")
    assert raised.value.__cause__ is None
    assert "\n" not in str(raised.value)


def test_a_file_that_another_program_writes_is_named_with_that_program(tmp_path):
    database = made("duckdb", tmp_path / "shop.duckdb")
    program = textwrap.dedent(
        f"""
        import duckdb
        held = duckdb.connect({str(tmp_path / "shop.duckdb")!r})
        print("held", flush=True)
        input()
        """
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout.readline() == "held\n"
        with (
            pytest.raises(DatabaseError, match=rf"PID {writer.pid}\).*: close that program"),
            database.connect(read_only=True),
        ):
            pass
    finally:
        writer.communicate("\n")


def test_a_password_with_a_space_a_percent_sign_and_an_at_sign_opens_postgresql(postgresql):
    assert " " in PASSWORD
    assert "%" in PASSWORD
    assert "@" in PASSWORD
    assert values(postgresql.database, "SELECT 1") == [(1,)]
    with (
        pytest.raises(DatabaseError, match="read-only transaction") as raised,
        postgresql.database.connect(read_only=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE TABLE t (a INTEGER)")
    assert raised.value.sqlstate == "25006"


@pytest.mark.parametrize(
    "password",
    ["wrong", "with space", "bare%", "at@sign", "a/b?c#d", "100%25 sure@night:y", "tail@127.0.0.2"],
)
@pytest.mark.parametrize("is_encoded", [False, True])
def test_no_message_shows_a_password(postgresql, password, is_encoded):
    given = quote(password, safe="") if is_encoded else password
    address = postgresql.uri(None).replace("dshap@", f"dshap:{given}@")
    places = (address, address.replace("127.0.0.1:", "no-such-host.invalid:"))
    for uri in places:
        with pytest.raises(DatabaseError, match=r"no connection( after \d+\.\d s)?: ") as raised:
            values(Database(uri), "SELECT 1")
        seen = f"{raised.value} {raised.value!r} {Database(uri)!r} {raised.value.__cause__}"
        for secret in (password, quote(password, safe="")):
            assert secret not in seen.replace("password authentication", "")
        assert "dshap:***@" in str(raised.value)


@pytest.mark.parametrize("password", [quote(PASSWORD), "100% sure", "at@sign", "%", "a?b=c"])
def test_a_password_behind_the_question_mark(postgresql, password):
    """The right one opens; of a wrong one nothing is shown, its tail neither."""
    address = postgresql.uri(None).replace("dshap@", "")
    uri = f"{address}?user=dshap&password={password}"
    if password == quote(PASSWORD):
        assert values(Database(uri), "SELECT 1") == [(1,)]
        return
    with pytest.raises(DatabaseError, match="password authentication failed") as raised:
        values(Database(uri), "SELECT 1")
    seen = f"{raised.value} {Database(uri)!r}".replace("***", "")
    assert password not in seen
    assert "sign" not in seen
    assert "sure" not in seen


def test_a_wrong_password_is_one_line_with_a_remedy(postgresql):
    """libpq tries twice, with and without TLS, and both attempts fail with the same words."""
    address = postgresql.uri(None).replace("dshap@", "dshap:wrong@")
    with pytest.raises(DatabaseError) as raised:
        values(Database(address), "SELECT 1")
    said = str(raised.value)
    assert said.count("password authentication failed") == 1
    assert "no connection: " in said
    assert "set PGPASSWORD or PGPASSFILE" in said
    assert "\n" not in said


def test_an_address_of_an_unknown_kind_is_named_by_its_scheme_alone():
    with pytest.raises(InputError, match=r"uri begins with postgresql\+adbc://") as raised:
        Database("postgresql+adbc://me:secret word@host/db")
    assert "secret" not in str(raised.value)
    with pytest.raises(InputError, match="a text without ://"):
        Database("shop.duckdb")
    with pytest.raises(InputError, match="give one of them"):
        Database()
    with pytest.raises(InputError, match="give one of them"):
        Database("duckdb:///a", "warehouse")


@pytest.mark.slow
def test_an_unreachable_database_says_how_long_it_was_tried():
    with socket.socket() as silent:  # takes connections and never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        database = Database(f"postgresql://me@127.0.0.1:{port}/db?connect_timeout=2")
        with pytest.raises(DatabaseError, match=r"no connection after [1-9]\d*\.\d s: .*timeout"):
            values(database)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql://me:a b@host/db", "postgresql://me:a%20b@host/db"),
        ("postgresql://me:50%@host/db", "postgresql://me:50%25@host/db"),
        ("postgresql://me:a%20b@host/db", "postgresql://me:a%20b@host/db"),
        ("postgresql://me:a@b/c@host/db", "postgresql://me:a%40b%2Fc@host/db"),
        ("postgresql://me:a?b@host/db", "postgresql://me:a%3Fb@host/db"),
        ("postgresql://me:x@host/db?user=a@b", "postgresql://me:x@host/db?user=a@b"),
    ],
)
def test_addresses_as_libpq_reads_them(given, wanted):
    assert as_libpq(given) == wanted


def test_the_secrets_of_an_address_are_known_in_all_their_forms():
    assert secrets_of("postgresql://me:a%20b@host/db") == {"a%20b", "a b", "a%2520b"}
    assert secrets_of("postgresql://host/db?password=hush&x=1") == {"hush"}
    assert "a b@c" in secrets_of("postgresql://host:1/db?user=me&password=a b@c&x=1")
    assert "a?b" in secrets_of("postgresql://me:a?b@host/db")
    assert secrets_of("postgresql://me@host/db") == set()
    assert secrets_of("duckdb:////shop.duckdb") == set()


def test_a_profile_opens_the_same_databases(tmp_path, monkeypatch, postgresql):
    made("duckdb", tmp_path / "shop.duckdb")
    monkeypatch.setenv(PROFILE_PATH, str(tmp_path))
    (tmp_path / "shop.toml").write_text(
        f'profile_version = 1\ndriver = "duckdb"\n[Options]\npath = "{tmp_path}/shop.duckdb"\n'
    )
    assert Database(connection="shop").kind == "duckdb"
    assert values(Database(connection="shop")) == [(7,)]
    (tmp_path / "night.toml").write_text(
        'profile_version = 1\ndriver = "adbc_driver_postgresql"\n[Options]\n'
        f'uri = "{postgresql.uri(None).replace("dshap@", "dshap:{{ env_var(DSHAP_PW) }}@")}"\n'
    )
    night = Database(connection="night")
    monkeypatch.delenv("DSHAP_PW", raising=False)
    with pytest.raises(InputError, match="DSHAP_PW is not set"), night.connect():
        pass
    monkeypatch.setenv("DSHAP_PW", PASSWORD)
    assert night.kind == "postgresql"
    assert values(night, "SELECT 1") == [(1,)]
    monkeypatch.setenv("DSHAP_PW", "hush hush")
    with pytest.raises(DatabaseError, match="connection night: no connection") as raised:
        values(night)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    "uri",
    [
        "host=127.0.0.1 password={{ env_var(DSHAP_PW) }}",
        "{{ env_var(DSHAP_PW) }}",
        "mysql://host/db",
    ],
)
def test_a_uri_of_postgresql_is_an_address(tmp_path, monkeypatch, uri):
    """Key words of libpq are refused before they are opened, and none of the password is shown."""
    monkeypatch.setenv("DSHAP_PW", "hunter2 Sommer2026")
    profile = tmp_path / "night.toml"
    profile.write_text(f'driver = "postgresql"\n[Options]\nuri = "{uri}"\n')
    database = Database(connection=str(profile))
    with pytest.raises(InputError, match=r"uri is not an address.*write uri = ") as raised:
        values(database)
    assert "hunter2" not in str(raised.value)
    assert "Sommer" not in str(raised.value)


def test_values_of_the_environment_are_secrets_with_all_their_words(tmp_path, monkeypatch):
    """In a uri too, beside an address, of which the password alone is one."""
    monkeypatch.setenv("DSHAP_PW", "hunter2 Sommer2026")
    monkeypatch.setenv("DSHAP_URI", "other://me:hush@host/db")
    profile = tmp_path / "night.toml"
    for uri in ("dsn={{ env_var(DSHAP_PW) }}", "other://me:{{ env_var(DSHAP_PW) }}@host/db"):
        profile.write_text(f'driver = "other"\n[Options]\nuri = "{uri}"\n')
        secrets = Database(connection=str(profile)).secrets()
        assert {"hunter2 Sommer2026", "hunter2", "Sommer2026"} <= set(secrets)
    profile.write_text('driver = "other"\n[Options]\nuri = "{{ env_var(DSHAP_URI) }}"\n')
    assert Database(connection=str(profile)).secrets() == ["hush"]


@pytest.mark.slow
def test_a_server_by_hand_ends_with_its_process(postgresql):
    """SIGTERM to `python -m tests.databases` stops the server, and its folder is gone."""
    by_hand = subprocess.Popen(
        [sys.executable, "-m", "tests.databases"], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        database = Database(by_hand.stdout.readline().strip())
        ((data,),) = values(database, "SELECT current_setting('data_directory')")
    finally:
        by_hand.terminate()
    assert by_hand.wait(timeout=300) == 0
    with pytest.raises(DatabaseError, match="no connection"):
        values(database, "SELECT 1")
    assert not Path(data).parent.exists()


def test_an_error_inside_a_mask_shows_no_secret():
    import adbc_driver_manager

    database = Database("postgresql://me:hush%20hush@host/db")
    for words in ('host "hush hush" unknown', "INVALID_ARGUMENT: hush%20hush"):
        with pytest.raises(DatabaseError) as raised, masking(database):
            raise adbc_driver_manager.OperationalError(words, status_code=1)
        assert "hush" not in str(raised.value)
    with pytest.raises(KeyError), masking(database):
        raise KeyError("another error stays what it is")
