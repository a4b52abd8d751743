"""Paths and addresses in a job file, by the rules of docs/job_files.md."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, Field
from pydantic.fields import FieldInfo

from dshap.core.addresses import bucket_fault, is_of_bucket, reason_to_refuse, scheme_of
from dshap.core.environment import with_environment, without_environment
from dshap.core.errors import InputError
from dshap.core.places import place_of
from dshap.core.rules import as_path
from dshap.warehouse.databases import IN_FILES, Database, file_of, secrets_of
from dshap.warehouse.queries import AS_OF, Query

IN_BUCKETS = ("store", "table")
"""The kinds of things that may be in a bucket."""


def path_of(text: str, noun: str, folder: Path | None = None) -> str:
    """The absolute path that a text in a job file names.

    Parameters
    ----------
    text : a path, with "~", variables, or file:// before it
    noun : the kind of thing at the path, "store", "table", "file", "folder", "picture", "page", "key" (a path,
        or PEM text from the environment), "database" (an address) or "profile" (a name, or a path that ends in .toml)
    folder : the folder that it is relative to; the working directory if None

    Raises
    ------
    ValueError
        No path of a file system, or a variable that is not set.
    """
    given = with_environment(text)
    if not given:
        raise ValueError("the path is empty: give one")
    if noun == "database":
        return _address_of(text, given, folder)
    if noun == "key" and is_pem(given):
        return _pem_of(text)
    if noun == "profile" and not given.endswith(".toml"):
        return given
    if noun in IN_BUCKETS and is_of_bucket(given):
        if reason := bucket_fault(given, noun):
            raise ValueError(reason)
        return str(place_of(given))
    if reason := reason_to_refuse(given, noun):
        raise ValueError(reason)
    return os.path.normpath(as_path("the path", given, noun, folder))


def _address_of(text: str, given: str, folder: Path | None) -> str:
    """The address of a database: absolute for a file, and otherwise unchanged.

    Values of the environment are not filled in, so that no job contains a secret.
    """
    if scheme_of(given) in IN_FILES:
        path = as_path("the path", file_of(given), "database", folder)
        return f"{scheme_of(given)}:///{os.path.normpath(path)}"
    Database(given)
    if secrets_of(without_environment(text)):
        raise ValueError(
            "the password is written in the job file: write {{ env_var(NAME) }} in its place, or "
            "leave it out and set PGPASSWORD or PGPASSFILE"
        )
    return text


def is_pem(text: str) -> bool:
    """Whether a text is a key itself, in PEM text, and not the path of its file."""
    return text.lstrip().startswith("-----BEGIN ")


def _pem_of(text: str) -> str:
    """A key as the job file has it: its text is in the environment alone."""
    if is_pem(text):
        raise ValueError(
            "the private key is written in the job: write {{ env_var(NAME) }} in its place, or "
            "the path of its file"
        )
    return text


@dataclass(frozen=True)
class PathKey:
    """The validator of a key with a path, relative to the working directory.

    The paths of a job file have been made absolute before.
    """

    noun: str
    """The kind of thing at the path: "store", "table", "file", "folder", "picture" or "page"."""

    def __call__(self, text: str) -> str:
        path = path_of(text, self.noun)
        if self.noun == "picture" and not path.lower().endswith(".png"):
            raise ValueError("pictures are PNG files: give a path that ends in .png")
        if self.noun == "page" and not path.lower().endswith((".html", ".htm")):
            raise ValueError("pages are HTML files: give a path that ends in .html")
        return path


_Text = Annotated[str, Field(min_length=1)]
StorePath = Annotated[_Text, AfterValidator(PathKey("store"))]
TablePath = Annotated[_Text, AfterValidator(PathKey("table"))]
FilePath = Annotated[_Text, AfterValidator(PathKey("file"))]
KeyPath = Annotated[_Text, AfterValidator(PathKey("key"))]
"""The type of a key: the path of its file, or a value of the environment that is the key itself."""
FolderPath = Annotated[_Text, AfterValidator(PathKey("folder"))]
PicturePath = Annotated[_Text, AfterValidator(PathKey("picture"))]
PagePath = Annotated[_Text, AfterValidator(PathKey("page"))]
DatabaseAddress = Annotated[_Text, AfterValidator(PathKey("database"))]
"""The type of a database's address, whose secrets stay where the environment has them."""
ConnectionProfile = Annotated[_Text, AfterValidator(PathKey("profile"))]
"""The type of a connection profile's name or path."""
ProfilePath = Annotated[_Text, AfterValidator(PathKey("profile"))]
"""The type of a cluster profile's name or path."""
Address = _Text
"""The type of a scheduler's address."""


def database_of(uri: str | None, connection: str | None) -> Database:
    """Build the database of the keys `uri` and `connection`, with the secrets of the environment.

    Raises
    ------
    InputError
        None of both, both, or a variable that is not set.
    """
    try:
        return Database(uri=with_environment(uri or ""), connection=connection or "")
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"uri: {error}") from None


def query_of(query: str | None, table: str | None) -> Query:
    """Build the rows that the keys `query` and `table` name, with the values of the environment.

    Messages and records show the query as it is written, so that no value of it is in them.

    Raises
    ------
    InputError
        None of both, both, a variable that is not set, or braces that are filled in by others.
    """
    written = query or ""
    try:
        return Query(with_environment(written), table or "", written)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(
            f"query: {error}; {AS_OF} is the date of the run, which --as-of sets (if braces belong "
            "to SQL, as in '{{1, 2}, {3, 4}}', write { { with a blank between)"
        ) from None


def path_key(field: FieldInfo | None) -> PathKey | None:
    """The `PathKey` of a field; None if the field has no path."""
    for mark in marks_of(field):
        match mark:
            case AfterValidator(func=PathKey() as key):
                return key
    return None


def marks_of(field: FieldInfo | None) -> Iterator[Any]:
    """The parts of the type of a field, with the marks in `Annotated` ones; none without a field."""
    if field is not None:
        yield from _parts_within((field.annotation, *field.metadata))


def _parts_within(parts: Iterable[Any]) -> Iterator[Any]:
    for part in parts:
        yield part
        yield from _parts_within(get_args(part))
