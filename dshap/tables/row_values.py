"""Messages of databases and of Arrow about rows, without the values of the rows.

A database that refuses a row or converts a value quotes it: "duplicate key value violates unique
constraint … Key (id)=(5)", "invalid input syntax for type integer: …".  Such messages end up in logs
and in the records of runs.  Here the values are masked; names of columns, constraints and tables,
types and the SQLSTATE stay.  Messages about tables and columns that are not there, about syntax,
rights and connections contain no values of rows: they stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from dshap.core.addresses import MASK

ABOUT_ROWS = ("20", "21", "22", "23", "27", "44", "P0")
"""Classes of SQLSTATE whose messages may quote values: data exceptions, constraints, and
exceptions of functions of the database."""
DUCKDB_ABOUT_ROWS = (
    "Constraint",
    "Conversion",
    "Invalid Input",
    "Mismatch Type",
    "Out of Range",
    "Serialization",
    "TransactionContext",
)
"""Kinds of errors of DuckDB whose messages may quote values."""
_DUCKDB = re.compile(rf"(?:{'|'.join(DUCKDB_ABOUT_ROWS)}) Error: ")
_SEVERITY = re.compile(r"(?:(?<=[\s:])|^)[^\W\d_]+:  ")
"""Pattern of the severity of PostgreSQL, two spaces behind it: ERROR, or FEHLER in German."""
_SECTION = re.compile(r"\n([^\W\d_]+(?: \d+)?):\s+|\n\nQuery was: ")
"""Pattern of what begins a part behind the first words, like DETAIL and LINE 1, in any language."""
_KEY_DETAIL = re.compile(r"(Key \([^()]*\)=\().*(\))(?= )", re.DOTALL)
_COPY_CONTEXT = re.compile(r"COPY [\w.\"]+, line \d+(?:, column [\w\"]+)?(?=$|:)")
_STATE = re.compile(r"SQLSTATE: (\w{5})")
_NOUN = re.compile(
    r"\b(?:column|columns|relation|table|constraint|index|schema|database|role|function|type|domain|"
    r"sequence|view|trigger|encoding|operator|extension|parameter|language|partition|collation|object|"
    r"user|file|server|host|"
    r"identifier|at or near|got an?)\s+$",
    re.IGNORECASE,
)
"""Pattern of the word before the name of a thing of the database in quotes."""
_TYPE = re.compile(
    r"U?(?:TINY|SMALL|BIG|HUGE)INT|U?INT(?:EGER|\d+)?|DOUBLE|FLOAT|REAL|VARCHAR|DATE|TIME|TIMESTAMP\w*|"
    r"BOOLEAN|BLOB|UUID|DECIMAL\(\d+,\s?\d+\)"
)
_QUOTES = {'"': '"', "'": "'", "»": "«", "«": "»", "„": "“", "“": "”", "‘": "’"}
"""Sign that opens a quotation -> the one that closes it, in the languages of PostgreSQL's messages."""
_OPENING = re.compile(rf"(?<!\w)[{''.join(_QUOTES)}]")
_UNQUOTED = (
    (re.compile(r"(with value ).*( can't be cast)", re.DOTALL), rf"\1{MASK}\2"),
    (re.compile(r"(cast value ).*( to )", re.DOTALL | re.IGNORECASE), rf"\1{MASK}\2"),
    (re.compile(r"(Original Line: ).*?(\nError|$)", re.DOTALL), rf"\1{MASK}\2"),
    (re.compile(r"(: )0x[0-9a-f]{2}.*", re.DOTALL), rf"\1{MASK}"),
    (re.compile(r" \([^()]*\d[^()]*\)(?=!|$)"), f" ({MASK})"),
)
"""Patterns of values without quotes, and their replacements."""
_OF_ARROW = (
    (re.compile(r"(columns, got \d+: ).*", re.DOTALL), rf"\1{MASK}"),
    (re.compile(r"((?:Float|Integer) value )\S+"), rf"\1{MASK}"),
    (re.compile(r"(out of bounds timestamp: )\S+"), rf"\1{MASK}"),
)
"""Patterns of values without quotes in messages of Arrow, and their replacements."""
_DUPLICATE = re.compile(r'([Dd]uplicate key ")([^":]*: )?.*(")', re.DOTALL)
Details = Iterable[tuple[str | bytes, str | bytes]]


