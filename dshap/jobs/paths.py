"""Paths and addresses in a job file, by the rules of docs/job_files.md."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, Field
from pydantic.fields import FieldInfo

from dshap.core.addresses import reason_to_refuse
from dshap.core.rules import as_path

_BRACES = re.compile(r"\{\{(.*?)\}\}")
_CALL = re.compile(
    r"""\s*env_var\(\s*
    (?P<quote>["']?)(?P<name>[A-Za-z_]\w*)(?P=quote)\s*
    (?:,\s*(?P<mark>["'])(?P<default>.*?)(?P=mark)\s*)?
    \)\s*""",
    re.VERBOSE,
)


def with_environment(text: str) -> str:
    """Replace ``{{ env_var(NAME) }}`` or ``{{ env_var(NAME, "…") }}`` by the variable's value.

    Raises
    ------
    ValueError
        A variable that is not set and has no default, or something else in braces.
    """

    def value(found: re.Match[str]) -> str:
        call = _CALL.fullmatch(found.group(1))
        if call is None:
            raise ValueError(
                f"{found.group()} is not known: write {{{{ env_var(NAME) }}}}, or {{{{ "
                f'env_var(NAME, "default") }}}}'
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

    return _BRACES.sub(value, text)


def path_of(text: str, noun: str, folder: Path | None = None) -> str:
    """The absolute path that a text in a job file names.

    Parameters
    ----------
    text : a path, with "~", variables, or file:// before it
    noun : the kind of thing at the path, "store", "table", "file" or "picture"
    folder : the folder that it is relative to; the working directory where None

    Raises
    ------
    ValueError
        No path of a file system, or a variable that is not set.
    """
    given = with_environment(text)
    if not given:
        raise ValueError("the path is empty: give one")
    if reason := reason_to_refuse(given, noun):
        raise ValueError(reason)
    return os.path.normpath(as_path("the path", given, noun, folder))


@dataclass(frozen=True)
class PathKey:
    """The validator of a key that holds a path, relative to the working directory.

    Paths of a job file are absolute before it is asked.
    """

    noun: str
    """The kind of thing at the path: "store", "table", "file" or "picture"."""

    def __call__(self, text: str) -> str:
        path = path_of(text, self.noun)
        if self.noun == "picture" and not path.lower().endswith(".png"):
            raise ValueError("pictures are PNG files: give a path that ends in .png")
        return path


_Text = Annotated[str, Field(min_length=1)]
StorePath = Annotated[_Text, AfterValidator(PathKey("store"))]
TablePath = Annotated[_Text, AfterValidator(PathKey("table"))]
FilePath = Annotated[_Text, AfterValidator(PathKey("file"))]
PicturePath = Annotated[_Text, AfterValidator(PathKey("picture"))]
Address = Annotated[_Text, AfterValidator(with_environment)]
"""The type of a scheduler's address."""


def path_key(field: FieldInfo | None) -> PathKey | None:
    """The `PathKey` of a field; None where the field holds no path."""
    if field is None:
        return None
    return next(_path_keys((field.annotation, *field.metadata)), None)


def _path_keys(parts: Iterable[Any]) -> Iterator[PathKey]:
    for part in parts:
        match part:
            case AfterValidator(func=PathKey() as key):
                yield key
        yield from _path_keys(get_args(part))
