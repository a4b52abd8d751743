"""How a picture is drawn: by which library, in which axes, and under which title."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dshap.core.errors import InputError, unknown_name

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
    """The matplotlib axes to draw in; None: those of a new figure."""
    title: str = ""
    chart: str = "matplotlib"
    labels: Mapping[str, str] = field(default_factory=dict)
    """Column -> the label that stands for its name."""

    def __post_init__(self) -> None:
        if self.chart not in CHARTS:
            raise InputError(unknown_name("chart", str(self.chart), CHARTS))
        if self.ax is not None and self.chart != "matplotlib":
            raise InputError(
                f"ax with chart={self.chart!r}: leave ax out, as only matplotlib draws in axes"
            )

    def draw(
        self, record: Any, *, matplotlib: Callable[..., Any], altair: Callable[..., Any]
    ) -> Any:
        """Draw a record by the function of the library that is asked for."""
        by_library = {"matplotlib": matplotlib, "altair": altair}
        return by_library[self.chart](record, self)


def labels_of_columns(cube: Any) -> dict[str, str]:
    """The labels that stand for names of columns; none before a cube has a dictionary of them."""
    return {}
