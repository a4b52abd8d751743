"""All that a page says, as one record made from the cubes of a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dshap import __version__
from dshap.analysis.measures import bracketed, units_of_cube
from dshap.analysis.rankings import Ranking, output_ranking
from dshap.core.places import Place
from dshap.core.printing import label, printable
from dshap.cube import feature_ranking, open_cube, read_job
from dshap.report.pages.figures import BarFigure, bar_figure
from dshap.report.pages.output_figures import MAX_CARDS, OutputFigures, explained_by, figures_of
from dshap.report.pages.page_facts import ExplanationWords, explained
from dshap.report.pages.relations import (
    FurtherSection,
    comparison_of,
    drift_of,
    segment_tables_of,
)
from dshap.report.pages.row_tables import RowTable

MAX_OUTPUTS = 3
"""The most outputs whose swarms and dependences a page shows."""
Rankings = Mapping[str, Mapping[str, Ranking]]
"""Explanation -> output -> its ranking."""


@dataclass(frozen=True)
class Section:
    """A part of the page that its list of contents names."""

    anchor: str
    heading: str


@dataclass(frozen=True)
class PageContent:
    """All that a page says, but its rows."""

    title: str
    subtitle: str
    version: str
    units: str
    explained: tuple[ExplanationWords, ...]
    facts: tuple[tuple[str, tuple[str, ...]], ...]
    """Heading -> the text of each explanation."""
    missing: tuple[str, ...]
    """Sentences about rows that are missing, for the top of the page."""
    rankings: tuple[BarFigure, ...]
    """The ranking for each output."""
    figures: tuple[OutputFigures, ...]
    """Swarms and dependences of the first outputs."""
    figure_notes: tuple[str, ...]
    """Sentences about figures that are left out."""
    further: tuple[FurtherSection, ...]
    """Segments, the comparison of explanations, and the drift since the run before, where they are."""
    outputs: tuple[str, ...]
    key_names: tuple[str, ...]
    rows_sentence: str

    @property
    def sections(self) -> list[Section]:
        return [
            Section("explained", "What was explained"),
            Section("sure", "How sure the numbers are"),
            Section("ranking", "Which features matter"),
            Section("swarms", "Every row of every feature"),
            Section("dependence", "Each feature by its values"),
            *(Section(each.anchor, each.heading) for each in self.further),
            Section("one", "One row"),
        ]


def content_of(
    store: Place,
    cubes: Mapping[str, Place],
    table: RowTable,
    others: Sequence[str],
    n_page_rows: int,
    about: Mapping[str, str],
    segments: Sequence[str],
) -> PageContent:
    """Make the record of the page of a store.

    Parameters
    ----------
    cubes : explanation -> path of its cube
    table : the cubes that explain the rows of the first; `others` are those that explain others
    n_page_rows : the number of rows that the page holds
    about : further facts, heading -> text
    segments : columns, or "COLUMN:BINS", by whose values means are told
    """
    units = units_of_cube(open_cube(next(iter(cubes.values()))))
    ranked = {name: _rankings(name, path) for name, path in cubes.items()}
    each = tuple(
        explained(name, path, [*ranked[name].values()], table.unreadable.get(name, ()))
        for name, path in cubes.items()
    )
    outputs = list(dict.fromkeys(output for found in ranked.values() for output in found))
    comparable = _of_one_scale(ranked, outputs)
    shown = [(output, found) for output, found in comparable if explained_by(table, found, output)][
        :MAX_OUTPUTS
    ]
    if table.unreadable:
        shown = []
    figures = [figures_of(table, found, output, len(comparable) > 1) for output, found in shown]
    return PageContent(
        title=label((read_job(store) or {}).get("name") or store.name),
        subtitle=_subtitle(each, about),
        version=__version__,
        units=units,
        explained=each,
        facts=_facts(each, about),
        missing=tuple(f"{one.name}: {line}" for one in each for line in one.missing),
        rankings=_bar_figures(comparable, units),
        figures=tuple(figures),
        figure_notes=tuple(_figure_notes(table, outputs, others)),
        further=tuple(_further(table, cubes, comparable, shown, segments)),
        outputs=tuple(map(label, outputs)),
        key_names=tuple(map(label, table.key_names)),
        rows_sentence=_rows_sentence(table, others, n_page_rows),
    )


def _rankings(name: str, path: Place) -> dict[str, Ranking]:
    """Output -> its ranking, named after the explanation."""
    found = feature_ranking(path)
    return {
        str(output): output_ranking(name, found, place)
        for place, output in enumerate(found["output"].values)
    }


def _of_one_scale(ranked: Rankings, outputs: Sequence[str]) -> list[tuple[str, Rankings]]:
    """Each output with the explanations that have it on one scale, which a figure may show together.

    An output that several explanations have on different scales is there once for each scale.
    """
    found: list[tuple[str, Rankings]] = []
    for output in outputs:
        having = {name: each for name, each in ranked.items() if output in each}
        scales = dict.fromkeys(each[output].scale for each in having.values())
        for scale in scales:
            alike = {name: each for name, each in having.items() if each[output].scale == scale}
            found.append((output, alike))
    return found


def _bar_figures(comparable: Sequence[tuple[str, Rankings]], units: str) -> tuple[BarFigure, ...]:
    """The ranking for each output, on each scale, that has rows."""
    figures = []
    for output, found in comparable:
        given = [each[output] for each in found.values() if each[output].rows]
        title = output * (len(comparable) > 1)
        if given:
            figures.append(bar_figure(title, given, bracketed(units, given[0].scale)))
    return tuple(figures)


def _facts(
    explanations: Sequence[ExplanationWords], about: Mapping[str, str]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """A line for each heading, a text for each explanation; those of `about` come first."""
    shared = [
        (printable(heading), tuple(printable(text) for _ in explanations))
        for heading, text in about.items()
    ]
    headings = dict.fromkeys(heading for each in explanations for heading in each.facts)
    return (
        *shared,
        *(
            (heading, tuple(each.facts.get(heading, "") for each in explanations))
            for heading in headings
        ),
    )


def _subtitle(explanations: Sequence[ExplanationWords], about: Mapping[str, str]) -> str:
    first = explanations[0].facts
    said = [f"{first['rows']} rows".replace(" explained of", " of")]
    if len(explanations) > 1:
        said.append(f"{len(explanations)} explanations")
    said += [text for text in (about.get("run"), first.get("written")) if text]
    return printable("; ".join(said))


def _further(
    table: RowTable,
    cubes: Mapping[str, Place],
    comparable: Sequence[tuple[str, Rankings]],
    shown: Sequence[tuple[str, Rankings]],
    segments: Sequence[str],
) -> Iterator[FurtherSection]:
    """The sections that only some stores have."""
    by_output = []
    if segments:
        by_output = [
            segment_tables_of(table, explained_by(table, found, output), output, segments)
            for output, found in shown
        ]
    told = [
        each
        for by_segment in zip(*by_output, strict=True)
        for found in by_segment
        for each in found
    ]
    if told:
        yield FurtherSection("segments", "Segments of the rows", tuple(told))
    compared = [comparison_of(found, output, len(comparable) > 1) for output, found in shown]
    if any(compared):
        figures = tuple(each for each in compared if each is not None)
        yield FurtherSection("comparison", "The explanations compared", figures)
    drifts = [drift_of(name, path) for name, path in cubes.items() if shown]
    if any(drifts):
        figures = tuple(each for each in drifts if each is not None)
        yield FurtherSection("drift", "What changed since the run before", figures)


def _figure_notes(table: RowTable, outputs: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    """Sentences about what the swarms and dependences leave out."""
    if table.unreadable:
        yield "Rows cannot be read: there are no figures of all rows until they are mended."
        return
    if len(outputs) > MAX_OUTPUTS:
        yield f"Of {len(outputs):,} outputs the first {MAX_OUTPUTS} are shown."
    if others:
        yield f"{', '.join(map(label, others))} explain other rows and have a page of their own."
    columns = [name for name in table.first.features if name in table.first.columns]
    if not columns:
        yield (
            "The values of the columns were not kept: keep_rows=True, or [run] keep_rows = true, "
            "gives swarms their colours, and the attributions of each feature by its values."
        )
    elif len(columns) > MAX_CARDS:
        yield f"Of {len(columns):,} columns the {MAX_CARDS} that matter most are shown by their values."


def _rows_sentence(table: RowTable, others: Sequence[str], n_page_rows: int) -> str:
    """How many rows the page holds, and of which explanations."""
    n_rows = table.first.n_rows
    said = [
        f"This page holds {n_page_rows:,} of {n_rows:,} rows: those with extreme predictions or "
        "attributions, and others taken evenly."
    ]
    if n_page_rows >= n_rows:
        said = [f"This page holds all {n_rows:,} rows."]
    if others:
        said.append(f"{', '.join(map(label, others))} explain other rows and are left out here.")
    return "  ".join(said)
