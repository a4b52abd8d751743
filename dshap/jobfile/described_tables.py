"""The tables [columns] and [card]: the words of people for the columns and the model of a job."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, WithJsonSchema

from dshap.core.column_dictionary import COLUMNS, DIRECTIONS, ColumnDictionary
from dshap.core.model_card import CARD, CARD_FIELDS, checked_card
from dshap.core.wordings import ENGLISH, LANGUAGES, SENTENCES, Wording
from dshap.cube.described import Description
from dshap.jobfile.fields import or_say
from dshap.jobfile.kinds import Table, record_of
from dshap.jobfile.paths import FilePath, PathKey


class ColumnsTable(Table):
    """The table [columns]: a table of fields for each column, such as [columns.debt_ratio]."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, defer_build=True)
    _is_shared: bool = PrivateAttr(default=False)

    @property
    def is_shared(self) -> bool:
        """Whether it comes from a file, which may describe columns of other jobs too."""
        return self._is_shared

    def shared(self) -> ColumnsTable:
        """A copy that comes from a file."""
        copy = self.model_copy()
        copy._is_shared = True
        return copy

    @property
    def dictionary(self) -> ColumnDictionary:
        """The dictionary of columns that the table describes."""
        return ColumnDictionary.of(self.model_extra or {}, PLACE)


PLACE = f"[{COLUMNS}]"


def _columns(given: Any) -> ColumnsTable:
    """The table [columns], or the one in the file that it names.

    Raises
    ------
    ValueError
        No such file, no TOML, an unknown field, or a value that a field does not accept.
    """
    match given:
        case ColumnsTable():
            return given
        case str(path):
            return _columns(_tables_in(PathKey("file")(path))).shared()
        case Mapping():
            tables = dict(given)
        case _:
            raise ValueError(
                f"give a table for each column, like {PLACE[:-1]}.debt_ratio], or a file"
            )
    entries = ColumnDictionary.of(tables, "").to_dict()
    return ColumnsTable.model_validate(entries)


def _tables_in(path: str) -> dict[str, Any]:
    """The tables of a file of columns, which may be those of [columns] in it."""
    try:
        tables = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; give the path of a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    match tables:
        case {"columns": {**inner}} if len(tables) == 1:
            return {str(column): entry for column, entry in inner.items()}
    return tables


_ENTRY = {
    "type": "object",
    "properties": {
        "label": {"type": "string"},
        "unit": {"type": "string"},
        "format": {"type": "string"},
        "description": {"type": "string"},
        "order": {"type": "array"},
        "values": {"type": "object"},
        "direction": {"enum": [*DIRECTIONS]},
    },
    "additionalProperties": False,
}
"""The JSON schema of a table of one column."""
OF_COLUMNS = {"anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": _ENTRY}]}
"""The JSON schema of `columns`: the path of a file, or a table of each column."""
GivenColumns = Annotated[FilePath | ColumnsTable, BeforeValidator(_columns)]
"""The type of `columns` in a job."""
CardText = Annotated[
    str | int | float | date | Annotated[tuple[str, ...], Field(strict=False)],
    or_say("give a text, a number, a date, or a list of texts"),
    WithJsonSchema(
        {"anyOf": [{"type": ["string", "number"]}, {"type": "array", "items": {"type": "string"}}]},
        mode="validation",
    ),
]
CardTable = record_of("CardTable", (Table,), dict.fromkeys(CARD_FIELDS, (CardText | None, None)))
"""The table [card]: the fields of the card of the model."""


class SentencesTable(Table):
    """The table [sentences]: the language and the templates of sentences about reasons."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, defer_build=True)

    @property
    def wording(self) -> Wording:
        """The wording that the table describes."""
        return Wording.of(self.model_extra or {}, f"[{SENTENCES}]")


def _sentences(given: Any) -> SentencesTable:
    """The table [sentences], whose templates name fields that there are.

    Raises
    ------
    ValueError
        An unknown language, key or field.
    """
    match given:
        case SentencesTable():
            return given
    return SentencesTable.model_validate(Wording.of(given, "").to_dict())


OF_SENTENCES = {
    "type": "object",
    "properties": {
        "language": {"enum": [*LANGUAGES]},
        "k": {"type": "integer", "minimum": 1},
        "threshold": {"type": "number"},
        **{name: {"type": "string"} for name in ENGLISH},
    },
    "additionalProperties": False,
}
"""The JSON schema of [sentences]."""
SCHEMAS = {COLUMNS: OF_COLUMNS, SENTENCES: OF_SENTENCES}
"""Table whose keys are names of the user's, or of templates -> its JSON schema."""
GivenSentences = Annotated[Any, BeforeValidator(_sentences)]
"""The type of `sentences` in a job."""


def described_by_tables(columns: Any, card: Any, sentences: Any) -> Description:
    """The description of cubes in the tables [columns], [card] and [sentences] of a job."""
    fields = {name: value for name, value in card if value is not None}
    return Description(
        columns.dictionary,
        checked_card(fields, f"[{CARD}]"),
        sentences.wording,
        columns.is_shared,
    )
