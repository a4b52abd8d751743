"""What is checked of a job after its command has ended with exit status 0.

The cube and the sink hold what an undisturbed job holds; `verify` finds nothing; nothing is left
behind; the list of runs and `_dshap_runs` tell what was done.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dshap.core.errors import InputError
from dshap.core.places import BucketPath
from dshap.jobs.runs_in_words import runs_summary
from dshap.storage.folder import Folder
from tests.chaos.commands import Wrong
from tests.chaos.jobs import Outcome

if TYPE_CHECKING:
    from tests.chaos.games import Game

UNFINISHED = re.compile(r"\..*\.[0-9a-f]{12}(\.new)?|.*\.(tmp|partial)|\.creating")
"""Names of what a run had not finished."""
HALF_LEASE = re.compile(r"\.[\w-]+\.json\.[0-9a-f]{12}")
"""Names of signs of life that a killed run had not finished: a run removes them once they are a minute
old, and the folder with the last of them."""
SCRATCH = re.compile(r"dshap-.*")
"""Names of folders of runs on buckets."""
Promise = Callable[["Game"], Iterator[str]]
"""A promise: gives what broke it, in words."""


def check(game: Game) -> None:
    """Raise a `Wrong` that names the first promise that was not kept."""
    for name, promise in PROMISES.items():
        for fault in promise(game):
            raise Wrong(f"{name}: {fault}")


def differences(wanted: Outcome, found: Outcome, rounding: float = 0.0) -> Iterator[str]:
    """Say in words what differs between two outcomes."""
    if sorted(wanted) != sorted(found):
        yield f"{sorted(found)} in place of {sorted(wanted)}"
        return
    for name, values in wanted.items():
        other = found[name]
        if len(values) != len(other):
            yield f"{name}: {len(other)} in place of {len(values)}"
        elif isinstance(values, list) and not _are_alike(values, other, rounding):
            first = next((a, b) for a, b in zip(values, other, strict=True) if a != b)
            yield f"{name}: {first[1]} in place of {first[0]}"
        elif not isinstance(values, list) and not _is_close(values, np.asarray(other), rounding):
            yield f"{name}: other values"


def _are_alike(one: list[tuple[Any, ...]], other: Any, rounding: float) -> bool:
    """Whether two lists of lines are the same, up to the rounding of their numbers."""
    if one == other:
        return True
    if not rounding:
        return False
    return all(map(_is_same_line(rounding), one, other))


def _is_same_line(rounding: float) -> Callable[[tuple[Any, ...], tuple[Any, ...]], bool]:
    def is_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        return all(
            a == b or (isinstance(a, float) and isinstance(b, float) and abs(a - b) <= rounding)
            for a, b in zip(one, other, strict=True)
        )

    return is_same


def _is_close(one: Any, other: Any, rounding: float) -> bool:
    is_number = one.dtype.kind == "f"
    if one.shape != other.shape:
        return False
    if is_number and rounding:
        return np.allclose(one, other, rtol=0.0, atol=rounding, equal_nan=True)
    return np.array_equal(one, other, equal_nan=is_number)


def values_are_those_of_an_undisturbed_job(game: Game) -> Iterator[str]:
    rounding = game.kind.rounding
    yield from differences(game.calm.outcome, game.kind.outcome(game.folder), rounding)


def verify_finds_nothing(game: Game) -> Iterator[str]:
    """Asked once, after the last night: all nights are in the store."""
    if game.night < game.kind.n_nights - 1:
        return
    status, said = game.ask("verify", str(game.store))
    if status:
        yield f"exit status {status}: {said.strip()}"


def nothing_is_left(game: Game) -> Iterator[str]:
    """No unfinished file, workspace, lease, scratch folder or table of a load."""
    folder = game.folder
    place = folder / "place"
    for path in place.rglob("*"):
        if path.name.endswith(".running"):
            is_left = not _has_half_leases_alone(path)
        else:
            is_left = UNFINISHED.fullmatch(path.name) and not path.parent.name.endswith(".running")
        if is_left:
            yield f"{path.relative_to(folder)}"
    if isinstance(game.store, BucketPath):
        for name in _beside(game):
            yield f"{name}, beside the store"
    scratch = folder / "scratch"
    if scratch.exists():
        for path in scratch.iterdir():
            if SCRATCH.fullmatch(path.name):
                yield f"{path.relative_to(folder)}"
    tables = game.kind.tables(folder)
    if tables is not None:
        for name in tables.own_tables():
            yield f"the table {name}"


def _has_half_leases_alone(room: Path) -> bool:
    names = [path.name for path in room.iterdir()]
    return bool(names) and all(map(HALF_LEASE.fullmatch, names))


def _beside(game: Game) -> list[str]:
    """The objects of the store's own, beside it and unfinished in it."""
    assert isinstance(game.store, BucketPath)
    room = f".{game.store.name}.running"
    held = [f"{room}/{name}" for name in Folder(game.store.parent / room).tree()]
    return held + [
        name for name in Folder(game.store).tree() if UNFINISHED.fullmatch(name.split("/")[-1])
    ]


