"""The difference of two cubes as one HTML page, which loads and runs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dshap import __version__
from dshap.analysis.difference.difference_record import (
    Difference,
    OutputDifference,
    SideRows,
    counts_line,
    means_words,
    ranking_words,
    shift_words,
)
from dshap.analysis.view import MAX_SHOWN
from dshap.core.printing import label, printable
from dshap.core.rules import as_path, checked
from dshap.report.pages.figures import BAR_PERCENT, NAME, Bar, BarLine
from dshap.report.pages.relations import ToldFigure, changed_table, shift_table
from dshap.report.pages.rendering import make_place, rendered, require_jinja, writing_page
from dshap.storage.disk import whole_file

SHOWN_PART = 1e-4
"""The least Wasserstein distance that has a bar, as a part of the largest."""
PATH = 120
"""The most characters of a path."""


@dataclass(frozen=True)
class OutputSection:
    """All that a page says about one output."""

    heading: str
    sentences: tuple[str, ...]
    bars_sentence: str
    bars: tuple[BarLine, ...]
    """The Wasserstein distances of the features that moved most."""
    tables: tuple[ToldFigure, ...]


def difference_page(
    found: Difference, path: str | Path = "difference.html", *, force: bool = False
) -> Path:
    """Write a difference of two cubes as one HTML page, which loads and runs nothing.

    It shows all that `str` shows of it: rankings, Wasserstein distances as bars, features and rows as tables.

    Parameters
    ----------
    found : the difference, from `dshap.diff`
    path : the HTML file to write; its folder is made if it does not exist
    force : replace a file at `path` that dshap has not made; a page that it has made is renewed

    Returns
    -------
    Path
        The page that was written.

    Raises
    ------
    InputError
        jinja2 is not installed, another file is there, or the page cannot be written.
    """
    require_jinja()
    (force,) = checked(force=force)
    target = as_path("path", path, "page")
    with writing_page(target):
        make_place(target, force)
        with whole_file(target) as private:
            private.write_text(_html(found), encoding="utf-8")
    return target


def _html(found: Difference) -> str:
    names = (("old", found.old), ("new", found.new))
    return rendered(
        "difference.html",
        title="What changed between two cubes",
        version=__version__,
        sides=[_side(name, side) for name, side in names],
        missing=[f"{name}: {printable(side.missing)}" for name, side in names if side.missing],
        outputs=[_section(found, output) for output in found.outputs],
    )


def _side(name: str, side: SideRows) -> str:
    return f"{name}: {label(side.name, PATH)}, {side.n_rows:,} rows"


def _section(found: Difference, output: OutputDifference) -> OutputSection:
    heading = "The attributions"
    if len(found.outputs) > 1:
        heading = f"The attributions of {label(output.output, NAME)}"
    units = found.measure
    said = (
        _sentence(ranking_words(output)),
        f"{shift_words(output, units)}.",
        _sentence(means_words(output)),
    )
    tables = [ToldFigure("Features", (), (shift_table(output),))]
    changed = changed_table(output)
    rows = ToldFigure("Rows", (_sentence(counts_line(found, output)),), (changed,))
    if not changed.lines:
        rows = ToldFigure(rows.heading, rows.sentences, ())
    return OutputSection(
        heading, said, _bars_sentence(output, units), _bars(output), (*tables, rows)
    )


def _sentence(text: str) -> str:
    """A line of words with a capital at its beginning and a stop at its end."""
    return f"{text[:1].upper()}{text[1:]}."


def _bars(output: OutputDifference) -> tuple[BarLine, ...]:
    """The distances of the features that moved most; nothing where none did."""
    longest = output.features[0].wasserstein
    return tuple(
        BarLine(label(each.feature, NAME), (_bar(each.wasserstein, longest),))
        for each in output.features[:MAX_SHOWN]
        if each.wasserstein > SHOWN_PART * longest
    )


def _bar(distance: float, longest: float) -> Bar:
    length = BAR_PERCENT * distance / longest
    return Bar(length, length, length, f"{distance:.3g}")


def _bars_sentence(output: OutputDifference, units: str) -> str:
    first = output.features[0]
    return (
        "How far the attributions of each feature moved, as Wasserstein distance: at least so much "
        f"on average over the rows.  {label(first.feature, NAME)} moved most, "
        f"{first.wasserstein:.3g}{units}."
    )
