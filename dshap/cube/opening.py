"""All that is needed to open a cube: a packed one has it in two files.

A cube has a document for each array, names of features and outputs, base values and notes: dozens of
small files, which cost dozens of requests in a bucket.  The root document of a packed cube lists the
others, and its mark `packed` contains the content of the small files.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dshap.core.places import Place
from dshap.cube.creation import ROOT
from dshap.cube.metadata import block_rows, known_facts
from dshap.cube.notes import read_notes
from dshap.cube.packed_documents import CONSOLIDATED
from dshap.cube.receipts import PACKED
from dshap.cube.reference_copy import mark_of
from dshap.storage.folder import Folder
from dshap.storage.seals import digest_of_content

SMALL = ("base_value", "feature", "feature_other", "output")
"""The arrays that every opening reads."""
ROWS = "rows/"
"""The beginning of the names of the explained columns."""
READ_AT_ONCE = 8 << 20
"""About the bytes of attributions in a lazy chunk of a packed cube: a chunk costs dask a microsecond."""


@dataclass(frozen=True)
class Opening:
    """The facts and small files of a cube that are read before its arrays are opened."""

    known: Mapping[str, bytes]
    """name -> content of its small files, the root document among them; empty if it is not packed."""
    notes: Mapping[str, Any]
    columns: Sequence[str]
    """The variables of the stored columns, in their order."""
    rows_at_once: int
    """The rows of a lazy chunk: whole blocks."""

    def known_of(self, group: str) -> dict[str, bytes]:
        """The known files of a group, by their names in it."""
        room = f"{group}/"
        return {
            name.removeprefix(room): content
            for name, content in self.known.items()
            if name.startswith(room)
        }


def packed_opening(path: Place) -> Opening | None:
    """The opening of the cube at `path`, in one round of requests.

    None if it is not packed, or its root document is not the one that was written.
    """
    folder = Folder(path)
    asked: tuple[Callable[[], Any], ...] = (
        lambda: folder.get(ROOT),
        lambda: mark_of(path).whole_one(PACKED),
    )
    root, mark = folder.map(lambda ask: ask(), asked)
    if root is None or not mark or mark.get("root") != digest_of_content(root):
        return None
    members = json.loads(root)[CONSOLIDATED]["metadata"]
    known = {ROOT: root}
    known |= {f"{name}/{ROOT}": json.dumps(member).encode() for name, member in members.items()}
    known |= {name: b64decode(content) for name, content in mark["files"].items()}
    columns = [name.removeprefix(ROWS) for name in members if name.startswith(ROWS)]
    return Opening(known, mark["notes"], columns, mark["rows_at_once"])


def keep_opening(path: Place) -> None:
    """Write the mark of a packed cube with its small files, unless the same is there."""
    content = _of_packed(path)
    marks = mark_of(path)
    if not marks.holds(PACKED, content):
        marks.put_over(PACKED, content)


def _of_packed(path: Place) -> dict[str, Any]:
    folder = Folder(path)
    facts = known_facts(path / "attribution")
    rows = block_rows(path)
    block_bytes = 8 * rows * math.prod(facts.shape[1:])
    n_blocks = min(max(READ_AT_ONCE // block_bytes, 1), facts.grid[0] // rows)
    return {
        "root": digest_of_content(folder.get(ROOT) or b""),
        "rows_at_once": rows * n_blocks,
        "files": {
            name: b64encode(content).decode()
            for name in (f"{each}/c/0" for each in SMALL)
            if (content := folder.get(name)) is not None
        },
        "notes": read_notes(path),
    }
