"""The checks of the site; `make docs` builds it, and fails by them."""

from __future__ import annotations

import importlib
import json
import re

import nbformat
import pytest
from nbformat import v4

from dshap.core.options import RunOptions
from dshap.values import Marginal
from tests.pages import PAGES, ROOT
from website.checks import (
    clicks,
    functions_without_picture,
    names_without_entry,
    page_faults,
    places_of_this_machine,
)
from website.docstrings import BACK, linked_names, type_of_member, with_anchor
from website.gallery import below_functions, drawing_functions, gallery_page, pictures_of
from website.links import faults_of
from website.reference import INTERNAL, MODULES, as_rst, public_names, reference_pages
from website.search import far_answers, index_faults
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


def test_members_of_classes_show_their_types():
    assert type_of_member(Marginal, "n_players") == "int"
    assert type_of_member(RunOptions, "missing") == "MissingRule"  # a field of a dataclass
    assert type_of_member(RunOptions, "of") == ""


def test_names_in_annotations_are_links_but_not_words_in_quotation_marks():
    parts = linked_names('Literal["refuse", "skip"] | np.ndarray', "api/dshap")
    found = [(type(part).__name__, part.astext()) for part in parts if part.astext()]
    assert found == [
        ("pending_xref", "Literal"),
        ("Text", '["refuse", "skip"] | '),
        ("pending_xref", "np.ndarray"),
    ]


def test_every_page_of_the_repository_is_in_the_guide():
    guide = (ROOT / "website" / "pages" / "guide.md").read_text()
    names = [page.relative_to(ROOT).with_suffix("").as_posix() for page in documents()]
    missing = [name for name in names if not re.search(rf"^(.*<)?{name}>?$", guide, re.MULTILINE)]
    assert missing == ["CHANGELOG"]  # the front page has it


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.stem)
def test_tables_have_no_blank_line_below_their_heading(page):
    """A blank line there makes a paragraph of bars out of the table."""
    assert re.findall(r"^\|.*\|\n\n+\|---.*$", page.read_text(), re.MULTILINE) == []


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


def test_internal_names_are_there_and_have_no_page():
    assert set(INTERNAL) <= set(MODULES)
    for module, names in INTERNAL.items():
        assert names <= set(importlib.import_module(module).__all__), module
        assert not names & set(public_names(module))


@pytest.mark.parametrize("module", INTERNAL)
def test_no_page_teaches_an_internal_name(module):
    notebooks = sorted((ROOT / "notebooks").glob("*.py"))
    for page in [*PAGES.values(), *notebooks]:
        taught = set(re.findall(rf"{re.escape(module)}\.(\w+)", page.read_text()))
        assert not taught & INTERNAL[module], page


def cell_with_pictures(source, *data):
    cell = v4.new_code_cell(source)
    cell.outputs = [
        v4.new_output("display_data", {"image/png": each, "text/plain": "<Figure>"})
        for each in data
    ]
    return cell


@pytest.fixture
def pictures():
    """Pictures of a notebook of three sections; the data of a picture are its number."""
    cells = [
        v4.new_markdown_cell("# All\n\ntext"),
        v4.new_code_cell("import dshap\n\ncube = dshap.explain(value, X)"),
        v4.new_markdown_cell("## Every feature: `beeswarm`"),
        cell_with_pictures("axes = dshap.report.beeswarm(cube)", "AAAA"),
        v4.new_markdown_cell("## Mean |attribution|: `bar`"),
        cell_with_pictures("axes = dshap.report.bar(cube)", "AAAB"),
        cell_with_pictures("axes = dshap.report.bar(cube, by='year')", "AAAC"),
        v4.new_markdown_cell("## A text: `sentence_picture`"),
        cell_with_pictures(
            "s = dshap.report.sentence(cube, 0)\ndshap.report.sentence_picture([s], 'a.png')",
            "AAAD",
        ),
    ]
    return pictures_of(nbformat.from_dict(v4.new_notebook(cells=cells)))


def test_pictures_are_named_by_the_function_that_draws_them(pictures):
    found = [(each.function, each.file, each.title, each.png[-1]) for each in pictures]
    assert found == [
        ("beeswarm", "beeswarm.png", "Every feature", 0),
        ("bar", "bar.png", "Mean |attribution|", 1),
        ("bar", "bar-2.png", "Mean |attribution|", 2),
        ("sentence_picture", "sentence_picture.png", "A text", 3),
    ]
    assert [each.anchor for each in pictures[:2]] == [
        "every-feature-beeswarm",
        "mean-attribution-bar",
    ]


def test_the_gallery_links_to_functions_and_code(pictures):
    page = gallery_page(pictures)
    assert page.count(":::{grid-item-card}") == 4
    assert "(api/dshap.report.beeswarm.rst)" in page
    assert "(notebooks/gallery.ipynb#every-feature-beeswarm)" in page


def test_the_page_of_a_function_shows_all_of_its_pictures(pictures):
    pages = reference_pages(below_functions(pictures))
    assert pages["dshap.report.bar"].count(".. image:: ../gallery/bar") == 2
    assert "   axes = dshap.report.bar(cube, by='year')\n" in pages["dshap.report.bar"]
    assert ".. image::" not in pages["dshap.report.rankings"]


def test_functions_that_draw_are_known_by_their_parameters():
    drawing = drawing_functions()
    assert {"beeswarm", "drift_bars", "heat_picture", "waterfall"} <= drawing
    assert not {"diff", "sentence", "page", "rankings"} & drawing


def test_a_function_without_a_picture_is_told(tmp_path):
    (tmp_path / "api").mkdir()
    for name in drawing_functions():
        text = '<img src="../_images/a.png">' if name != "force" else "<p></p>"
        (tmp_path / "api" / f"dshap.report.{name}.html").write_text(text)
    assert functions_without_picture(tmp_path) == [
        "dshap.report.force has no picture: draw one in notebooks/gallery.py"
    ]


def test_what_the_search_should_not_have_is_told(tmp_path):
    index = {
        "docnames": ["CHANGELOG", "docs/errors"],
        "terms": {"error": [0, 1], "release": 0, "row": 1},
        "objects": {"dshap.Cube": [[1, 0, 1, "", "rows"], [1, 1, 1, "", "show"]]},
        "objtypes": {"0": "py:attribute", "1": "py:method"},
    }
    (tmp_path / "searchindex.js").write_text(f"Search.setIndex({json.dumps(index)})")
    assert index_faults(tmp_path) == [
        "the search has words of the changelog, such as 'error'",
        "the search has names of the kind py:attribute",
    ]
    assert far_answers({"index.html": 0, "docs/errors.html": 3})[0] == (
        "no answer to 'std_error' is within 2 clicks of the front page"
    )


def test_the_source_of_a_name_leads_to_its_entry():
    """sphinx.ext.viewcode has one module for all names of a file, here dshap."""
    links = (
        '<a href="../../api/dshap.report.Shift.html#dshap.Shift">'
        '<a href="../api/dshap.run.prepared_states.Prepared.html#dshap.Prepared.attributor">'
        '<a href="../api/dshap.models.robustness-function.html#dshap.models.robustness">'
        '<a href="#L10">'
    )
    assert BACK.sub(with_anchor, links) == (
        '<a href="../../api/dshap.report.Shift.html#dshap.report.Shift">'
        '<a href="../api/dshap.run.prepared_states.Prepared.html#dshap.run.prepared_states.Prepared.attributor">'
        '<a href="../api/dshap.models.robustness-function.html#dshap.models.robustness">'
        '<a href="#L10">'
    )
