"""Links: functions g applied to an expectation before the attribution, such as the logarithm.

A link is applied after the expectation: v_S(x) = g(E f), not E g(f).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.core.capabilities import refuse_lacking
from dshap.core.errors import InputError, PredictError, shown, unknown_name
from dshap.core.records import JSON, FloatArray
from dshap.core.rules import Number
from dshap.core.scales import EXPECTED_LOG, LOG, LOG_ODDS, TARGET
from dshap.core.types import Link

ROUNDING = 1e-9
"""How far rounding may move a mean of probabilities outside [0, 1]."""
# a larger clip would move probabilities that are far from 0 and 1
MAX_CLIP = 0.1
CLIP = Number(0.0, MAX_CLIP, hint=" (1e-6 is a good start)")


@dataclass(frozen=True)
class Identity:
    """The identity link v_S(x) = E f, on the scale of the predictions."""

    is_identity: ClassVar[bool] = True
    is_by_row: ClassVar[bool] = False
    scale: ClassVar[str] = TARGET

    def bound(self, names: Sequence[str]) -> Identity:
        """Return this link, which accepts any outputs."""
        return self

    def outputs(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return names

    def classes(self, prediction: FloatArray) -> NDArray[np.int16] | None:
        """None: the identity chooses no class."""
        return None

    def check(self, prediction: FloatArray) -> None:
        """Accept all predictions."""

    def __call__(self, expected: FloatArray, prediction: FloatArray) -> FloatArray:
        return expected

    def describe(self) -> str:
        return "identity"

    def fingerprint(self) -> dict[str, Any]:
        return {"link": "identity"}


@dataclass(frozen=True)
class ProbabilityLink(ABC):
    """The base class of the links for probabilities.

    Parameters
    ----------
    clip : float
        Expectations are moved into [clip, 1 − clip] first.  0: they are used as they are, and 0
        and 1, whose logarithm is infinite, are refused, as are estimates beyond.  f(x) itself must
        always be in [0, 1].
    """

    clip: float = field(default=0.0, kw_only=True)

    is_identity: ClassVar[bool] = False
    scale: ClassVar[str]
    name: ClassVar[str]
    """The name that `link=` accepts."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", CLIP("clip", self.clip))

    @property
    def is_by_row(self) -> bool:
        """Whether v(empty) differs from row to row."""
        return True

    @abstractmethod
    def _values(self, p: FloatArray, prediction: FloatArray) -> FloatArray:
        """g (n, m, k') of probabilities p (n, m, k), with the predictions f(x) (n, k)."""

    def bound(self, names: Sequence[str]) -> Link:
        """Return this link for outputs of these names; InputError for fewer than two."""
        if len(names) < 2:
            raise InputError(
                f'link "{self.name}" needs the probabilities of all classes, two outputs at least: '
                "give the model's "
                'predict_proba, or take link="logit" of a single probability'
            )
        return self

    def outputs(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The name of the one output that is attributed."""
        return (self.describe(),)

    def classes(self, prediction: FloatArray) -> NDArray[np.int16] | None:
        """(n,): the output that each row is explained for; None if it is the same for all rows."""
        return None

    def __call__(self, expected: FloatArray, prediction: FloatArray) -> FloatArray:
        """g (n, m, k') of expectations (n, m, k); NaN stays NaN.

        prediction (n, k).

        Raises
        ------
        PredictError
            Predictions outside [0, 1], or expectations whose logarithm is infinite.
        """
        self.check(prediction)
        if not self.clip:
            self._refuse_outside(expected, "an expectation is {}", ", or give it a clip=")
        with np.errstate(divide="ignore"):
            out = self._values(np.clip(expected, self.clip, 1.0 - self.clip), prediction)
        if np.isinf(out).any():
            raise PredictError(
                f'link "{self.name}": a probability is exactly 0 or 1, for which the link is '
                f"infinite. Give the link a clip, like {type(self).__name__}(clip=1e-6), or "
                "explain the probabilities themselves"
            )
        return out

    def check(self, prediction: FloatArray) -> None:
        """Raise `PredictError` for predictions (n, k) outside [0, 1]."""
        self._refuse_outside(prediction, "the model gave {}")

    def _refuse_outside(self, p: FloatArray, what: str, more: str = "") -> None:
        bad = (p < -ROUNDING) | (p > 1.0 + ROUNDING)
        if bad.any():
            raise PredictError(
                f'link "{self.name}" is for probabilities, and '
                f"{what.format(f'{p[bad].flat[0]:.6g}')}, outside "
                f"[0, 1]: explain the model's predict_proba, or leave the link out{more}"
            )

    def describe(self) -> str:
        """The link in words, also the name of its output."""
        return self.name.replace("_", " ")

    def fingerprint(self) -> dict[str, JSON]:
        return {"link": self.name, "clip": self.clip}


@dataclass(frozen=True)
class Logit(ProbabilityLink):
    """Explain the log-odds of every output separately: the logit g(p) = log p − log(1 − p).

    p (n, m, k) are the expectations of k probabilities, each between 0 and 1.

    Parameters
    ----------
    clip : see `LogOdds`

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.values import Logit, Marginal
    >>> rows = np.array([[0.2], [0.5], [0.8]])
    >>> value = Marginal(lambda x: x[:, 0], rows, link=Logit())
    >>> dshap.explain(value, rows).prediction.values[:, 0].round(3).tolist()
    [-1.386, 0.0, 1.386]
    """

    name = "logit"
    scale = LOG_ODDS

    @property
    def is_by_row(self) -> bool:
        """False: v(empty) is the same for all rows."""
        return False

    def bound(self, names: Sequence[str]) -> Link:
        """Return this link, which accepts any outputs."""
        return self

    def outputs(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The names of the outputs, unchanged: each has its own logit."""
        return names

    def _values(self, p: FloatArray, prediction: FloatArray) -> FloatArray:
        return np.asarray(np.log(p) - np.log1p(-p))


@dataclass(frozen=True)
class OfClass(ProbabilityLink):
    """The base class of the links for one class: a named class, or the class of the largest f(x)."""

    of: str | int | None = None
    position: int | None = field(default=None, kw_only=True, repr=False)
    """Position of the named class among the outputs; set by `bound`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.of, str | int | np.generic | None):
            raise InputError(f"of is {shown(self.of)}: give the name of a class, or leave it out")

    @property
    def is_by_row(self) -> bool:
        """Whether each row is explained for its own predicted class."""
        return self.of is None

    def bound(self, names: Sequence[str]) -> Link:
        """Return this link with the position of its class; InputError for an unknown class."""
        super().bound(names)
        if self.of is None:
            return self
        if str(self.of) not in names:
            raise InputError(unknown_name("class", str(self.of), names))
        return replace(self, position=list(names).index(str(self.of)))

    def outputs(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The name of the class, or "predicted class"."""
        return ("predicted class" if self.of is None else str(self.of),)

    def classes(self, prediction: FloatArray) -> NDArray[np.int16] | None:
        """(n,): the predicted class of each row; None for a named class."""
        if self.of is not None:
            return None
        return prediction.argmax(axis=1).astype(np.int16)

    def _of_class(self, p: FloatArray, prediction: FloatArray) -> FloatArray:
        """The probability (n, m, 1) of the class."""
        # the class of f(x), and not of each expectation: all coalitions of a row explain one class
        chosen = self.classes(prediction)
        if chosen is None:
            return p[..., self.position, None]
        return np.take_along_axis(p, chosen[:, None, None].astype(np.intp), axis=2)

    def describe(self) -> str:
        return f"{super().describe()} of {'the predicted class' if self.of is None else f'class {self.of}'}"

    def fingerprint(self) -> dict[str, JSON]:
        return {
            **super().fingerprint(),
            "of": None if self.of is None else str(self.of),
            "position": self.position,
        }


@dataclass(frozen=True)
class LogOdds(OfClass):
    """Explain the log-odds of one class y: g(p) = log p_y − log(1 − p_y).

    p (n, m, k) are the expectations of the probabilities of k classes.

    Parameters
    ----------
    clip : float
        Expectations are moved into [clip, 1 − clip] first, for example with 1e-6.  By default (0)
        they are not moved, and an expectation of 0 or 1, whose logarithm is infinite, raises a
        `PredictError`, as does one outside [0, 1].  f(x) itself must always be in [0, 1].
    of : str or int, optional
        Name of the class, as in the names of the outputs.  By default each row is explained for the
        class of its largest f(x); v(empty) then differs from row to row.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.values import LogOdds, Marginal
    >>> def predict_proba(x):
    ...     return np.stack([1 - x[:, 0], x[:, 0]], axis=1)
    >>> rows = np.array([[0.2], [0.8]])
    >>> value = Marginal(predict_proba, rows, link=LogOdds("yes"), output_names=["no", "yes"])
    >>> cube = dshap.explain(value, rows)
    >>> cube.attribution.attrs["scale"], cube.prediction.values[:, 0].round(3).tolist()
    ('log-odds', [-1.386, 1.386])
    """

    name = "log_odds"
    scale = LOG_ODDS

    def _values(self, p: FloatArray, prediction: FloatArray) -> FloatArray:
        chance = self._of_class(p, prediction)
        return np.asarray(np.log(chance) - np.log1p(-chance))


@dataclass(frozen=True)
class LogProbability(OfClass):
    """Explain the log-probability of one class y: g(p) = log p_y.

    p (n, m, k) are the expectations of the probabilities of k classes.

    Parameters
    ----------
    clip, of : see `LogOdds`

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.values import LogProbability, Marginal
    >>> def predict_proba(x):
    ...     return np.stack([1 - x[:, 0], x[:, 0]], axis=1)
    >>> rows = np.array([[0.25], [0.5]])
    >>> link = LogProbability("yes")
    >>> value = Marginal(predict_proba, rows, link=link, output_names=["no", "yes"])
    >>> np.exp(dshap.explain(value, rows).prediction.values[:, 0]).round(9).tolist()
    [0.25, 0.5]
    """

    name = "log_probability"
    scale = LOG

    def _values(self, p: FloatArray, prediction: FloatArray) -> FloatArray:
        return np.asarray(np.log(self._of_class(p, prediction)))


@dataclass(frozen=True)
class ExpectedLogProbability(ProbabilityLink):
    """Explain the expected log-probability over all k classes: Σ_y P(y | x) log P(y | x_S).

    P(y | x) = f(x) are the predicted probabilities, and P(y | x_S) are the expectations.

    Parameters
    ----------
    clip : see `LogOdds`

    Notes
    -----
    Source: Chen, Song, Wainwright & Jordan, L-Shapley and C-Shapley (2019), equation 1.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.values import ExpectedLogProbability, Marginal
    >>> def predict_proba(x):
    ...     return np.stack([x[:, 0], 1 - x[:, 0]], axis=1)
    >>> rows = np.array([[0.2, 5.0], [0.6, 7.0]])
    >>> value = Marginal(predict_proba, rows, link=ExpectedLogProbability())
    >>> cube = dshap.explain(value, rows)
    >>> cube.attribution.values[:, 1, 0].tolist()  # the model ignores the second column
    [0.0, 0.0]
    """

    name = "expected_log_probability"
    scale = EXPECTED_LOG

    def _values(self, p: FloatArray, prediction: FloatArray) -> FloatArray:
        return np.asarray(scipy.special.xlogy(prediction[:, None], p).sum(axis=2, keepdims=True))


IDENTITY = Identity()
LINKS: Mapping[str, Callable[..., Link]] = {
    "identity": Identity,
    "logit": Logit,
    "log_odds": LogOdds,
    "log_probability": LogProbability,
    "expected_log_probability": ExpectedLogProbability,
}
"""Name in `link=` -> the link's class."""


def link_of(given: str | Link | None, names: Sequence[str]) -> Link:
    """The link of this name, or the given link, bound to outputs of these names."""
    if given is None:
        return IDENTITY
    if isinstance(given, str):
        if given not in LINKS:
            raise InputError(unknown_name("link", given, LINKS))
        given = LINKS[given]()
    if isinstance(given, type) or not isinstance(given, Link):
        if not isinstance(given, type):
            refuse_lacking(given, Link, "link")
        raise InputError(
            f"link is {shown(given)}: give {', '.join(map(repr, LINKS))} or a link of dshap.values"
        )
    return given.bound(names)
