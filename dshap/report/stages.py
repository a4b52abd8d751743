"""The stages of a run as a table: rows, seconds, rate, and the memory that they took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dshap.engine import format_bytes

__all__ = ["stage_table"]

ABSENT = "-"


def stage_table(stages: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each stage (`StageUse.to_dict`), under a heading."""
    width = max(len("stage"), *(len(stage["stage"]) for stage in stages))
    heads = f"{'rows':>12}{'seconds':>10}{'rows/s':>12}{'peak of largest worker':>24}{'peak of client':>16}"
    return [f"{'stage':<{width}}{heads}", *(f"{stage['stage']:<{width}}{_cells(stage)}".rstrip() for stage in stages)]


def _cells(stage: Mapping[str, Any]) -> str:
    rows, rate, kept = stage["rows"], stage["rows_per_second"], f"  {stage['kept']}" if stage["kept"] else ""
    if kept and rows is None:
        return kept
    shown = ABSENT if rows is None else f"{rows:,}", ABSENT if rate is None else _rate(rate)
    peaks = _bytes(stage["worker_peak_bytes"]), _bytes(stage["client_peak_bytes"])
    return f"{shown[0]:>12}{stage['seconds']:>10.1f}{shown[1]:>12}{peaks[0]:>24}{peaks[1]:>16}{kept}"


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _bytes(size: int | None) -> str:
    return ABSENT if size is None else format_bytes(size)
