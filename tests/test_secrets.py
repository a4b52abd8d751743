"""A password in the environment is nowhere: not in a file, a log or a message of a run, nor of one
that fails."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dshap.cli import cli
from dshap.jobs import Command, load_job
from dshap.warehouse.databases import Database
from tests.databases import PASSWORD, Server
from tests.jobs.job_files import nightly_job

WINDOW = 7
"""Letters in a row that tell a password: a part of it is a leak too."""
JOB = nightly_job(
    "my_secret_model:predict",
    "ADDRESS",
    "ADDRESS",
    query="select id, a, b, c from customers",
    more='[[check]]\nkind = "failed_rows"\nerror = 0\n',
)
MODEL = """
import os

def predict(x):
    if os.environ.get("STOP"):
        raise KeyboardInterrupt
    return x[:, 0] * x[:, 1]
"""
PLACES = {
    "duckdb": "duckdb:///shop.duckdb",
    "sqlite": "sqlite:///shop.sqlite",
    "postgresql": "postgresql://dshap:{{ env_var(SHOP_PASSWORD) }}@127.0.0.1:PORT/NAME",
}


@pytest.fixture
def folder(tmp_path, monkeypatch, caplog) -> Iterator[Path]:
    """The folder of a job, in a process that knows the password and logs everything."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    (tmp_path / "my_secret_model.py").write_text(MODEL)
    yield tmp_path
    sys.modules.pop("my_secret_model", None)


def address_of(kind: str, request: pytest.FixtureRequest) -> str:
    """The address in a job file."""
    if kind != "postgresql":
        return PLACES[kind]
    return of_server(PLACES[kind], request.getfixturevalue("postgresql"))


def of_server(address: str, server: Server) -> str:
    return address.replace("PORT", str(server.port)).replace("NAME", server.name)


def fill(address: str, folder: Path) -> None:
    """Make the table of customers, and no table of reasons."""
    uri = address.replace("{{ env_var(SHOP_PASSWORD) }}", quote(PASSWORD, safe=""))
    for name in ("duckdb", "sqlite"):
        uri = uri.replace(f"{name}:///", f"{name}:///{folder}/")
    with Database(uri).connect() as connection, connection.cursor() as cursor:
        for statement in (
            "DROP TABLE IF EXISTS customers",
            "DROP TABLE IF EXISTS reasons",
            "DROP TABLE IF EXISTS _dshap_runs",
            "CREATE TABLE customers (id BIGINT, a DOUBLE PRECISION, b DOUBLE PRECISION, "
            "c DOUBLE PRECISION)",
            "INSERT INTO customers VALUES "
            + ", ".join(f"({i}, {i % 7}.5, {i % 5}.25, {i % 3}.0)" for i in range(60)),
        ):
            cursor.execute(statement)
        connection.commit()


def windows(secret: str) -> set[str]:
    return {secret[i : i + WINDOW] for i in range(len(secret) - WINDOW + 1)}


TAIL = PASSWORD.partition("@")[2]
LEAKS = windows(PASSWORD) | windows(quote(PASSWORD, safe="")) | {f"@{TAIL}", f'"{TAIL}"'}
"""Parts of the password, as it is and as addresses have it; and what libpq takes for a host."""


def leaks_in(text: str) -> list[str]:
    return sorted(each for each in LEAKS if each in text)


