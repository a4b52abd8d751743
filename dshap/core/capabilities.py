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
    """A pass of several steps that stores their results; workers get the next step alone."""

    @property
    def step(self) -> Pass:
        """The next step, without the results of the steps before."""
        ...

    def after(self, found: Any) -> Any:
        """The remaining pass, or the learned result, once the step has given this result."""
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

        It is 0 if weighted sums of the values suffice.  Before a pilot has chosen, it is the
        largest number that the choice may need.
        """
        ...

    def of_values(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Attributions (n, d, k) and replicates phi_(g) (R, n, d, k) from all values (n, m, k).

        The values are in the order of the list; used only if `held_coalitions` is not 0.
        """
        ...

    def linear(self) -> Design:
        """Return this design, or one like it that is linear in the values (`held_coalitions` is 0)."""
        ...

    @property
    def game_seconds(self) -> float:
        """Estimated seconds of one core that `of_values` needs per game.

        It is 0 if no pilot may still choose a separate model for each game.
        """
        ...


@runtime_checkable
class ChecksRows(ValuesAtOnce, Protocol):
    """A design that can compare each row with its pilot's rows, and estimate others separately."""

    @property
    def checks_rows(self) -> bool:
        """Whether rows are compared with the rows of the pilot."""
        ...

    def checking(self) -> Design:
        """Return this design with a comparison of rows with the rows of its pilot."""
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

    def judged(self) -> LearnsFromData:
        """The value function, or one with the same values whose states are faster to compute.

        Its attributions are computed a few times, to judge how many rows are enough.
        """
        ...


@runtime_checkable
class ChoosesFromSample(Protocol):
    """A value function or closed form that chooses, say, landmarks from a sample of its data."""

    @property
    def sample_size(self) -> int:
        """The number of rows of `data` that `choose` needs; 0: nothing is left to choose."""
        ...

    def choose(self, sample: FloatArray) -> State:
        """Choose from a sample (n, columns) of the data."""
        ...

    def chosen(self, choice: State) -> Self:
        """A copy with that choice made."""
        ...


@runtime_checkable
class StreamsData(ValueFunction, Protocol):
    """A value function that may average over all rows of `data`, read while rows are explained."""

    @property
    def streams_data(self) -> bool:
        """Whether the data are read from a table; if not, `evaluate` returns the values."""
        ...

    def sums(self, state: State, rows: FloatArray, others: FloatArray) -> FloatArray:
        """The part (n, m, k) of these rows of `data` (b, columns) in the sums over all its rows.

        The sum over all rows is the values times their number.
        """
        ...


@runtime_checkable
class DirectSums(ValueFunction, Protocol):
    """A value function that computes Σ_S v_S(x) score_S without the single values."""

    def scored(self, state: State, score: FloatArray) -> Scored | None:
        """A function that returns the sums for scores (m, d), with predictions if they are free.

        None if there is no shortcut for such scores.
        """
        ...


@runtime_checkable
class EstimatedBase(LearnsFromData, Protocol):
    """A value function whose v(empty) is estimated from a fitted distribution.

    It is then not the mean prediction over the data.
    """

    def base(self, state: State) -> FloatArray:
        """v(empty) (k,) before the link, from a prepared `state`."""
        ...

    def base_note(self, state: State, mean: FloatArray) -> dict[str, JSON]:
        """A note for the cube: the estimate of v(empty), its error, the `mean` prediction (k,)."""
        ...


@runtime_checkable
class MeanOfDraws(ValueFunction, Protocol):
    """A value function whose values may be means over few random draws.

    All coalitions share the draws, so that no design sees their error.  A subclass that overrides
    `evaluate` must override `evaluate_without` too: otherwise it has no draws.
    """

    @property
    def draws(self) -> Draws | None:
        """The draws; None if the values have no such error, as with a background by definition."""
        ...

    def evaluate_without(self, state: State, rows: FloatArray, groups: GroupedDraws) -> FloatArray:
        """Values (n, 1 + g, m, k) before the link: of all draws, then without each group of them."""
        ...

    def base_without(self, state: State | None, groups: GroupedDraws) -> FloatArray | None:
        """v(empty) (1 + g, k) before the link: of all draws, then without each group of them.

        None if v(empty) is not a mean over the draws.
        """
        ...


@runtime_checkable
class ScaledModel(Predictor, Protocol):
    """A model that can also predict on a different scale, such as log-odds for probabilities."""

    def check_own(self, rows: FloatArray) -> None:
        """Raise an `InputError` if its predictions disagree with those of the original model.

        They are compared on rows (n, columns), on the original scale.
        """
        ...


@runtime_checkable
class TriedModel(Predictor, Protocol):
    """A model that was tried on the first rows of its data, and is known again by their predictions."""

    @property
    def probe(self) -> FloatArray:
        """The predictions (n, k) for these rows."""
        ...


@runtime_checkable
class OfTexts(ValueFunction, Protocol):
    """A value function of texts: one player for each token, so that rows have different players.

    Rows are NaN beyond the end of their text.
    """

    @property
    def vocabulary(self) -> Vocabulary: ...
    @property
    def longest(self) -> int | None:
        """The most tokens that a text may have; None: any number."""
        ...

    @property
    def column(self) -> str | None:
        """The column of a table with the texts; None: the only column that can contain texts."""
        ...

    def of_length(self, n_tokens: int) -> Self:
        """A copy for texts of at most `n_tokens` tokens; for texts of that length, their game."""
        ...

    def mean_prediction(self) -> FloatArray:
        """v(empty) (k,) before the link: f if all tokens are absent."""
        ...


