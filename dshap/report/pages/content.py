"""All content of a page, as one record that is made from the cubes of a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dshap import __version__
from dshap.analysis.column_texts import card_of
from dshap.analysis.measures import bracketed, units_of_cube
from dshap.analysis.rankings import Ranking, output_ranking
from dshap.core.model_card import CARD_FIELDS
from dshap.core.places import Place
from dshap.core.printing import counted, label, printable
from dshap.cube import feature_ranking, open_cube, read_job
from dshap.report.pages.figures import BarFigure, bar_figure, total_of
from dshap.report.pages.first_screen import SAID, FirstScreen, first_screen, prediction_words
from dshap.report.pages.output_figures import (
    IN_FACTORS,
    MAX_CARDS,
    OutputFigures,
    explained_by,
    figures_of,
)
from dshap.report.pages.page_facts import ExplanationWords, explained
from dshap.report.pages.page_rows import PageRows
from dshap.report.pages.page_texts import PageTexts, class_of
from dshap.report.pages.relations import (
    FurtherSection,
    comparison_of,
    drift_of,
    segment_tables_of,
)
from dshap.report.pages.row_tables import RowTable
from dshap.report.pages.run_history import HistoryFigure, histories_of

MAX_OUTPUTS = 3
"""The most outputs whose swarms and dependences a page shows."""
UNTOLD = frozenset({"day", "table", "model kind"})
"""Facts of `about` that the first screen contains, so that they are not listed again."""
Rankings = Mapping[str, Mapping[str, Ranking]]
"""Explanation -> output -> its ranking."""


@dataclass(frozen=True)
class Section:
    """A part of the page that has an entry in its list of contents."""

    anchor: str
    heading: str


@dataclass(frozen=True)
class Tab:
    """One output on one scale, which a reader selects."""

    output: str
    rankings: Rankings
    """The rankings of the explanations that have this output, by explanation."""

    @property
    def given(self) -> list[Ranking]:
        """The ranking of each of these explanations that has rows."""
        return [each[self.output] for each in self.rankings.values() if each[self.output].rows]


@dataclass(frozen=True)
class OutputPart:
    """All content of a page about one output."""

    place: int
    """The position of the output in the selector of outputs."""
    name: str
    """The name of the output in the selector."""
    ranking: BarFigure
    figures: OutputFigures | None
    """Swarms and dependences; None if the page leaves them out."""
    histories: tuple[HistoryFigure, ...]


@dataclass(frozen=True)
class PageContent:
    """All content of a page except its rows."""

    title: str
    subtitle: str
    version: str
    units: str
    first: FirstScreen
    parts: tuple[OutputPart, ...]
    """Each output that has rows."""
    explained: tuple[ExplanationWords, ...]
    sureness: tuple[tuple[str, tuple[str, ...]], ...]
    """Heading -> sentences about errors; sentences that hold for all explanations come first."""
    facts: tuple[tuple[str, tuple[str, ...]], ...]
    """Heading -> the text of each explanation."""
    card: tuple[tuple[str, str], ...]
    """Heading -> text, of the fields of the model's card that are in no sentence."""
    missing: tuple[str, ...]
    """Sentences about rows that are missing, for the top of the page."""
    figure_notes: tuple[str, ...]
    """Sentences about figures that are left out."""
    further: tuple[FurtherSection, ...]
    """Segments, the comparison of explanations, and the drift since the previous run, if they exist."""
    key_names: tuple[str, ...]
    n_rows: int
    n_page_rows: int
    rows_note: str
    """A sentence about explanations whose rows are not on the page; empty if all are."""
    bar_scale: str
    """A sentence about the scale of the bars of a row; empty for units that need none."""

    @property
    def sections(self) -> list[Section]:
        return [
            Section("first", "In short"),
            Section("swarms", "All rows"),
            Section("dependence", "Column by column"),
            *[Section("runs", "Run by run")] * any(part.histories for part in self.parts),
            *(Section(each.anchor, each.short) for each in self.further),
            Section("one", "One row"),
            Section("explained", "Facts"),
            Section("method", "Method"),
        ]


def rankings_of(cubes: Mapping[str, Place]) -> Rankings:
    """Explanation -> output -> its ranking, named after the explanation."""
    found = {}
    for name, path in cubes.items():
        table = feature_ranking(path)
        found[name] = {
            str(output): output_ranking(name, table, place)
            for place, output in enumerate(table["output"].values)
        }
    return found


