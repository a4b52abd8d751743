"""A few rows of a source: those of the smallest golden places, whatever the batches and pieces."""

from __future__ import annotations

import datetime
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dshap.core.spread import golden_places
from dshap.tables.parquet import ParquetFiles
from dshap.tables.streams import RowStream
from dshap.warehouse import spread_rows
from dshap.warehouse.reading_once import RowsReadOnce, SpoolRules
from dshap.warehouse.spread_rows import RowsOfFiles, SpreadRows
from tests.databases import batches_of

TODAY = datetime.date(2026, 11, 30)


@dataclass(frozen=True)
class Made(RowsReadOnce):
    """Rows 0 to n − 1, in batches and pieces of these sizes."""

    n_rows: int
    batch_rows: int
    n_pieces: int = 1
    kind = "made"

    def describe(self):
        return "made"

    @contextmanager
    def open(self, as_of, rules):
        schema = pa.schema([("id", pa.int64()), ('ä "b"', pa.string())])
        ids = np.array_split(np.arange(self.n_rows), self.n_pieces)

        def piece(own):
            return lambda: nullcontext(
                pa.record_batch(
                    [own[i : i + self.batch_rows], own[i : i + self.batch_rows].astype(str)],
                    schema=schema,
                )
                for i in range(0, len(own), self.batch_rows)
            )

        yield RowStream(schema, tuple(map(piece, ids)), self.n_rows, {"readers": self.n_pieces})


def sample(rows, size):
    spread = SpreadRows(rows, size)
    with spread.open(TODAY, SpoolRules()) as stream:
        assert stream.n_rows is None  # the count of the source is not that of the sample
        table = pa.Table.from_batches(batches_of(stream), stream.schema)
    return table, spread.counted["rows"]


@pytest.mark.parametrize(("batch_rows", "n_pieces"), [(1, 1), (7, 1), (100, 3), (1_000, 1)])
@pytest.mark.parametrize("size", [1, 2, 50, 299, 300, 301, 5_000])
def test_the_rows_of_the_smallest_places(monkeypatch, batch_rows, n_pieces, size):
    monkeypatch.setattr(spread_rows, "HELD_ROWS", 20)  # rows are dropped on the way
    table, n_rows = sample(Made(300, batch_rows, n_pieces), size)
    expected = np.sort(np.argsort(golden_places(np.arange(300)))[:size])
    assert table["id"].to_pylist() == expected.tolist()
    assert table['ä "b"'].to_pylist() == expected.astype(str).tolist()
    assert n_rows == 300


def test_no_rows():
    table, n_rows = sample(Made(0, 5), 10)
    assert (table.num_rows, n_rows) == (0, 0)


def test_a_long_source_is_held_in_bounded_memory():
    chosen = spread_rows.ChosenRows(10)
    for _ in range(40):
        chosen.add(pa.record_batch([np.zeros(20_000)], names=["x"]))
        assert chosen.n_held < 10 + spread_rows.HELD_ROWS
    assert sum(batch.num_rows for batch in chosen.in_order()) == 10


def test_files_give_the_columns_that_are_used(tmp_path):
    for name, ids in (("a", [1, 2]), ("b", [3])):
        frame = pd.DataFrame({"id": ids, "x": 1.0, "other": "o"})
        frame.to_parquet(tmp_path / f"{name}.parquet")
    rows = RowsOfFiles(ParquetFiles(tmp_path))
    with rows.open(TODAY, SpoolRules(used=("x", "id"))) as stream:
        batches = batches_of(stream)
    assert {tuple(batch.schema.names) for batch in batches} == {("id", "x")}
    assert [value for batch in batches for value in batch["id"].to_pylist()] == [1, 2, 3]
    with rows.open(TODAY, SpoolRules()) as stream:
        assert batches_of(stream)[0].schema.names == ["id", "x", "other"]
    assert (rows.kind, rows.describe()) == ("parquet", f"parquet {tmp_path}")
