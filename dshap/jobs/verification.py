"""`dshap verify` and `dshap repair` of a job's store: records, rows, keys and pointers of runs.

All bytes of rows and keys are read and compared with their digests.  Files of earlier versions of
dshap have no digests: their footers and headers are checked.  Each file must be complete, and its
ids, methods and numbers of rows must agree with those of the other files of the run.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from dshap.core.errors import DshapError, UnreachableError
from dshap.core.places import Place
from dshap.cube import (
    Damage,
    current_of,
    finish_again,
    is_finished,
    read_run,
    repair_store,
    set_current,
    verify_store,
)
from dshap.cube import runs_of as cubes_of
from dshap.cube.arrays import RUNS, is_job_store
from dshap.cube.blocks import CubeArrays
from dshap.cube.current import CURRENT, fault_of_current, has_nights, names_of_cubes
from dshap.erasure.journal import ROOM as ERASURES
from dshap.erasure.journal import Journal
from dshap.history.backfills import is_backfill
from dshap.history.key_joins import KeyJoins
from dshap.history.row_history import NightHistory
from dshap.history.run_folders import ABOUT, ROWS, ROWS_MARK, RunFolders, runs_in_store
from dshap.history.run_record import RECORD, RunRecord, document_in
from dshap.steps.outlook import ROOM, read_learned, withdrawn_run
from dshap.storage.folder import Folder
from dshap.storage.running import alone
from dshap.tables.keys.digests import UNREADABLE
from dshap.tables.stored_parts import columns_of_part, parts_in
from dshap.tables.streams import digest_of_types
from dshap.warehouse.snapshot import SNAPSHOT, Snapshot, faults_of_rows, has_snapshot

Damages = dict[str, list[Damage]]
"""Part of a store -> its damage."""
Cubes = Mapping[str, tuple[int | None, str | None]]
"""Explanation -> the number of rows and the method of the cube that a run wrote for it."""


def verify_job_store(store: Place) -> Damages:
    """Find the damage of a store: part of the store -> its damage, and "runs" for those of a job."""
    found = verify_store(store)
    if damages := list(_damage_of_runs(store)):
        found[RUNS] = damages
    if damages := list(_unfinished_erasure(store)):
        found[ERASURES] = damages
    return found


def _unfinished_erasure(store: Place) -> Iterator[Damage]:
    """The erasure that was stopped before its end, which leaves rows of persons behind."""
    unfinished = Journal(store).unfinished
    if unfinished is not None:
        yield Damage(
            f"{ERASURES}/{unfinished.erasure_id}.json",
            f"an erasure of {len(unfinished.keys):,} keys was stopped: dshap forget {store} with the "
            "same keys finishes it",
        )


def repair_job_store(store: Place) -> Damages:
    """Repair a store as far as copies allow, and return the damage that was found.

    Damaged files without a copy are removed, so that the next run makes them again.
    """
    found = repair_store(store, _is_of_a_night)
    with alone(store, "a repair"):
        for name, run_id in _cubes_of_runs_over(store):
            part = f"{name}/{run_id}"
            if found.get(part) and finish_again(store / name / run_id):
                found[part] = [replace(each, is_copied=True) for each in found[part]]
        damages = list(_damage_of_runs(store))
        for name in (name for damage in damages for name in damage.remove):
            Folder(store).delete(name)
        for explain, run_id in _lost_pointers(store, _explanations(store)):
            # a pointer to a backfill may name a later run, which it never leaves for an earlier one
            Folder(store / explain).delete(CURRENT)
            set_current(store / explain, run_id)
    if damages:
        found[RUNS] = damages
    return found


def _cubes_of_runs_over(store: Place) -> Iterator[tuple[str, str]]:
    """(explanation, run) of each cube that no run comes back to."""
    for name in _explanations(store):
        for run_id in cubes_of(store / name):
            if RunFolders(store, run_id).is_over:
                yield name, run_id


def _damage_of_runs(store: Place) -> Iterator[Damage]:
    if not is_job_store(store):
        return
    explanations = _explanations(store)
    is_before_another = False
    # the newest first: no run finishes one that is followed by a run that is over
    for known in reversed(runs_in_store(store)):
        run = RunFolders(store, known.run_id)
        with tempfile.TemporaryDirectory(prefix="dshap-keys-") as folder:
            joins = KeyJoins(partial(tempfile.mkdtemp, dir=folder))
            yield from _damage_of_run(run, explanations, joins, is_before_another)
        is_before_another = is_before_another or run.is_over
    for explain, run_id in _lost_pointers(store, explanations):
        what = f"is missing: the newest finished cube is {run_id}"
        if Folder(store / explain).has(CURRENT):
            what = f"names a backfill: the newest finished cube that is not a backfill is {run_id}"
        yield Damage(f"{explain}/{CURRENT}", what, is_copied=True)
    yield from _damage_of_learned(store, explanations)


def _explanations(store: Place) -> list[str]:
    """The explanations of a store that have a cube for each run."""
    return [name for name in names_of_cubes(store) if has_nights(store / name)]


def _lost_pointers(store: Place, explanations: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(explanation, its newest finished cube) if no pointer names a cube, and no run sets one."""
    for name in explanations:
        folder = store / name
        if Folder(folder).has(CURRENT) and not _names_backfill(store, name):
            continue
        nights = [each for each in cubes_of(folder) if not is_backfill(store, each)]
        finished = [each for each in nights if is_finished(folder / each)]
        if finished and RunFolders(store, finished[-1]).is_over:
            yield name, finished[-1]