def listed_features(table: RowTable, ranked: Rankings) -> list[str]:
    """The features of a table, sorted by their largest share in the first outputs."""
    shares = dict.fromkeys(table.first.features, 0.0)
    for name in table.cubes:
        for ranking in list(ranked[name].values())[:MAX_OUTPUTS]:
            for feature, size in ranking.magnitude.items():
                shares[feature] = max(shares.get(feature, 0.0), size / total_of(ranking))
    return sorted(shares, key=lambda feature: -shares[feature])


def content_of(
    store: Place,
    cubes: Mapping[str, Place],
    ranked: Rankings,
    table: RowTable,
    others: Sequence[str],
    rows: PageRows,
    about: Mapping[str, str],
    segments: Sequence[str],
) -> PageContent:
    """Make the record of the page of a store.

    Parameters
    ----------
    cubes : explanation -> path of its cube
    ranked : the rankings of each explanation
    table : the cubes that explain the rows of the first; `others` are those that explain others
    rows : the rows of the page
    about : further facts, heading -> text
    segments : columns, or "COLUMN:BINS", by whose values means are shown
    """
    path = next(iter(cubes.values()))
    card = card_of(path)
    texts = PageTexts.of(path, table.first.features)
    units = units_of_cube(open_cube(path))
    each = tuple(
        explained(name, path, [*ranked[name].values()], table.unreadable.get(name, ()))
        for name, path in cubes.items()
    )
    tabs = [tab for tab in tabs_of(ranked) if tab.given]
    shown = [tab for tab in tabs if explained_by(table, tab.rankings, tab.output)][:MAX_OUTPUTS]
    if table.unreadable:
        shown = []
    return PageContent(
        title=_title(store, card),
        subtitle=_subtitle(each, about),
        version=__version__,
        units=units,
        first=first_screen(
            cubes,
            card,
            about,
            [(tab.output, tab.given) for tab in tabs],
            [_prediction(table, tab, rows, units) for tab in tabs],
            texts,
        ),
        parts=tuple(_part(table, cubes, tab, tab in shown, tabs, texts, units) for tab in tabs),
        explained=each,
        sureness=tuple(_sureness(each)),
        facts=_facts(each, about),
        card=tuple((CARD_FIELDS[name], text) for name, text in card.items() if name not in SAID),
        missing=tuple(_missing(each)),
        figure_notes=tuple(_figure_notes(table, tabs, others)),
        further=tuple(_further(table, cubes, tabs, shown, segments, texts)),
        key_names=tuple(map(label, table.key_names)),
        n_rows=table.first.n_rows,
        n_page_rows=len(rows),
        rows_note=_rows_note(others),
        bar_scale=_bar_scale(table),
    )


def tabs_of(ranked: Rankings) -> list[Tab]:
    """Each output, with the explanations that have it on the same scale: a figure shows these together.

    If explanations have an output on different scales, there is a tab for each scale.
    """
    outputs = dict.fromkeys(output for found in ranked.values() for output in found)
    tabs = []
    for output in outputs:
        having = {name: each for name, each in ranked.items() if output in each}
        scales = dict.fromkeys(each[output].scale for each in having.values())
        for scale in scales:
            alike = {name: each for name, each in having.items() if each[output].scale == scale}
            tabs.append(Tab(output, alike))
    return tabs


def _title(store: Place, card: Mapping[str, str]) -> str:
    purpose = card.get("purpose") or (read_job(store) or {}).get("name") or store.name
    return f"{label(purpose, 80)}: what moves the predictions"


def _subtitle(explanations: Sequence[ExplanationWords], about: Mapping[str, str]) -> str:
    first = explanations[0].facts
    said = [counted(len(explanations), "explanation")] * (len(explanations) > 1)
    if about.get("run"):
        said.append(f"run {about['run']}")
    if first.get("written"):
        said.append(f"computed {first['written']}")
    return printable("; ".join(said))


def _missing(explanations: Sequence[ExplanationWords]) -> Iterator[str]:
    for each in explanations:
        head = f"{each.name}: " * (len(explanations) > 1)
        yield from (f"{head}{line}" for line in each.missing)


def _prediction(table: RowTable, tab: Tab, rows: PageRows, units: str) -> str:
    """The predictions of one output in words; empty if rows of its cube cannot be read."""
    name = next(iter(tab.rankings))
    if name not in table.cubes or not len(rows.predictions):
        return ""
    arrays = table.cubes[name]
    columns = [place for place, part in enumerate(table.parts) if part.explanation == name]
    place = arrays.outputs.index(tab.output)
    return prediction_words(arrays, place, rows.predictions[:, columns], units)


