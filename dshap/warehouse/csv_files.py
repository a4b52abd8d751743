"""CSV files as a stream of rows; a column has one type, which fits all its values in all files."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from dshap.core.errors import EmptyTableError, InputError
from dshap.core.late import pa, pa_csv
from dshap.tables.row_values import words_of_arrow
from dshap.tables.streams import RowStream, in_one_piece
from dshap.warehouse.reading_once import RowsReadOnce, SpoolRules

ENDS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
"""The ends of the files that a folder is searched for."""
BLOCK_BYTES = 8 << 20
"""The bytes of a batch; types are guessed from the first, and corrected by the others."""
_FAULT = re.compile(
    r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to [^:]+: invalid value '(.*)'",
    re.DOTALL,
)
_LADDERS = (("int64", "double"), ("date32[day]", "timestamp[s]", "timestamp[ns]"))
"""Types, as Arrow writes them, in an order in which each represents all values of the ones
before."""


@dataclass(frozen=True)
class CsvFiles(RowsReadOnce):
    """CSV files, each with a line of column names, and how their values are written."""

    path: str
    """A file, a folder or a glob."""
    delimiter: str = ","
    null_values: tuple[str, ...] | None = None
    """The texts that are missing values; None: Arrow's defaults."""
    text: tuple[str, ...] = ()
    """Columns that stay text, such as codes that begin with 0."""

    @property
    def kind(self) -> str:
        return "csv"

    def describe(self) -> str:
        return f"csv {self.path}"

    def paths(self) -> list[str]:
        """The files in the order of their names."""
        if os.path.isfile(self.path):
            found = [self.path]
        elif os.path.isdir(self.path):
            inside = Path(self.path).rglob("*")
            found = [str(each) for each in inside if each.name.endswith(ENDS) and each.is_file()]
        else:
            found = [each for each in glob.glob(self.path, recursive=True) if os.path.isfile(each)]
        if not found:
            raise InputError(
                f"no CSV file at {self.path}: give a file, a folder that contains *.csv files, or "
                "a glob"
            )
        return sorted(found)

    @contextmanager
    def open(
        self, as_of: date | None = None, rules: SpoolRules | None = None
    ) -> Iterator[RowStream]:
        """Open the rows of all files; a first pass settles the types of the columns.

        Their age is judged when they have been read.
        """
        paths = self.paths()
        types = self._types(paths)
        batches = (batch for path in paths for batch in self._batches(path, types))
        n_bytes = sum(os.path.getsize(path) for path in paths)
        yield RowStream(
            pa.schema(list(types.items())),
            in_one_piece(batches),
            None,
            {"files": len(paths), "bytes": n_bytes},
        )

    def _types(self, paths: list[str]) -> dict[str, pa.DataType]:
        """Column -> the type of all its values."""
        types: dict[str, pa.DataType] = {}
        while True:
            wider = self._wider(paths, types)
            if not wider:
                break
            types |= wider
        return {name: _known(kind) for name, kind in types.items()}

    def _wider(self, paths: list[str], types: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
        """The types that a pass over the files shows to be too narrow, or not to be known yet."""
        if not types:
            return self._guess(paths[0], {name: pa.string() for name in self.text})
        for path in paths:
            # Arrow stops at the first value that does not fit: a pass widens one column
            try:
                for _ in self._batches(path, types):
                    pass
            except _TooNarrow as fault:
                return {fault.name: _joined(types[fault.name], self._type_of(fault.value))}
        return {}

    def _guess(self, path: str, known: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
        """The types by the first batch of a file."""
        with self._reader(path, known) as reader:
            for name in known:
                if name not in reader.schema.names:
                    raise InputError(f'[source] text: {path} has no column "{name}"')
            return dict(zip(reader.schema.names, reader.schema.types, strict=True))

    def _type_of(self, value: str) -> pa.DataType:
        """The type that a single value is guessed to have."""
        quoted = '"' + value.replace('"', '""') + '"'
        table = pa_csv.read_csv(
            pa.BufferReader(f"value\n{quoted}\n".encode()), convert_options=self._converting({})
        )
        return table.schema.types[0]

    def _batches(self, path: str, types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """The rows of one file; raises `_TooNarrow` for a value that its type cannot represent."""
        names: list[str] = []
        try:
            with self._reader(path, types) as reader:
                names = reader.schema.names
                self._check_names(path, names, types)
                yield from reader
        except pa.ArrowInvalid as error:
            found = _FAULT.search(str(error))
            if found is None:
                raise _unreadable(path, error) from None
            at = int(found[1])
            name = (names or self._names(path))[at]
            raise _TooNarrow(path, name, found[2]) from None

    def _check_names(self, path: str, names: list[str], types: Mapping[str, pa.DataType]) -> None:
        if set(names) != set(types):
            raise InputError(
                f"{path} has the columns {', '.join(names)}, and the first file "
                f"{', '.join(types)}: give all files the same columns"
            )

    def _names(self, path: str) -> list[str]:
        """The names in the first line of a file."""
        with pa.input_stream(path) as stream:
            line = stream.read(1 << 20).partition(b"\n")[0]
        table = pa_csv.read_csv(
            pa.BufferReader(line + b"\n"),
            parse_options=pa_csv.ParseOptions(delimiter=self.delimiter),
        )
        return table.schema.names

    @contextmanager
    def _reader(
        self, path: str, types: Mapping[str, pa.DataType]
    ) -> Iterator[pa_csv.CSVStreamingReader]:
        try:
            reader = pa_csv.open_csv(
                path,
                read_options=pa_csv.ReadOptions(block_size=BLOCK_BYTES),
                parse_options=pa_csv.ParseOptions(
                    delimiter=self.delimiter, newlines_in_values=True
                ),
                convert_options=self._converting(types),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                raise EmptyTableError(f"{path} is empty") from None
            raise
        with reader:
            yield reader

    def _converting(self, types: Mapping[str, pa.DataType]) -> pa_csv.ConvertOptions:
        options = pa_csv.ConvertOptions(column_types=dict(types), strings_can_be_null=True)
        if self.null_values is not None:
            options.null_values = list(self.null_values)
        return options


class _TooNarrow(InputError):
    """A value that the type of its column cannot represent."""

    def __init__(self, path: str, name: str, value: str) -> None:
        super().__init__(f"{path}: column {name!r} contains a value that is unlike those before it")
        self.name = name
        self.value = value


def _known(kind: pa.DataType) -> pa.DataType:
    """The type of a column; one without any value is read as numbers, all missing."""
    if pa.types.is_null(kind):
        return pa.float64()
    return kind


def _joined(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The narrowest type that represents the values of both; text if there is no other."""
    if pa.types.is_null(one):
        return other
    if one == other:  # alone the value has this type, and among the others it does not fit
        return pa.string()
    for ladder in _LADDERS:
        if str(one) in ladder and str(other) in ladder:
            return max(one, other, key=lambda kind: ladder.index(str(kind)))
    return pa.string()


def _unreadable(path: str, error: Exception) -> InputError:
    return InputError(f"{path} is not read as CSV: {words_of_arrow(error)}")
