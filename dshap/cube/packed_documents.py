"""The documents of a cube in its two forms: a file for each block, or one for many blocks.

A cube grows in files of one block each, named `c.12.0.0`.  Once it is finished it is packed into
shards of `BLOCKS_OF_PACK` blocks, named `c/0/0/0`: a cube of 10⁹ rows has some thousand files then
instead of millions.  The chunks inside are the same, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dshap.cube.creation import ROOT
from dshap.cube.shards import INDEX_AT_END, separator_of

BLOCKS_OF_PACK = 512
"""The blocks of a file of a packed cube, or all if there are fewer."""
LEAST_BLOCKS = 32
"""The blocks from which a cube is packed: fewer are a few hundred files."""
GROWING = "."
"""The separator in the names of files with one block each."""
IN_PACKS = "/"
"""The separator in the names of files with many blocks."""
CONSOLIDATED = "consolidated_metadata"


def n_blocks_in(documents: Mapping[str, bytes]) -> int:
    """The number of blocks of the cube with these documents (name -> content)."""
    return int(json.loads(documents[f"blocks/count/{ROOT}"])["shape"][0])


def arrays_in(documents: Mapping[str, bytes]) -> Iterator[str]:
    """The names of the arrays that have files of one block each, of a cube that is not packed."""
    for name, content in documents.items():
        if name.endswith(f"/{ROOT}") and separator_of(json.loads(content)) == GROWING:
            yield name.removesuffix(f"/{ROOT}")


def packed_documents(documents: Mapping[str, bytes]) -> dict[str, bytes]:
    """The documents that packing changes, as it leaves them: of arrays, and of the root.

    `documents` are those of a cube that is not packed.  The root lists all others, so that a reader
    needs no other document.
    """
    n_blocks = min(n_blocks_in(documents), BLOCKS_OF_PACK)
    changed = {
        f"{name}/{ROOT}": _packed(documents[f"{name}/{ROOT}"], n_blocks)
        for name in arrays_in(documents)
    }
    changed |= _listed_again(documents, changed)
    members = {
        name.removesuffix(f"/{ROOT}"): json.loads(content)
        for name, content in {**documents, **changed}.items()
        if name.endswith(f"/{ROOT}")
    }
    for member in members.values():
        member.pop(CONSOLIDATED, None)
    root = json.loads(documents[ROOT])
    root[CONSOLIDATED] = {"kind": "inline", "must_understand": False, "metadata": members}
    return {**changed, ROOT: _written(root)}


def unpacked_documents(documents: Mapping[str, bytes]) -> dict[str, bytes]:
    """The documents that packing changed, as they were before; those that are so already are left out."""
    n_blocks = min(n_blocks_in(documents), BLOCKS_OF_PACK)
    found = {ROOT: unpacked_root(documents[ROOT])}
    for name, content in documents.items():
        document = json.loads(content)
        if (
            name.endswith(f"/{ROOT}")
            and _is_sharded(document)
            and separator_of(document) == IN_PACKS
        ):
            found[name] = _unpacked(document, n_blocks, is_by_row=not name.startswith("blocks/"))
    found |= _listed_again(documents, found)
    return {name: content for name, content in found.items() if content != documents[name]}


def _listed_again(documents: Mapping[str, bytes], changed: Mapping[str, bytes]) -> dict[str, bytes]:
    """The documents of groups below the root that list their members, with those that are changed."""
    found = {}
    for name, content in documents.items():
        if name.endswith(f"/{ROOT}") and CONSOLIDATED.encode() in content:
            document = json.loads(content)
            members = document[CONSOLIDATED]["metadata"]
            for member in members:
                file = f"{name.removesuffix(ROOT)}{member}/{ROOT}"
                members[member] = json.loads(changed.get(file, documents[file]))
            found[name] = json.dumps(document).encode()
    return found


def unpacked_root(content: bytes) -> bytes:
    """A root document as it was before the cube was packed; one that cannot be read as it is."""
    if CONSOLIDATED.encode() not in content:
        return content
    try:
        document = json.loads(content)
    except ValueError:
        return content
    document.pop(CONSOLIDATED, None)
    return _written(document)


def _packed(content: bytes, n_blocks: int) -> bytes:
    """The document of an array in files of so many blocks each."""
    document = json.loads(content)
    grid = document["chunk_grid"]["configuration"]
    if not _is_sharded(document):
        inside = {"chunk_shape": grid["chunk_shape"], "codecs": document["codecs"], **INDEX_AT_END}
        document["codecs"] = [{"name": "sharding_indexed", "configuration": inside}]
    first, *rest = grid["chunk_shape"]
    grid["chunk_shape"] = [n_blocks * first, *rest]
    document["chunk_key_encoding"]["configuration"]["separator"] = IN_PACKS
    return _written(document)


def _unpacked(document: dict[str, Any], n_blocks: int, *, is_by_row: bool) -> bytes:
    """The document of an array in files of one block each, of one along rows or along blocks."""
    grid = document["chunk_grid"]["configuration"]
    first, *rest = grid["chunk_shape"]
    grid["chunk_shape"] = [first // n_blocks, *rest]
    if not is_by_row:
        document["codecs"] = document["codecs"][0]["configuration"]["codecs"]
    document["chunk_key_encoding"]["configuration"]["separator"] = GROWING
    return _written(document)


def _is_sharded(document: Mapping[str, Any]) -> bool:
    return bool(document.get("codecs")) and document["codecs"][0]["name"] == "sharding_indexed"


def _written(document: Mapping[str, Any]) -> bytes:
    """A document as Zarr writes it."""
    return json.dumps(document, indent=2).encode()
