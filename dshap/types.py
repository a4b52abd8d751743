"""The narrow waist: the records and protocols that every floor speaks.

One sum runs through the whole program::

    attribution (n, d, k) = finish( sum over coalition tiles of  values (n, m, k) x score (m, d) )

A `Design` chooses coalitions and scores, a `ValueFunction` says what a coalition is worth for an instance, and the
engine tiles both axes.  Axis letters, everywhere: n instances, d players, m coalitions, k outputs, b background rows,
r landmarks.  v(empty) is the base value, v(N) the prediction.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dshap.players import Players

__all__ = [
    "EMPTY",
    "FULL",
    "N_ENDS",
    "Attribution",
    "BoolArray",
    "HasClosedForm",
    "OwnBase",
    "WeightsData",
    "StreamsData",
    "ChoosesFromSample",
    "LearnsFromData",
    "ValuesAtOnce",
    "Rounds",
    "Pilot",
    "Interactions",
    "Stacked",
    "RecordStore",
    "Pass",
    "Divided",
    "Attributor",
    "Checked",
    "ClosedForm",
    "CoalitionBlock",
    "Cost",
    "Design",
    "DirectSums",
    "DesignInfo",
    "EstimatedBase",
    "FloatArray",
    "Groups",
    "Link",
    "Moments",
    "PairedForm",
    "Predictor",
    "Record",
    "RowBlock",
    "RowReader",
    "State",
    "Status",
    "Threaded",
    "ValueFunction",
    "digest_of",
    "n_partial_sums",
    "relative_errors",
    "replaced",
    "tree_sum",
]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
JSON = Any

FAN_IN = 5
"""Sums that one task of a cluster adds, at most.  A worker learns of an addition when it is at its next leaf already:
if each added but two, one after the other, they would fall behind the leaves, which would wait in memory."""
CHAIN = 1 + 8 * (FAN_IN - 1)
"""Leaves of a sum that are added one after the other: of two million rows, before more rows mean more partial sums."""

EMPTY, FULL, N_ENDS = 0, 1, 2
"""Every design lists the empty coalition first and the full one second; proper coalitions begin at `N_ENDS`.
Their values are v(empty) and v(N), taken from the model in float64, so a value function is never asked for them."""


class Groups(NamedTuple):
    """Entries of the jackknife groups of a design: a value enters the sum of one group, of several, or of none."""

    coalition: NDArray[np.intp]
    """(e,): position in the block."""
    group: NDArray[np.int16]
    """(e,): 0 to R - 1."""
    score: FloatArray
    """(e, c): what the value is multiplied with in the sum of this group, c the `group_columns` of the design."""

    @classmethod
    def none(cls, n_columns: int) -> Groups:
        """No entry."""
        return cls(np.zeros(0, np.intp), np.zeros(0, np.int16), np.zeros((0, n_columns)))

    def parts(self) -> list[tuple[int, NDArray[np.intp], FloatArray]]:
        """(group, positions, scores) of every group that has entries here."""
        own = ((int(g), self.group == g) for g in np.unique(self.group))
        return [(g, self.coalition[chosen], self.score[chosen]) for g, chosen in own]


class CoalitionBlock(NamedTuple):
    """Coalitions start..stop of a design."""

    masks: BoolArray
    """(m, d): player i is present in coalition j."""
    score: FloatArray
    """(m, d): what the value of each coalition is multiplied with."""
    groups: Groups
    """What enters the sums of the jackknife groups."""


@dataclass(frozen=True)
class DesignInfo:
    """What is known of a design before any value is."""

    n_players: int
    """d"""
    n_coalitions: int
    """m: distinct coalitions, the empty and the full one counted."""
    n_replicates: int
    """R: groups of the standard errors, 0 where there is no sampling error or none is asked for."""
    group_columns: int
    """c: columns of a group's sum; d, or less where the errors of the players go together."""
    is_efficient: bool = True
    """phi.sum(1) + base == prediction holds by construction."""
    why_no_errors: str = ""
    """Why all standard errors are NaN (too few coalitions); empty where they are not."""
    seed: int = 0
    """0 too where nothing is drawn."""
    kept_bytes: int = 0
    """What a process keeps, and needs at most, to make blocks and replicates."""
    coalition_bytes: int = 0
    """Of each coalition of a block beside that; 0: of a mask, of scores, and of scores in a group or two."""

    def block_bytes(self, m: int) -> int:
        """Peak bytes of a block of m coalitions and of taking its groups apart, `kept_bytes` counted."""
        of_groups = 8 * self.group_columns + 26 * self.n_replicates if self.n_replicates else 0
        return self.kept_bytes + m * (self.coalition_bytes or 9 * self.n_players + of_groups)


