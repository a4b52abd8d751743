"""Records of numpy arrays, their sums in a fixed tree, and the cost of work."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CHAIN",
    "FAN_IN",
    "BoolArray",
    "Cost",
    "FloatArray",
    "Moments",
    "Record",
    "Stacked",
    "State",
    "digest_of",
    "n_left_leaves",
    "n_partial_sums",
    "TreeSum",
    "tree_sum",
]

FloatArray = NDArray[np.float64]
"""An array of numbers in float64."""

BoolArray = NDArray[np.bool_]
"""An array of truth values."""

type JSON = Any
"""A plain value, as JSON has it: None, a truth value, a number, a text, or a list or a mapping of
plain values.  For a type checker it is Any, so that you read what is inside without a cast."""

FAN_IN = 5
"""The most sums that one task of a cluster adds.  A worker hears of an addition only once it has
begun its next leaf: if each task added but two, additions would fall behind the leaves, which would
wait in memory."""

CHAIN = 1 + 8 * (FAN_IN - 1)
"""The number of leaves added one after the other in a chain: 33 spans are two million rows, below
which more rows do not mean more partial sums."""


def digest_of(content: JSON) -> str:
    """A short text that identifies plain values: their blake2b digest, as 20 hexadecimal digits.

    The order of the entries of a mapping makes no difference.

    Examples
    --------
    >>> from dshap.records import digest_of
    >>> digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    True
    >>> len(digest_of("text"))
    20
    """
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=10).hexdigest()


@dataclass(frozen=True)
class Record:
    """Numpy arrays by name, which are sent, hashed and stored together and never pickled.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.records import Record
    >>> record = Record({"mean": np.array([1.0, 2.0]), "count": np.array(10.0)})
    >>> record["mean"].tolist(), record.nbytes
    ([1.0, 2.0], 24)
    >>> record.digest() == Record(dict(record.arrays)).digest()
    True
    """

    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, array in self.arrays.items():
            if not isinstance(array, np.ndarray) or array.dtype.hasobject:
                raise TypeError(
                    f"{type(self).__name__}[{name!r}] must be a numpy array of plain values"
                )

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    def digest(self) -> str:
        """The blake2b digest over names, dtypes, shapes and values (little-endian)."""
        hasher = hashlib.blake2b(digest_size=16)
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            hasher.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
            hasher.update(array.tobytes())
        return hasher.hexdigest()

    def to_bytes(self) -> bytes:
        """The record as the bytes of an uncompressed .npz file, which `numpy.load` opens."""
        buffer = io.BytesIO()
        np.savez(buffer, **self.arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def load(cls, file: str | Path | IO[bytes]) -> Self:
        """Read the record in an .npz file."""
        with np.load(file, allow_pickle=False) as stored:
            return cls({name: stored[name] for name in stored.files})


class State(Record):
    """Arrays that a value function prepared for one tile of coalitions, for any instance.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.records import State
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> value = dshap.values.Marginal(lambda x: x[:, 0] * x[:, 1], x)
    >>> state = value.prepare(np.array([[True, False], [False, True]]))
    >>> isinstance(state, State), "columns" in state.arrays
    (True, True)
    """


@dataclass(frozen=True)
class Cost:
    """The cost of m coalitions and n rows: upper bounds of bytes, and floating-point operations.

    A plan computes from it how many rows and coalitions fit into a task.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> value = dshap.values.Marginal(lambda x: x[:, 0] * x[:, 1], x)
    >>> cost = value.cost(m=4, n=1000)
    >>> type(cost).__name__, cost.task_bytes > 0, cost.predictions
    ('Cost', True, 200000.0)
    """

    state_bytes: int
    """Bytes of the State."""
    prepare_bytes: int
    """Peak bytes of `prepare`, Moments and State included."""
    task_bytes: int
    """Peak bytes of `evaluate`, `scored` or `attribute` on a micro-block of n rows, the result
    included."""
    operations: float
    """Operations for the values of n rows; infinity if a black box hides them."""
    predictions: float = 0.0
    """The most rows that a black box predicts for the values of n rows."""
    moment_bytes: int = 0
    """Bytes of the Moments."""
    moment_task_bytes: int = 0
    """Peak bytes of `moments` on n rows, the returned Moments included."""
    moment_operations: float = 0.0
    """Operations of `moments` on n rows."""
    row_bytes: int = 0
    """Bytes of memory that `scored` needs for a tile of n rows beside those of a micro-block."""
    pair_bytes: int = 0
    """Peak bytes of the interactions of a closed form on n rows."""


EXTREMES: Mapping[str, Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]] = {
    "least": np.minimum,
    "largest": np.maximum,
}
"""Name of an array of moments that is no sum -> the function that combines two of them."""


class Moments(Record):
    """Sums, smallest and largest values over rows of a table, which add up over its parts.

    `one + two` adds every array, except that it computes the minimum of arrays called `least` and
    the maximum of those called `largest`.  The total over a table is therefore the same quantity,
    however its rows are divided.  If a record has an array `codes` with an entry for each row of
    `counts`, rows of the same code are added.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.records import Moments
    >>> first = Moments({"sum": np.array([1.0, 2.0]), "largest": np.array([5.0])})
    >>> second = Moments({"sum": np.array([3.0, 4.0]), "largest": np.array([2.0])})
    >>> total = first + second
    >>> total["sum"].tolist(), total["largest"].tolist()
    ([4.0, 6.0], [5.0])
    """

    def __add__(self, other: Self) -> Self:
        if self.arrays.keys() != other.arrays.keys():
            raise ValueError(
                f"moments of different kinds: {sorted(self.arrays)} and {sorted(other.arrays)}"
            )
        counted = {}
        if "codes" in self.arrays:
            counted = _counts_by_code(self, other)
        both = (
            (name, array, other.arrays[name])
            for name, array in self.arrays.items()
            if name not in counted
        )
        added = {name: np.asarray(EXTREMES.get(name, np.add)(one, two)) for name, one, two in both}
        return type(self)(added | counted)


def _counts_by_code(one: Record, two: Record) -> dict[str, NDArray[Any]]:
    """The codes that either record has, rising, and the sums of their rows of counts."""
    codes = np.union1d(one["codes"], two["codes"])
    counts = np.zeros((len(codes), *one["counts"].shape[1:]), np.int64)
    for each in (one, two):
        counts[np.searchsorted(codes, each["codes"])] += each["counts"]
    return {"counts": counts, "codes": codes}


class Stacked(Record):
    """Arrays with an entry for each row of a table; `one + two` concatenates their rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.records import Stacked
    >>> total = Stacked({"row": np.array([1, 2])}) + Stacked({"row": np.array([3])})
    >>> total["row"].tolist()
    [1, 2, 3]
    """

    def __add__(self, other: Stacked) -> Stacked:
        return Stacked(
            {
                name: np.concatenate([array, other.arrays[name]])
                for name, array in self.arrays.items()
            }
        )


class Summable(Protocol):
    """Anything with a `+`: records of sums, tuples of names, delayed results of either."""

    def __add__(self, other: Any, /) -> Any: ...


class TreeSum[AnySummable: Summable]:
    """A sum whose rounding does not depend on how the work was divided: it has a fixed tree.

    Leaves are added in chains of neighbours, then chains in pairs, level by level; an odd last
    chain moves up a level.  The tree depends on the number of leaves alone.  Every sum over row
    spans is made here, so that every executor gets the same bits.  Sums of whole chains, added with
    `chain=1`, give the bits of all their leaves.

    Parameters
    ----------
    chain : int
        The number of leaves of a chain; by default 33.

    Examples
    --------
    >>> from dshap.records import TreeSum
    >>> total = TreeSum()
    >>> for leaf in range(100):
    ...     total.add(leaf)
    >>> total.total()
    4950
    """

    def __init__(self, chain: int = CHAIN) -> None:
        self._chain = chain
        self._stack: list[tuple[int, AnySummable]] = []  # (n leaves, their sum), n falling

    def add(self, leaf: AnySummable) -> None:
        """Add the next leaf, in order."""
        stack = self._stack
        if stack and stack[-1][0] < self._chain:
            size, total = stack.pop()
            size = size + 1
            total = total + leaf
        else:
            size = 1
            total = leaf
        # two finished sums of as many leaves become one, as carries of a binary counter do: few
        # sums are in memory at once
        while size >= self._chain and stack and stack[-1][0] == size:
            size = 2 * size
            total = stack.pop()[1] + total
        stack.append((size, total))

    def total(self) -> AnySummable:
        """The sum of all leaves, at least one; none stays in memory afterwards."""
        total = self._stack.pop()[1]
        while self._stack:
            total = self._stack.pop()[1] + total
        return total


def tree_sum[AnySummable: Summable](leaves: Iterable[AnySummable]) -> AnySummable:
    """Add leaves, such as records of sums, in the fixed tree of `TreeSum`.

    Parameters
    ----------
    leaves : iterable of objects with a `+`
        At least one, in their order.

    Returns
    -------
    object of the type of the leaves
        Their sum.

    Examples
    --------
    >>> from dshap.records import tree_sum
    >>> tree_sum([0.1, 0.2, 0.3]) == (0.1 + 0.2) + 0.3
    True
    """
    found = TreeSum[AnySummable]()
    for leaf in leaves:
        found.add(leaf)
    return found.total()


def n_left_leaves(n_leaves: int) -> int:
    """The number of leaves in the left of the two sums that `TreeSum` adds last.

    It is a chain, or the largest number of chains that is a power of two and leaves some over.  Of one
    chain it is all but the last leaf.

    Examples
    --------
    >>> from dshap.records import n_left_leaves
    >>> n_left_leaves(34), n_left_leaves(100)  # a chain of 33 leaves, and two chains
    (33, 66)
    >>> n_left_leaves(10)
    9
    """
    if n_leaves <= CHAIN:
        return n_leaves - 1
    n_chains = math.ceil(n_leaves / CHAIN)
    return CHAIN * 2 ** ((n_chains - 1).bit_length() - 1)


def n_partial_sums(n_leaves: int) -> int:
    """The most sums of n leaves that a process has in memory at once.

    They are those of one addition, its result, and the finished chains.

    Examples
    --------
    >>> from dshap.records import n_partial_sums
    >>> n_partial_sums(2)
    3
    >>> n_partial_sums(1_000_000) < 50
    True
    """
    addition = min(n_leaves, FAN_IN) + (n_leaves > 1)
    return addition + math.ceil(math.log2(max(1.0, n_leaves / CHAIN)))
