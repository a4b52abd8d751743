"""The description of a cube by people, stored as notes: the dictionary of its columns, and a card.

No number of a cube depends on these notes, so that they may change when all rows are explained.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from dshap.core.column_dictionary import COLUMNS, ColumnDictionary
from dshap.core.errors import InputError
from dshap.core.model_card import CARD
from dshap.core.places import Place
from dshap.core.wordings import SENTENCES, Wording
from dshap.cube.opening import keep_opening
from dshap.cube.receipts import is_packed
from dshap.cube.reference_copy import is_finished, mark_finished, notes_of
from dshap.storage.sealed_files import ReceiptFolder


@dataclass(frozen=True)
class Description:
    """The dictionary, the card and the wording of a cube; one that is None stays as the cube has it."""

    columns: ColumnDictionary | None = None
    card: Mapping[str, str] | None = None
    sentences: Wording | None = None
    is_shared: bool = False
    """Whether the dictionary may have columns of other jobs too."""

    @property
    def notes(self) -> dict[str, dict[str, Any]]:
        """Name -> the note for a cube; an empty one if there is nothing to store."""
        found: dict[str, dict[str, Any]] = {}
        if self.columns is not None:
            found[COLUMNS] = self.columns.to_note()
        if self.card is not None:
            found[CARD] = dict(self.card)
        if self.sentences is not None:
            found[SENTENCES] = self.sentences.to_dict()
        return found


NOT_DESCRIBED = Description()
"""The description of a run that does not change the description of its cube."""


def wording_in(attributes: Mapping[str, Any]) -> Wording:
    """The wording of sentences in the attributes of a cube; English if there is none."""
    try:
        return wording_of_note(json.loads(attributes[SENTENCES]))
    except (KeyError, TypeError, ValueError):
        return Wording()


def wording_of_note(note: Any) -> Wording:
    """The wording in the note of a cube; English if there is none that this version reads."""
    try:
        return Wording.of(note)
    except InputError:
        return Wording()


def describe_cube(path: Place, description: Description) -> bool:
    """Store a description beside the cube at `path`; return whether that changed anything.

    Only the holder of the store's lock may ask.
    """
    if not description.notes:
        return False
    notes = notes_of(path)
    names = set(notes.names())
    changed = [
        name for name, note in description.notes.items() if not _is_kept(notes, names, name, note)
    ]
    for name in changed:
        if description.notes[name]:
            notes.put_over(name, description.notes[name])
        else:
            notes.remove(name)
    is_written = any(description.notes.values())  # a killed process may have left the list behind
    if (changed or is_written) and is_finished(path):
        mark_finished(path)
        if is_packed(path):
            keep_opening(path)
    return bool(changed)


def _is_kept(notes: ReceiptFolder, names: Set[str], name: str, note: dict[str, Any]) -> bool:
    """Whether a note is there, or is absent for an empty one; `names` are those there."""
    if note:
        return name in names and notes.holds(name, note)
    return name not in names