@runtime_checkable
class OfFiles(RowReader, Protocol):
    """A reader of files, which other programs may change during a run."""

    def check_unchanged(self, start: int, stop: int) -> None:
        """Raise if a file with rows start..stop has changed since it was opened."""
        ...


def check_unchanged(reader: RowReader, start: int, stop: int) -> None:
    """Raise if rows start..stop are in a file that changed since the reader was opened."""
    if isinstance(reader, OfFiles):
        reader.check_unchanged(start, stop)


def rounds_of(design: Design) -> tuple[Design, ...]:
    """The designs of all rounds of a design; the design alone if it does not grow."""
    if isinstance(design, Rounds):
        return design.rounds
    return (design,)


def pilot_coalitions(design: Design) -> int:
    """The number of coalition values that a design needs for its next choice; 0: none is left."""
    if isinstance(design, Pilot):
        return design.pilot_coalitions
    return 0


def tuned(design: Design, record: Record) -> Design:
    """The design with this choice made."""
    if isinstance(design, Pilot):
        return design.tuned(record)
    return design


def held_coalitions(design: Design) -> int:
    """The number of coalition values that a design needs at once per row; 0 if sums suffice."""
    if isinstance(design, ValuesAtOnce):
        return design.held_coalitions
    return 0


def interactions_of(design: Design, start: int, stop: int) -> FloatArray:
    """Scores (m, pairs) of the interactions of pairs; an InputError if the design has none."""
    if not isinstance(design, Interactions):
        raise InputError("interactions need designs.exact or designs.kriging: give one of them")
    return design.interactions(start, stop)


def linear(design: Design) -> Design:
    """The design, or one like it that is linear in the values."""
    if isinstance(design, ValuesAtOnce):
        return design.linear()
    return design


def checking(design: Design) -> Design:
    """The design with a comparison of each row with its pilot's rows, if it has a pilot."""
    if isinstance(design, ChecksRows):
        return design.checking()
    return design


def checks_rows(design: Design) -> TypeGuard[ChecksRows]:
    """Whether a design compares each row with the rows of its pilot."""
    return isinstance(design, ChecksRows) and design.checks_rows


def game_seconds(design: Design) -> float:
    """Estimated seconds per game of a design's `of_values`; 0 if no pilot may choose that."""
    if isinstance(design, ValuesAtOnce):
        return design.game_seconds
    return 0.0


def lacking(given: object, protocol: type) -> list[str]:
    """Members of a protocol, inherited ones too, that an object lacks."""
    return [name for name in _members(protocol) if not hasattr(given, name)]


def _members(protocol: type) -> list[str]:
    """The members of a protocol, inherited ones too."""
    kinds = [kind for kind in reversed(protocol.__mro__) if getattr(kind, "_is_protocol", False)]
    names = (name for kind in kinds for name in vars(kind) if not name.startswith("_"))
    return list(dict.fromkeys(names))


def is_nearly(given: object, protocol: type) -> bool:
    """Whether an object has some members of a protocol, and lacks few."""
    n_missing = len(lacking(given, protocol))
    return n_missing <= MOSTLY_THERE and n_missing < len(_members(protocol))


def refuse_lacking(given: object, kind: type, called: str) -> None:
    """Raise an `InputError` naming the members that an object of almost this kind lacks."""
    missing = lacking(given, kind)
    if missing and is_nearly(given, kind):
        raise InputError(
            f"{type(given).__name__} cannot be the {called}, as it lacks {', '.join(missing)}: "
            "docs/extending.md shows how to write one"
        )


def learns_from_data(value: object) -> bool:
    """Whether states need sums over all rows of the data."""
    return isinstance(value, LearnsFromData)


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
    """The predictions (n, k) that a model is known again by; no row if it has tried none."""
    if isinstance(model, TriedModel):
        return model.probe
    return np.empty((0, len(model.output_names)))


def is_of_texts(value: object) -> TypeGuard[OfTexts]:
    """Whether this is a value function of texts (`OfTexts`)."""
    return isinstance(value, OfTexts)


DRAW_REPLICATES = 20
"""The number of groups of draws if the design has no jackknife groups."""


def draws_of(value: object) -> Draws | None:
    """The random draws that the values are means over; None if they have no such error."""
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

    It is that of the design's jackknife groups, so that both errors share them.  0 if the values
    have no such error, and if the design was asked for no standard errors.
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
    judges: bool = False
    """Whether the error of attributions decides how many rows of the data are learned from."""
    streams: bool = False
    """Whether values are means over a table that is read while rows are explained."""
    is_closed_form: bool = False
    """Whether a closed form explains the rows, without a list of coalitions."""
    pilot_coalitions: int = 0
    held_coalitions: int = 0
    shares: int = 1
    """The most tasks that may share the rows of a tile, where no list of coalitions is cut."""
    stage_coalitions: tuple[int, ...] = ()
    """The number of coalitions after each round of the design."""
    draw_replicates: int = 0
    """The number of replicates for the error of the draws behind the values; 0: no such error."""
    sums_predictions: bool = True
    """Whether a separate pass sums the model's predictions of the data, if there are any."""
    micro_rows: int = MICRO_ROWS
    """The most rows that are evaluated at once."""
    micro_bytes: int = MICRO_BYTES
    """Bytes that one such evaluation should stay within."""
    check_data: Callable[[int], None] = _any_number
    """Function of the number of rows to learn from, which raises InputError if these are too many."""

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
            judges=learning_tolerance(value) is not None,
            streams=streams_data(value),
            pilot_coalitions=pilot_coalitions(design),
            held_coalitions=held_coalitions(design),
            stage_coalitions=tuple(each.info.n_coalitions for each in rounds_of(design)),
            draw_replicates=n_replicates,
        )
