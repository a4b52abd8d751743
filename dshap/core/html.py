"""Small tables in HTML, as notebooks show objects: escaped, in the colours of the page around."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from dshap.core.printing import printable

TABLE = "border-collapse:collapse;margin:.3em 0;font-variant-numeric:tabular-nums"
CELL = (
    "padding:.15em .7em;border-bottom:1px solid color-mix(in srgb, currentColor 25%, transparent)"
)
NOTE = "margin:.2em 0;opacity:.75"
"""Styles that inherit the colour of the text around, so that they are legible in light and dark."""


def table_html(
    title: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    notes: Iterable[str] = (),
    n_texts: int = 1,
) -> str:
    """A table with a title above it and notes below, all texts escaped.

    The first `n_texts` columns are texts and the others numbers, which are aligned to the right.
    Without `heads` there is no line of them.
    """
    parts = [f"<div><div><strong>{_as_html(title)}</strong></div>"]
    parts.append(f'<table style="{TABLE}">')
    if heads:
        parts.append(f"<thead>{_line('th', heads, n_texts)}</thead>")
    parts.append("<tbody>")
    parts += [_line("td", row, n_texts) for row in rows]
    parts.append("</tbody></table>")
    parts += [f'<div style="{NOTE}">{_as_html(note)}</div>' for note in notes]
    return "".join([*parts, "</div>"])


def _line(tag: str, texts: Sequence[str], n_texts: int) -> str:
    """A line of a table: header cells, or cells of data."""
    sides = ["left"] * n_texts + ["right"] * (len(texts) - n_texts)
    cells = (
        f'<{tag} style="{CELL};text-align:{side}">{_as_html(text)}</{tag}>'
        for text, side in zip(texts, sides, strict=False)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _as_html(text: str) -> str:
    """A text that shows itself, without control characters, and never runs."""
    return escape(printable(text))
