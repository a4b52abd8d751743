"""Texts in job files: the arguments of their reader, and the arguments of their value function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from dshap.core.errors import InputError
from dshap.jobfile.fields import Count, NotEmpty, or_say
from dshap.jobfile.kinds import CODE, ConstructedArgument, Table, imported
from dshap.jobfile.paths import FilePath
from dshap.tables.texts import ANY_IDS

if TYPE_CHECKING:
    from dshap.jobfile.arguments import Context


class TextColumnKeys(Table):
    """The key of the column of texts."""

    column: NotEmpty
    """The column of the texts: lists of token ids, or strings."""


class TokenizerKeys(Table):
    """The key of the function that cuts strings into tokens."""

    tokenizer: Annotated[str, Field(pattern=CODE)] | None = None
    """"package.module:name" of a function, string -> token ids, where the texts are strings."""


def _ids(given: Any, _: Any) -> Any:
    """The vocabulary of the texts as they are in the table: any ids, and the tokenizer."""
    tokenizer = given.tokenizer and imported(given.tokenizer, "[source] tokenizer", "function ")
    return replace(ANY_IDS, tokenizer=tokenizer)


TEXT_FILES_PARTS: Mapping[str, ConstructedArgument | None] = {
    "column": ConstructedArgument(lambda given, _: given.column, TextColumnKeys),
    "longest": None,
    "vocabulary": ConstructedArgument(_ids, TokenizerKeys),
}
"""Parameter of the reader of texts -> how it is built; the longest text is found."""


class TextBackgroundKeys(Table):
    """The key of the background that replaces absent tokens."""

    background: Count | None = None
    """The number of texts of the table, drawn with the job's seed.  If left out, absent tokens are
    replaced by the reference token."""


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


def with_chains(given: Any, kinds: Callable[[], Collection[str]]) -> Any:
    """Set the graph of a design to the chain of each text, where the rows are texts.

    `kinds` gives the kinds of designs that have a graph.
    """
    match given:
        case {"source": {"kind": "texts"}, "design": {"kind": kind, **rest}} if (
            kind in kinds() and "graph" not in rest
        ):
            return {**given, "design": {**given["design"], "graph": "chain"}}
    return given
