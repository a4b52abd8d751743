"""The rights that a load needs: each that is missing is named before a load, and the load needs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import duckdb
import pytest

from dshap.core.errors import DatabaseError
from dshap.sinks import Sink, Target, load_sink
from dshap.sinks.rights import missing_rights_on_file
from dshap.warehouse.databases import Database
from tests.databases import Server
from tests.pages import ROOT
from tests.sinks.nights import Night, random_nights
from tests.sinks.test_loading import JOB, run

SECRET = "sehr ge%heim@1"
TABLES = ("reasons", "_dshap_runs")


@pytest.fixture(scope="module")
def nights(tmp_path_factory) -> list[Night]:
    return random_nights(tmp_path_factory.mktemp("nights"), 4, 3, ("y",))


@dataclass
class Mart:
    """A database with a schema, and a role that loads into it and has no right yet."""

    server: Server
    role: str
    schema: str = "mart für alle"

    @property
    def owner(self) -> Database:
        return self.server.database

    @property
    def loader(self) -> Database:
        """The database as the role that loads reaches it."""
        where = f"127.0.0.1:{self.server.port}/{self.server.name}"
        return Database(f"postgresql://{quote(self.role)}:{quote(SECRET, safe='')}@{where}")

    def asks(self, *statements: str) -> None:
        """Execute statements of the owner, with the names of schema, role and database in them."""
        names = {"mart": self.schema, "loader": self.role, "shop": self.server.name}
        run(self.owner, *(re.sub(r"\b(mart|loader|shop)\b", _quoted(names), x) for x in statements))

    def sink(self, **options) -> Sink:
        return Sink("reasons", self.loader, table="reasons", schema=self.schema, **options)

    def faults(self, **options) -> str:
        found = self.sink(**options).look(JOB)
        assert not found.unreachable
        assert SECRET not in repr(found)
        assert quote(SECRET, safe="") not in repr(found)
        return "; ".join(found.faults)


def _quoted(names):
    return lambda found: '"' + names[found[0]] + '"'


@pytest.fixture
def mart(postgresql: Server) -> Iterator[Mart]:
    server = postgresql.with_new_database()
    made = Mart(server, f"lader {server.name}")
    made.asks(
        "REVOKE ALL ON DATABASE shop FROM PUBLIC",
        "CREATE SCHEMA mart",
        f"CREATE ROLE loader LOGIN PASSWORD '{SECRET}'",
        "GRANT CONNECT ON DATABASE shop TO loader",
    )
    return made


def sql_of_the_page() -> list[list[str]]:
    """The blocks of SQL in docs/sinks.md, as statements."""
    page = (ROOT / "docs" / "sinks.md").read_text()
    blocks = re.findall(r"```sql [^\n]*\n(.*?)```", page, re.DOTALL)
    return [[each.strip() for each in block.split(";") if each.strip()] for block in blocks]


OF_TABLES = sql_of_the_page()[1]
"""The statements after which a role loads tables that another role has made."""


@pytest.mark.slow
def test_a_role_that_makes_the_tables(mart, nights):
    """The first block of the page; without one of its rights the look says what to grant."""
    of_page = [each for each in sql_of_the_page()[0] if each.startswith("GRANT")]
    assert len(of_page) == 2
    for statement in of_page:
        assert mart.faults() != ""
        mart.asks(statement)
    assert mart.faults() == ""
    for night in nights:
        load_sink(mart.sink(), night.path, night, JOB)
        assert mart.faults() == ""


@pytest.mark.slow
def test_what_is_granted_as_told_is_enough(mart, nights):
    """Each message has one statement; done as told, the last look finds nothing, and a load works."""
    told = []
    while fault := mart.faults(deletes="mark"):
        told.append(fault)
        assert len(told) < 5, told
        run(mart.owner, fault.partition(": ")[2].partition(": ")[2].partition("; ")[0])
    assert [re.search(r"GRANT (\w+)", each)[1] for each in told] == [
        "USAGE", "TEMPORARY", "CREATE",
    ]  # fmt: skip
    load_sink(mart.sink(deletes="mark"), nights[0].path, nights[0], JOB)


def granted(statements) -> list[tuple[str, str, str]]:
    """(statement, right, thing) of each single right."""
    found = []
    for statement in statements:
        rights, thing = re.fullmatch(r"GRANT (.*) ON (.*) TO loader", statement).groups()
        found += [(statement, right, thing) for right in rights.split(", ")]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("right", "thing"), [each[1:] for each in granted(OF_TABLES)], ids=str)
def test_each_right_of_the_page_is_needed_and_asked(mart, nights, right, thing):
    """A role that may not make tables: the look and the load agree on every single right."""
    first, second, third = nights
    load_sink(replace(mart.sink(), database=mart.owner), first.path, first, JOB)
    mart.asks(*OF_TABLES)
    assert mart.faults() == ""
    load_sink(mart.sink(), second.path, second, JOB)
    mart.asks(f"REVOKE {right} ON {thing} FROM loader")
    found = mart.faults()
    assert f"lacks {right} on" in found
    assert "GRANT" in found
    with pytest.raises(DatabaseError, match=r"permission denied|must be owner"):
        load_sink(mart.sink(rows="all"), third.path, third, JOB)
    mart.asks(f"GRANT {right} ON {thing} TO loader")
    assert mart.faults() == ""
    load_sink(mart.sink(rows="all"), third.path, third, JOB)


@pytest.mark.slow
def test_marks_need_update(mart, nights):
    """Both sides: lines that are marked, and those that a history keeps."""
    load_sink(replace(mart.sink(), database=mart.owner), nights[0].path, nights[0], JOB)
    mart.asks(*OF_TABLES)
    assert "lacks UPDATE on" in mart.faults(deletes="mark")
    assert mart.faults(deletes="mark", write="append") == "" == mart.faults(deletes="keep")
    mart.asks("GRANT UPDATE ON mart.reasons TO loader")
    assert mart.faults(deletes="mark") == ""


WITH_VIEW = {"shape": "top_k", "k": 2, "text": True}
VIEW = "SELECT c.oid::bigint, relacl::text FROM pg_class c WHERE oid = to_regclass('{}')"


def view_of(mart) -> tuple[object, ...]:
    """The identity and the rights of the view of texts."""
    return run(mart.owner, VIEW.format(f'"{mart.schema}".reasons_text'))[0]


@pytest.mark.slow
@pytest.mark.parametrize("maker", ["owner", "loader"])
def test_each_load_leaves_a_view_as_it_is(mart, nights, maker):
    """Rights that readers were given on it, and views over it, are there after every load."""
    first, second, third = nights
    sink = mart.sink(**WITH_VIEW)
    if maker == "loader":
        mart.asks(*[each for each in sql_of_the_page()[0] if each.startswith("GRANT")])
        load_sink(sink, first.path, first, JOB)
    else:
        load_sink(replace(sink, database=mart.owner), first.path, first, JOB)
        mart.asks(*OF_TABLES)
    mart.asks(
        "CREATE VIEW mart.of_others AS SELECT * FROM mart.reasons_text",
        "GRANT SELECT ON mart.reasons_text TO PUBLIC",
    )
    before = view_of(mart)
    assert "=r/" in str(before)
    said: list[str] = []
    for night in (second, third):
        assert mart.faults(**WITH_VIEW) == ""
        load_sink(sink, night.path, night, JOB, said.append)
        assert view_of(mart) == before
    assert not any("warning" in line for line in said)
    n_keys = len({(id, shop) for id, shop in third.rows})
    assert run(mart.owner, f'SELECT count(*) FROM "{mart.schema}".of_others') == [(n_keys,)]


@pytest.mark.slow
def test_a_view_is_replaced_in_place(mart, nights):
    """Another query with the same columns, as an earlier version may have made: rights stay."""
    first, second, _ = nights
    mart.asks(*[each for each in sql_of_the_page()[0] if each.startswith("GRANT")])
    sink = mart.sink(**WITH_VIEW)
    load_sink(sink, first.path, first, JOB)
    mart.asks("GRANT SELECT ON mart.reasons_text TO PUBLIC")
    before = view_of(mart)
    columns = "id, shop, class, prediction, status, 'other'::text AS reasons"
    replaced = f'"{mart.schema}".reasons_text AS SELECT {columns} FROM "{mart.schema}".reasons'
    run(mart.loader, f"CREATE OR REPLACE VIEW {replaced}")
    load_sink(sink, second.path, second, JOB)
    assert view_of(mart) == before
    found = run(mart.owner, f'SELECT DISTINCT reasons FROM "{mart.schema}".reasons_text')
    assert ("other",) not in found


@pytest.mark.slow
def test_a_view_of_another_form_is_left_to_its_owner(mart, nights):
    """The lines are loaded, and a warning has the statement after which a load makes the view."""
    first, second, third = nights
    sink = mart.sink(**WITH_VIEW)
    load_sink(replace(sink, database=mart.owner), first.path, first, JOB)
    mart.asks(
        *OF_TABLES,
        "DROP VIEW mart.reasons_text",
        "CREATE VIEW mart.reasons_text AS SELECT id FROM mart.reasons",
    )
    said: list[str] = []
    assert load_sink(sink, second.path, second, JOB, said.append).n_lines
    (warning,) = [line for line in said if line.startswith("warning: ")]
    assert "this role may not replace it" in warning
    statement = 'DROP VIEW "mart für alle"."reasons_text"'
    assert warning.endswith(f": {statement}")
    run(mart.owner, statement)
    mart.asks("GRANT CREATE ON SCHEMA mart TO loader")
    load_sink(sink, third.path, third, JOB, said.append)
    assert len([line for line in said if line.startswith("warning: ")]) == 1
    ((names,),) = run(
        mart.owner,
        "SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute "
        f"WHERE attrelid = to_regclass('\"{mart.schema}\".reasons_text')",
    )
    assert names == "id shop class prediction status reasons"


@pytest.mark.slow
def test_a_view_that_is_still_to_be_made(mart, nights):
    """Tables of another role are there without it: the look says so, and the load needs the right."""
    first, second, _ = nights
    sink = mart.sink(**WITH_VIEW)
    load_sink(replace(sink, database=mart.owner), first.path, first, JOB)
    mart.asks(*OF_TABLES)
    assert mart.faults(**WITH_VIEW) == ""
    mart.asks("DROP VIEW mart.reasons_text")
    fault = mart.faults(**WITH_VIEW)
    assert "the load must make the view 'reasons_text': GRANT CREATE ON SCHEMA" in fault
    with pytest.raises(DatabaseError, match="permission denied for schema"):
        load_sink(sink, second.path, second, JOB)
    mart.asks("GRANT CREATE ON SCHEMA mart TO loader")
    load_sink(sink, second.path, second, JOB)


@pytest.mark.slow
def test_columns_that_only_the_owner_may_add(mart, nights):
    load_sink(replace(mart.sink(), database=mart.owner), nights[0].path, nights[0], JOB)
    mart.asks(*OF_TABLES, "ALTER TABLE mart._dshap_runs DROP COLUMN as_of")
    assert "lacks the columns as_of, which its owner alone may add" in mart.faults()


@pytest.mark.slow
def test_a_schema_that_is_not_there_and_a_server_that_takes_no_writes(mart):
    mart.asks(
        "GRANT USAGE, CREATE ON SCHEMA mart TO loader", "GRANT TEMPORARY ON DATABASE shop TO loader"
    )
    sink = replace(mart.sink(), schema="nirgends")
    (fault,) = sink.look(JOB).faults
    assert "there is no schema 'nirgends': CREATE SCHEMA \"nirgends\"" in fault
    mart.asks("ALTER ROLE loader SET search_path = nirgends")
    (fault,) = replace(sink, schema="").look(JOB).faults
    assert "may use no schema of its search_path" in fault
    mart.asks("ALTER ROLE loader SET default_transaction_read_only = on")
    assert "the server takes no writes" in mart.faults()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("/test_", "/none_"), 'database "none_'),
        ((quote(SECRET, safe=""), "other"), "password authentication failed"),
    ],
)
def test_a_database_that_lets_nobody_in(mart, change, said):
    """It says so by itself; the password is in no message."""
    assert change[0] in mart.loader.uri
    loader = Database(mart.loader.uri.replace(*change))
    found = replace(mart.sink(), database=loader).look(JOB)
    (fault,) = found.faults
    assert said in fault
    assert SECRET not in fault
    assert "other" not in fault.replace("another", "")
    assert not found.unreachable


def target_in(folder: Path, kind: str, **options) -> Target:
    database = Database(f"{kind}:///{folder}/Lager für alle.{kind}")
    return Sink("reasons", database, table="t", **options).look(JOB)


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_file_is_left_as_it_was(tmp_path, kind):
    """Not made where it is missing; where it is there its bytes, its time and its folder stay."""
    assert target_in(tmp_path, kind).note == "the first load makes the file"
    assert not list(tmp_path.iterdir())
    file = tmp_path / f"Lager für alle.{kind}"
    run(
        Database(f"{kind}:///{file}"),
        "CREATE TABLE mine (x INTEGER)",
        "INSERT INTO mine VALUES (1)",
    )
    before = (file.read_bytes(), file.stat().st_mtime_ns, sorted(tmp_path.iterdir()))
    found = target_in(tmp_path, kind)
    assert (found.faults, found.unreachable) == ((), "")
    assert found.note == "the first load makes the table"
    assert (file.read_bytes(), file.stat().st_mtime_ns, sorted(tmp_path.iterdir())) == before
    (fault,) = target_in(tmp_path, kind, schema="nirgends").faults
    assert "there is no schema 'nirgends'" in fault


HOLD = {
    "duckdb": "import duckdb; held = duckdb.connect({file!r})",
    "sqlite": "import sqlite3; held = sqlite3.connect({file!r}); held.execute('BEGIN IMMEDIATE')",
}


@pytest.mark.parametrize("kind", HOLD)
def test_a_file_that_another_process_holds(tmp_path, kind):
    """It may be free when the cube is loaded, so that it is no fault of the sink."""
    file = tmp_path / f"Lager für alle.{kind}"
    run(Database(f"{kind}:///{file}"), "CREATE TABLE mine (x INTEGER)")
    code = f"{HOLD[kind].format(file=str(file))}; print('held', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        found = target_in(tmp_path, kind)
        holder.stdin.write("\n")
    assert found.faults == ()
    assert re.search("(?i)lock", found.unreachable)
    assert target_in(tmp_path, kind).unreachable == ""


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_file_and_a_folder_that_may_not_be_written(tmp_path, monkeypatch, kind):
    """As another user than root sees them."""
    file = tmp_path / f"Lager für alle.{kind}"
    run(Database(f"{kind}:///{file}"), "CREATE TABLE mine (x INTEGER)")
    os.chmod(file, 0o444)
    os.chmod(tmp_path, 0o555)

    def access(path, mode):
        return not mode & os.W_OK or bool(os.stat(path).st_mode & 0o200)

    monkeypatch.setattr(os, "access", access)
    found = target_in(tmp_path, kind)
    os.chmod(tmp_path, 0o755)
    assert len(found.faults) == 2
    assert f"may not write the file {file}" in found.faults[0]
    assert f"may not write the folder {tmp_path}" in found.faults[1]
    os.chmod(file, 0o644)
    assert not list(missing_rights_on_file(file))


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_folder_that_is_not_there(tmp_path, kind):
    found = target_in(tmp_path / "none", kind)
    assert "there is no folder" in found.unreachable
    assert found.faults == ()


def test_a_schema_of_duckdb(tmp_path):
    with duckdb.connect(str(tmp_path / "Lager für alle.duckdb")) as connection:
        connection.execute('CREATE SCHEMA "My Mart"')
    assert target_in(tmp_path, "duckdb", schema="my mart").faults == ()
