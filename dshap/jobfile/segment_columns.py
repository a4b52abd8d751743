"""Segments and what-if of [report], checked before anything runs: both need columns in the cubes."""

from __future__ import annotations

from collections.abc import Sequence

from dshap import cube
from dshap.analysis.segment_names import column_of_segment
from dshap.core.errors import InputError, unknown_name
from dshap.core.printing import format_bytes, label
from dshap.engine import Plan


def check_kept(segments: Sequence[str], *, is_of_texts: bool, keeps_columns: bool) -> None:
    """Raise a `ValueError` where [report] asks for segments of a job that stores no columns."""
    if not segments:
        return
    if is_of_texts:
        raise ValueError(
            '[report] segments are columns, which [source] kind = "texts" has none of: leave it out'
        )
    if not keeps_columns:
        raise ValueError(
            f"[report] segments = {list(segments)} reads the values of columns, and the cubes do "
            "not store them: give [run] keep_rows = true"
        )


def check_what_if(is_asked: bool, *, is_of_texts: bool, keeps_columns: bool) -> None:
    """Raise a `ValueError` where [report] asks for a what-if of a job that stores no columns."""
    if not is_asked:
        return
    if is_of_texts:
        raise ValueError(
            '[report] what_if changes columns, which [source] kind = "texts" has none of: leave it '
            "out"
        )
    if not keeps_columns:
        raise ValueError(
            "[report] what_if = true starts from the values of a row, and the cubes do not store "
            "them: give [run] keep_rows = true"
        )


def check_segments(segments: Sequence[str], columns: Sequence[str]) -> None:
    """Raise where a segment is none of the explained columns, which are those that cubes store."""
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
