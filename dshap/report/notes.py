"""The accuracy that a run measured, and the cost of its stages, as lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dshap.core.blocks import NOT_SERVED
from dshap.core.printing import format_bytes
from dshap.core.rates import rate_in_words
from dshap.core.records import JSON
from dshap.run.quality import note_text

ABSENT = "-"
PEAKS: tuple[tuple[str, str, int], ...] = (
    ("worker_peak_bytes", "peak of largest worker", 24),
    ("client_peak_bytes", "peak of client", 16),
)
"""Key of a stage with a peak of memory, the head of its column, and the column's width."""
ONE_PEAK = ("client_peak_bytes", "peak memory", 16)
"""The column of peaks if one process does all."""


def accuracy_lines(found: Mapping[str, Mapping[str, JSON]]) -> list[str]:
    """Describe the accuracy of each explanation in lines of text.

    The lines name the additivity residual, a pilot's forecast, the errors of learning and of
    folding, MSE_v, and MSE_v by coalition size, as far as the run measured them.

    Parameters
    ----------
    found : mapping of str to mapping
        The name of each explanation -> its measurements, as `dshap.report.accuracy` returns them.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import dshap
    >>> rows = np.array([[1.0, 10.0], [3.0, 20.0]])
    >>> value = dshap.values.Marginal(lambda x: 50 * x[:, 0] - x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Path(folder, "cube")
    ...     cube = dshap.explain(value, rows, store=store, progress=False)
    ...     found = dshap.report.accuracy({"prices": store})
    >>> dshap.report.accuracy_lines(found)
    ['prices: |Σφ + base value − prediction| at most ...']
    """
    lines = []
    for name, measured in found.items():
        if measured["residual"]:
            lines.append(
                f"{name}: |Σφ + base value − prediction| at most {max(measured['residual']):.2g}"
            )
        if "carried" in measured:
            lines.append(f"{name}: {carried_text(measured['carried'])}")
        if NOT_SERVED in measured.get("counted", {}):
            lines.append(f"{name}: {served_text(measured['counted'][NOT_SERVED])}")
        if "forecast_coalitions" in measured.get("pilot", {}):
            pilot = measured["pilot"]
            reached = f"{pilot['relative_error']:.3g}"
            wanted = f"{pilot['forecast_coalitions']:,.0f}"
            lines.append(
                f"{name}: std_error / range of the pilot is {reached} in its first round; it "
                f"expects {wanted} coalitions per row"
            )
        if "learning_error" in measured:
            lines.append(f"{name}: {learning_text(measured['learning_error'])}")
        if "fold_error" in measured:
            lines.append(f"{name}: {fold_text(measured['fold_error'])}")
        quality = measured.get("mse_v")
        if quality is None:
            continue
        lines.append(f"{name}: MSE_v {note_text(quality)}")
        sizes = [
            f"{size}: {', '.join(f'{mse:.4g}' for mse in each)}"
            for size, each in enumerate(quality["by_size"], start=1)
            if None not in each
        ]
        lines.append(f"{name}: MSE_v by players present  {'  '.join(sizes)}")
    return lines


def carried_text(note: Mapping[str, Any]) -> str:
    """How many rows were carried, and the effect on the errors of means."""
    text = f"{note['rows']:,} of {note['of']:,} rows carried from the night before"
    if "errors_of_means" in note:
        return f"{text}; errors of means are {note['errors_of_means']}"
    return text


def learning_text(note: Mapping[str, Any]) -> str:
    """The error of attributions by learning from a part of the rows, and of how many it learned."""
    error = f"{100.0 * note['in_deviations']:.2g} % of a standard deviation of the predictions"
    return (
        f"learned from {note['rows']:,} of {note['of']:,} rows, which adds an error of "
        f"{error} to attributions (root mean square)"
    )


def fold_text(note: Mapping[str, Any]) -> str:
    """The error of values by folding them to few landmarks, and how many coalitions are folded."""
    if not note["folded"]:
        return "no coalition is folded to few landmarks, because its values would be too inaccurate"
    return (
        f"{note['folded']:,} of {note['coalitions']:,} coalitions are folded to "
        f"{note['landmarks']:.0f} landmarks on average, which adds an error of at most "
        f"{100.0 * note['largest']:.2g} % of a standard deviation of the predictions (root mean square)"
    )


def served_text(n_rows: int) -> str:
    """The number of explained rows that the stored pilot does not serve, in words."""
    if not n_rows:
        return "the choices of the pilot fit all explained rows"
    if n_rows == 1:
        return "1 row is unlike the rows of the pilot, and was estimated without its choices"
    return (
        f"{n_rows:,} rows are unlike the rows of the pilot, and were estimated without its choices"
    )


def stage_table(stages: Sequence[Mapping[str, JSON]], is_one_process: bool = False) -> list[str]:
    """Format the time and memory of a run's stages as a table: a heading, then a line per stage.

    Parameters
    ----------
    stages : sequence of mapping
        The results of `StageUse.to_dict`.
    is_one_process : bool
        Whether one process did all, so that the table has one column of peak memory, not two.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import dshap
    >>> stage = {"stage": "evaluation", "rows": 1000, "seconds": 2.0, "rows_per_second": 500.0}
    >>> stage |= {"kept": "", "client_peak_bytes": 3 * 2**30}
    >>> for line in dshap.report.stage_table([stage], is_one_process=True):
    ...     print(line)
    stage             rows   seconds      rows/s     peak memory
    evaluation       1,000       2.0         500         3.0 GiB
    """
    peaks = PEAKS
    if is_one_process:
        peaks = (ONE_PEAK,)
    width = max(map(len, ["stage", *(stage["stage"] for stage in stages)]))
    heads = f"{'rows':>12}{'seconds':>10}{'rows/s':>12}"
    heads += "".join(f"{head:>{room}}" for _, head, room in peaks)
    return [
        f"{'stage':<{width}}{heads}",
        *(f"{stage['stage']:<{width}}{_cells(stage, peaks)}".rstrip() for stage in stages),
    ]


def _cells(stage: Mapping[str, Any], peaks: Sequence[tuple[str, str, int]]) -> str:
    rows = stage["rows"]
    rate = stage["rows_per_second"]
    if stage["kept"]:
        kept = f"  {stage['kept']}"
    else:
        kept = ""
    if kept and rows is None:
        return kept
    shown = ABSENT if rows is None else f"{rows:,}", ABSENT if rate is None else rate_in_words(rate)
    held = "".join(f"{_bytes(stage[key]):>{room}}" for key, _, room in peaks)
    return f"{shown[0]:>12}{stage['seconds']:>10.1f}{shown[1]:>12}{held}{kept}"


def _bytes(size: int | None) -> str:
    if size is None:
        return ABSENT
    return format_bytes(size)
