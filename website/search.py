"""The search of the site: a Sphinx extension that leaves attributes out, and checks of the index."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain

LEFT_OUT = {"attribute", "property"}
"""Kinds of objects that the search leaves out: the page of their class has each of them in a line."""
ANSWERS = {
    "std_error": ("docs/errors",),
    "cite": ("index",),
    "compare two models": ("docs/differences",),
    "categorical columns": ("docs/columns",),
    "reason codes SQL": ("docs/adverse_action", "docs/sinks"),
    "SLURM": ("docs/clusters",),
    "S3": ("docs/stores",),
    "LightGBM": ("docs/models", "api/dshap.values.Trees"),
    "correlated columns": ("notebooks/correlated_columns", "docs/value_functions"),
    "texts": ("docs/texts",),
}
"""A search of a visitor -> the pages that answer it.  One of them has to be among the first hits."""
FIRST = 3
"""The number of hits that count as the first."""
CLICKS = 2
"""The most clicks from the front page to an answer."""


class SearchedNames(PythonDomain):
    """The names of Python, where the search leaves out attributes."""

    def get_objects(self) -> Iterator[tuple[str, str, str, str, str, int]]:
        """The names, their pages and their places in the search; −1 for none."""
        for name, shown, kind, page, anchor, place in super().get_objects():
            yield name, shown, kind, page, anchor, -1 if kind in LEFT_OUT else place


def index_faults(site: Path) -> list[str]:
    """One line for each kind of page or name that the index of the search has and should not."""
    text = (site / "searchindex.js").read_text()
    index = json.loads(text.removeprefix("Search.setIndex(").rstrip().removesuffix(")"))
    changelog = index["docnames"].index("CHANGELOG")
    found = [word for word, pages in index["terms"].items() if changelog in _listed(pages)]
    kinds = {
        index["objtypes"][str(each[1])] for names in index["objects"].values() for each in names
    }
    return [
        *(f"the search has words of the changelog, such as {word!r}" for word in found[:1]),
        *(f"the search has names of the kind {kind}" for kind in kinds if kind[3:] in LEFT_OUT),
    ]


def _listed(pages: int | list[int]) -> list[int]:
    """The pages of a word; the index has a number in place of a list of one."""
    return pages if isinstance(pages, list) else [pages]


def far_answers(clicks: dict[str, int]) -> list[str]:
    """One line for each search whose answers are too many clicks from the front page."""
    return [
        f"no answer to {query!r} is within {CLICKS} clicks of the front page"
        for query, pages in ANSWERS.items()
        if min(clicks.get(f"{page}.html", CLICKS + 1) for page in pages) > CLICKS
    ]


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.add_domain(SearchedNames, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
