"""Texts in job files: their source table, and the arguments of their value function."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from dshap.core.errors import InputError
from dshap.jobs.fields import Count, Names, NotEmpty, or_say
from dshap.jobs.kinds import CODE, ConstructedArgument, KindTable, Table
from dshap.jobs.paths import FilePath, TablePath

if TYPE_CHECKING:
    from dshap.jobs.arguments import Context


class TextTable(KindTable):
    """The table [source] of kind = "texts": a column of texts."""

    path: TablePath
    """The path of a Parquet file or folder, or a glob."""
    column: NotEmpty
    """The column of the texts: lists of token ids, or strings."""
    key: Names = ()
    """The column(s) that name a text."""
    tokenizer: Annotated[str, Field(pattern=CODE)] | None = None
    """"package.module:name" of a function, string -> token ids, where the texts are strings."""

    @property
    def target(self) -> None:
        """The target, None: nothing is fitted to texts."""
        return

    @property
    def missing(self) -> str:
        """The treatment of missing texts: they are refused."""
        return "refuse"


class TextBackgroundKeys(Table):
    """The key of the background that replaces absent tokens."""

    background: Count | None = None
    """The number of texts of the table, drawn with the job's seed; where left out, absent tokens
    become the reference token."""


class VocabularyKeys(Table):
    """The key of the token ids and their words."""

    vocabulary: (
        Annotated[
            Count | FilePath,
            or_say("give the number of token ids, or the path of a file with a word a line"),
        ]
        | None
    ) = None
    """The number of token ids, or a text file of their words, one per line in order of the ids."""


def _background(given: Any, context: Context) -> Any:
    """A seeded sample of texts of the table, or None."""
    if given.background is None:
        return None
    return context.table.texts(given.background)


def _vocabulary(given: Any, context: Context) -> Any:
    """The number of ids, or the list of words in a file."""
    if not isinstance(given.vocabulary, str):
        return given.vocabulary
    try:
        return Path(given.vocabulary).read_text().splitlines()
    except OSError as error:
        raise InputError(
            f"[[explain]] vocabulary = {given.vocabulary!r}: {error.strerror or error}"
        ) from error


TEXT_PARTS: Mapping[str, ConstructedArgument | None] = {
    "background": ConstructedArgument(_background, TextBackgroundKeys),
    "column": None,
    "tokenizer": None,
    "vocabulary": ConstructedArgument(_vocabulary, VocabularyKeys),
}
"""Parameter of the value function of texts -> how it is built; column and tokenizer are the
table's."""


def with_chains(given: Any, kinds: Collection[str]) -> Any:
    """Set the graph of a design to the chain of each text, where the rows are texts."""
    match given:
        case {"source": {"kind": "texts"}, "design": {"kind": kind, **rest}} if (
            kind in kinds and "graph" not in rest
        ):
            return {**given, "design": {**given["design"], "graph": "chain"}}
    return given
