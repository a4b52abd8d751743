"""The words of people for columns and numbers: labels, values in their formats, years, digits.

`texts_of(cube)` returns the words for a cube; its example shows them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.column_values import Columns, as_numbers, columns_of, has_order
from dshap.analysis.numbers_as_text import number_text, shown_value, with_error_text
from dshap.core.blocks import Status
from dshap.core.column_dictionary import (
    COLUMNS,
    ColumnDictionary,
    ColumnEntry,
    formatted,
    formatted_time,
    is_time_format,
    is_year_format,
)
from dshap.core.duck_typing import has_member
from dshap.core.errors import InputError
from dshap.core.model_card import CARD, card_in, card_of_note
from dshap.core.printing import LONGEST_LABEL, label
from dshap.core.rules import as_place
from dshap.cube import open_cube
from dshap.cube.columns import flags_of
from dshap.cube.current import cube_at
from dshap.cube.datasets import status_of
from dshap.cube.notes import read_notes
from dshap.cube.reader import key_texts

MISSING = "missing"
"""The text of a missing value."""
LOOKED_AT = 1_000
"""The rows that are looked at to see whether a column contains years."""
YEAR_NAME = re.compile(r"(?<![a-z])(years?|yr|jahr|ann[eé]e|a[nñ]o|anno)(?![a-z])|jahr$|year$")
"""The pattern of names of columns with years."""
NAMED_YEARS = (1000, 2999)
"""Whole numbers between these are years in a column with such a name."""
PLAIN_YEARS = (1900, 2100)
"""A column of different whole numbers, all between these, contains years for any name."""


@dataclass(frozen=True, eq=False)
class ColumnTexts:
    """The labels of columns, and their values as people read them.

    Without an entry a column is called by its name, and its numbers have four digits.
    """

    dictionary: ColumnDictionary = field(default_factory=ColumnDictionary)
    sample: Callable[[str], NDArray[Any] | None] = field(default=lambda column: None)
    """Function that returns some values of a column, by which years are found; None if none are
    known."""
    has_flags: Callable[[str], bool] = field(default=lambda column: False)
    """Function that returns whether the numbers 0 and 1 of a column are False and True."""

    @cached_property
    def _years(self) -> dict[str, bool]:
        """Column -> whether it contains years, of those that were asked for."""
        return {}

    def entry(self, column: str) -> ColumnEntry:
        """The entry of a column; one of empty fields if people wrote nothing."""
        return self.dictionary.entry(column)

    def label_of(self, column: str, longest: int = LONGEST_LABEL) -> str:
        """The label of a column, else its name; the middle of a longer one is left out."""
        return label(self.dictionary.label_of(column), longest)

    def unit_of(self, column: str) -> str:
        """The unit of a column; empty if there is none."""
        return label(self.entry(column).unit)

    def axis_of(self, column: str, longest: int = LONGEST_LABEL) -> str:
        """The words of an axis: the label of a column, and its unit in brackets."""
        unit = self.unit_of(column)
        return self.label_of(column, longest) + f" ({unit})" * bool(unit)

    def description_of(self, column: str) -> str:
        """The sentence about a column; empty if there is none."""
        return self.entry(column).description

    def direction_of(self, column: str) -> str:
        """The words "higher is better" or "lower is better"; empty if neither is known."""
        return self.entry(column).direction

    def order_of(self, column: str) -> tuple[str, ...]:
        """The categories of a column in their order; empty if none is known."""
        return self.entry(column).order

    def is_year(self, column: str) -> bool:
        """Whether a column contains years, by its format or else by its values.

        Without a format it does if all its values are whole numbers between 1900 and 2100, and
        not all the same; or between 1000 and 2999 if the name of the column has the word "year".
        """
        if self.entry(column).format:
            return is_year_format(self.entry(column).format)
        if column not in self._years:
            self._years[column] = _are_years(self.sample(column), has_year_name(column))
        return self._years[column]

    def has_text(self, column: str, value: Any) -> bool:
        """Whether the dictionary has a text for this value of a column."""
        return self._named_text(column, value) is not None

    def flag_of(self, column: str, value: Any) -> bool | None:
        """Whether a flag is set; None for a missing one, and for a value of another kind."""
        kind = np.asarray(value).dtype.kind
        is_flag = kind == "b" or (kind in "iuf" and value in (0, 1) and self.has_flags(column))
        if not is_flag:
            return None
        return bool(value)

    def _named_text(self, column: str, value: Any) -> str | None:
        """The text of the dictionary for a value; None if it has none."""
        values = self.entry(column).values
        keys = [_key_of(value)]
        flag = self.flag_of(column, value)
        if flag is not None:
            keys += [str(flag).lower(), str(int(flag))]
        return next((values[key] for key in keys if key in values), None)

    def named(self, column: str, text: str) -> str:
        """A value of a column, which is given as text, in the words of the dictionary."""
        return self.entry(column).values.get(text, text)

    def value_text(self, column: str, value: Any, with_unit: bool = False) -> str:
        """A value of a column as people read it: "81%", "1976", "spring", "missing".

        Parameters
        ----------
        column : the name of the column
        value : a number, flag, time or text; None, NaN and NaT are missing
        with_unit : whether the unit of the column follows the value
        """
        if is_missing(value):
            return MISSING
        entry = self.entry(column)
        named = self._named_text(column, value)
        if named is not None:
            return label(named)
        text = self._plain_text(column, value, entry)
        if with_unit and entry.unit:
            return f"{text} {self.unit_of(column)}"
        return text

    def _plain_text(self, column: str, value: Any, entry: ColumnEntry) -> str:
        values = np.asarray(value)
        flag = self.flag_of(column, value)
        if flag is not None:
            return shown_value(flag)
        if values.dtype.kind == "M":
            return _time_text(values, entry.format)
        if is_time_format(entry.format) and _is_time_text(value):
            return _time_text(np.asarray(value, "datetime64[us]"), entry.format)
        if values.dtype.kind not in "iuf":
            return shown_value(value)
        if self.is_year(column) and float(value).is_integer():
            return str(int(value))
        if entry.format and not is_year_format(entry.format) and np.isfinite(values):
            try:
                return formatted(float(value), entry.format)
            except ValueError:
                return shown_value(float(value))
        if values.dtype.kind in "iu":
            return f"{int(value):,}"
        return shown_value(float(value))

    @staticmethod
    def number_text(number: float | None, error: float | None = None, sign: bool = False) -> str:
        """A number in as many digits as its error leaves: see `numbers_as_text.number_text`."""
        return number_text(number, error, sign)

    @staticmethod
    def with_error_text(number: float | None, error: float | None, sign: bool = False) -> str:
        """A number and its error: see `numbers_as_text.with_error_text`."""
        return with_error_text(number, error, sign)


NO_TEXTS = ColumnTexts()
"""The words for columns of which nothing is known but their names."""


def texts_of(cube: Any, rows: Any = None) -> ColumnTexts:
    """The words for the columns of a cube; also for one without a dictionary.

    Parameters
    ----------
    cube : the Dataset of a cube, or the path of its store
    rows : data frame, table, or array (n, columns), optional
        The columns of the rows of the cube, as in pictures; they are looked at, at most 1,000
        rows, to see which columns contain years.  None: those that the cube was stored with.

    Examples
    --------
    >>> import pandas as pd, dshap
    >>> from dshap.analysis.column_texts import texts_of
    >>> X = pd.DataFrame({"built": [1976, 1999, 2004], "area": [1200.0, 900.0, 1530.0]})
    >>> value = dshap.values.Marginal(lambda x: x[:, 0] + x[:, 1], X)
    >>> cube = dshap.explain(value, X, columns={"area": {"label": "Area", "unit": "m²"}})
    >>> texts = texts_of(cube)
    >>> texts.axis_of("area"), texts.value_text("area", 1200.0), texts.value_text("built", 1976)
    ('Area (m²)', '1,200', '1976')
    """
    if _is_dataset(cube):
        dictionary = ColumnDictionary.of_attributes(cube.attrs)
        return _texts_with(dictionary, _Sample(cube, rows))
    path = cube_at(as_place("cube", cube))
    dictionary = ColumnDictionary.of_note(read_notes(path).get(COLUMNS))
    return _texts_with(dictionary, _Sample(path, rows))


def texts_of_first(cubes: Mapping[str, Any]) -> ColumnTexts:
    """The words for the columns of the first of several cubes, which are those of one job."""
    for cube in cubes.values():
        return texts_of(cube)
    return NO_TEXTS


def card_of(cube: Any) -> dict[str, str]:
    """The card of the model of a cube: field -> text, in the order in which a card is shown.

    It is empty if the cube has none.  `CARD_FIELDS` has the heading of each field.

    Parameters
    ----------
    cube : the Dataset of a cube, or the path of its store
    """
    if _is_dataset(cube):
        return card_in(cube.attrs)
    return card_of_note(read_notes(cube_at(as_place("cube", cube))).get(CARD))


def _is_dataset(cube: Any) -> bool:
    return has_member(cube, "data_vars")


@dataclass(frozen=True, eq=False)
class _Sample:
    """Some values of the columns of a cube, read when the first is asked for."""

    cube: Any
    """The Dataset, or the path of the store."""
    rows: Any

    @cached_property
    def _columns(self) -> Columns:
        try:
            return columns_of(self._dataset, self.rows)
        except InputError:  # of other rows than the store's: who needs the values says so
            return Columns({})

    @cached_property
    def _dataset(self) -> Any:
        if _is_dataset(self.cube):
            return self.cube
        return open_cube(self.cube)

    @cached_property
    def _where(self) -> tuple[slice, NDArray[np.bool_]]:
        """The first rows, and which of them are not pending: pending ones have no values yet."""
        rows = slice(0, min(self._dataset.sizes.get("instance", 0), LOOKED_AT))
        if "status" in self._dataset:
            return rows, status_of(self._dataset, rows) != Status.PENDING
        return rows, np.ones(rows.stop, bool)

    @cached_property
    def _flags(self) -> frozenset[str]:
        return flags_of(self._dataset)

    def has_flags(self, column: str) -> bool:
        """Whether the numbers 0 and 1 of a column are False and True."""
        return column in self._flags

    def of_column(self, column: str) -> NDArray[Any] | None:
        """Values of a column; None if none are known."""
        if column not in self._columns:
            return None
        rows, is_there = self._where
        return self._columns[column](rows)[is_there]


def _texts_with(dictionary: ColumnDictionary, sample: _Sample) -> ColumnTexts:
    return ColumnTexts(dictionary, sample.of_column, sample.has_flags)


def has_year_name(column: str) -> bool:
    """Whether the name of a column means years: "year", "YearBuilt", "Baujahr"."""
    words = re.sub(r"(?<=[a-zà-ÿ])(?=[A-ZÀ-Þ])", "_", column).lower()
    return YEAR_NAME.search(words) is not None


def _are_years(values: NDArray[Any] | None, is_named: bool) -> bool:
    """Whether values of a column are years; None are unknown, and the name decides."""
    if values is None:
        return is_named
    if not has_order(values) or values.dtype.kind in "bM":
        return False
    numbers = as_numbers(values)
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers) or not np.array_equal(numbers, np.floor(numbers)):
        return False
    smallest = numbers.min()
    largest = numbers.max()
    if is_named:
        return bool(NAMED_YEARS[0] <= smallest and largest <= NAMED_YEARS[1])
    return bool(PLAIN_YEARS[0] <= smallest < largest <= PLAIN_YEARS[1])


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or NaT, or the empty text by which cubes store a missing one."""
    return value is None or value != value or value == ""


def _key_of(value: Any) -> str:
    """A value as the dictionary names it: 1.0 is "1", a flag is "true" or "false"."""
    values = np.asarray(value)
    if values.dtype.kind == "b":
        return str(bool(value)).lower()
    if values.dtype.kind == "f" and float(value).is_integer():
        return str(int(value))
    return str(value)


def _is_time_text(value: Any) -> bool:
    """Whether a value is a time as text, in ISO form."""
    return re.match(r"\d{4}-\d{2}-\d{2}", str(value)) is not None


def _time_text(time: NDArray[Any], form: str) -> str:
    """A time as text: in its format, else in ISO form; a day alone if it is midnight."""
    if is_year_format(form):
        form = "%Y"
    if is_time_format(form):
        return formatted_time(int(time.astype("datetime64[us]").astype(np.int64)), form)
    return str(key_texts(time.reshape(1))[0])