@runtime_checkable
class Design(Protocol):
    """Which coalitions are evaluated and how their values become attributions; knows nothing of models or data."""

    @property
    def info(self) -> DesignInfo: ...
    def block(self, start: int, stop: int) -> CoalitionBlock:
        """Coalitions start..stop, the same on any worker, in any order of asking."""
        ...

    def finish(self, sums: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        """Attributions (n, d, k) from sums (n, d, k) over *all* coalitions and the two ends (n, k)."""
        ...

    def replicates(self, sums: FloatArray, groups: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        """phi_(g) (R, n, d, k) from the sums (n, d, k), those of the groups (R, n, c, k) and the two ends (n, k).

        They are scaled such that std_error² = Σ_g (phi_(g) − phi)², for means over instances and outputs too.
        """
        ...

    def with_players(self, n_players: int) -> Design:
        """A design of this kind for another number of players."""
        ...

    def fingerprint(self) -> dict[str, JSON]:
        """Name and parameters; two designs with one fingerprint are the same design."""
        ...


@runtime_checkable
class Rounds(Design, Protocol):
    """A design that grows."""

    @property
    def stages(self) -> tuple[Design, ...]:
        """The designs that this one grew through, each one's list the beginning of the next one's; itself last."""
        ...


@runtime_checkable
class Pilot(Design, Protocol):
    """A design that chooses from the values of a few rows."""

    @property
    def pilot_coalitions(self) -> int:
        """Coalitions, the first of the list, whose values `tune` wants to see; 0 where nothing is left to choose."""
        ...

    def tune(self, values: FloatArray) -> Record:
        """What is chosen from the values (games, pilot_coalitions) of some instances and outputs."""
        ...

    def tuned(self, record: Record) -> Design:
        """This design with that choice made, which may leave a next one open; `pilot_coalitions` stay in the list, and
        where the record is empty the rest of the list is settled too."""
        ...


@runtime_checkable
class Interactions(Design, Protocol):
    """A design that gives the interactions of pairs of players too."""

    def interactions(self, start: int, stop: int) -> FloatArray:
        """Scores (m, pairs) of coalitions start..stop: what their values are multiplied with in the Shapley interaction
        index of each pair of players i < j, in the order of `np.triu_indices(d, 1)`; the two ends too."""
        ...


@runtime_checkable
class ValuesAtOnce(Design, Protocol):
    """A design that may want the values of all coalitions at once: its attributions are not linear in them then."""

    @property
    def held_coalitions(self) -> int:
        """Coalitions whose values `of_values` wants at once, all of them or, where the two sums of a `Design` are
        enough, 0; of a design that a pilot is to choose by, what the choice may come to."""
        ...

    def of_values(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """phi (n, d, k) and phi_(g) (R, n, d, k) from the values (n, m, k) of all coalitions, in the order of the list,
        where `held_coalitions` is not 0."""
        ...

    def linear(self) -> Design:
        """This design, or one like it whose `held_coalitions` are 0: linear in the values."""
        ...


def digest_of(content: JSON) -> str:
    """blake2b of plain values, as text."""
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=10).hexdigest()


@dataclass(frozen=True)
class Record:
    """A flat record of named numpy arrays: sent, hashed and stored as arrays, never pickled as objects."""

    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, array in self.arrays.items():
            if not isinstance(array, np.ndarray) or array.dtype.hasobject:
                raise TypeError(f"{type(self).__name__}[{name!r}] must be a numpy array of plain values")

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    def digest(self) -> str:
        """blake2b over names, dtypes, shapes and values (little-endian)."""
        hasher = hashlib.blake2b(digest_size=16)
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            hasher.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
            hasher.update(array.tobytes())
        return hasher.hexdigest()

    def to_bytes(self) -> bytes:
        """The .npz file of this record (uncompressed; opens with `numpy.load`, no pickle)."""
        buffer = io.BytesIO()
        np.savez(buffer, **self.arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def load(cls, file: str | Path | IO[bytes]) -> Self:
        """The record in an .npz file."""
        with np.load(file, allow_pickle=False) as stored:
            return cls({name: stored[name] for name in stored.files})


class State(Record):
    """What a value function prepared for one tile of coalitions; no instance changes it."""


@dataclass(frozen=True)
class Cost:
    """What a value function takes for m coalitions and n rows: bytes, at most, and floating-point operations."""

    state_bytes: int
    """Of the State."""
    prepare_bytes: int
    """Peak of `prepare`, Moments and State counted."""
    task_bytes: int
    """Peak of `evaluate`, `scored` or `attribute` on a micro-block of n rows, the result counted."""
    operations: float
    """Of the values of n rows; infinity where a black box hides them."""
    moment_bytes: int = 0
    """Of the Moments."""
    moment_task_bytes: int = 0
    """Peak of `moments` on n rows, the returned Moments counted."""
    moment_operations: float = 0.0
    """Of `moments` on n rows."""
    row_bytes: int = 0
    """What `scored` holds of a tile of n rows beside a micro-block."""
    pair_bytes: int = 0
    """Peak of the interactions of a closed form on n rows."""


Scored = Callable[[FloatArray, int], tuple[FloatArray, FloatArray | None]]
"""rows (n, columns), rows of a micro-block -> Σ_S v_S(x) score_S (n, d, k), and predictions (n, k) or None."""


AnyMoments = TypeVar("AnyMoments", bound="Moments")


class Moments(Record):
    """Sums over rows.  Adding two records adds every array, so any tree over row spans gives the same quantity."""

    def __add__(self: AnyMoments, other: AnyMoments) -> AnyMoments:
        if self.arrays.keys() != other.arrays.keys():
            raise ValueError(f"moments of different kinds: {sorted(self.arrays)} and {sorted(other.arrays)}")
        return type(self)({name: np.asarray(array + other.arrays[name]) for name, array in self.arrays.items()})


class Stacked(Record):
    """Arrays by row.  Adding two records puts the rows of one after those of the other."""

    def __add__(self, other: Stacked) -> Stacked:
        return Stacked({name: np.concatenate([array, other.arrays[name]]) for name, array in self.arrays.items()})


class Summable(Protocol):
    """Anything with a `+`: records of sums, tuples of names, promises of either."""

    def __add__(self, other: Any, /) -> Any: ...


AnySummable = TypeVar("AnySummable", bound=Summable)


def tree_sum(leaves: Iterable[AnySummable]) -> AnySummable:
    """Sum of chains of `CHAIN` neighbours, and of neighbouring chains level by level, an odd last one moved up.

    The tree depends on the number of leaves alone.  Every sum over row spans goes through here, so that whoever adds
    gets the same bits.
    """
    stack: list[tuple[int, AnySummable]] = []  # (leaves in it, their sum), sizes falling
    for leaf in leaves:
        if stack and stack[-1][0] < CHAIN:
            size, total = stack.pop()
            size, total = size + 1, total + leaf
        else:
            size, total = 1, leaf
        while size >= CHAIN and stack and stack[-1][0] == size:
            size, total = 2 * size, stack.pop()[1] + total
        stack.append((size, total))
    total = stack.pop()[1]
    while stack:
        total = stack.pop()[1] + total
    return total


def n_partial_sums(n_leaves: int) -> int:
    """Sums of n leaves that lie in a process at once, at most: of one addition, its result, and of finished chains."""
    addition = min(n_leaves, FAN_IN) + (n_leaves > 1)
    return addition + math.ceil(math.log2(max(1.0, n_leaves / CHAIN)))


class Status:
    """CF flag values of `status (instance)`: the honest story of NaN while a cube grows."""

    PENDING, OK, SKIPPED, FAILED = 0, 1, 2, 3
    MEANINGS = ("pending", "ok", "skipped", "failed")


@dataclass(frozen=True)
class Attribution:
    """Attributions of n instances, in the order of the rows."""

    phi: FloatArray
    """(n, d, k)"""
    base: FloatArray
    """(k,): v(empty), the mean prediction over the background; (n, k) where the link makes it differ."""
    prediction: FloatArray
    """(n, k): v(N)."""
    status: NDArray[np.int8]
    """(n,): see `Status`."""
    replicates: FloatArray | None = None
    """(R, n, d, k): phi_(g) of `Design.replicates`; None where the design gives none."""

    n_coalitions: NDArray[np.int32] | None = None
    """(n,): coalitions that a row took; None where all rows take all."""

    interaction: FloatArray | None = None
    """(n, d, d, k): half the Shapley interaction index beside the diagonal, main effects on it; rows sum to phi."""

    classes: NDArray[np.int16] | None = None
    """(n,): the class that a row is explained for, where the link takes the predicted one."""

    stated: Mapping[str, Sequence[float] | float] = field(default_factory=dict)
    """What a closed form found when these rows were checked: see `Checked.stated`."""

    @property
    def relative_error(self) -> FloatArray | None:
        """(n, k): the largest std_error of a player over the range of the attributions; NaN where errors are."""
        errors = self.std_error
        return None if errors is None else relative_errors(self.phi, errors, self.base, self.prediction)

    @property
    def std_error(self) -> FloatArray | None:
        """(n, d, k), in the units of phi."""
        if self.replicates is None:
            return None
        errors: FloatArray = np.sqrt(np.square(self.replicates - self.phi).sum(axis=0))
        return errors


ROUNDING = 1e-12
"""Of the values of the two ends: a smaller standard error is none."""


def relative_errors(phi: FloatArray, std_error: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
    """max over players of std_error over the range of φ, both (n, d, k): (n, k); 0 where the error is rounding.

    The range of noisy φ̂ is larger than that of φ: of max φ̂ − min φ̂ the part √(1 − mean std_error²/var φ̂) counts, so
    that the ratio is infinite where nothing but noise tells the players apart.
    """
    largest, spread = std_error.max(axis=1), phi.var(axis=1)
    largest = np.where(largest <= ROUNDING * (np.abs(v_empty) + np.abs(v_full)), 0.0, largest)
    noise = np.square(std_error).mean(axis=1)
    signal = np.divide(np.maximum(spread - noise, 0.0), spread, out=np.zeros_like(spread), where=spread > 0)
    span = np.ptp(phi, axis=1) * np.sqrt(signal)
    ratio: FloatArray = np.divide(largest, span, out=np.where(largest == 0, 0.0, np.inf), where=span > 0)
    return np.where(np.isnan(largest), np.nan, ratio)


@dataclass(frozen=True)
class RowBlock:
    """Consecutive rows of a table, as the tasks read them."""

    start: int
    """Position of the first row in the table."""
    x: FloatArray
    """(n, columns) float64: the feature columns in the order of `RowReader.feature_names`."""
    is_ok: BoolArray
    """(n,): False where a feature holds NaN or infinity and `missing` is not "pass"."""
    keys: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """key column -> (n,): int64, datetime64[ns] or StringDType."""
    target: FloatArray | None = None
    """(n,) or (n, k), only where asked for."""
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """feature column -> (n,) in its own dtype, only where asked for."""
    predictions: FloatArray | None = None
    """f (good rows, k), only where asked for."""

    @property
    def stop(self) -> int:
        return self.start + len(self.x)

    @property
    def positions(self) -> NDArray[np.int64]:
        """(n,): of the rows in the table."""
        return self.start + np.arange(len(self.x))

    @property
    def targets(self) -> FloatArray:
        """`target`, which was asked for."""
        if self.target is None:
            raise ValueError("the reader was opened without a target")
        return np.asarray(self.target)

    @property
    def good(self) -> FloatArray:
        """The rows (n, columns) that are ok."""
        return self.x[self.is_ok]


@runtime_checkable
class RowReader(Protocol):
    """How a task reads its rows.  Small, picklable (arrays in memory excepted), opened on the worker."""

    @property
    def n_rows(self) -> int: ...
    @property
    def feature_names(self) -> tuple[str, ...]: ...
    @property
    def key_names(self) -> tuple[str, ...]: ...
    @property
    def key_dtypes(self) -> Mapping[str, str]:
        """key column -> "int64", "datetime64[ns]" or "string"."""
        ...

    @property
    def has_target(self) -> bool: ...
    @property
    def column_dtypes(self) -> Mapping[str, np.dtype[Any]]:
        """feature column -> its own dtype, one for the whole table."""
        ...

    @property
    def missing(self) -> str:
        """ "refuse", "skip" or "pass"."""
        ...

    def read(
        self, start: int, stop: int, *, keys: bool = False, target: bool = False, columns: bool = False
    ) -> RowBlock: ...

    def read_bytes(self, n_rows: int) -> int:
        """Peak bytes that reading n_rows takes beyond the block that is returned."""
        ...


class RecordStore(Protocol):
    """Create-only files of records, known by name."""

    def has(self, name: str) -> bool: ...
    def put(self, name: str, record: Record) -> None: ...
    def get(self, name: str, kind: type[Record]) -> Any: ...
    def remove(self, name: str) -> None: ...
    def mend(self, names: Iterable[str] | None = None) -> list[str]:
        """Remove the damaged ones of these records (all where None); gives their names."""
        ...


@runtime_checkable
class Pass(Protocol):
    """One way to learn: a sum over the rows of a table, and what follows from it."""

    @property
    def wants(self) -> tuple[str, ...]:
        """What of a block is needed beside its rows: "target", "predictions"."""
        ...

    def partial(self, block: RowBlock) -> Any:
        """What these rows add: `Moments`, or `Stacked` rows."""
        ...

    def finish(self, total: Any) -> Any:
        """What is learnt from the sum over all rows; or the next pass."""
        ...


class Attributor(Protocol):
    """Rows in, attributions out."""

    def attribute(self, rows: FloatArray) -> Attribution:
        """Attributions of rows (n, columns)."""
        ...


@runtime_checkable
class Divided(Attributor, Protocol):
    """An attributor whose coalitions may be shared among tasks: parts of its sum are stored, and added."""

    @property
    def n_parts(self) -> int: ...
    def part(self, rows: FloatArray, index: int) -> Moments:
        """What one part of the coalitions gives for these rows."""
        ...

    def attribute_parts(self, rows: FloatArray, parts: Iterable[Moments]) -> Attribution:
        """Attributions of rows (n, columns) from all parts, in their order."""
        ...


@runtime_checkable
class Link(Protocol):
    """What an expectation E f is turned into before the attribution, such as its logarithm: v_S(x) = g(E f)."""

    @property
    def is_identity(self) -> bool: ...
    @property
    def is_by_row(self) -> bool:
        """True where v(empty) differs from row to row."""
        ...

    def bound(self, names: Sequence[str]) -> Link:
        """This link for outputs of these names, or an InputError."""
        ...

    def outputs(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the k' outputs that are attributed, of those of the k that are predicted."""
        ...

    def classes(self, prediction: FloatArray) -> NDArray[np.int16] | None:
        """(n,): the output that each row is explained for, by its prediction (n, k); None where rows do not differ."""
        ...

    def check(self, prediction: FloatArray) -> None:
        """Refuse predictions (n, k) that the link is not for."""
        ...

    def __call__(self, expected: FloatArray, prediction: FloatArray) -> FloatArray:
        """g (n, m, k') of expectations (n, m, k) of rows whose predictions are (n, k)."""
        ...

    def describe(self) -> str: ...
    def fingerprint(self) -> dict[str, JSON]: ...


@runtime_checkable
class Predictor(Protocol):
    """f: the model that is explained, with the names of what it takes and of what it gives."""

    @property
    def n_columns(self) -> int: ...
    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Of the columns that the model was fitted on, None when it knows none."""
        ...

    @property
    def output_names(self) -> tuple[str, ...]:
        """Of the k outputs, before a link."""
        ...

    @property
    def categories(self) -> Mapping[str, tuple[Any, ...]]:
        """column -> its categories, where rows hold their positions (NaN where missing)."""
        ...

    def with_categories(self, categories: Mapping[str, tuple[Any, ...]]) -> Predictor:
        """This model with longer lists, which begin with those that it has."""
        ...

    @property
    def check(self) -> Callable[[FloatArray], None] | None:
        """Refuses rows (n, columns) of numbers that cannot be explained, with an `InputError`; None: there are none."""
        ...

    def __call__(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, k) in float64 of rows (n, columns): v(N)."""
        ...

    def fingerprint(self) -> dict[str, JSON]:
        """Everything that changes a prediction."""
        ...


@runtime_checkable
class ValueFunction(Protocol):
    """What a coalition is worth for an instance: v_S(x), for proper coalitions S.  Knows nothing of estimators."""

    @property
    def model(self) -> Predictor:
        """What is explained."""
        ...

    @property
    def players(self) -> Players:
        """Whose coalitions are valued; columns of no player are absent from every coalition."""
        ...

    @property
    def link(self) -> Link:
        """What the engine turns values, and the two ends, into before the attribution."""
        ...

    @property
    def data(self) -> Any:
        """The rows whose mean prediction v(empty) is, and that is learnt from: an array, or whatever `explain`
        takes."""
        ...

    @property
    def notes(self) -> Mapping[str, JSON]:
        """What is known of it beyond its values; written beside the cube."""
        ...

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """All work on the coalitions masks (m, d) that no instance changes."""
        ...

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """values (n, m, k) of the prepared coalitions for a micro-block of rows (n, columns)."""
        ...

    def cost(self, m: int, n: int = 1) -> Cost:
        """Bytes and operations of m coalitions and n rows."""
        ...

    def fingerprint(self) -> dict[str, JSON]:
        """Name, options and array digests: everything that changes a value."""
        ...


AnyValue = TypeVar("AnyValue", bound="ValueFunction")


def replaced(value: AnyValue, **parts: Any) -> AnyValue:
    """A copy of a value function with another `model`, other `players`, or other `data`; workers hold data=None."""
    other = copy.copy(value)
    vars(other).update(parts)
    return other


@runtime_checkable
class LearnsFromData(ValueFunction, Protocol):
    """A value function whose `prepare` needs sums over all rows of its data."""

    @property
    def needs_predictions(self) -> bool:
        """True where `moments` wants f(x) of the rows, which are then computed once."""
        ...

    def moments(self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None) -> Moments:
        """Sums over these rows (n, columns) for the coalitions masks (m, d)."""
        ...

    def join(self, states: Sequence[State]) -> State:
        """One State of the coalitions of several, in their order: what the rows cost is then paid once."""
        ...


@runtime_checkable
class ChoosesFromSample(ValueFunction, Protocol):
    """A value function that chooses landmarks and the like from a sample of its data."""

    @property
    def sample_size(self) -> int:
        """Rows of `data` that `choose` wants to see; 0 when nothing is left to choose."""
        ...

    def choose(self, sample: FloatArray) -> State:
        """What is chosen from a sample (n, columns) of the data."""
        ...

    def chosen(self, choice: State) -> ValueFunction:
        """This value function with that choice made."""
        ...


@runtime_checkable
class StreamsData(ValueFunction, Protocol):
    """A value function whose values may be means over all rows of `data`, which are read when they are wanted."""

    @property
    def streams_data(self) -> bool:
        """False where its data are in memory, and `evaluate` gives the values."""
        ...

    def sums(self, state: State, rows: FloatArray, others: FloatArray) -> FloatArray:
        """What these rows of `data` (b, columns) add to values (n, m, k) times all their rows."""
        ...


@runtime_checkable
class WeightsData(ValueFunction, Protocol):
    """A value function whose rows of data may have weights."""

    @property
    def data_weights(self) -> FloatArray | None:
        """(b,): in the mean prediction; `data` then is an array.  None: all alike."""
        ...


@runtime_checkable
class OwnBase(ValueFunction, Protocol):
    """A value function whose v(empty) is not the mean prediction over its data."""

    def base(self, mean: FloatArray, state: Callable[[], State]) -> FloatArray:
        """v(empty) (k,) before the link, from the `mean` prediction (k,) over `data` and a prepared `state`."""
        ...


@runtime_checkable
class HasClosedForm(ValueFunction, Protocol):
    """A value function whose attributions can be had without coalitions."""

    @property
    def prefers_closed_form(self) -> bool:
        """True where the closed form is exact, or at least as good as any list of coalitions."""
        ...

    def closed_form(self) -> ClosedForm:
        """The closed form; itself where it is one."""
        ...


class Checked(NamedTuple):
    """What a closed form says of the attributions of a tile of rows, once they are there."""

    gap: FloatArray
    """(k,): the largest |Σφ + base − prediction| that its stated error explains, beyond rounding."""
    stated: Mapping[str, Sequence[float] | float]
    """name -> numbers of this tile; the cube states the largest of all tiles."""
    again: State | None = None
    """With which these rows are to be attributed anew; None where the attributions are good."""


@runtime_checkable
class DirectSums(ValueFunction, Protocol):
    """A value function that knows a shorter way to Σ_S v_S(x) score_S than the values."""

    def scored(self, state: State, score: FloatArray) -> Scored | None:
        """The sums for scores (m, d), predictions beside them where they come with it; None where the way is not for
        such scores."""
        ...


@runtime_checkable
class EstimatedBase(OwnBase, Protocol):
    """A value function whose v(empty) is an estimate of a distribution's, not the mean prediction over its data."""

    def base_note(self, state: State, mean: FloatArray) -> dict[str, JSON]:
        """What v(empty) is, its error, and the `mean` prediction (k,) over `data` beside it; written by the cube."""
        ...


@runtime_checkable
class ClosedForm(ValueFunction, Protocol):
    """A value function whose attributions need no coalition: it is asked for them, with its own stated error.

    For a tile of rows the engine calls `settled`, then `attribute` in micro-blocks, then `checked`, from `attribute` on
    again for as long as that gives another state.
    """

    def settled(self, state: State, rows: FloatArray, prediction: FloatArray) -> State:
        """The state for the rows (n, columns) of one tile, whose predictions are (n, k): what depends on them."""
        ...

    def attribute(self, state: State, rows: FloatArray) -> FloatArray:
        """phi (n, d, k) of rows (n, columns); Σ phi + state["base"] is the prediction, to the stated error."""
        ...

    def checked(self, state: State, rows: FloatArray, phi: FloatArray, gap: FloatArray) -> Checked:
        """What phi (n, d, k) of the rows of one tile leaves open; `gap` (n, k) is Σ phi + base − prediction."""
        ...

    @property
    def n_replicates(self) -> int:
        """R: groups of its standard errors, 0 where it has none."""
        ...

    def replicates(self, state: State, rows: FloatArray) -> FloatArray:
        """phi_(g) (R, n, d, k), with std_error² = Σ_g (phi_(g) − phi)²."""
        ...

    def describe_form(self) -> str:
        """What it is made with, in a line."""
        ...

    def stated_error(self, state: State) -> dict[str, JSON]:
        """What is left open whatever the rows are: which background, how far off."""
        ...


@runtime_checkable
class PairedForm(ClosedForm, Protocol):
    """A closed form that has interactions too."""

    def with_interactions(self) -> PairedForm:
        """This value function with what its interactions need, or an `InputError` where it has none after all."""
        ...

    def interactions(self, state: State, rows: FloatArray, phi: FloatArray) -> FloatArray:
        """The Shapley interaction index (n, pairs, k) of each pair of players i < j, in the order of
        `np.triu_indices(d, 1)`, of rows whose attributions are phi (n, d, k)."""
        ...


@runtime_checkable
class Threaded(ValueFunction, Protocol):
    """A value function whose work can be done by several threads at once, with the same numbers."""

    def with_threads(self, n_threads: int) -> Threaded:
        """This value function with so many."""
        ...
