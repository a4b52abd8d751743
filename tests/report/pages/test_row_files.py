"""All rows in files: each is in the file that the page looks for, and the folder is replaced whole."""

from __future__ import annotations

import bisect
import json
from pathlib import Path

import pytest

from dshap.core.errors import InputError
from dshap.report.pages import row_files as files_module
from dshap.report.pages.page_rows import page_rows
from dshap.report.pages.row_files import write_row_files
from dshap.report.pages.row_tables import tables_of
from tests.cube.cubes import N_ROWS, make_cube


def called(path: Path) -> tuple[int, list[list]]:
    """The arguments of the one call in a file."""
    text = path.read_text()
    assert text.startswith("dshapRows(")
    assert text.endswith(",\n]);\n")
    number, _, rows = text.removeprefix("dshapRows(").partition(",")
    return int(number), json.loads(rows.removesuffix(",\n]);\n") + "]")


@pytest.mark.parametrize("kind", ["int64", "string", "datetime64[ns]"])
def test_every_row_is_in_the_file_of_its_key(tmp_path, monkeypatch, kind):
    make_cube(tmp_path / "s", keys={"id": kind}, tiles=[0, 2], skipped=(1,))
    monkeypatch.setattr(files_module, "FILE_BYTES", 500)
    table, _ = tables_of({"one": tmp_path / "s"})
    found = write_row_files(table, tmp_path / "report_rows")
    order = {"int64": int}.get(kind, str)
    firsts = [order(*first) for first in found.firsts]
    assert firsts == sorted(firsts)
    assert len(firsts) > 2
    seen = {}
    for place in range(len(firsts)):
        number, rows = called(tmp_path / "report_rows" / f"{place:06}.js")
        assert number == place
        for row in rows:
            assert bisect.bisect_right(firsts, order(row[0])) - 1 == place
            seen[row[0]] = row
    assert len(seen) == N_ROWS - 8  # the rows of the second block are pending
    there = [json.loads(text) for text in page_rows(table, []).texts]
    assert len(there) == N_ROWS - 8 - 2
    assert all(seen[row[0]] == row for row in there)
    skipped = [row for row in seen.values() if row[1] is None]
    assert len(skipped) == 2


def test_the_folder_is_replaced_and_others_are_left_alone(tmp_path):
    make_cube(tmp_path / "s")
    table, _ = tables_of({"one": tmp_path / "s"})
    folder = tmp_path / "report_rows"
    folder.mkdir()
    (folder / "000007.js").write_text("of an earlier page")
    write_row_files(table, folder)
    assert [path.name for path in folder.iterdir()] == ["000000.js"]
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="report_rows exists and contains other things than rows"):
        write_row_files(table, folder)
    assert (folder / "mine.txt").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report_rows", "s"]
