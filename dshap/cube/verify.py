"""Checking everything in a store against its digests, and removing damaged files."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from numpy.typing import NDArray

from dshap.core.errors import UncheckableError, UnreachableError
from dshap.core.late import zarr
from dshap.core.places import Place
from dshap.core.records import digest_of
from dshap.cube.arrays import is_described, is_job_store, read_job, read_run
from dshap.cube.block_arrays import SUMMARIES
from dshap.cube.creation import CONTAINER, ROOT, clear_orphans
from dshap.cube.current import (
    CURRENT,
    fault_of_current,
    has_nights,
    names_of_cubes,
    runs_of,
    set_current,
)
from dshap.cube.importance import largest_residual
from dshap.cube.layout import dims_of
from dshap.cube.opening import keep_opening
from dshap.cube.packing import pack_cube, unpack_cube
from dshap.cube.receipts import PACKED, PACKED_FILE, block_name, is_packed
from dshap.cube.reference_copy import (
    COPY,
    DESCRIPTION,
    FINISHED,
    PREPARED,
    SHARED,
    altered_files,
    copy_name,
    copy_name_of,
    copy_of,
    description_of,
    failures_of,
    has_copy,
    histograms_of,
    holds_run,
    is_finished,
    keep_copy_again,
    mark_finished,
    mark_of,
    note_digests,
    notes_of,
    receipts_of,
    restore_files,
    states_of,
    whole_copy,
)
from dshap.cube.stored_rows import StoredRows, whole_array
from dshap.cube.value_digests import has_digest
from dshap.cube.zarr_stores import stored_group
from dshap.storage.folder import Folder
from dshap.storage.running import alone, refuse_running
from dshap.storage.sealed_files import CreateOnlyFolder

ROOMS_WITHOUT_PARTS = ("keys", "parts", "runs")
"""The rooms of a job's store that contain no cube and no prepared state."""
MARK = f"{CONTAINER}/{FINISHED}.json"
"""The file with the list of the files of a finished run."""
MISSING = "is missing"
ANEW = "it stays readable, and the same run computes it again"
Look = Callable[[Mapping[str, Any]], tuple[list[str], bool] | None]
"""Receipt -> the variables of its block whose values are not those of it, and whether the base value
that all rows share is another; None if it is of another run."""


@dataclass(frozen=True)
class Damage:
    """One thing in a store that differs from its written content."""

    place: str
    what: str
    remove: tuple[str, ...] = ()
    """Names of files to remove, so that the same run makes them again."""
    is_copied: bool = False
    """Whether it is a created file, which is restored from its copy without a run."""
    is_orphan: bool = False
    """Whether it is a file that nothing needs: one that a killed run left, or a stored
    histogram."""

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


def store_parts(store: Place) -> dict[str, Place]:
    """name -> folder with a `state` of its own: a cube, or a job's store and the cubes in it.

    A job with nights has its cubes and prepared states a folder deeper: they are all there, under
    names such as "EXPLAIN/RUN".
    """
    names = Folder(store).list()
    if "attribution" in names:
        names = []
    is_job = is_job_store(store)
    found = {store.name: store} if _is_part(store) else {}
    deeper = dict[str, Place]()
    for name in names:
        place = store / name
        if name in (CONTAINER, ROOT) or read_job(place) is not None:
            continue
        if _is_part(place):
            found[name] = place
        elif is_job and name not in ROOMS_WITHOUT_PARTS:
            below = {each: place / each for each in Folder(place).list() if each != CURRENT}
            deeper |= {f"{name}/{each}": path for each, path in below.items() if _is_part(path)}
    return found | deeper


def _pointers(store: Place) -> dict[str, Place]:
    """name -> folder of an explanation with a cube for each run, at a store or directly below it."""
    if has_nights(store):
        return {store.name: store}
    names = names_of_cubes(store)
    if "attribution" in names:  # a cube, which contains no other
        return {}
    return {name: store / name for name in names if has_nights(store / name)}


