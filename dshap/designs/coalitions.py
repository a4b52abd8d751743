"""Coalitions as boolean masks (m, d) or packed bits, and `BaseDesign`, the base of all designs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import EMPTY, FULL, CoalitionBlock, DesignInfo
from dshap.core.errors import InputError
from dshap.core.records import JSON, BoolArray, FloatArray

MAX_WHOLE_BYTES = 2**30
"""The most bytes of `masks` and `operator`, which are for reading and testing."""

SPAN_BYTES = 2**24
"""Bytes of float64 that a sum over coalitions needs at a time."""


def masks_of_size(d: int, size: int) -> BoolArray:
    """All C(d, size) coalitions of one size (m, d).

    Sizes up to d/2 come in the lexicographic order of their members; row j of size d − s is the
    complement of row j of size s.
    """
    if 2 * size > d:
        return ~masks_of_size(d, d - size)
    m = math.comb(d, size)
    members = np.fromiter(
        chain.from_iterable(combinations(range(d), size)), np.int32, count=m * size
    )
    masks = np.zeros((m, d), dtype=bool)
    np.put_along_axis(masks, members.reshape(m, size).astype(np.intp), True, axis=1)
    return masks


def random_masks(uniforms: FloatArray, sizes: NDArray[np.int64]) -> BoolArray:
    """Uniformly random coalitions (m, d) of the given sizes, 1..d, from uniform numbers (m, d).

    Row j contains the `sizes[j]` players with the smallest numbers.
    """
    threshold = np.take_along_axis(np.sort(uniforms, axis=1), sizes[:, None] - 1, axis=1)  # (m, 1)
    return uniforms <= threshold


def pack(masks: BoolArray) -> NDArray[np.uint8]:
    """Masks (m, d) as bits (m, ⌈d/8⌉)."""
    return np.packbits(masks, axis=1)


def unpack(bits: NDArray[np.uint8], d: int) -> BoolArray:
    """Masks (m, d) of the bits that `pack` made."""
    return np.unpackbits(bits, axis=1, count=d).view(bool)


def first_distinct(masks: BoolArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions of the distinct rows, in order of appearance, and each row's index among them."""
    return first_distinct_bits(pack(masks))


def first_distinct_bits(bits: NDArray[np.uint8]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """`first_distinct` for packed masks (m, ⌈d/8⌉)."""
    # padded to whole 64-bit words: up to 64 players each coalition is one integer, which np.unique
    # sorts many times as fast as a string of bytes
    padded = np.zeros((len(bits), 8 * math.ceil(bits.shape[1] / 8)), np.uint8)
    padded[:, : bits.shape[1]] = bits
    keys = padded.view(
        np.uint64 if padded.shape[1] == 8 else np.dtype((np.void, padded.shape[1]))
    ).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse]


