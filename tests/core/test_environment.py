"""Values of the environment in texts: replaced, encoded in an address, named where unset."""

from __future__ import annotations

import pytest

from dshap.core.environment import (
    has_braces,
    is_shown,
    values_in,
    with_environment,
    with_names,
    without_environment,
)

PASSWORD = "a b%41@c/d"


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("{{ env_var(PW) }}", PASSWORD),
        ("postgresql://me:{{ env_var(PW) }}@host/db", "postgresql://me:a%20b%2541%40c%2Fd@host/db"),
        ("postgresql://{{ env_var(PW) }}@host", "postgresql://a%20b%2541%40c%2Fd@host"),
        # no user, so nothing is encoded
        ("postgresql://{{ env_var(HOST) }}/db", "postgresql://server:5432/db"),
        ("postgresql://me:x@{{ env_var(HOST) }}/db", "postgresql://me:x@server:5432/db"),
        ("tls://host/{{ env_var(PW) }}/a@b", f"tls://host/{PASSWORD}/a@b"),
    ],
)
def test_a_user_or_password_is_encoded_as_addresses_have_it(monkeypatch, text, replaced):
    monkeypatch.setenv("PW", PASSWORD)
    monkeypatch.setenv("HOST", "server:5432")
    assert with_environment(text) == replaced


def test_what_stands_in_a_text_itself_and_what_is_of_the_environment(monkeypatch):
    monkeypatch.setenv("PW", PASSWORD)
    text = 'postgresql://me:{{ env_var(PW) }}@{{ env_var("NOWHERE", "here") }}/db'
    assert values_in(text) == [PASSWORD, "here"]
    assert without_environment(text) == "postgresql://me:@/db"
    with pytest.raises(ValueError, match="the environment variable NOWHERE is not set"):
        values_in("{{ env_var(NOWHERE) }}")


def test_a_message_has_the_names_in_the_place_of_the_values(monkeypatch):
    monkeypatch.setenv("TOKEN", "hush hush")
    monkeypatch.setenv("SCHEMA", "hush")
    monkeypatch.setenv("SHORT", "a")
    text = (
        "select {{ env_var(SHORT) }} from {{ env_var(SCHEMA) }}.t where k = '{{ env_var(TOKEN) }}'"
    )
    said = with_names("no table hush.t: a where k = 'hush hush'", text)
    assert said == "no table {{ env_var(SCHEMA) }}.t: a where k = '{{ env_var(TOKEN) }}'"
    assert with_names("as it is", "select 1") == "as it is"


def test_an_excerpt_of_a_statement_may_hold_a_piece_of_a_value(monkeypatch):
    monkeypatch.setenv("TOKEN", "0123456789 " * 20)
    said = "no column b\n\nLINE 1: ...789 0123456789 0123'\n      ^"
    assert with_names(said, "where b = '{{ env_var(TOKEN) }}'") == "no column b"
    assert with_names(said, "where b = 1") == said


def test_braces():
    assert has_braces("a {{ ds }}")
    assert not has_braces("a {ds}")


@pytest.mark.parametrize(
    ("name", "is_it"),
    [
        ("LC_ALL", True),
        ("OMP_NUM_THREADS", True),
        ("TMPDIR", True),
        ("LANG", True),
        ("LANGSMITH_API_KEY", False),
        ("MY_LANG", False),
        ("DATABASE_URL", False),
        ("DASK_GATEWAY__AUTH__KWARGS__PASSWORD", False),
        ("PYTHONPATH", False),
        ("", False),
    ],
)
def test_values_that_may_be_shown(name, is_it):
    assert is_shown(name) == is_it
