"""The statements in a text of SQL: one is read, and a semicolon may end it."""

from __future__ import annotations

import re

from dshap.core.errors import InputError

_TOKEN = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*.*?\*/)
    |(?P<end>;)
    |(?<!\w)[eE]'(?:[^'\\]|\\.|'')*'   # text with escapes, as PostgreSQL has it
    |'(?:[^']|'')*'
    |"(?:[^"]|"")*"
    |`[^`]*`
    |\$(?P<tag>\w*)\$.*?\$(?P=tag)\$   # text between dollar signs
    |\S
    """,
    re.VERBOSE | re.DOTALL,
)
"""Pattern of a comment, a semicolon, a text or name in quotes, or any other sign."""


def only_statement(text: str) -> str:
    """The one statement in a text, without the semicolon behind it.

    Raises
    ------
    InputError
        No statement, or several: a semicolon in quotes or in a comment ends none.

    Examples
    --------
    >>> from dshap.warehouse.statements import only_statement
    >>> only_statement("select ';' as sign; -- all of them")
    "select ';' as sign"
    """
    n_statements = 0
    is_inside = False
    end = len(text)
    for found in _TOKEN.finditer(text):
        if found["comment"]:
            continue
        if not found["end"]:
            n_statements += not is_inside
            is_inside = True
            continue
        if is_inside and n_statements == 1:
            end = found.start()
        is_inside = False
    if n_statements != 1:
        raise InputError(
            f"query: it contains {n_statements or 'no'} statements, and one is read: give one "
            "SELECT statement, and run the others before the job"
        )
    return text[:end].rstrip()
