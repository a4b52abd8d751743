"""The record of a model that a page's script computes, and the sentence if there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.attributors.method import Method
from dshap.core.records import FloatArray, State
from dshap.core.types import Explained, RowReader
from dshap.report.what_if.packing import packed, packed_bytes

MAX_BYTES = 300_000
"""The most characters of base64 text on a page: models and rows together."""
MAX_MODEL_BYTES = 240_000
"""The most characters of one model, so that there is room for rows."""


class NoWhatIf(Exception):
    """A model that the script of a page does not compute; the message is a clause with the reason."""


@dataclass(frozen=True, eq=False)
class LearnedParts:
    """The learned parts of a finished explanation, from which a what-if is made."""

    value: Any
    """The value function, over the active players."""
    base: FloatArray
    """(k,): the base value of each output."""
    states: tuple[State, ...]
    """The state of a closed form, or the states of the coalition tiles in their order."""
    data: RowReader | None
    """The background rows; None if they are not at hand any more."""


def packed_within(arrays: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The arrays of a model as base64 text; lists of parts stay lists.

    Raises
    ------
    NoWhatIf
        They need more than `MAX_MODEL_BYTES`; `what` names the model's sizes.
    """
    found: dict[str, Any] = _packed_all(arrays)
    n_bytes = packed_bytes(found)
    if n_bytes > MAX_MODEL_BYTES:
        raise NoWhatIf(
            f"{what} take {n_bytes // 1000:,} kB on the page, and at most "
            f"{MAX_MODEL_BYTES // 1000} kB are allowed"
        )
    return found


def _packed_all(content: Any) -> Any:
    """Arrays in mappings and lists in the form of `packed`."""
    if isinstance(content, Mapping):
        return {name: _packed_all(each) for name, each in content.items()}
    if isinstance(content, list):
        return [_packed_all(each) for each in content]
    return packed(content)


def refuse_more(count: int, limit: int, what: str, remedy: str = "") -> None:
    """Raise a `NoWhatIf` if there are more than `limit` of something."""
    if count > limit:
        raise NoWhatIf(f"{count:,} {what} are more than {limit:,}{remedy}")


def player_of_columns(value: Explained) -> list[int]:
    """Position of each column's player in the value function; −1 without a player."""
    members = value.players.members
    owner = np.where(members.any(axis=0), members.argmax(axis=0), -1)
    return [int(player) for player in owner]


def is_listed_whole(method: Method) -> bool:
    """Whether a method lists every coalition of its players."""
    return bool(method.info.is_whole)
