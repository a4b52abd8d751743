"""One Chromium for the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import Page, browser


@pytest.fixture(scope="session")
def chromium_page() -> Iterator[Page]:
    """A page of headless Chromium; the test is skipped where none is installed."""
    with browser() as page:
        yield page
