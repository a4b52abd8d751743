"""What all kinds of places need for one erasure: the keys, and facts about their rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dshap.core.places import Place
from dshap.erasure.reached_jobs import ReachedJobs
from dshap.tables.keys.wanted import WantedKeys
from dshap.tables.parts_without import SeenTexts


@dataclass
class ErasureWork:
    """Everything that the kinds of places need to erase the rows of some keys."""

    store: Place
    keys: WantedKeys
    jobs: ReachedJobs = field(default_factory=ReachedJobs)
    """The jobs of the store, whose sinks and pages are reached."""
    say: Callable[[str], None] = lambda _: None
    positions: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """Cube, by its name in the store -> the positions of the rows."""
    texts: SeenTexts = field(default_factory=SeenTexts)
    """The texts of the columns of all rows of the store."""
    has_texts: bool = False
    """Whether the texts of rows are known, from parts or from stored columns of a cube."""
    withdrawn: set[str] = field(default_factory=set)
    """The explanations whose method was learned from such a row."""
    sinks: dict[str, int] = field(default_factory=dict)
    """Sink -> the number of lines that were removed."""
    left: list[str] = field(default_factory=list)
    """The places that could not be reached, in words."""
    counts: dict[str, int] = field(default_factory=dict)
    """Kind of places -> the number of rows, or files, that were erased there."""

    def count(self, kind: str, n: int = 1) -> None:
        """Count erased entries in a kind of places."""
        if n:
            self.counts[kind] = self.counts.get(kind, 0) + n


class HoldsRows(ABC):
    """A kind of places that contain rows of persons: finds and erases them there."""

    noun: str
    """The name of the kind, in the plural."""

    def find(self, work: ErasureWork) -> set[int]:
        """The numbers of the wanted keys that occur here; also note positions and texts of rows."""
        return set()

    @abstractmethod
    def erase(self, work: ErasureWork) -> None:
        """Erase the rows; if the process is killed, the same call again erases the rest."""


def found_keys(kinds: Mapping[str, str], wanted: WantedKeys) -> bool:
    """Whether a place has the key columns of the wanted keys."""
    return set(wanted.names) <= set(kinds)
