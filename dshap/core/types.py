"""The core protocols that all other modules share.

One sum runs through the whole program::

    attribution (n, d, k) = finish( sum over coalition tiles of  values (n, m, k) x score (m, d) )

A `Design` chooses coalitions and scores, a `ValueFunction` computes the value of a coalition for
an instance, and the engine tiles both axes.  Axis letters, everywhere: n instances, d players, m
coalitions, k outputs, b background rows, r landmarks.  v(empty) is the base value, v(N) the
prediction.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import Attribution, CoalitionBlock, DesignInfo, RowBlock
from dshap.core.fixed_words import MissingRule
from dshap.core.players import Players
from dshap.core.records import JSON, BoolArray, Cost, FloatArray, Moments, Record, State


@runtime_checkable
class Design(Protocol):
    """A list of coalitions, and the rule that turns their values into attributions.

    A design receives only the values of its coalitions; it depends on neither a model nor data.
    """

    @property
    def info(self) -> DesignInfo:
        """The sizes and properties of the design."""
        ...

    def block(self, start: int, stop: int) -> CoalitionBlock:
        """Coalitions start..stop; every call returns the same ones, on any worker."""
        ...

    def finish(self, sums: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        """Attributions (n, d, k) from sums (n, d, k) of values × scores over *all* coalitions.

        `v_empty` and `v_full`, (n, k), are the values of the empty and of the full coalition.
        """
        ...

    def replicates(
        self, sums: FloatArray, groups: FloatArray, v_empty: FloatArray, v_full: FloatArray
    ) -> FloatArray:
        """Jackknife replicates phi_(g) (R, n, d, k): attributions with group g left out.

        They follow from the sums (n, d, k), those of the groups (R, n, c, k) and the two ends
        (n, k).  They are scaled such that std_error² = Σ_g (phi_(g) − phi)², for means over
        instances and outputs too.
        """
        ...

    def with_players(self, n_players: int) -> Design:
        """Return this kind of design for another number of players."""
        ...

    def fingerprint(self) -> dict[str, JSON]:
        """Name and parameters; two designs with equal fingerprints produce the same numbers."""
        ...


@runtime_checkable
class RowReader(Protocol):
    """A table that tasks on workers read in spans of rows: the protocol of all sources.

    A reader can be pickled.  It is small, unless it contains arrays in memory; a worker opens any
    other table again.
    """

    @property
    def n_rows(self) -> int:
        """The number of rows of the table."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns to explain, in the order of `RowBlock.x`."""
        ...

    @property
    def key_names(self) -> tuple[str, ...]:
        """The key columns; empty without a key."""
        ...

    @property
    def key_dtypes(self) -> Mapping[str, str]:
        """Key column -> "int64", "datetime64[ns]" or "string"."""
        ...

    @property
    def target_names(self) -> tuple[str, ...]:
        """The target columns; empty without a target."""
        ...

    @property
    def has_target(self) -> bool:
        """Whether the table has a target."""
        ...

    @property
    def column_dtypes(self) -> Mapping[str, np.dtype]:
        """Feature column -> its own dtype, one for the whole table."""
        ...

    @property
    def missing(self) -> MissingRule:
        """The treatment of rows with NaN or infinity: "refuse", "skip" or "pass"."""
        ...

    def read(
        self,
        start: int,
        stop: int,
        *,
        keys: bool = False,
        target: bool = False,
        columns: bool = False,
    ) -> RowBlock:
        """Rows start..stop, if asked for with keys, target, and columns in their own dtypes."""
        ...

    def read_bytes(self, n_rows: int) -> int:
        """Peak bytes of reading n_rows beyond the block that is returned."""
        ...

    @property
    def null_counts(self) -> Mapping[str, int | None]:
        """Feature, key or target -> nulls in the whole table; None if counting needs the rows."""
        ...

    @property
    def stamp(self) -> Mapping[str, JSON] | None:
        """Plain values that identify these rows, found without reading them; None: unknown.

        The same stamp means the same rows, so that the results of an earlier run on them are still
        valid.
        """
        ...

    def describe(self) -> str:
        """One line for plans and logs."""
        ...


class RecordStore(Protocol):
    """Create-only files of records, known by name."""

    def has(self, name: str) -> bool: ...
    def put(self, name: str, record: Record) -> None: ...
    def get(self, name: str, kind: type[Record]) -> Any: ...
    def remove(self, name: str) -> None: ...
    def names(self) -> Iterator[str]: ...
    def mend(self, names: Iterable[str] | None = None) -> list[str]:
        """Remove the damaged ones of these records (all if None); returns their names."""
        ...


@runtime_checkable
class Pass(Protocol):
    """One pass over a table: a sum over its rows, and the result that follows from it."""

    @property
    def wants(self) -> tuple[str, ...]:
        """Fields of a block needed beside its rows: "target", "predictions", "keys", "columns"."""
        ...

    def partial(self, block: RowBlock) -> Any:
        """The contribution of these rows: `Moments`, `Stacked` rows, or a tuple."""
        ...

    def finish(self, total: Any) -> Any:
        """The result of the sum over all rows, or the next pass."""
        ...


@runtime_checkable
class Attributor(Protocol):
    """Any method that explains rows: rows in, attributions out."""

    def attribute(self, rows: FloatArray) -> Attribution:
        """Attributions of rows (n, columns)."""
        ...


