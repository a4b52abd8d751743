"""Sections that only some pages have: segments of rows, a comparison of explanations, and drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dshap.analysis.column_values import columns_of, require_column
from dshap.analysis.difference.compared_cubes import earlier_runs
from dshap.analysis.difference.cube_comparison import diff
from dshap.analysis.difference.difference_record import (
    SHOWN_MOVES,
    Difference,
    FeatureDifference,
    OutputDifference,
)
from dshap.analysis.difference.row_changes import SAME
from dshap.analysis.numbers_as_text import decimals_of
from dshap.analysis.rankings import Ranking, RankingAgreement, ranking_agreement
from dshap.analysis.segment_groups import row_groups
from dshap.analysis.segment_names import column_of_segment
from dshap.analysis.segments import Segments, segments_together
from dshap.analysis.view import view_of
from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.core.printing import label, printable
from dshap.cube import open_cube
from dshap.cube.datasets import key_words
from dshap.report.pages.figures import Cell
from dshap.report.pages.page_numbers import joined, short_number, shown_number
from dshap.report.pages.page_texts import NAME, PageTexts, row_address
from dshap.report.pages.row_tables import RowTable

MOST_FEATURES = 8
"""The most columns of a table of segments."""
MOST_LINES = 40
"""The most lines of a table of segments, or of features whose attributions changed."""
LEVELS = 8
"""The number of the strongest colour in a table of segments."""


@dataclass(frozen=True)
class NumberTable:
    """A table of numbers; a note below the table lists numbers that are left out."""

    heads: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Cell | str, ...]], ...]
    note: str = ""
    addresses: tuple[str, ...] = ()
    """The address that the head of each line leads to; empty if they lead nowhere."""


@dataclass(frozen=True)
class ToldFigure:
    """Sentences, and the tables behind them."""

    heading: str
    sentences: tuple[str, ...]
    tables: tuple[NumberTable, ...]
    tab: int = -1
    """The output that it is about, by its place in the selector of outputs; −1: all of them."""


@dataclass(frozen=True)
class FurtherSection:
    """A section of sentences and tables."""

    anchor: str
    short: str
    """Its name in the list of contents."""
    heading: str
    figures: tuple[ToldFigure, ...]


def segment_tables_of(
    table: RowTable,
    names: Sequence[str],
    output: str,
    segments: Sequence[str],
    texts: PageTexts,
    tab: int,
) -> list[list[ToldFigure]]:
    """For each of these segments, mean |attribution| in it under each of these explanations.

    All are made in one pass over the cubes.  A segment that cannot be shown, because it has too many
    values, is replaced by a sentence; all others are shown.
    """
    views = [view_of(open_cube(table.cubes[name].path), output) for name in names]
    columns = [columns_of(view.cube) for view in views]
    told: dict[str, list[ToldFigure]] = {}
    groups = {}
    for segment in segments:
        try:
            groups[segment] = row_groups(views[0], columns[0], segment)
        except InputError as error:
            refused = ToldFigure(label(segment, NAME), (f"{printable(str(error))}.",), (), tab)
            told[segment] = [refused]
    for name, found in zip(
        names, segments_together(views, columns, [*groups.values()]), strict=True
    ):
        for each in found:
            told.setdefault(each.column, []).append(_segment_figure(table, name, each, texts, tab))
    return [told[segment] for segment in segments]


def _segment_figure(
    table: RowTable, name: str, found: Segments, texts: PageTexts, tab: int
) -> ToldFigure:
    """Mean |attribution| in each segment of a column under one explanation."""
    heading = _segment_name(found.column, texts)
    if len(table.cubes) > 1:
        heading = f"{heading}, by {label(name, NAME)}"
    return ToldFigure(heading, (_segment_words(found, texts),), (_heat(found, texts),), tab)


def _segment_name(segment: str, texts: PageTexts) -> str:
    """A column by whose values rows are grouped, with the number of bins that were asked for."""
    column, mark, bins = segment.partition(":")
    if column in texts.features:
        return f"{texts.name(column)}{mark}{bins}"
    return label(segment, NAME)


def refuse_unknown_segments(table: RowTable, segments: Sequence[str]) -> None:
    """Raise an `InputError` if the column of a segment was not stored."""
    for segment in segments:
        columns = columns_of(open_cube(table.first.path))
        column = column_of_segment(segment, columns)
        if not columns:
            raise InputError(
                f"segment {segment!r}: the cube has no values of the column {column!r}: store them "
                "with explain(..., keep_rows=True) or [run] keep_rows = true"
            )
        require_column(columns, column)


def _segment_words(found: Segments, texts: PageTexts) -> str:
    """The feature that differs most between segments, in words."""
    spread = np.ptp(found.magnitude, axis=0)
    most = int(spread.argmax())
    values = found.magnitude[:, most]
    low = int(values.argmin())
    high = int(values.argmax())
    decimals = decimals_of(values.tolist())
    return (
        f"{texts.quoted(found.features[most])} differs most: least in "
        f"“{_group_name(found, low, texts)}” ({shown_number(values[low], decimals)}), most in "
        f"“{_group_name(found, high, texts)}” ({shown_number(values[high], decimals)})."
    )


def _group_name(found: Segments, place: int, texts: PageTexts) -> str:
    """The name of a segment: a value of its column as people read it, or a range of numbers."""
    name = found.names[place]
    known = texts.columns.entry(found.column).values
    return label(known.get(name, name), NAME)


def _heat(found: Segments, texts: PageTexts) -> NumberTable:
    features = found.features[:MOST_FEATURES]
    shown = found.magnitude[:, : len(features)]
    decimals = decimals_of(shown.ravel().tolist())
    levels = np.floor(LEVELS * shown / (shown.max() or 1.0)).astype(int)
    lines = []
    for place in range(min(len(found.names), MOST_LINES)):
        count = int(found.counts[place])
        cells = [Cell(f"{count:,}", count)]
        for value, half, level in zip(
            shown[place].tolist(), found.half_width[place].tolist(), levels[place], strict=False
        ):
            text = f"{shown_number(value, decimals)} ± {shown_number(half, decimals)}"
            cells.append(Cell(text, value, int(level)))
        lines.append((_group_name(found, place, texts), tuple(cells)))
    heads = ("segment", "rows", *map(texts.name, features))
    return NumberTable(heads, tuple(lines), found.left_out(len(lines), len(features)))


def comparison_of(
    rankings: Mapping[str, Mapping[str, Ranking]], output: str, texts: PageTexts, tab: int
) -> ToldFigure | None:
    """The rankings of several explanations for one output on one scale; None if one has it."""
    given = [found[output] for found in rankings.values() if found[output].rows]
    if len(given) < 2:
        return None
    agreement = ranking_agreement(given)
    sentences = [
        f"The rankings of {label(given[place].label, NAME)} and "
        f"{label(given[0].label, NAME)} agree with nDCG {agreement.ndcg[place]:.4f} and Spearman "
        f"{agreement.spearman[place]:.4f} (1: the same order)"
        f"{_moved(agreement.features, agreement.places[0], agreement.places[place], texts)}."
        for place in range(1, len(given))
    ]
    decimals = decimals_of(agreement.worths.ravel().tolist())
    heads = ["column"]
    for ranking in given:
        heads += [f"place, {label(ranking.label, NAME)}", f"mean |φ|, {label(ranking.label, NAME)}"]
    lines = [
        (texts.name(name), _compared(index, agreement, decimals))
        for index, name in enumerate(agreement.features)
    ]
    shown = tuple(lines[:MOST_LINES])
    note = f"{len(lines) - MOST_LINES:,} more columns" * (len(lines) > MOST_LINES)
    return ToldFigure("", tuple(sentences), (NumberTable(tuple(heads), shown, note),), tab)


def _compared(index: int, found: RankingAgreement, decimals: int) -> tuple[Cell, ...]:
    """Place and mean |φ| of one feature under each explanation."""
    cells = []
    for worth, place in zip(found.worths, found.places, strict=True):
        value = float(worth[index])
        cells += [
            Cell(f"{place[index]}", float(place[index])),
            Cell(shown_number(value, decimals), value),
        ]
    return tuple(cells)


def _moved(names: Sequence[str], first: np.ndarray, other: np.ndarray, texts: PageTexts) -> str:
    """The feature whose place differs most, in words; empty if all places are the same."""
    most = int(np.abs(first - other).argmax())
    if first[most] == other[most]:
        return ""
    return (
        f"; the place of {texts.quoted(names[most])} differs most, {first[most]} and {other[most]}"
    )


def drift_of(
    name: str, path: Place, texts: PageTexts, outputs: Sequence[str] = ()
) -> list[ToldFigure]:
    """The difference of a cube from the previous run's cube, for each output; empty without one.

    `outputs` are the outputs in the page's selector.
    """
    earlier = earlier_runs(path)
    if not earlier:
        return []
    before = path.with_name(earlier[-1])
    try:
        found = diff(before, path)
    except InputError as error:
        said = f"Not compared with run {before.name}: {printable(str(error))}."
        return [ToldFigure(label(name), (said,), ())]
    return [_drift_figure(name, before.name, found, each, texts, outputs) for each in found.outputs]


def _drift_figure(
    name: str,
    before: str,
    found: Difference,
    output: OutputDifference,
    texts: PageTexts,
    outputs: Sequence[str],
) -> ToldFigure:
    sentences = (
        f"Compared with run {before}: {found.n_both:,} rows are in both, and "
        f"{output.n_changed:,} of them have different attributions.",
        *difference_sentences(output, texts, found.measure),
    )
    tables = (shift_table(output, texts), changed_table(output, texts))
    tab = -1
    if output.output in outputs:
        tab = outputs.index(output.output)
    shown = tuple(each for each in tables if each.lines)
    return ToldFigure(label(name), sentences, shown, tab)


def difference_sentences(
    output: OutputDifference, texts: PageTexts, units: str
) -> tuple[str, str, str]:
    """Plain sentences about two cubes: what moved most, the order of the features, the mean prediction.

    `units` are the units of the attributions, after a blank.
    """
    first = output.features[0]
    scale = max(max(each.magnitude_old, each.magnitude_new) for each in output.features)
    moved = "The influence of every column is the same as before."
    if first.wasserstein > SAME * scale:
        moved = (
            f"{texts.quoted(first.feature)} changed most: its attributions moved by at least "
            f"{short_number(first.wasserstein)}{units} on average, and their mean size went from "
            f"{shown_number(first.magnitude_old, output.decimals)} to "
            f"{shown_number(first.magnitude_new, output.decimals)}."
        )
    moves = [
        f"{texts.quoted(each.feature)} from place {each.place_old} to {each.place_new}"
        for each in output.moves[:SHOWN_MOVES]
    ]
    order = "The order of the columns by their influence is the same."
    if moves:
        order = f"The order of the columns by their influence changed: {joined(moves)}."
    decimals = decimals_of((output.prediction_old, output.prediction_new))
    means = [
        shown_number(each, decimals) for each in (output.prediction_old, output.prediction_new)
    ]
    predicted = f"The mean prediction went from {means[0]} to {means[1]}{units}."
    if means[0] == means[1]:
        predicted = f"The mean prediction is {means[0]}{units} before and now."
    return moved, order, predicted


def shift_table(output: OutputDifference, texts: PageTexts) -> NumberTable:
    """How far the attributions of each feature moved."""
    shown = output.features[:MOST_LINES]
    lines = [(texts.name(each.feature), _shift_cells(each, output.decimals)) for each in shown]
    heads = ("column", "Wasserstein", "PSI", "mean |Δφ|", "mean |φ| before", "now", "place")
    note = f"{len(output.features) - len(shown):,} more columns" * (
        len(output.features) > len(shown)
    )
    return NumberTable(heads, tuple(lines), note)


def _shift_cells(found: FeatureDifference, decimals: int) -> tuple[Cell | str, ...]:
    """The numbers of one feature."""
    sizes = (found.mean_change, found.magnitude_old, found.magnitude_new)
    return (
        Cell(shown_number(found.wasserstein, decimals), found.wasserstein),
        Cell(f"{found.psi:.4f}", found.psi),
        *(Cell(shown_number(size, decimals), size) for size in sizes),
        f"{found.place_old} → {found.place_new}",
    )


def changed_table(output: OutputDifference, texts: PageTexts) -> NumberTable:
    """The rows whose attributions changed most."""
    decimals = decimals_of(
        value for row in output.rows for value in (row.prediction_old, row.prediction_new)
    )
    lines = [
        (
            label(key_words(row.key)),
            (
                Cell(shown_number(row.change, decimals), row.change),
                texts.name(row.feature),
                Cell(shown_number(row.prediction_old, decimals), row.prediction_old),
                Cell(shown_number(row.prediction_new, decimals), row.prediction_new),
            ),
        )
        for row in output.rows
    ]
    heads = ("row that changed", "Σ |Δφ|", "most in", "prediction before", "now")
    addresses = tuple(row_address(row.key.values()) for row in output.rows)
    return NumberTable(heads, tuple(lines), addresses=addresses)
