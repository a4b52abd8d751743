"""The description of the columns and the model of a run, checked against its columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from dshap.core.column_dictionary import COLUMNS, ColumnDictionary, dictionary_of_frame
from dshap.core.model_card import CARD, checked_card
from dshap.core.types import RowReader
from dshap.cube.described import NOT_DESCRIBED, Description
from dshap.run.explanation import Explanation
from dshap.run.in_memory import ExplanationInMemory
from dshap.tables.reader import categories_of, plain_numbers


def described_by_call(columns: Any, card: Any) -> Description:
    """The description from the options `columns` and `card` of a call; None: that of the store.

    Raises
    ------
    InputError
        An unknown field, or a value that a field does not accept.
    """
    found = NOT_DESCRIBED
    if columns is not None:
        found = replace(found, columns=ColumnDictionary.of(columns, COLUMNS))
    if card is not None:
        found = replace(found, card=checked_card(card, CARD))
    return found


def described[Kind: Explanation | ExplanationInMemory](
    explanation: Kind, description: Description, rows: Any
) -> Kind:
    """Give an explanation its description, which names columns that it has.

    Columns that the description lacks may have an entry in the `attrs` of the rows.

    Raises
    ------
    InputError
        An unknown column or category; the message names those that are near.
    """
    named = describable_names(explanation.layout.run["fingerprint"])
    of_rows = dictionary_of_frame(rows).only(named)
    if of_rows:
        own = description.columns or ColumnDictionary()
        description = replace(description, columns=own.over(of_rows))
    refuse_misnamed(description, named, explanation.work.rows)
    return replace(explanation, description=description)


def refuse_misnamed(
    description: Description,
    known: Collection[str],
    reader: RowReader | None = None,
    place: str = COLUMNS,
) -> None:
    """Raise an error if a dictionary names columns or categories that a run does not have.

    Parameters
    ----------
    description : the dictionary and the card
    known : the names of columns, groups of columns, keys, targets and outputs
    reader : the rows, whose reader has the categories of text columns; None if they are not open
    place : the place of the dictionary, in messages

    Raises
    ------
    InputError
        An unknown column or category, with the near names in the message; or `values` of a column
        of numbers that are not numbers.
    """
    if not description.columns:
        return
    if description.is_shared:
        description.columns.refuse_mistyped(known, place)
    else:
        description.columns.refuse_unknown(known, place)
    if reader is not None:
        listed = {
            name: [str(each) for each in values] for name, values in categories_of(reader).items()
        }
        description.columns.refuse_categories(listed, place)
        description.columns.refuse_texts_of_numbers(plain_numbers(reader), place)


def describable_names(fingerprint: Mapping[str, Any]) -> list[str]:
    """The names that a dictionary may describe, in the fingerprint of a run."""
    parts = ("features", "players", "keys", "outputs")
    return list(dict.fromkeys(str(name) for part in parts for name in fingerprint.get(part, ())))
