"""A small array of a store, read as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.places import Place
from dshap.cube.shards import shards_of
from dshap.cube.zarr_stores import stored_array


def whole_array(path: Place) -> NDArray[Any]:
    """All values of the array at `path`, read by its shards, or by Zarr where it has none."""
    shards = shards_of(path)
    if shards is not None:
        found = shards.read(0, shards.shape[0])
        if found is not None:
            return found
    return np.asarray(stored_array(path)[...])
