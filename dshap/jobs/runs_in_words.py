"""The runs of a store for people: a table of them, and the closing lines of one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dshap import __version__
from dshap.core.blocks import NOT_SERVED
from dshap.core.errors import InputError, StaleSourceError
from dshap.core.places import Place
from dshap.core.printing import counted, label, printable
from dshap.cube import read_job
from dshap.history.baselines import has_failed_check, is_accepted
from dshap.history.run_record import (
    EarlierRuns,
    ExplanationFacts,
    KeyCounts,
    RunFacts,
    RunRecord,
    exit_status,
    read_records,
)
from dshap.jobfile.schema import Job
from dshap.steps.scope import Scope

N_MOVED = 3
"""The most columns that a closing line names."""
WIDTH = 120
"""The most characters of a line of the table of runs on a terminal, unless its numbers need more."""
HEADS = (
    "run",
    "exit",
    "seconds",
    "rows",
    "new",
    "changed",
    "deleted",
    "explained",
    "failed",
    "as of",
    "target",
    "baseline",
    "what was done",
)
OPTIONAL = ("as of", "target", "baseline")
"""Heads of columns that are left out if no run has anything in them."""


def runs_summary(store: Place, width: int | None = None) -> tuple[list[str], dict[str, Any]]:
    """Describe the runs of a job's store, newest last: lines of a table, and the same for JSON.

    Parameters
    ----------
    store : path of the store
    width : the most characters of a line, by which the last column is shortened; None: any number

    Raises
    ------
    InputError
        There is no store of a job.
    """
    records = read_records(store)
    if not records and read_job(store) is None:
        raise InputError(f"{store} is not the store of a job: give the [job] store of a job file")
    if not records:
        return ["no run is recorded"], {"runs": []}
    pairs = list(zip(records, _runs_before(records), strict=True))
    rows = [HEADS, *(_row(record, store, before) for record, before in pairs)]
    lines = _aligned(_without_empty(rows), width)
    return lines, {"runs": [_content(record, before) for record, before in pairs]}


def _runs_before(records: Sequence[RunRecord]) -> list[RunRecord | None]:
    """For each run the newest one before it whose record names a model; None for none."""
    found: list[RunRecord | None] = []
    last = None
    for record in records:
        found.append(last)
        if _models_of(record):
            last = record
    return found


def _models_of(record: RunRecord) -> dict[str, Mapping[str, Any]]:
    """Explanation -> its model: kind and digest of its file."""
    models: dict[str, Mapping[str, Any]] = {}
    for result in record.named("explanation"):
        model = result["adapter_response"].get("model") or {}
        if model:
            models[result["unique_id"]] = {name: model.get(name) for name in ("kind", "sha256")}
    return models


def has_other_model(record: RunRecord, before: RunRecord | None) -> bool:
    """Whether an explanation of a run has another model, by kind or file, than in the run before."""
    if before is None:
        return False
    then = _models_of(before)
    return any(then.get(name, model) != model for name, model in _models_of(record).items())


def is_stale(record: RunRecord) -> bool:
    """Whether a night explained nothing, as its table was older than [source] freshness allows."""
    return bool(record.about.get("exit_status") == StaleSourceError.exit_status)


def _without_empty(rows: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The rows of a table without the columns of `OPTIONAL` that are empty."""
    columns = [cells for cells in zip(*rows, strict=True) if _is_shown(cells)]
    return list(zip(*columns, strict=True))


def _is_shown(cells: Sequence[str]) -> bool:
    head, *others = cells
    return head not in OPTIONAL or any(others)


def about_run(store: Place, run_id: str = "") -> dict[str, str]:
    """Facts about a run of a job's store for its report, heading -> text.

    An empty `run_id` means the last run.  Without a recorded run the result is empty.
    """
    over = [each for each in read_records(store) if each.is_over]
    chosen = [each for each in over if run_id in ("", each.run_id)]
    if not chosen:
        return {}
    record = chosen[-1]
    facts = {
        "job": str(record.about.get("job", "")),
        "run": record.run_id,
        "day": str(record.about.get("as_of") or ""),
    }
    for result in record.named("explanation"):
        told = result["adapter_response"]
        facts["table"] = _table_of(told.get("source"))
        facts["model kind"] = _kind_of(told.get("model"))
        keys = KeyCounts(**told["keys"])
        facts["source"] = _described(told.get("source"))
        facts["model"] = _described(told.get("model"))
        facts["keys"] = ""
        if keys.new is not None:
            facts["keys"] = _changes(keys)
    return {name: text for name, text in facts.items() if text}


def _table_of(facts: Mapping[str, Any] | None) -> str:
    """The name of the table of a run: the end of its path or address."""
    place = str((facts or {}).get("place", ""))
    return place.rstrip("/").rsplit("/", 1)[-1]


def _kind_of(facts: Mapping[str, Any] | None) -> str:
    """The library of a model, or its kind."""
    told = facts or {}
    return str(told.get("library") or told.get("kind") or "")


