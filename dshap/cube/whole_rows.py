"""The rows of a finished cube that may be copied: those whose blocks are as they were written."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import Status
from dshap.core.errors import DamagedError
from dshap.core.places import Place
from dshap.cube.reference_copy import has_copy, receipts_of, refuse_altered
from dshap.cube.stored_rows import StoredRows
from dshap.cube.verify import look_at_values


def statuses_of_whole_blocks(path: Place, n_rows: int) -> NDArray[np.int8]:
    """(n,): the status of each row of the cube at `path`; PENDING for rows of damaged blocks.

    All values are read and compared with the digests in the receipts of their blocks.  Where
    metadata or the shared base value differ from those written, every row is PENDING.
    """
    statuses = np.full(n_rows, Status.PENDING, np.int8)
    if not has_copy(path):
        return statuses
    try:
        refuse_altered(path)
    except DamagedError:
        return statuses
    look = look_at_values(path)
    if look is None:
        return statuses
    stored = StoredRows(path / "status")
    for _, receipt in receipts_of(path).whole():
        found = look(receipt)
        if found is None:
            continue
        wrong, is_of_base = found
        if is_of_base:
            return np.full(n_rows, Status.PENDING, np.int8)
        if not wrong:
            rows = slice(receipt["start"], receipt["stop"])
            statuses[rows] = stored.read(rows.start, rows.stop)
    return statuses