@runtime_checkable
class Divided(Attributor, Protocol):
    """An attributor whose coalitions several tasks share; parts of its sum are stored and added."""

    @property
    def n_parts(self) -> int: ...
    def part(self, rows: FloatArray, index: int) -> Moments:
        """The sums over one part of the coalitions for these rows."""
        ...

    def attribute_parts(self, rows: FloatArray, parts: Iterable[Moments]) -> Attribution:
        """Attributions of rows (n, columns) from all parts, in their order."""
        ...


@runtime_checkable
class Link(Protocol):
    """A function g of expectations, such as the logarithm: v_S(x) = g(E f) is attributed."""

    @property
    def is_identity(self) -> bool:
        """Whether link values are the expectations themselves."""
        ...

    @property
    def is_by_row(self) -> bool:
        """Whether v(empty) differs from row to row."""
        ...

    @property
    def scale(self) -> str:
        """The scale of the link values, a name of `core.scales.MEANINGS`.

        With the identity it is the scale of the predictions.
        """
        ...

    def bound(self, names: Sequence[str]) -> Link:
        """Return this link for outputs of these names; an InputError if it does not fit them."""
        ...

    def outputs(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the k' attributed outputs, from the names of the k predicted outputs."""
        ...

    def classes(self, prediction: FloatArray) -> NDArray[np.int16] | None:
        """(n,): the output that each row is explained for; None if it is the same for all rows.

        It follows from the predictions (n, k).
        """
        ...

    def check(self, prediction: FloatArray) -> None:
        """Raise if predictions (n, k) are outside the domain of the link."""
        ...

    def __call__(self, expected: FloatArray, prediction: FloatArray) -> FloatArray:
        """Link values (n, m, k') of expectations (n, m, k) of rows with predictions (n, k)."""
        ...

    def describe(self) -> str:
        """A few words for plans and logs."""
        ...

    def fingerprint(self) -> dict[str, JSON]:
        """Name and parameters: everything that changes a link value."""
        ...


@runtime_checkable
class Predictor(Protocol):
    """The model f that is explained, with the names of its columns and outputs."""

    @property
    def n_columns(self) -> int:
        """The number of columns of the rows."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns that the model was fitted on; None if it was fitted without."""
        ...

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the k outputs before a link."""
        ...

    @property
    def scale(self) -> str:
        """The scale of the outputs before a link, a name of `core.scales.MEANINGS`."""
        ...

    @property
    def categories(self) -> Mapping[str, tuple[Hashable, ...]]:
        """Column -> its categories; rows contain positions in that list (NaN if missing)."""
        ...

    def with_categories(self, categories: Mapping[str, tuple[Hashable, ...]]) -> Predictor:
        """Return this model with longer lists of categories; each begins with the current list."""
        ...

    @property
    def check(self) -> Callable[[FloatArray], None] | None:
        """A function that raises an `InputError` for rows (n, columns) that cannot be explained.

        None if every row of numbers can be.
        """
        ...

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Predictions f(x) (n, k) in float64 of rows (n, columns): v(N)."""
        ...

    def predict_bytes(self, n: int) -> int:
        """The most bytes that a call with n rows needs: the predictions too, but not the rows."""
        ...

    def fingerprint(self) -> dict[str, JSON]:
        """Everything that changes a prediction."""
        ...


@runtime_checkable
class Explained(Protocol):
    """A model, its players, its link and the background data."""

    @property
    def model(self) -> Predictor:
        """The model that is explained."""
        ...

    @property
    def players(self) -> Players:
        """The players of the game; columns of no player are absent from every coalition."""
        ...

    @property
    def link(self) -> Link:
        """The link that the engine applies to values and to the two ends before the attribution."""
        ...

    @property
    def data(self) -> Any:
        """The background: rows whose mean prediction is v(empty), and that are learned from.

        It is an array, or any data that `explain` accepts; None for a closed form of the model
        alone, which then leaves out no player for a constant column.
        """
        ...

    @property
    def notes(self) -> Mapping[str, JSON]:
        """Facts to record beside the cube, such as how a model was reduced."""
        ...

    def fingerprint(self) -> dict[str, JSON]:
        """Name, options and array digests: everything that changes a value."""
        ...


@runtime_checkable
class ValueFunction(Explained, Protocol):
    """The rule that gives a coalition S of players its value v_S(x) for an instance x.

    It is evaluated for proper coalitions only: v(empty) and v(N) are computed from predictions of
    the model.  It does not depend on the design.
    """

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """Do all work on the coalitions masks (m, d) that does not depend on an instance."""
        ...

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """Values (n, m, k) of the prepared coalitions for a micro-block of rows (n, columns)."""
        ...

    def cost(self, m: int, n: int = 1) -> Cost:
        """Bytes and operations of m coalitions and n rows."""
        ...


@runtime_checkable
class GivenAttributor(Explained, Attributor, Protocol):
    """An attributor that `explain` accepts in place of a value function.

    It has a model, players and a link too, as a value function has.
    """

    @property
    def n_replicates(self) -> int:
        """The number of groups of its standard errors, R; 0 if it has none."""
        ...

    def cost(self, n: int = 1) -> Cost:
        """Bytes and operations of n rows."""
        ...


def replaced[AnyValue: Explained](value: AnyValue, **parts: Any) -> AnyValue:
    """A copy of a value function with another `model`, other `players`, or other `data`.

    Workers have data=None.
    """
    other = copy.copy(value)
    vars(other).update(parts)
    return other