def _described(facts: Mapping[str, Any] | None) -> str:
    """The facts of a source or model that are plain texts or numbers, in a line."""
    shown = ("kind", "place", "rows", "library", "version", "sha256", "digest")
    told = facts or {}
    return ", ".join(f"{name} {told[name]}" for name in shown if told.get(name))


def _aligned(rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """The lines of a table: every column but the first and the last is aligned to the right."""
    columns = zip(*rows, strict=True)
    widths = [max(map(len, cells)) for cells in columns]
    *before, room = widths
    if width is not None:
        gaps = 2 * len(before)
        left = width - sum(before) - gaps
        room = max(left, len(HEADS[-1]))
    return [_line(row, widths, room) for row in rows]


def _line(row: Sequence[str], widths: Sequence[int], room: int) -> str:
    """One line of the table, whose last cell has so much room."""
    first, *numbers, done = row
    pairs = zip(numbers, widths[1:-1], strict=True)
    aligned = [number.rjust(width) for number, width in pairs]
    if len(done) > room:
        done = f"{done[: room - 1]}…"
    return "  ".join([first.ljust(widths[0]), *aligned, done]).rstrip()


def _row(record: RunRecord, store: Place, before: RunRecord | None) -> tuple[str, ...]:
    """The cells of one run; `before` is the one before it that explained anything."""
    if record.content is None:
        return (record.run_id, *[""] * (len(HEADS) - 2), "not over")
    explained = [each["adapter_response"] for each in record.named("explanation")]
    rows = sum(each["rows_affected"] for each in explained)
    failed = sum(each["failed"] for each in explained)
    keys = _keys_of(record)
    bad_first = sorted(record.results, key=_is_good)
    marks = []
    if is_stale(record):
        marks.append("source stale")
    if has_other_model(record, before):
        marks.append("model changed")
    if record.is_backfill:
        marks.append("backfill")
    if has_failed_check(record) and is_accepted(store, record.run_id):
        marks.append("accepted")
    done = ", ".join([*marks, *map(_word, bad_first)])
    return (
        record.run_id,
        str(record.about["exit_status"]),
        f"{record.content['elapsed_time']:,.1f}",
        f"{rows:,}",
        _count(keys.new),
        _count(keys.changed),
        _count(keys.deleted),
        f"{_explained_in(record):,}",
        f"{failed:,}",
        str(record.as_of or ""),
        _target_of(record),
        record.about.get("baseline") or "",
        printable(done),
    )


def _explained_in(record: RunRecord) -> int:
    """The number of rows that a run has explained, over all explanations: others were carried."""
    found = 0
    for result in record.named("explanation"):
        if result["status"] != "no-op":
            facts = result["adapter_response"]
            carried = (facts.get("accuracy") or {}).get("carried", {}).get("rows", 0)
            found += int(facts["rows_affected"]) - int(carried)
    return found


def _target_of(record: RunRecord) -> str:
    """The target of the job file that a run was started with; empty for none."""
    return str((record.content or {}).get("args", {}).get("target") or "")


def _count(number: int | None) -> str:
    """A number of keys; empty if nights are not compared."""
    if number is None:
        return ""
    return f"{number:,}"


def _keys_of(record: RunRecord) -> KeyCounts:
    """The changes of keys since the night before, which all explanations share."""
    for result in record.named("explanation"):
        counts = KeyCounts(**result["adapter_response"]["keys"])
        if counts.new is not None:
            return counts
    return KeyCounts()


def _is_good(result: Mapping[str, Any]) -> bool:
    """Whether a result is as it should be; others are listed first."""
    return result["status"] in ("success", "no-op", "pass")


def _word(result: Mapping[str, Any]) -> str:
    """The name of a result, with its kind if it is no explanation, and its end.

    An ending as it should be is left out.
    """
    what, _, name = result["unique_id"].split(".", 2)
    if what != "explanation":
        name = f"{what} {name}"
    if result["status"] in ("success", "pass"):
        return name
    return f"{name} {result['status']}"


def _content(record: RunRecord, before: RunRecord | None) -> dict[str, Any]:
    if record.content is None:
        return {"run_id": record.run_id, "is_over": False}
    keys = asdict(_keys_of(record))
    return {
        "run_id": record.run_id,
        "is_over": True,
        "keys": keys,
        "explained": _explained_in(record),
        "target": _target_of(record) or None,
        "as_of": str(record.as_of or "") or None,
        "seconds": record.content["elapsed_time"],
        "is_stale": is_stale(record),
        "model_changed": has_other_model(record, before),
        **record.content,
    }


def about_start(job: Job, scope: Scope) -> dict[str, Any]:
    """The facts that a run begins with, for machines."""
    return {
        "version": __version__,
        "job": job.job.name,
        "store": str(job.job.store),
        "part": scope.name,
        **scope.arguments,
        "cluster": job.cluster.kind,
        "explanations": [explain.name for explain in job.explain],
        "host": socket.gethostname(),
        "process": os.getpid(),
    }


def run_content(facts: RunFacts, record: Place | None) -> dict[str, Any]:
    """The facts of a run that is over, in a few keys, for JSON."""
    return {
        "run_id": facts.run_id,
        "previous_run": facts.previous,
        "as_of": str(facts.as_of or "") or None,
        "backfill": facts.is_backfill,
        "baseline": facts.baseline,
        "exit_status": exit_status(facts),
        "has_work": facts.has_work,
        "seconds": facts.seconds,
        "rows": {each.name: each.rows for each in facts.explanations},
        "failed": {each.name: each.failed for each in facts.explanations},
        "keys": {each.name: asdict(each.keys) for each in facts.explanations},
        "carried": {each.name: _carried(each) for each in facts.explanations},
        "checks": {each.name: each.status for each in facts.checks},
        "sinks": {each.name: each.status for each in facts.sinks},
        "record": None if record is None else str(record),
    }


def closing_lines(facts: RunFacts, store: Place) -> list[str]:
    """A line for each explanation, sink and check of a run that is over.

    Those of explanations name the columns whose place in the ranking moved most since the run
    before.  A night without a changed row has no line about its cubes, nor about sinks that are
    up to date.
    """
    earlier = EarlierRuns(store, facts.run_id)
    lines = []
    is_idle = False
    for explained in facts.explanations:
        if explained.is_unchanged:
            is_idle = True
        elif explained.cube:
            lines.append(_explained_line(explained, earlier))
    for sink in facts.sinks:
        if is_idle and sink.status == "no-op":
            continue
        if sink.status == "skipped":
            lines.append(f"sink {label(sink.name)}: skipped: {sink.message}")
            continue
        lines.append(
            f"sink {label(sink.name)}: {sink.rows:,} lines, {counted(sink.deleted, 'key')} deleted, "
            f"{sink.seconds:.1f} s; {sink.status}"
        )
    for check in facts.checks:
        lines.append(f"check {label(check.name)}: {check.status}: {check.message}")
    return lines


def _explained_line(facts: ExplanationFacts, earlier: Iterable[RunRecord]) -> str:
    """The rows of an explanation, the changes of its keys, and of its ranking."""
    parts = [f"{facts.rows:,} rows"]
    if facts.keys.new is not None:
        parts.append(_changes(facts.keys))
    carried = _carried(facts)
    if carried:
        parts.append(f"{carried:,} carried and {facts.rows - carried:,} explained")
    elif facts.keys.unchanged:
        parts.append(f"all {facts.rows:,} explained")
    if facts.keys.damaged:
        parts.append(f"{facts.keys.damaged:,} of them because their earlier blocks are damaged")
    parts.append(f"{facts.failed:,} failed")
    if not_served := int(facts.accuracy.get("counted", {}).get(NOT_SERVED, 0)):
        parts.append(f"{not_served:,} unlike the pilot's")
    parts.append(f"{facts.seconds:.1f} s")
    line = f"{label(facts.name)}: {', '.join(parts)}"
    nights = (each for each in earlier if not each.is_backfill)
    before = next((each for each in nights if each.ranking(facts.name)), None)
    if before is None or not facts.ranking:
        return line
    return f"{line}; {_moves_since(before, facts)}"


def _carried(facts: ExplanationFacts) -> int:
    """The number of rows that were carried from the cube of the night before."""
    return int(facts.accuracy.get("carried", {}).get("rows", 0))


def _changes(keys: KeyCounts) -> str:
    """The numbers of keys in words."""
    return (
        f"{keys.new or 0:,} new, {keys.changed or 0:,} changed, "
        f"{keys.unchanged or 0:,} as before, {keys.deleted or 0:,} deleted"
    )


def _moves_since(before: RunRecord, facts: ExplanationFacts) -> str:
    """The columns whose place in the ranking changed most since an earlier run, in words."""
    moves = moved_most(before.ranking(facts.name), facts.ranking)
    if not moves:
        return f"the ranking is the same as in run {before.run_id}"
    shown = ", ".join(f"{label(name)} from {old} to {new}" for name, old, new in moves)
    return f"moved most in the ranking since run {before.run_id}: {shown}"


def moved_most(
    before: Mapping[str, Mapping[str, float]], now: Mapping[str, Mapping[str, float]]
) -> list[tuple[str, int, int]]:
    """(feature, place before, place now) of the features whose place changed most, at most three.

    Places count from 1, by mean |attribution| over all outputs; features that only one of the
    rankings has are left out.
    """
    old = _places(before)
    new = _places(now)
    both = [name for name in new if name in old]
    moves = [(name, old[name], new[name]) for name in both if old[name] != new[name]]
    moves.sort(key=_by_distance)
    return moves[:N_MOVED]


def _by_distance(move: tuple[str, int, int]) -> tuple[int, int]:
    """The order of moves: the farthest first, of equal ones the best place now."""
    _, before, now = move
    return -abs(before - now), now


def _places(ranking: Mapping[str, Mapping[str, float]]) -> dict[str, int]:
    """Feature -> its place, from 1."""
    total: dict[str, float] = {}
    for of_output in ranking.values():
        for name, value in of_output.items():
            total[name] = total.get(name, 0.0) + (value or 0.0)
    ordered = sorted(total, key=lambda name: -total[name])
    return {name: place for place, name in enumerate(ordered, start=1)}
