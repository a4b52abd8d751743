"""Samples of two tables over the same columns: opened, their columns compared, read as numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError, unknown_name
from dshap.core.late import pa
from dshap.core.printing import one_line
from dshap.core.records import BoolArray, FloatArray
from dshap.core.rows import read_sample
from dshap.core.types import RowReader
from dshap.predictors.times import time_kind, times_of, zone_of
from dshap.tables.arrays import frame_of_arrow
from dshap.tables.categories import found_categories
from dshap.tables.columns import arrow_array, as_names, is_number, is_text
from dshap.tables.conversion import Asked, open_arrow_dataset, open_hugging_face, open_polars_query
from dshap.tables.delta import DeltaFiles
from dshap.tables.opener import checked_key, open_rows
from dshap.tables.parquet import AS_PARQUET, ParquetFiles
from dshap.tables.reader import CodedReader, categories_of
from dshap.tables.site import Site
from dshap.tables.sources import kind_of
from dshap.warehouse.csv_files import ENDS, CsvFiles

SIDES = ("old", "new")
KINDS = ("numbers", "text", "times")
"""The kinds of columns that are compared."""
NO_VALUES = str(pa.null())
"""The type of a column without any value."""
NAMING = "(features, or --column on the command line)"
"""The options that name columns to compare."""
MAGIC = b"PAR1"
"""The first bytes of a Parquet file."""


@dataclass(frozen=True, eq=False)
class SampledTable:
    """A seeded sample of the rows of a table."""

    x: FloatArray
    """(n, columns): missing values are NaN, categories positions, times microseconds."""
    positions: NDArray[np.int64]
    """(n,): the positions of the rows in their table."""
    reader: RowReader

    def key_of(self, row: int) -> dict[str, str]:
        """Key column -> the key of a row of the sample; "row" -> its position without a key."""
        position = int(self.positions[row])
        keys = self.reader.read(position, position + 1, keys=True).keys
        if not keys:
            return {"row": str(position)}
        return {name: str(values[0]) for name, values in keys.items()}


@dataclass(frozen=True, eq=False)
class PairedSamples:
    """Samples of an old and of a new table, with the same columns in the same order."""

    old: SampledTable
    new: SampledTable
    names: tuple[str, ...]
    is_categorical: BoolArray
    """(columns,): whether a column contains categories."""


def paired_samples(
    old: Any,
    new: Any,
    site: Site,
    *,
    features: Sequence[str] | None = None,
    key: Any = (),
    max_rows: int | None = None,
    seed: int = 0,
) -> PairedSamples:
    """Read seeded samples of two tables, with one list of categories for both.

    Parameters
    ----------
    old, new : tables as in `open_rows`, or paths of CSV files, which are read into memory
    site : site of the run
    features : columns to read; None: all columns but the key
    key : key columns
    max_rows : the most rows of each sample; None: all
    seed : int

    Raises
    ------
    InputError
        The tables have other columns, a column has another kind of values in one of them, or too
        many categories.
    """
    if features is not None and not len(features):
        raise InputError("features is empty: name the columns to compare, or leave it out")
    keys = as_names(checked_key(key))
    given = [
        _said_of(side, _at_hand, rows, site) for side, rows in zip(SIDES, (old, new), strict=True)
    ]
    kinds = [
        _said_of(side, column_kinds, rows, site) for side, rows in zip(SIDES, given, strict=True)
    ]
    names = _common_names(kinds, features, keys)
    of_both = {name: _kind_of_both(name, *(each[name] for each in kinds)) for name in names}
    roles = _Roles.of(of_both, names, key)
    readers = [
        _said_of(side, _opened, rows, site, roles) for side, rows in zip(SIDES, given, strict=True)
    ]
    _refuse_other_zones(readers)
    lists = _all_categories(readers, site)
    before, now = (_sampled(reader, lists, max_rows, seed) for reader in readers)
    for side, sample in zip(SIDES, (before, now), strict=True):
        _refuse_infinity(side, sample, names)
    is_categorical = np.array([name in lists for name in names])
    return PairedSamples(before, now, tuple(names), is_categorical)


def _said_of(side: str, call: Any, *given: Any) -> Any:
    """Call a function; an error names which of the two tables it is about."""
    try:
        return call(*given)
    except InputError as error:
        raise InputError(f"{side}: {error}") from None


def _at_hand(rows: Any, site: Site) -> Any:
    """Rows of a CSV file, or with Arrow's protocol, as a data frame; others as they are.

    A dataset of pyarrow or of Hugging Face and a query of polars are written to Parquet files.
    """
    match kind_of(rows):
        case "arrow dataset":
            return open_arrow_dataset(Asked(rows, site)).rows
        case "polars query":
            return open_polars_query(Asked(rows, site)).rows
        case "hugging face dataset":
            return open_hugging_face(Asked(rows, site)).rows
        case "parquet" if str(rows).endswith(ENDS):
            with CsvFiles(str(rows), delimiter=_delimiter(str(rows))).open() as stream:
                batches = [batch for piece in stream.pieces for batch in _batches_of(piece)]
                return frame_of_arrow(pa.Table.from_batches(batches, stream.schema))
        case "parquet":
            _refuse_other_files(str(rows))
        case "arrow stream" | "arrow array":
            return frame_of_arrow(rows)
    return rows


def _delimiter(path: str) -> str:
    if path.endswith((".tsv", ".tsv.gz")):
        return "\t"
    return ","


def _refuse_other_files(path: str) -> None:
    """Raise for a file that neither its name nor its first bytes make a table."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix in ("", ".parquet", *AS_PARQUET) or not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise InputError(
                f"{one_line(path)} is not a table: tables are Parquet or CSV files by their "
                f"endings, .parquet, {', '.join(ENDS)}; give one of these"
            )