def the_list_of_runs_is_true(game: Game) -> Iterator[str]:
    """One record for each run, in the order of time, with the date and the counts of its night."""
    if game.damaged:  # a record may be lost, and rows may be explained anew
        return
    runs = _runs(game)
    if not runs:
        yield "no run is recorded"
        return
    if open_runs := [run["run_id"] for run in runs if not run["is_over"]]:
        yield f"{open_runs} are not over"
        return
    ids = [run["run_id"] for run in runs]
    if ids != sorted(set(ids)):
        yield f"the order of {ids}"
    if status := runs[-1]["args"]["dshap"]["exit_status"]:
        yield f"the last run ended with {status}"
    if game.kind.rows_of(0) is not None:
        yield from _false_counts(game, runs)


def _false_counts(game: Game, runs: list[dict[str, Any]]) -> Iterator[str]:
    """Hold the counts of the runs against the tables of their nights."""
    nights = {day: night for night in range(game.kind.n_nights) if (day := _day(game, night))}
    before: pd.DataFrame | None = None
    last = -1
    for run in runs:
        about = run["args"]["dshap"]
        night = nights.get(about["as_of"], -1)
        if night < last:
            yield f"run {run['run_id']} is for {about['as_of']}, after a later one"
            return
        rows = game.kind.rows_of(night)
        assert rows is not None
        counted = run["keys"]
        expected = _counts(rows, before)
        found = tuple(counted[name] for name in ("new", "changed", "unchanged", "deleted"))
        if found != expected:
            yield f"run {run['run_id']} counts {found}, and {expected} are"
        last = night
        before = rows
    if last != game.night:
        yield f"the last run is for night {last}, and {game.night} was asked for"


def _day(game: Game, night: int) -> str:
    return game.kind.options(night)[-1]


def _counts(rows: pd.DataFrame, before: pd.DataFrame | None) -> tuple[int, int, int, int]:
    """New, changed, unchanged and deleted keys."""
    if before is None:
        return len(rows), 0, 0, 0
    both = rows.index.intersection(before.index)
    one = rows.loc[both]
    other = before.loc[both]
    is_same = ((one == other) | (one.isna() & other.isna())).all(axis=1)
    unchanged = int(is_same.sum())
    return len(rows) - len(both), len(both) - unchanged, unchanged, len(before) - len(both)


def the_ledger_is_true(game: Game) -> Iterator[str]:
    """`_dshap_runs` has one line for each load, of runs that are in the list, with true numbers."""
    tables = game.kind.tables(game.folder)
    if tables is None:
        return
    lines = tables.ledger()
    if not lines:
        yield "no load is told"
        return
    names, found = tables.whole()
    ran = names.index("run_id")
    n_lines = sum(line[ran] is not None for line in found)
    if lines[-1]["n_table_lines"] != n_lines:
        yield f"the table has {n_lines} lines, not {lines[-1]['n_table_lines']}"
    told = [line["run_id"] for line in lines]
    if game.damaged:
        return
    if len(told) != len(set(told)):
        yield f"a run is told twice: {told}"
    runs = {run["run_id"]: run for run in _runs(game)}
    for line in lines:
        run = runs.get(line["run_id"])
        if run is None:
            yield f"run {line['run_id']} is told, and not recorded"
        elif line["as_of"] != run["args"]["dshap"]["as_of"]:
            yield f"run {line['run_id']} is told for {line['as_of']}"
    computed = {line[ran] for line in found}
    if strange := sorted(computed - set(runs)):
        yield f"lines of runs that are not recorded: {strange}"
    for run_id, run in runs.items():
        has_loaded = any(
            each["unique_id"].startswith("sink.") and each["status"] == "success"
            for each in run["results"]
        )
        if has_loaded and run_id not in told:
            yield f"run {run_id} has loaded a sink, and is not told"


def _runs(game: Game) -> list[dict[str, Any]]:
    """The list of runs, as `dshap runs --json` gives it."""
    try:
        found: list[dict[str, Any]] = runs_summary(game.store)[1]["runs"]
    except InputError:
        return []
    return found


PROMISES: dict[str, Promise] = {
    function.__name__.replace("_", " "): function
    for function in (
        values_are_those_of_an_undisturbed_job,
        verify_finds_nothing,
        nothing_is_left,
        the_list_of_runs_is_true,
        the_ledger_is_true,
    )
}
