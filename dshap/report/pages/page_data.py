"""The data of a page's script: rows, and everything that is needed to read and show them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dshap.analysis.measures import bracketed
from dshap.core.printing import label
from dshap.report.pages.codes import place_width
from dshap.report.pages.page_rows import PageRows
from dshap.report.pages.page_texts import PageTexts
from dshap.report.pages.probabilities import transform_of
from dshap.report.pages.row_tables import RowFiles, RowTable, json_text

FORMAT = re.compile(r"[,_]?(?:\.(\d))?([f%gd]?)")
"""The formats of numbers that the script of a page can write too."""


def rows_json(
    table: RowTable,
    rows: PageRows,
    texts: PageTexts,
    units: str,
    tabs: Sequence[tuple[str, Sequence[str]]],
    files: RowFiles | None,
) -> str:
    """The JSON of the page's rows, with everything that its script needs to read them.

    Parameters
    ----------
    tabs : each output of the page's selector, with the explanations that it shows
    files : the folder of all rows beside the page; None if there is none
    """
    names = zip(table.key_names, table.key_kinds, strict=True)
    held = None
    if files is not None:
        held = {"folder": files.folder, "first": files.firsts}
    head = {
        "keys": [{"name": label(name), "is_number": kind == "int64"} for name, kind in names],
        "parts": [
            {
                "name": label(each.explanation),
                "output": label(each.output),
                "units": bracketed(units, table.cubes[each.explanation].scale),
                "tab": _tab_of(tabs, each.output, each.explanation),
                "probability": transform_of(table.cubes[each.explanation]),
            }
            for each in table.parts
        ],
        "features": texts.names,
        "columns": [_column(texts, feature) for feature in texts.features],
        "width": place_width(len(table.first.features)),
        "base": table.fixed_base,
        "n_rows": table.first.n_rows,
        "files": held,
        "largest": rows.largest,
    }
    return f'{json_text(head)[:-1]},"rows":[{",".join(rows.texts)}]}}'


def _tab_of(tabs: Sequence[tuple[str, Sequence[str]]], output: str, explanation: str) -> int:
    """The place in the selector of the output of an explanation; −1 for one that has no rows."""
    for place, (name, explanations) in enumerate(tabs):
        if name == output and explanation in explanations:
            return place
    return -1


def _column(texts: PageTexts, feature: str) -> Mapping[str, Any]:
    """How the script shows the values of a column; empty if it has no entry."""
    entry = texts.columns.entry(feature)
    found: dict[str, Any] = {}
    if entry.unit:
        found["unit"] = label(entry.unit)
    if texts.columns.has_flags(feature):
        found["values"] = {str(code): texts.columns.value_text(feature, code) for code in (0, 1)}
    elif entry.values:
        found["values"] = {name: label(text) for name, text in entry.values.items()}
    if texts.columns.is_year(feature):
        found["year"] = True
    shape = FORMAT.fullmatch(entry.format)
    if entry.format and shape:
        digits, kind = shape.groups()
        found["percent"] = kind == "%"
        if digits is not None and kind in "f%":
            found["digits"] = int(digits)
        if kind == "d":
            found["digits"] = 0
    return found