def _is_of_a_night(cube: Place) -> bool:
    """Whether a cube for a run may be the one that is read: no backfill is."""
    return not is_backfill(cube.parent.parent, cube.name)


def _names_backfill(store: Place, name: str) -> bool:
    """Whether the pointer of an explanation names a backfill, which is never the cube that is read."""
    if fault_of_current(store / name) is not None:
        return False
    return is_backfill(store, current_of(store / name) or "")


def _damage_of_learned(store: Place, explanations: Iterable[str]) -> Iterator[Damage]:
    """Check that keys and method of the current cube are stored, and all rows to learn from."""
    room = store / ROOM
    used = set[str]()
    for name in explanations:
        file = f"{ROOM}/{name}.json"
        if fault_of_current(store / name) or not Folder(store / name).has(CURRENT):
            continue
        run = RunFolders(store, current_of(store / name) or "")
        if not run.is_over:
            continue
        keys = f"keys/{run.run_id}"
        if not Folder(store).has_room(keys):
            yield Damage(keys, "is missing: the next run explains all rows again")
        about = read_learned(room, name)
        withdrawn = withdrawn_run(room, name)
        if withdrawn is not None:
            used.add(withdrawn)
            continue
        if about is None:
            what = "is missing or damaged: the next run learns again"
            yield Damage(file, what, (file,))
            continue
        if not Folder(room).has_room(about.method):
            yield Damage(file, f"names the method {about.method}, which is not there", (file,))
        used.add(about.run_id)
    for run_id in sorted({*used, *Folder(room / "rows").list()}):
        rows = room / "rows" / run_id
        if run_id in used or has_snapshot(rows):
            yield from _damage_of_rows(rows, f"{ROOM}/rows/{run_id}")


def _damage_of_run(
    run: RunFolders, explanations: Iterable[str], joins: KeyJoins, is_before_another: bool
) -> Iterator[Damage]:
    """Compare the files of one run with each other.

    `is_before_another`: a later run is over, so that no run finishes this one.
    """
    cubes = _cubes_of(run, explanations)
    yield from _damage_of_record(run, cubes, is_before_another)
    yield from _damage_of_about(run)
    if run.has_rows and (run.is_over or has_snapshot(run.parts)):
        yield from _damage_of_rows(run.parts, f"parts/{run.run_id}")
    if run.has_keys and run.is_over:
        yield from _damage_of_keys(run, cubes, joins)
    elif run.has_keys:
        yield from _damage_of_begun_keys(run, joins)


def _damage_of_about(run: RunFolders) -> Iterator[Damage]:
    name = f"{RUNS}/{run.run_id}/{ABOUT}"
    if not Folder(run.store).has(name):
        return
    if run.about is None:
        yield Damage(name, "does not describe the run, or was altered", (name,))
    elif run.about.run_id != run.run_id:
        yield Damage(name, f"is about the run {run.about.run_id}", (name,))


