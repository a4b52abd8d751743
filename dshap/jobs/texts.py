"""Texts in job files: the table of them, and what their value function is made with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from dshap.core.errors import InputError
from dshap.jobs.fields import Count, Names, NotEmpty, or_say
from dshap.jobs.kinds import CODE, KindTable, Part, Table
from dshap.jobs.paths import FilePath, TablePath

if TYPE_CHECKING:
    from dshap.jobs.arguments import Context
    from dshap.jobs.schema import Job

__all__ = ["TEXT_PARTS", "TextTable", "check_of_texts", "with_chains"]


class TextTable(KindTable):
    """[source] kind = "texts": a column of texts."""

    path: TablePath
    """Parquet: file, folder or glob."""
    column: NotEmpty
    """Lists of token ids, or strings."""
    key: Names = ()
    """Column(s) that name a text."""
    tokenizer: Annotated[str, Field(pattern=CODE)] | None = None
    """"package.module:name", string -> token ids, where the texts are strings."""

    @property
    def target(self) -> None:
        """Nothing is fitted to texts."""
        return

    @property
    def missing(self) -> str:
        """A text that lacks is refused."""
        return "refuse"


class TextBackgroundKeys(Table):
    """What absent tokens are taken from."""

    background: Count | None = None
    """As many texts of the table, drawn with the job's seed; where left out absent tokens become
    the reference."""


class VocabularyKeys(Table):
    """Token ids, and their words."""

    vocabulary: (
        Annotated[
            Count | FilePath,
            or_say("give the number of token ids, or the path of a file with a word a line"),
        ]
        | None
    ) = None
    """How many token ids there are, or a text file of their words, one a line in the order of the
    ids."""


def _background(given: Any, context: Context) -> Any:
    """Texts of the table, as they are: a seeded sample."""
    if given.background is None:
        return None
    return context.table.texts(given.background)


def _vocabulary(given: Any, context: Context) -> Any:
    """The number of ids, or the words of a file."""
    if not isinstance(given.vocabulary, str):
        return given.vocabulary
    try:
        return Path(given.vocabulary).read_text().splitlines()
    except OSError as error:
        raise InputError(
            f"[[explain]] vocabulary = {given.vocabulary!r}: {error.strerror or error}"
        ) from error


TEXT_PARTS: Mapping[str, Part | None] = {
    "background": Part(_background, TextBackgroundKeys),
    "column": None,
    "tokenizer": None,
    "vocabulary": Part(_vocabulary, VocabularyKeys),
}
"""Of the value function of texts, whose column and tokenizer are those of the table."""


def with_chains(given: Any, kinds: Collection[str]) -> Any:
    """The tables of a job; of texts and a design of one of these kinds its graph is the chain of
    each text."""
    match given:
        case {"source": {"kind": "texts"}, "design": {"kind": kind, **rest}} if (
            kind in kinds and "graph" not in rest
        ):
            return {**given, "design": {**given["design"], "graph": "chain"}}
    return given


def check_of_texts(job: Job) -> None:
    """A ValueError where a table of texts is to be explained by a value of columns, or the other
    way round."""
    for explain in job.explain:
        if (explain.value == "tokens") != job.is_of_texts:
            raise ValueError(
                f'[[explain]] {explain.name}: value = "tokens" explains [source] kind = "texts", '
                "and nothing else "
                "does: give both or neither"
            )
    if job.is_of_texts and not job.is_imported:
        raise ValueError(
            '[source] kind = "texts" is explained by a predict function: give [model] kind = '
            '"import"'
        )
