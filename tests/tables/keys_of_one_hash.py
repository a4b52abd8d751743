"""Different keys of two columns that share their hash of 64 bits: its steps can be undone."""

from __future__ import annotations

import numpy as np

from dshap.core.rows import splitmix64


def keys_of_one_hash(n: int, first: int = 0, place: int = 0) -> dict[str, np.ndarray]:
    """Key column -> keys (n,): pairs of whole numbers, all different, that `hash_keys` gives one hash.

    Those of two places have two hashes.
    """
    left = np.arange(first, first + n)
    right = splitmix64(left.astype(np.uint64)) ^ np.uint64(place)
    return {"left": left, "right": right.view(np.int64)}
