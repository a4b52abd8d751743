"""Parts that all Altair charts share: data, axes, legends, colours and sizes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from dshap.analysis.numbers_as_text import MINUS, with_minus
from dshap.core.errors import InputError
from dshap.core.printing import label
from dshap.core.records import FloatArray
from dshap.report.panels import BETWEEN, BLUE, RED
from dshap.report.picture_files import TITLE

WIDTH = 560
"""The width of a chart, in pixels."""
ROW_PIXELS = 30
"""The height of a feature's row."""
NUMBERS = ",.12~f"
"""The format of numbers beside an axis: thousands are marked, and zeros at the end left out."""
GRADIENT = (BLUE, *BETWEEN, RED)
"""The colours from low to high values."""
STRENGTH = 1.5
"""The width of a line, in pixels."""


def import_altair() -> Any:
    """Import Altair, when a chart is drawn.

    Raises
    ------
    InputError
        Altair is not installed; the message names the extra to install.
    """
    if find_spec("altair") is None:
        raise InputError('chart="altair" needs Altair: pip install "dshap[altair]"')
    import altair

    return altair


def table(rows: Iterable[Mapping[str, Any]]) -> Any:
    """The data of a chart from its rows; NaN become missing values."""
    alt = import_altair()
    return alt.Data(values=[{name: _plain(value) for name, value in row.items()} for row in rows])


def _plain(value: Any) -> Any:
    """A value in a type of JSON."""
    if isinstance(value, (str, bool)) or value is None:
        return value
    number = float(value)
    if not np.isfinite(number):
        return None
    return number


def named_axis(values: Sequence[float], names: Sequence[str], **options: Any) -> Any:
    r"""An axis with a name at each of these values, on two lines if it has a ``\n``."""
    alt = import_altair()
    places = [float(value) for value in values]
    lines = [name.split("\n") for name in names]
    return alt.Axis(
        values=places,
        labelExpr=f"{json.dumps(lines)}[indexof({json.dumps(places)}, datum.value)]",
        labelLimit=400,
        labelOverlap=False,
        **options,
    )


def rows_axis(labels: Sequence[str], field: str = "y") -> Any:
    """The vertical axis of a chart of lines: line 0 is at the top."""
    alt = import_altair()
    axis = named_axis(range(len(labels)), labels, title=None, grid=False, ticks=False, domain=False)
    ends = [len(labels) - 0.4, -0.6]
    return alt.Y(f"{field}:Q", scale=alt.Scale(domain=ends, nice=False, zero=False), axis=axis)


def numbers_axis(
    channel: str, field: str, words: str | list[str], limits: tuple[float, float] | None = None
) -> Any:
    """An axis of numbers, x or y, with the same texts as all pictures."""
    alt = import_altair()
    scale = alt.Scale(zero=False, nice=limits is None)
    if limits is not None:
        scale = alt.Scale(domain=list(limits), nice=False, zero=False)
    axis = alt.Axis(format=NUMBERS, grid=False, title=words)
    return {"x": alt.X, "y": alt.Y}[channel](f"{field}:Q", scale=scale, axis=axis)


def hover(*fields: str) -> list[Any]:
    """The texts under the pointer: the values of these fields, with the names of the fields."""
    alt = import_altair()
    return [alt.Tooltip(f"{field}:N") for field in fields]


def as_given(field: str = "colour") -> Any:
    """Colours from the data, such as "#008bfb"."""
    alt = import_altair()
    return alt.Color(f"{field}:N", scale=None)


def colours_legend(title: str, names: Sequence[str] = ("low", "high")) -> Any:
    """A layer with only a colour bar, from low to high."""
    alt = import_altair()
    places = [0.5] if len(names) == 1 else np.linspace(0.0, 1.0, len(names)).tolist()
    expression = f"{json.dumps(list(names))}[indexof({json.dumps(places)}, datum.value)]"
    legend = alt.Legend(
        title=title, titleLimit=400, values=places, labelExpr=expression, gradientThickness=8
    )
    scale = alt.Scale(domain=[0.0, 1.0], range=list(GRADIENT), interpolate="rgb")
    return (
        alt.Chart(table([{"place": 0.0}, {"place": 1.0}]))
        .mark_point(opacity=0)
        .encode(color=alt.Color("place:Q", scale=scale, legend=legend))
    )


