"""The checks of the site; `make docs` builds it, and fails by them."""

from __future__ import annotations

import re

from tests.pages import ROOT
from website.checks import clicks, names_without_entry, page_faults, places_of_this_machine
from website.links import faults_of
from website.reference import as_rst
from website.sources import documents


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


def test_pages_that_are_not_listed_or_not_reached_are_told(tmp_path):
    (tmp_path / "api").mkdir()
    (tmp_path / "index.html").write_text('<a href="a.html"></a><a href="https://b.c/d.html"></a>')
    (tmp_path / "a.html").write_text('<a href="api/b.html#x"></a>')
    (tmp_path / "api" / "b.html").write_text('<dt id="dshap.explain"></dt>')
    (tmp_path / "lost.html").write_text("built in /home/me/dshap")
    (tmp_path / "llms.txt").write_text(
        "- [A](a.html): One.\n- [A](a.html): One.\n- [C](c.html): C."
    )
    assert clicks(tmp_path) == {"index.html": 0, "a.html": 1, "api/b.html": 2}
    assert page_faults(tmp_path) == [
        "llms.txt lacks api/b.html",
        "llms.txt lacks index.html",
        "llms.txt lacks lost.html",
        "llms.txt lists c.html, which is no page",
        "llms.txt lists a.html twice",
        "no link leads to lost.html",
    ]
    without_entry = names_without_entry(tmp_path)
    assert "dshap.fit" in without_entry
    assert "dshap.explain" not in without_entry
    assert places_of_this_machine(tmp_path, {"/home/me"}) == ["lost.html names /home/me"]
