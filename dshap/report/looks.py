"""How a picture is drawn: by which library, in which axes, and under which title."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dshap.analysis.column_texts import ColumnTexts, texts_of
from dshap.core.duck_typing import has_member
from dshap.core.errors import InputError, shown, unknown_name
from dshap.core.fixed_words import ChartLibrary
from dshap.core.rules import as_place
from dshap.cube import named_cubes
from dshap.report.labels import labels_of

CHARTS = ("matplotlib", "altair")
"""The libraries that draw pictures."""


@dataclass(frozen=True)
class Looks:
    """The options of a picture that change no number of it.

    Raises
    ------
    InputError
        An unknown library, or axes of matplotlib for a chart of another one.
    """

    ax: Any = None
    """The matplotlib axes to draw in; None: the axes of a new figure."""
    title: str = ""
    chart: ChartLibrary = "matplotlib"
    texts: ColumnTexts = field(default_factory=ColumnTexts)
    """The words of people for the columns."""

    def __post_init__(self) -> None:
        if self.ax is not None and not has_member(self.ax, "get_subplotspec"):
            raise InputError(f"ax is {shown(self.ax)}: give axes of matplotlib, or leave ax out")
        if self.chart not in CHARTS:
            raise InputError(unknown_name("chart", str(self.chart), CHARTS))
        if self.ax is not None and self.chart != "matplotlib":
            raise InputError(
                f"ax with chart={self.chart!r}: leave ax out, as only matplotlib draws in axes"
            )

    @property
    def labels(self) -> dict[str, str]:
        """Column -> the label that replaces its name, where the dictionary of columns has one."""
        entries = self.texts.dictionary.items()
        return {name: entry.label for name, entry in entries if entry.label}

    def axis_of(self, column: str, width: int, besides: str = "") -> str:
        """The words of the axis of a column: its label, and its unit and other words in brackets."""
        (name,) = labels_of([column], width, lines=1, given=self.labels)
        brackets = [words for words in (self.texts.unit_of(column), besides) if words]
        return f"{name} ({', '.join(brackets)})" if brackets else name

    def draw(
        self, record: Any, *, matplotlib: Callable[..., Any], altair: Callable[..., Any]
    ) -> Any:
        """Draw a record by the function of the library that is asked for."""
        by_library = {"matplotlib": matplotlib, "altair": altair}
        return by_library[self.chart](record, self)


def words_of_columns(cubes: Any, rows: Any = None) -> ColumnTexts:
    """The words for the columns of a cube, or of the first of several by name or in a store.

    There are none if these are no cubes; the picture reports this error.
    """
    first = cubes
    if has_member(cubes, "items") and not has_member(cubes, "data_vars"):
        first = next(iter(cubes.values()), None)
    with contextlib.suppress(InputError):
        if not has_member(first, "data_vars"):
            named = named_cubes(as_place("cube", first))
            first = next(iter(named.values()), first)
        return texts_of(first, rows)
    return ColumnTexts()
