"""The environment: its values in texts that a user writes, and which of its values are shown.

{{ env_var(NAME) }} is the one notation.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote

SHOWN_VARIABLES = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|TMPDIR"
    r"|(OMP|OPENBLAS|MKL|BLIS|NUMBA|NUMEXPR)_NUM_THREADS|POLARS_MAX_THREADS"
    r"|OMP_(DYNAMIC|PLACES|PROC_BIND|WAIT_POLICY)|CUDA_VISIBLE_DEVICES"
    r"|OPENBLAS_CORETYPE|MKL_CBWR|NPY_DISABLE_CPU_FEATURES|NUMBA_CPU_NAME"
    r"|MALLOC_(ARENA_MAX|TRIM_THRESHOLD_)|PYTHON(HASHSEED|UNBUFFERED|UTF8)"
)
"""Pattern of the variables whose values are shown: they choose language, time zone, threads,
processors, memory and the folder of temporary files, and no program reads a credential from them.

The name of any other variable does not show whether its value is a secret (`DATABASE_URL` and
`SENTRY_DSN` contain one), so that the value is masked.  Names are always shown.
"""
_BRACES = re.compile(r"\{\{(.*?)\}\}")
_EXCERPT = re.compile(r"\s*LINE \d+:.*", re.DOTALL)
"""Pattern of the excerpt of a statement at the end of a message of DuckDB or PostgreSQL."""
_CALL = re.compile(
    r"""\s*env_var\(\s*
    (?P<quote>["']?)(?P<name>[A-Za-z_]\w*)(?P=quote)\s*
    (?:,\s*(?P<mark>["'])(?P<default>.*?)(?P=mark)\s*)?
    \)\s*""",
    re.VERBOSE,
)
SHORTEST = 3
"""The fewest letters of a value that a message is searched for."""
_BEFORE_USER = re.compile(r"[a-z][a-z0-9+.-]+://[^/?#]*", re.IGNORECASE)
"""Pattern of an address up to a place in its user and password."""


def with_environment(text: str) -> str:
    """Replace ``{{ env_var(NAME) }}`` or ``{{ env_var(NAME, "…") }}`` by the variable's value.

    A user or password of an address, as in ``scheme://user:{{ env_var(NAME) }}@host``, is written
    as addresses have it: the variable contains the bare password, and its spaces, %, @ and / do no
    harm.

    Raises
    ------
    ValueError
        A variable that is not set and has no default, or something else in braces.
    """

    def value(found: re.Match[str]) -> str:
        given = _value_of(found)
        before = text[: found.start()]
        is_of_user = (
            _BEFORE_USER.fullmatch(without_environment(before)) and "@" in text[found.end() :]
        )
        if is_of_user:
            return quote(given, safe="")
        return given

    return _BRACES.sub(value, text)


def has_braces(text: str) -> bool:
    """Whether a text has braces that `with_environment` would replace, or refuse."""
    return _BRACES.search(text) is not None


def with_names(said: str, text: str) -> str:
    """Put ``{{ env_var(NAME) }}`` in the place of each value in a message about a filled text.

    A value of one or two letters is left: it would be found in the middle of other words.  An excerpt
    of the statement is left out ("LINE 1: …" of DuckDB): it may contain a piece of a value.

    Parameters
    ----------
    said : str
        The message.
    text : str
        The text before it was filled in.
    """
    names = {_value_of(found): found.group() for found in _BRACES.finditer(text)}
    # the longest first, as a short value may be a part of a long one
    for value in sorted(names, key=len, reverse=True):
        if len(value) >= SHORTEST:
            said = said.replace(value, names[value])
    if names:
        said = _EXCERPT.sub("", said)
    return said


def values_in(text: str) -> list[str]:
    """List the values of the environment that a text names, as `with_environment` finds them."""
    return [_value_of(found) for found in _BRACES.finditer(text)]


def without_environment(text: str) -> str:
    """Leave out what `with_environment` would replace: the rest is written in the text itself."""
    return _BRACES.sub("", text)


def _value_of(found: re.Match[str]) -> str:
    """The value of one pair of braces."""
    call = _CALL.fullmatch(found.group(1))
    if call is None:
        raise ValueError(
            f"{found.group()} is not known: write {{{{ env_var(NAME) }}}}, or {{{{ "
            f'env_var(NAME, "default") }}}}; templates of Airflow and dbt are not filled in here'
        )
    name = call["name"]
    default = call["default"]
    given = os.environ.get(name, default)
    if given is None:
        raise ValueError(
            f"the environment variable {name} is not set: set it, or give a default, "
            f'{{{{ env_var({name}, "default") }}}}'
        )
    return given


def is_shown(name: str) -> bool:
    """Whether the value of a variable of the environment may be shown."""
    return SHOWN_VARIABLES.fullmatch(name) is not None
