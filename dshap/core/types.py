"""The narrow waist: the records and protocols that every floor speaks.

One sum runs through the whole program::

    attribution (n, d, k) = finish( sum over coalition tiles of  values (n, m, k) x score (m, d) )

A `Design` chooses coalitions and scores, a `ValueFunction` says what a coalition is worth for an
instance, and the engine tiles both axes.  Axis letters, everywhere: n instances, d players, m
coalitions, k outputs, b background rows, r landmarks.  v(empty) is the base value, v(N) the
prediction.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import Attribution, CoalitionBlock, DesignInfo, RowBlock
from dshap.core.players import Players
from dshap.core.records import JSON, BoolArray, Cost, FloatArray, Moments, Record, State

__all__ = [
    "Attributor",
    "Design",
    "Divided",
    "Explained",
    "GivenAttributor",
    "Link",
    "Pass",
    "Predictor",
    "RecordStore",
    "RowReader",
    "ValueFunction",
    "replaced",
]


@runtime_checkable
class Design(Protocol):
    """Which coalitions are evaluated and how their values become attributions; knows nothing of
    models or data."""

    @property
    def info(self) -> DesignInfo: ...
    def block(self, start: int, stop: int) -> CoalitionBlock:
        """Coalitions start..stop, the same on any worker, in any order of asking."""
        ...

    def finish(self, sums: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        """Attributions (n, d, k) from sums (n, d, k) over *all* coalitions and the two ends (n,
        k)."""
        ...

    def replicates(
        self, sums: FloatArray, groups: FloatArray, v_empty: FloatArray, v_full: FloatArray
    ) -> FloatArray:
        """phi_(g) (R, n, d, k) from the sums (n, d, k), those of the groups (R, n, c, k) and the
        two ends (n, k).

        They are scaled such that std_error² = Σ_g (phi_(g) − phi)², for means over instances and
        outputs too.
        """
        ...

    def with_players(self, n_players: int) -> Design:
        """A design of this kind for another number of players."""
        ...

    def fingerprint(self) -> dict[str, JSON]:
        """Name and parameters; two designs with one fingerprint are the same design."""
        ...


@runtime_checkable
class RowReader(Protocol):
    """How a task reads its rows.  Small, picklable (arrays in memory excepted), opened on the
    worker."""

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
        self,
        start: int,
        stop: int,
        *,
        keys: bool = False,
        target: bool = False,
        columns: bool = False,
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
        """What of a block is needed beside its rows: "target", "predictions", "keys", "columns"."""
        ...

    def partial(self, block: RowBlock) -> Any:
        """What these rows add: `Moments`, `Stacked` rows, or a tuple."""
        ...

    def finish(self, total: Any) -> Any:
        """What is learned from the sum over all rows; or the next pass."""
        ...


@runtime_checkable
class Attributor(Protocol):
    """Rows in, attributions out."""

    def attribute(self, rows: FloatArray) -> Attribution:
        """Attributions of rows (n, columns)."""
        ...


@runtime_checkable
class Divided(Attributor, Protocol):
    """An attributor whose coalitions may be shared among tasks: parts of its sum are stored, and
    added."""

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
    """What an expectation E f is turned into before the attribution, such as its logarithm: v_S(x)
    = g(E f)."""

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
        """(n,): the output that each row is explained for, by its prediction (n, k); None where
        rows do not differ."""
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
        """Refuses rows (n, columns) of numbers that cannot be explained, with an `InputError`;
        None: there are none."""
        ...

    def __call__(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, k) in float64 of rows (n, columns): v(N)."""
        ...

    def predict_bytes(self, n: int) -> int:
        """Peak bytes of a call with n rows beyond the rows, the predictions counted."""
        ...

    def fingerprint(self) -> dict[str, JSON]:
        """Everything that changes a prediction."""
        ...


@runtime_checkable
class Explained(Protocol):
    """What is explained: a model, by whom its predictions are shared, and the rows that its base
    value is over."""

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
        """The rows whose mean prediction v(empty) is, and that is learned from: an array, or
        whatever `explain` takes; None of a closed form of the model alone, which leaves out no
        player for a constant column."""
        ...

    @property
    def notes(self) -> Mapping[str, JSON]:
        """What is known of it beyond its values; written beside the cube."""
        ...

    def fingerprint(self) -> dict[str, JSON]:
        """Name, options and array digests: everything that changes a value."""
        ...


@runtime_checkable
class ValueFunction(Explained, Protocol):
    """What a coalition is worth for an instance: v_S(x), for proper coalitions S.  Knows nothing of
    estimators."""

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """All work on the coalitions masks (m, d) that no instance changes."""
        ...

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """values (n, m, k) of the prepared coalitions for a micro-block of rows (n, columns)."""
        ...

    def cost(self, m: int, n: int = 1) -> Cost:
        """Bytes and operations of m coalitions and n rows."""
        ...


@runtime_checkable
class GivenAttributor(Explained, Attributor, Protocol):
    """An attributor that `explain` takes in the place of a value function: it knows its model and
    players too."""

    @property
    def n_replicates(self) -> int:
        """R: groups of its standard errors, 0 where it has none."""
        ...

    def cost(self, n: int = 1) -> Cost:
        """Bytes and operations of n rows."""
        ...


AnyValue = TypeVar("AnyValue", bound="Explained")


def replaced(value: AnyValue, **parts: Any) -> AnyValue:
    """A copy of what is explained with another `model`, other `players`, or other `data`; workers
    hold data=None."""
    other = copy.copy(value)
    vars(other).update(parts)
    return other
