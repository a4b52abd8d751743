"""Versions of dshap and of its numerics: which of them wrote a store, and what has changed since.

The numerics have their own version, because a version of dshap may compute the same numbers as the
one before.  It is part of the fingerprint of every run and method, so that no store mixes two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dshap import __version__
from dshap.core.errors import StoreMismatchError

NUMERICS_VERSION = 25
"""The version of the numerics: raised when the same options give other numbers, with a line in
`CHANGES` and a new version of dshap."""
CHANGES: Mapping[int, str] = {
    2: "standard errors by leaving out groups of coalitions",
    3: "standard errors of kriging designs by leave-one-out",
    4: "the order in which coalitions are added up",
    5: "sums over coalitions that are computed without storing the values, and weights of kriging "
    "errors",
    6: "groups of the standard errors, the decay of kriging designs, singular covariances refused",
    7: "kernel_observational with one output",
    8: "sums over rows that share values",
    9: "the order in which rows are added up",
    10: "games of one player",
    11: "a separate Gaussian process for each row in kriging designs, and tol by Student's t",
    12: "decays of kriging designs, searched in half steps",
    13: "decays of kriging designs, if part of the coalitions does not determine them",
    14: "kriging designs of few coalitions, averaged over priors",
    15: "the pilot of kriging designs of few coalitions",
    16: "variances of sizes in kriging designs",
    17: "kriging designs of many players",
    18: "standard errors of kriging designs from 24 players on",
    19: "standard errors of rows that do not vary, and of permutation and kernelshap designs of few "
    "coalitions",
    20: "standard errors of values that are means over draws: gaussian, copula, a sampled background",
    21: "mean magnitudes and mean squares of values that are means over draws",
    22: "trees, now computed by dshap itself in double precision",
    23: "conditional_regression and kernel_observational learn from part of the rows if that is accurate "
    "enough, and kernel_observational folds its values to few landmarks",
    24: "permutation designs whose background has more rows than there are pairs of orders: each pair "
    "uses its own row",
    25: "permutation designs with fewer than 1,000 background rows in memory: every coalition uses "
    "all of them; backgrounds chosen from tables of more than 131,072 rows; kernel_observational, "
    "computed from sums of squares",
}
"""Version of the numerics -> its changes; docs/upgrading.md shows them."""

ADDED: Mapping[int, tuple[str, ...]] = {
    20: ("value.sample_of",),
    21: ("value.classes",),
    22: ("value.absent",),
    23: ("value.enough",),
    24: ("value.own_rows", "design.background_rows"),
}
"""Version of the numerics -> entries of fingerprints that came with it: runs of earlier versions
have none, with any options."""


def numerics() -> int:
    """The version of the numerics of this process."""
    return NUMERICS_VERSION


@dataclass(frozen=True)
class Writer:
    """The version of dshap that wrote a file, and the version of its numerics."""

    version: str
    """The version of dshap; empty if it was not recorded."""
    numerics: int

    @classmethod
    def here(cls) -> Writer:
        """The dshap of this process."""
        return cls(__version__, numerics())

    @classmethod
    def of(cls, record: Mapping[str, Any], numerics_of: Mapping[str, Any]) -> Writer:
        """The dshap that wrote a record with its `version`, and a fingerprint with its numerics."""
        return cls(str(record.get("version", "")), int(numerics_of.get("numerics", 0)))

    def __str__(self) -> str:
        version = self.version or "of an unknown version"
        return f"dshap {version} (numerics {self.numerics})"

    @property
    def is_other(self) -> bool:
        """Whether its numbers differ from the numbers of this process."""
        return self.numerics != numerics()

    @property
    def changes(self) -> str:
        """The numbers that differ between its numerics and this process, in words."""
        now = numerics()
        if self.numerics > now:
            return "its numerics are those of a later version"
        told = [f"{CHANGES[n]} ({n})" for n in range(self.numerics + 1, now + 1) if n in CHANGES]
        return f"changed since: {'; '.join(told)}"

    def refuse_other(self, made: str, remedy: str = "") -> None:
        """Raise a StoreMismatchError if its numbers differ from the numbers of this process.

        `made` are the words for what it wrote, such as "PATH was prepared".
        """
        if self.is_other:
            raise StoreMismatchError(
                f"{made} by {self}, and this is {Writer.here()}; {self.changes}{remedy}"
            )

    @property
    def unknown_entries(self) -> frozenset[str]:
        """Entries of fingerprints that it did not write yet."""
        later = (names for number, names in ADDED.items() if number > self.numerics)
        return frozenset(name for names in later for name in names)

    @property
    def remedy(self) -> str:
        """The remedy for files that it wrote, as the beginning of a sentence."""
        if self.version and self.version != __version__:
            return f"finish it with dshap {self.version}"
        return "finish it with the version that began it"
