"""The rows to explain and the rows to learn from: opened, counted, with common categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from dshap.attributors.compatibility import not_together
from dshap.core.annotations import KeyLike, TableLike
from dshap.core.blocks import RowBlock
from dshap.core.capabilities import is_of_texts, streams_data
from dshap.core.errors import InputError
from dshap.core.fixed_words import MissingRule
from dshap.core.records import BoolArray
from dshap.core.rows import OfTable
from dshap.core.types import Explained, Predictor, RowReader, replaced
from dshap.predictors.times import times_of
from dshap.tables.categories import lines_of_added, with_all_categories
from dshap.tables.census import Census, take_census
from dshap.tables.opener import open_rows
from dshap.tables.reader import CodedReader
from dshap.tables.site import Site
from dshap.tables.sources import READERS, kind_of
from dshap.tables.texts import open_texts


def open_for(
    value: Explained,
    rows: TableLike,
    site: Site,
    *,
    key: KeyLike | None = (),
    missing: MissingRule = "refuse",
) -> RowReader:
    """Open rows with the columns and categories of a value function, or open texts.

    Examples
    --------
    >>> import pandas as pd
    >>> import dshap
    >>> from dshap.run.session import open_session
    >>> from dshap.sources import open_for
    >>> houses = pd.DataFrame({"rooms": [2.0, 3.0], "age": [10.0, 20.0]})
    >>> value = dshap.values.Marginal(lambda x: 50 * x[:, 0] - x[:, 1], houses)
    >>> other = pd.DataFrame({"city": [1.0], "age": [30.0], "rooms": [4.0]})
    >>> with open_session(None, None, False, {}) as (_, session):
    ...     reader = open_for(value, other, session)
    >>> reader.feature_names, reader.read(0, 1).x.tolist()  # the columns of the model, in its order
    (('rooms', 'age'), [[4.0, 30.0]])
    """
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
        times=times_of(value.model),
    )


@dataclass(frozen=True)
class Inputs:
    """The rows to explain and the rows that a value function learns from.

    Examples
    --------
    >>> import pandas as pd
    >>> import dshap
    >>> from dshap.run.session import open_session
    >>> from dshap.sources import Inputs
    >>> houses = pd.DataFrame({"rooms": [2.0, 3.0, 3.0], "age": [10.0, 10.0, 10.0]})
    >>> value = dshap.values.Marginal(lambda x: 50 * x[:, 0] - x[:, 1], houses)
    >>> with open_session(None, None, False, {}) as (_, session):
    ...     inputs = Inputs.open(value, houses, session)
    >>> inputs.census.n_rows, inputs.active_players().tolist()  # the age is the same everywhere
    (3, [True, False])
    """

    value: Explained
    """The value function, with the categories of all these rows."""
    rows: RowReader
    census: Census
    data: RowReader | None
    """The rows to learn from; None if nothing is learned from them, or nothing more."""
    data_census: Census | None
    lines: tuple[str, ...] = ()
    """Lines about these rows for people: columns with categories that were not known."""

    @classmethod
    def open(
        cls,
        value: Explained,
        rows: TableLike,
        site: Site,
        *,
        missing: MissingRule = "refuse",
        key: KeyLike | None = (),
        census: Census | None = None,
        learns: bool = False,
        needs_numbers: bool = False,
        reads_data: bool = True,
    ) -> Inputs:
        """Open the rows and the data, and take a census of each.

        If both are the same table, there is one reader and one census.  `census` is that of the
        rows, if it was taken before.  `learns` states that sums over all rows of the data are
        needed, and `needs_numbers` that no value of them may be missing.
        """
        reader = open_for(value, rows, site, key=key, missing=missing)
        if is_of_texts(value):
            value = value.of_length(len(reader.feature_names))
        lines: tuple[str, ...] = ()
        if value.model.categories:
            value, reader, added = with_all_categories(value, cast(CodedReader, reader), site)
            lines = lines_of_added(added)
        # after the categories, because the census digests the positions of values in these lists
        census = census or take_census(reader, site)
        if reader.missing == "pass" and needs_numbers:
            raise not_together("missing", "learned", verb="explain")
        if not reads_data:
            return cls(value, reader, census, None, None, lines)
        if isinstance(value.data, OfTable):
            value = replaced(value, data=value.data.sample(reader))
            is_same = value.data is None
        else:
            is_same = _is_same(value.data, rows)
        if is_same:
            same = (reader, census)
        else:
            same = None
        found = same or open_data(
            value,
            site,
            missing=reader.missing,
            names=reader.feature_names,
            learns=learns,
            needs_numbers=needs_numbers,
        )
        return cls(value, reader, census, *found, lines)

    @property
    def readers(self) -> list[RowReader]:
        """The reader of the rows, and that of the data if they are read."""
        if self.data is None:
            return [self.rows]
        return [self.rows, self.data]

    def check_rows(self, site: Site) -> None:
        """Refuse rows, of the data too, that the model does not accept."""
        if self.value.model.check is not None:
            for reader in [self.rows] if self.data is self.rows else self.readers:
                site.learn(_Checked(self.value.model), reader)

    def active_players(self) -> BoolArray:
        """(d,): the players with a column that varies over rows and data; the others are worth 0.

        If nothing varies, the first player counts as active, because a game needs one.
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
    """Whether the value function learns from the same table that is explained."""
    return data is rows or (kind_of(data) == kind_of(rows) in READERS and str(data) == str(rows))


