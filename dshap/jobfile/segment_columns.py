"""Tables of a job file that need columns, checked before anything runs, and segments of [report]."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dshap import cube
from dshap.analysis.segment_names import column_of_segment
from dshap.core.errors import InputError, unknown_name
from dshap.core.printing import format_bytes, label
from dshap.engine import Plan


@dataclass(frozen=True)
class ColumnRequest:
    """A key or table of a job file that needs columns."""

    is_made: bool
    """Whether the job has it."""
    of_texts: str
    """The message if the rows are texts, which have no columns."""
    of_bare_cubes: str = ""
    """The message if the cubes store no columns; empty if the key does not need stored columns."""


def column_requests(
    segments: Sequence[str], what_if: bool, is_incremental: bool
) -> Iterable[ColumnRequest]:
    """The keys and tables that need columns."""
    yield ColumnRequest(
        bool(segments),
        '[report] segments are columns, and [source] kind = "texts" has no columns: leave segments '
        "out",
        f"[report] segments = {list(segments)} reads the values of columns, and the cubes do not "
        "store them: give [run] keep_rows = true",
    )
    yield ColumnRequest(
        what_if,
        '[report] what_if changes columns, and [source] kind = "texts" has no columns: leave '
        "what_if out",
        "[report] what_if = true starts from the values of a row, and the cubes do not store them: "
        "give [run] keep_rows = true",
    )
    yield ColumnRequest(
        is_incremental,
        '[incremental] is for tables of columns, not for [source] kind = "texts": leave it out',
    )


def check_columns(
    requests: Iterable[ColumnRequest], *, is_of_texts: bool, keeps_columns: bool
) -> None:
    """Raise a `ValueError` if a request is made of a job that has no columns, or stores none."""
    for each in requests:
        if each.is_made and is_of_texts:
            raise ValueError(each.of_texts)
        if each.is_made and not keeps_columns and each.of_bare_cubes:
            raise ValueError(each.of_bare_cubes)


def check_segments(segments: Sequence[str], columns: Sequence[str]) -> None:
    """Raise an error if a segment is not an explained column: cubes store no others."""
    for segment in segments:
        column = column_of_segment(segment, columns)
        if column not in columns:
            said = unknown_name("column", column, columns)
            raise InputError(
                f"[report] segments: {said}; cubes keep the columns that are explained"
            )


def segment_lines(segments: Sequence[str], plans: Sequence[Plan]) -> list[str]:
    """The lines of a plan about the segments of [report], and the cost of their sums."""
    if not segments:
        return []
    line = f"segments, at the end: {', '.join(map(label, segments))}"
    most = sum(
        cube.histogram_bytes(plan.n_rows, 8 * plan.n_rows * plan.n_players * plan.n_outputs)
        for plan in plans
    )
    if most:
        line += f"; the store keeps their sums, {format_bytes(most)} at most"
    return ["", line]