def _part(
    table: RowTable,
    cubes: Mapping[str, Place],
    tab: Tab,
    is_shown: bool,
    tabs: Sequence[Tab],
    texts: PageTexts,
    units: str,
) -> OutputPart:
    """All content of the page about one output, whose figures are shown or left out."""
    figures = None
    directions: Mapping[str, str] = {}
    if is_shown:
        figures = figures_of(table, tab.rankings, tab.output, len(tabs) > 1, texts)
        directions = figures.directions
    scale = tab.given[0].scale
    title = tab.output * (len(tabs) > 1)
    name = class_of(tab.output)
    if [each.output for each in tabs].count(tab.output) > 1:
        name += bracketed(units, scale)
    mine = {name: path for name, path in cubes.items() if name in tab.rankings}
    return OutputPart(
        tabs.index(tab),
        name,
        bar_figure(title, tab.given, texts, directions, bracketed(units, scale)),
        figures,
        histories_of(mine, tab.output, texts),
    )


def _sureness(explanations: Sequence[ExplanationWords]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Sentences about errors by explanation; a sentence that holds for all of them appears once."""
    first = explanations[0].sureness
    shared = [line for line in first if all(line in each.sureness for each in explanations)]
    yield "", tuple(shared)
    for each in explanations:
        own = tuple(line for line in each.sureness if line not in shared)
        if own:
            yield each.name, own


def _facts(
    explanations: Sequence[ExplanationWords], about: Mapping[str, str]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Lines of facts: for each heading a text for each explanation; facts of `about` come first."""
    shared = [
        (printable(heading), tuple(printable(text) for _ in explanations))
        for heading, text in about.items()
        if heading not in UNTOLD
    ]
    headings = dict.fromkeys(heading for each in explanations for heading in each.facts)
    return (
        *shared,
        *(
            (heading, tuple(each.facts.get(heading, "") for each in explanations))
            for heading in headings
        ),
    )


def _further(
    table: RowTable,
    cubes: Mapping[str, Place],
    tabs: Sequence[Tab],
    shown: Sequence[Tab],
    segments: Sequence[str],
    texts: PageTexts,
) -> Iterator[FurtherSection]:
    """Yield the sections that only some stores have."""
    by_output = []
    if segments:
        by_output = [
            segment_tables_of(
                table,
                explained_by(table, tab.rankings, tab.output),
                tab.output,
                segments,
                texts,
                tabs.index(tab),
            )
            for tab in shown
        ]
    told = [
        each
        for by_segment in zip(*by_output, strict=True)
        for found in by_segment
        for each in found
    ]
    if told:
        yield FurtherSection("segments", "Segments", "Segments of the rows", tuple(told))
    compared = [comparison_of(tab.rankings, tab.output, texts, tabs.index(tab)) for tab in shown]
    if any(compared):
        figures = tuple(each for each in compared if each is not None)
        yield FurtherSection("comparison", "Comparison", "The explanations compared", figures)
    drifts = [
        each
        for name, path in cubes.items()
        if shown
        for each in drift_of(name, path, texts, [tab.output for tab in tabs])
    ]
    if drifts:
        heading = "What changed since the previous run"
        yield FurtherSection("drift", "Changes", heading, tuple(drifts))


def _figure_notes(table: RowTable, tabs: Sequence[Tab], others: Sequence[str]) -> Iterator[str]:
    """Sentences about rows that the swarms and dependences leave out."""
    if table.unreadable:
        yield "Some rows cannot be read, so there are no figures of all rows until they are repaired."
        return
    if len(tabs) > MAX_OUTPUTS:
        yield f"Only the first {MAX_OUTPUTS} of {len(tabs):,} outputs have figures of all rows."
    if others:
        yield f"{', '.join(map(label, others))} explain different rows and have separate pages."
    columns = [name for name in table.first.features if name in table.first.columns]
    if not columns:
        yield (
            "The values of the columns were not stored, so swarms have no colours, and there are no "
            "figures by value: keep_rows=True, or [run] keep_rows = true, stores the values."
        )
    elif len(columns) > MAX_CARDS:
        yield f"Only the {MAX_CARDS} most important of {len(columns):,} columns are shown by their values."


def _bar_scale(table: RowTable) -> str:
    """A sentence about bars on a scale of logarithms, where all explanations have the same."""
    scales = {arrays.scale for arrays in table.cubes.values()}
    if len(scales) > 1:
        return ""
    (scale,) = scales
    if scale not in IN_FACTORS:
        return ""
    return f"In the numbers of the bars, {IN_FACTORS[scale]}."


def _rows_note(others: Sequence[str]) -> str:
    if not others:
        return ""
    return f"{', '.join(map(label, others))} explain different rows and are left out here."
