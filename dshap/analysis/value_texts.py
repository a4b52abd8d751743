"""Values of columns as pictures show them: in the words of the dictionary of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.column_texts import ColumnTexts
from dshap.analysis.column_values import value_name
from dshap.analysis.numbers_as_text import axis_texts, with_minus


def picture_value(texts: ColumnTexts, column: str, value: Any) -> str:
    """A value of a column as text, with the minus sign of typography."""
    text = texts.value_text(column, value)
    if np.asarray(value).dtype.kind in "iuf":
        return with_minus(text)
    return text


def texts_of_values(texts: ColumnTexts, column: str, values: NDArray[Any]) -> NDArray[Any]:
    """Values of a column as texts (n,)."""
    return np.array([picture_value(texts, column, value) for value in values], str)


def tick_texts(
    texts: ColumnTexts, column: str, ticks: Sequence[float], is_time: bool = False
) -> list[str]:
    """Numbers or times (in microseconds since 1970) beside the axis of a column, as text.

    They have the format of the dictionary of columns, if they differ in it.
    """
    plain = axis_texts(ticks)
    if is_time:
        plain = [value_name(tick, True) for tick in ticks]
    entry = texts.entry(column)
    if not (entry.values or entry.format or (not is_time and texts.is_year(column))):
        return plain
    values: list[Any] = list(ticks)
    if is_time:
        values = [np.datetime64(int(tick), "us") for tick in ticks]
    named = [picture_value(texts, column, value) for value in values]
    if len(set(named)) < len(named):
        return plain
    return named


def category_texts(texts: ColumnTexts, column: str, names: Sequence[str]) -> list[str]:
    """The names of categories as people read them; of flags "False" and "True"."""
    known = texts.entry(column).values
    return [known.get(name, known.get(name.lower(), name)) for name in names]
