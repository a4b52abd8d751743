"""Histograms and sums of a finished cube, stored beside it when they are first needed.

One pass over a cube of a hundred million rows takes minutes, and pictures, pages and comparisons ask
for the same histograms again.  Each is a sealed record under `state/histograms`, named by its
inputs: the digests of all stored values of the cube, and of the counted set.  Nothing needs them:
they can be deleted at any time, and those of values that were computed again are.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.core.records import Moments, Record
from dshap.cube.reference_copy import histograms_of, is_finished, receipts_of

LEAST_ROWS = 100_000
"""The rows from which histograms are stored; a pass over fewer needs a tenth of a second or two."""
SHARE = 0.1
"""The largest size of all histograms together, as a part of the size of the attributions."""
FORM = 2
"""The version of the histograms: part of their names, to be raised when their numbers change."""


def histogram_bytes(n_rows: int, attribution_bytes: int) -> int:
    """The most bytes of all stored histograms of a cube; 0 if none are stored."""
    if n_rows < LEAST_ROWS:
        return 0
    return int(SHARE * attribution_bytes)


@dataclass(frozen=True)
class KeptHistograms:
    """The stored histograms of one cube, by digests of what they count."""

    path: Place
    """The path of the cube."""
    values: str
    """The digest of all values that are stored in the cube."""
    most_bytes: int
    """The most bytes of all histograms together."""

    @classmethod
    def of(cls, path: Place, n_rows: int) -> KeptHistograms | None:
        """The stored histograms of a cube; None for a cube that is small or not finished."""
        if n_rows < LEAST_ROWS or not is_finished(path):
            return None
        digest = hashlib.blake2b(digest_size=12)
        n_bytes = 0
        for name, receipt in sorted(receipts_of(path).whole()):
            digest.update(json.dumps([FORM, name, receipt["digests"]], sort_keys=True).encode())
            files: Mapping[str, int] = receipt.get("files", {})
            n_bytes += sum(size for file, size in files.items() if file.startswith("attribution/"))
        return cls(path, digest.hexdigest(), histogram_bytes(n_rows, n_bytes))

    def get(self, counted: str) -> Moments | None:
        """The histogram of this digest; None if there is none, or it is damaged."""
        folder = histograms_of(self.path)
        name = f"{self.values}-{counted}"
        if not folder.is_whole(name):
            return None
        return _unpacked(folder.get(name, Record))

    def put(self, histograms: Mapping[str, Moments]) -> None:
        """Store histograms, by the digests of their counts, unless all would be too large together.

        Nothing is stored if the store cannot be written, as by a reader without the right to.
        """
        folder = histograms_of(self.path)
        with contextlib.suppress(OSError, InputError):
            if not is_finished(self.path):
                return
            for other in list(folder.names()):
                if not other.startswith(self.values):
                    folder.remove(other)
            for counted, histogram in histograms.items():
                name = f"{self.values}-{counted}"
                # a damaged one goes first, as a file that is there is never written over
                folder.mend([name])
                if self._has_room():
                    folder.put(name, _packed(histogram))

    def _has_room(self) -> bool:
        folder = histograms_of(self.path)
        sizes = (folder.folder.size(folder.file(name)) for name in folder.names())
        return sum(sizes) < self.most_bytes


def _packed(histogram: Moments) -> Record:
    """A histogram in a few kilobytes: the cells with rows, as gaps between them, and their rows.

    Sums without bins of attributions stay as they are.
    """
    if "codes" not in histogram.arrays:
        return Record({f"other-{name}": array for name, array in histogram.arrays.items()})
    counts = histogram["counts"]
    cells = np.flatnonzero(counts)
    others = {
        name: array for name, array in histogram.arrays.items() if name not in ("codes", "counts")
    }
    return Record(
        {
            "codes": histogram["codes"].astype(np.int16),
            "shape": np.array(counts.shape, np.int64),
            "gaps": _squeezed(np.diff(cells, prepend=0)),
            "rows": _squeezed(counts.ravel()[cells]),
            **{f"other-{name}": array for name, array in others.items()},
        }
    )


def _unpacked(record: Record) -> Moments:
    """The histogram that was packed."""
    others = {
        name.removeprefix("other-"): array
        for name, array in record.arrays.items()
        if name.startswith("other-")
    }
    if "codes" not in record.arrays:
        return Moments(others)
    counts = np.zeros(record["shape"], np.int64)
    counts.ravel()[np.cumsum(_expanded(record["gaps"]))] = _expanded(record["rows"])
    return Moments({"codes": record["codes"].astype(np.int64), "counts": counts, **others})


def _squeezed(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Numbers from 0 on in Zstandard; byte by byte of all, so that zeros are side by side."""
    if not len(numbers):
        return np.zeros(0, np.uint8)
    planes = numbers.astype("<u8").view(np.uint8).reshape(-1, 8).T
    from numcodecs import Zstd

    return np.frombuffer(Zstd(level=3).encode(np.ascontiguousarray(planes)), np.uint8)


def _expanded(squeezed: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The numbers that were squeezed."""
    if not len(squeezed):
        return np.zeros(0, np.int64)
    from numcodecs import Zstd

    planes = np.frombuffer(Zstd().decode(squeezed), np.uint8).reshape(8, -1)
    return np.ascontiguousarray(planes.T).view("<u8").ravel().astype(np.int64)
