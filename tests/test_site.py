"""The site: it is built without a warning, lists and reaches every page, and names no place of this
machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT
from website.links import faults_of, page_of
from website.reference import BEHIND, MODULES, as_rst, place_of, public_names
from website.sources import documents

LISTS = {"genindex.html", "py-modindex.html", "search.html"}
"""Pages that Sphinx makes, which no page of ours stands for."""


@pytest.mark.systems
def test_the_site_is_built_without_a_warning_lists_and_reaches_its_pages(tmp_path):
    """One build, as `make docs` makes it: a warning, or a link that leads nowhere, fails it."""
    for name in ("sphinx", "myst_nb", "numpydoc", "pydata_sphinx_theme", "sphinx_design"):
        pytest.importorskip(name)
    site = tmp_path / "site"
    command = [sys.executable, "-m", "website", str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800)
    assert (done.returncode, done.stderr) == (0, "")
    assert listed(site) == pages_of(site)
    assert reached(site) == pages_of(site)
    assert names_without_entry(site) == []
    assert places_of_this_machine(site) == set()


def pages_of(site: Path) -> set[str]:
    """The pages of a site, but for the lists that Sphinx makes and the templates of the theme."""
    found = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    return {name for name in found - LISTS if not name.startswith("_static/")}


def listed(site: Path) -> set[str]:
    """The pages that llms.txt has a line of, with a sentence; each once."""
    text = (site / "llms.txt").read_text()
    lines = re.findall(r"^- \[.+\]\((.+)\): .+$", text, re.MULTILINE)
    assert len(lines) == len(set(lines))
    return set(lines)


def reached(site: Path) -> set[str]:
    """The pages that links lead to from the front page, directly or over others."""
    found, new = set(), {"index.html"}
    while new:
        found |= new
        linked = {
            (site / name).parent.joinpath(link.partition("#")[0]).resolve()
            for name in new
            for link in page_of(site / name).links
            if not link.startswith(("http", "mailto", "#"))
        }
        new = {path.relative_to(site).as_posix() for path in linked if path.suffix == ".html"}
        new -= found | LISTS
    return found


def names_without_entry(site: Path) -> list[str]:
    """The public names that no page of the reference has an anchor for."""
    anchors = {anchor for path in (site / "api").glob("*.html") for anchor in page_of(path).anchors}
    modules = (*MODULES, *BEHIND)
    places = [place_of(module, name) for module in modules for name in public_names(module)]
    return [place for place in places if place not in anchors]


def places_of_this_machine(site: Path) -> set[tuple[str, str]]:
    """Files of a site with the place in them."""
    texts = {".html", ".js", ".txt", ".css", ".json"}
    places = (str(ROOT), sys.prefix, f"{Path.home()}/", str(site.parent))
    return {
        (path.name, place)
        for path in site.rglob("*")
        if path.suffix in texts
        for place in places
        if place in path.read_text()
    }


def test_links_that_lead_nowhere_and_what_comes_from_the_web_are_told(tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="here"></h1><a href="b.html#there"></a>')
    (tmp_path / "b.html").write_text(
        '<a href="a.html#here"></a><a href="a.html#gone"></a><a href="c.html"></a>'
        '<a href="https://a.b/c"></a><script src="https://a.b/c.js"></script>'
    )
    assert faults_of(tmp_path) == [
        "a.html links to b.html#there",
        "b.html loads https://a.b/c.js",
        "b.html links to a.html#gone",
        "b.html links to c.html",
    ]


def test_docstrings_become_text_with_links():
    assert as_rst("|phi| of `n_players`, ``a|b``") == r"\|phi\| of ``n_players``, ``a|b``"
    assert as_rst("see `Marginal`") == "see :py:obj:`Marginal <dshap.values.Marginal>`"


def test_every_page_of_the_repository_is_in_the_guide():
    guide = (ROOT / "website" / "pages" / "guide.md").read_text()
    names = [page.relative_to(ROOT).with_suffix("").as_posix() for page in documents()]
    missing = [name for name in names if not re.search(rf"^(.*<)?{name}>?$", guide, re.MULTILINE)]
    assert missing == ["CHANGELOG"]  # the front page has it
