"""The size of a page: three outputs of thirty columns take eight screens, twelve printed pages, and
two megabytes."""

from __future__ import annotations

import re
import shutil

import pytest

from dshap.report import page
from tests.benchmarks.pages import make_cube
from tests.report.pages.test_writing import Parsed

pytest.importorskip("jinja2", reason="jinja2 is not installed")
SCREEN = {"width": 1_440, "height": 900}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes")
    make_cube(folder / "s" / "one", 6_000, 30, 3, 0)
    return page(folder / "s", folder / "report.html")


def test_three_outputs_of_thirty_columns_take_two_megabytes(written):
    assert 1_000_000 < written.stat().st_size <= 2_000_000  # as many rows as it has room for
    found = Parsed(written)
    cards = [given for tag, given in found.tags if given.get("class") == "card"]
    assert len(cards) == 3 * 30
    assert found.texts["dependence"].count("22 columns that matter less") == 3


@pytest.mark.slow
def test_it_takes_eight_screens_and_twelve_printed_pages(written):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport=SCREEN)
        tab.goto(written.as_uri())
        height = tab.evaluate("document.documentElement.scrollHeight")
        assert 2 * SCREEN["height"] < height <= 8 * SCREEN["height"]
        assert tab.evaluate("document.documentElement.scrollWidth") == SCREEN["width"]
        printed = tab.pdf(format="A4")
        assert 4 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 12
        # another output is shown without a script, and takes as much room
        seen = tab.locator(".of1").first
        assert not seen.is_visible()
        tab.locator("label[for=output1]").click()
        assert seen.is_visible()
        assert not tab.locator(".of0").first.is_visible()
        tab.set_viewport_size({"width": 390, "height": 844})
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
        browser.close()