def stream(seed: int, *position: int) -> np.random.Generator:
    """The counter-based random generator of a position; the positions of a seed are independent."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=position)))


def coalition_spans(m: int, d: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive ranges of m coalitions whose scores (rows, d) need at most `SPAN_BYTES`."""
    step = max(1, SPAN_BYTES // (8 * d))
    return ((start, min(start + step, m)) for start in range(0, m, step))


def checked_span(n_coalitions: int, start: int, stop: int) -> None:
    """Raise InputError unless start..stop is a range of `n_coalitions` coalitions."""
    if not 0 <= start <= stop <= n_coalitions:
        raise InputError(
            f"block({start}, {stop}) of a design of {n_coalitions} coalitions: "
            f"give 0 <= start <= stop <= {n_coalitions}"
        )


class BaseDesign:
    """The base class of designs: subclass it to write your own, as a frozen dataclass.

    A design chooses coalitions, and turns their values into attributions.  A subclass has a field
    `n_players` and defines `info` and `block`.  It also defines `finish` if the sums of values ×
    scores are not yet the attributions, and `replicates` if the design has standard errors.

    Examples
    --------
    >>> import dshap
    >>> design = dshap.designs.exact(3)
    >>> isinstance(design, dshap.Design)
    True
    >>> values = design.masks.sum(axis=1) ** 2  # the game v(S) = |S|²
    >>> (values @ design.operator).round(9).tolist()
    [3.0, 3.0, 3.0]
    """

    kind: ClassVar[str] = ""
    """Name of the design in its fingerprint; if empty, the name of the class is used."""

    if TYPE_CHECKING:

        @property
        def info(self) -> DesignInfo: ...
        def block(self, start: int, stop: int) -> CoalitionBlock: ...

    @property
    def n_coalitions(self) -> int:
        """Number of distinct coalitions m; the empty coalition ∅ and the full one N count."""
        return self.info.n_coalitions

    @property
    def why_no_errors(self) -> str:
        """The reason why all standard errors are NaN; an empty text if they are not."""
        return self.info.why_no_errors

    def finish(self, sums: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        """Return the sums (n, d, k) unchanged: here they are the attributions already."""
        return sums

    def replicates(
        self, sums: FloatArray, groups: FloatArray, v_empty: FloatArray, v_full: FloatArray
    ) -> FloatArray:
        """No replicates (0, n, d, k): the design has no standard errors."""
        return np.zeros((0, *sums.shape))

    def with_players(self, n_players: int) -> Self:
        """Return this design for another number of players."""
        return replace(self, n_players=n_players)  # type: ignore[type-var]

    def fingerprint(self) -> dict[str, JSON]:
        """The kind of design and its fields, as JSON values: tuples become lists."""
        fields = asdict(self)  # type: ignore[call-overload]
        fields |= {name: list(value) for name, value in fields.items() if type(value) is tuple}
        return {"design": self.kind or type(self).__name__, **fields}

    @classmethod
    def restored(cls, parameters: Mapping[str, JSON]) -> Self:
        """Make the design from the parameters of its fingerprint; lists become tuples."""
        return cls(
            **{
                name: tuple(value) if isinstance(value, list) else value
                for name, value in parameters.items()
            }
        )

    @property
    def masks(self) -> BoolArray:
        """All coalitions (m, d): the empty one comes first, the full one second.

        Raises
        ------
        InputError
            If the array takes more than 1 GiB.
        """
        masks = _whole(self.info, "masks", bool)
        for start, stop in coalition_spans(*masks.shape):
            masks[start:stop] = self.block(start, stop).masks
        return masks

    @property
    def operator(self) -> FloatArray:
        """The matrix (m, d) with phi = operatorᵀ v for the values v (m,) of `masks`.

        Raises
        ------
        InputError
            If the matrix takes more than 1 GiB, or attributions are not linear in the values.
        """
        whole = _whole(self.info, "operator", np.float64)
        d = self.info.n_players
        zero = np.zeros((1, 1))
        one = np.ones((1, 1))
        # `finish` is linear in the sums and the values of the two ends, so that its results for unit
        # inputs are its matrix.  (d, d): row i is `finish` of a unit sum for player i
        finished = self.finish(np.eye(d)[:, :, None], zero, zero)[:, :, 0]
        for start, stop in coalition_spans(*whole.shape):
            whole[start:stop] = self.block(start, stop).score @ finished
        no_sums = np.zeros((1, d, 1))
        whole[EMPTY] += self.finish(no_sums, one, zero)[0, :, 0]
        whole[FULL] += self.finish(no_sums, zero, one)[0, :, 0]
        return whole


def _whole(info: DesignInfo, name: str, dtype: type) -> NDArray[Any]:
    """An empty (m, d) array, or InputError above `MAX_WHOLE_BYTES`."""
    m = info.n_coalitions
    d = info.n_players
    nbytes = m * d * np.dtype(dtype).itemsize
    if nbytes > MAX_WHOLE_BYTES:
        raise InputError(
            f"{name} of {m} coalitions of {d} players would take {nbytes / 2**30:.1f} GiB, at most "
            "1 GiB: "
            "read it in parts with block(start, stop)"
        )
    return np.empty((m, d), dtype)
