"""Values of the environment in the texts of a job file, by the rule of docs/job_files.md.

`{{ env_var(NAME) }}` is filled in everywhere except in [worker] environment, which refuses it.  In
the address of a database and in a query this happens when they are used, so that no record contains
a secret; in paths, `paths.path_of` does it; in all other texts, this module.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from dshap.core.addresses import masked
from dshap.core.environment import has_braces, with_environment
from dshap.core.errors import InputError
from dshap.jobfile.fields import unfilled
from dshap.jobfile.given_tables import keys_of_tables
from dshap.jobfile.paths import path_key


def with_values_of_environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the values of the environment in the tables of a job, which are not changed.

    Raises
    ------
    InputError
        A variable that is not set, something else in braces, or braces where none are filled in.
    """
    tables = copy.deepcopy(dict(given))
    for each in keys_of_tables(tables):
        mark = unfilled(each.field)
        if path_key(each.field) is not None or (mark is not None and not mark.refusal):
            continue
        refusal = ""
        if mark is not None:
            refusal = mark.refusal
        each.table[each.key] = _filled(f"{each.place} {each.key}", each.value, refusal)
    return tables


def _filled(place: str, value: Any, refusal: str) -> Any:
    """A value with the texts in it filled in, in lists and in tables too."""
    match value:
        case str():
            return _filled_text(place, value, refusal)
        case list():
            return [_filled(place, each, refusal) for each in value]
        case dict():
            return {name: _filled(f"{place}.{name}", each, refusal) for name, each in value.items()}
    return value


def _filled_text(place: str, text: str, refusal: str) -> str:
    try:
        if refusal and has_braces(text):
            raise ValueError(refusal)
        return with_environment(text)
    except ValueError as error:
        raise InputError(f'{place} = "{masked(text)}": {error}') from None
