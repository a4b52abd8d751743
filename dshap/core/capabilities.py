"""Optional abilities of designs, value functions and readers: a small protocol for each.

Functions ask any object for an ability, so that it is looked for in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, Self, TypeGuard, runtime_checkable

import numpy as np

from dshap.core.blocks import DesignInfo, Scored
from dshap.core.draws import Draws, GroupedDraws
from dshap.core.errors import InputError
from dshap.core.records import (
    JSON,
    BoolArray,
    Cost,
    FloatArray,
    Moments,
    Record,
    State,
)
from dshap.core.types import Design, Explained, Pass, Predictor, RowReader, ValueFunction
from dshap.core.vocabulary import Vocabulary

MOSTLY_THERE = 4
"""The most members that an object may lack for a message to name them."""


@runtime_checkable
class Accumulates(Pass, Protocol):
    """A pass of several steps that keeps their results; workers get the next step alone."""

    @property
    def step(self) -> Pass:
        """The next step, without the results of the steps before."""
        ...

    def after(self, found: Any) -> Any:
        """The remaining pass, or what was learned, once the step has given this result."""
        ...


@runtime_checkable
class Rounds(Design, Protocol):
    """A design whose list of coalitions grew in rounds."""

    @property
    def rounds(self) -> tuple[Design, ...]:
        """The designs of all rounds, this one last; each list begins with the one before."""
        ...


@runtime_checkable
class Pilot(Design, Protocol):
    """A design that tunes itself to the values of a few rows."""

    @property
    def pilot_coalitions(self) -> int:
        """The number of coalitions, first in the list, that `tune` needs; 0: no choice is left."""
        ...

    def tune(self, values: FloatArray) -> Record:
        """Choose from the values (games, pilot_coalitions); a game is an instance and an output."""
        ...

    def tuned(self, record: Record) -> Design:
        """Return this design with that choice made; its list of coalitions may be another one.

        A further choice may stay open, with another number of `pilot_coalitions`.  With an empty
        record the rest of the list is settled too.
        """
        ...


@runtime_checkable
class Interactions(Design, Protocol):
    """A design that also estimates the interactions of pairs of players."""

    def interactions(self, start: int, stop: int) -> FloatArray:
        """Scores (m, pairs) of coalitions start..stop, the two ends included.

        They are the factors of the values in the Shapley interaction index of each pair of players
        i < j, in the order of `np.triu_indices(d, 1)`.
        """
        ...


@runtime_checkable
class ValuesAtOnce(Design, Protocol):
    """A design that may need the values of all coalitions at once, as it is not linear in them."""

    @property
    def held_coalitions(self) -> int:
        """The number of coalition values that `of_values` needs per row: all, or 0.

        It is 0 where weighted sums of the values suffice.  Before a pilot has chosen, it is the
        largest number that the choice may need.
        """
        ...

    def of_values(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Attributions (n, d, k) and replicates phi_(g) (R, n, d, k) from all values (n, m, k).

        The values are in the order of the list; used only where `held_coalitions` is not 0.
        """
        ...

    def linear(self) -> Design:
        """Return this design, or one like it that is linear in the values (`held_coalitions` is 0)."""
        ...

    @property
    def game_seconds(self) -> float:
        """Estimated seconds of one core that `of_values` takes per game.

        It is 0 where no pilot may still choose a model for each game by itself.
        """
        ...