def without_row_values(words: str, kind: str, details: Details = ()) -> str:
    """The words of a database without values of rows.

    Parameters
    ----------
    words : the message of a driver
    kind : the kind of the database, such as "postgresql"; for an unknown kind all quoted text is
        masked, except names
    details : the driver's details of the error beside its message: fields of PostgreSQL by name
    """
    if kind == "sqlite":  # its messages name columns and constraints, and quote no value
        return words
    fields = {_text(name): _text(value) for name, value in details}
    if "PG_DIAG_MESSAGE_PRIMARY" in fields:
        return _of_postgresql_fields(words, fields)
    if kind == "postgresql":
        return _of_postgresql_text(words)
    if kind != "duckdb":
        return _without_quotations(words)
    if found := _DUCKDB.search(words):
        return words[: found.end()] + _of_duckdb(words[found.end() :])
    return words


def words_of_arrow(error: Exception) -> str:
    """The message of an error of Arrow, without values of rows."""
    said = str(error)
    for pattern, shown in _OF_ARROW:
        said = pattern.sub(shown, said)
    return _without_quotations(said)


def _text(value: str | bytes) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value


def _of_postgresql_fields(words: str, fields: dict[str, str]) -> str:
    """The message of PostgreSQL from its fields, in any of its languages."""
    state = fields.get("PG_DIAG_SQLSTATE", "")
    if not state.startswith(ABOUT_ROWS):
        return words
    names = [
        fields[f"PG_DIAG_{field}_NAME"]
        for field in ("COLUMN", "CONSTRAINT", "TABLE", "SCHEMA", "DATATYPE")
        if f"PG_DIAG_{field}_NAME" in fields
    ]
    said = _without_quotations(fields["PG_DIAG_MESSAGE_PRIMARY"], names)
    # an exception of a function has words of its own, where values need no quotes
    if state.startswith("P0"):
        said = "a function of the database raised an exception"
    more = [
        f"{field.lower()} {fields[f'PG_DIAG_{field}_NAME']}"
        for field in ("TABLE", "COLUMN", "CONSTRAINT")
        if fields.get(f"PG_DIAG_{field}_NAME", "") not in ("", *_quoted_in(said, names))
    ]
    detail = _detail(fields.get("PG_DIAG_MESSAGE_DETAIL", ""))
    context = _context(fields.get("PG_DIAG_CONTEXT", ""))
    return _joined(said, [detail, context, *more], state)


def _of_postgresql_text(words: str) -> str:
    """The message of PostgreSQL from its text, which a stream of rows gives alone."""
    state = next(iter(_STATE.findall(words)), "")
    if state and not state.startswith(ABOUT_ROWS):
        return words
    begins = _SEVERITY.search(words)
    if begins is None and not state:
        return words
    start = 0
    if begins is not None:
        start = begins.end()
    said, *sections = _SECTION.split(_STATE.sub("", words[start:]).rstrip(" .\n"))
    named = dict(zip(sections[::2], sections[1::2], strict=False))
    more = [_detail(named.get("DETAIL", "")), _context(named.get("CONTEXT", ""))]
    return _joined(_without_quotations(said.strip()), more, state)


def _joined(said: str, more: Iterable[str], state: str) -> str:
    parts = [part for part in more if part]
    if state:
        parts.append(f"SQLSTATE {state}")
    if not parts:
        return said
    return f"{said} ({'; '.join(parts)})"


def _detail(text: str) -> str:
    """The columns of a key in a detail; empty for any other detail."""
    found = _KEY_DETAIL.match(text)
    if found is None:
        return ""
    return f"{found[1]}{MASK}{found[2]}"


def _context(text: str) -> str:
    """The line and column of a copy in a context; empty for any other context."""
    if found := _COPY_CONTEXT.match(text):
        return found[0]
    return ""


def _of_duckdb(said: str) -> str:
    """The message of DuckDB behind the kind of its error, without the query that it repeats."""
    said = said.partition("\n\nLINE ")[0]
    said, n_keys = _DUPLICATE.subn(rf"\1\2{MASK}\3", said)
    if n_keys:
        return said
    for pattern, shown in _UNQUOTED:
        said = pattern.sub(shown, said)
    return _without_quotations(said)


def _quoted_in(said: str, names: Collection[str]) -> list[str]:
    """The names that a message has in quotes."""
    return [
        name
        for name in names
        if any(opening + name + closing in said for opening, closing in _QUOTES.items())
    ]


def _without_quotations(text: str, names: Collection[str] = ()) -> str:
    """Mask quoted text, except names of objects of the database and of types.

    A value may contain quotes itself: it ends at the last one of its kind.
    """
    shown = ""
    while opening := _OPENING.search(text):
        before = text[: opening.start()]
        closing = _QUOTES[opening[0]]
        inside, found, after = text[opening.end() :].partition(closing)
        is_name = inside in names or _TYPE.fullmatch(inside) or _NOUN.search(shown + before)
        if not (found and is_name):
            _, found, after = text[opening.end() :].rpartition(closing)
            inside = MASK
            after = after * bool(found)
        shown += before + opening[0] + inside + closing
        text = after
    return shown + text
