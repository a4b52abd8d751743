"""What a load writes from the dictionary and the card of a cube: column comments, model version."""

from __future__ import annotations

from dshap.core.column_dictionary import COLUMNS, ColumnDictionary, ColumnEntry
from dshap.core.model_card import CARD, card_of_note
from dshap.core.places import Place
from dshap.cube.notes import read_notes


def dictionary_of(path: Place) -> ColumnDictionary:
    """The dictionary of columns in a cube; an empty one if it has none."""
    return ColumnDictionary.of_note(read_notes(path).get(COLUMNS))


def column_comments(path: Place) -> dict[str, str]:
    """Column -> its label, unit, description and direction as one comment, of those that have any."""
    dictionary = dictionary_of(path)
    found = {name: _comment(entry) for name, entry in dictionary.entries.items()}
    return {name: text for name, text in found.items() if text}


def version_in_card(path: Place) -> str:
    """The version of the model that its card states; empty if there is none."""
    return card_of_note(read_notes(path).get(CARD)).get("version", "")


def _comment(entry: ColumnEntry) -> str:
    label = entry.label
    if entry.unit:
        label = f"{label} ({entry.unit})".strip()
    return "; ".join(part for part in (label, entry.description, entry.direction) if part)
