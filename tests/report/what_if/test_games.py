"""The script's models in headless Chromium: predictions and attributions are those of Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.report.what_if.keeping import stored_what_if
from tests.browser import Page
from tests.report.what_if.models import CASES, Case

pytest.importorskip("jinja2", reason="jinja2 is not installed")
TOLERANCE = 1e-9
"""The largest difference, in ranges of the predictions."""
SINGLE = 1e-6
"""That of predictions, where the library adds them in single precision and Python shows its sums."""
COMPUTED = """
((rows) => window.dshapWhatIf.models.map((model) => rows.map((row) => {
  const found = model.explain(Float64Array.from(row, (each) => each === null ? NaN : each));
  return [[...found.prediction], [...found.base], found.phi.map((each) => [...each])];
})))(ROWS)
"""


def codes_of(
    value: Any, rows: pd.DataFrame, categories: dict[str, list[Any]]
) -> list[list[float | None]]:
    """Rows as a model gets them: categories by their positions, missing values as None."""
    model = value.model
    found = np.empty(rows.shape)
    for place, name in enumerate(model.column_names):
        kept = categories.get(name)
        column = (
            rows[name] if kept is None else rows[name].map(list(kept).index, na_action="ignore")
        )
        found[:, place] = column.astype(float)
    return [[None if np.isnan(each) else each for each in row] for row in found.tolist()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_page_computes_what_python_computes(
    case: Callable[[], Case], tmp_path: Path, chromium_page: Page
):
    made = case()
    store = tmp_path / "s"
    options = {"progress": False, **made.options}
    cube = dshap.explain(
        made.value, made.rows, store=store, keep_rows=True, what_if=True, **options
    )
    wanted = dshap.explain(made.value, made.changed, **options)
    page = dshap.report.page(store, tmp_path / "page.html", what_if=True)
    chromium_page.open(page)
    kept = stored_what_if(store)["categories"]
    rows = json.dumps(codes_of(made.value, made.changed, kept))
    (found,) = chromium_page.value(COMPUTED.replace("ROWS", rows))
    span = np.ptp(cube["prediction"].values)
    phi = np.array([each[2] for each in found]).transpose(0, 2, 1)
    active = [cube["feature"].values.tolist().index(name) for name in _players(chromium_page)]
    _assert_near(phi, wanted["attribution"].values[:, active], TOLERANCE * span)
    _assert_near(
        [each[1] for each in found], [wanted["base_value"].values] * len(found), TOLERANCE * span
    )
    is_single = made.value.__class__.__name__ == "Trees" and made.value.model.trees.rounding > 1e-9
    slack = SINGLE if is_single else TOLERANCE
    _assert_near([each[0] for each in found], wanted["prediction"].values, slack * span)
    # efficiency, which is of the script alone
    sums = phi.sum(axis=1) + np.array([each[1] for each in found])
    _assert_near(sums, [each[0] for each in found], TOLERANCE * span)
    note = chromium_page.value("document.querySelector('#what-if p').textContent")
    assert note.startswith("Change values of this row to see what the model predicts")
    assert chromium_page.complaints() == []


def _players(page: Page) -> list[str]:
    return page.value("window.dshapWhatIf.models[0].players")


def _assert_near(found: Any, wanted: Any, slack: float) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=0.0, atol=slack)
