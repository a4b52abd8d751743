"""Value functions for models that are given without one: `explain(model, rows)`.

A model does not define the values of absent columns: they come from a background.  For a kernel
model, whose values have a closed form, this is all explained rows; for any other model, a few of
them, because each background row costs a prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.attributors.choice import is_explained
from dshap.core.duck_typing import has_member, is_frame, name_of
from dshap.core.errors import InputError, shown
from dshap.core.fixed_words import MissingRule
from dshap.core.spread import SpreadOrder
from dshap.core.types import replaced
from dshap.models import KernelModel
from dshap.predictors.frames import frame_of
from dshap.predictors.named import fitted_names_of
from dshap.predictors.times import times_of
from dshap.run.session import Session
from dshap.tables import open_rows, take_census
from dshap.tables.background import background_of
from dshap.trees.tree_kinds import is_ensemble
from dshap.values import KernelInterventional, Marginal
from dshap.values.trees import as_value

N_BACKGROUND = 100
"""The rows of the background of a model that was given as it is."""


def value_of_given(given: Any, rows: Any, classes: Sequence[Any] | None, session: Session) -> Any:
    """The value function of the object given to `explain`; an unknown object is returned unchanged.

    Parameters
    ----------
    given : a value function, an attributor, a fitted model, or a function
    rows : the rows that are explained
    classes : the classes to explain, of a model that has some

    Raises
    ------
    InputError
        Classes are given for an object without classes, or no background can be chosen.
    """
    kind = next((kind for kind in KINDS if kind.is_kind(given)), None)
    if kind is None:
        if classes is not None:
            raise InputError(f"classes goes with a model, and value is {shown(given)}")
        return given
    return kind.value(given, rows, classes, session)


def _own(given: Any, rows: Any, classes: Sequence[Any] | None, session: Session) -> Any:
    """A value function as it is; the `Trees` of an ensemble."""
    return as_value(given, classes)


def _of_kernels(given: Any, rows: Any, classes: Sequence[Any] | None, session: Session) -> Any:
    """The interventional values of a kernel model, with all rows as the background."""
    model = kernel_model_of(given, classes)
    session.progress.say(
        "absent columns take the values of all rows that are explained: to choose other rows, "
        f"give dshap.values.KernelInterventional({type(given).__name__}, background)"
    )
    return KernelInterventional(model, rows)


def kernel_model_of(model: Any, classes: Sequence[Any] | None) -> Any:
    """The decision function of some classes of a kernel model; None: the model itself.

    Raises
    ------
    InputError
        The model has no classes.
    """
    if classes is None:
        return model
    if not has_member(model, "of_classes"):
        raise InputError(f"{type(model).__name__} has no classes: leave classes out")
    return model.of_classes(classes)


def _of_predict(
    method: Callable[[Any], Callable[[Any], Any]], arrays: bool | None = None
) -> Callable[[Any, Any, Sequence[Any] | None, Session], Any]:
    """A maker of the `Marginal` of a model, by its predict function and the form of its rows."""

    def value(given: Any, rows: Any, classes: Sequence[Any] | None, session: Session) -> Any:
        predict = method(given)
        background, how = background_for(predict, rows, session)
        called = name_of(predict)
        session.progress.say(
            f"absent columns take {how}: to choose other rows, give "
            f"dshap.values.Marginal({called}, background)"
        )
        return marginal_of_classes(Marginal(predict, background, arrays=arrays), classes)

    return value


def marginal_of_classes(value: Marginal, classes: Sequence[Any] | None) -> Marginal:
    """The value function of some classes of a predict function; None: of all outputs.

    Raises
    ------
    InputError
        The link of the value function explains one class.
    """
    if classes is None:
        return value
    names = value.model.output_names
    if value.link.outputs(names) != names:
        raise InputError(
            f"link {value.link.describe()!r} explains one class: leave classes out, or give the "
            "link a class, like LogOdds('name')"
        )
    return replaced(value, model=value.model.of_classes(classes))


def background_for(predict: Any, rows: Any, session: Session) -> tuple[Any, str]:
    """Choose background rows among the explained rows, and describe the choice in words.

    Rows of numbers are chosen by thinning (`dshap.choose_background`).  Thinning needs distances:
    rows of a data frame with texts, or with missing values that the run passes to the model, are
    spread over the frame instead.
    """
    names = fitted_names_of(predict)
    table = frame_of(rows)
    if is_frame(table):
        frame = table if names is None else table[[name for name in names if name in table]]
        if _needs_whole_rows(frame, session.options.missing):
            n = min(N_BACKGROUND, len(frame))
            places = np.sort(SpreadOrder(len(frame)).positions(0, n))
            return frame.iloc[places], f"{n} of the {len(frame):,} rows that are explained"
    missing = session.options.missing
    reader = open_rows(
        rows, session, features=names, missing=missing, times=times_of(rows) or names
    )
    take_census(reader, session, takes_nan=False)
    n = min(N_BACKGROUND, reader.n_rows)
    background = background_of(reader, session.learn, n, "thinning", 0)
    how = f"{n} of the {reader.n_rows:,} rows that are explained, chosen by dshap.choose_background"
    return background, how


def _needs_whole_rows(frame: Any, missing: MissingRule) -> bool:
    """Whether distances between the rows of a frame need more than its numbers."""
    is_number = all(dtype.kind in "iuf" for dtype in frame.dtypes)
    return not is_number or (missing == "pass" and bool(frame.isna().any(axis=None)))


@dataclass(frozen=True)
class GivenKind:
    """A kind of objects that `explain` accepts."""

    is_kind: Callable[[Any], bool]
    value: Callable[[Any, Any, Sequence[Any] | None, Session], Any]
    """The value function, by the given object, the rows, classes and the session."""


def _is_pyfunc(given: Any) -> bool:
    """Whether this is a model of MLflow, whose signature is about data frames."""
    return type(given).__module__.startswith("mlflow.")


def _has(name: str) -> Callable[[Any], bool]:
    return lambda given: not isinstance(given, type) and callable(getattr(given, name, None))


KINDS = (
    GivenKind(is_explained, _own),
    GivenKind(is_ensemble, _own),
    GivenKind(lambda given: isinstance(given, KernelModel), _of_kernels),
    # before "predict", which models of MLflow have too: their signature is about frames
    GivenKind(_is_pyfunc, _of_predict(lambda given: given.predict, arrays=False)),
    # before "predict": a classifier has both, and labels are no numbers to add up
    GivenKind(_has("predict_proba"), _of_predict(lambda given: given.predict_proba)),
    GivenKind(_has("predict"), _of_predict(lambda given: given.predict)),
    GivenKind(_has("__call__"), _of_predict(lambda given: given)),
)
"""The first kind that fits counts."""
