"""Sections that only some pages have: segments of the rows, explanations compared, and drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dshap.analysis.column_values import columns_of, require_column
from dshap.analysis.difference.compared_cubes import earlier_runs
from dshap.analysis.difference.cube_comparison import diff
from dshap.analysis.difference.difference_record import (
    FeatureDifference,
    OutputDifference,
    ranking_words,
    shift_words,
)
from dshap.analysis.numbers_as_text import decimals_of, number
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
from dshap.report.pages.figures import NAME, Cell
from dshap.report.pages.row_tables import RowTable

MOST_FEATURES = 8
"""The most columns of a table of segments."""
MOST_LINES = 40
"""The most lines of a table of segments, or of features whose attributions changed."""
LEVELS = 8
"""The strongest colour of a number in a table of segments."""


@dataclass(frozen=True)
class NumberTable:
    """A table of numbers; a note below it says what it leaves out."""

    heads: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Cell | str, ...]], ...]
    note: str = ""


@dataclass(frozen=True)
class ToldFigure:
    """Sentences, and the tables behind them."""

    heading: str
    sentences: tuple[str, ...]
    tables: tuple[NumberTable, ...]


@dataclass(frozen=True)
class FurtherSection:
    """A section of sentences and tables."""

    anchor: str
    heading: str
    figures: tuple[ToldFigure, ...]


def segment_tables_of(
    table: RowTable, names: Sequence[str], output: str, segments: Sequence[str]
) -> list[list[ToldFigure]]:
    """For each of these segments, mean |attribution| in it under each of these explanations.

    All are made in one pass over the cubes.  A segment that cannot be shown, of too many values,
    hides no other.
    """
    views = [view_of(open_cube(table.cubes[name].path), output) for name in names]
    columns = [columns_of(view.cube) for view in views]
    told: dict[str, list[ToldFigure]] = {}
    groups = {}
    for segment in segments:
        try:
            groups[segment] = row_groups(views[0], columns[0], segment)
        except InputError as error:
            refused = ToldFigure(label(segment, NAME), (f"{printable(str(error))}.",), ())
            told[segment] = [refused]
    for name, found in zip(
        names, segments_together(views, columns, [*groups.values()]), strict=True
    ):
        for each in found:
            told.setdefault(each.column, []).append(_segment_figure(table, name, output, each))
    return [told[segment] for segment in segments]


def _segment_figure(table: RowTable, name: str, output: str, found: Segments) -> ToldFigure:
    """Mean |attribution| in each segment of a column under one explanation."""
    heading = f"{found.column}, by {name}"
    if len(table.first.outputs) > 1:
        heading = f"{heading}, {output}"
    return ToldFigure(label(heading, 2 * NAME), (_segment_words(found),), (_heat(found),))


def refuse_unknown_segments(table: RowTable, segments: Sequence[str]) -> None:
    """Raise an `InputError` where the column of a segment was not kept."""
    for segment in segments:
        columns = columns_of(open_cube(table.first.path))
        column = column_of_segment(segment, columns)
        if not columns:
            raise InputError(
                f"segment {segment!r}: the cube has no values of the column {column!r}: keep them "
                "with explain(..., keep_rows=True) or [run] keep_rows = true"
            )
        require_column(columns, column)


def _segment_words(found: Segments) -> str:
    """The feature that differs most between segments, in words."""
    spread = np.ptp(found.magnitude, axis=0)
    most = int(spread.argmax())
    values = found.magnitude[:, most]
    low = int(values.argmin())
    high = int(values.argmax())
    decimals = decimals_of(values.tolist())
    return (
        f"Mean |attribution|{found.words}, in each segment with its 95 % interval.  "
        f"{label(found.features[most], NAME)} differs most: least in “{label(found.names[low], NAME)}” "
        f"({number(values[low], decimals)}), most in “{label(found.names[high], NAME)}” "
        f"({number(values[high], decimals)})."
    )


def _heat(found: Segments) -> NumberTable:
    features = found.features[:MOST_FEATURES]
    shown = found.magnitude[:, : len(features)]
    decimals = decimals_of(shown.ravel().tolist())
    levels = np.floor(LEVELS * shown / (shown.max() or 1.0)).astype(int)
    lines = []
    for place, name in enumerate(found.names[:MOST_LINES]):
        count = int(found.counts[place])
        cells = [Cell(f"{count:,}", count)]
        for value, half, level in zip(
            shown[place].tolist(), found.half_width[place].tolist(), levels[place], strict=False
        ):
            text = f"{number(value, decimals)} ± {number(half, decimals)}"
            cells.append(Cell(text, value, int(level)))
        lines.append((label(name, NAME), tuple(cells)))
    heads = ("segment", "rows", *(label(feature, NAME) for feature in features))
    return NumberTable(heads, tuple(lines), found.left_out(len(lines), len(features)))


def comparison_of(
    rankings: Mapping[str, Mapping[str, Ranking]], output: str, is_one_of_several: bool
) -> ToldFigure | None:
    """The rankings of several explanations for one output on one scale; None where one has it."""
    given = [found[output] for found in rankings.values() if found[output].rows]
    if len(given) < 2:
        return None
    agreement = ranking_agreement(given)
    sentences = [
        f"The ranking of {label(given[place].label, NAME)} agrees with that of "
        f"{label(given[0].label, NAME)} to nDCG {agreement.ndcg[place]:.4f} and Spearman "
        f"{agreement.spearman[place]:.4f} (1: the same order)"
        f"{_moved(agreement.features, agreement.places[0], agreement.places[place])}."
        for place in range(1, len(given))
    ]
    decimals = decimals_of(agreement.worths.ravel().tolist())
    heads = ["feature"]
    for ranking in given:
        heads += [f"place, {label(ranking.label, NAME)}", f"mean |φ|, {label(ranking.label, NAME)}"]
    lines = [
        (label(name), _compared(index, agreement, decimals))
        for index, name in enumerate(agreement.features)
    ]
    shown = tuple(lines[:MOST_LINES])
    note = f"{len(lines) - MOST_LINES:,} more features" * (len(lines) > MOST_LINES)
    heading = label(output) * is_one_of_several
    return ToldFigure(heading, tuple(sentences), (NumberTable(tuple(heads), shown, note),))


def _compared(index: int, found: RankingAgreement, decimals: int) -> tuple[Cell, ...]:
    """Place and mean |φ| of one feature under each explanation."""
    cells = []
    for worth, place in zip(found.worths, found.places, strict=True):
        value = float(worth[index])
        cells += [
            Cell(f"{place[index]}", float(place[index])),
            Cell(number(value, decimals), value),
        ]
    return tuple(cells)


def _moved(names: Sequence[str], first: np.ndarray, other: np.ndarray) -> str:
    """The feature whose place differs most, in words; empty where all places are the same."""
    most = int(np.abs(first - other).argmax())
    if first[most] == other[most]:
        return ""
    return (
        f"; the place of {label(names[most], NAME)} differs most, {first[most]} and {other[most]}"
    )


def drift_of(name: str, path: Place) -> ToldFigure | None:
    """The difference of a cube from that of the run before; None where there is none."""
    earlier = earlier_runs(path)
    if not earlier:
        return None
    before = path.with_name(earlier[-1])
    try:
        found = diff(before, path)
    except InputError as error:
        return ToldFigure(
            label(name), (f"Not compared with run {before.name}: {printable(str(error))}.",), ()
        )
    sentences = [f"Compared with run {before.name}: {found.n_both:,} rows are in both."]
    tables = []
    for output in found.outputs:
        said = f"{label(output.output)}: " * (len(found.outputs) > 1)
        sentences += [
            f"{said}{ranking_words(output)}.",
            f"{said}{shift_words(output, found.measure)}.",
        ]
        tables += [shift_table(output), changed_table(output)]
    return ToldFigure(label(name), tuple(sentences), tuple(each for each in tables if each.lines))


def shift_table(output: OutputDifference) -> NumberTable:
    """How far the attributions of each feature moved."""
    shown = output.features[:MOST_LINES]
    lines = [(label(each.feature), _shift_cells(each, output.decimals)) for each in shown]
    heads = ("feature", "Wasserstein", "PSI", "mean |Δφ|", "mean |φ| before", "now", "place")
    note = f"{len(output.features) - len(shown):,} more features" * (
        len(output.features) > len(shown)
    )
    return NumberTable(heads, tuple(lines), note)


def _shift_cells(found: FeatureDifference, decimals: int) -> tuple[Cell | str, ...]:
    """The numbers of one feature."""
    sizes = (found.mean_change, found.magnitude_old, found.magnitude_new)
    return (
        Cell(number(found.wasserstein, decimals), found.wasserstein),
        Cell(f"{found.psi:.4f}", found.psi),
        *(Cell(number(size, decimals), size) for size in sizes),
        f"{found.place_old} → {found.place_new}",
    )


def changed_table(output: OutputDifference) -> NumberTable:
    """The rows whose attributions changed most."""
    decimals = decimals_of(
        value for row in output.rows for value in (row.prediction_old, row.prediction_new)
    )
    lines = [
        (
            label(key_words(row.key)),
            (
                Cell(number(row.change, decimals), row.change),
                label(row.feature, NAME),
                Cell(number(row.prediction_old, decimals), row.prediction_old),
                Cell(number(row.prediction_new, decimals), row.prediction_new),
            ),
        )
        for row in output.rows
    ]
    heads = ("row that changed", "Σ |Δφ|", "most in", "prediction before", "now")
    return NumberTable(heads, tuple(lines))
