"""One statement of SQL: where it ends, whatever stands in quotes and comments."""

from __future__ import annotations

import pytest

from dshap.core.errors import InputError
from dshap.warehouse.statements import only_statement


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("select 1", "select 1"),
        ("select 1;", "select 1"),
        ("select 1 ; ;\n-- the end; of it\n", "select 1"),
        ("select 1 /* ; */ -- ;", "select 1 /* ; */ -- ;"),
        (
            "select ';' as a, \"b;c\", 'it''s; so' from t;",
            "select ';' as a, \"b;c\", 'it''s; so' from t",
        ),
        ("select E'it\\'s; so';", "select E'it\\'s; so'"),
        ("select $$a;b$$, $tag$c;$$;d$tag$ ;", "select $$a;b$$, $tag$c;$$;d$tag$"),
        ("select `a;b` from t", "select `a;b` from t"),
        ("-- first;\nselect 'ü;' where a like'%;'", "-- first;\nselect 'ü;' where a like'%;'"),
        ("; select 1", "; select 1"),
    ],
)
def test_one_statement(text, statement):
    assert only_statement(text) == statement


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("select 1; drop table x", "2"),
        ("select 1; drop table x; -- done", "2"),
        ("begin; select 1; commit", "3"),
        ("select 'a;b'; select 2", "2"),
        ("  ", "no"),
        ("-- nothing\n;", "no"),
    ],
)
def test_several_statements_or_none(text, number):
    with pytest.raises(
        InputError, match=f"^query: it contains {number} statements, and one is read: "
    ):
        only_statement(text)
