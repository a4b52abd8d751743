"""The data of a page's script: names, formats, selectors and transforms beside the rows."""

from __future__ import annotations

import json

from dshap.report.pages.page_data import rows_json
from dshap.report.pages.page_rows import page_rows
from dshap.report.pages.row_tables import RowFiles, tables_of
from tests.cube.cubes import make_cube
from tests.report.pages.page_names import plain_texts

PLAYERS = ("debt", "</script><b>", "plan")


def test_the_script_is_given_what_it_must_know(tmp_path):
    make_cube(tmp_path / "s", players=PLAYERS, scale="log-odds")
    table, _ = tables_of({"one": tmp_path / "s"})
    texts = plain_texts(
        PLAYERS,
        debt={"label": "Debt ratio", "format": ".1%"},
        plan={"values": {"0": "basic"}, "unit": "a month"},
    )
    rows = page_rows(table, ["debt"])
    files = RowFiles("x_rows", [["5"]])
    text = rows_json(table, rows, texts, "1", [("z", ["one"]), ("y", ["one"])], files)
    page = json.loads(text)
    assert "</script>" not in text
    assert page["base"] == [1.0, 2.0]
    assert page["keys"] == [{"name": "id", "is_number": True}]
    assert page["features"] == ["Debt ratio", PLAYERS[1], "plan"]
    assert page["columns"][0] == {"percent": True, "digits": 1}
    assert page["columns"][2] == {"unit": "a month", "values": {"0": "basic"}}
    assert [part["tab"] for part in page["parts"]] == [1, 0]
    assert {part["probability"] for part in page["parts"]} == {"logistic"}
    assert page["largest"]["1"]["0"] == rows.largest[1][0]
    assert page["files"] == {"folder": "x_rows", "first": [["5"]]}
    assert len(page["rows"]) == page["n_rows"] == 21