@runtime_checkable
class ChecksRows(ValuesAtOnce, Protocol):
    """A design that can compare each row with those of its pilot, and estimate others apart."""

    @property
    def checks_rows(self) -> bool:
        """Whether rows are compared with those of the pilot."""
        ...

    def checking(self) -> Design:
        """Return this design, where rows are compared with those of its pilot."""
        ...

    def of_checked_values(self, values: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """As `of_values`, and whether the pilot serves each row (n,)."""
        ...


@runtime_checkable
class LearnsFromData(ValueFunction, Protocol):
    """A value function whose `prepare` needs sums over all rows of its data."""

    @property
    def needs_predictions(self) -> bool:
        """Whether `moments` needs f(x) of the rows, which are then computed once."""
        ...

    def moments(
        self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None
    ) -> Moments:
        """Sums over these rows (n, columns) for the coalitions masks (m, d)."""
        ...

    def join(self, states: Sequence[State]) -> State:
        """Join states of several tiles, in order, into one, so that work per row is done once."""
        ...


@runtime_checkable
class LearnsEnough(LearnsFromData, Protocol):
    """A value function that may learn from a part of the rows of its data."""

    @property
    def enough(self) -> float | str:
        """The largest error of attributions by learning from a part of the rows.

        It is in standard deviations of the predictions; "all": every row is learned from.
        """
        ...

    def learning_tolerance(value: object) -> float | None:
    """The largest error by learning from a part of the rows (`LearnsEnough`); None: all rows."""
    if isinstance(value, LearnsEnough) and value.enough != "all":
        return float(value.enough)
    return None


def needs_predictions(value: object) -> bool:
    """Whether the sums over rows need predictions."""
    return isinstance(value, LearnsFromData) and value.needs_predictions


def sample_size(value: object) -> int:
    """The number of rows of the data that it chooses from; 0: nothing is left to choose."""
    if isinstance(value, ChoosesFromSample):
        return value.sample_size
    return 0


def streams_data(value: object) -> bool:
    """Whether values are means over a table that is read while rows are explained."""
    return isinstance(value, StreamsData) and value.streams_data


def is_scaled(model: Predictor) -> TypeGuard[ScaledModel]:
    """Whether a model predicts on a scale of its own (`ScaledModel`)."""
    return isinstance(model, ScaledModel)


def tried_predictions(model: Predictor) -> FloatArray:
    """The predictions (n, k) that a model is known again by; no row where it has tried none."""
    if isinstance(model, TriedModel):
        return model.probe
    return np.empty((0, len(model.output_names)))


def is_of_texts(value: object) -> TypeGuard[OfTexts]:
    """Whether this is a value function of texts (`OfTexts`)."""
    return isinstance(value, OfTexts)


DRAW_REPLICATES = 20
"""The number of groups of draws where the design has no jackknife groups of its own."""


def draws_of(value: object) -> Draws | None:
    """The random draws that the values are means over; None where they have no such error."""
    if isinstance(value, MeanOfDraws) and not _has_other_values(type(value)):
        return value.draws
    return None


def _has_other_values(kind: type) -> bool:
    """Whether a class overrides `evaluate` below the class that `evaluate_without` belongs to."""
    names = [vars(each).keys() for each in kind.__mro__]
    first = {
        name: next((i for i, found in enumerate(names) if name in found), len(names))
        for name in ("evaluate", "evaluate_without")
    }
    return first["evaluate"] < first["evaluate_without"]


def draw_replicates(value: object, info: DesignInfo) -> int:
    """The number of replicates that carry the error of the draws behind the values.

    It is that of the design's jackknife groups, so that both errors share them.  0 where the values
    have no such error, and where the design was asked for no standard errors.
    """
    if draws_of(value) is None or not info.has_errors:
        return 0
    return info.n_replicates or DRAW_REPLICATES


def _cost_with_groups(value: ValueFunction, n_replicates: int, m: int, n: int = 1) -> Cost:
    """The cost of m coalitions and n rows whose values are computed without each group too.

    Sums and means of the groups, and both once more while a link is applied.
    """
    cost = value.cost(m, n)
    groups = 8 * 4 * (1 + n_replicates) * n * m * len(value.model.output_names)
    return replace(cost, task_bytes=cost.task_bytes + groups)


MICRO_ROWS = 1_024
MICRO_BYTES = 8 << 20
"""Rows that are evaluated at once, and bytes within which this stays near the cache."""


def _any_number(n_rows: int) -> None:
    """Accept any number of rows to learn from."""


@dataclass(frozen=True)
class Work:
    """The sizes and costs that a plan is made from.

    They are those of a value function and a design, of a closed form, or of an attributor.
    """

    value: Explained
    info: DesignInfo
    """Sizes of the design; for a closed form or an attributor, of the two ends and its groups."""
    cost: Callable[..., Cost]
    """Function (m proper coalitions, n rows) -> `Cost`, such as `ValueFunction.cost`."""
    learns: bool = False
    """Whether states need sums over all rows of the data."""
    sample_size: int = 0
    """The number of rows of the data that landmarks and the like are first chosen from."""
    streams: bool = False
    """Whether values are means over a table that is read while rows are explained."""
    is_closed_form: bool = False
    """Whether a closed form explains the rows, without a list of coalitions."""
    pilot_coalitions: int = 0
    held_coalitions: int = 0
    stage_coalitions: tuple[int, ...] = ()
    """The number of coalitions after each round of the design."""
    draw_replicates: int = 0
    """The number of replicates for the error of the draws behind the values; 0: no such error."""
    sums_predictions: bool = True
    """Whether a pass of its own sums the model's predictions of the data, where there are any."""
    micro_rows: int = MICRO_ROWS
    """The most rows that are evaluated at once."""
    micro_bytes: int = MICRO_BYTES
    """Bytes that one such evaluation should stay within."""
    check_data: Callable[[int], None] = _any_number
    """Function of the number of rows to learn from, which raises InputError where these are too many."""

    @classmethod
    def of(cls, value: ValueFunction, design: Design) -> Work:
        """The work of a value function and a design that lists its coalitions."""
        info = design.info
        n_replicates = draw_replicates(value, info)
        cost: Callable[..., Cost] = value.cost
        if n_replicates:
            cost = partial(_cost_with_groups, value, n_replicates)
        return cls(
            value=value,
            info=info,
            cost=cost,
            learns=learns_from_data(value),
            sample_size=sample_size(value),
            streams=streams_data(value),
            pilot_coalitions=pilot_coalitions(design),
            held_coalitions=held_coalitions(design),
            stage_coalitions=tuple(each.info.n_coalitions for each in rounds_of(design)),
            draw_replicates=n_replicates,
        )