class Sweep:
    """Everything that commands said, and the files that they left."""

    def __init__(self, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        self.folder = folder
        self.caplog = caplog

    def run(self, *arguments: str) -> Result:
        """Carry out a command with all that it can say, and look through it."""
        result = CliRunner().invoke(cli, list(arguments), catch_exceptions=True)
        said = [result.stdout, result.stderr, self.caplog.text]
        if result.exception is not None:
            said += traceback.format_exception(result.exception)
        for text in said:
            assert leaks_in(text) == [], text
        self.look()
        return result

    def look(self) -> None:
        """Look through the bytes of all files, and through what Parquet files hold."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        for path in files:
            assert leaks_in(path.name) == []
            assert leaks_in(path.read_bytes().decode("utf-8", errors="replace")) == [], path
            if path.suffix == ".parquet":
                table = pq.read_table(path)
                assert leaks_in(str(table.to_pydict())) == [], path
                assert leaks_in(str(table.schema)) == [], path


@pytest.fixture
def sweep(folder, caplog) -> Sweep:
    return Sweep(folder, caplog)


def write(folder: Path, text: str) -> None:
    (folder / "job.toml").write_text(text)


def test_a_password_that_is_written_is_found(folder, caplog):
    """The search can fail: in a text, in a file, in a compressed column."""
    assert leaks_in(f"to postgresql://me:{PASSWORD}@host")
    assert leaks_in(quote(PASSWORD))
    assert leaks_in('could not translate host name "night"')
    assert leaks_in("the password of every night") == []
    sweep = Sweep(folder, caplog)
    sweep.look()
    compressed = folder / "a.parquet"
    pq.write_table(pa.table({"a": [PASSWORD] * 100}), compressed, compression="zstd")
    with pytest.raises(AssertionError):
        sweep.look()
    compressed.unlink()
    (folder / "a.log").write_bytes(b"\xff" + PASSWORD[:-1].encode())
    with pytest.raises(AssertionError):
        sweep.look()


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLACES)
def test_nights_that_end_well(folder, sweep, kind, request):
    address = address_of(kind, request)
    fill(address, folder)
    write(folder, JOB.replace("ADDRESS", address))
    for command in ("check", "plan"):
        assert sweep.run(command, "job.toml", "-v").exit_code == 0
    assert sweep.run("job", "job.toml", "--defaults").exit_code == 0
    first = sweep.run("run", "job.toml", "-v", "--log", "json")
    assert first.exit_code == 0, first.output
    assert sweep.run("run", "job.toml", "-v").exit_code == 0
    for command in ("status", "show", "verify", "runs"):
        assert sweep.run(command, "build/shop", "--json").exit_code == 0, command


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"from customers": "from no_such_table"}, 2),
        ({"select id, a, b, c": "select id, a, b, c, 1/0 as d, no_such_column"}, 2),
        ({'table = "reasons"': 'table = "no_such_schema.reasons"'}, 2),
        ({'features = ["a", "b", "c"]': 'features = ["a", "b", "z"]'}, 2),
    ],
    ids=["table", "column", "sink", "features"],
)
def test_nights_that_fail(folder, sweep, kind, changes, status, request):
    address = address_of(kind, request)
    fill(address, folder)
    text = JOB.replace("ADDRESS", address)
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    write(folder, text)
    for command in ("check", "run"):
        ended = sweep.run(command, "job.toml", "-v")
        assert ended.exit_code == status, ended.output


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("where", ["name <> '{}'", "no_such_column = '{}'"])
def test_a_secret_in_a_query(folder, sweep, kind, where, request):
    """It is filled in when the query is used; a database that quotes the query shows its name."""
    address = address_of(kind, request)
    fill(address, folder)
    value = "{{ env_var(SHOP_PASSWORD) }}"
    query = "select * from (select *, 'x' as name from customers) t where " + where.format(value)
    text = JOB.replace("select id, a, b, c from customers", query).replace("ADDRESS", address)
    write(folder, text)
    status = 0 if "<>" in where else 2
    for command in ("plan", "run"):
        ended = sweep.run(command, "job.toml", "-v")
        assert ended.exit_code == status, ended.output
    assert sweep.run("job", "job.toml").exit_code == 0
    if not status:
        (record,) = folder.glob("build/shop/runs/*/run_results.json")
        assert "env_var(SHOP_PASSWORD)" in record.read_text()


@pytest.mark.parametrize(
    "password",
    [
        PASSWORD + "x",
        f"wrong {PASSWORD}",
        f"{PASSWORD}@{PASSWORD}",
        f"%{PASSWORD}",
        f"/{PASSWORD}:",
    ],
)
@pytest.mark.parametrize("is_encoded", [False, True])
def test_a_server_that_does_not_take_the_password(
    folder, sweep, postgresql, monkeypatch, password, is_encoded
):
    given = quote(password, safe="") if is_encoded else password
    monkeypatch.setenv("SHOP_PASSWORD", given)
    write(folder, JOB.replace("ADDRESS", of_server(PLACES["postgresql"], postgresql)))
    ended = sweep.run("run", "job.toml", "-v", "--log", "json")
    assert ended.exit_code == 2, ended.output
    checked = sweep.run("check", "job.toml", "-v")
    lines = [line for line in checked.stdout.splitlines() if " failed " in line]
    assert checked.exit_code == 2
    assert len(lines) == 2
    assert all(line.count("postgresql://dshap:***@") == 1 for line in lines)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://dshap:{{ env_var(SHOP_PASSWORD) }}@127.0.0.1:1/postgres",
        "postgresql://dshap:{{ env_var(SHOP_PASSWORD) }}@no-such-host.invalid/postgres",
        "postgresql+adbc://dshap:{{ env_var(SHOP_PASSWORD) }}@127.0.0.1/postgres",
        "postgresql://127.0.0.1:1/postgres?user=dshap&password={{ env_var(SHOP_PASSWORD) }}",
    ],
)
def test_a_server_that_is_not_there(folder, sweep, address):
    write(folder, JOB.replace("ADDRESS", address))
    for command in ("check", "plan", "run", "job"):
        ended = sweep.run(command, "job.toml", "-v")
        assert ended.exit_code in ((0, 2) if command == "job" else (2,)), ended.output


@pytest.mark.parametrize("before", ["%", "%4", "50% of "])
def test_a_password_that_the_driver_quotes(folder, sweep, postgresql, monkeypatch, before):
    """libpq shows what it cannot decode: here a bare % begins the password."""
    monkeypatch.setenv("SHOP_PASSWORD", f"{before}{PASSWORD}")
    place = of_server(
        "127.0.0.1:PORT/NAME?user=dshap&password={{ env_var(SHOP_PASSWORD) }}", postgresql
    )
    write(folder, JOB.replace("ADDRESS", f"postgresql://{place}"))
    for command in ("plan", "run"):
        assert sweep.run(command, "job.toml", "-v").exit_code == 2


def test_a_sink_whose_server_went_away(folder, sweep, request):
    """The cube is done, and the record is written."""
    address = address_of("duckdb", request)
    fill(address, folder)
    gone = "postgresql://dshap:{{ env_var(SHOP_PASSWORD) }}@127.0.0.1:1/postgres"
    write(folder, JOB.replace("ADDRESS", address, 1).replace("ADDRESS", gone))
    assert sweep.run("run", "job.toml", "-v").exit_code == 10
    assert list(folder.glob("build/shop/runs/*/run_results.json"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLACES)
def test_a_night_that_is_interrupted_and_finished(folder, sweep, kind, request, monkeypatch):
    address = address_of(kind, request)
    fill(address, folder)
    write(folder, JOB.replace("ADDRESS", address))
    monkeypatch.setenv("STOP", "1")
    assert sweep.run("run", "job.toml", "-v").exit_code == 130
    monkeypatch.delenv("STOP")
    assert sweep.run("run", "job.toml", "-v").exit_code == 0


TOKEN = "Zyxwvut4Qp"
"""A secret in addresses that are not understood."""
ADDRESSES = (
    "postgresql:user:{}@host/d",
    "postgresql+psycopg:user:{}@host/d",
    "//u:{}@h/x",
    "u:{}@h/x",
    "u:a {}'b@h/x",
    "s3:u:{}@bucket/x",
    "s3://key:{}@bucket/x",
    "az://bucket/x?sig={}",
    "https://h/x?sig={}",
    "https://h/x?code={}&v=1",
    "https://h/x?{}",
    "https://{}@h/x",
    "postgresql://h/d?user=u&password={}",
    "host=h user=u password={}",
    "host=h user=u password='a {}'",
    "jdbc:postgresql://u:{}@h/d",
    "mssql://u:{}@h/x;database=d",
    "tls:u:{}@h:8786",
    "tls://u:{}@127.0.0.1:1",
    "tcp://{}@10.0.0.5:8786",
)
PLACES_OF_JOBS = {
    "store": ("[job]", 'store = "{}"'),
    "table": ("[source]", 'path = "{}"'),
    "model": ("[model]", 'kind = "xgboost"\npath = "{}"'),
    "sink": ("[[sink]]", 'uri = "{}"\ntable = "reasons"'),
    "folder of a sink": ("[[sink]]", 'path = "{}"'),
    "profile of a sink": ("[[sink]]", 'connection = "{}"\ntable = "reasons"'),
    "scheduler": ("[cluster]", 'kind = "scheduler"\naddress = "{}"\nsecurity = "none"\nwait = 0'),
    "gateway": ("[cluster]", 'kind = "gateway"\naddress = "{}"'),
    "pods": ("[cluster]", 'kind = "kubernetes"\nimage = "i"\naddress = "{}"'),
    "profile of a cluster": ("[cluster]", 'profile = "{}"'),
    "page": ("[report]", 'page = "{}"'),
    "scratch": ("[run]", 'scratch = "{}"'),
    "kind": ("[design]", 'kind = "{}"'),
}
COMMANDS = (
    ("plan", "{}"),
    ("run", "{}"),
    ("job", "job.toml", "--set", "job.store={}"),
    ("job", "job.toml", "--set", "{}"),
    ("plan", "job.toml", "--cluster", "{}"),
    ("status", "{}"),
    ("show", "{}"),
    ("verify", "{}"),
    ("runs", "{}"),
    ("report", "{}"),
    ("copy", "{}", "other"),
    ("diff", "{}", "other"),
    ("drift", "{}", "other"),
    ("export", "{}", "--to", "a.csv"),
    ("cluster", "check", "{}"),
    ("cluster", "manifest", "{}", "job.toml"),
    ("cluster", "certificates", "{}"),
)


def said_by(caplog, *arguments: str) -> tuple[int, str]:
    """The exit status of a command with -v, and all that it said."""
    caplog.clear()
    result = CliRunner().invoke(cli, [*arguments, "-v"], catch_exceptions=True)
    said = [result.stdout, result.stderr, caplog.text]
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        said += traceback.format_exception(result.exception)
    return result.exit_code, "\n".join(said)


def plain_job(**changes: tuple[str, str]) -> str:
    """A job on a table that is not there, with other tables."""
    tables = {
        "[job]": 'name = "a"\nstore = "store"',
        "[source]": 'kind = "parquet"\npath = "rows.parquet"\nkey = ["id"]\nfeatures = ["a"]',
        "[model]": 'kind = "import"\nfunction = "my_secret_model:predict"',
        "[[explain]]": 'name = "e"\nvalue = "marginal"\nbackground = 1',
    }
    for table, keys in changes.values():
        key = keys.partition(" ")[0]
        kept = [line for line in tables.get(table, "").splitlines() if not line.startswith(key)]
        if table == "[model]":
            kept = []
        tables[table] = "\n".join([*kept, keys])
    return "\n".join(f"{table}\n{keys}" for table, keys in tables.items())


@pytest.mark.parametrize("place", PLACES_OF_JOBS)
def test_no_address_that_is_refused_is_quoted(folder, caplog, place):
    """Every key of a job that may hold one, in `job`, `plan` and `run`."""
    table, keys = PLACES_OF_JOBS[place]
    for form in ADDRESSES:
        address = form.format(TOKEN)
        write(folder, plain_job(place=(table, keys.format(address))))
        for command in ("job", "plan", "run"):
            status, said = said_by(caplog, command, "job.toml")
            assert TOKEN not in said, (command, form, said)
            if command != "job":
                assert status == 2, (command, form, said)
    assert not (folder / "store").exists()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_address_of_a_command_line_is_quoted(folder, caplog, command):
    write(folder, plain_job())
    for form in ADDRESSES:
        address = form.format(TOKEN)
        status, said = said_by(caplog, *(each.format(address) for each in command))
        assert TOKEN not in said, (form, said)
        assert status in (0, 2), (form, said)
        assert status == 2 or "--set" in command, (form, said)
    assert not any(TOKEN in path.name for path in folder.rglob("*"))


VARIABLES = {
    "DATABASE_URL": TOKEN,
    "SENTRY_DSN": f"https://{TOKEN}@sentry.example/1",
    "MY_SETTING": TOKEN,
    "LC_ALL": "C.UTF-8",
    "OMP_NUM_THREADS": "2",
}


def test_variables_of_workers_are_shown_by_name_alone(folder, caplog):
    """But for a few that hold no credential."""
    table = ", ".join(f'{name} = "{value}"' for name, value in VARIABLES.items())
    for kind in (
        'kind = "local"',
        'kind = "slurm"\njobqueue = { job_script_prologue = ["export A_B=TOKEN"] }',
    ):
        clusters = {"kind": ("[cluster]", kind.replace("TOKEN", TOKEN))}
        write(folder, plain_job(**clusters, worker=("[worker]", f"environment = {{ {table} }}")))
        for options in ((), ("--json",), ("--defaults",)):
            status, said = said_by(caplog, "job", "job.toml", *options)
            assert status == 0, said
            assert TOKEN not in said
            assert all(name in said for name in VARIABLES)
            assert "C.UTF-8" in said
        job = load_job("job.toml")
        for text in (repr(job), job._repr_html_(), repr(job.worker), repr(job.worker_options)):
            assert TOKEN not in text
        assert job.worker_options.environment["MY_SETTING"] == TOKEN
    for setting in (
        f"worker.environment.MY_SETTING={TOKEN}",
        f'worker.environment={{ B = "{TOKEN}" }}',
    ):
        assert TOKEN not in str(Command("job.toml", (setting,)).arguments)
    write(folder, plain_job(worker=("[worker]", "environment = { MY_PIN = 471199 }")))
    status, said = said_by(caplog, "job", "job.toml")
    assert status == 2
    assert "471199" not in said
    assert "environment.MY_PIN" in said


PERSON = "Müller-Lüdenscheid"
NUMBER = "8675309"
PERSONAL = (PERSON, "Lüdenscheid", NUMBER, "8,675,3", "one row")
"""Values of the first row, parts of them, and the words before a row that is shown."""
WITH_ROWS = JOB + "[run]\nkeep_rows = true\n"
CAST = {
    "postgresql": "cast(name as integer)",
    "duckdb": "cast(name as integer)",
    "sqlite": "case when id > 1 then a else name end",
}


class PersonalSweep(Sweep):
    """All that commands say, and the records that they leave, without the values of rows."""

    def run(self, *arguments: str) -> Result:
        self.caplog.clear()
        result = super().run(*arguments)
        for text in (result.stdout, result.stderr, self.caplog.text, *self.records()):
            assert not [each for each in PERSONAL if each in text], text
        return result

    def records(self) -> Iterator[str]:
        for path in self.folder.glob("build/shop/runs/**/*.json"):
            yield path.read_text()


@pytest.fixture
def personal(folder, caplog) -> PersonalSweep:
    return PersonalSweep(folder, caplog)


def fill_with_person(kind: str, address: str, folder: Path, constraint: str = "") -> None:
    """Make the table of customers with a person in its first row, and perhaps one of reasons."""
    fill(address, folder)
    statements = [
        "ALTER TABLE customers ADD COLUMN name VARCHAR(40)",
        f"UPDATE customers SET name = '{PERSON}', a = {NUMBER}.5 WHERE id = 0",
    ]
    if constraint:
        numbers = "DOUBLE" if kind == "duckdb" else "DOUBLE PRECISION"
        whole = "INTEGER" if kind == "sqlite" else "BIGINT"
        names = [f"{word}_{name}" for word in ("phi", "std_error") for name in "abc"]
        moment = "TEXT" if kind == "sqlite" else "TIMESTAMP WITH TIME ZONE"
        columns = [f"id {whole}", "class TEXT"]
        columns += [f"{name} {numbers}" for name in (*names, "prediction", "base_value")]
        columns += ["scale TEXT", "status TEXT", "model_version TEXT", f"computed_at {moment}"]
        columns += ["as_of DATE", "run_id TEXT"]
        statements.append(f"CREATE TABLE reasons ({', '.join([*columns, constraint])})")
    uri = address.replace("{{ env_var(SHOP_PASSWORD) }}", quote(PASSWORD, safe=""))
    for name in ("duckdb", "sqlite"):
        uri = uri.replace(f"{name}:///", f"{name}:///{folder}/")
    with Database(uri).connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        connection.commit()


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLACES)
def test_no_value_of_a_row_is_in_what_a_good_night_says(folder, personal, kind, request):
    address = address_of(kind, request)
    fill_with_person(kind, address, folder)
    write(folder, WITH_ROWS.replace("ADDRESS", address))
    for options in ((), ("--json",), ("--log", "json"), ("-q",)):
        ended = personal.run("run", "job.toml", *options)
        assert ended.exit_code == 0, ended.output
    for command in ("status", "show", "verify", "runs"):
        for options in ((), ("--json",)):
            assert personal.run(command, "build/shop", *options).exit_code == 0, command


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLACES)
def test_who_asks_with_v_sees_the_row(folder, sweep, kind, request):
    """So the search can fail."""
    address = address_of(kind, request)
    fill_with_person(kind, address, folder)
    write(folder, WITH_ROWS.replace("ADDRESS", address))
    ended = sweep.run("run", "job.toml", "-v")
    assert ended.exit_code == 0
    assert "one row (id = " in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-v",), ("--log", "json")])
@pytest.mark.parametrize("kind", PLACES)
def test_no_value_of_a_row_is_in_what_a_bad_night_says(folder, personal, kind, options, request):
    """A column that is not converted, and a line that a constraint of the sink refuses."""
    address = address_of(kind, request)
    fill_with_person(kind, address, folder)
    cast = WITH_ROWS.replace("select id, a,", f"select id, {CAST[kind]} as a,")
    write(folder, cast.replace("ADDRESS", address))
    ended = personal.run("run", "job.toml", *options)
    assert ended.exit_code == 2, ended.output
    fill_with_person(kind, address, folder, "CONSTRAINT small CHECK (prediction < 1000)")
    write(folder, WITH_ROWS.replace("ADDRESS", address))
    ended = personal.run("run", "job.toml", *(each for each in options if each != "-v"))
    assert ended.exit_code == 10, ended.output
    assert "small" in ended.stderr or "CHECK" in ended.stderr
    assert any("CHECK" in each or "small" in each for each in personal.records())
