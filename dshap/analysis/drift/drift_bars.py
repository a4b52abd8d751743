"""The record behind `drift_bars`: the part of each column in the drift, and the sum of the rest."""

from __future__ import annotations

from dataclasses import dataclass

from dshap.analysis.drift.drift_record import LEVEL, Drift
from dshap.analysis.numbers_as_text import with_minus
from dshap.analysis.shown_features import ShownFeatures


@dataclass(frozen=True)
class DriftBar:
    """One bar: a column, or the sum of all columns that are not shown."""

    name: str
    kind: str
    """One of "drift", where the adjusted p-value is at most 0.05, "none", and "sum"."""
    attribution: float
    std_error: float | None
    """Standard error; None for a sum, whose error is not known."""
    expected: float
    """The attribution without drift."""
    adjusted: float | None


@dataclass(frozen=True)
class DriftBars:
    """The drift of rows, and the columns that are shown."""

    found: Drift
    chosen: ShownFeatures

    @property
    def words_of_others(self) -> list[str]:
        """The words for the sum of the columns that are not shown, if there are any."""
        if not self.chosen.others:
            return []
        return [self.chosen.words_of_others.replace("feature", "column")]

    @property
    def lines(self) -> list[DriftBar]:
        """The bars from the top down."""
        by_name = {each.column: each for each in self.found.columns}
        bars = [
            DriftBar(
                name,
                "drift" if by_name[name].adjusted <= LEVEL else "none",
                by_name[name].attribution,
                by_name[name].std_error,
                by_name[name].expected,
                by_name[name].adjusted,
            )
            for name in self.chosen.shown
        ]
        rest = [by_name[name] for name in self.chosen.others]
        for words in self.words_of_others:
            total = sum(each.attribution for each in rest)
            expected = sum(each.expected for each in rest)
            bars.append(DriftBar(words, "sum", total, None, expected, None))
        return bars

    @property
    def words(self) -> str:
        """The words of the axis."""
        return with_minus(
            f"part of MMD² ({self.found.mmd2:.3g}, p = {self.found.p_value:.3g}); grey: without drift"
        )
