"""Checks of the built site: its pages are listed and reached, its names have entries, and it names
no place of the machine that built it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from website.gallery import MODULE, drawing_functions
from website.links import faults_of, page_of
from website.reference import BEHIND, MODULES, place_of, public_names
from website.search import far_answers, index_faults
from website.sources import ROOT

LISTS = {"genindex.html", "py-modindex.html", "search.html"}
"""Pages that Sphinx makes, which no page of ours stands for."""
TEXTS = {".html", ".js", ".txt", ".css", ".json"}
"""Kinds of files that are searched for places of this machine."""


def check(site: Path) -> list[str]:
    """One line for each fault of a built site."""
    return [
        *faults_of(site),
        *page_faults(site),
        *index_faults(site),
        *far_answers(clicks(site)),
        *functions_without_picture(site),
        *(f"{name} has no entry in the reference" for name in names_without_entry(site)),
        *places_of_this_machine(site, {str(ROOT), sys.prefix, f"{Path.home()}/", str(site.parent)}),
    ]


def page_faults(site: Path) -> list[str]:
    """One line for each page that llms.txt lacks or repeats, and that no link leads to."""
    pages = pages_of(site)
    listed = re.findall(
        r"^- \[.+?\]\(([^)]+)\): .+$", (site / "llms.txt").read_text(), re.MULTILINE
    )
    return [
        *(f"llms.txt lacks {name}" for name in sorted(pages - set(listed))),
        *(f"llms.txt lists {name}, which is no page" for name in sorted(set(listed) - pages)),
        *(f"llms.txt lists {name} twice" for name in set(listed) if listed.count(name) > 1),
        *(f"no link leads to {name}" for name in sorted(pages - set(clicks(site)))),
    ]


def pages_of(site: Path) -> set[str]:
    """The pages of a site, but for lists and sources that Sphinx makes, and templates of the
    theme."""
    found = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    return {name for name in found - LISTS if not name.startswith(("_static/", "_modules/"))}


def clicks(site: Path) -> dict[str, int]:
    """The pages that links lead to from the front page, and after how many clicks."""
    found: dict[str, int] = {}
    new = {"index.html"}
    while new:
        found |= dict.fromkeys(new, max(found.values(), default=-1) + 1)
        linked = {
            (site / name).parent.joinpath(link.partition("#")[0]).resolve()
            for name in new
            for link in page_of(site / name).links
            if not link.startswith(("http", "mailto", "#"))
        }
        names = {path.relative_to(site).as_posix() for path in linked if path.suffix == ".html"}
        new = names - set(found) - LISTS
    return found


def names_without_entry(site: Path) -> list[str]:
    """The public names that no page of the reference has an anchor for."""
    anchors = {anchor for path in (site / "api").glob("*.html") for anchor in page_of(path).anchors}
    modules = (*MODULES, *BEHIND)
    places = [place_of(module, name) for module in modules for name in public_names(module)]
    return [place for place in places if place not in anchors]


def functions_without_picture(site: Path) -> list[str]:
    """One line for each function that draws and has no picture on its page."""
    names = [f"{MODULE}.{name}" for name in sorted(drawing_functions())]
    return [
        f"{name} has no picture: draw one in notebooks/gallery.py"
        for name in names
        if not any("_images/" in each for each in page_of(site / "api" / f"{name}.html").loaded)
    ]


def places_of_this_machine(site: Path, places: set[str]) -> list[str]:
    """One line for each file of a site that names one of these places."""
    return [
        f"{path.relative_to(site).as_posix()} names {place}"
        for path in sorted(site.rglob("*"))
        if path.suffix in TEXTS
        for place in sorted(places)
        if place in path.read_text()
    ]
