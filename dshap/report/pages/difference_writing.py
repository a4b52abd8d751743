"""The difference of two cubes as one HTML page, without scripts or outside files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dshap import __version__
from dshap.analysis.column_texts import ColumnTexts
from dshap.analysis.difference.difference_record import (
    ChangedPart,
    ChangedRow,
    Difference,
    OutputDifference,
    SideRows,
    counts_line,
)
from dshap.analysis.numbers_as_text import decimals_of
from dshap.core.errors import DshapError
from dshap.core.printing import label, printable
from dshap.core.rules import as_place
from dshap.core.scales import LOG_ODDS, PROBABILITY
from dshap.cube.datasets import key_words
from dshap.report.pages.figures import SHOWN, BarLine, bar_scale, paired_bars
from dshap.report.pages.page_numbers import percent, shown_number
from dshap.report.pages.page_texts import NAME, PATH, PageTexts, class_of
from dshap.report.pages.probabilities import TRANSFORMS
from dshap.report.pages.relations import NumberTable, difference_sentences, shift_table
from dshap.report.pages.rendering import rendered, write_page

SHOWN_PART = 1e-4
"""Wasserstein distances below this part of the largest have no bar."""
OLD_AND_NEW = ("old", "new")


@dataclass(frozen=True)
class RowFigure:
    """A row that both cubes explain, which a reader can open on the page."""

    heading: str
    lines: tuple[BarLine, ...]
    """The attributions of the features that changed most: their lengths, old and new."""


@dataclass(frozen=True)
class OutputSection:
    """All content of a page about one output."""

    heading: str
    sentences: tuple[str, ...]
    bars_sentence: str
    bars: tuple[BarLine, ...]
    """Mean |attribution| of the features that moved most, old and new."""
    table: NumberTable
    rows_sentence: str
    rows: tuple[RowFigure, ...]


def difference_page(
    found: Difference, path: str | Path = "difference.html", *, force: bool = False
) -> Path:
    """Write the difference of two cubes as one HTML page without scripts or outside files.

    The page describes the changes in plain sentences and shows old beside new for the columns that
    moved most.  A reader can open each of the rows that changed most.  Labels are those of the new
    cube.

    Parameters
    ----------
    found : Difference
        The result of `dshap.diff`.
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
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> old = dshap.values.Marginal(lambda x: x[:, 0] - x[:, 1], rows)
    >>> new = dshap.values.Marginal(lambda x: x[:, 0] - 3 * x[:, 1], rows)
    >>> found = dshap.diff(dshap.explain(old, rows), dshap.explain(new, rows))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = dshap.report.difference_page(found, f"{folder}/difference.html")
    ...     text = page.read_text(encoding="utf-8")
    >>> page.name, "rooms" in text
    ('difference.html', True)
    """
    return write_page(path, force, lambda: _html(found))


def _html(found: Difference) -> str:
    names = zip(OLD_AND_NEW, (found.old, found.new), strict=True)
    texts = _texts(found)
    return rendered(
        "difference.html",
        title="What changed between two explanations",
        version=__version__,
        sides=[
            _side(name, side)
            for name, side in zip(OLD_AND_NEW, (found.old, found.new), strict=True)
        ],
        missing=[f"{name}: {printable(side.missing)}" for name, side in names if side.missing],
        outputs=[_section(found, output, texts) for output in found.outputs],
    )


def _texts(found: Difference) -> PageTexts:
    """The names of the features, from the dictionary of the new cube if it is in a store."""
    features = [each.feature for output in found.outputs[:1] for each in output.features]
    try:
        return PageTexts.of(as_place("new", found.new.name), features)
    except DshapError:  # a Dataset in memory has no path
        return PageTexts.named(ColumnTexts(), features)


def _side(name: str, side: SideRows) -> str:
    return f"{name}: {label(side.name, PATH)}, {side.n_rows:,} rows"


def _section(found: Difference, output: OutputDifference, texts: PageTexts) -> OutputSection:
    heading = "In short"
    if len(found.outputs) > 1:
        heading = f"Prediction of “{class_of(output.output)}”"
    lines = _bars(output, texts)
    units = f" ({found.measure.strip()})" * bool(found.measure)
    return OutputSection(
        heading,
        difference_sentences(output, texts, found.measure),
        f"Mean size of what each column adds to a prediction{units}, old above new",
        lines,
        shift_table(output, texts),
        _sentence(counts_line(found, output)),
        tuple(_row(found, row, texts) for row in output.rows),
    )


def _sentence(text: str) -> str:
    """Turn a line of words into a sentence, with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def _bars(output: OutputDifference, texts: PageTexts) -> tuple[BarLine, ...]:
    """Old beside new for the features that moved most; nothing if none did."""
    longest = output.features[0].wasserstein
    moved = [each for each in output.features if each.wasserstein > SHOWN_PART * longest][:SHOWN]
    sizes = [(each.magnitude_old, each.magnitude_new) for each in moved]
    scale = bar_scale(size for both in sizes for size in both)
    return tuple(
        BarLine(texts.name(each.feature), paired_bars(both, scale, output.decimals))
        for each, both in zip(moved, sizes, strict=True)
    )


def _row(found: Difference, row: ChangedRow, texts: PageTexts) -> RowFigure:
    both = (row.prediction_old, row.prediction_new)
    decimals = decimals_of(both)
    said = " → ".join(shown_number(each, decimals) for each in both)
    chances = _probabilities(found.scale, both)
    if chances:
        said = f"{' → '.join(map(percent, chances))}" + f" ({said})" * (found.scale == LOG_ODDS)
    return RowFigure(
        f"{label(key_words(row.key), 2 * NAME)}: prediction {said}, most by {texts.name(row.feature)}",
        _row_lines(row.parts, texts),
    )


def _probabilities(scale: str, predictions: Sequence[float]) -> list[float]:
    """Probabilities of predictions of one output; none if its scale alone does not determine them."""
    transform = {LOG_ODDS: "logistic", PROBABILITY: "probability"}.get(scale)
    if transform is None:
        return []
    found: list[float] = TRANSFORMS[transform](np.array(predictions)[:, None])[:, 0].tolist()
    return found


def _row_lines(parts: Sequence[ChangedPart], texts: PageTexts) -> tuple[BarLine, ...]:
    sizes = [(each.attribution_old, each.attribution_new) for each in parts]
    numbers = [abs(size) for both in sizes for size in both]
    scale = bar_scale(numbers)
    decimals = decimals_of(numbers)
    return tuple(
        BarLine(texts.name(each.feature), paired_bars(both, scale, decimals, sign=True))
        for each, both in zip(parts, sizes, strict=True)
    )
