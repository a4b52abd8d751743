"""Sinks that are the source of their job, lie under its view, or are a view: refused, on each database."""

from __future__ import annotations

import pytest

from dshap.core.errors import InputError
from dshap.sinks import Sink, SourceQuery, load_sink
from dshap.sinks.dialects import Dialect, LoadSession, Place
from dshap.warehouse.databases import Database
from tests.sinks.nights import random_nights
from tests.sinks.test_loading import FACTS, JOB, database, run  # noqa: F401 (a fixture)

ODD = "Kündigungen der Kunden, die gegangen sind (50 Zeichen)"[:50]


@pytest.fixture
def shop(database):  # noqa: F811
    """A database with tables, views over them, and a table that nobody reads."""
    run(
        database,
        "CREATE TABLE customers (id INTEGER, x REAL)",
        f'CREATE TABLE "{ODD}" (id INTEGER, x REAL)',
        "CREATE TABLE other (id INTEGER)",
        "CREATE VIEW inner_view AS SELECT customers.id, customers.x FROM customers",
        f'CREATE VIEW of_both AS SELECT i.id FROM inner_view AS i JOIN "{ODD}" AS o ON i.id = o.id',
    )
    return database


def looked_at(sink, source=None):
    """The target of a sink, which nothing was left behind for."""
    found = sink.look(JOB, source)
    assert not found.unreachable
    return found


def refused(database, table, statement="SELECT * FROM of_both", name="", schema=""):  # noqa: F811
    """The message of the refusal; empty where there is none."""
    sink = Sink("reasons", database, table=table, schema=schema)
    found = looked_at(sink, SourceQuery(database, statement, name))
    return "; ".join(found.faults)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM customers",
        "SELECT * FROM of_both",
        "SELECT count(*) AS n FROM inner_view",
        "WITH w AS (SELECT * FROM of_both) SELECT * FROM w",
        "SELECT 1 AS id WHERE EXISTS (SELECT 1 FROM customers WHERE x > 1)",
        "SELECT * FROM customers WHERE id = 1 LIMIT 0 -- the end",
    ],
)
def test_a_table_that_the_source_reads(shop, statement):
    assert "[source] reads its rows from this table" in refused(shop, "customers", statement)
    assert refused(shop, "other", statement) == ""
    assert refused(shop, "not_there", statement) == ""


def test_names_as_each_database_has_them(shop):
    folds = shop.kind != "postgresql"
    assert bool(refused(shop, "CUSTOMERS")) == folds
    assert refused(shop, ODD)
    assert not refused(shop, ODD, "SELECT * FROM inner_view")
    if shop.kind != "postgresql":
        assert refused(shop, "customers", schema="MAIN")
    else:
        schema = run(shop, "SELECT current_schema()::text")[0][0]
        assert refused(shop, "customers", schema=schema)
        assert not refused(shop, "customers", schema="information_schema")


def test_a_view_is_no_sink(shop):
    for source in ("SELECT * FROM other", "SELECT * FROM of_both"):
        assert "this is a view" in refused(shop, "of_both", source)


def test_one_database_by_two_addresses(shop, tmp_path):
    """A link to the file, another spelling of the host; and two files that are not one."""
    other = f"{shop.kind}:///{tmp_path}/link"
    if shop.kind == "postgresql":
        other = shop.uri.replace("127.0.0.1", "localhost")
    else:
        (tmp_path / "link").symlink_to(shop.path)
    source = SourceQuery(Database(other), "SELECT * FROM customers", "customers")
    (fault,) = looked_at(Sink("reasons", shop, table="customers"), source).faults
    assert "reads its rows from this table" in fault
    if shop.kind != "postgresql":
        elsewhere = Database(f"{shop.kind}:///{tmp_path}/elsewhere")
        run(elsewhere, "CREATE TABLE customers (id INTEGER)")
        source = SourceQuery(shop, "SELECT * FROM customers", "customers")
        assert not looked_at(Sink("reasons", elsewhere, table="customers"), source).faults


def test_a_statement_that_fails_is_left_to_its_reader(shop):
    assert refused(shop, "customers", "SELECT no_such FROM customers") == ""


def test_plain_sql_goes_by_names(shop):
    """A database without a dialect of its own tells its tables and views, and reads what is named."""
    with shop.connect(read_only=True) as connection:
        plain = Dialect()
        session = LoadSession(connection, plain)
        found = plain.relation(session, Place("", "Customers"))
        assert found is None or not found.is_view
        found = plain.relation(session, Place("", "customers"))
        assert not found.is_view
        assert plain.relation(session, Place("", "of_both")).is_view
        assert plain.relation(session, Place("", "none")) is None
        assert plain.reads(session, "", "CUSTOMERS", found)
        assert not plain.reads(session, "", "other", found)
        assert not plain.reads(session, "", "elsewhere.customers", found)
        assert not plain.reads(session, "SELECT * FROM customers", "", found)


def test_shape_and_claim_of_a_table(database, tmp_path):  # noqa: F811
    """A table of another shape, one of another job, and one that the next load changes nothing of."""
    (night,) = random_nights(tmp_path, 5, 1, ("y",))
    sink = Sink("reasons", database, table="t")
    assert looked_at(sink).columns == {}
    assert not looked_at(sink).is_known
    load_sink(sink, night.path, night, JOB)
    found = looked_at(sink)
    assert found.is_known
    assert not found.faults
    found.refuse_other_shape(FACTS)
    long = Sink("reasons", database, table="t", shape="long")
    with pytest.raises(InputError, match=r"other columns: it lacks 'feature'.*ALTER TABLE"):
        looked_at(long).refuse_other_shape(FACTS)
    (fault,) = sink.look("another job").faults
    assert f"job '{JOB}' loads explanation 'reasons' into this table" in fault
    run(database, "CREATE TABLE mine (id INTEGER, shop VARCHAR(9), phi_age BOOLEAN, rank TEXT)")
    mine = looked_at(Sink("reasons", database, table="mine"))
    with pytest.raises(InputError, match="No line of _dshap_runs names it") as told:
        mine.refuse_other_shape(FACTS)
    assert "ALTER" not in str(told.value)


def test_a_table_of_loads_with_other_columns(database):  # noqa: F811
    run(database, "CREATE TABLE _dshap_runs (mine INTEGER)")
    (fault,) = looked_at(Sink("reasons", database, table="t")).faults
    assert "has the columns mine" in fault
