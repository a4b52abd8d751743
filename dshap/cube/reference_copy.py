"""The files that a store was created with, kept a second time, and the list of all that a finished
run left.

Metadata, names and plan never change, so what they should be is known: their copy is a record of
bytes under the store's `state`, sealed like any state.  What no block holds and no copy has
(states, notes) is listed at the end of a run, so that what is lost is missed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dshap.core.errors import DamagedError
from dshap.core.records import Record
from dshap.cube.disk import clear_way, read_file, remove_file, replace_file, size_of
from dshap.cube.files import ReceiptFolder, StateFolder

__all__ = [
    "CONTAINER",
    "COPY",
    "FINISHED",
    "PREPARED",
    "altered_files",
    "copied_files",
    "copy_name",
    "copy_name_of",
    "copy_of",
    "failures_of",
    "has_copy",
    "holds_run",
    "is_finished",
    "keep_copy",
    "mark_finished",
    "mark_of",
    "note_digests",
    "notes_of",
    "receipts_of",
    "refuse_altered",
    "renew_copy",
    "restore_files",
    "states_of",
]

CONTAINER = "state"
"""A scalar container variable (CF): its folder holds receipts, the plan and prepared states, and no
chunk."""
COPY = "files"
FINISHED = "finished"
PREPARED = "prepared.json"
"""Describes a prepared value function beside its states."""
CHANGES = "base_value/c"
"""The only chunk of a new cube that is written again."""
SHARED = ("base_value/c/0",)
"""Files with values that belong to no block."""


def states_of(path: Path) -> StateFolder:
    """The states of the store at `path`."""
    return StateFolder(path / CONTAINER)


def receipts_of(path: Path) -> ReceiptFolder:
    """The receipts of the cube at `path`, one for each finished block."""
    return ReceiptFolder(path / CONTAINER / "receipts")


def failures_of(path: Path) -> ReceiptFolder:
    """Why blocks of the cube at `path` have no receipt, where their task failed."""
    return ReceiptFolder(path / CONTAINER / "failures")


def notes_of(path: Path) -> ReceiptFolder:
    """Small records beside the cube at `path`: what its run found out."""
    return ReceiptFolder(path / CONTAINER / "notes")


def copy_of(path: Path) -> StateFolder:
    """The folder of the copy of the created files, its one state: `copy_name`."""
    return StateFolder(path / CONTAINER / "created")


def mark_of(path: Path) -> ReceiptFolder:
    """The folder of the list that a finished run leaves, under the name `FINISHED`."""
    return ReceiptFolder(path / CONTAINER)


def keep_copy(path: Path) -> None:
    """Keep all files of a store that was just created, cubes inside it apart."""
    files = {
        str(file.relative_to(path)): file for file in sorted(path.rglob("*")) if file.is_file()
    }
    kept = {
        name: np.frombuffer(file.read_bytes(), np.uint8)
        for name, file in files.items()
        if not name.startswith(CHANGES)
    }
    copy_of(path).put(copy_name_of(path), Record(kept))


def _digest(file: Path) -> str:
    return hashlib.blake2b(read_file(file) or b"", digest_size=10).hexdigest()


def copy_name_of(path: Path) -> str:
    """The name of a copy of the created files, by the metadata of the store as they are."""
    return f"{COPY}-{_digest(path / 'zarr.json')}"


def copy_name(path: Path) -> str | None:
    """The copy's name tells the store, by its metadata, so that the copy of another is not taken;
    None without one."""
    return next(copy_of(path).names(), None)


def has_copy(path: Path) -> bool:
    """The copy is there and whole."""
    name = copy_name(path)
    return name is not None and copy_of(path).is_whole(name)


def altered_files(path: Path) -> list[str]:
    """Of the created files, those that are missing or not what they were."""
    kept = ((name, path / name, content) for name, content in copied_files(path).items())
    return [name for name, file, content in kept if read_file(file) != content]


def copied_files(path: Path) -> dict[str, bytes]:
    """name -> what the file was created with.

    Raises
    ------
    DamagedError
        The copy is not whole, or names a file outside of the store, which nothing is to be written
        to.
    """
    record: Record = copy_of(path).get(copy_name(path) or COPY, Record)
    if outside := [
        name for name in record.arrays if Path(name).is_absolute() or ".." in Path(name).parts
    ]:
        raise DamagedError(
            f"{path}: the copy of its created files names {outside[0]!r}, which lies outside of "
            "the store: it was made "
            "by another program; nothing is restored from it"
        )
    return {name: content.tobytes() for name, content in record.arrays.items()}


def restore_files(path: Path, names: Iterable[str]) -> None:
    """Put these files back from the copy, each in one step."""
    chosen = list(names)
    kept = copied_files(path) if chosen else {}
    for name in chosen:
        clear_way(path / name, path)
        replace_file(path / name, kept[name])


def renew_copy(path: Path, fresh: Path) -> None:
    """Take the copy of a store that was just created alike, and its files where those of `path`
    differ."""
    source = copy_of(fresh)
    target = copy_of(path)
    if not target.path.is_dir():
        remove_file(target.path)
    for name in [*target.names()]:
        target.remove(name)
    for name in source.names():
        replace_file(target.file(name), source.file(name).read_bytes())
    restore_files(path, altered_files(path))


def refuse_altered(path: Path, *, with_plan: bool = True) -> None:
    """A `DamagedError` that names the created files that are not what they were; none where no copy
    can tell."""
    if not has_copy(path):
        return
    names = [
        name for name in altered_files(path) if with_plan or not name.startswith(f"{CONTAINER}/")
    ]
    if names:
        raise DamagedError(
            f"{path} is damaged: {', '.join(names)} {'are' if len(names) > 1 else 'is'} not what "
            "was written; "
            f"dshap verify {path} --repair puts back what it can, and says what to run again"
        )


def mark_finished(path: Path, others: Iterable[str] = ()) -> None:
    """List what a finished run has left: states, notes, and `others`, the cubes of a job; left as
    it is if the same."""
    content = {
        "states": list(states_of(path).names()),
        "notes": note_digests(path),
        "files": {name: size for name in SHARED if (size := size_of(path / name))},
        "others": sorted(others),
    }
    mark = mark_of(path)
    if mark.is_whole(FINISHED) and mark.get(FINISHED) == content:
        return
    mark.remove(FINISHED)
    mark.put(FINISHED, content)


def note_digests(path: Path) -> dict[str, str]:
    """name -> digest of the file of each note."""
    notes = notes_of(path)
    return {name: _digest(notes.file(name)) for name in notes.names()}


def holds_run(path: Path, digest: str) -> bool:
    """Receipts are here, and all of them are of the run with this digest, whatever the metadata
    say."""
    digests = {receipt["fingerprint"] for _, receipt in receipts_of(path).whole()}
    return digests == {digest}


def is_finished(path: Path) -> bool:
    """A run came to its end here; what it left beside its blocks is there, and the copy of the
    created files whole."""
    mark = mark_of(path)
    if not mark.is_whole(FINISHED) or not has_copy(path):
        return False
    files: dict[str, int] = mark.get(FINISHED).get("files", {})
    return all(size_of(path / name) == size for name, size in files.items())