def _is_part(path: Place) -> bool:
    """Whether this folder is part of a store; its `state` may be lost."""
    return Folder(path).has_room(CONTAINER) or is_described(path)


def verify_cube(path: Place) -> list[Damage]:
    """All damage in one part of a store; blocks are checked if the created files are whole.

    Everything is read once.  A block without a receipt counts as unfinished, unless a run has
    finished here.

    Raises
    ------
    UncheckableError
        The folder `state` is missing, or nothing in it is sealed: an earlier version wrote it.
    """
    _refuse_unsealed(path)
    if not Folder(path).has_room(CONTAINER):
        raise UncheckableError(
            f"{path} has no folder {CONTAINER}: there is nothing to check it against; {ANEW}"
        )
    names = _names_in(path)
    created = list(_created(path, names))
    others = [*_sealed(path, names), *_lost(path, names)]
    if created:
        return [
            *created,
            *others,
            *_receipts(path, None),
            Damage("blocks", "not read until these files are repaired (--repair, or the same run)"),
        ]
    return [*others, *_receipts(path, look_at_values(path))]


def verify_store(store: Place) -> dict[str, list[Damage]]:
    """Part of a store -> the damage found in it; a pointer to no cube is one too."""
    found = {name: verify_cube(path) for name, path in store_parts(store).items()}
    for name, folder in _pointers(store).items():
        if (fault := fault_of_current(folder)) is not None:
            found.setdefault(name, []).append(Damage(CURRENT, fault))
    return found


def repair_store(
    store: Place, may_be_read: Callable[[Place], bool] = lambda cube: True
) -> dict[str, list[Damage]]:
    """Repair the parts of a store under its lock, and return the damage found in each.

    `may_be_read` returns whether a lost pointer may name a cube for a run.
    """
    place = Folder(store).true_place()
    # the store may be a cube inside of a job's store, which a run locks as a whole
    for above in (place.parent, place.parent.parent):
        refuse_running(above)
    with alone(store, "a repair"):
        found = {name: repair(path) for name, path in store_parts(store).items()}
        for name, folder in _pointers(store).items():
            if (fault := fault_of_current(folder)) is not None:
                found.setdefault(name, []).append(_repair_pointer(folder, fault, may_be_read))
        return found


def _repair_pointer(folder: Place, fault: str, may_be_read: Callable[[Place], bool]) -> Damage:
    """Let the pointer name the newest finished cube, or remove it if there is none."""
    cubes = [folder / run for run in runs_of(folder)]
    finished = [cube.name for cube in cubes if may_be_read(cube) and is_finished(cube)]
    if not finished:
        Folder(folder).delete(CURRENT)
        return Damage(CURRENT, fault)
    set_current(folder, finished[-1])
    return Damage(CURRENT, fault, is_copied=True)


def repair(path: Place) -> list[Damage]:
    """Restore or remove everything damaged, and return the damage found.

    The same run then makes removed files again.  Nothing that is whole is touched except the
    list of the finished run, so that the run can continue.  Restoring and removing may uncover more
    damage, so the check is repeated until it finds nothing more that can be removed.
    """
    _refuse_unsealed(path)
    if not Folder(path).has_room(CONTAINER):
        return [
            Damage(
                CONTAINER,
                f"{MISSING}, and with it the digests that the values are checked against; {ANEW}",
            )
        ]
    damages = [
        Damage(name, "a killed run left it unfinished", is_orphan=True)
        for name in clear_orphans(path)
    ]
    new = [*_unknown(path), *_reparable(path)]
    if is_left(new) and unpack_cube(path):  # a block of a packed cube cannot be removed alone
        packed = new
        new = [*_unknown(path), *_reparable(path)]
        known = {*map(str, new)}
        damages += [damage for damage in packed if str(damage) not in known]
    while new:
        damages += new
        restore_files(path, [damage.place for damage in new if damage.is_copied])
        for file in (file for damage in new for file in damage.remove):
            Folder(path).delete(file)
        new = [damage for damage in _reparable(path) if damage not in damages]
    if is_left(damages):
        mark_of(path).remove(FINISHED)
    elif is_packed(path):
        keep_opening(path)
    return damages


