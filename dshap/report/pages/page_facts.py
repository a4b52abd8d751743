"""Sentences of a page: what was explained, which rows are missing, and the errors of the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from dshap.analysis.accuracy import accuracy
from dshap.analysis.measures import scale_sentence
from dshap.analysis.rankings import INTERVAL, MANY_FEATURES, Ranking
from dshap.core.blocks import NOT_SERVED
from dshap.core.places import Place
from dshap.core.printing import label, printable
from dshap.cube import CubeStatus, cube_status, finished_blocks, read_notes, read_run
from dshap.cube.blocks import CubeArrays
from dshap.cube.reader import written_at
from dshap.report.notes import carried_text, fold_text, learning_text, served_text
from dshap.report.pages.page_numbers import short_number
from dshap.run.quality import note_text

MEASURABLE = frozenset({"exact", "kernelshap", "kriging"})
"""The designs whose MSE_v `dshap.mse_v` measures: others have no list of coalitions of all sizes."""
SHOWN_SPANS = 8
"""The most spans of missing rows that a page names."""


@dataclass(frozen=True)
class ExplanationWords:
    """One explanation of a store, in words."""

    name: str
    facts: Mapping[str, str]
    """Heading -> the text of the page below it."""
    missing: tuple[str, ...]
    """Sentences about the rows that have no attributions."""
    sureness: tuple[str, ...]
    """Sentences about the errors of the numbers."""


def explained(
    name: str, path: Place, rankings: Sequence[Ranking], unreadable: Sequence[slice]
) -> ExplanationWords:
    """Describe one explanation; `rankings` has one ranking for each output."""
    arrays = CubeArrays(path)
    status = cube_status(path)
    return ExplanationWords(
        label(name),
        _facts(path, arrays, status),
        tuple(_missing(path, status, unreadable)),
        tuple(_sureness(name, path, rankings)),
    )


def _facts(path: Place, arrays: CubeArrays, status: CubeStatus) -> dict[str, str]:
    """The facts of an explanation: value function, method, rows, features, outputs, when, by which version."""
    run = read_run(path) or {}
    identity: Mapping[str, Any] = run.get("fingerprint", {})
    value: Mapping[str, Any] = identity.get("value", {})
    found = {
        "value function": " ".join(
            str(value[each]) for each in ("kind", "value") if value.get(each)
        ),
        "method": _method(identity.get("design", {})),
        "rows": f"{status.ok:,} explained of {status.n_rows:,}",
        "features": f"{len(arrays.features):,}",
        "outputs": ", ".join(map(label, arrays.outputs)),
        "scale": scale_sentence(arrays.scale) or arrays.scale,
        "written": _time(written_at(path)),
        "run": str(run.get("digest", "")),
        "model": str(value.get("model", "")),
        "dshap": str(run.get("version", "")),
    }
    return {name: printable(text) for name, text in found.items() if text}


def _method(design: Mapping[str, Any]) -> str:
    """The design or closed form, with the number of its coalitions if it has one."""
    name = str(design.get("design", "")).replace("_", " ")
    counts = [
        f"{design[each]:,} {each.removeprefix('n_')}"
        for each in ("n_coalitions", "n_permutations")
        if design.get(each)
    ]
    return ", ".join([name, *counts])


def _time(moment: datetime | None) -> str:
    if moment is None:
        return ""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _missing(path: Place, status: CubeStatus, unreadable: Sequence[slice]) -> Iterator[str]:
    """Sentences about rows without attributions, and what to do about them."""
    done = [(block.start, block.stop) for block in finished_blocks(path)]
    gaps = _gaps(done, status.n_rows)
    if gaps:
        n_rows = sum(stop - start for start, stop in gaps)
        yield (
            f"{n_rows:,} of {status.n_rows:,} rows are not finished: {_spans(gaps)}.  "
            "The same run again computes them."
        )
    if unreadable:
        yield (
            f"Rows cannot be read: {_spans([(each.start, each.stop) for each in unreadable])}.  "
            "Figures are left out: `dshap verify STORE --repair`, then the same run again, repairs them."
        )
    for each in status.failures:
        yield f"{each.rows:,} rows failed, first {printable(each.first)}: {printable(each.reason)}."
    if status.skipped:
        yield f"{status.skipped:,} rows were skipped, because they have missing values."
    if status.erased:
        yield f"{status.erased:,} rows were erased on request, and are in no number."


def _gaps(done: Sequence[tuple[int, int]], n_rows: int) -> list[tuple[int, int]]:
    """The spans of rows between finished blocks."""
    gaps = []
    at = 0
    for start, stop in [*sorted(done), (n_rows, n_rows)]:
        if start > at:
            gaps.append((at, start))
        at = max(at, stop)
    return gaps


def _spans(spans: Sequence[tuple[int, int]]) -> str:
    """Spans of rows in words, such as "rows 0 to 99"."""
    shown = [f"rows {start:,} to {stop - 1:,}" for start, stop in spans[:SHOWN_SPANS]]
    if len(spans) > SHOWN_SPANS:
        shown.append(f"{len(spans) - SHOWN_SPANS:,} more spans")
    return ", ".join(shown)


def _sureness(name: str, path: Place, rankings: Sequence[Ranking]) -> Iterator[str]:
    """Sentences about additivity, sampling, learning, folding, MSE_v and nodes."""
    notes = read_notes(path)
    residual = accuracy({name: path})[name]["residual"]
    if residual:
        yield (
            "Additivity: base value and attributions of every row add up to its prediction to within "
            f"{short_number(max(residual), 2)}."
        )
    # outputs without errors share a sentence
    yield from dict.fromkeys(map(_sampling, rankings))
    yield from _stated(notes.get("closed_form", {}))
    if "base_value" in notes:
        yield from _drawn(notes["base_value"])
    if "learning_error" in notes:
        yield f"Learning: {learning_text(notes['learning_error'])}."
    if "fold_error" in notes:
        yield f"Folding: {fold_text(notes['fold_error'])}."
    if "mse_v" in notes:
        yield f"Value function: MSE_v {note_text(notes['mse_v'])}."
    elif _is_measurable(path):
        yield (
            "Value function: its error on coalitions (MSE_v) was not measured: dshap.mse_v, or "
            "quality_rows in a job file, measures it."
        )
    counted = notes.get("counted", {})
    if NOT_SERVED in counted:
        yield f"Pilot: {served_text(counted[NOT_SERVED])}."
    if "carried" in notes:
        yield f"Carried rows: {carried_text(notes['carried'])}."


def _is_measurable(path: Place) -> bool:
    """Whether `dshap.mse_v` accepts the value function and the design of a cube."""
    identity: Mapping[str, Any] = (read_run(path) or {}).get("fingerprint", {})
    is_of_texts = identity.get("value", {}).get("value") == "tokens"
    return identity.get("design", {}).get("design") in MEASURABLE and not is_of_texts


def _sampling(ranking: Ranking) -> str:
    """A sentence on the errors of the means of one ranking, from their standard errors."""
    if not ranking.has_errors:
        return "Standard errors: none, because no coalition was sampled."
    largest = max(ranking.magnitude, key=lambda feature: ranking.magnitude[feature])
    half = INTERVAL * ranking.magnitude_error[largest]
    if not np.isfinite(half):
        return (
            f"Standard errors ({label(ranking.label)}): unknown, because too few coalitions or "
            "draws were sampled."
        )
    said = (
        f"Standard errors ({label(ranking.label)}): mean |φ| of {label(largest)}, the largest, "
        f"is {short_number(ranking.magnitude[largest], 4)} ± {short_number(half, 2)} with 95 % "
        "confidence."
    )
    if ranking.is_too_small:
        return (
            f"{said}  For more than {MANY_FEATURES} features, mean |φ| is too small: use it to rank "
            "features only."
        )
    return said


def _stated(form: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences about the errors of a closed form."""
    if not form:
        return
    yield f"Closed form: {form.get('kind', '')}."
    if "node_error" in form:
        yield (
            f"Quadrature: with up to {max(form['nodes'])} nodes, the error of any attribution is at most "
            f"{short_number(max(form['node_error']), 2)}."
        )
    if "value_error_in_standard_deviations" in form:
        yield (
            f"Background: {form['background_rows']:,} rows represent all rows; the error of a value is about "
            f"{short_number(form['value_error_in_standard_deviations'], 2)} standard deviations of the prediction."
        )


def _drawn(note: Mapping[str, Any]) -> Iterator[str]:
    """The error of a base value that is a mean over draws."""
    errors = [each for each in note.get("std_error_of_draws", []) if each is not None]
    if errors and np.isfinite(errors).all():
        yield (
            f"Base value: a mean over {note['draws']:,} draws, with a standard error of "
            f"{short_number(max(errors), 2)}."
        )
