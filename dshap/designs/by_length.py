"""Designs made by a function of the number of players, for texts of different lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dshap.core.blocks import CoalitionBlock, DesignInfo
from dshap.core.duck_typing import name_of
from dshap.core.errors import InputError, shown
from dshap.core.records import FloatArray
from dshap.core.types import Design
from dshap.designs.coalitions import BaseDesign


@dataclass(frozen=True)
class DesignByLength(BaseDesign):
    """The design that a function makes for a number of players.

    Its fingerprint has the name of the function, and the designs that the function makes for
    `n_players` and for half as many players.
    """

    kind = "by_length"
    make: Callable[[int], Design]
    """Function of a number of players that returns the design."""
    n_players: int
    """Number of players d."""

    @cached_property
    def made(self) -> Design:
        """The design for `n_players`; InputError if the function returns none."""
        found = self.make(self.n_players)
        if not isinstance(found, Design) or found.info.n_players != self.n_players:
            raise InputError(
                f"design is a function, and for {self.n_players} players it returned {shown(found)}: "
                "let it return a design of that many players, like lambda d: "
                "dshap.designs.kernelshap(d, 4 * d)"
            )
        return found

    @property
    def info(self) -> DesignInfo:
        return self.made.info

    def block(self, start: int, stop: int) -> CoalitionBlock:
        return self.made.block(start, stop)

    def finish(self, sums: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        return self.made.finish(sums, v_empty, v_full)

    def replicates(
        self, sums: FloatArray, groups: FloatArray, v_empty: FloatArray, v_full: FloatArray
    ) -> FloatArray:
        return self.made.replicates(sums, groups, v_empty, v_full)

    def with_players(self, n_players: int) -> DesignByLength:
        return DesignByLength(self.make, n_players)

    def fingerprint(self) -> dict[str, Any]:
        # a function has no values to compare, and another one may have its name: its designs for
        # two lengths stand for it
        half = self.with_players((self.n_players + 1) // 2)
        made = [each.made.fingerprint() for each in (self, half)]
        return {"design": self.kind, "function": name_of(self.make), "made": made}
