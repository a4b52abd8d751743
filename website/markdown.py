"""A Sphinx extension: a block of a page that is a file shows the file's name."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

TITLED = re.compile(r'^```(\w+) title="([^"]+)"\n', re.MULTILINE)


def caption_blocks(app: Sphinx, name: str, source: list[str]) -> None:
    """Turn the title of a fenced block into a caption."""
    source[0] = TITLED.sub(r"```{code-block} \1\n:caption: \2\n\n", source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("source-read", caption_blocks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