def times_of_data(value: Explained) -> Mapping[str, str]:
    """column of times -> the kind that the data are read with; empty for arrays of numbers."""
    if kind_of(value.data) == "array":
        return {}
    return times_of(value.model)


def read_data(
    value: Explained, site: Site, *, missing: MissingRule, names: Sequence[str] | None = None
) -> RowReader:
    """Open the data that a value function learns from; texts become positions in its categories.

    Examples
    --------
    >>> import pandas as pd
    >>> import dshap
    >>> from dshap.run.session import open_session
    >>> from dshap.sources import read_data
    >>> houses = pd.DataFrame({"rooms": [2.0, 3.0], "age": [10.0, 20.0]})
    >>> value = dshap.values.Marginal(lambda x: 50 * x[:, 0] - x[:, 1], houses)
    >>> with open_session(None, None, False, {}) as (_, session):
    ...     reader = read_data(value, session, missing="refuse")
    >>> reader.n_rows, reader.feature_names
    (2, ('rooms', 'age'))
    """
    is_named = kind_of(value.data) != "array"
    model = value.model
    given = value.data
    if isinstance(given, CodedReader) and model.categories:
        given = given.with_categories(model.categories)
    return open_rows(
        given,
        site,
        features=model.feature_names or (names if is_named else None),
        n_columns=model.n_columns,
        missing=missing,
        categories=model.categories if is_named else None,
        times=times_of_data(value),
    )


def open_data(
    value: Explained,
    site: Site,
    *,
    missing: MissingRule,
    names: Sequence[str] | None,
    learns: bool,
    needs_numbers: bool,
) -> tuple[RowReader, Census]:
    """Open the data that the value function learns from, and take their census.

    The columns are those of the rows, `names`, if the value function knows no names.  `missing` is
    that of the rows.

    Examples
    --------
    >>> import pandas as pd
    >>> import dshap
    >>> from dshap.run.session import open_session
    >>> from dshap.sources import open_data
    >>> houses = pd.DataFrame({"rooms": [2.0, 3.0], "age": [10.0, 20.0]})
    >>> value = dshap.values.Gaussian(lambda x: 50 * x[:, 0] - x[:, 1], houses)
    >>> options = {"missing": "refuse", "names": None, "learns": True, "needs_numbers": True}
    >>> with open_session(None, None, False, {}) as (_, session):
    ...     reader, census = open_data(value, session, **options)
    >>> reader.feature_names, census.n_rows
    (('rooms', 'age'), 2)
    """
    is_read = learns or streams_data(value)  # read row by row: bad rows can be skipped
    if missing == "refuse" and not is_read:
        missing = "skip"
    try:
        data = read_data(value, site, missing=missing, names=names)
        census = take_census(data, site, takes_nan=not needs_numbers)
    except InputError as error:
        raise InputError(f"background or data of the value function: {error}") from error
    if census.n_bad and data.missing == "skip" and not is_read:
        raise InputError(
            f"{census.n_bad} rows of the background contain NaN or infinity: drop them, or set "
            "missing = "
            '"pass" for a model that takes NaN'
        )
    return data, census


@dataclass(frozen=True)
class _Checked:
    """The pass that checks whether a model accepts these rows."""

    model: Predictor
    wants = ()

    def partial(self, block: RowBlock) -> tuple[()]:
        assert self.model.check is not None
        self.model.check(block.good)
        return ()

    def finish(self, total: tuple[()]) -> None: ...
