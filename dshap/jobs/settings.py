"""Values of a job file that the command line sets: --set source.path=other.parquet."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from dshap.errors import InputError, unknown_name

__all__ = ["with_settings"]

FORM = "write --set TABLE.KEY=VALUE, like --set model.landmarks=300"


def with_settings(given: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """The tables of a job file with these values in the place of its own, or beside them; `given` is not changed.

    Parameters
    ----------
    given : the tables
    settings : "TABLE.KEY=VALUE", or "explain.NAME.KEY=VALUE" for the explanation of that name; the last of two counts.
        A value is read as TOML where it is TOML (300, 1e-4, true, ["hr", "temp"], "all"), else as text.

    Raises
    ------
    InputError
        Not of this form, or no explanation of that name.  Whether a table, a key and a value are allowed is left to
        the schema.
    """
    tables = copy.deepcopy(dict(given))
    for setting in settings:
        place, equals, text = setting.partition("=")
        name, dot, key = place.strip().partition(".")
        if not (equals and dot and name and key):
            raise InputError(f"--set {setting}: {FORM}")
        table = _explanation(tables, setting, key) if name == "explain" else tables.setdefault(name, {})
        key = key.rpartition(".")[2] if name == "explain" else key
        if not isinstance(table, dict) or "." in key:
            raise InputError(f"--set {setting}: no key of a table is addressed; {FORM}")
        table[key] = _value(text.strip())
    return tables


def _explanation(tables: Mapping[str, Any], setting: str, place: str) -> Any:
    """The table [[explain]] whose name stands before the key in "NAME.KEY"."""
    entries = tables.get("explain")
    named = {
        str(entry.get("name")): entry for entry in entries if isinstance(entry, dict)
    } if isinstance(entries, list) else {}  # fmt: skip
    name, dot, _ = place.rpartition(".")
    if not dot:
        raise InputError(
            f"--set {setting}: [[explain]] is a list of tables, so name one: explain.NAME.{place}=…, NAME one of "
            f"{', '.join(named) or 'none'}"
        )
    if name not in named:
        raise InputError(f"--set {setting}: {unknown_name('explanation', name, named)}")
    return named[name]


def _value(text: str) -> Any:
    """A number, truth value, list or table where the text is one in TOML, without its quotes where it has them."""
    try:
        read = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    value = read.get("value")
    return value if len(read) == 1 and isinstance(value, str | int | float | list | dict) else text
