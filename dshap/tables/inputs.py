"""The rows to explain and the rows that a value function learns from: opened, counted, in one list of categories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from dshap.abilities import is_of_texts, streams_data
from dshap.blocks import RowBlock
from dshap.errors import InputError
from dshap.records import BoolArray
from dshap.tables.census import Census, take_census
from dshap.tables.opener import CodedReader, Site, categories_of, kind_of, open_rows
from dshap.tables.texts import open_texts
from dshap.types import Explained, Predictor, RowReader, replaced

__all__ = ["Inputs", "open_for", "refuse_unknown_categories"]

MAX_CATEGORIES = 65_536


def open_for(value: Explained, rows: Any, site: Site, *, key: Any = (), missing: str = "refuse") -> RowReader:
    """`open_rows` with the columns and the categories of a value function; texts by their own opener."""
    if is_of_texts(value):
        return open_texts(rows, site, value, key=key)
    return open_rows(
        rows,
        site,
        features=value.model.feature_names,
        n_columns=value.model.n_columns,
        key=key,
        missing=missing,
        categories=value.model.categories,
    )


@dataclass(frozen=True)
class Inputs:
    """The rows to explain and the rows that a value function learns from."""

    value: Explained
    """With the categories of all these rows."""
    rows: RowReader
    census: Census
    data: RowReader | None
    """None where nothing is learned from them, or not any more."""
    data_census: Census | None

    @classmethod
    def open(
        cls,
        value: Explained,
        rows: Any,
        site: Site,
        *,
        missing: str = "refuse",
        key: Any = (),
        census: Census | None = None,
        learns: bool = False,
        reads_data: bool = True,
    ) -> Inputs:
        """One reader and one census where both are the same table; `census` where it was taken before.

        `learns`: sums over all rows of the data are wanted, which must be numbers then.
        """
        reader = open_for(value, rows, site, key=key, missing=missing)
        if is_of_texts(value):
            value = value.of_length(len(reader.feature_names))
        if value.model.categories:
            value, reader = _with_all_categories(value, cast(CodedReader, reader), site)
        census = census or take_census(reader, site)
        if reader.missing == "pass" and learns:
            raise InputError('missing = "pass" is for black boxes: explain a kernel model with "refuse" or "skip"')
        if not reads_data:
            return cls(value, reader, census, None, None)
        same = (reader, census) if _is_same(value.data, rows) else None
        return cls(value, reader, census, *(same or _open_data(value, reader, site, learns)))

    @property
    def readers(self) -> list[RowReader]:
        """Of the rows, and of the data where they are read."""
        return [self.rows] if self.data is None else [self.rows, self.data]

    def check_rows(self, site: Site) -> None:
        """Refuse rows, of the data too, that the model is not for."""
        if self.value.model.check is not None:
            for reader in [self.rows] if self.data is self.rows else self.readers:
                site.learn(_Checked(self.value.model), reader)

    def active_players(self) -> BoolArray:
        """(d,): players with a column that varies over rows and data; the others are worth nothing.

        Where nothing varies, the first player is kept: a game needs one.
        """
        counted = [census for census in (self.census, self.data_census) if census is not None]
        low = np.min([census.low for census in counted], axis=0)
        high = np.max([census.high for census in counted], axis=0)
        names = self.rows.feature_names
        varies = (low < high) | [any(name in census.bad for census in counted) for name in names]
        is_active = np.array((self.value.players.members & varies).any(axis=1))
        is_active[0] |= not is_active.any()
        return is_active


def _is_same(data: Any, rows: Any) -> bool:
    """The value function learns from the very rows that are explained."""
    return data is rows or (kind_of(data) == kind_of(rows) == "path" and str(data) == str(rows))


def _open_data(value: Explained, rows: RowReader, site: Site, learns: bool) -> tuple[RowReader, Census]:
    """What the value function learns from; by the names of the rows where it knows none itself."""
    is_named = kind_of(value.data) != "array"
    features = value.model.feature_names or (rows.feature_names if is_named else None)
    is_read = learns or streams_data(value)  # row by row, so that bad ones can be skipped
    missing = "skip" if rows.missing == "refuse" and not is_read else rows.missing
    try:
        data = open_rows(value.data, site, features=features, n_columns=value.model.n_columns, missing=missing)
        census = take_census(data, site, takes_nan=not learns)
    except InputError as error:
        raise InputError(f"background or data of the value function: {error}") from error
    if census.n_bad and data.missing == "skip" and not is_read:
        raise InputError(
            f"{census.n_bad} rows of the background hold NaN or infinity: drop them, or set missing = "
            '"pass" for a model that takes NaN'
        )
    return data, census


def _with_all_categories(value: Explained, reader: CodedReader, site: Site) -> tuple[Explained, RowReader]:
    """Both with the categories of the rows behind those that the value function knows, in order; one pass over them."""
    known, found = value.model.categories, site.learn(_NewCategories.of(reader), reader)
    if not known.keys() & found.keys():
        return value, reader
    longer = {name: (*values, *sorted(found.get(name, ()))) for name, values in known.items()}
    for name, values in longer.items():
        if len(values) > MAX_CATEGORIES:
            raise InputError(
                f"column {name!r} holds {len(values):,} different values, at most {MAX_CATEGORIES:,} categories are "
                "taken: group them, or take the column out of the model"
            )
    return replaced(value, model=value.model.with_categories(longer)), reader.with_categories(longer)


def refuse_unknown_categories(reader: RowReader, site: Site) -> None:
    """Raise where rows to learn from hold categories that the value function's data lack."""
    if not categories_of(reader):
        return
    for name, found in site.learn(_NewCategories.of(reader), reader).items():
        raise InputError(
            f"column {name!r} holds {min(found)!r}, which the data of the value function lack: make the value "
            "function with rows that hold every category"
        )


@dataclass(frozen=True)
class _NewCategories:
    """The pass that finds the values that are in no list of categories: column -> these, where there are any."""

    places: Mapping[str, int]
    """column that has categories -> its place among the features."""
    wants = ("columns",)

    @classmethod
    def of(cls, reader: RowReader) -> _NewCategories:
        return cls({name: reader.feature_names.index(name) for name in categories_of(reader)})

    def partial(self, block: RowBlock) -> tuple[dict[str, set[Any]]]:
        is_new = {name: block.x[:, place] < 0 for name, place in self.places.items()}
        return ({name: set(block.columns[name][which].tolist()) for name, which in is_new.items() if which.any()},)

    def finish(self, total: tuple[dict[str, set[Any]], ...]) -> dict[str, set[Any]]:
        found = {name: set().union(*(span.get(name, ()) for span in total)) for name in self.places}
        return {name: values for name, values in found.items() if values}


@dataclass(frozen=True)
class _Checked:
    """The pass that asks a model whether it is for these rows."""

    model: Predictor
    wants = ()

    def partial(self, block: RowBlock) -> tuple[()]:
        assert self.model.check is not None
        self.model.check(block.good)
        return ()

    def finish(self, total: tuple[()]) -> None: ...