def finish_again(path: Place) -> bool:
    """List the files of a finished run again, with the note that follows from the stored blocks.

    A lost copy of the metadata is made of them, where they name the run and all values are those of
    their receipts.  Returns False, and changes nothing, if a block or a value is missing: only a
    run can finish the cube then.  Notes on measurements of a run, such as MSE_v, are not made
    again.
    """
    if any(_unknown(path)) or any(_receipts(path, look_at_values(path))):
        return False
    was_packed = False
    if not has_copy(path):
        was_packed = unpack_cube(path)
        keep_copy_again(path)
    n_blocks = _n_blocks(path)
    if not n_blocks or not set(map(block_name, range(n_blocks))) <= set(receipts_of(path).names()):
        return False
    note = {"residual": largest_residual(path).tolist()}
    notes_of(path).put("additivity", note)
    mark_finished(path)
    if was_packed or is_packed(path):
        pack_cube(path)
    return True


def _reparable(path: Place) -> list[Damage]:
    """The damage to mend next: created files that have a copy come first, alone.

    Without a copy, blocks are checked with the existing metadata, as far as these can be read.
    """
    names = _names_in(path)
    created = list(_created(path, names))
    copied = [damage for damage in created if damage.is_copied]
    if copied:
        return copied
    look = None
    # Zarr raises errors of many types on damaged metadata
    with contextlib.suppress(Exception):
        look = look_at_values(path)
    others = [*_sealed(path, names), *_lost(path, names)]
    return [*created, *others, *_receipts(path, look)]


def _unknown(path: Place) -> Iterator[Damage]:
    """The root metadata, if they cannot be trusted and there is no copy of them.

    They are trusted if they name the run whose receipts are here.  The same run knows its receipts
    and makes the metadata again.
    """
    name = copy_name(path)
    folder = Folder(path)
    if name is not None and copy_of(path).is_whole(name):
        return
    if not folder.has("zarr.json"):
        return
    if name is not None:
        is_known = name == copy_name_of(path)
    elif folder.has_room("attribution"):
        run = read_run(path) or {}
        is_known = bool(run) and run.get("digest") == digest_of(run.get("fingerprint"))
        is_known = is_known and holds_run(path, str(run.get("digest")))
    else:
        is_known = read_job(path) is not None
    if not is_known:
        yield Damage("zarr.json", "it does not name the run that wrote this store", ("zarr.json",))


def is_left(damages: list[Damage]) -> bool:
    """Whether something is left for a run to make again after a repair."""
    return any(not (damage.is_copied or damage.is_orphan) for damage in damages)


def _refuse_unsealed(path: Place) -> None:
    """Refuse a store without a copy or any seal: of an earlier version, or of another program."""
    if copy_name(path) is not None or description_of(path).is_whole(DESCRIPTION):
        return
    folders = (states_of(path), notes_of(path), receipts_of(path))
    files = [(folder, name) for folder in folders for name in folder.names()]
    if files and not any(folder.is_whole(name) for folder, name in files):
        raise UncheckableError(
            f"{path} was written by an earlier dshap, or by another program: nothing in it can be "
            "checked; it stays readable, and the same run into another store makes a store that "
            "can be checked"
        )


def _names_in(path: Place) -> set[str]:
    """The names right in a part of a store, and those in its `state`: "zarr.json", "state/notes"."""
    inside = Folder(path / CONTAINER).list()
    return {*Folder(path).list(), *(f"{CONTAINER}/{name}" for name in inside)}


