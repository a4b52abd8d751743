"""The form of a sink's lines: their shape, which outputs have lines, and the rules for reasons."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from dshap.core.errors import InputError, unknown_name
from dshap.core.scales import class_in
from dshap.sinks.code_books import CodeBook

Shape = Literal["wide", "long", "top_k", "reasons"]
"""The content of one line of a sink: "wide", a row with a column for each feature; "long", a row
and one of its features; "top_k", the same for the k largest attributions of the row; "reasons", one
of its reason codes."""
PlainShape = Literal["wide", "long", "top_k"]
"""The shapes of `Shape` that need only a cube, and no book of reason codes."""
Against = Literal["higher", "lower"]
"""Which predictions count against an applicant: "higher", such as a probability of default, or
"lower", such as a score."""
MOST_REASONS = 4
"""The most reasons of a row: more are not likely to be helpful to an applicant, by the official
interpretation of 12 CFR 1002.9(b)(2) in Supplement I to Regulation B."""


class HasOutputs(Protocol):
    """Facts about a cube with its outputs."""

    @property
    def outputs(self) -> tuple[str, ...]: ...
    @property
    def classes(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class LineForm:
    """The form of the lines of one sink."""

    shape: Shape = "wide"
    k: int = 3
    """The number of features a row of shape "top_k"."""
    outputs: tuple[str, ...] = ()
    """The outputs that have lines; empty for all of the cube."""
    book: CodeBook | None = None
    """The codes of shape "reasons"."""
    against: Against | None = None
    undo: bool = False
    """Whether to write a reason only if the prediction also changes in its direction when the code
    alone is taken away."""
    in_words: bool = False
    """Whether lines have the column `reason_text`, of the shapes "wide" and "top_k"."""

    def check(self) -> None:
        """Raise an `InputError` if options of reasons are missing, or given for another shape."""
        if self.shape == "reasons":
            self._check_reasons()
        elif self.book is not None or self.against is not None or self.undo:
            raise InputError(
                'codes, against and undo belong to shape = "reasons", not to '
                f'"{self.shape}": leave them out'
            )

    def _check_reasons(self) -> None:
        if self.book is None:
            raise InputError(
                'shape = "reasons" needs codes: give codes, the path of a CSV file with the '
                "columns "
                "code, players and text"
            )
        if self.against not in get_args(Against):
            raise InputError(
                'shape = "reasons" needs to know what counts against a person: give against = '
                '"higher" '
                "where a higher prediction does, such as a probability of default, or against = "
                '"lower", such as for a score'
            )

    def chosen_outputs(self, facts: HasOutputs) -> list[int]:
        """The positions of the outputs that have lines, in the order of the cube.

        An output such as "log-odds of yes" may be named by its class alone.

        Raises
        ------
        InputError
            An output that the cube does not have, or a choice if each row has its own class.
        """
        is_known = any(facts.outputs)  # a job file alone names no outputs
        if not self.outputs or not is_known:
            return list(range(len(facts.outputs)))
        if facts.classes:
            raise InputError(
                "outputs chooses among several outputs, and here each row is explained only for "
                "its predicted class: leave outputs out"
            )
        by_name = {class_in(name): place for place, name in enumerate(facts.outputs)}
        by_name |= {name: place for place, name in enumerate(facts.outputs)}
        for name in self.outputs:
            if name not in by_name:
                raise InputError(f"outputs: {unknown_name('output', name, facts.outputs)}")
        return sorted({by_name[name] for name in self.outputs})


def text_columns(form: LineForm) -> Mapping[str, Sequence[str]]:
    """Column -> the text of each code, of a form with a code book."""
    if form.book is None:
        return {}
    return form.book.texts


def is_of_columns(shape: str, shapes: Collection[str] = ("long", "top_k")) -> bool:
    """Whether the lines of a shape have the values of columns."""
    return shape in shapes
