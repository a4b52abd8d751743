"""The what-if of a page as HTML, scripts, and the hashes with which the page's policy allows them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.report.pages.rendering import hash_of
from dshap.report.pages.row_tables import RowTable, json_text
from dshap.report.what_if.page_part import WhatIfPart, what_if_part, what_if_scripts


@dataclass(frozen=True)
class WhatIfMarkup:
    """The pieces of a page; empty if it has no what-if."""

    html: Any = ""
    """Below the row: sentences, and the place of the controls."""
    scripts: Any = ""
    """After the script of the page, whose functions they use."""
    hashes: Any = ""
    """For `script-src`, with a blank before each."""


def what_if_of_rows(table: RowTable, rows: Sequence[str]) -> WhatIfMarkup:
    """Make the pieces of a page with these rows, as JSON texts that begin with their keys."""
    if not rows:
        return WhatIfMarkup()
    n_keys = len(table.key_names)
    parts = table.parts
    read = [json.loads(row) for row in rows]
    keys = [[str(each) for each in row[:n_keys]] for row in read]
    predictions = np.array([row[n_keys : n_keys + len(parts)] for row in read], np.float64)
    # rows with the smallest and the largest prediction can be changed even if not all rows fit
    extremes = [*predictions.argmin(axis=0).tolist(), *predictions.argmax(axis=0).tolist()]
    part_of = {(part.explanation, part.output): at for at, part in enumerate(parts)}
    return _markup_of(what_if_part(table.cubes, keys, table.first.features, part_of, extremes))


def _markup_of(part: WhatIfPart) -> WhatIfMarkup:
    """The pieces of a page with this part; all texts are escaped."""
    from markupsafe import Markup

    sentences = Markup("").join(
        Markup('<p class="soft">{}</p>').format(each) for each in part.sentences
    )
    head = Markup('<h3 id="what-if-head">What if</h3>') + sentences
    if not part.content:
        return WhatIfMarkup(head)
    texts = what_if_scripts()
    place = Markup('<div id="what-if" role="group" aria-labelledby="what-if-head" hidden></div>')
    data = json_text(part.content)
    read = Markup(f'<script type="application/json" id="what-if-data">{data}</script>')
    scripts = Markup("").join(Markup(f"<script>{text}</script>") for text in texts)
    hashes = Markup("".join(f" '{hash_of(text)}'" for text in texts))
    return WhatIfMarkup(head + place, read + scripts, hashes)
