"""CSV files: one type a column over all files, missing values, and files that cannot be read."""

from __future__ import annotations

import datetime
import gzip

import pyarrow as pa
import pytest

from dshap.core.errors import EmptyTableError, InputError
from dshap.warehouse import csv_files
from dshap.warehouse.csv_files import CsvFiles
from tests.databases import batches_of


def read(*texts, folder, **options):
    for index, text in enumerate(texts):
        (folder / f"{index}.csv").write_text(text)
    with CsvFiles(str(folder), **options).open() as stream:
        names = stream.schema.names
        batches = [batch.select(names) for batch in batches_of(stream)]
        return pa.Table.from_batches(batches, stream.schema)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2.5"], pa.float64()),
        (["1", "99999999999999999999"], pa.float64()),
        (["1", "word"], pa.string()),
        (["", "3"], pa.int64()),
        (["", ""], pa.float64()),
        (["2026-11-01", "2026-11-01 10:00:00"], pa.timestamp("s")),
        (["2026-11-01 10:00:00", "2026-11-01"], pa.timestamp("s")),
        (["2026-11-01", "1"], pa.string()),
        (["true", "false"], pa.bool_()),
        (["true", "2"], pa.string()),
        (["NA", "basic"], pa.string()),
        (["1", '"a, ""b"""'], pa.string()),
    ],
)
@pytest.mark.parametrize("in_two_files", [False, True])
def test_a_column_has_the_type_of_all_its_values(tmp_path, monkeypatch, values, kind, in_two_files):
    first, second = values
    if in_two_files:
        texts = [f"id,c\n1,{first}\n", f"id,c\n2,{second}\n"]
    else:
        # more than the first block, by which types are guessed
        monkeypatch.setattr(csv_files, "BLOCK_BYTES", 64)
        texts = ["id,c\n" + f"1,{first}\n" * 50 + f"2,{second}\n"]
    table = read(*texts, folder=tmp_path)
    assert table.schema.field("c").type == kind
    expected = {"": None, "NA": None, '"a, ""b"""': 'a, "b"'}
    if kind == pa.string():
        assert table["c"].to_pylist()[-1] == expected.get(second, second)
        assert table["c"].to_pylist()[0] == expected.get(first, first)


def test_codes_stay_text_where_they_are_named(tmp_path):
    text = "id,code\n1,007\n2,\n"
    assert read(text, folder=tmp_path)["code"].to_pylist() == [7, None]
    assert read(text, folder=tmp_path, text=("code",))["code"].to_pylist() == ["007", None]
    with pytest.raises(InputError, match=r'\[source\] text: .*0.csv has no column "cod"'):
        read(text, folder=tmp_path, text=("cod",))


def test_delimiter_and_missing_values_are_chosen(tmp_path):
    table = read("id;land\n1;NA\n2;?\n", folder=tmp_path, delimiter=";", null_values=("?",))
    assert table["land"].to_pylist() == ["NA", None]


def test_lines_inside_quotes_and_packed_files(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b'id,c\n1,"two\nlines"\n'))
    (tmp_path / "notes.txt").write_text("no table")
    with CsvFiles(str(tmp_path)).open() as stream:
        assert [each for batch in batches_of(stream) for each in batch["c"].to_pylist()] == [
            "two\nlines"
        ]


def test_days_are_dates(tmp_path):
    table = read("id,d\n1,2026-11-01\n", folder=tmp_path)
    assert table["d"].to_pylist() == [datetime.date(2026, 11, 1)]


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(InputError, match="no CSV file at"):
        CsvFiles(str(tmp_path / "none.csv")).paths()
    with pytest.raises(InputError, match=r"1.csv has the columns id, d, and the first file id, c"):
        read("id,c\n1,2\n", "id,d\n1,2\n", folder=tmp_path)
    with pytest.raises(InputError, match=r"1.csv is not read as CSV: .*Expected 2 columns, got 3"):
        read("id,c\n1,2\n", "id,c\n1,2,3\n", folder=tmp_path)
    with pytest.raises(EmptyTableError, match=r"0.csv is empty"):
        read("", folder=tmp_path)
