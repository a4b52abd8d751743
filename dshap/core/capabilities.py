"""What only some designs and value functions can do: a small protocol each, asked of any in one
place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeGuard, runtime_checkable

from dshap.core.blocks import DesignInfo, Scored
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

__all__ = [
    "Accumulates",
    "ChoosesFromSample",
    "DirectSums",
    "EstimatedBase",
    "Interactions",
    "LearnsFromData",
    "OfFiles",
    "OfTexts",
    "Pilot",
    "Rounds",
    "ScaledModel",
    "StreamsData",
    "ValuesAtOnce",
    "Work",
    "check_unchanged",
    "held_coalitions",
    "interactions_of",
    "is_of_texts",
    "is_scaled",
    "lacking",
    "learns_from_data",
    "game_seconds",
    "linear",
    "needs_predictions",
    "pilot_coalitions",
    "refuse_lacking",
    "sample_size",
    "rounds_of",
    "streams_data",
    "tuned",
]

MOSTLY_THERE = 4
"""Members that a value function or a design may lack to be told which."""


@runtime_checkable
class Accumulates(Pass, Protocol):
    """A pass of several steps whose results it keeps: workers are sent the step alone."""

    @property
    def step(self) -> Pass:
        """The next step, by itself."""
        ...

    def after(self, found: Any) -> Any:
        """What is left to do, or what was learned, once the step has given this."""
        ...


@runtime_checkable
class Rounds(Design, Protocol):
    """A design that grows."""

    @property
    def rounds(self) -> tuple[Design, ...]:
        """The designs that this one grew through, each one's list the beginning of the next one's;
        itself last."""
        ...


@runtime_checkable
class Pilot(Design, Protocol):
    """A design that chooses from the values of a few rows."""

    @property
    def pilot_coalitions(self) -> int:
        """Coalitions, the first of the list, whose values `tune` wants to see; 0 where nothing is
        left to choose."""
        ...

    def tune(self, values: FloatArray) -> Record:
        """What is chosen from the values (games, pilot_coalitions) of some instances and
        outputs."""
        ...

    def tuned(self, record: Record) -> Design:
        """This design with that choice made, which may leave a next one open, of another number of
        `pilot_coalitions`; where the record is empty the rest of the list is settled too.  The list
        may be another one."""
        ...


@runtime_checkable
class Interactions(Design, Protocol):
    """A design that gives the interactions of pairs of players too."""

    def interactions(self, start: int, stop: int) -> FloatArray:
        """Scores (m, pairs) of coalitions start..stop: what their values are multiplied with in the
        Shapley interaction index of each pair of players i < j, in the order of `np.triu_indices(d,
        1)`; the two ends too."""
        ...


@runtime_checkable
class ValuesAtOnce(Design, Protocol):
    """A design that may want the values of all coalitions at once: its attributions are not linear
    in them then."""

    @property
    def held_coalitions(self) -> int:
        """Coalitions whose values `of_values` wants at once, all of them or, where the two sums of
        a `Design` are enough, 0; of a design that a pilot is to choose by, what the choice may come
        to."""
        ...

    def of_values(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """phi (n, d, k) and phi_(g) (R, n, d, k) from the values (n, m, k) of all coalitions, in
        the order of the list, where `held_coalitions` is not 0."""
        ...

    def linear(self) -> Design:
        """This design, or one like it whose `held_coalitions` are 0: linear in the values."""
        ...

    @property
    def game_seconds(self) -> float:
        """Seconds of a core, about, that `of_values` takes for a game, where that is a pilot's
        choice; else 0."""
        ...


@runtime_checkable
class LearnsFromData(ValueFunction, Protocol):
    """A value function whose `prepare` needs sums over all rows of its data."""

    @property
    def needs_predictions(self) -> bool:
        """True where `moments` wants f(x) of the rows, which are then computed once."""
        ...

    def moments(
        self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None
    ) -> Moments:
        """Sums over these rows (n, columns) for the coalitions masks (m, d)."""
        ...

    def join(self, states: Sequence[State]) -> State:
        """One State of the coalitions of several, in their order: what the rows cost is then paid
        once."""
        ...


@runtime_checkable
class ChoosesFromSample(Protocol):
    """A value function, or a closed form, that chooses landmarks and the like from a sample of its
    data."""

    @property
    def sample_size(self) -> int:
        """Rows of `data` that `choose` wants to see; 0 when nothing is left to choose."""
        ...

    def choose(self, sample: FloatArray) -> State:
        """What is chosen from a sample (n, columns) of the data."""
        ...

    def chosen(self, choice: State) -> Self:
        """The same with that choice made."""
        ...


@runtime_checkable
class StreamsData(ValueFunction, Protocol):
    """A value function whose values may be means over all rows of `data`, which are read when they
    are wanted."""

    @property
    def streams_data(self) -> bool:
        """False where its data are in memory, and `evaluate` gives the values."""
        ...

    def sums(self, state: State, rows: FloatArray, others: FloatArray) -> FloatArray:
        """What these rows of `data` (b, columns) add to values (n, m, k) times all their rows."""
        ...


@runtime_checkable
class DirectSums(ValueFunction, Protocol):
    """A value function that knows a shorter way to Σ_S v_S(x) score_S than the values."""

    def scored(self, state: State, score: FloatArray) -> Scored | None:
        """The sums for scores (m, d), predictions beside them where they come with it; None where
        the way is not for such scores."""
        ...


@runtime_checkable
class EstimatedBase(LearnsFromData, Protocol):
    """A value function whose v(empty) is an estimate of a distribution's, not the mean prediction
    over its data."""

    def base(self, state: State) -> FloatArray:
        """v(empty) (k,) before the link, from a prepared `state`."""
        ...

    def base_note(self, state: State, mean: FloatArray) -> dict[str, JSON]:
        """What v(empty) is, its error, and the `mean` prediction (k,) over `data` beside it;
        written by the cube."""
        ...


@runtime_checkable
class ScaledModel(Predictor, Protocol):
    """A model that gives what another one predicts on a scale of its own, such as log-odds for
    probabilities."""

    def check_own(self, rows: FloatArray) -> None:
        """Raise an `InputError` where the other model's predictions of rows (n, columns) are not on
        that scale."""
        ...


@runtime_checkable
class OfTexts(ValueFunction, Protocol):
    """A value function of texts: a player for each token, as many as a row has; rows are NaN beyond
    their end."""

    @property
    def vocabulary(self) -> Vocabulary: ...
    @property
    def longest(self) -> int | None:
        """Tokens that a text may have; None: any number."""
        ...

    @property
    def column(self) -> str | None:
        """Of a table, where the texts are; None: the only one that can hold them."""
        ...

    def of_length(self, n_tokens: int) -> Self:
        """The same for texts of at most so many tokens; of texts of exactly as many it is their
        game."""
        ...

    def mean_prediction(self) -> FloatArray:
        """f (k,) where all tokens are absent: v(empty) before the link."""
        ...


@runtime_checkable
class OfFiles(RowReader, Protocol):
    """A reader of files, which others may write while a run goes."""

    def check_unchanged(self, start: int, stop: int) -> None:
        """Raise where a file of rows start..stop is not the one that was opened."""
        ...


def check_unchanged(reader: RowReader, start: int, stop: int) -> None:
    """Raise where rows start..stop lie in a file that changed since the reader was opened."""
    if isinstance(reader, OfFiles):
        reader.check_unchanged(start, stop)


def rounds_of(design: Design) -> tuple[Design, ...]:
    """The designs that this one grew through; itself alone where it does not grow."""
    if isinstance(design, Rounds):
        return design.rounds
    return (design,)


def pilot_coalitions(design: Design) -> int:
    """Coalitions whose values the design chooses by; 0 where nothing is left to choose."""
    if isinstance(design, Pilot):
        return design.pilot_coalitions
    return 0


def tuned(design: Design, record: Record) -> Design:
    """The design with this choice made."""
    if isinstance(design, Pilot):
        return design.tuned(record)
    return design


def held_coalitions(design: Design) -> int:
    """Coalitions whose values are wanted at once; 0 where sums of them are enough."""
    if isinstance(design, ValuesAtOnce):
        return design.held_coalitions
    return 0


def interactions_of(design: Design, start: int, stop: int) -> FloatArray:
    """Scores (m, pairs) of the interactions of pairs; an InputError where the design has none."""
    if not isinstance(design, Interactions):
        raise InputError(
            "interactions are those of designs.exact or designs.kriging: give one of them"
        )
    return design.interactions(start, stop)


def linear(design: Design) -> Design:
    """The design, or one like it that is linear in the values."""
    if isinstance(design, ValuesAtOnce):
        return design.linear()
    return design


def game_seconds(design: Design) -> float:
    """Of `ValuesAtOnce`; 0 of a design that has none."""
    if isinstance(design, ValuesAtOnce):
        return design.game_seconds
    return 0.0


def lacking(given: object, protocol: type) -> list[str]:
    """Members of a protocol, and of those that it extends, that an object has not."""
    kinds = [kind for kind in reversed(protocol.__mro__) if getattr(kind, "_is_protocol", False)]
    members = dict.fromkeys(
        name for kind in kinds for name in vars(kind) if not name.startswith("_")
    )
    return [name for name in members if not hasattr(given, name)]


def refuse_lacking(given: object, kind: type, called: str) -> None:
    """Name the members that something lacks which is nearly of this kind."""
    missing = lacking(given, kind)
    if 0 < len(missing) <= MOSTLY_THERE:
        raise InputError(
            f"{type(given).__name__} is no {called}, it lacks {', '.join(missing)}: "
            "docs/extending.md shows how to "
            "write one"
        )


def learns_from_data(value: object) -> bool:
    """States need sums over all rows of the data."""
    return isinstance(value, LearnsFromData)


def needs_predictions(value: object) -> bool:
    """Its sums over rows want predictions."""
    return isinstance(value, LearnsFromData) and value.needs_predictions


def sample_size(value: object) -> int:
    """Rows of the data that it chooses from; 0 where nothing is left to choose."""
    if isinstance(value, ChoosesFromSample):
        return value.sample_size
    return 0


def streams_data(value: object) -> bool:
    """Values are means over a table that is read when they are wanted."""
    return isinstance(value, StreamsData) and value.streams_data


def is_scaled(model: Predictor) -> TypeGuard[ScaledModel]:
    """Whether a model gives what another one predicts on a scale of its own, to be held against
    that one."""
    return isinstance(model, ScaledModel)


def is_of_texts(value: object) -> TypeGuard[OfTexts]:
    """Rows have different players, and it knows v(empty) itself."""
    return isinstance(value, OfTexts)


@dataclass(frozen=True)
class Work:
    """What a plan is made from: of a value function and a design, of a closed form, or of an
    attributor."""

    value: Explained
    info: DesignInfo
    """Of a closed form and of an attributor: the two ends, and groups of standard errors."""
    cost: Callable[..., Cost]
    """Of m proper coalitions and n rows: `ValueFunction.cost`."""
    learns: bool = False
    """States need sums over all rows of the data."""
    sample_size: int = 0
    """Rows of the data that are chosen from first."""
    streams: bool = False
    """Values are means over a table that is read when they are wanted."""
    is_closed_form: bool = False
    """No coalition is listed."""
    pilot_coalitions: int = 0
    held_coalitions: int = 0
    stage_coalitions: tuple[int, ...] = ()
    """After each round that a design grew through."""

    @classmethod
    def of(cls, value: ValueFunction, design: Design) -> Work:
        """Of a value function whose coalitions are listed."""
        return cls(
            value=value,
            info=design.info,
            cost=value.cost,
            learns=learns_from_data(value),
            sample_size=sample_size(value),
            streams=streams_data(value),
            pilot_coalitions=pilot_coalitions(design),
            held_coalitions=held_coalitions(design),
            stage_coalitions=tuple(each.info.n_coalitions for each in rounds_of(design)),
        )
