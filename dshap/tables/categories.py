"""Lists of categories: extended by those of the rows to explain, reduced to those of a model."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.core.blocks import RowBlock
from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.core.rows import SPAN_ROWS
from dshap.core.types import Explained, Predictor, RowReader, replaced
from dshap.tables.reader import CodedReader, categories_of
from dshap.tables.site import Site

MAX_CATEGORIES = 65_536
SHOWN = 5
"""Largest number of categories that a message names."""
REASON_CHARACTERS = 160

Found = Mapping[str, Counter[Any]]
"""column -> for each value that is in no list, the number of rows with it."""


def with_all_categories(
    value: Explained, reader: CodedReader, site: Site
) -> tuple[Explained, RowReader, Found]:
    """Add the categories of the rows to those of the value function, in one pass over the rows.

    They follow the known ones, in order; both the value function and the reader get them.  The
    categories that were added are returned too, with their numbers of rows.  A
    category that the model does not accept is a fault of its rows: with missing = "skip" they are
    left out, like rows with a missing value.

    Raises
    ------
    InputError
        There are too many categories, or some that the model does not accept, unless their rows are
        skipped.
    """
    known = value.model.categories
    found = site.learn(_NewCategories.of(reader), reader)
    if not known.keys() & found.keys():
        return value, reader, {}
    longer = {name: (*values, *sorted(found.get(name, ()))) for name, values in known.items()}
    for name, values in longer.items():
        _refuse_many(name, len(values))
    refused = _refused(value.model, found, reader)
    if not refused:
        coded = reader.with_categories(longer)
        return replaced(value, model=value.model.with_categories(longer)), coded, found
    if reader.missing != "skip":
        raise InputError(_refusal(refused, found))
    taken = {
        name: tuple(each for each in values if each not in refused.get(name, {}))
        for name, values in longer.items()
    }
    coded = reader.with_categories(taken, others_are_missing=True)
    return replaced(value, model=value.model.with_categories(taken)), coded, _added(found, refused)


def lines_of_added(added: Found) -> tuple[str, ...]:
    """One line for each column whose rows have new categories and are explained with them."""
    return tuple(
        f"column {name!r} has unknown categories in {_rows(counts.total())}, such as {min(counts)!r}: "
        "the model accepts them, so these rows are explained"
        for name, counts in added.items()
    )


def found_categories(
    reader: CodedReader, learn: Callable[[Any, RowReader], Any]
) -> dict[str, list[Any]]:
    """Column that has categories -> all of its values, sorted, in one pass over the rows.

    The reader is opened with empty lists, and `learn` runs a pass over a table.

    Raises
    ------
    InputError
        A column has too many different values.
    """
    found = learn(_NewCategories.of(reader), reader)
    listed = {name: sorted(found.get(name, ())) for name in reader.categories}
    for name, values in listed.items():
        _refuse_many(name, len(values))
    return listed


def _refuse_many(name: str, n_values: int) -> None:
    """Raise if a column has more different values than may be categories."""
    if n_values > MAX_CATEGORIES:
        raise InputError(
            f"column {name!r} contains {n_values:,} different values, at most "
            f"{MAX_CATEGORIES:,} categories are "
            "taken: group them, or take the column out of the model"
        )


def refuse_unknown_categories(reader: RowReader, site: Site) -> None:
    """Raise if rows to learn from have categories that the value function's data lack.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.run.session import open_session
    >>> from dshap.sources import ArraySource, refuse_unknown_categories
    >>> source = ArraySource(np.ones((2, 1)))  # no column has categories
    >>> with open_session(None, None, False, {}) as (_, session):
    ...     refused = refuse_unknown_categories(source, session)
    >>> refused is None
    True
    """
    if not categories_of(reader):
        return
    for name, found in site.learn(_NewCategories.of(reader), reader).items():
        raise InputError(
            f"column {name!r} contains {min(found)!r}, which is not in the data of the value "
            "function: make the value function with rows that contain every category"
        )


def _refused(model: Predictor, found: Found, reader: RowReader) -> dict[str, dict[Any, str]]:
    """column -> the new categories that the model refuses, with its reason for each.

    They are tried in the place of a category in a row that the model accepts.
    """
    row = _row_of_known(reader, [*model.categories])
    if row is None or _objection(model, row):
        return {}  # the model's objection is not about categories
    refused = {}
    for name in model.categories.keys() & found.keys():
        trial = _Trial(model, row, name, reader.feature_names.index(name))
        if reasons := trial.refused(sorted(found[name])):
            refused[name] = reasons
    return refused


def _row_of_known(reader: RowReader, coded: Sequence[str]) -> FloatArray | None:
    """The first complete row (1, columns) of the first span whose categories are all known."""
    x = reader.read(0, min(SPAN_ROWS, reader.n_rows)).x
    is_known = np.isfinite(x).all(axis=1)
    for name in coded:
        is_known &= x[:, reader.feature_names.index(name)] >= 0
    first = np.flatnonzero(is_known)[:1]
    if len(first):
        return x[first]
    return None


@dataclass(frozen=True)
class _Trial:
    """A trial of new categories in one column of a row, to see whether the model accepts them."""

    model: Predictor
    row: FloatArray
    """A row (1, columns) that the model accepts."""
    name: str
    place: int

    def refused(self, values: Sequence[Any]) -> dict[Any, str]:
        """The values that the model refuses, with reasons: all are tried at once, then halves."""
        reason = self._objection(values)
        if not reason:
            return {}
        if len(values) == 1:
            return {values[0]: reason}
        middle = len(values) // 2
        # few of many values are refused, so that halves need far fewer calls than single values
        return self.refused(values[:middle]) | self.refused(values[middle:])

    def _objection(self, values: Sequence[Any]) -> str:
        known = self.model.categories
        rows = np.repeat(self.row, len(values), axis=0)
        rows[:, self.place] = len(known[self.name]) + np.arange(len(values))
        try:
            model = self.model.with_categories({**known, self.name: (*known[self.name], *values)})
        except InputError as error:
            return str(error)
        return _objection(model, rows)


def _objection(model: Predictor, rows: FloatArray) -> str:
    """The reason why the model refuses these rows; empty if it accepts them."""
    try:
        if model.check is not None:
            model.check(rows)
        model(rows)
    except InputError as error:
        return str(error)
    return ""


def _added(found: Found, refused: Mapping[str, Mapping[Any, str]]) -> Found:
    """The new categories that are explained: the found ones without those that are refused."""
    accepted = {
        name: Counter({each: counts[each] for each in counts.keys() - refused.get(name, {}).keys()})
        for name, counts in found.items()
    }
    return {name: counts for name, counts in accepted.items() if counts}


def _refusal(refused: Mapping[str, Mapping[Any, str]], found: Found) -> str:
    """The message about rows whose categories the model does not accept."""
    held = []
    for name, reasons in refused.items():
        shown = [f"{value!r} in {_rows(found[name][value])}" for value in list(reasons)[:SHOWN]]
        if len(reasons) > SHOWN:
            more = f" and {len(reasons) - SHOWN} more"
        else:
            more = ""
        held.append(f"column {name!r} contains {', '.join(shown)}{more}")
    n_rows = sum(found[name][value] for name, reasons in refused.items() for value in reasons)
    name, reasons = next(iter(refused.items()))
    value, reason = next(iter(reasons.items()))
    reason = reason.removeprefix(f"column {name!r} contains {value!r}, ")
    return (
        f"{_rows(n_rows)} with a category that the model does not take: {'; '.join(held)} "
        f'({textwrap.shorten(reason, REASON_CHARACTERS)}); set missing = "skip" to leave such rows '
        "out"
    )


def _rows(count: int) -> str:
    if count == 1:
        return "1 row"
    return f"{count:,} rows"


@dataclass(frozen=True)
class _NewCategories:
    """The pass that finds the values that are in no list of categories, by column."""

    places: Mapping[str, int]
    """column that has categories -> its position among the features."""
    wants = ("columns",)

    @classmethod
    def of(cls, reader: RowReader) -> _NewCategories:
        return cls({name: reader.feature_names.index(name) for name in categories_of(reader)})

    def partial(self, block: RowBlock) -> tuple[dict[str, Counter[Any]]]:
        is_new = {name: block.x[:, place] < 0 for name, place in self.places.items()}
        return (
            {
                name: Counter(block.columns[name][which].tolist())
                for name, which in is_new.items()
                if which.any()
            },
        )

    def finish(self, total: tuple[dict[str, Counter[Any]], ...]) -> dict[str, Counter[Any]]:
        found = {
            name: sum((span.get(name, Counter()) for span in total), Counter())
            for name in self.places
        }
        return {name: counts for name, counts in found.items() if counts}
