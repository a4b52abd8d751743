"""The what-if of a page in headless Chromium: controls, what is heard, its check of itself, and axe."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.report.pages.rendering import asset
from dshap.report.what_if.packing import numbers_in, packed
from dshap.report.what_if.page_part import what_if_scripts
from tests.browser import Page, axe_source
from tests.report.pages.test_writing import Parsed
from tests.report.what_if.models import (
    Case,
    kernel_rows,
    linear_observational,
    xgboost_classes,
)

pytest.importorskip("jinja2", reason="jinja2 is not installed")
LONG = "age of the policyholder at the beginning of the contract, in whole years 😀 <b>"
NOTE = "document.querySelector('#what-if > p').textContent"
HEARD = "document.querySelector('#what-if [role=status]').textContent"
NOW = "document.querySelector('#what-if .what-if-now').textContent"


def written(case: Case, folder: Path, **options: Any) -> Path:
    """The page of a case, with a what-if."""
    given = {"keep_rows": True, "progress": False, "what_if": True, **case.options, **options}
    rows = given.pop("rows", case.rows)
    dshap.explain(case.value, rows, store=folder / "s", **given)
    return dshap.report.page(folder / "s", folder / "page.html", what_if=True)


@pytest.fixture(scope="module")
def towns_page(tmp_path_factory) -> Path:
    """XGBoost of three classes, with a category, a flag and missing values."""
    case = xgboost_classes()
    words = {"age": {"label": LONG}, "visits": {"format": ".0%"}}
    return written(case, tmp_path_factory.mktemp("towns"), columns=words)


def choose(page: Page, column: str, value: str, kind: str = "input[type=number]") -> None:
    """Give a column a value, as a user does."""
    script = f"""
      (() => {{
        const boxes = [...document.querySelectorAll('.what-if-column')];
        const box = boxes.find((each) => each.querySelector('label').textContent === {json.dumps(column)});
        const input = box.querySelector({json.dumps(kind)});
        input.value = {json.dumps(value)};
        input.dispatchEvent(new Event('input', {{ bubbles: true }}));
        input.dispatchEvent(new Event('change', {{ bubbles: true }}));
      }})()
    """
    page.value(script)


def test_the_page_asks_for_nothing_and_runs_its_own_scripts_alone(towns_page, chromium_page):
    chromium_page.open(towns_page)
    assert chromium_page.requests() == [towns_page.as_uri()]
    assert chromium_page.complaints() == []
    found = Parsed(towns_page)
    policy = next(given["content"] for _, given in found.tags if "http-equiv" in given)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert policy.count("sha256-") == 3 + 1  # scripts and a style
    scripts = "".join(what_if_scripts())
    assert len(scripts.encode()) <= 32_000
    assert not re.search(
        r"https?://(?!www\.w3\.org/2000/svg)|fetch|XMLHttp|eval|innerHTML", scripts
    )
    assert "</script>" not in found.raw["what-if-data"]
    ids = chromium_page.value("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids))


def test_a_slider_moves_by_keys_and_the_prediction_is_heard(towns_page, chromium_page):
    chromium_page.open(towns_page)
    assert chromium_page.value(HEARD) == ""
    chromium_page.value("document.querySelector('#what-if input[type=range]:enabled').focus()")
    before = chromium_page.value("document.activeElement.value")
    for _ in range(60):
        chromium_page.press("ArrowRight")
    assert float(chromium_page.value("document.activeElement.value")) > float(before)
    assert chromium_page.value("document.activeElement.getAttribute('aria-valuetext')") != ""
    chromium_page.wait_for(HEARD)
    heard = chromium_page.value(HEARD)
    assert re.fullmatch(
        r"The prediction (is|stays) [\d.]+\u202f% \(−?[\d.]+\) with the changed values"
        r"(, and [\d.]+\u202f% \(−?[\d.]+\) in the row)?\..*",
        heard,
    )
    chromium_page.value("document.querySelector('#what-if button').click()")
    chromium_page.wait_for(f"{HEARD}.startsWith('The prediction of the row is ')")
    assert (
        chromium_page.value("document.querySelector('#what-if input[type=range]').value")
        is not None
    )


def test_every_control_has_a_name(towns_page, chromium_page):
    chromium_page.open(towns_page)
    chromium_page.call("Accessibility.enable")
    tree = chromium_page.call("Accessibility.getFullAXTree")["nodes"]
    roles = ("slider", "spinbutton", "combobox", "checkbox")
    named = [each for each in tree if each.get("role", {}).get("value") in roles]
    names = [each["name"]["value"] for each in named]
    assert len(names) == len(set(names)), names
    assert all(names)
    # the label of 48 characters
    assert any(name.startswith("age of the policyholder") and "…" in name for name in names)
    assert "town" in names
    assert "flag" in names
    assert "income is missing" in names


def test_values_of_every_kind_change_what_python_changes(towns_page, chromium_page):
    """Numbers, a category, a flag and a missing value, chosen on the page of the last output."""
    case = xgboost_classes()
    rows = case.rows.iloc[[0]].copy()
    rows["visits"] = 0.75
    rows["town"] = pd.Categorical(["Bonn"], categories=rows["town"].cat.categories)
    rows["flag"] = ~rows["flag"]
    rows["east"] = np.nan
    wanted = dshap.explain(case.value, rows, progress=False, **case.options)
    last = str(wanted["output"].values[-1])
    chromium_page.open(towns_page)
    chromium_page.value("document.querySelectorAll('input[name=output]')[2].click()")
    choose(chromium_page, "visits (%)", "75")
    choose(chromium_page, "town", "2", "select")
    for name in ("flag", "east"):
        chromium_page.value(
            f"""[...document.querySelectorAll('.what-if-column')]
              .find((each) => each.querySelector('label').textContent === {name!r})
              .querySelector('input[type=checkbox]').click()"""
        )
    prediction = float(wanted["prediction"].sel(output=last)[0])
    chromium_page.value("document.querySelectorAll('input[name=output]')[0].click()")
    chromium_page.value("document.querySelectorAll('input[name=output]')[2].click()")
    number = f"Number({NOW}.replace('−', '-').match(/\\((-?[0-9.]+)\\) with/)[1])"
    # the changed values stay when another output is looked at
    chromium_page.wait_for(f"Math.abs({number} - {prediction}) < 1e-3")
    chances = np.exp(wanted["prediction"].values[0])
    percent = 100 * chances[-1] / chances.sum()
    shown = float(re.search(r"(?:is|stays) ([\d.]+)\u202f%", chromium_page.value(NOW))[1])
    assert shown == pytest.approx(percent, abs=0.51)
    table = chromium_page.value(
        """[...document.querySelectorAll('#what-if tbody tr')]
          .map((each) => [...each.children].map((cell) => cell.textContent))"""
    )
    names = [line[0] for line in table]
    assert {"visits = 75\u202f%", "town = Bonn", "east = missing"} <= set(names)
    assert {"flag = yes", "flag = no"} & set(names)
    now = {line[0].split(" = ")[0]: line[2].replace("−", "-") for line in table}
    phi = wanted["attribution"].sel(output=last)[0]
    for name in ("visits", "town", "east", "flag"):
        assert float(now[name]) == pytest.approx(float(phi.sel(feature=name)), abs=1e-4)


def told(page: Page, column: str) -> str:
    """The remark below the control of a column; empty where it is hidden."""
    return page.value(
        f"""(() => {{
          const boxes = [...document.querySelectorAll('.what-if-column')];
          const box = boxes.find((each) => each.querySelector('label').textContent === {json.dumps(column)});
          const remark = box.querySelector('.told');
          return remark.hidden ? '' : remark.textContent;
        }})()"""
    )


def test_changed_values_are_marked_odd_ones_remarked_on_and_all_go_back(towns_page, chromium_page):
    """The names of controls are those of `towns_page`; rows have visits from -4 to 4 or so."""
    chromium_page.open(towns_page)
    changed = (
        "[...document.querySelectorAll('.what-if-column.changed label:first-child')]"
        ".map((each) => each.textContent)"
    )
    back = "document.querySelector('#what-if form > button')"
    assert chromium_page.value(f"{back}.disabled")
    assert chromium_page.value(changed) == []
    assert chromium_page.value("document.querySelectorAll('#what-if figure').length") == 0
    rows = xgboost_classes().rows
    choose(chromium_page, "visits (%)", "50")
    inside = told(chromium_page, "visits (%)")
    assert inside == f"In the row: {100 * rows['visits'][0]:,.0f}\u202f%.".replace("-", "−")
    choose(chromium_page, "visits (%)", "90000")
    low, high = (
        f"{100 * each:,.0f}".replace("-", "−") for each in rows["visits"].agg(["min", "max"])
    )
    outside = f"The rows of this page have {low}\u202f% to {high}\u202f%: the model may never have seen such a value."
    assert told(chromium_page, "visits (%)") == f"{inside} {outside}"
    chromium_page.wait_for(f"{HEARD}.includes('visits (%): The rows of this page have')")
    age = chromium_page.value(
        "[...document.querySelectorAll('.what-if-column label')].map((each) => each.textContent)"
        ".find((each) => each.startsWith('age of'))"
    )
    choose(chromium_page, age, "0.5")
    assert told(chromium_page, age).endswith(" All rows of this page have whole numbers here.")
    choose(chromium_page, "visits (%)", "")
    assert told(chromium_page, "visits (%)") == (
        f"{inside} Type a number: the prediction still uses 90000\u202f%."
    )
    assert set(chromium_page.value(changed)) == {"visits (%)", age}
    assert chromium_page.value("document.querySelectorAll('#what-if figure').length") == 1
    chromium_page.value(f"{back}.click()")
    assert chromium_page.value(changed) == []
    assert told(chromium_page, "visits (%)") == told(chromium_page, age) == ""
    chromium_page.wait_for(f"{NOW}.startsWith('The prediction of the row is ')")
    assert chromium_page.value(f"{back}.disabled")
    # a key that is none leaves no row to change
    chromium_page.value(
        "(() => { document.querySelector('#search input').value = 'x';"
        " document.querySelector('#search').requestSubmit(); })()"
    )
    assert chromium_page.value("document.querySelector('#what-if').hidden")


def test_the_scripts_of_a_page_share_their_functions():
    """A function that two scripts need is in `page.js` alone: they have no three lines in common."""
    scripts = [*what_if_scripts(), *map(asset, ("page.js", "largest_rows.js", "run_history.js"))]
    parts = []
    for text in scripts:
        lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 2]
        parts.append({"\n".join(lines[at : at + 3]) for at in range(len(lines) - 2)})
    for one, other in itertools.combinations(parts, 2):
        assert not one & other


def test_a_row_that_is_found_by_its_key_has_its_values(tmp_path, chromium_page):
    case = linear_observational()
    rows = case.rows.assign(id=[f"k{i}" for i in range(len(case.rows))])
    chromium_page.open(written(case, tmp_path, rows=rows, key="id"))
    chromium_page.value(
        "(() => { document.querySelector('#search input').value = 'k7';"
        " document.querySelector('#search').requestSubmit(); })()"
    )
    found = chromium_page.value("document.querySelector('#what-if input[type=number]').value")
    shown = chromium_page.value("document.querySelector('#what-if label').textContent")
    column = shown.split(" (")[0]
    assert float(found) == pytest.approx(rows[column][7], rel=1e-5)
    assert chromium_page.value(NOTE).startswith("Change values of this row to see")
    chromium_page.value(
        "(() => { document.querySelector('#search input').value = 'none';"
        " document.querySelector('#search').requestSubmit(); })()"
    )
    assert chromium_page.value("document.querySelector('#what-if').hidden")


def _altered(page: Path, change: Any) -> Path:
    """A page whose content for the script is another."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split('id="what-if-data">')
    data, after = rest.split("</script>", 1)
    content = json.loads(data)
    change(content)
    other = page.with_name("other.html")
    other.write_text(
        before + 'id="what-if-data">' + json.dumps(content) + "</script>" + after, encoding="utf-8"
    )
    return other


