"""What only some designs can do, asked of any."""

from __future__ import annotations

from dshap.errors import InputError
from dshap.types import Design, FloatArray, Interactions, Pilot, Record, Rounds, ValuesAtOnce

__all__ = ["held_coalitions", "interactions_of", "linear", "pilot_coalitions", "stages_of", "tuned"]


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
