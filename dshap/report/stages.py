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
    if stage["kept"] and stage["rows"] is None:
        return f"  {stage['kept']}"
    rows, rate = stage["rows"], stage["rows_per_second"]
    cells = (
        f"{ABSENT if rows is None else f'{rows:,}':>12}{stage['seconds']:>10.1f}{ABSENT if rate is None else _rate(rate):>12}"
        f"{_bytes(stage['worker_peak_bytes']):>24}{_bytes(stage['client_peak_bytes']):>16}"
    )
    return cells + (f"  {stage['kept']}" if stage["kept"] else "")


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _bytes(size: int | None) -> str:
    return ABSENT if size is None else format_bytes(size)
