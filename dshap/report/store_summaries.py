"""The progress, importance and damage of stores, as lines of text and as content for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from dshap.analysis.accuracy import accuracy
from dshap.analysis.rankings import rankings
from dshap.core.places import Place
from dshap.cube import (
    CubeStatus,
    Damage,
    awaits_shards,
    cube_status,
    read_job,
    read_run,
    store_parts,
)
from dshap.models import FitReport
from dshap.report.attribution_lines import ranking_lines
from dshap.report.going_on import holder_content, holder_line, view_of_run
from dshap.report.notes import accuracy_lines
from dshap.storage.lease import Holder


class Summary(NamedTuple):
    """The answer of a command: its lines, and the same as content for JSON."""

    lines: list[str]
    content: dict[str, Any]


def progress_summary(
    cubes: Mapping[str, Place], is_running: bool, holders: Sequence[Holder] = ()
) -> Summary:
    """The rows and blocks of each cube that are done, failed and left, and what is going on.

    `holders` are the processes that say that they run on the store.
    """
    statuses = {name: cube_status(path) for name, path in cubes.items()}
    learned = [name for name, path in cubes.items() if awaits_shards(path)]
    views = {name: view_of_run(name, path, holders) for name, path in cubes.items()}
    content = {
        name: {**asdict(status), "awaits_shards": name in learned, **views[name].to_dict()}
        for name, status in statuses.items()
    }
    lines = []
    for name, status in statuses.items():
        lines += status_lines({name: status})
        lines += [f"{name}: {line}" for line in views[name].lines(is_running)]
    lines += [f"{name}: all is learned, shards can explain the rows" for name in learned]
    lines += map(holder_line, holders)
    lines.append("a run is going on" if is_running else "no run is going on")
    running = [holder_content(each) for each in holders]
    return Summary(lines, {"cubes": content, "is_running": is_running, "running": running})


def importance_summary(
    store: Place, cubes: Mapping[str, Place], fitted: FitReport | None
) -> Summary:
    """The importance of each feature over the finished rows, with fit, accuracy and progress."""
    units = (read_job(store) or {}).get("units", "")
    ranked = rankings(cubes)
    found = accuracy(cubes)
    lines = [*f"model: {fitted}".splitlines(), ""] if fitted else []
    lines += ranking_lines(ranked, units) if ranked else ["no row is explained yet"]
    lines += ["", *accuracy_lines(found)]
    lines += status_lines({name: cube_status(path) for name, path in cubes.items()})
    content: dict[str, Any] = {
        ranking.label: {
            "rows": ranking.rows,
            "scale": ranking.scale,
            "mean_magnitude": dict(ranking.magnitude),
            "mean": dict(ranking.mean),
            "mean_magnitude_std_error": dict(ranking.magnitude_error),
            "mean_std_error": dict(ranking.mean_error),
        }
        for ranking in ranked
    }
    return Summary(lines, content | {"accuracy": found})


def status_lines(statuses: Mapping[str, CubeStatus]) -> list[str]:
    """The progress of each cube; and where rows failed, the count and first row of each reason."""
    lines = []
    for name, status in statuses.items():
        lines.append(f"{name}: {_progress_line(status)}")
        lines += [
            f"{name}: {each.rows:,} failed, first {each.first}: {each.reason}"
            for each in status.failures
        ]
    return lines


def _progress_line(status: CubeStatus) -> str:
    rows = {
        "ok": status.ok,
        "skipped": status.skipped,
        "failed": status.failed,
        "pending": status.pending,
    }
    shown = ", ".join(
        f"{count:,} {name}" for name, count in rows.items() if count or name in ("ok", "pending")
    )
    return f"{status.n_rows:,} rows: {shown}; {status.blocks_done} of {status.n_blocks} blocks done"


def damage_summary(
    store: Place,
    found: Mapping[str, Sequence[Damage]],
    mended: Mapping[str, Sequence[Damage]] | None,
) -> Summary:
    """The damage found in each part of a store, after what a repair mended.

    `mended` is None where no repair was asked for.
    """
    parts = store_parts(store)
    lines = [
        f"{name}: mended: {damage}"
        for name, damages in (mended or {}).items()
        for damage in damages
    ]
    for name, damages in found.items():
        lines += [f"{name}: {damage}" for damage in damages] or _whole_lines(name, parts[name])
    content: dict[str, Any] = _as_texts(found)
    if mended is not None:
        content["mended"] = _as_texts(mended)
    return Summary(lines, content)


def _as_texts(damages: Mapping[str, Sequence[Damage]]) -> dict[str, list[str]]:
    return {name: [str(damage) for damage in each] for name, each in damages.items()}


def _whole_lines(name: str, path: Place) -> list[str]:
    """The line about a cube without damage; none about the other parts of a store."""
    if read_run(path) is None:
        return []
    status = cube_status(path)
    if not status.is_complete:
        left = "; the others are left for the same run again"
    elif status.failed:
        left = f"; {status.failed:,} failed rows are left for the same run again"
    else:
        left = ""
    return [f"{name}: verified: {status.blocks_done} of {status.n_blocks} blocks finished{left}"]
