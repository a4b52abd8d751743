"""All that a page says, as one record made from the cubes of a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dshap import __version__
from dshap.core.places import Place
from dshap.core.printing import label, printable
from dshap.cube import feature_ranking, open_cube, read_job
from dshap.report.attributions import Ranking, output_ranking, units_in_brackets
from dshap.report.pages.facts import ExplanationWords, explained
from dshap.report.pages.figures import BarFigure, bar_figure
from dshap.report.pages.output_figures import MAX_CARDS, OutputFigures, explained_by, figures_of
from dshap.report.pages.relations import (
    FurtherSection,
    comparison_of,
    drift_of,
    segment_tables_of,
)
from dshap.report.pages.rows import RowTable

MAX_OUTPUTS = 3
"""The most outputs whose swarms and dependences a page shows."""


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
    units = str(open_cube(next(iter(cubes.values())))["attribution"].attrs.get("units", "1"))
    ranked = {name: _rankings(name, path) for name, path in cubes.items()}
    each = tuple(
        explained(name, path, [*ranked[name].values()], table.unreadable.get(name, ()))
        for name, path in cubes.items()
    )
    outputs = list(dict.fromkeys(output for found in ranked.values() for output in found))
    shown = [each for each in outputs if explained_by(table, ranked, each)][:MAX_OUTPUTS]
    if table.unreadable:
        shown = []
    figures = [figures_of(table, ranked, output, len(outputs) > 1) for output in shown]
    return PageContent(
        title=label((read_job(store) or {}).get("name") or store.name),
        subtitle=_subtitle(each, about),
        version=__version__,
        units=units_in_brackets(units),
        explained=each,
        facts=_facts(each, about),
        missing=tuple(f"{one.name}: {line}" for one in each for line in one.missing),
        rankings=_bar_figures(ranked, outputs, units),
        figures=tuple(figures),
        figure_notes=tuple(_figure_notes(table, outputs, others)),
        further=tuple(_further(table, cubes, ranked, shown, segments)),
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


def _bar_figures(
    ranked: Mapping[str, Mapping[str, Ranking]], outputs: Sequence[str], units: str
) -> tuple[BarFigure, ...]:
    """The ranking for each output that has rows."""
    figures = []
    for output in outputs:
        given = [found[output] for found in ranked.values() if output in found]
        given = [each for each in given if each.rows]
        title = output * (len(outputs) > 1)
        if given:
            figures.append(bar_figure(title, given, units_in_brackets(units)))
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
    ranked: Mapping[str, Mapping[str, Ranking]],
    outputs: Sequence[str],
    segments: Sequence[str],
) -> Iterator[FurtherSection]:
    """The sections that only some stores have."""
    by_output = []
    if segments:
        by_output = [
            segment_tables_of(table, explained_by(table, ranked, output), output, segments)
            for output in outputs
        ]
    told = [
        each
        for by_segment in zip(*by_output, strict=True)
        for found in by_segment
        for each in found
    ]
    if told:
        yield FurtherSection("segments", "Segments of the rows", tuple(told))
    compared = [comparison_of(ranked, output) for output in outputs if len(ranked) > 1]
    if any(compared):
        found = tuple(each for each in compared if each is not None)
        yield FurtherSection("comparison", "The explanations compared", found)
    drifts = [drift_of(name, path) for name, path in cubes.items() if outputs]
    if any(drifts):
        found = tuple(each for each in drifts if each is not None)
        yield FurtherSection("drift", "What changed since the run before", found)


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
