"""The choice of the classes that are explained, among those of a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.core.errors import InputError, unknown_name
from dshap.core.records import FloatArray
from dshap.core.rules import RULES, Names, Rule
from dshap.core.scales import OF_CLASSES, of_classes


@dataclass(frozen=True)
class ClassChoice:
    """Some classes of a classifier, and how their outputs follow from all of its outputs."""

    classes: tuple[str, ...]
    """The chosen classes, in the order in which they were given."""
    n_outputs: int
    """The number of outputs of the classifier."""
    positions: tuple[int, ...]
    """The output from which each chosen class is computed."""
    signs: tuple[float, ...]
    """1, or −1 for the first of two classes that share one output, which belongs to the second."""

    def names(self, scale: str, outputs: Sequence[str]) -> tuple[str, ...]:
        """Names of the chosen outputs, from the names of all outputs, which are on this scale."""
        turned = of_classes(scale, self.classes)
        places = zip(self.positions, self.signs, turned, strict=True)
        return tuple(outputs[at] if sign > 0 else name for at, sign, name in places)

    def __call__(self, values: FloatArray) -> FloatArray:
        """Outputs (…, k) of the chosen classes, from the outputs (…, k') of all classes."""
        return np.asarray(values[..., list(self.positions)] * np.array(self.signs))


def class_choice(
    given: Sequence[Any],
    known: Sequence[str],
    n_outputs: int,
    scale: str,
    before: ClassChoice | None = None,
) -> ClassChoice:
    """Choose classes by their names.

    Parameters
    ----------
    given : names of the chosen classes
    known : all classes of the model, in the order of its outputs; two classes may share one output
    n_outputs : the number of outputs of the model
    scale : the scale of the outputs
    before : the choice by which these outputs were selected; None if they are of all classes

    Raises
    ------
    InputError
        No class, a class twice, a class that the model does not have, outputs that belong to no
        class, such as predicted labels, or classes that were chosen before.
    """
    names = tuple(map(str, _listed(given, known)))
    if before is not None:
        raise InputError(
            f"classes are {', '.join(names)}, and {', '.join(before.classes)} were chosen before: "
            "choose from the value function of all classes"
        )
    if not known:
        raise InputError(
            f"classes are {', '.join(names)}, and the model has no classes: leave classes out"
        )
    if not names:
        raise InputError(f"classes is empty: give some of {', '.join(known)}, or leave classes out")
    for place, name in enumerate(names):
        if name not in known:
            raise InputError(f"classes: {unknown_name('class', name, known)}")
        if name in names[:place]:
            raise InputError(f"classes names {name!r} twice: name each class once")
    positions = [list(known).index(name) for name in names]
    if n_outputs == len(known):
        return ClassChoice(names, n_outputs, tuple(positions), (1.0,) * len(names))
    if not (n_outputs == 1 and len(known) == 2 and scale in OF_CLASSES):
        raise InputError(
            f"classes are {', '.join(names)}, and the function has "
            f"{n_outputs} output{'s' * (n_outputs > 1)} for {len(known)} classes: explain "
            "predict_proba or decision_function, or leave classes out"
        )
    signs = tuple(1.0 if position == 1 else -1.0 for position in positions)
    return ClassChoice(names, n_outputs, (0,) * len(names), signs)


def _listed(given: Any, known: Sequence[str]) -> tuple[Any, ...]:
    """The chosen classes as a tuple; InputError with an example for other values."""
    if isinstance(given, str) and given in known:
        rule: Rule = Names((given,))
    elif known:
        rule = Names(tuple(known[:2]))
    else:
        rule = RULES["classes"]
    return rule("classes", given) or ()
