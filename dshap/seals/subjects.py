"""The subjects of a statement: the results of a run, each with its digest.

Each array of a cube is one subject, however many blocks it has: the digest of the list of its
blocks' digests.  The list is stored in the folder of the run, so that a check can name the first
block that differs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from dshap.core.places import Place
from dshap.cube.arrays import RUNS
from dshap.cube.chunk_digests import (
    DIGEST_BYTES,
    block_digests_of,
    part_digests_of,
    sha256_of_bytes,
)
from dshap.cube.creation import ROOT
from dshap.cube.metadata import known_facts
from dshap.history.run_folders import ABOUT, LOOK, ROWS_MARK
from dshap.history.run_record import RECORD
from dshap.seals.statement import Resource
from dshap.seals.stored_job import JOB
from dshap.sinks.line_digests import digest_of_load
from dshap.sinks.records import RowHistory, Sink
from dshap.storage.folder import Folder

PACKAGES = "packages.txt"
"""The file of the installed packages in the folder of a run."""
FILES = (ABOUT, LOOK, JOB, PACKAGES)
"""The files in the folder of a run that are separate subjects, if they exist."""
CUBE = "cube"
LOAD = "sink"
FILE = "file"
"""The kinds of subjects, as their annotation `kind` has them."""


def blocks_file(run_id: str, cube: str) -> str:
    """The file in a store with the digests of the blocks of a cube, array after array."""
    return f"{RUNS}/{run_id}/blocks/{cube.replace('/', '-')}.sha256"


def subjects_of_cube(store: Place, cube: str, run_id: str) -> Iterator[Resource]:
    """The subjects of a cube, whose digests of blocks are in the folder of the run.

    Parameters
    ----------
    store : Place
    cube : str
        The name of the cube in the store, such as "reasons/20261127T030000Z".
    run_id : str
    """
    blocks = block_digests_of(store / cube)
    file = blocks_file(run_id, cube)
    Folder(store).replace(file, b"".join(blocks.values()))
    at = 0
    for name, digests in blocks.items():
        n_blocks = len(digests) // DIGEST_BYTES
        about = {"kind": CUBE, "cube": cube, "blocks": n_blocks, "listed": file, "first": at}
        yield Resource(f"{cube}/{name}", _sha256(hashlib.sha256(digests).hexdigest()), "", about)
        at += n_blocks
    for name, digest in part_digests_of(store / cube).items():
        yield Resource(f"{cube}/{name}", _sha256(digest), "", {"kind": CUBE, "cube": cube})


def digests_of_cube(store: Place, cube: str) -> tuple[Mapping[str, bytes], Mapping[str, str]]:
    """(array -> digests of its blocks, part -> digest) of a cube as it is now."""
    return block_digests_of(store / cube), part_digests_of(store / cube)


def block_rows_of(store: Place, cube: str) -> int:
    """The rows of a block of a cube."""
    n_rows = known_facts(store / cube / "status").shape[0]
    n_blocks = known_facts(store / cube / "blocks" / "count").shape[0]
    return -(-n_rows // max(n_blocks, 1))


def subjects_of_files(store: Place, run_id: str, record: bytes) -> Iterator[Resource]:
    """The subjects of the files that a run leaves beside its cubes; `record` is not there yet."""
    about = {"kind": FILE}
    yield Resource(f"{RUNS}/{run_id}/{RECORD}", _sha256(sha256_of_bytes(record)), "", about)
    folder = Folder(store)
    keys = f"keys/{run_id}"
    listed = [ROOT, *(f"{RUNS}/{run_id}/{name}" for name in FILES)]
    if folder.has_room(keys):
        listed += [f"{keys}/{name}" for name in Folder(store / keys).list() if _is_mark(name)]
    for name in listed:
        content = folder.get(name)
        if content is not None:
            yield Resource(name, _sha256(sha256_of_bytes(content)), "", about)


def _is_mark(name: str) -> bool:
    """Whether a file of keys is a record, which has the digests of the files beside it."""
    return name.endswith(".json") or name == ROWS_MARK


@dataclass(frozen=True)
class LoadToSeal:
    """A load of a sink, from the record of the run."""

    name: str
    """The name of the sink in the record."""
    target: str
    """Its masked address."""
    cube: str
    """The name of the cube in the store."""
    since: str = ""
    """The run since which changed rows were written; empty: all rows."""
    as_of: date | None = None
    is_backfill: bool = False


def subject_of_sink(sink: Sink, load: LoadToSeal, cube: Place, history: RowHistory) -> Resource:
    """The subject of a load: the digest of its lines.

    Parameters
    ----------
    sink : Sink
    load : LoadToSeal
    cube : Place
        The cube that was loaded.
    history : RowHistory
        The runs that computed its rows.
    """
    chosen = None
    if load.since:
        chosen = history.changed_since(load.since, history.method)
    digest, n_lines = digest_of_load(sink, cube, history, chosen, as_of=load.as_of)
    about = {
        "kind": LOAD,
        "explain": sink.explain,
        "shape": sink.form,
        "lines": n_lines,
        "since": load.since,
        "target": load.target,
        "cube": load.cube,
        "as_of": str(load.as_of or ""),
        "backfill": load.is_backfill,
    }
    return Resource(f"sink/{load.name}", _sha256(digest), "", about)


def _sha256(digest: str) -> dict[str, str]:
    return {"sha256": digest}