def _created(path: Place, names: Container[str]) -> Iterator[Damage]:
    """Check metadata, names and plan against their copy."""
    copies = copy_of(path)
    if ROOT not in names and f"{CONTAINER}/created" not in names:
        return  # prepared states have no metadata
    kept = copy_name(path)
    place = f"{CONTAINER}/created/{kept or COPY}{copies.suffix}"
    if kept is None:
        yield Damage(
            place,
            f"{MISSING}: names, plan and metadata cannot be checked (or an earlier dshap wrote "
            "this store)",
        )
    elif what := copies.damage(kept):
        yield Damage(place, what, (place,))
    else:
        for name in altered_files(path):
            if Folder(path).has(name):
                what = "it is not what was created"
            else:
                what = MISSING
            yield Damage(name, what, is_copied=True)


def _sealed(path: Place, names: Container[str]) -> Iterator[Damage]:
    """Check states, notes, failures and the list of a finished run, each by its own seal."""
    folders: Mapping[str, CreateOnlyFolder] = {
        "state": states_of(path),
        "note": notes_of(path),
        "failure": failures_of(path),
        "histogram": histograms_of(path),
    }
    for kind, folder in folders.items():
        is_there = _room_of(path, folder) in names
        for name, what in folder.faults(folder.names() if is_there else ()):
            if what:
                files = (_file(path, folder, name),)
                yield Damage(f"{kind} {name}", what, files, is_orphan=kind == "histogram")
    mark = mark_of(path)
    if MARK in names and (what := mark.damage(FINISHED)):
        yield Damage("the list of the files of the run", what, (MARK,))
    if is_packed(path) and (what := mark.damage(PACKED)):
        yield Damage(f"{CONTAINER}/{PACKED_FILE}", what, is_orphan=True)
    if PREPARED in names and (what := description_of(path).damage(DESCRIPTION)):
        yield Damage(PREPARED, what, (PREPARED,))


def _room_of(path: Place, folder: CreateOnlyFolder) -> str:
    """The name of a room in this part of a store."""
    return str(folder.folder.path).removeprefix(f"{path}/")


def _file(path: Place, folder: CreateOnlyFolder, name: str) -> str:
    """The name, in this part of a store, of a file of one of its rooms."""
    return folder.folder.place(folder.file(name)).removeprefix(f"{path}/")


def _lost(path: Place, names: Container[str]) -> Iterator[Damage]:
    """Find the listed files of a finished run that are missing now."""
    n_blocks = 0
    if f"{CONTAINER}/created" in names:
        n_blocks = _n_blocks(path)
    receipts = set[str]()
    if n_blocks:
        receipts |= set(receipts_of(path).names())
    content = mark_of(path).whole_one(FINISHED)
    if content is None:
        is_done = n_blocks and receipts.issuperset(map(block_name, range(n_blocks)))
        if MARK not in names and (is_done or PREPARED in names or _holds_finished(path)):
            yield Damage(
                "the list of the files of the run",
                f"{MISSING}: the run was stopped at its very end, or the list was lost",
            )
        return
    states = set(states_of(path).names())
    for name in content["states"]:
        if name not in states:
            yield Damage(f"state {name}", MISSING)
    notes = note_digests(path)
    for name, digest in content["notes"].items():
        if name not in notes:
            yield Damage(f"note {name}", MISSING)
        elif notes[name] != digest and notes_of(path).is_whole(name):
            yield Damage(
                f"note {name}",
                "it is not the note that the run wrote",
                (_file(path, notes_of(path), name),),
            )
    for name in content["others"]:
        if not Folder(path).has(name if name == PREPARED else f"{name}/{CONTAINER}"):
            yield Damage(name, MISSING)
    for block in range(n_blocks):
        if block_name(block) not in receipts:
            yield Damage(f"block {block}", f"its receipt {MISSING}")


def _holds_finished(path: Place) -> bool:
    """Whether this is the store of a job all of whose explanations are finished."""
    inside = [part for part in store_parts(path).values() if part != path]
    return bool(inside) and all(map(is_finished, inside))


