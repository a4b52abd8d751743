"""The links of the built site: each leads to a file and an anchor of it, and no page loads anything
from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "link": "href"}
"""Tag -> its attribute with an address that a browser loads at once."""
IGNORED_RELATIONS = {"canonical", "search", "index", "next", "prev", "author", "copyright"}


@dataclass
class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what a tag names and leads to."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif LOADED.get(tag) in values and values.get("rel") not in IGNORED_RELATIONS:
            self.loaded.append(values[LOADED[tag]])


@cache
def page_of(path: Path) -> Page:
    """A page as it was built."""
    page = Page()
    page.feed(path.read_text())
    return page


def faults_of(site: Path) -> list[str]:
    """One line for each link that leads nowhere, and for each address that a page loads from the
    web."""
    faults = []
    pages = sorted(site.rglob("*.html"))
    for path in [path for path in pages if path.parent.name != "_static"]:  # templates of the theme
        page = page_of(path)
        name = path.relative_to(site).as_posix()
        faults += [f"{name} loads {each}" for each in page.loaded if urlsplit(each).netloc]
        faults += [
            f"{name} links to {each}"
            for each in [*page.links, *page.loaded]
            if not leads_somewhere(path, each)
        ]
    return faults


def leads_somewhere(path: Path, link: str) -> bool:
    """Whether a link of a page leads to a file of the site, and to an anchor that it has."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return False
    anchor = unquote(parts.fragment)
    return not anchor or target.suffix != ".html" or anchor in page_of(target).anchors
