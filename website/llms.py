"""A Sphinx extension: llms.txt, the list of the site's pages for programs that read text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

SECTIONS = {
    "": "Start",
    "docs": "Guide",
    "notebooks": "Notebooks",
    "workflows": "Workflows",
    "cluster": "Clusters",
    "dshap": "How it is built",
    "api": "API reference",
}
"""Folder of pages -> the heading of its list."""


def write_llms(app: Sphinx, failure: Exception | None) -> None:
    """Write the title and the first sentence of every page."""
    if failure is not None:
        return
    lines = [f"# {app.config.project}", "", f"> {first_sentence(app.env.get_doctree('index'))}"]
    for folder, heading in SECTIONS.items():
        names = [name for name in sorted(app.env.found_docs) if folder_of(name) == folder]
        lines += ["", f"## {heading}", "", *(line_of(app, name) for name in names)]
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines) + "\n")


def folder_of(name: str) -> str:
    """The first folder of a page, or "" for a page at the top."""
    return name.partition("/")[0] if "/" in name else ""


def line_of(app: Sphinx, name: str) -> str:
    """A page's line: its title, its address, its first sentence."""
    sentence = first_sentence(app.env.get_doctree(name))
    title = app.env.titles[name].astext()
    return f"- [{title}]({app.builder.get_target_uri(name)}): {sentence}"


def first_sentence(page: nodes.document) -> str:
    """The first sentence of a page's first paragraph; else of its first block of text."""
    for paragraph in page.findall(nodes.paragraph):
        if not isinstance(paragraph.parent, (addnodes.desc_signature, nodes.field_body)):
            text = " ".join(paragraph.astext().split())
            return re.split(r"(?<=[.?!]) ", text)[0]
    return ""


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("build-finished", write_llms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
