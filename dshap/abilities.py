"""What only some designs and value functions can do, asked of any."""

from __future__ import annotations

from collections.abc import Callable

from dshap.errors import InputError
from dshap.types import (
    ChoosesFromSample,
    ClosedForm,
    Design,
    FloatArray,
    HasClosedForm,
    Interactions,
    LearnsFromData,
    OwnBase,
    Pilot,
    Record,
    Rounds,
    State,
    StreamsData,
    ValueFunction,
    ValuesAtOnce,
    WeightsData,
)

__all__ = [
    "base_of",
    "closed_form_of",
    "data_weights",
    "held_coalitions",
    "interactions_of",
    "lacking",
    "learns_from_data",
    "linear",
    "needs_predictions",
    "pilot_coalitions",
    "prefers_closed_form",
    "sample_size",
    "stages_of",
    "streams_data",
    "tuned",
]


def stages_of(design: Design) -> tuple[Design, ...]:
    """The designs that this one grew through; itself alone where it does not grow."""
    return design.stages if isinstance(design, Rounds) else (design,)


def pilot_coalitions(design: Design) -> int:
    """Coalitions whose values the design chooses by; 0 where nothing is left to choose."""
    return design.pilot_coalitions if isinstance(design, Pilot) else 0


def tuned(design: Design, record: Record) -> Design:
    """The design with this choice made."""
    return design.tuned(record) if isinstance(design, Pilot) else design


def held_coalitions(design: Design) -> int:
    """Coalitions whose values are wanted at once; 0 where sums of them are enough."""
    return design.held_coalitions if isinstance(design, ValuesAtOnce) else 0


def interactions_of(design: Design, start: int, stop: int) -> FloatArray:
    """Scores (m, pairs) of the interactions of pairs; an InputError where the design has none."""
    if not isinstance(design, Interactions):
        raise InputError("interactions are those of designs.exact or designs.kriging: give one of them")
    return design.interactions(start, stop)


def linear(design: Design) -> Design:
    """The design, or one like it that is linear in the values."""
    return design.linear() if isinstance(design, ValuesAtOnce) else design


def lacking(given: object, protocol: type) -> list[str]:
    """Members of a protocol that an object has not."""
    return [name for name in vars(protocol) if not name.startswith("_") and not hasattr(given, name)]


def learns_from_data(value: ValueFunction) -> bool:
    """States need sums over all rows of the data."""
    return isinstance(value, LearnsFromData)


def needs_predictions(value: ValueFunction) -> bool:
    """Its sums over rows want predictions."""
    return isinstance(value, LearnsFromData) and value.needs_predictions


def sample_size(value: ValueFunction) -> int:
    """Rows of the data that it chooses from; 0 where nothing is left to choose."""
    return value.sample_size if isinstance(value, ChoosesFromSample) else 0


def streams_data(value: ValueFunction) -> bool:
    """Values are means over a table that is read when they are wanted."""
    return isinstance(value, StreamsData) and value.streams_data


def data_weights(value: ValueFunction) -> FloatArray | None:
    """(b,) of the rows of the data; None where all are alike."""
    return value.data_weights if isinstance(value, WeightsData) else None


def base_of(value: ValueFunction, mean: FloatArray, state: Callable[[], State]) -> FloatArray:
    """v(empty) (k,) before the link: the mean prediction over the data, unless the value function knows better."""
    return value.base(mean, state) if isinstance(value, OwnBase) else mean


def closed_form_of(value: ValueFunction) -> ClosedForm | None:
    """The closed form, where there is one."""
    return value.closed_form() if isinstance(value, HasClosedForm) else None


def prefers_closed_form(value: ValueFunction) -> bool:
    """The closed form is at least as good as any list of coalitions."""
    return isinstance(value, HasClosedForm) and value.prefers_closed_form