def _damage_of_record(run: RunFolders, cubes: Cubes, is_before_another: bool) -> Iterator[Damage]:
    """Check the record of a run; a run that none finishes again goes with its record.

    The first record of a backfill stays: its cube would count as that of a night without it.
    """
    name = f"{RUNS}/{run.run_id}/{RECORD}"
    remove = (name,)
    is_before_another = is_before_another and not is_backfill(run.store, run.run_id)
    if is_before_another:
        remove = (f"{RUNS}/{run.run_id}",)
    content = Folder(run.store).get(name)
    if content is None:
        if is_before_another:
            yield Damage(name, "is missing, and a later run is over", remove)
        return
    document = document_in(content)
    if document is None:
        yield Damage(name, "is not the record of a run, or was altered", remove)
        return
    record = RunRecord(run.run_id, document)
    if record.about.get("run_id") != run.run_id:
        yield Damage(name, f"is the record of the run {record.about.get('run_id')}", remove)
    for result in record.named("explanation"):
        explain = result["unique_id"].removeprefix(f"explanation.{record.about['job']}.")
        response = result["adapter_response"]
        method = response.get("prepared", {}).get("method")
        if explain in cubes:
            for fault in _unlike(cubes[explain], response["rows_affected"], method):
                yield Damage(name, f"{explain} {fault}", remove)


def _damage_of_keys(run: RunFolders, cubes: Cubes, joins: KeyJoins) -> Iterator[Damage]:
    """Check digests of rows, and the stored files of each explanation."""
    room = f"keys/{run.run_id}"
    try:
        n_rows = len(run.digests)
    except UnreachableError:
        raise
    except UNREADABLE as error:
        yield Damage(f"{room}/{ROWS}", f"cannot be read ({error})", (room,))
        return
    if repeats := joins.count_repeats(run):
        what = f"repeats the key of another row in {repeats:,} of {n_rows:,} rows"
        yield Damage(f"{room}/{ROWS}", what, (room,))
        return
    snapshot = Snapshot.read(run.parts)
    n_left = n_rows - run.digests.count_erased()
    if snapshot is not None and snapshot.n_rows != n_left:
        what = f"has {n_left:,} rows, and {snapshot.n_rows:,} were read"
        yield Damage(f"{room}/{ROWS}", what, (room,))
        return
    for name, cube in cubes.items():
        history = NightHistory(run, name, joins)
        faults = [history.fault(n_rows)]
        if faults == [""]:
            faults = [*_unlike(cube, n_rows, history.method)]
        for fault in faults:
            yield Damage(f"{room}/{name}.json", fault, (room,))


def _damage_of_begun_keys(run: RunFolders, joins: KeyJoins) -> Iterator[Damage]:
    """Check the keys of a run that is not over, as far as they are written."""
    room = f"keys/{run.run_id}"
    folder = Folder(run.keys)
    if folder.has(ROWS):
        try:
            len(run.digests)
        except UnreachableError:
            raise
        except UNREADABLE as error:
            yield Damage(f"{room}/{ROWS}", f"cannot be read ({error})", (room,))
            return
    for name in folder.list():
        if name.endswith(".json") and name != ROWS_MARK:
            history = NightHistory(run, name.removesuffix(".json"), joins)
            if history.damage:
                yield Damage(f"{room}/{name}", f"is damaged ({history.damage})", (room,))


def _cubes_of(run: RunFolders, explanations: Iterable[str]) -> Cubes:
    """The finished cubes that a run wrote, of those that are still there, each read once."""
    found = {}
    for name in explanations:
        path = run.store / name / run.run_id
        record = read_run(path)
        if record is not None and is_finished(path):
            found[name] = (_rows_in(path), record.get("method"))
    return found


def _rows_in(path: Place) -> int | None:
    """The number of rows of a cube; None if it cannot be read, which its own check names."""
    with contextlib.suppress(DshapError):
        return CubeArrays(path).n_rows
    return None


def _unlike(cube: tuple[int | None, str | None], n_rows: int, method: str | None) -> Iterator[str]:
    """Describe in words how rows and method of a run differ from its cube."""
    n_there, known = cube
    if n_there is None:
        return
    if n_there != n_rows:
        yield f"has {n_rows:,} rows, and its cube {n_there:,}"
    if method and known != method:
        yield f"has the method {method}, and its cube {known}"


def _damage_of_rows(room: Place, name: str) -> Iterator[Damage]:
    """Check the parts in a room against their snapshot."""
    faults = [*faults_of_rows(room)]
    for file, fault in faults:
        yield Damage(f"{name}/{file}", fault, (name,))
    snapshot = Snapshot.read(room)
    if faults or snapshot is None:
        return
    if digest_of_types(snapshot.schema) != snapshot.schema_digest:
        yield Damage(f"{name}/{SNAPSHOT}", "has other columns than it lists", (name,))
    for part in parts_in(room):
        if columns_of_part(part) != snapshot.detail["columns"]:
            yield Damage(f"{name}/{part.name}", "has other columns than the snapshot", (name,))
