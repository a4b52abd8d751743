"""SHA-256 digests of the content of a finished cube, the same before and after it is packed.

Packing copies the encoded chunks of a block byte for byte, so that these, and not the files, are
digested.  The digest of a block of an array is that of its chunks one after the other, each behind
its length in 8 bytes (little-endian), which is 0 for a chunk of fill values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, BinaryIO

from dshap.core.places import Place
from dshap.cube.creation import CONTAINER, ROOT
from dshap.cube.packed_documents import arrays_in, n_blocks_in
from dshap.cube.packing import plain_documents
from dshap.cube.receipts import block_name
from dshap.cube.reference_copy import FINISHED, PLAN, mark_of, notes_of, receipts_of, states_of
from dshap.cube.shards import Shards, known_shards
from dshap.storage.folder import Folder
from dshap.storage.seals import PIECE_BYTES

DIGEST_BYTES = 32
"""The bytes of a digest of SHA-256."""
UNREADABLE = b"\0" * DIGEST_BYTES
"""The digest of a block whose chunks, or whose receipt, cannot be read."""
RECEIPTS = "receipts"
"""The name under which receipts of blocks are digested, beside those of arrays."""


def block_digests_of(cube: Place) -> dict[str, bytes]:
    """Digest the blocks of each array of a cube, and their receipts.

    Parameters
    ----------
    cube : Place
        The place of a finished cube.

    Returns
    -------
    dict
        Array -> the digests of its blocks, one after the other, each of `DIGEST_BYTES` bytes.
    """
    plain = plain_documents(cube)
    n_blocks = n_blocks_in(plain)
    found = {}
    for name in sorted(arrays_in(plain)):
        folder = Folder(cube / name)
        one = known_shards(folder, plain[f"{name}/{ROOT}"])
        now = known_shards(folder, folder.get(ROOT) or b"{}")
        digest = partial(_block_digest, one, now)
        found[name] = b"".join(folder.map(digest, range(n_blocks)))
    receipts = receipts_of(cube).whole_ones(map(block_name, range(n_blocks)))
    found[RECEIPTS] = b"".join(_receipt_digest(receipt) for _, receipt in receipts)
    return found


def part_digests_of(cube: Place) -> dict[str, str]:
    """Digest all of a cube that belongs to no block: documents, plan, notes, states, small arrays.

    Returns
    -------
    dict
        Name of a part -> its digest, in hexadecimal digits.
    """
    plain = plain_documents(cube)
    by_block = set(arrays_in(plain))
    documents = {name: _canonical(content) for name, content in plain.items()}
    found = {
        "documents": _listing_digest(documents),
        "plan": sha256_of_bytes(Folder(cube).get(PLAN) or b""),
        "notes": _listing_digest(_files(notes_of(cube).folder)),
        "states": _listing_digest(dict(_listed_states(cube))),
    }
    for file in plain:
        name = file.removesuffix(f"/{ROOT}")
        is_array = name not in ("", CONTAINER, ROOT) and _is_array(plain[file])
        if is_array and name not in by_block:
            found[name] = _listing_digest(_files(Folder(cube / name), without=ROOT))
    return found


def sha256_of_bytes(content: bytes) -> str:
    """The SHA-256 digest of bytes, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def sha256_of_file(opened: BinaryIO) -> str:
    """The SHA-256 digest of an opened file, which is read in pieces."""
    digest = hashlib.sha256()
    while piece := opened.read(PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def _block_digest(one: Shards, now: Shards, block: int) -> bytes:
    """The digest of a block; `one` has a file for each block, `now` the files that are there."""
    n_chunks = one.chunks_per_file
    blocks_of_file = now.shard_rows // one.shard_rows
    file, place = divmod(block, blocks_of_file)
    try:
        chunks = now.chunks_of(file, place * n_chunks, n_chunks)
    except (ValueError, OSError):
        return UNREADABLE
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(len(chunk or b"").to_bytes(8, "little"))
        digest.update(chunk or b"")
    return digest.digest()


def _receipt_digest(receipt: Mapping[str, Any] | None) -> bytes:
    """The digest of a receipt without the names of files, which packing changes."""
    if receipt is None:
        return UNREADABLE
    # without its files, whose names and sizes change when the cube is packed
    content = {name: value for name, value in receipt.items() if name != "files"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).digest()


def _listing_digest(contents: Mapping[str, bytes]) -> str:
    """The digest of named contents: lines of name and digest, in the order of the names."""
    lines = [f"{sha256_of_bytes(contents[name])}  {name}\n" for name in sorted(contents)]
    return sha256_of_bytes("".join(lines).encode())


def _files(folder: Folder, without: str = "") -> dict[str, bytes]:
    """name -> content of the files of a folder."""
    return {name: folder.get(name) or b"" for name in folder.tree() if name != without}


def _listed_states(cube: Place) -> Iterator[tuple[str, bytes]]:
    """(name, digest of its file) of the states that the finished run has listed."""
    states = states_of(cube)
    listed = (mark_of(cube).whole_one(FINISHED) or {}).get("states", [])
    for name in listed:
        try:
            with states.folder.open(states.file(name)) as opened:
                yield name, sha256_of_file(opened).encode()
        except OSError:
            yield name, UNREADABLE


def _canonical(content: bytes) -> bytes:
    """A document in one spelling; one that is no JSON as it is."""
    try:
        return json.dumps(json.loads(content), sort_keys=True).encode()
    except ValueError:
        return content


def _is_array(content: bytes) -> bool:
    """Whether a document describes an array."""
    try:
        return bool(json.loads(content).get("node_type") == "array")
    except (ValueError, AttributeError):
        return False