def test_a_script_that_gives_other_numbers_says_so(tmp_path, chromium_page):
    page = written(kernel_rows(), tmp_path)

    def alter(content):
        part = content["models"][0]["arrays"]["parts"][0]
        weights = numbers_in(part["weights"]).astype(float)
        weights[0] *= 1.01
        part["weights"] = packed(weights)

    chromium_page.open(_altered(page, alter))
    note = chromium_page.value(NOTE)
    assert note.startswith(
        "This page computes other numbers for this row than the stored ones (prediction "
    )
    role = "document.querySelector('#what-if > p').getAttribute('role')"
    assert chromium_page.value(role) == "alert"

    def lose(content):
        content["keys"] = content["keys"][1:]
        content["values"] = [packed(numbers_in(each)[1:]) for each in content["values"]]

    chromium_page.open(_altered(page, lose))
    assert chromium_page.value(NOTE) == (
        "This row cannot be changed, as the page does not have all of its values: 59 other rows can."
    )
    assert chromium_page.value("document.querySelector('#what-if form').hidden")


@pytest.mark.parametrize("width", [1100, 360])
def test_nothing_is_wider_than_the_screen(towns_page, chromium_page, width):
    chromium_page.resize(width, 800)
    chromium_page.open(towns_page)
    assert chromium_page.value("document.documentElement.scrollWidth") <= width
    chromium_page.resize(1100, 800)


def test_axe_finds_no_fault(towns_page, chromium_page):
    source = axe_source()
    chromium_page.open(towns_page)
    chromium_page.value(source + "; 0")
    faults = chromium_page.value(
        "axe.run(document, {resultTypes: ['violations']}).then((found) =>"
        " found.violations.map((each) => each.id + ': ' + each.nodes[0].html))"
    )
    assert faults == []
