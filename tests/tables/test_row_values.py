"""Messages of databases as they gave them, with planted values: none is left, and the names are."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from dshap.tables.row_values import without_row_values, words_of_arrow

SECRETS = ("Müller", "4711", "2020-13-77", "Mü")


def fields(**given):
    """Fields of an error of PostgreSQL as its driver gives them."""
    return [(f"PG_DIAG_{name}", value.encode()) for name, value in given.items()]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {
                "CONSTRAINT_NAME": "t_pkey",
                "MESSAGE_PRIMARY": 'duplicate key value violates unique constraint "t_pkey"',
                "MESSAGE_DETAIL": "Key (id, name)=(4711, Mü(ll)er) already exists.",
                "SQLSTATE": "23505",
                "TABLE_NAME": "t",
            },
            'duplicate key value violates unique constraint "t_pkey" (Key (id, name)=(***); table t; '
            "SQLSTATE 23505)",
        ),
        (
            {
                "COLUMN_NAME": "b",
                "MESSAGE_PRIMARY": 'null value in column "b" of relation "t" violates not-null constraint',
                "MESSAGE_DETAIL": "Failing row contains (4711, null, Müller, 2020-13-77).",
                "SQLSTATE": "23502",
                "TABLE_NAME": "t",
            },
            'null value in column "b" of relation "t" violates not-null constraint (SQLSTATE 23502)',
        ),
        (
            {
                "MESSAGE_PRIMARY": 'invalid input syntax for type integer: "Mü"ller "4711"',
                "CONTEXT": 'COPY t, line 3, column b: "Müller"',
                "SQLSTATE": "22P02",
            },
            'invalid input syntax for type integer: "***" (COPY t, line 3, column b; SQLSTATE 22P02)',
        ),
        (
            {
                "MESSAGE_PRIMARY": "invalid input syntax for type json",
                "MESSAGE_DETAIL": 'Token "Müller" is invalid.',
                "CONTEXT": 'JSON data, line 1: {"name": Müller...',
                "SQLSTATE": "22P02",
            },
            "invalid input syntax for type json (SQLSTATE 22P02)",
        ),
        (
            {
                "CONSTRAINT_NAME": "t_pkey",
                "MESSAGE_PRIMARY": "doppelter Schlüsselwert verletzt Unique-Constraint »t_pkey«",
                "MESSAGE_DETAIL": "Schlüssel »(id)=(4711)« existiert bereits.",
                "SQLSTATE": "23505",
            },
            "doppelter Schlüsselwert verletzt Unique-Constraint »t_pkey« (SQLSTATE 23505)",
        ),
        (
            {
                "MESSAGE_PRIMARY": "ungültige Eingabesyntax für Typ integer: »Müller«",
                "SQLSTATE": "22P02",
            },
            "ungültige Eingabesyntax für Typ integer: »***« (SQLSTATE 22P02)",
        ),
        (
            {"MESSAGE_PRIMARY": "customer Müller has no plan", "SQLSTATE": "P0001"},
            "a function of the database raised an exception (SQLSTATE P0001)",
        ),
    ],
)
def test_fields_of_postgresql(given, expected):
    found = without_row_values("as it was: Müller", "postgresql", fields(**given))
    assert found == expected
    assert not any(secret in found for secret in SECRETS)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            '[libpq] Execution error [PGRES_FATAL_ERROR]: ERROR:  invalid input syntax for type integer: "Müller"\n',
            'invalid input syntax for type integer: "***"',
        ),
        (
            "[libpq] Failed to execute query 'insert … Müller': ERROR:  duplicate key value violates unique "
            'constraint "t_pkey"\nDETAIL:  Key (id)=(4711) already exists.\n. SQLSTATE: 23505',
            'duplicate key value violates unique constraint "t_pkey" (Key (id)=(***); SQLSTATE 23505)',
        ),
        (
            "[libpq] Execution error [PGRES_FATAL_ERROR]: FEHLER:  ungültige Eingabesyntax für Typ "
            "integer: »Müller«\nKONTEXT:  COPY t, Zeile 3, Spalte b: »4711«\n",
            "ungültige Eingabesyntax für Typ integer: »***«",
        ),
        (
            "[libpq] Execution error [PGRES_FATAL_ERROR]: ОШИБКА:  неверный синтаксис для типа integer: "
            '"Müller"\nСТРОКА 1: select 4711',
            'неверный синтаксис для типа integer: "***"',
        ),
        (
            'connection to server at "localhost" (127.0.0.1), port 5432 failed: Connection refused\n'
            "\tIs the server running on that host and accepting TCP/IP connections?\n",
            'connection to server at "localhost" (127.0.0.1), port 5432 failed: Connection refused\n'
            "\tIs the server running on that host and accepting TCP/IP connections?\n",
        ),
    ],
)
def test_texts_of_postgresql(words, expected):
    assert without_row_values(words, "postgresql") == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "Conversion Error: Could not convert string 'Mü'ller' to INT32 when casting from source "
            "column x\n\nLINE 1: select cast(x as integer) from (select 'Müller' as x) q",
            "Conversion Error: Could not convert string '***' to INT32 when casting from source column x",
        ),
        (
            "Conversion Error: Type INT32 with value 4711 can't be cast because the value is out of "
            "range for the destination type INT16",
            "Conversion Error: Type INT32 with value *** can't be cast because the value is out of "
            "range for the destination type INT16",
        ),
        (
            "Conversion Error: Could not cast value 4711 to DECIMAL(3,1) when casting from source column a",
            "Conversion Error: Could not cast value *** to DECIMAL(3,1) when casting from source column a",
        ),
        (
            'Conversion Error: date field value out of range: "2020-13-77" when casting',
            'Conversion Error: date field value out of range: "***" when casting',
        ),
        (
            'Conversion Error: Malformed JSON at byte 9 of input: unexpected character.  Input: "{"name": '
            'Müller}" when casting',
            'Conversion Error: Malformed JSON at byte 9 of input: unexpected character.  Input: "***" when '
            "casting",
        ),
        (
            'Constraint Error: Duplicate key "id: 4711, name: Müller" violates primary key constraint.',
            'Constraint Error: Duplicate key "id: ***" violates primary key constraint.',
        ),
        (
            "TransactionContext Error: Failed to commit: PRIMARY KEY or UNIQUE constraint violation: "
            'duplicate key "4711"',
            "TransactionContext Error: Failed to commit: PRIMARY KEY or UNIQUE constraint violation: "
            'duplicate key "***"',
        ),
        (
            'Constraint Error: CHECK constraint failed on table "t" with expression CHECK((b > 0))',
            'Constraint Error: CHECK constraint failed on table "t" with expression CHECK((b > 0))',
        ),
        (
            "Out of Range Error: Overflow in multiplication of INT32 (4711 * 4711)!",
            "Out of Range Error: Overflow in multiplication of INT32 (***)!",
        ),
        (
            "Invalid Input Error: CSV Error on Line: 3\nOriginal Line: 2,Müller\nError when converting "
            'column "b". Could not convert string "Müller" to \'BIGINT\'',
            "Invalid Input Error: CSV Error on Line: 3\nOriginal Line: ***\nError when converting "
            'column "b". Could not convert string "***" to \'BIGINT\'',
        ),
    ],
)
def test_errors_of_duckdb(said, expected):
    assert without_row_values(said, "duckdb") == expected


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (
            'Binder Error: Referenced column "nocol" not found in FROM clause!\n\nLINE 1: select 1',
            "duckdb",
        ),
        ("Catalog Error: Table with name nosuch does not exist!", "duckdb"),
        ("UNIQUE constraint failed: t.id", "sqlite"),
        ("[SQLite] Type mismatch in column 0: expected INT64 but got STRING/BINARY", "sqlite"),
        (
            'Failed to prepare query: ERROR:  relation "nosuch" does not exist. SQLSTATE: 42P01',
            "postgresql",
        ),
        ("could not translate host name", "postgresql"),
    ],
)
def test_messages_without_values_stay(said, kind):
    assert without_row_values(said, kind) == said


def test_quotations_of_a_database_that_is_not_known():
    said = "Numeric value 'Müller' is not recognized"
    assert without_row_values(said, "snowflake") == "Numeric value '***' is not recognized"
    said = "Object 'SHOP' does not exist"
    assert without_row_values(said, "snowflake") == said


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            lambda: pa.array([1, "Müller"]),
            "Could not convert '***' with type str: tried to convert to int64",
        ),
        (
            lambda: pa.array([4711.5]).cast(pa.int64()),
            "Float value *** was truncated converting to int64",
        ),
        (
            lambda: pa.array([4711]).cast(pa.int8()),
            "Integer value *** not in range: -128 to 127",
        ),
        (
            lambda: pa.array(["Müller"]).cast(pa.int64()),
            "Failed to parse string: '***' as a scalar of type int64",
        ),
        (
            lambda: pa_csv.read_csv(io.BytesIO("a,b\n1,2\n3,Müller,4711\n".encode())),
            "CSV parse error: Expected 2 columns, got 3: ***",
        ),
    ],
)
def test_errors_of_arrow(call, expected):
    with pytest.raises(pa.ArrowException) as caught:
        call()
    assert words_of_arrow(caught.value) == expected
