"""The search of the built site, as a visitor has it: in headless Chromium, served over HTTP.

`make docs` builds the site; without it these tests are skipped.
"""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import pytest

from tests.browser import browser
from tests.pages import ROOT
from website.search import ANSWERS, FIRST

SITE = ROOT / "build" / "site"
HITS = """
[...document.querySelectorAll("#search-results ul.search > li > a")].map(
    (hit) => new URL(hit.href).pathname.slice(1).replace(/[.]html$/, "")
)
"""
"""The pages of the hits that the search shows, in its order."""


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture(scope="module")
def address():
    """The address of the built site."""
    if not (SITE / "searchindex.js").exists():
        pytest.skip("make docs has not built the site")
    handler = partial(QuietHandler, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def search(address):
    """The pages that the search finds for a query, in its order."""
    with browser() as page:

        def found(query):
            page.call("Page.enable")
            page.call("Page.navigate", url=f"{address}/search.html?q={quote(query)}")
            ended = (
                '/found|did not match/.test(document.querySelector(".search-summary")?.innerText)'
            )
            page.wait_for(f"decodeURIComponent(location.search) === {'?q=' + query!r} && {ended}")
            return page.value(HITS)

        yield found


@pytest.mark.parametrize("query", ANSWERS)
def test_a_page_that_answers_is_among_the_first_hits(search, query):
    first = search(query)[:FIRST]
    assert set(ANSWERS[query]) & set(first), first


def test_a_word_that_only_the_changelog_has_finds_nothing_there(search):
    assert "CHANGELOG" not in search("numerics")