def names_legend(title: str, names: Sequence[str], colours: Sequence[str], offset: int = 18) -> Any:
    """A layer with only a legend of names and colours, `offset` pixels beside the chart."""
    alt = import_altair()
    scale = alt.Scale(domain=list(names), range=list(colours))
    return (
        alt.Chart(table([{"name": name} for name in names]))
        .mark_square(opacity=0)
        .encode(
            color=alt.Color(
                "name:N",
                scale=scale,
                legend=alt.Legend(
                    title=title, symbolOpacity=1, labelLimit=240, titleLimit=240, offset=offset
                ),
            )
        )
    )


def rule_at(
    value: float, colour: str, channel: str = "x", dash: Sequence[int] = (), **places: Any
) -> Any:
    """A line across the chart at a number; `places` can shorten it."""
    alt = import_altair()
    at = {"x": alt.X("at:Q"), "y": alt.Y("at:Q")}[channel]
    line = alt.Chart(table([{"at": value}])).mark_rule(
        color=colour, strokeDash=list(dash) or [1, 0]
    )
    return line.encode(**{channel: at}, **places)


def number_under_pointer(field: str, title: str) -> Any:
    """A number under the pointer, with four digits."""
    alt = import_altair()
    return alt.Tooltip(f"{field}:Q", title=title, format="+,.4~r")


def points_chart(lines: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> Any:
    """A chart of points, with a record for each of its lines.

    The `fields` of a record are lists, with an entry for each of its points.  All points of a
    record share its other fields.
    """
    # why lists: 20 lines of 2,000 points are a megabyte, and a record for each point would repeat
    # the names of all fields
    alt = import_altair()
    return alt.Chart(alt.Data(values=[dict(line) for line in lines])).transform_flatten([*fields])


def four_digits(values: FloatArray) -> list[float]:
    """Numbers (n,) rounded to four digits, as the texts under the pointer show them."""
    return [float(f"{value:.4g}") for value in values.tolist()]


def short_text(text: str) -> str | float:
    """A text, or a number that charts write as the same text (`TEXT_OF_SHORT`): JSON is shorter."""
    try:
        number = float(text.replace(",", "").replace(MINUS, "-"))
    except ValueError:
        return text
    if not np.isfinite(number) or _written(number) != text:
        return text
    return number


TEXT_OF_SHORT = (
    f"isNumber(datum.{{field}}) ? format(datum.{{field}}, '{NUMBERS}') : datum.{{field}}"
)
"""A Vega expression that turns a field with results of `short_text` into texts."""


def _written(number: float) -> str:
    """A number as text in the format `NUMBERS`."""
    text = f"{number:,.12f}"
    return with_minus(text.rstrip("0").rstrip("."))


def names_of_lines(chart: Any, names: Sequence[str]) -> Any:
    """Add the field `feature` to a chart: the name of the line of each row of data."""
    return chart.transform_calculate(feature=f"{json.dumps(list(names))}[datum.line]")


def layered(layers: Sequence[Any], title: str, height: float, width: float = WIDTH) -> Any:
    """Combine layers into one chart."""
    alt = import_altair()
    chart = alt.layer(*layers).properties(width=width, height=height)
    if title:
        chart = chart.properties(title=label(title, TITLE))
    # without it Vega-Lite gives all layers one scale of colours and one legend
    return chart.resolve_scale(color="independent").configure_view(stroke=None)


def hex_colours(colours: FloatArray) -> list[str]:
    """Colours such as "#008bfb" from red, green and blue (n, 3), 0 to 1."""
    whole = np.rint(255 * np.clip(colours, 0.0, 1.0)).astype(int)
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in whole.tolist()]
