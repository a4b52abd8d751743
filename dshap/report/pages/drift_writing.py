"""The drift of rows between two tables as one HTML page, without scripts or outside files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dshap import __version__
from dshap.analysis.column_texts import ColumnTexts
from dshap.analysis.drift.drift_record import LEVEL, Drift, DriftingRow
from dshap.analysis.numbers_as_text import decimals_of
from dshap.core.printing import label
from dshap.cube.datasets import key_words
from dshap.report.pages.figures import SHOWN, BarLine, Cell, bar_scale, paired_bars
from dshap.report.pages.page_numbers import joined, percent, short_number, shown_number
from dshap.report.pages.page_texts import NAME, PATH, PageTexts
from dshap.report.pages.relations import NumberTable
from dshap.report.pages.rendering import rendered, write_page


@dataclass(frozen=True)
class DriftRowFigure:
    """A row with a large part of the drift, which a reader can open on the page."""

    heading: str
    lines: tuple[BarLine, ...]
    """The columns in which it differs from the other table, the largest part first."""


def drift_page(found: Drift, path: str | Path = "drift.html", *, force: bool = False) -> Path:
    """Write the drift of rows between two tables as one HTML page without scripts or outside files.

    The page describes in plain sentences whether the tables differ.  It shows which columns make
    the difference, beside the effect of chance alone.  A reader can open each of the rows that
    contribute most to the difference.

    Parameters
    ----------
    found : Drift
        The result of `dshap.mmd_drift`.
    path : str or Path
        The HTML file to write; its folder is made if it does not exist.
    force : bool
        Whether to replace a file at `path` that dshap did not write.  A page that dshap wrote is
        always replaced.

    Returns
    -------
    Path
        The page that was written.

    Raises
    ------
    InputError
        jinja2 is not installed, a file that dshap did not write is at `path`, or the page cannot be
        written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> draw = np.random.default_rng(0)
    >>> old = pd.DataFrame({"age": draw.normal(40, 5, 80)})
    >>> new = pd.DataFrame({"age": draw.normal(60, 5, 90)})
    >>> drift = dshap.mmd_drift(old, new, n_permutations=99)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = dshap.report.drift_page(drift, f"{folder}/drift.html")
    ...     text = page.read_text(encoding="utf-8")
    >>> page.name, "age" in text
    ('drift.html', True)
    """
    return write_page(path, force, lambda: _html(found))


def _html(found: Drift) -> str:
    texts = PageTexts.named(ColumnTexts(), found.names)
    return rendered(
        "drift.html",
        title="Do the rows of two tables differ?",
        version=__version__,
        sides=[f"old: {label(found.old, PATH)}", f"new: {label(found.new, PATH)}"],
        missing=[],
        sentences=_sentences(found, texts),
        warnings=[label(line, 3 * PATH) for line in found.warnings],
        bars=_bars(found, texts),
        table=_table(found, texts),
        rows=[_row(found, row, texts) for row in found.rows],
    )


def _sentences(found: Drift, texts: PageTexts) -> list[str]:
    """Sentences: whether the tables differ, in which columns, and the limits of this statement."""
    seen = "No difference was found"
    if found.p_value <= LEVEL:
        seen = "The rows of the two tables differ"
    sentences = [
        f"{seen}: rows were shuffled between the tables {found.n_permutations:,} times, and the "
        f"distance was as large in a share of {short_number(found.p_value)} of the shuffles (a share "
        f"of up to {LEVEL} counts as a difference).",
        f"The distance is {short_number(found.mmd2)}; chance alone would cause {short_number(found.expected)}.",
    ]
    sure = [each for each in found.columns if each.adjusted <= LEVEL]
    if found.p_value <= LEVEL and sure:
        names = joined([texts.quoted(each.column) for each in sure[:SHOWN]])
        share = sum(each.attribution for each in sure) / found.mmd2
        others = f" and {len(sure) - SHOWN:,} more" * (len(sure) > SHOWN)
        sentences.append(
            f"{names}{others} differ beyond chance, and cause {percent(share)} of the distance."
        )
    elif found.p_value <= LEVEL:
        sentences.append(
            "No single column differs beyond chance: the tables differ only in all columns together."
        )
    sentences.append(
        "This page compares rows, not models.  It does not show whether predictions are worse, or why "
        "the rows changed."
    )
    return sentences


def _bars(found: Drift, texts: PageTexts) -> tuple[BarLine, ...]:
    """The part of each column in the distance, beside the effect of chance alone."""
    shown = found.columns[:SHOWN]
    sizes = [(each.attribution, each.expected) for each in shown]
    all_sizes = [size for both in sizes for size in both]
    scale = bar_scale(all_sizes)
    decimals = decimals_of(all_sizes)
    return tuple(
        BarLine(texts.name(each.column), paired_bars(both, scale, decimals))
        for each, both in zip(shown, sizes, strict=True)
    )


def _table(found: Drift, texts: PageTexts) -> NumberTable:
    """All numbers of every column."""
    numbers = [(each.attribution, each.std_error, each.expected) for each in found.columns]
    decimals = decimals_of(size for each in numbers for size in each)
    lines = []
    for each, sizes in zip(found.columns, numbers, strict=True):
        cells = [Cell(shown_number(size, decimals), size) for size in sizes]
        cells.append(Cell(short_number(each.adjusted), each.adjusted))
        cells.append(Cell(short_number(each.marginal_p_value), each.marginal_p_value))
        cells.append(Cell(shown_number(each.psi, 3), each.psi))
        lines.append((texts.name(each.column), tuple(cells)))
    heads = ("column", "attribution", "± s.e.", "by chance", "p adjusted", "p by itself", "PSI")
    return NumberTable(heads, tuple(lines))


def _row(found: Drift, row: DriftingRow, texts: PageTexts) -> DriftRowFigure:
    """One row, with the columns in which it differs from the other table."""
    # rows with the same witness are alike, and have the same attributions
    place = int(np.abs(found.witness - row.witness).argmin())
    parts = found.attributions[place]
    order = np.argsort(-np.abs(parts), kind="stable")[:SHOWN].tolist()
    sizes = [float(parts[column]) for column in order]
    scale = bar_scale(sizes)
    decimals = decimals_of(sizes)
    share = np.nan
    if found.mmd2 > 0.0:
        share = row.carried / found.mmd2
    name = label(key_words(row.key), 2 * NAME)
    heading = (
        f"{row.table} row {name}: {percent(share, 1)} of the distance, most by "
        f"{texts.name(row.column)}"
    )
    lines = []
    for column, size in zip(order, sizes, strict=True):
        bars = paired_bars([size], scale, decimals, sign=True)
        lines.append(BarLine(texts.name(found.names[column]), bars))
    return DriftRowFigure(heading, tuple(lines))
