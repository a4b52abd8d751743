"""The what-if of a page as HTML, scripts, and the hashes by which its policy lets them through."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any

from dshap.report.pages.rendering import hash_of
from dshap.report.what_if.page_part import WhatIfPart

SCRIPTS = ("games.js", "what_if.js")
"""The scripts beside this module, in their order."""


@dataclass(frozen=True)
class WhatIfMarkup:
    """The pieces of a page; empty where it has no what-if."""

    html: Any = ""
    """Below the row: sentences, and the place of the controls."""
    scripts: Any = ""
    """Before the script of the page, whose first row they hear of."""
    hashes: Any = ""
    """For `script-src`, with a blank before each."""


def what_if_markup(part: WhatIfPart) -> WhatIfMarkup:
    """The pieces of a page with this part; all texts are escaped."""
    from markupsafe import Markup

    sentences = Markup("").join(
        Markup('<p class="soft">{}</p>').format(each) for each in part.sentences
    )
    head = Markup('<h3 id="what-if-head">What if</h3>') + sentences
    if not part.content:
        return WhatIfMarkup(head)
    texts = [(resources.files(__package__) / name).read_text(encoding="utf-8") for name in SCRIPTS]
    place = Markup('<div id="what-if" role="group" aria-labelledby="what-if-head" hidden></div>')
    data = Markup(f'<script type="application/json" id="what-if-data">{part.content}</script>')
    scripts = Markup("").join(Markup(f"<script>{text}</script>") for text in texts)
    hashes = Markup("".join(f" '{hash_of(text)}'" for text in texts))
    return WhatIfMarkup(head + place, data + scripts, hashes)