def _n_blocks(path: Place) -> int:
    """The number of blocks of a cube, from the copy of its metadata; 0 without one."""
    content = (whole_copy(path) or {}).get("blocks/count/zarr.json")
    if content:
        return int(json.loads(content)["shape"][0])
    return 0


def look_at_values(path: Place) -> Look | None:
    """The look at the stored values of the cube at `path`, which needs whole metadata.

    None if this part of a store has no values.
    """
    if not Folder(path).has_room("attribution"):
        return None
    root = stored_group(path)
    run_digest = json.loads(str(root.attrs["dshap_run"]))["digest"]
    arrays = {name: StoredRows.opened(path / name) for name in _names_along_instance(root)}
    summaries = {name: StoredRows.opened(path / name) for name in SUMMARIES}
    shared = {}
    if "base_value" not in arrays:
        values = _read(lambda: whole_array(path / "base_value"))
        shared = {"base_value": lambda: values}

    def look(receipt: Mapping[str, Any]) -> tuple[list[str], bool] | None:
        if receipt["fingerprint"] != run_digest:
            return None
        rows = (receipt["start"], receipt["stop"])
        block = receipt["block"]
        there: dict[str, Callable[[], NDArray[Any] | None]] = {
            **{name: partial(array.read, *rows) for name, array in arrays.items()},
            **{name: partial(array.read, block, block + 1) for name, array in summaries.items()},
            **shared,
        }
        digests = receipt["digests"].items()
        wrong = [
            name
            for name, digest in digests
            if name not in there or not _is_as_written(there[name], digest)
        ]
        return [name for name in wrong if name not in shared], any(name in shared for name in wrong)

    return look


def _receipts(path: Place, look: Look | None) -> Iterator[Damage]:
    """Check the receipts, and by those that are whole the stored values; each is read once."""
    receipts = receipts_of(path)

    def looked_at(name: str) -> tuple[Damage | None, bool]:
        """The damage of a receipt or its block, and whether the shared base value is another."""
        receipt, fault = receipts.looked_at(name)
        file = f"{CONTAINER}/{receipts.file_of(name)}"
        if fault or receipt is None:
            return Damage(f"receipt {name}", f"{fault}", (file,)), False
        if look is None:
            return None, False
        block = f"block {receipt['block']}"
        found = look(receipt)
        if found is None:
            return Damage(block, "its receipt belongs to a different run", (file,)), False
        wrong, is_of_base = found
        if not wrong:
            return None, is_of_base
        place = f"{block} (rows {receipt['start']} to {receipt['stop'] - 1})"
        return Damage(place, f"stored values changed ({', '.join(wrong)})", (file,)), is_of_base

    n_bases = 0
    for damage, is_of_base in Folder(path).map(looked_at, receipts.names()):
        n_bases += is_of_base
        if damage is not None:
            yield damage
    if n_bases:
        yield Damage("base_value", f"stored values changed (against {n_bases} receipts)", SHARED)


def _is_as_written(read: Callable[[], NDArray[Any] | None], digest: str) -> bool:
    """Whether values can be read, and have this digest."""
    values = _read(read)
    return values is not None and has_digest(values, digest)


def _read(read: Callable[[], NDArray[Any] | None]) -> NDArray[Any] | None:
    """Values that are read; None if they cannot be."""
    try:
        return read()
    except UnreachableError:
        raise
    except Exception:  # codecs raise many types on a damaged chunk; the caller names it
        return None


def _names_along_instance(root: zarr.Group) -> list[str]:
    """The names of the arrays along `instance`, including those in the group `rows`."""
    groups: list[tuple[str, Any]] = [
        ("", root),
        *([("rows/", root["rows"])] if "rows" in root else []),
    ]
    return [
        prefix + name
        for prefix, group in groups
        for name, array in group.arrays()
        if dims_of(array)[:1] == ("instance",)
    ]