def _batches_of(piece: Any) -> list[pa.RecordBatch]:
    with piece() as batches:
        return list(batches)


def column_kinds(rows: Any, site: Site) -> dict[str, str]:
    """Column -> "numbers", "text", "times", or the type of a column with none of these."""
    match kind_of(rows):
        case "parquet":
            return _kinds_of_files(ParquetFiles(rows))
        case "list" if rows and all(kind_of(each) == "parquet" for each in rows):
            return _kinds_of_files(ParquetFiles(rows))
        case "delta":
            return _kinds_of_files(DeltaFiles(rows))
        case "data frame":
            names = list(map(str, rows.columns))
            return {
                name: _kind_of(arrow_array(rows.iloc[:, place], name, from_pandas=True).type)
                for place, name in enumerate(names)
            }
    reader = _opened(rows, site, _Roles())
    kinds = dict.fromkeys(reader.feature_names, "numbers")
    kinds |= dict.fromkeys(categories_of(reader), "text")
    return kinds | dict.fromkeys(times_of(reader), "times")


def _kinds_of_files(files: ParquetFiles) -> dict[str, str]:
    return {each.name: _kind_of(each.type) for each in files.schema}


def _kind_of(kind: pa.DataType) -> str:
    if pa.types.is_null(kind):
        return NO_VALUES
    if is_number(kind):
        return "numbers"
    if is_text(kind):
        return "text"
    if time_kind(kind):
        return "times"
    return str(kind)


def _common_names(
    kinds: Sequence[Mapping[str, str]], features: Sequence[str] | None, keys: Sequence[str]
) -> list[str]:
    """The columns to compare, in the order of the old table; both tables must have them."""
    for side, held in zip(SIDES, kinds, strict=True):
        for name in features or ():
            if name not in held:
                raise InputError(f"{side}: {unknown_name('column', name, held)}")
    wanted = [[name for name in features or side if name not in keys] for side in kinds]
    for here, there, place in (("new", "old", 0), ("old", "new", 1)):
        lacking = [name for name in wanted[place] if name not in kinds[1 - place]]
        if lacking:
            more = f" and {len(lacking) - 1} more" * (len(lacking) > 1)
            raise InputError(
                f"{here} has no column {lacking[0]!r}{more}, which {there} has: give both the same "
                f"columns, or name those to compare {NAMING}"
            )
    if not wanted[0]:
        raise InputError("no column is left to compare: the tables contain only the key")
    return wanted[0]


