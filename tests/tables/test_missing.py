"""What a plan tells of missing values: nulls of all rows by the footers, NaN and infinity by a look."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dshap.tables import ParquetSource, SyntheticTable, missing_values
from dshap.tables.missing import LOOKS
from dshap.tables.reader import BATCH_ROWS


def written(folder, values, name="t", **options):
    table = pa.table({"x": pa.array(values), "one": np.ones(len(values)), "id": np.arange(len(values))})
    pq.write_table(table, folder / f"{name}.parquet", **options)
    return ParquetSource(folder, features=["x", "one"], key="id", missing="skip")


def test_nulls_of_all_files_are_counted_without_a_row(tmp_path, monkeypatch):
    written(tmp_path, [1.0, None, None], "a")
    written(tmp_path, [None, 2.0], "b", row_group_size=1)
    source = written(tmp_path, [1, 2], "c")  # of another type
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *_, **__: pytest.fail("a row is read"))
    assert source.null_counts == {"x": 3, "one": 0, "id": 0}


def test_a_file_that_counts_no_nulls_is_said(tmp_path):
    source = written(tmp_path, [1.0, None, np.nan], write_statistics=False)
    found = missing_values(source)
    assert source.null_counts == {"x": None, "one": None, "id": None}
    assert found.nulls == {} and found.uncounted == ("x", "one", "id") and found.seen == {"x": 2}
    assert str(found) == (
        "nulls: none; not counted by the files: x, one, id; NaN or infinity: x 2 in all rows; "
        'missing = "skip": such rows are skipped'
    )
    written(tmp_path, [1.0], "b")
    assert ParquetSource(tmp_path, features="x").null_counts == {"x": None}  # one file of two


@pytest.mark.parametrize("n_rows", [1, BATCH_ROWS, LOOKS * BATCH_ROWS, LOOKS * BATCH_ROWS + LOOKS, 6 * BATCH_ROWS + 5])
def test_a_few_batches_are_looked_at(tmp_path, n_rows):
    """The first row of the table, and where that is small all of it; never more than four batches."""
    values = np.ones(n_rows)
    values[0] = values[-1] = np.nan
    source = written(tmp_path, values, row_group_size=5_000)
    found = missing_values(source)
    is_whole = n_rows <= LOOKS * BATCH_ROWS
    assert found.rows_seen == min(n_rows, LOOKS * BATCH_ROWS) and found.n_rows == n_rows
    assert found.seen == {"x": 1 if n_rows == 1 or not is_whole else 2}
    assert (" in all rows;" in str(found)) is is_whole
    assert is_whole or f" in 65,536 of {n_rows:,} rows looked at;" in str(found)


def test_a_made_up_table_lacks_nothing():
    found = missing_values(SyntheticTable("powerlifting", 500))
    assert str(found) == "nulls: none; NaN or infinity: none in all rows" and found.missing == "refuse"
