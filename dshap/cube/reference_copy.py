"""The reference copy of the files that a store was created with, and the list of a finished run.

Metadata, names and plan never change after creation, so the store contains a copy of them: a record
of bytes under its `state`, sealed like any state.  States and notes belong to no block and are not
in the copy; a finished run lists them, so that a lost one is noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dshap.core.errors import DamagedError
from dshap.core.places import Place
from dshap.core.records import Record
from dshap.cube.creation import CONTAINER, ROOT, creation_at
from dshap.cube.packed_documents import packed_documents, unpacked_root
from dshap.cube.receipts import PACKING_FILE, BlockReceipts, is_packed
from dshap.storage.folder import Folder
from dshap.storage.sealed_files import NO_FILE, ReceiptFolder, StateFolder

COPY = "files"
FINISHED = "finished"
LEARNED = "learned"
"""The mark of a cube whose rows may be explained by shards: all is there that they need."""
DESCRIPTION = "prepared"
PREPARED = f"{DESCRIPTION}.json"
"""The record that describes a prepared value function, beside its states, and its file."""
PLAN = f"{CONTAINER}/plan.json"
"""The file of the plan that a cube was created with."""
CHANGES = "base_value/c"
"""The prefix of the only chunk of a new cube that is written again later."""
SHARED = ("base_value/c/0",)
"""Files whose values belong to no block."""


def states_of(path: Place, prepared: Place | None = None) -> StateFolder:
    """The states of the store at `path`; those of a second, prepared store are looked at first."""
    return StateFolder(path / CONTAINER, None if prepared is None else prepared / CONTAINER)


def receipts_of(path: Place) -> BlockReceipts:
    """The receipts of the cube at `path`, one for each finished block."""
    return BlockReceipts(path / CONTAINER)


def failures_of(path: Place) -> ReceiptFolder:
    """The folder of the failures of the cube at `path`: why a block has no receipt."""
    return ReceiptFolder(path / CONTAINER / "failures")


def notes_of(path: Place) -> ReceiptFolder:
    """The folder of the notes of the cube at `path`: small records that its run wrote."""
    return ReceiptFolder(path / CONTAINER / "notes")


def histograms_of(path: Place) -> StateFolder:
    """The folder of the histograms of the cube at `path`, stored by pictures, not needed."""
    return StateFolder(path / CONTAINER / "histograms")


def copy_of(path: Place) -> StateFolder:
    """The folder of the reference copy, which is its single state, named `copy_name`."""
    return StateFolder(path / CONTAINER / "created")


def description_of(path: Place) -> ReceiptFolder:
    """The folder of the description of a prepared value function, which is named `DESCRIPTION`."""
    return ReceiptFolder(path)


def read_prepared(path: Place) -> dict[str, Any] | None:
    """The description of the prepared value function at `path`; None if none is there.

    Raises
    ------
    DamagedError
        The description differs from its written content.
    """
    described = description_of(path)
    content, fault = described.looked_at(DESCRIPTION)
    if content is not None and fault is None:
        return content
    if not described.has(DESCRIPTION):
        return None
    return described.get(DESCRIPTION)


def fault_of_prepared(path: Place) -> str:
    """The fault of the description of prepared states, in words; empty if it is whole or missing."""
    fault = description_of(path).damage(DESCRIPTION)
    if fault is None or fault == NO_FILE:
        return ""
    return fault


def mark_prepared(path: Place, content: dict[str, Any]) -> None:
    """Write the description beside the states, last, so that it vouches for all of them."""
    mark_finished(path, [PREPARED])
    description_of(path).put(DESCRIPTION, content)


def may_prepare(path: Place) -> bool:
    """Whether only prepared states are at `path`, and the rows that they follow from."""
    return not Folder(path).is_there() or set(Folder(path).list()) <= {PREPARED, CONTAINER, "parts"}


def mark_of(path: Place) -> ReceiptFolder:
    """The folder of the list of a finished run, which has the name `FINISHED`."""
    return ReceiptFolder(path / CONTAINER)


def read_plan(path: Place) -> bytes | None:
    """The plan that the cube at `path` was created with; None if it, or its copy, is missing."""
    if not has_copy(path):
        return None
    return Folder(path).get(PLAN)


def keep_copy(path: Place) -> None:
    """Store the reference copy of a store that was just created, before it contains any cube."""
    _keep(path, [name for name in Folder(path).tree() if not name.startswith(CHANGES)])


def keep_copy_again(path: Place) -> None:
    """Store a lost reference copy of a cube, all of whose files are known to be those of its run.

    Files of blocks, and files of a run in `state`, were written after the creation.
    """
    receipts = receipts_of(path)
    later = {
        file
        for name in receipts.names()
        for file in (receipts.whole_one(name) or {}).get("files", {})
    }
    inside = (f"{CONTAINER}/{ROOT}", PLAN)
    _keep(
        path,
        [
            name
            for name in Folder(path).tree()
            if name in inside or not name.startswith((CHANGES, f"{CONTAINER}/"))
            if name not in later
        ],
    )


def _keep(path: Place, names: Iterable[str]) -> None:
    """Store the content of these files as the reference copy."""
    store = Folder(path)
    kept = {name: np.frombuffer(store.get(name) or b"", np.uint8) for name in list(names)}
    copy_of(path).put(copy_name_of(path), Record(kept))


def _digest(content: bytes | None) -> str:
    return hashlib.blake2b(content or b"", digest_size=10).hexdigest()


def copy_name_of(path: Place) -> str:
    """The name of the reference copy, from a digest of the root document as it was created."""
    return f"{COPY}-{_digest(unpacked_root(Folder(path).get(ROOT) or b'{}'))}"


def copy_name(path: Place) -> str | None:
    """The name of the stored reference copy, or None if there is none.

    It contains a digest of the store's metadata, so that the copy of another store is not used.
    """
    return next(copy_of(path).names(), None)


def has_copy(path: Place) -> bool:
    """Whether the reference copy is there and whole."""
    name = copy_name(path)
    return name is not None and copy_of(path).is_whole(name)


def altered_files(path: Place) -> list[str]:
    """The names of created files that are missing or differ from their copy."""
    return _altered(path, expected_files(path, copied_files(path)))


def _altered(path: Place, expected: Mapping[str, tuple[bytes, ...]]) -> list[str]:
    """The names of these files that have none of the contents that they may have."""
    store = Folder(path)
    found = store.map(store.get, expected)
    return [
        name for name, content in zip(expected, found, strict=True) if content not in expected[name]
    ]


def expected_files(path: Place, created: Mapping[str, bytes]) -> dict[str, tuple[bytes, ...]]:
    """name of a created file -> the contents that it may have now: two while the cube is packed."""
    if is_packed(path):
        whole = {**created, **packed_documents(created)}
        return {name: (content,) for name, content in whole.items()}
    if PACKING_FILE in Folder(path / CONTAINER).list():
        packed = packed_documents(created)
        return {name: (content, packed.get(name, content)) for name, content in created.items()}
    return {name: (content,) for name, content in created.items()}


def copied_files(path: Place) -> dict[str, bytes]:
    """name of a created file -> its content at creation.

    Raises
    ------
    DamagedError
        The copy is not whole, or it names a file outside of the store, which must not be written.
    """
    return _files_of(path, copy_of(path).get(copy_name(path) or COPY, Record))


def whole_copy(path: Place) -> dict[str, bytes] | None:
    """The `copied_files`; None if the reference copy is not there or not whole.

    Raises
    ------
    DamagedError
        The copy names a file outside of the store.
    """
    name = copy_name(path)
    if name is None:
        return None
    try:
        record = copy_of(path).get(name, Record)
    except DamagedError:
        return None
    return _files_of(path, record)


def _files_of(path: Place, record: Record) -> dict[str, bytes]:
    """The content of the created files in the copy of a store."""
    if outside := [
        name for name in record.arrays if Path(name).is_absolute() or ".." in Path(name).parts
    ]:
        raise DamagedError(
            f"{path}: the copy of its created files names {outside[0]!r}, which is outside of "
            "the store: it was made "
            "by another program; nothing is restored from it"
        )
    return {name: content.tobytes() for name, content in record.arrays.items()}


def restore_files(path: Place, names: Iterable[str]) -> None:
    """Restore these files from the reference copy, each in one step."""
    chosen = list(names)
    kept = expected_files(path, copied_files(path)) if chosen else {}
    for name in chosen:
        Folder(path).replace(name, kept[name][0])


def renew_copy(path: Place, fresh: Place) -> None:
    """Adopt the copy of an equal, newly created store, and restore the files that differ.

    The root document comes after the others, and the copy last: if a process is killed before,
    nothing is compared with a copy of files that are not there yet.
    """
    source = copy_of(fresh)
    target = copy_of(path)
    for name in target.names():
        target.remove(name)
    store = Folder(path)
    created = copied_files(fresh)
    for name in sorted(created, key=lambda name: (name == ROOT, name)):
        if store.get(name) != created[name]:
            store.replace(name, created[name])
    for name in source.names():
        file = source.file(name)
        target.folder.put_new(file, source.folder.get(file) or b"")
    for mark in creation_at(path).needless_marks():
        store.delete(mark)


def refuse_altered(path: Place, *, with_plan: bool = True) -> None:
    """Raise a `DamagedError` that names the created files that were altered.

    Without a reference copy nothing can be checked, and nothing is raised; nor of a store whose
    creation was killed.
    """
    created = whole_copy(path)
    if created is None:
        return
    chosen = {
        name: content
        for name, content in expected_files(path, created).items()
        if with_plan or not name.startswith(f"{CONTAINER}/")
    }
    names = _altered(path, chosen)
    if names and not creation_at(path).is_half_made():
        raise DamagedError(
            f"{path} is damaged: {', '.join(names)} {'are' if len(names) > 1 else 'is'} not what "
            "was written; "
            f"dshap verify {path} --repair restores what it can, and shows which command to run "
            "again"
        )


def files_of_finished(path: Place, others: Iterable[str]) -> dict[str, Any]:
    """The content of the mark of a finished run: states, notes, files, and the cubes of a job."""
    sizes = {name: Folder(path).size(name) for name in SHARED}
    return {
        "states": list(states_of(path).names()),
        "notes": note_digests(path),
        "files": {name: size for name, size in sizes.items() if size},
        "others": sorted(others),
    }


def mark_finished(path: Place, others: Iterable[str] = ()) -> None:
    """Write the list of the files of a finished run, unless the same list is there.

    `others` are the cubes of a job.
    """
    content = files_of_finished(path, others)
    mark = mark_of(path)
    if mark.holds(FINISHED, content):
        return
    # between the two steps the run counts as unfinished, and the same command writes the list
    # again
    mark.remove(FINISHED)
    mark.put(FINISHED, content)


def mark_learned(path: Place, digest: str) -> None:
    """Mark that the run with this digest has learned all that its rows are explained by."""
    mark = mark_of(path)
    if not mark.holds(LEARNED, {"run": digest}):
        mark.remove(LEARNED)
        mark.put(LEARNED, {"run": digest})


def is_learned(path: Place, digest: str) -> bool:
    """Whether the run with this digest has learned all, or has finished."""
    mark = mark_of(path)
    return is_finished(path) or mark.whole_one(LEARNED) == {"run": digest}


def awaits_shards(path: Place) -> bool:
    """Whether all is learned for the rows of a cube, which no run has finished."""
    return mark_of(path).is_whole(LEARNED) and not is_finished(path)


def unmark_learned(path: Place) -> None:
    """Remove the mark of `mark_learned`, once the mark of a finished run replaces it."""
    mark_of(path).remove(LEARNED)


def note_digests(path: Place) -> dict[str, str]:
    """note -> digest of its file."""
    notes = notes_of(path)
    return {name: _digest(notes.folder.get(notes.file(name))) for name in notes.names()}


def holds_run(path: Place, digest: str) -> bool:
    """Whether there are receipts, and all of them belong to the run with this digest.

    The metadata are not looked at.
    """
    digests = {receipt["fingerprint"] for _, receipt in receipts_of(path).whole()}
    return digests == {digest}


def is_finished(path: Place) -> bool:
    """Whether a run finished here and still has its reference copy and its files outside blocks."""
    content = mark_of(path).whole_one(FINISHED)
    if content is None or not has_copy(path):
        return False
    files: dict[str, int] = content.get("files", {})
    return all(Folder(path).size(name) == size for name, size in files.items())