def _kind_of_both(name: str, old: str, new: str) -> str:
    """The kind of values of a column in both tables; a column without any value is of every kind.

    It raises unless the kinds are the same, and one that can be compared.
    """
    valued = [kind for kind in (old, new) if kind != NO_VALUES]
    if not valued:
        return "numbers"
    if len(valued) == 1:
        old = new = valued[0]
    if old != new:
        raise InputError(
            f"column {name!r} contains {old} in old and {new} in new: cast one of them"
        )
    if old not in KINDS:
        raise InputError(
            f"column {name!r} contains {old}, and numbers, text and times are compared: leave it "
            f"out by naming the others {NAMING}"
        )
    return old


def _refuse_infinity(side: str, sample: SampledTable, names: Sequence[str]) -> None:
    infinite = np.argwhere(np.isinf(sample.x))
    if not len(infinite):
        return
    row, column = infinite[0].tolist()
    place = ", ".join(f"{name} {value}" for name, value in sample.key_of(row).items())
    if len(infinite) > 1:
        place = f"{len(infinite):,} times, first at {place}"
    raise InputError(
        f"column {names[column]!r} of {side} contains infinity ({place}): make it a missing value "
        "or a number"
    )


def _refuse_other_zones(readers: Sequence[RowReader]) -> None:
    """Raise if a column has times of a zone in one table and times without one in the other."""
    old, new = map(times_of, readers)
    for name, kind in old.items():
        if name in new and bool(zone_of(kind)) != bool(zone_of(new[name])):
            raise InputError(
                f"column {name!r} contains {kind} in old and {new[name]} in new: give both a "
                "zone, or none"
            )


@dataclass(frozen=True)
class _Roles:
    """The roles of the columns of a table."""

    features: Sequence[str] | None = None
    key: Any = ()
    texts: Sequence[str] = ()
    times: Sequence[str] = ()

    @classmethod
    def of(cls, kinds: Mapping[str, str], names: Sequence[str], key: Any) -> _Roles:
        texts = [name for name in names if kinds[name] == "text"]
        return cls(names, key, texts, [name for name in names if kinds[name] == "times"])


def _opened(rows: Any, site: Site, roles: _Roles) -> RowReader:
    """A reader of these rows that passes missing values on; a source is used as it was opened."""
    features = roles.features
    match kind_of(rows):
        case "reader":
            reader: RowReader = rows
            return reader
        case "array":
            features = None
    return open_rows(
        rows,
        site,
        features=features,
        key=roles.key,
        missing="pass",
        categories=dict.fromkeys(roles.texts, ()),
        times=roles.times,
    )


def _all_categories(readers: Sequence[RowReader], site: Site) -> dict[str, tuple[Any, ...]]:
    """Column of categories -> those of both tables, sorted, in a pass over each."""
    found = [
        found_categories(cast(CodedReader, reader), site.learn)
        for reader in readers
        if categories_of(reader)
    ]
    names = {name for lists in found for name in lists}
    return {
        name: tuple(sorted({value for lists in found for value in lists.get(name, ())}))
        for name in names
    }


def _sampled(
    reader: RowReader, lists: Mapping[str, tuple[Any, ...]], max_rows: int | None, seed: int
) -> SampledTable:
    """A sample of the rows of a table, coded by these lists of categories."""
    if lists:
        reader = cast(CodedReader, reader).with_categories(lists)
    found = read_sample(reader, max_rows or reader.n_rows, seed)
    return SampledTable(found["x"], found["position"], reader)
